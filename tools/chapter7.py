"""Write docs/chapter7.md and its pictures: `python tools/chapter7.py`; `--check` fails when they drifted.

Every number on the page is read from benchmarks/results/chapter7.json; the claims that are put to the seeds are those
of benchmarks/book/questions.py, what to make of the numbers is in chapter7.toml beside this file.
"""

from __future__ import annotations

import argparse
import difflib
import json
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from benchmarks.book.pictures import PICTURES, Picture  # noqa: E402
from chapter7_plots import digest, draw  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results" / "chapter7.json"
PAGE = ROOT / "docs" / "chapter7.md"
IMAGES = ROOT / "docs" / "images"
WORDS = Path(__file__).with_suffix(".toml")
MADE = "<!-- Made by tools/chapter7.py from benchmarks/results/chapter7.json: run `make docs` after a new run. -->"
START, AT20, END = "held-out at the start", "held-out after step 20", "held-out at the end"
COLUMNS = (
    (START, "held-out, start"), (AT20, "after step 20"), (END, "end"), ("reward at the end", "reward"),
    ("entropy at the end", "entropy, nats"), ("length at the end", "length, tokens"),
    ("KL k1 at the end", "KL k1, nats"), ("tied groups", "tied groups"),
)  # fmt: skip
CLAIMS, CAUSES = ("7.4", "7.5", "7.5 no reward", "7.6.2"), "7.5 causes"
SMALL = 1e-4  # below it a cell is written with an exponent
MANY = 1000  # seeds above which only that is said
SHORT = 24  # the same where seeds stand side by side
MAX_ANSWER = 44  # characters of an answer that are shown

Results = Mapping[str, Any]


def results() -> Results:
    found: Results = json.loads(RESULTS.read_text(encoding="utf-8"))
    return found


def prose() -> Mapping[str, Any]:
    """Return the words of the page, line breaks taken out."""

    def joined(value: Any) -> Any:
        if isinstance(value, str):
            return " ".join(value.split())
        if isinstance(value, Mapping):
            return {k: joined(v) for k, v in value.items()}
        return [joined(v) for v in value]

    found: Mapping[str, Any] = joined(tomllib.loads(WORDS.read_text(encoding="utf-8")))
    return found


def page(found: Results) -> str:
    """Return the whole page."""
    words = prose()
    parts = [MADE, "# Chapter 7, run again", words["lead"], amount(found), words["cells"]]
    parts += ["## What the seeds do not show", words["not_shown"], not_shown(found)]
    for each in words["section"]:
        parts += section(each, found)
    parts += ["## What a reference costs", *reference(found, words), "## Run it", *how(found, words)]
    return "\n\n".join(parts) + "\n"


def amount(found: Results) -> str:
    about = found["about"]
    seeds = {len(a["seeds"]) for a in found["arms"].values()}
    count = f"{min(seeds)}" if len(seeds) == 1 else f"{min(seeds)} to {max(seeds)}"
    return (
        f"{len(found['arms'])} setups of {count} seeds, {about['runs']} runs, "
        f"{about['cpu_seconds'] / 60:.0f} CPU minutes in all. "
        f"{about['date']}, torch {about['torch']}, transformers {about['transformers']}, one thread."
    )


def verdict(question: Mapping[str, Any]) -> str:
    """Return what the seeds say of a claim, in two or three words."""
    if question["winner"] == question["a"]:
        return "shown"
    return "the opposite" if question["winner"] == question["b"] else "not shown"


def by_section(found: Results, name: str) -> list[Mapping[str, Any]]:
    return [q for q in found["questions"] if q["section"] == name]


def not_shown(found: Results) -> str:
    rows = [
        (q["section"], q["claim"], f"`{q['a']}` against `{q['b']}`: {q['number']}", difference(q), verdict(q))
        for name in CLAIMS
        for q in by_section(found, name)
        if verdict(q) != "shown"
    ]
    return table(("section", "claim", "compared", "difference", "verdict"), rows)


