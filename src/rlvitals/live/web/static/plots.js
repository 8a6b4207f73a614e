"use strict";
/* The plots of one run. The server decimates; only plots on the screen are fetched and drawn. */
(() => {
  const id = document.body.dataset.run;
  const state = { smooth: true, log: false, over: "", window: null }; // window null: the whole run, as it grows
  const whole = { first: 0, last: 1, onset: [0, 1] };
  const touch = matchMedia("(pointer: coarse)").matches;
  const dashes = ["solid", "solid", "solid", "dash", "dash", "dot", "dot"];
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const MIN_STEPS = 2;
  let plots = new Map(); // panel key -> { node, figure, data, range, visible, stale }
  let colours = {}, asking = null, observer = null, sizes = null, drawing = false, later = 0;

  function paint() {
    colours = { soft: css("--soft"), line: css("--line"), paper: css("--paper"), ink: css("--ink"), incident: css("--incident") };
    for (let i = 0; i < 7; i++) colours[i] = css("--s" + i);
  }

  function traces(panel) {
    const out = [];
    panel.lines.forEach((line, i) => {
      const color = colours[i], both = state.smooth && line.sx.length > 0;
      const raw = {
        x: line.x, y: line.y, name: line.name, type: "scatter", mode: line.marks ? "lines+markers" : "lines",
        line: { color, width: both ? 1 : 1.4, dash: dashes[i] }, marker: { color, size: 5 }, opacity: both ? 0.28 : 1,
        hoverinfo: both ? "skip" : "all", hovertemplate: both ? undefined : "%{y:.4g}", showlegend: false,
      };
      if (line.err) raw.error_y = { type: "data", array: line.err, color, thickness: 1, width: 2 };
      out.push(raw);
      if (both) out.push({
        x: line.sx, y: line.sy, name: line.name, type: "scatter", mode: "lines", showlegend: false,
        line: { color, width: 2, dash: dashes[i] }, hovertemplate: "%{y:.4g}",
      });
    });
    for (const line of panel.over || []) out.push({
      x: line.x, y: line.y, name: "other: " + line.name, type: "scatter", mode: "lines", showlegend: false,
      line: { color: colours.ink, width: 1.4, dash: ["dot", "dashdot", "longdash"][line.beside % 3] }, opacity: 0.75, hovertemplate: "%{y:.4g}",
    });
    return out;
  }

  function marks(panel, range, width) {
    const shapes = [], annotations = [];
    const apart = (42 / Math.max(width - 62, 100)) * (range[1] - range[0]); // steps that a label is wide
    let labelled = -Infinity;
    for (const s of panel.stretches.slice().sort((a, b) => a.first - b.first)) {
      const color = s.role === "recovered" ? colours.soft : colours.incident;
      const rect = (x0, x1, opacity) => shapes.push({
        type: "rect", xref: "x", yref: "paper", x0, x1, y0: 0, y1: 1, fillcolor: color, opacity, line: { width: 0 }, layer: "below",
      });
      if (s.onset_last > s.first) rect(s.first, s.onset_last, 0.05); // it may have begun anywhere in here
      if (s.role !== "consequence") rect(s.onset_last, s.last, s.role === "recovered" ? 0.08 : 0.11);
      shapes.push({
        type: "line", xref: "x", yref: "paper", x0: s.first, x1: s.first, y0: 0, y1: 1,
        line: { color, width: 1.25, dash: s.role === "consequence" ? "dot" : "solid" },
      });
      if (s.first < range[0] || s.first > range[1] || s.first - labelled < apart) continue;
      labelled = s.first;
      annotations.push({ x: s.first, y: 1, xref: "x", yref: "paper", text: s.id, showarrow: false, yanchor: "bottom", font: { size: 11, color } });
    }
    return { shapes, annotations };
  }

  function layout(panel, range, width) {
    const log = state.log && panel.log;
    const bounds = { autorangeoptions: { clipmin: panel.low, clipmax: panel.high } };
    const axis = { gridcolor: colours.line, zeroline: false, linecolor: colours.line, tickfont: { size: 11 }, automargin: false };
    return {
      ...marks(panel, range, width), autosize: true,
      margin: { l: 52, r: 10, t: 18, b: 24 }, paper_bgcolor: "transparent", plot_bgcolor: "transparent",
      font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: colours.soft },
      xaxis: { ...axis, showgrid: false, range: range.slice(), nticks: 6, hoverformat: "d" },
      yaxis: { ...axis, fixedrange: true, type: log ? "log" : "linear", nticks: 5, exponentformat: "e", minexponent: 4, ...(log ? {} : bounds) },
      hovermode: "x unified", dragmode: touch ? false : "zoom", showlegend: false,
      hoverlabel: { bgcolor: colours.paper, bordercolor: colours.line, font: { color: colours.ink, size: 12 } },
    };
  }

  const inView = () => state.window || [whole.first, Math.max(whole.last, whole.first + 1)];

  function drawOne(p, range) {
    p.stale = false;
    const first = !p.node.layout;
    Plotly.react(p.node, traces(p.data), layout(p.data, range, p.node.clientWidth), { displayModeBar: false, doubleClick: false });
    if (first) listen(p);
  }

  /* Draw what is on the screen, then what is near it; the rest waits until it is scrolled there. */
  function draw() {
    drawing = false;
    const range = inView(), near = [];
    for (const p of plots.values()) {
      p.stale = true;
      if (!p.visible || !p.data) continue;
      const box = p.figure.getBoundingClientRect();
      if (box.bottom > 0 && box.top < innerHeight) drawOne(p, range); else near.push(p);
    }
    cancelAnimationFrame(later);
    later = requestAnimationFrame(() => requestAnimationFrame(() => near.forEach((p) => drawOne(p, inView()))));
    document.body.dataset.drawn = String(Number(document.body.dataset.drawn || 0) + 1);
    const text = document.getElementById("window");
    if (text) text.textContent = state.window ? `steps ${Math.round(range[0])}-${Math.round(range[1])}` : "";
  }
  const soon = () => { if (!drawing) { drawing = true; requestAnimationFrame(draw); } };

  function listen(p) {
    p.node.on("plotly_relayout", (change) => {
      if (change["xaxis.range[0]"] === undefined) return;
      show([change["xaxis.range[0]"], change["xaxis.range[1]"]], true);
    });
    p.node.on("plotly_doubleclick", () => show(null, true));
  }

  /* As many points as a plot has columns: the lowest and the highest value of every second one. */
  const points = () => Math.min(4000, Math.max(300, [...plots.values()][0]?.node.clientWidth || 300));

  /* Fetch the visible plots for the steps in view; a newer question cancels an older one. */
  async function load() {
    const keys = [...plots.values()].filter((p) => p.visible).map((p) => p.key);
    if (!keys.length) return;
    asking?.abort();
    asking = new AbortController();
    const query = new URLSearchParams({ panels: keys.join(","), points: String(points()) });
    if (state.window) { query.set("from", String(Math.max(0, Math.floor(state.window[0])))); query.set("to", String(Math.max(0, Math.ceil(state.window[1])))); }
    if (state.over) query.set("with", state.over);
    try {
      const answer = await fetch(`/api/runs/${id}/series?${query}`, { signal: asking.signal });
      if (!answer.ok) return;
      const found = await answer.json();
      whole.first = found.first; whole.last = found.last; whole.onset = found.onset;
      for (const [key, data] of Object.entries(found.panels)) {
        const p = plots.get(key);
        if (p) { p.data = data; p.asked = false; }
      }
      soon();
    } catch (error) { if (error.name !== "AbortError") throw error; }
  }

  function show(range, remember) {
    if (range) {
      let [a, b] = range;
      if (b - a < MIN_STEPS) { const middle = (a + b) / 2; a = middle - MIN_STEPS / 2; b = middle + MIN_STEPS / 2; }
      const size = Math.min(b - a, Math.max(whole.last - whole.first, MIN_STEPS));
      a = Math.min(Math.max(a, whole.first), Math.max(whole.last - size, whole.first));
      state.window = size >= whole.last - whole.first ? null : [a, a + size];
    } else state.window = null;
    if (remember) {
      const hash = state.window ? `#steps=${Math.floor(state.window[0])}-${Math.ceil(state.window[1])}` : "";
      history.replaceState(null, "", location.pathname + location.search + hash);
    }
    for (const p of plots.values()) if (!p.visible) p.asked = true;
    load();
  }

  function fromHash(scroll) {
    const found = /^#steps=(\d+)-(\d+)$/.exec(location.hash);
    if (!found) return;
    const first = Number(found[1]), last = Number(found[2]), margin = Math.max((last - first) * 0.15, 3);
    show([first - margin, last + margin], false);
    if (scroll) {
      const signs = document.getElementById("signs");
      signs?.scrollIntoView({ block: "start", behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
      document.getElementById("plots")?.focus({ preventScroll: true });
    }
  }

  function key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.id !== "plots") return;
    const [a, b] = inView(), size = b - a, middle = (a + b) / 2;
    const moves = {
      ArrowLeft: () => show([a - size / 4, b - size / 4], true), ArrowRight: () => show([a + size / 4, b + size / 4], true),
      "+": () => show([middle - size / 4, middle + size / 4], true), "=": () => show([middle - size / 4, middle + size / 4], true),
      "-": () => show([middle - size, middle + size], true), 0: () => show(null, true), o: () => show(whole.onset, true),
    };
    if (moves[event.key]) { event.preventDefault(); moves[event.key](); }
  }

  function connect() {
    observer?.disconnect(); sizes?.disconnect();
    plots = new Map();
    observer = new IntersectionObserver((entries) => {
      let ask = false;
      for (const entry of entries) {
        const p = plots.get(entry.target.dataset.panel);
        if (!p) continue;
        p.visible = entry.isIntersecting;
        if (p.visible && (!p.data || p.asked)) ask = true;
        else if (p.visible && p.stale) soon();
      }
      if (ask) load();
    }, { rootMargin: "150px" });
    sizes = new ResizeObserver((entries) => entries.forEach((e) => { if (e.target.layout) Plotly.Plots.resize(e.target); }));
    for (const figure of document.querySelectorAll("figure[data-panel]")) {
      const node = figure.querySelector(".plot");
      plots.set(figure.dataset.panel, { key: figure.dataset.panel, node, figure, data: null, visible: false, stale: true, asked: false });
      observer.observe(figure);
      sizes.observe(node);
    }
    document.getElementById("plots")?.addEventListener("keydown", key);
    document.querySelectorAll("[data-set]").forEach((button) => button.addEventListener("click", () => {
      state[button.dataset.set] = button.dataset.to === "1";
      button.parentElement.querySelectorAll("button").forEach((b) => b.setAttribute("aria-pressed", String(b === button)));
      soon();
    }));
    document.querySelectorAll("[data-zoom]").forEach((button) => button.addEventListener("click", () => {
      show(button.dataset.zoom === "onset" ? whole.onset : null, true);
    }));
    document.querySelectorAll("[data-set]").forEach((b) => b.setAttribute("aria-pressed", String(state[b.dataset.set] === (b.dataset.to === "1"))));
    const select = document.getElementById("with");
    select?.addEventListener("change", () => { state.over = select.value; for (const p of plots.values()) p.asked = true; load(); });
    if (select) select.value = state.over;
  }

  const known = document.getElementById("plots")?.dataset;
  if (known) Object.assign(whole, { first: Number(known.first), last: Number(known.last), onset: known.onset.split(" ").map(Number) });
  paint();
  connect();
  if (location.hash) fromHash(false);
  addEventListener("hashchange", () => fromHash(true));
  addEventListener("click", (event) => { // the same steps again: the hash does not change
    const link = event.target.closest?.("a.jump");
    if (link && link.hash === location.hash) { event.preventDefault(); fromHash(true); }
  });
  document.addEventListener("rlvitals:read", () => {
    if ([...plots.values()].some((p) => !p.node.isConnected) || !plots.size) connect();
    for (const p of plots.values()) if (!p.visible) p.asked = true;
    load();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { paint(); draw(); });
})();
