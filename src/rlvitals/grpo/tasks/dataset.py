"""Datasets of questions and answers: JSON lines on disk, or a dataset of the Hugging Face hub."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rlvitals.env import Item
from rlvitals.errors import InputError, Problem
from rlvitals.grpo.hub import asked
from rlvitals.grpo.rewards.extract import READERS
from rlvitals.grpo.rewards.verifiers import GOLD_FAULTS, VERIFIERS
from rlvitals.grpo.tasks.base import Task, identity, split
from rlvitals.grpo.tasks.columns import Row, choose, items_of, repeats
from rlvitals.grpo.tasks.lines import first_few, rows_of
from rlvitals.grpo.tasks.options import MAX_ITEMS, MAX_SECONDS, MAX_TOKENS, MIN_SECONDS, Kind, Option, Options
from rlvitals.grpo.tasks.verified import Verification, VerifiedEnv

HUB = "hub:"
SYSTEM = r"Solve the problem step by step. Put the final answer in \boxed{}."
USUAL_READER = {"math": "boxed", "numeric": "last-number", "exact": "whole", "json": "whole"}

OPTIONS: tuple[Option, ...] = (
    Option(
        "path", "JSON lines file, or hub:OWNER/NAME of a dataset of the Hugging Face hub",
        needed="Try --task dataset:path=problems.jsonl",
    ),
    Option("held_out_path", "file of held-out items; left out, a share of `path` is held out by hash"),
    Option(
        "held_out_percent", "share of `path` that is held out where no file is named, percent", "10", Kind.WHOLE, 0, 99
    ),
    Option("held_out_items", "held-out items kept at most", "500", Kind.WHOLE, 0, MAX_ITEMS),
    Option("prompt", "column of the question"),
    Option("answer", "column of the expected answer"),
    Option("family", "column of the task family"),
    Option("tier", "column of the difficulty"),
    Option("split", "split of a hub dataset", "train"),
    Option("config", "configuration of a hub dataset"),
    Option("verifier", "math, numeric, exact or json", "math", choices=tuple(VERIFIERS)),
    Option("read", "where the answer stands: boxed, hashes, last-number, tagged or whole", choices=tuple(READERS)),
    Option("seconds", "time limit of one verification, seconds", "5", Kind.NUMBER, MIN_SECONDS, MAX_SECONDS),
    Option("system", "system message: yes for the usual one, no for none, else the text", "yes"),
    Option("max_tokens", "completion budget that right answers fit into, tokens", "512", Kind.WHOLE, 1, MAX_TOKENS),
)  # fmt: skip


def read_hub(name: str, config: str, split_name: str) -> list[Row]:
    """Return the rows of a hub dataset through `datasets`. InputError where that is not installed or fails."""
    try:
        import datasets
    except ImportError:
        raise InputError(
            Problem("reading a dataset of the hub needs datasets", "task: path", hint="pip install 'rlvitals[tasks]'")
        ) from None
    with asked() as why:
        try:
            loaded: Any = datasets.load_dataset(name, config or None, split=split_name)
        except Exception as e:  # network, names and formats fail in many ways; none is this program's fault
            if why:
                hint = "Look at the network, or save the dataset and give it as --task dataset:path=FILE"
                problem = Problem(
                    "the hub cannot be reached, and its cache has no such dataset", f"hub:{name}", why, "", hint
                )
            else:
                problem = Problem("the dataset can't be read", f"hub:{name}", f"{type(e).__name__}: {e}"[:300])
            raise InputError(problem) from e
        return [dict(row) for row in loaded]


def _rows(path: str, options: Options) -> Sequence[Row]:
    if path.startswith(HUB):
        return read_hub(path.removeprefix(HUB), options.text("config"), options.text("split"))
    return rows_of(Path(path), "task: path")


def _items(path: str, options: Options, system: str) -> tuple[Item, ...]:
    rows = _rows(path, options)
    found = list(dict.fromkeys(k for row in rows[:100] for k in row))
    named = {role: options.text(role) for role in ("prompt", "answer", "family", "tier")}
    return items_of(rows, choose(found, path, **named), path, system=system)


def _system(value: str) -> str:
    return {"yes": SYSTEM, "no": ""}.get(value, value)


def dataset_task(options: Options) -> Task:
    """Return the task over a dataset. InputError for a missing file or column and for broken rows."""
    path, how = options.text("path"), options.text("verifier")
    read = options.text("read") or USUAL_READER[how]
    verification = Verification(how, read, seconds=options.number("seconds"))
    system = _system(options.text("system"))
    items = _items(path, options, system)
    _refuse_golds(items, how, path)
    notes = repeats(items, path)
    if other := options.text("held_out_path"):
        train, held_out = items, _items(other, options, system)
        _refuse_golds(held_out, how, other)
        notes += repeats(held_out, other)
    else:
        train, held_out = split(items, held_out_percent=options.whole("held_out_percent"))
    if not train:
        raise InputError(Problem("no items left to train on", path, f"{len(items)} items, all of them held out"))
    _refuse_leak(train, held_out, other or path)
    workers = verification.workers()
    workers.start()  # what can't start is said before the first step
    return Task(
        name="dataset",
        version=identity(verification.version, system),
        train=train,
        held_out=held_out[: options.whole("held_out_items")],
        new_env=lambda: VerifiedEnv(verification, workers),
        max_new_tokens=options.whole("max_tokens"),
        tiers=tuple(sorted({i.tier for i in train if i.tier})),
        notes=notes,
        gives=("correct", "milestones") if all("milestones" in i.extra for i in train) else ("correct",),
    )


def _refuse_golds(items: tuple[Item, ...], how: str, where: str) -> None:
    """Refuse expected answers that the verifier cannot read: every answer to them would be an error, unsaid."""
    fault = GOLD_FAULTS.get(how)
    if fault is None:
        return
    hint = "Take the row out, or name another verifier or column: verifier=math, answer=COLUMN"
    broken: list[Problem] = []
    known: dict[str, str] = {}  # answers and schemas come again and again
    for number, item in enumerate(items, 1):  # an item for each row, in order
        key = repr((item.gold, item.extra.get("schema")))
        if key not in known:
            known[key] = fault(item.gold, item.extra)
        if known[key]:
            what = f"the verifier {how} cannot read the expected answer"
            broken.append(Problem(what, f"{where} row {number}", known[key], "", hint))
    if broken:
        raise InputError(*first_few(broken, where, "rows"))


def _refuse_leak(train: tuple[Item, ...], held_out: tuple[Item, ...], where: str) -> None:
    seen = {i.messages for i in train}
    shared = [i.id for i in held_out if i.messages in seen]
    if shared:
        raise InputError(
            Problem(
                "held-out questions are among the training ones, so their score would measure memory",
                where, f"{len(shared)}, among them {', '.join(shared[:5])}", "none",
                "Take them out; rlvitals audit leakage finds near copies too",
            )
        )  # fmt: skip
