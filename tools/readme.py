"""Keep README.md true: `python tools/readme.py` writes its generated blocks, `--check` fails when they drifted.

Block `demo` is what `rlvitals demo` prints, block `trainers` the table of rlvitals/reference/sheets.py. Block
`scoreboard` is made from the committed results of benchmarks/real_runs.py and benchmarks/peers.py, block `lab` from
those of the fault lab; none is run again. `--picture` also makes docs/images/report.png from the demo's report, with
Chromium.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from rlvitals import diagnose, load  # noqa: E402
from rlvitals.cli.demo import REPORT_TITLE, example  # noqa: E402
from rlvitals.lab.figures import Share  # noqa: E402
from rlvitals.lab.kept import read  # noqa: E402
from rlvitals.lab.score import healthy_score, layout_score, layouts_of, peer_scores  # noqa: E402
from rlvitals.reference.page import Table, page, section, to_markdown  # noqa: E402
from rlvitals.reference.sheets import SHEETS  # noqa: E402
from rlvitals.reference.trainer import file_name  # noqa: E402
from rlvitals.reference.words import trainers  # noqa: E402
from rlvitals.report import html  # noqa: E402

README = ROOT / "README.md"
RESULTS = ROOT / "benchmarks" / "results"
PICTURE = ROOT / "docs" / "images" / "report.png"
PICTURE_SIZE = (1280, 1600)  # pixels: the answer, the causes and the first plots


def block(name: str, text: str, body: str) -> str:
    """Return the text with the body of the named block replaced. Raises ValueError when the block is missing."""
    found = re.compile(rf"(<!-- {name}: [^\n]*-->\n).*?(\n<!-- end {name} -->)", re.DOTALL)
    if not found.search(text):
        raise ValueError(f"README.md has no block {name!r}")
    return found.sub(lambda hit: hit[1] + body + hit[2], text)


SHOWN = ("Plan", "Rollback", "Cost")  # sections that the README shows besides the verdict and the causes
DETAIL = " " * 5  # how far the lines under a consequence are indented


def sections(text: str) -> list[list[str]]:
    """Return the paragraphs of a terminal report; each begins at the left edge."""
    out: list[list[str]] = [[]]
    for line in (line.rstrip() for line in text.splitlines()):
        if line[:1].isupper() and out[-1]:
            out.append([])
        out[-1].append(line)
    return out


def without_details(lines: list[str]) -> list[str]:
    """Return the lines of the causes with one line for each consequence."""
    kept, inside = [], False
    for line in lines:
        consequence = line.lstrip().startswith("└")
        if consequence or not (inside and line.startswith(DETAIL)):
            kept.append(line)
        inside = consequence or (inside and line.startswith(DETAIL))
    return kept


def printed() -> str:
    """Return what `rlvitals demo` prints where it is no terminal, 80 columns wide."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "rlvitals", "demo", "--out", f"{folder}/report.html"]
        there = {**os.environ, "COLUMNS": "80", "PYTHONPATH": str(ROOT / "src")}
        return subprocess.run(command, env=there, check=True, capture_output=True, text=True).stdout


def opening(recorded: str) -> list[str]:
    """Return the beginning of the recorded run, to where the fault is noticed, and how much of it is left out."""
    lines = [line.rstrip() for line in recorded.rstrip().splitlines()]
    shown = lines[: 1 + next(n for n, line in enumerate(lines) if line.startswith("noticed "))]
    return [
        *shown,
        f"[... {len(lines) - len(shown)} lines: its diagnosis, the mended run, whether that helped ...]",
        "",
    ]


def demo() -> str:
    """Return what `rlvitals demo` prints, without the parts that are only looked up; what is left out is marked."""
    recorded, title, text = printed().partition(f"{REPORT_TITLE}\n")
    if not title:
        raise ValueError(f"rlvitals demo prints no line {REPORT_TITLE!r}")
    text = text.rpartition("\nWrote the report to ")[0]
    head, _, rest = text.partition("\nVital signs")
    tail = [line for part in sections(rest) if part and part[0].startswith(SHOWN) for line in part]
    report = [*without_details([line.rstrip() for line in head.splitlines()]), "[...]", "", *tail]
    lines = [*opening(recorded), title.rstrip(), *report]
    return "```text\n$ rlvitals demo\n" + "\n".join(lines).rstrip() + "\n```"


FLOORS = (("0.9", "0.9 or more"), ("0.75", "0.75 or more"))  # least confidence of the labels that count


def of(part: int, whole: int, read: int) -> str:
    """Return "3 of 7", and how many of them could be read where that is fewer."""
    return f"{part} of {whole}" + (f" ({read} read)" if read < whole else "")


