"""Every reference of a check leads somewhere: to a heading of a page in docs/, or to a public source that is named."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from rlvitals.check import Check, SourceKind
from rlvitals.checks import CHECKS
from rlvitals.false_alarms import FALSE_ALARMS

ROOT = Path(__file__).parents[1]
PAGE = re.compile(r"docs/([\w.-]+\.md): ([^;]+)")
ARXIV = re.compile(r"\b\d{4}\.\d{5}\b")
REPORT = re.compile(r"([\w.-]+(?:/[\w.-]+)?)(?: PR)?#\d+")


@cache
def headings(page: str) -> frozenset[str]:
    """Return what can be cited of a page: headings, the number of a numbered one, names after "Cited as"."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    titles = re.findall(r"^#{2,3} (.+)$", text, re.MULTILINE)
    names = [*titles, *(t.partition(".")[0] for t in titles if t[0].isdigit())]
    for line in re.findall(r"^Cited as: (.+)\.$", text, re.MULTILINE):
        names += line.split("; ")
    return frozenset(name.strip().lower() for name in names)


@cache
def known_names() -> tuple[frozenset[str], frozenset[str]]:
    """Return (repositories, papers and documents) of "Names of sources" in docs/evidence.md."""
    text = (ROOT / "docs" / "evidence.md").read_text(encoding="utf-8").partition("## Names of sources")[2]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]
    four = [row for row in rows if len(row) == 4]
    repositories = {cell for row in four for cell in row} | set(re.findall(r"`([\w-]+)`", text))
    return frozenset(repositories), frozenset(row[0] for row in rows if len(row) == 2 and row[0] != "name")


def _name(cited: str) -> str:
    """Return the heading that is cited, without a remark in brackets behind it or a bracket around the reference."""
    name = cited.split(" (")[0].strip().lower()
    return name.rstrip(")") if name.count(")") > name.count("(") else name


def unresolved(reference: str) -> list[str]:
    """Return what does not resolve in a reference; the reference itself when it names no source at all."""
    pages = PAGE.findall(reference)
    missing = [f"{page}: {at}" for page, at in pages if _name(at) not in headings(page)]
    repositories, papers = known_names()
    reports = REPORT.findall(reference)
    missing += [name for name in reports if name not in repositories]
    named = any(reference.startswith(paper) for paper in papers)
    return missing if pages or reports or named or ARXIV.search(reference) else [*missing, reference]


@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.id)
def test_every_source_of_a_check_resolves(check: Check) -> None:
    assert check.sources, "a check says where its knowledge comes from"
    assert [found for source in check.sources for found in unresolved(source)] == []


@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.id)
def test_every_reference_of_a_limit_resolves(check: Check) -> None:
    """A definition or a convention may be an argument in words; what it names must exist all the same."""
    argued = (SourceKind.DEFINITION, SourceKind.CONVENTION)
    broken = [found for t in check.thresholds for found in unresolved(t.reference) if found != t.reference]
    bare = [t.name for t in check.thresholds if t.source not in argued and t.reference in unresolved(t.reference)]
    assert (broken, bare) == ([], [])


def test_every_report_of_a_false_alarm_is_named() -> None:
    names = {name for row in FALSE_ALARMS for name in REPORT.findall(row.source)}
    assert sorted(names - known_names()[0]) == []


def test_code_cites_pages_and_headings_that_exist() -> None:
    cited = re.compile(r'docs/([\w.-]+\.md)(?:: |, ")([A-Z][^";,.\n]+)')
    broken = []
    for file in sorted((ROOT / "src").rglob("*.py")):
        for page, at in cited.findall(file.read_text(encoding="utf-8")):
            if not (ROOT / "docs" / page).is_file() or _name(at) not in headings(page):
                broken.append(f"{file.name}: docs/{page}: {at}")
    assert broken == []


def test_an_unknown_source_does_not_resolve() -> None:
    assert unresolved("docs/evidence.md: No such heading") == ["evidence.md: No such heading"]
    assert unresolved("nobody#12") == ["nobody"]
    assert unresolved("a report that somebody saw") == ["a report that somebody saw"]
    assert unresolved("docs/measurements.md: Tied groups; trl#5312") == []
