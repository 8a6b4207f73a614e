"""Hostile rollouts, file names, metric names and reward parts in a real browser: all of it is text, none of it runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser.devtools import Tab
from tests.cli.runs import trl_rows, write_jsonl
from tests.live.site import FILE_NAME, id_of, rollout_rows, server

pytestmark = pytest.mark.slow
PAYLOADS = (
    "<script>alert(1)</script>",
    "</script><script>alert(2)</script>",
    "<img src=x onerror=alert(3)>",
    '"><svg onload=alert(4)>',
    "' onmouseover='alert(5)' x='",
    "javascript:alert(6)",
    '<a href="javascript:alert(7)">x</a>',
    '<iframe srcdoc="<script>parent.alert(8)</script>"></iframe>',
    "{{ 7 * 7 }}{% raw %}${alert(9)}",
    "<style>body{display:none}</style>",
    "<meta http-equiv=refresh content='0;url=http://example.invalid/'>",
    "<base href=http://example.invalid/>",
    "--><!--<b>&lt;i&gt;",
    "\u202e\u2028\u2029\x1b[31m\x07",
    "</pre></textarea></title><u>x",
    "<form action=http://example.invalid/><button>send",
)
ALL = " ".join(PAYLOADS)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    rows = trl_rows(60, nan_from=40)
    for row in rows:
        for n, payload in enumerate(PAYLOADS):
            row[f"rewards/{payload}/mean"] = 0.1 * n + 0.001 * float(str(row["step"]))
    write_jsonl(folder / FILE_NAME.replace("/", "") / "log.jsonl", rows)
    found = rollout_rows(text=ALL)
    for row in found:
        row |= {"stop_reason": ALL, "verifier_status": ALL, "tier": ALL, "prompt_id": ALL, "env_version": ALL}
        row |= {f"reward_part/{payload}": 0.5 for payload in PAYLOADS}
    write_jsonl(folder / FILE_NAME.replace("/", "") / "rollouts" / "all.jsonl", found)
    return folder


@pytest.fixture(scope="module")
def site(root: Path) -> Iterator[str]:
    with server(root) as address:
        yield address


def addresses(root: Path) -> list[str]:
    from urllib.parse import quote

    base = f"/runs/{id_of(root / FILE_NAME.replace('/', ''))}"
    group = quote(f"g2-1{ALL}"[:200])
    return [
        "/", base, f"{base}/rollouts", f"{base}/rollouts/5", f"{base}/group?step=2&group={group}", f"{base}/score",
        f"{base}/rollouts?family={quote(PAYLOADS[2])}&group={quote(PAYLOADS[3])}",
        f"/runs/{quote(PAYLOADS[2], safe='')}",
        f"{base}/rollouts?{quote(PAYLOADS[2])}=1",
    ]  # fmt: skip


def count(selector: str, condition: str = "true") -> str:
    """Return the expression that counts the elements which fit."""
    return f"[...document.querySelectorAll('{selector}')].filter(e => {condition}).length"


def test_nothing_runs_and_nothing_leaves(tab: Tab, site: str, root: Path) -> None:
    for path in addresses(root):
        tab.go(site + path)
        tab.js("scrollTo(0, document.body.scrollHeight)")
        tab.js("new Promise(r => setTimeout(r, 400))")
        assert tab.js("location.origin") == site
        assert tab.js(count("main :is(script, img, iframe, base, meta, style, u)")) == 0, path
        assert tab.js(count("*", "[...e.attributes].some(a => a.name.startsWith('on'))")) == 0, path
        assert tab.js(count("a", "e.protocol !== 'http:' || e.origin !== location.origin")) == 0, path
        assert tab.js("getComputedStyle(document.body).display") != "none"
    assert tab.dialogs == []
    assert {u for u in tab.requests if not u.startswith((site, "data:", "about:"))} == set()
    assert [e for e in tab.errors if "Failed to load resource" not in e] == []


def test_the_text_is_shown_as_it_is(tab: Tab, site: str, root: Path) -> None:
    base = f"{site}/runs/{id_of(root / FILE_NAME.replace('/', ''))}"
    tab.go(f"{base}/rollouts/5")
    text = tab.js("document.querySelector('.completion').textContent")
    for payload in PAYLOADS[:13]:
        assert payload in text
    assert "\u202e" not in text  # invisible characters show their escape
    assert "\\u202e" in text
    tab.go(base)
    assert tab.js("document.querySelector('h1').textContent") == FILE_NAME.replace("/", "")


def test_names_in_the_plots_are_text_too(tab: Tab, site: str, root: Path) -> None:
    tab.go(f"{site}/runs/{id_of(root / FILE_NAME.replace('/', ''))}")
    tab.js("document.getElementById('signs').scrollIntoView()")
    tab.until("document.querySelector('[data-panel=reward] .plot')?.layout")
    plot = "document.querySelector('[data-panel=reward] .nsewdrag').getBoundingClientRect()"
    x, y = float(tab.js(f"{plot}.x + {plot}.width / 2")), float(tab.js(f"{plot}.y + {plot}.height / 2"))
    tab.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
    tab.until("document.querySelector('.hoverlayer .legend text, .hoverlayer .hovertext')")
    hover = tab.js("document.querySelector('.hoverlayer').textContent")
    assert '"><svg onload=alert(4)>' in hover.replace("&lt;", "<").replace("&gt;", ">")
    assert tab.js("document.querySelectorAll('.hoverlayer a, .hoverlayer image').length") == 0
    assert tab.dialogs == []


def test_the_api_sends_json_that_no_browser_renders(tab: Tab, site: str, root: Path) -> None:
    tab.go(f"{site}/api/runs")
    assert tab.js("document.contentType") == "application/json"
    assert json.loads(tab.js("document.body.textContent"))["runs"][0]["name"] == FILE_NAME.replace("/", "")
    tab.go(f"{site}/api/runs/%3Cscript%3Ealert(1)%3C%2Fscript%3E")
    assert tab.dialogs == []