def section(words: Mapping[str, Any], found: Results) -> list[str]:
    """Return one section: claim, what to make of it, picture, table of setups, comparisons, answers."""
    out = [f"## {words['title']}", f"**The text:** {words['claims']}", f"**The runs:** {words['reading']}"]
    out += [f"![{p.alt}](images/{p.name}.svg)" for p in PICTURES if p.name in words.get("pictures", ())]
    out.append(arms(found, words["arms"], words.get("numbers", ())))
    out += [causes(found) if n == CAUSES else comparisons(found, n) for n in words.get("questions", ())]
    if "ends" in words:
        out += ["What each seed answers to the first held-out sum at the end:", ends(found, words["ends"])]
    if "answers" in words:
        out += ["The first held-out sums, seed 0, before and after:", answers(found, words["answers"])]
    return [*out, words["after"]] if "after" in words else out


def arms(found: Results, names: Sequence[str], more: Sequence[str]) -> str:
    columns = (*COLUMNS, *((n, n) for n in more))
    rows = [
        (f"`{n}`", *(cell(found["arms"][n]["numbers"][c]) for c, _ in columns)) for n in names if n in found["arms"]
    ]
    return table(("setup", *(shown for _, shown in columns)), rows)


def comparisons(found: Results, name: str) -> str:
    rows = [
        (q["claim"], f"`{q['a']}` against `{q['b']}`: {q['number']}", difference(q), chance(q), outcome(q),
         needed(q["seeds_needed"]))
        for q in by_section(found, name)
    ]  # fmt: skip
    head = "modification" if name == "7.6.3" else "claim"
    return table((head, "compared", "difference", "chance to be better", "verdict", "seeds needed"), rows)


def needed(seeds: int) -> str:
    """Return the seeds per setup that a difference as seen would need; nothing where it can't be known."""
    return "" if not seeds else str(seeds) if seeds <= MANY else f"over {MANY}"


def outcome(question: Mapping[str, Any]) -> str:
    if question["section"] != "7.6.3":
        return verdict(question)
    return {"shown": "better", "the opposite": "worse", "not shown": "no difference told"}[verdict(question)]


def causes(found: Results) -> str:
    """Return the table of suspected causes, each taken away from the run that collapses."""
    rows = []
    for q in by_section(found, CAUSES):
        numbers = found["arms"][q["a"]]["numbers"]
        rows.append(
            (q["claim"], f"`{q['a']}`", cell(numbers[AT20]), cell(numbers[END]), cell(numbers["entropy at the end"]),
             cell(numbers["KL k1 at the end"]), cause(q, numbers))
        )  # fmt: skip
    head = ("suspected cause, taken away", "setup", "held-out after step 20", "end", "entropy, nats", "KL k1, nats",
            "verdict")  # fmt: skip
    return table(head, rows)


def cause(question: Mapping[str, Any], numbers: Mapping[str, Any]) -> str:
    """Return whether taking something away saved the run: half of the reference's accuracy is left (convention)."""
    if verdict(question) != "shown":
        return "refuted: it collapses all the same"
    kept = numbers[END]["iqm"] >= 0.5 * numbers[START]["iqm"]
    return "a cause: it goes back to the reference" if kept else "a part: slower, and still down"


def answers(found: Results, names: Sequence[str]) -> str:
    rows = []
    for n in names:
        for c in found["arms"].get(n, {"answers": []})["answers"]:
            shown = quoted(c["completion"])
            asked = c["item"].removeprefix("sum-")
            rows.append((asked, f"`{n}`", str(c["step"]), shown, "right" if c["correct"] else "wrong"))
    rows.sort(key=lambda r: (r[0], names.index(r[1].strip("`")), int(r[2])))
    return table(("sum", "setup", "step", "answer", ""), rows)


def ends(found: Results, names: Sequence[str]) -> str:
    seeds = found["arms"][names[0]]["seeds"]
    rows = [(f"`{n}`", *(quoted(text, SHORT) for text in found["arms"][n]["ends"])) for n in names]
    return table(("setup", *(f"seed {s}" for s in seeds)), rows)


def quoted(text: str, most: int = MAX_ANSWER) -> str:
    """Return an answer as code, cut short."""
    return "*nothing*" if not text else f"`{text[:most]}{' ...' if len(text) > most else ''}`"