def scoreboard() -> str:
    """Return the table of what each tool made of the public runs, from the committed results."""
    ours = json.loads((RESULTS / "real_runs.json").read_text(encoding="utf-8"))
    tools = [ours, *json.loads((RESULTS / "peers.json").read_text(encoding="utf-8"))]
    lines = [
        "| labels of confidence | tool | runs read | sick caught | healthy accused | first cause right |",
        "|---|---|---|---|---|---|",
    ]
    for floor, words in FLOORS:
        for tool in tools:
            n = tool["summary"][floor]
            cells = [
                f"{words}, {n['runs']} runs" if tool is ours else "",
                tool["tool"],
                str(n["read"]),
                of(n["sick_caught"], n["sick"], n["sick_read"]),
                of(n["well_accused"], n["well"], n["well_read"]),
                f"{n['cause_right']} of {n['cause_named']}",
            ]
            lines.append(f"| {' | '.join(cells)} |")
    left, early = ours["leave_one_repository_out"]["summary"]["0.75"], ours["prefixes_of_well_runs"]
    shown = sum(sum(seen.values()) for seen in early["verdicts"].values())
    alarms = sum(len(row) for row in early["accused"].values())
    lines += [
        "",
        f"Without the checks whose limits rest on a run's own repository, {ours['tool']} catches "
        f"{left['sick_caught']} of {left['sick']}.",
        f"Stopped at 25 to 85% of their rows, the healthy runs give {alarms} false alarm{'s' * (alarms != 1)} in "
        f"{shown} looks.",
    ]
    return "\n".join(lines)


LOGS = {"own": "our own", "trl": "TRL's", "verl": "verl's", "chapter7": "chapter 7's"}


def lab() -> str:
    """Return the table of what was found in the lab's runs, per log, from the committed results."""
    kept = read(RESULTS / "lab.json")
    lines = [
        "| log | cause or its direct sign first | the cause itself first | false alarms per 10,000 healthy steps | "
        "others on a part of the runs: cause or sign named, healthy accused |",
        "|---|---|---|---|---|",
    ]
    peers = peer_scores(kept)
    for layout in layouts_of(kept):
        score, well = layout_score(kept, layout), healthy_score(kept, layout).alarms
        beside = "; ".join(f"{p.tool} {_of(p.named)}, {_of(p.accused)}" for p in peers if p.layout == layout)
        cells = (
            LOGS[layout],
            f"{_of(score.named)} ({score.named.value:.1%})",
            f"{_of(score.exact)} ({score.exact.value:.1%})",
            f"{well.value:.2f} ({well.events} in {well.steps:,})",
        )
        lines.append(f"| {' | '.join((*cells, beside))} |")
    return "\n".join(lines)


def _of(share: Share) -> str:
    return f"{share.hits} of {share.of}"


def trainer_table() -> str:
    """Return the table of trainers: releases, sinks, and whether a real run, a sample or both were read."""
    rows = []
    for adapter in trainers():
        sheet = SHEETS[adapter.info.name]
        name = f"[{adapter.info.name}](docs/trainers/{file_name(adapter)})"
        rows.append((name, sheet.releases, ", ".join(sink for sink, _ in sheet.reads), sheet.tested.short))
    table = Table(("trainer", "releases", "reads", "tested on"), tuple(rows))
    return to_markdown(page("", "", section("x", table))).rpartition("\n\n")[2].strip()


def take_picture() -> None:
    """Write docs/images/report.png. Raises FileNotFoundError without Chromium."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        raise FileNotFoundError("Chromium is missing; on Debian: apt-get install chromium")
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        page.write_text(html.render(diagnose(load(example()))), encoding="utf-8")
        width, height = PICTURE_SIZE
        quiet = "--headless --no-sandbox --disable-gpu --no-first-run --hide-scrollbars --virtual-time-budget=8000"
        options = [*quiet.split(), f"--user-data-dir={folder}/profile", f"--window-size={width},{height}"]
        subprocess.run([browser, *options, f"--screenshot={PICTURE}", page.as_uri()], check=True, capture_output=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when README.md has drifted")
    parser.add_argument("--picture", action="store_true", help="also make docs/images/report.png")
    asked = parser.parse_args()
    old = README.read_text(encoding="utf-8")
    new = old
    for name, body in (("demo", demo()), ("scoreboard", scoreboard()), ("lab", lab()), ("trainers", trainer_table())):
        new = block(name, new, body)
    if asked.check:
        diff = "\n".join(
            difflib.unified_diff(old.splitlines(), new.splitlines(), "README.md", "as the code says", "", "", 1, "")
        )
        print(diff + "\nREADME.md has drifted: run `make docs`." if diff else "README.md is up to date.")
        return 1 if diff else 0
    README.write_text(new, encoding="utf-8")
    if asked.picture:
        take_picture()
    return 0


if __name__ == "__main__":
    sys.exit(main())
