"""Generate the reference docs from the code: `python tools/docs.py` writes them, `--check` fails when they drifted.

docs/checks/<ID>-<name>.md and docs/trainers/<trainer>.md with their indexes, docs/metrics.md, docs/false-alarms.md,
docs/tasks.md, docs/cli.md, and docs/scoreboard.md and .html from the results of the lab (benchmarks/results/lab.json).
"""

from __future__ import annotations

import argparse
import difflib
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from how_well import false_alarms, finds, how_well, index_note  # noqa: E402

from rlvitals.check import Check  # noqa: E402
from rlvitals.checks import CHECKS  # noqa: E402
from rlvitals.grpo.tasks.page import tasks_page  # noqa: E402
from rlvitals.lab.html import html as lab_html  # noqa: E402
from rlvitals.lab.kept import read as read_lab  # noqa: E402
from rlvitals.lab.page import markdown as lab_markdown  # noqa: E402
from rlvitals.reference.checks import check_page, index_page  # noqa: E402
from rlvitals.reference.fields import fields_table  # noqa: E402
from rlvitals.reference.metrics import facts, false_alarms_page, joined_keys  # noqa: E402
from rlvitals.reference.page import Bullets, Page, Paragraph, Section, Table, page, section, to_markdown  # noqa: E402
from rlvitals.reference.trainer import file_name as trainer_file  # noqa: E402
from rlvitals.reference.trainer import index_page as trainers_page  # noqa: E402
from rlvitals.reference.trainer import trainer_page  # noqa: E402
from rlvitals.reference.words import logging_lines, trainers  # noqa: E402

DOCS = ROOT / "docs"
CASES = ROOT / "tests" / "cases"
LAB = ROOT / "benchmarks" / "results" / "lab.json"
MADE = "<!-- Made by tools/docs.py from the code: change that, then run `make docs`. -->\n\n"
EXPECTED = {
    "fired": "fires",
    "clear": "stays quiet",
    "no_data": "no data",
    "not_applicable": "does not apply",
}
MAX_CELL = 140  # characters of a series shown in a case table (convention)
_CHECK_PAGE = re.compile(r"[A-Z]\d{3}-[a-z0-9-]+\.md")


def file_name(check: Check) -> str:
    return f"{check.id}-{check.name}.md"


def link(check: Check) -> str:
    return f"[{check.id} {check.name}]({file_name(check)})"


def link_from_trainers(check: Check) -> str:
    return f"[{check.id} {check.name}](../checks/{file_name(check)})"


def documents() -> dict[str, str]:
    """Return every generated file: path below docs/ -> text."""
    out = {f"checks/{file_name(c)}": to_markdown(check_page(c, link, (how_well(c), _cases(c)))) for c in CHECKS}
    columns = {"finds": finds, "false alarms": false_alarms}
    out["checks/README.md"] = to_markdown(index_page(link, index_note(), columns))
    out |= {f"trainers/{trainer_file(a)}": to_markdown(trainer_page(a, link_from_trainers)) for a in trainers()}
    out["trainers/README.md"] = to_markdown(trainers_page())
    out["metrics.md"] = to_markdown(metrics_page())
    out["false-alarms.md"] = to_markdown(false_alarms_page())
    out["tasks.md"] = tasks_page()
    out["cli.md"] = cli_text()
    out |= scoreboard()
    return {path: MADE + text for path, text in out.items()}


def scoreboard() -> dict[str, str]:
    """Return the pages of the fault lab, none while there are no results."""
    if not LAB.is_file():
        return {}
    kept = read_lab(LAB)
    return {"scoreboard.md": lab_markdown(kept), "scoreboard.html": lab_html(kept)}


def _cases(check: Check) -> Section | None:
    """Return the cases of tests/cases/<ID>.toml: the series in their notation, and what the check says."""
    path = CASES / f"{check.id}.toml"
    if not path.is_file():
        return None
    cases = tomllib.loads(path.read_text(encoding="utf-8"))["case"]
    return section(
        "Example cases",
        Table(("case", "series", "answer"), tuple((c["name"], _given(c), _answer(c)) for c in cases)),
        Paragraph(f"From `tests/cases/{check.id}.toml`; the notation is explained in `tests/series.py`."),
    )


def _given(case: Mapping[str, Any]) -> str:
    parts = [f"`{name} = {_cut(text)}`" for name, text in case.get("series", {}).items()]
    parts += [f"`{name} = {value}`" for name, value in case.get("config", {}).items()]
    parts += [f"held-out `{name}`: {len(e['step'])} scores" for name, e in case.get("evals", {}).items()]
    return ", ".join(parts)


def _cut(text: str) -> str:
    return text if len(text) <= MAX_CELL else text[: MAX_CELL - 3] + "..."


