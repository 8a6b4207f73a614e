"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const state = { smooth: true, log: false };
  const plots = data.panels.map((panel, i) => ({ panel, node: document.getElementById("plot-" + i) }));
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const touch = matchMedia("(pointer: coarse)").matches;
  const dashes = ["solid", "solid", "solid", "dash", "dash", "dot", "dot"];
  let following = false;

  function traces(panel) {
    const out = [];
    panel.lines.forEach((line, i) => {
      const color = css("--s" + i);
      const both = state.smooth && line.sx.length > 0;
      const raw = {
        x: line.x, y: line.y, name: line.name, type: "scatter", mode: line.marks ? "lines+markers" : "lines",
        line: { color, width: both ? 1 : 1.4, dash: dashes[i] }, marker: { color, size: 5 }, cliponaxis: !line.marks, opacity: both ? 0.28 : 1,
        hoverinfo: both ? "skip" : "all", hovertemplate: both ? undefined : "%{y:.4g}", showlegend: false,
      };
      if (line.err) raw.error_y = { type: "data", array: line.err, color, thickness: 1, width: 2 };
      out.push(raw);
      if (both) out.push({
        x: line.sx, y: line.sy, name: line.name, type: "scatter", mode: "lines", showlegend: false,
        line: { color, width: 2, dash: dashes[i] }, hovertemplate: "%{y:.4g}",
      });
    });
    return out;
  }

  function marks(panel) {
    const shapes = [], annotations = [];
    let labelled = -Infinity;
    for (const s of panel.stretches.slice().sort((a, b) => a.first - b.first)) {
      const color = css(s.role === "recovered" ? "--soft" : "--incident");
      const rect = (x0, x1, opacity) => shapes.push({
        type: "rect", xref: "x", yref: "paper", x0, x1, y0: 0, y1: 1, fillcolor: color, opacity, line: { width: 0 }, layer: "below",
      });
      if (s.onset_last > s.first) rect(s.first, s.onset_last, 0.05); // it may have begun anywhere in here
      if (s.role !== "consequence") rect(s.onset_last, s.last, s.role === "recovered" ? 0.08 : 0.11);
      shapes.push({
        type: "line", xref: "x", yref: "paper", x0: s.first, x1: s.first, y0: 0, y1: 1,
        line: { color, width: 1.25, dash: s.role === "consequence" ? "dot" : "solid" },
      });
      if (s.first - labelled < 0.08 * (data.whole[1] - data.whole[0])) continue;
      labelled = s.first;
      annotations.push({
        x: s.first, y: 1, xref: "x", yref: "paper", text: s.id, showarrow: false, yanchor: "bottom", font: { size: 11, color },
      });
    }
    return { shapes, annotations };
  }

  function layout(panel) {
    const soft = css("--soft"), line = css("--line"), log = state.log && panel.log;
    const bounds = { autorangeoptions: { clipmin: panel.low, clipmax: panel.high } };
    const axis = { gridcolor: line, zeroline: false, linecolor: line, tickfont: { size: 11 }, automargin: true };
    return {
      ...marks(panel),
      margin: { l: 44, r: 10, t: 18, b: 24 }, paper_bgcolor: "transparent", plot_bgcolor: "transparent",
      font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: soft },
      xaxis: { ...axis, showgrid: false, range: panel.range.slice(), nticks: 6, hoverformat: "d" },
      yaxis: { ...axis, type: log ? "log" : "linear", nticks: 5, exponentformat: "power", minexponent: 4, ...(log ? {} : bounds) },
      hovermode: "x unified", dragmode: touch ? false : "zoom", showlegend: false,
      hoverlabel: { bgcolor: css("--paper"), bordercolor: line, font: { color: css("--ink"), size: 12 } },
    };
  }

  function draw() {
    for (const p of plots) {
      const next = layout(p.panel);
      if (p.node.layout) next.xaxis.range = p.node.layout.xaxis.range.slice();
      Plotly.react(p.node, traces(p.panel), next, { displayModeBar: false, doubleClick: false });
    }
  }

  function zoom(range) {
    following = true;
    Promise.all(plots.map((p) => Plotly.relayout(p.node, { "xaxis.range": range.slice(), "yaxis.autorange": true })))
      .finally(() => { following = false; });
  }

  draw();
  for (const p of plots) {
    p.node.on("plotly_relayout", (change) => {
      if (following || change["xaxis.range[0]"] === undefined) return;
      following = true;
      const range = [change["xaxis.range[0]"], change["xaxis.range[1]"]];
      Promise.all(plots.filter((o) => o !== p).map((o) => Plotly.relayout(o.node, { "xaxis.range": range.slice() })))
        .finally(() => { following = false; });
    });
    p.node.on("plotly_doubleclick", () => zoom(data.whole));
  }
  const resized = new ResizeObserver((entries) => entries.forEach((e) => Plotly.Plots.resize(e.target)));
  plots.forEach((p) => resized.observe(p.node));
  document.querySelector(".controls").hidden = false;
  document.querySelectorAll("[data-set]").forEach((button) => button.addEventListener("click", () => {
    state[button.dataset.set] = button.dataset.to === "1";
    button.parentElement.querySelectorAll("button").forEach((b) => b.setAttribute("aria-pressed", String(b === button)));
    draw();
  }));
  document.querySelectorAll("[data-zoom]").forEach((button) => button.addEventListener("click", () => {
    zoom(button.dataset.zoom === "onset" ? data.onset : data.whole);
  }));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
})();
