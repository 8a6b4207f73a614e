"""The HTML page and the notebook fragment: offline, escaped, complete."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import orjson
import pytest

from rlvitals.conclude import diagnose
from rlvitals.report import html
from rlvitals.schema import Evals, TrainerInfo
from tests.report.examples import CHECKS, HOSTILE, a_run, sick, too_short, well


class Elements(HTMLParser):
    """Collects start tags with their attributes, and the visible text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def own_part(page: str) -> str:
    """The page without plotly.js, which is not ours to test."""
    return page.replace(html._plotly(), "")


def plots(page: str) -> dict[str, object]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    return orjson.loads(found[1])


def hostile_run() -> object:
    run = a_run(HOSTILE, trainer=TrainerInfo(HOSTILE))
    columns = {**run.columns, f"reward_part/{HOSTILE}": run.columns["reward_mean"]}
    evals = {HOSTILE: Evals(HOSTILE, np.array([10, 20]), np.array([0.1, 0.2]), np.full(2, np.nan))}
    return replace(run, columns=columns, evals=evals)


@pytest.mark.parametrize("make", [html.render, html.fragment])
def test_no_untrusted_text_becomes_an_element(make: object) -> None:
    hostile, plain = diagnose(hostile_run(), CHECKS), sick()
    page = own_part(make(replace(hostile, crash=HOSTILE)))  # type: ignore[operator]
    assert "<img" not in page
    assert "\x1b" not in page
    kinds = {t for t, _ in Elements(page).tags}
    assert kinds <= {t for t, _ in Elements(own_part(make(plain))).tags} | {"p"}  # type: ignore[operator]
    assert "onerror" not in {a for _, attrs in Elements(page).tags for a in attrs}


def test_names_inside_the_plots_are_escaped_for_plotly_too() -> None:
    lines = plots(html.render(diagnose(hostile_run(), CHECKS)))["panels"][0]["lines"]  # type: ignore[index]
    names = [line["name"] for line in lines]
    assert any("&lt;/script&gt;&lt;img" in name for name in names)
    assert not any("<" in name for name in names)


def test_the_page_asks_nothing_of_the_network() -> None:
    page = html.render(sick())
    tags = Elements(own_part(page)).tags
    assert not [t for t, attrs in tags if t in ("link", "iframe", "img") or "src" in attrs or "href" in attrs]
    assert "default-src 'none'" in page
    assert "@import" not in own_part(page)
    assert html._plotly() in page


def test_parts_come_in_the_order_of_the_terminal_report() -> None:
    headings = re.findall(r"<h2>(.*?)</h2>", own_part(html.render(sick())))
    assert headings == [
        "Course",
        "Cause",
        "Vital signs",
        "Noted, nothing to do",
        "Ruled out",
        "Blind spots",
        "Plan",
        "Rollback",
        "Cost",
    ]


def test_only_measured_series_are_plotted_and_the_onset_is_marked() -> None:
    page = html.render(sick())
    titles = re.findall(r"<figcaption><b>(.*?)</b>", page)
    assert titles[:3] == ["Reward and components", "Held-out accuracy", "Groups without signal"]
    assert "Clipped ratios" not in titles  # a constant placeholder
    data = plots(page)
    assert len(data["panels"]) == len(titles)  # type: ignore[arg-type]
    tied = data["panels"][2]  # type: ignore[index]
    assert tied["stretches"] == [{"id": "S001", "role": "cause", "first": 96, "last": 200, "onset_last": 101}]
    assert (tied["low"], tied["high"], tied["log"]) == (0, 1, True)
    assert tied["lines"][0]["x"][-1] == 200


def test_without_a_run_the_page_has_no_plots_and_stays_small() -> None:
    page = html.render(replace(sick(), run=None))
    assert "<script" not in page
    assert "zero-variance-groups" in page


def test_healthy_names_the_blind_families_and_a_crash_stands_apart() -> None:
    text = " ".join(Elements(own_part(html.render(replace(well(), crash="SIGKILL")))).text.split())
    assert "6 of 7 checks that apply could look blind: sync" in text
    assert "The process died: SIGKILL. That is another matter than the run's health." in text


def test_cannot_say_says_what_to_log() -> None:
    assert "Let it train for 10 more steps: 10 rows have a reward, and 20 are needed." in html.render(too_short())


def test_the_notebook_fragment_styles_nothing_outside_itself() -> None:
    piece = sick()._repr_html_()
    css = re.search(r"<style>(.*?)</style>", piece, re.DOTALL)
    assert css is not None
    selectors = [s.strip() for rule in re.findall(r"([^{}]+)\{", css[1]) for s in rule.split(",")]
    assert selectors
    assert all(s.startswith(".rlvitals") for s in selectors)
    assert "<script" not in piece
    assert len(piece) < 20_000
