"""The page in a real browser: plots, zoom, keys, live rows, both widths, both schemes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from rlvitals.live.web import runs
from tests.browser.devtools import Tab
from tests.cli.runs import trl_rows
from tests.live.site import id_of, server, write_run

pytestmark = pytest.mark.slow
X0 = "Number(document.querySelector('[data-panel=reward] .plot').layout.xaxis.range[0])"
X1 = "Number(document.querySelector('[data-panel=reward] .plot').layout.xaxis.range[1])"
DRAWN = "document.querySelector('[data-panel=reward] .plot')?.layout"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    write_run(folder / "healthy", 200)
    write_run(folder / "sick", 200, nan_from=120, dump=False)
    return folder


@pytest.fixture(scope="module")
def site(root: Path) -> Iterator[str]:
    with server(root) as address:
        yield address


def clean(tab: Tab, site: str) -> None:
    """Nothing went wrong, nothing was blocked, nothing was asked of another machine."""
    assert tab.errors == []
    assert tab.dialogs == []
    assert {u for u in tab.requests if not u.startswith((site, "data:", "about:"))} == set()


def open_run(tab: Tab, site: str, path: Path, hash: str = "") -> None:
    tab.go(f"{site}/runs/{id_of(path)}{hash}")
    tab.js("document.getElementById('signs').scrollIntoView()")
    tab.until(DRAWN)


def test_the_list_leads_to_a_run(tab: Tab, site: str) -> None:
    tab.go(site)
    names = tab.js("[...document.querySelectorAll('.runs .name')].map(a => a.textContent)")
    assert names == ["sick", "healthy"]
    assert tab.js("document.querySelectorAll('.runs polyline').length") == 2
    tab.click(".runs .name")
    tab.until("document.body?.dataset.run && document.readyState === 'complete'")
    assert tab.js("document.querySelector('.word').textContent") == "■Stop"
    clean(tab, site)


def test_plots_are_drawn_with_their_incidents_under_the_strict_policy(tab: Tab, site: str, root: Path) -> None:
    open_run(tab, site, root / "sick")
    plot = "document.querySelector('[data-panel=reward] .plot')"
    assert tab.js(f"{plot}.querySelectorAll('.scatterlayer .trace').length") == 2
    assert tab.js(f"{plot}.layout.shapes.some(s => s.type === 'line' && s.x0 === 120)") is True
    assert tab.js(f"getComputedStyle({plot}.querySelector('.main-svg')).position") == "absolute"
    clean(tab, site)


def test_a_brush_over_one_plot_moves_all(tab: Tab, site: str, root: Path) -> None:
    open_run(tab, site, root / "sick")
    corner = "document.querySelector('[data-panel=reward] .nsewdrag').getBoundingClientRect()"
    x, y, width, height = (float(tab.js(f"{corner}.{side}")) for side in ("x", "y", "width", "height"))
    tab.drag(x + width * 0.25, y + height / 2, x + width * 0.5, y + height / 2)
    tab.until(f"{X1} < 120")
    ranges = (
        "[...document.querySelectorAll('.plot')].filter(p => p.getBoundingClientRect().top < innerHeight)"
        ".map(p => p.layout.xaxis.range.map(Math.round).join())"
    )
    tab.until(f"new Set({ranges}).size === 1")
    shown = tab.js(ranges)
    assert len(shown) >= 4
    assert [int(n) for n in shown[0].split(",")] == pytest.approx([51, 100], abs=3)
    assert re.fullmatch(r"steps 5\d-\d+", tab.js("document.getElementById('window').textContent"))
    clean(tab, site)


def test_keys_move_zoom_and_reset(tab: Tab, site: str, root: Path) -> None:
    open_run(tab, site, root / "sick")
    tab.js("document.getElementById('plots').focus()")
    tab.press("+")
    tab.until(f"{X0} > 40 && {X1} < 160")
    middle = tab.js(X0)
    tab.press("ArrowRight")
    tab.until(f"{X0} > {middle} + 10")
    tab.press("ArrowLeft")
    tab.until(f"Math.abs({X0} - {middle}) < 1")
    tab.press("o")
    tab.until(f"{X0} < 120 && {X0} > 60 && {X1} > 120 && {X1} < 170")
    tab.press("0")
    tab.until(f"{X0} === 1 && {X1} === 200")
    clean(tab, site)


def test_evidence_jumps_to_its_steps(tab: Tab, site: str, root: Path) -> None:
    open_run(tab, site, root / "sick")
    tab.js("scrollTo(0, 0)")
    link = tab.js("document.querySelector('#causes .evidence a.jump').getAttribute('href')")
    first, last = (int(n) for n in re.findall(r"\d+", link))
    tab.click("#causes .evidence a.jump")
    tab.until(f"{X0} < {first} && {X1} >= {min(last, 200)} && {X0} > 1")
    tab.until("document.getElementById('signs').getBoundingClientRect().top < innerHeight / 2")
    assert tab.js("document.activeElement.id") == "plots"
    clean(tab, site)


def test_an_address_with_steps_opens_there(tab: Tab, site: str, root: Path) -> None:
    open_run(tab, site, root / "healthy", "#steps=50-60")
    tab.until(f"Math.round({X0}) === 47 && Math.round({X1}) === 63")
    clean(tab, site)


def test_log_axis_raw_lines_and_another_run(tab: Tab, site: str, root: Path) -> None:
    open_run(tab, site, root / "sick")
    plot = "document.querySelector('[data-panel=reward] .plot')"
    tab.click("#c-log")
    tab.until(f"{plot}.layout.yaxis.type === 'log'")
    tab.click("#c-raw")
    tab.until(f"{plot}.data.length === 1")
    assert tab.js("document.getElementById('c-raw').getAttribute('aria-pressed')") == "true"
    select = "document.getElementById('with')"
    tab.js(f"{select}.value = '{id_of(root / 'healthy')}'; {select}.dispatchEvent(new Event('change'))")
    tab.until(f"{plot}.data.length === 2 && {plot}.data[1].name.startsWith('other: ')")
    assert tab.js(f"{plot}.data[1].line.dash") == "dot"
    clean(tab, site)


def test_new_rows_appear_by_themselves(tab: Tab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "POLL_SECONDS", 0.1)
    monkeypatch.setattr(runs, "REST", 0.0)
    folder = write_run(tmp_path / "growing", 80, dump=False)
    with server(tmp_path) as site:
        open_run(tab, site, folder)
        tab.js("document.getElementById('c-log').click(); document.getElementById('c-onset')?.id")
        rows = trl_rows(140, nan_from=90)[80:]
        with (folder / "log.jsonl").open("a") as file:
            for row in rows:
                file.write(json.dumps(row) + "\n")
        tab.until("document.querySelector('.word').textContent.includes('Stop')")
        tab.until(f"{X1} === 140")
        assert "live · step 140" in tab.js("document.getElementById('live').textContent")
        assert tab.js("document.getElementById('c-log').getAttribute('aria-pressed')") == "true"
        assert tab.js("document.body.className") == "stop"
        clean(tab, site)


def test_everything_is_reached_with_the_tab_key(tab: Tab, site: str, root: Path) -> None:
    tab.go(f"{site}/runs/{id_of(root / 'sick')}")
    seen = []
    for _ in range(60):
        tab.press("Tab")
        seen.append(tab.js("(e => e.id || e.className || e.tagName)(document.activeElement)"))
    assert seen[0] == "skip"
    assert {"c-smooth", "c-raw", "c-linear", "c-log", "c-whole", "c-onset", "with", "plots", "jump"} <= set(seen)
    tab.js("document.getElementById('c-log').focus()")
    assert tab.js("getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_rollouts_are_browsed(tab: Tab, site: str, root: Path) -> None:
    base = f"{site}/runs/{id_of(root / 'healthy')}"
    tab.go(f"{base}/rollouts")
    tab.js("document.querySelector('[name=family]').value = 'chains'")
    tab.js("document.querySelector('[name=steps]').value = '2'")
    tab.click(".filters button")
    tab.until("location.search.includes('family=chains')")
    assert tab.js("document.querySelectorAll('tbody tr').length") == 4
    tab.click("tbody td.id a")
    tab.until("document.querySelectorAll('.side article').length === 4")
    assert tab.js("[...document.querySelectorAll('.side .completion')].map(p => p.textContent.split('\\n')[0])") == [
        f"  thinking {i}" for i in range(4)
    ]
    tab.click(".side h3 a")
    tab.until("document.querySelector('.texts')")
    assert tab.js("document.querySelector('.raw_output').textContent") == "score=1.0"
    clean(tab, site)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
def test_no_page_is_wider_than_the_window(tab: Tab, site: str, root: Path, width: int, scheme: str) -> None:
    tab.size(width)
    tab.scheme(scheme)
    healthy, sick = id_of(root / "healthy"), id_of(root / "sick")
    for path in ("/", f"/runs/{sick}", f"/runs/{healthy}", f"/runs/{healthy}/rollouts", f"/runs/{healthy}/rollouts/5",
                 f"/runs/{healthy}/group?step=2&group=g2-1"):  # fmt: skip
        tab.go(site + path)
        assert tab.js("document.documentElement.scrollWidth <= innerWidth"), path
        assert contrast(tab) >= 4.5, path
    clean(tab, site)


def contrast(tab: Tab) -> float:
    """Return the lowest contrast of any text to the paper, by the formula of WCAG 2."""
    return float(tab.js((Path(__file__).parent / "contrast.js").read_text()))