def _answer(case: Mapping[str, Any]) -> str:
    details = [str(case[k]) for k in ("action", "variant") if k in case]
    if "onset" in case:
        details.append("onset in steps {}-{}".format(*case["onset"]))
    return EXPECTED[case["expect"]] + (f" ({', '.join(details)})" if details else "")


def metrics_page() -> Page:
    """Return every metric with its facts, keys and logging lines, and every setting."""
    from rlvitals.metrics import METRICS

    sections = [
        section(
            f"`{m.name}`",
            Paragraph(m.measures),
            Bullets((*facts(m), f"healthy: {m.healthy}")),
            Table(("trainer", "key"), joined_keys(m.name)),
            Table(("trainer", "how to log it"), logging_lines(m.name)),
        )
        for m in METRICS
    ]
    return page(
        "Metrics and settings",
        "The names that every trainer's keys are turned into. A name ending in `/*` is an open family. "
        "`rlvitals explain NAME` shows the same with the readings that look like a fault.",
        *sections,
        section("Settings", Paragraph("What the checks know of how a run was set up."), fields_table()),
    )


def cli_text() -> str:
    """Return the help of every command as Markdown."""
    import typer

    from rlvitals.cli.common import EXIT_MEANING
    from rlvitals.cli.main import app

    group: Any = typer.main.get_command(app)
    parts = ["# Commands", str(group.help)]
    for name, command in _commands(group):
        arguments = [p for p in command.params if p.param_type_name == "argument"]
        options = [p for p in command.params if p.param_type_name == "option" and p.name != "help"]
        usage = " ".join(["rlvitals", name, *(_usage(a) for a in arguments), "[OPTIONS]" if options else ""]).strip()
        text, _, _ = str(command.help).partition("\n\nExit code")
        parts += [f"## rlvitals {name}", f"```\n{usage}\n```", " ".join(text.split())]
        parts += [_parameters("argument", arguments)] if arguments else []
        parts += [_parameters("option", options)] if options else []
    codes = Table(("code", "meaning"), tuple((str(int(code)), text) for code, text in EXIT_MEANING.items()))
    parts += ["## Exit codes", _table(codes)]
    return "\n\n".join(parts) + "\n"


def _commands(group: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every command with its whole name, those of a group after it."""
    for name, command in group.commands.items():
        yield before + name, command
        if hasattr(command, "commands"):
            yield from _commands(command, f"{before}{name} ")


def _usage(argument: Any) -> str:
    name = (argument.metavar or argument.name.upper()).strip("[]{}")
    name += "..." if argument.nargs == -1 else ""
    return name if argument.required else f"[{name}]"


def _parameters(kind: str, params: list[Any]) -> str:
    rows = []
    for p in params:
        metavar = "" if kind == "argument" or getattr(p, "is_flag", False) else f" {p.metavar or p.name.upper()}"
        name = _usage(p) if kind == "argument" else ", ".join(p.opts) + metavar
        shown = p.default not in (None, False) and not p.required
        rows.append((f"`{name}`", str(p.help or ""), f"`{p.default}`" if shown else ""))
    return _table(Table((kind, "what it does", "default"), tuple(rows)))


def _table(table: Table) -> str:
    """Return one table as Markdown, without the headings of a page."""
    return to_markdown(page("", "", section("", table))).rpartition("\n\n")[2].strip()


def stale(expected: Mapping[str, str]) -> list[Path]:
    """Return pages of checks and trainers that no longer exist."""
    checks = [p for p in (DOCS / "checks").glob("*.md") if _CHECK_PAGE.fullmatch(p.name)]
    pages = [*checks, *(DOCS / "trainers").glob("*.md")]
    return [p for p in pages if f"{p.parent.name}/{p.name}" not in expected]


def drift() -> str:
    """Return a unified diff from the files on disk to what they should be, "" when they agree."""
    expected = documents()
    out: list[str] = []
    for path, text in expected.items():
        file = DOCS / path
        now = file.read_text(encoding="utf-8") if file.is_file() else ""
        if now != text:
            names = (f"docs/{path}", f"docs/{path} (from the code)")
            out += difflib.unified_diff(now.splitlines(True), text.splitlines(True), *names)
    out += [f"docs/{p.parent.name}/{p.name}: what it describes no longer exists\n" for p in stale(expected)]
    return "".join(out)


def write() -> None:
    """Write every generated file and remove pages of what no longer exists."""
    expected = documents()
    for path, text in expected.items():
        file = DOCS / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    for page_file in stale(expected):
        page_file.unlink()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--check", action="store_true", help="fail with a diff when a file differs from the code")
    if not parser.parse_args().check:
        write()
        return 0
    found = drift()
    if found:
        print(found, end="")
        print("The docs differ from the code: run python tools/docs.py", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
