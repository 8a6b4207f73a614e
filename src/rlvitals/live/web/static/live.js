"use strict";
/* Keeps a page up to date: on each event the page is fetched again and the parts that changed are put in its place. */
(() => {
  const address = document.body.dataset.events;
  if (!address) return;
  const status = document.getElementById("live");
  const sent = new Map(); // part -> what the server last sent for it
  for (const node of document.querySelectorAll("[data-part]")) sent.set(node.dataset.part, node.outerHTML);
  let revision = Number(document.body.dataset.revision || -1), busy = false, again = false, seen = 0;

  function replace(node, next) {
    const open = [...node.querySelectorAll("details[open]")].map((d) => d.id);
    const focused = node.contains(document.activeElement) ? document.activeElement.id : "";
    node.replaceWith(document.adoptNode(next));
    for (const id of open) document.getElementById(id)?.setAttribute("open", "");
    if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
  }

  async function refresh() {
    if (busy) { again = true; return; }
    busy = true;
    try {
      const answer = await fetch(location.pathname + location.search, { headers: { accept: "text/html" } });
      if (!answer.ok) return;
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      if (document.body.dataset.reload && page.querySelector("[data-part]")) { location.reload(); return; }
      document.title = page.title;
      document.body.className = page.body.className;
      for (const next of page.querySelectorAll("[data-part]")) {
        const part = next.dataset.part, html = next.outerHTML;
        const node = document.querySelector(`[data-part="${part}"]`);
        if (!node || sent.get(part) === html) continue;
        if (part === "signs" && node.dataset.keys === next.dataset.keys) continue; // the same plots: only their lines change
        sent.set(part, html);
        replace(node, next);
      }
      document.dispatchEvent(new CustomEvent("rlvitals:read"));
    } catch { /* the event stream says when the server is gone */ } finally {
      busy = false;
      if (again) { again = false; refresh(); }
    }
  }

  let events = null;
  /* A browser opens six connections to a server: only pages that are looked at hold one. */
  function listen() {
    events?.close();
    events = null;
    if (document.hidden) return;
    events = new EventSource(address);
    events.onopen = () => { status.classList.remove("lost"); status.textContent = "live"; };
    events.onerror = () => { status.classList.add("lost"); status.textContent = "connection lost; trying again"; };
    events.onmessage = heard;
  }

  function heard(event) {
    const now = JSON.parse(event.data);
    if (now.revision === -1) { status.textContent = "this run is gone"; return; }
    status.textContent = now.last_step === null || now.last_step === undefined ? "live" : "live · step " + now.last_step;
    if (now.revision !== revision || seen === 0 && revision === -1) {
      revision = now.revision;
      if (seen > 0 || document.body.dataset.revision !== undefined || document.body.dataset.reload) refresh();
    }
    seen += 1;
  }

  listen();
  document.addEventListener("visibilitychange", listen);
  addEventListener("pagehide", () => events?.close());
  addEventListener("pageshow", (event) => { if (event.persisted) listen(); });
})();