def reference(found: Results, words: Mapping[str, Any]) -> list[str]:
    cost = found["reference"]

    def middle(name: str, key: str) -> float:
        return float(median(x[key] for x in cost[name]))

    held, none = middle("with", "cpu_s_per_step"), middle("without", "cpu_s_per_step")
    memory, bare = middle("with", "extra_mb"), middle("without", "extra_mb")
    rows = [
        ("CPU seconds per step", f"{held:.2f}", f"{none:.2f}", f"{100 * (held / none - 1):+.0f}%"),
        ("peak memory of training, MB", f"{memory:.0f}", f"{bare:.0f}", f"{memory - bare:+.0f}"),
    ]
    return [
        f"Measured on a random policy of {cost['weights_mb']:.0f} MB, since the embedded one is too small to show it: "
        f"medians of {len(cost['with'])} runs of each kind, in turn, one thread.",
        table(("", "with a reference", "without", "difference"), rows),
        words["reference"],
    ]


def how(found: Results, words: Mapping[str, Any]) -> list[str]:
    changed = ("stops", "top-p", "format-lenient")
    rows = [(f"`{n}`", f"`{a['command']}`") for n, a in found["arms"].items() if not n.startswith(changed)]
    return [
        "    python -m benchmarks.chapter7     # every run that is missing, then the results\n"
        "    python tools/chapter7.py          # this page",
        words["run"],
        table(("setup", "command"), rows),
        words["parts"],
    ]


def cell(number: Mapping[str, Any]) -> str:
    """Return a value with its interval, nothing where it was not logged."""
    if "iqm" not in number:
        return ""
    if 0 < abs(number["iqm"]) < SMALL:
        return f"{number['iqm']:.0e}"
    digits = 1 if abs(number["iqm"]) >= 10 else 2
    if number["low"] is None:
        return f"{number['iqm']:.{digits}f}"
    return f"{number['iqm']:.{digits}f} [{number['low']:.{digits}f}, {number['high']:.{digits}f}]"


def difference(question: Mapping[str, Any]) -> str:
    """Return the difference in the number's own direction: positive when arm a has more."""
    d, sign = question["difference"], question["sign"]
    ends = sorted(sign * d[k] for k in ("low", "high")) if d["low"] is not None else None
    value = f"{sign * d['value']:+.2f}"
    return value if ends is None else f"{value} [{ends[0]:+.2f}, {ends[1]:+.2f}]"


def chance(question: Mapping[str, Any]) -> str:
    p = question["probability_of_improvement"]
    return f"{p['value']:.2f}" if p["low"] is None else f"{p['value']:.2f} [{p['low']:.2f}, {p['high']:.2f}]"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    if not rows:
        return "None."
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(c.replace("|", "\\|") for c in row) + " |" for row in lines)


def stale_pictures(found: Results) -> list[Picture]:
    """Return the pictures that were drawn from other numbers or are not there."""
    return [
        p for p in PICTURES
        if not (f := IMAGES / f"{p.name}.svg").is_file() or digest(p, found) not in f.read_text(encoding="utf-8")
    ]  # fmt: skip


def drift() -> str:
    """Return what differs from what the results say, "" when nothing does."""
    found = results()
    now, then = page(found), PAGE.read_text(encoding="utf-8") if PAGE.is_file() else ""
    out = list(
        difflib.unified_diff(then.splitlines(True), now.splitlines(True), "docs/chapter7.md", "from the results")
    )
    out += [f"docs/images/{p.name}.svg was drawn from other numbers\n" for p in stale_pictures(found)]
    return "".join(out)


def write() -> None:
    """Write the page and the pictures that are stale."""
    found = results()
    PAGE.write_text(page(found), encoding="utf-8")
    for picture in stale_pictures(found):
        (IMAGES / f"{picture.name}.svg").write_text(draw(picture, found), encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="fail when the page has drifted from the results")
    if not parser.parse_args().check:
        write()
        return 0
    found = drift()
    sys.stderr.write(found)
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
