"""Rollouts or tasks from a plain file: JSONL, JSON, CSV or parquet, with keys found by name or said by the user.

Text from files is untrusted: it is kept as text, bounded, and shown escaped.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import orjson

from rlvitals.env import Item, Message
from rlvitals.errors import InputError, Problem

MAX_ROWS = 1_000_000  # of one file; what comes after is counted and said
MAX_BYTES = 8 << 30  # of one file
MAX_TEXT = 200_000  # characters kept of one text

KEYS: Mapping[str, tuple[str, ...]] = {
    "prompt": ("prompt", "question", "problem", "messages", "query", "input", "instruction", "input_text", "text"),
    "completion": ("completion", "completions", "response", "output", "output_text", "generation", "solution_str"),
    "gold": (
        "gold", "answer", "ground_truth", "reward_model.ground_truth", "gts", "target", "solution", "final_answer",
        "label", "reference_answer",
    ),
    "reward": ("reward", "score", "total_reward", "rewards", "final_reward"),
    "correct": ("correct", "accuracy", "acc", "is_correct", "success", "passed"),
    "family": ("family", "data_source", "task", "env_name", "env", "dataset", "source", "subject", "category"),
    "tier": ("tier", "level", "difficulty"),
    "prompt_id": ("id", "prompt_id", "task_id", "example_id", "uid", "problem_id", "extra_info.index"),
    "step": ("step", "global_step", "training_step", "iteration"),
    "group": ("group", "group_id"),
    "index": ("index", "rollout_index", "sample_index", "rollout"),
    "stop_reason": ("stop_reason", "finish_reason", "stop_condition", "termination_reason"),
    "raw_output": ("raw_output", "verifier_output", "raw", "reward_raw"),
    "seed": ("seed",),
    "turns_text": ("turns_text", "assistant_turns", "trajectory"),
    "text_hash": ("text_hash",),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Row:
    """One rollout or task.

    Attributes:
        number: its row in the file, from 0.
        messages: the prompt as a conversation; `prompt` is the same as text.
        reward, correct: NaN where there is none.
        turns: the assistant's turns, one text each; the completion alone where the file knows no turns.
    """

    number: int
    source: str = ""
    messages: tuple[Message, ...] = ()
    completion: str | None = None
    gold: str | None = None
    family: str = ""
    tier: str = ""
    id: str = ""
    step: int | None = None
    group: str = ""
    index: int | None = None
    reward: float = math.nan
    correct: float = math.nan
    stop: str = ""
    raw: str = ""
    seed: int | None = None
    turns: tuple[str, ...] = ()
    hash: str = ""
    extra: Mapping[str, object] = field(default_factory=dict)

    @property
    def prompt(self) -> str:
        return "\n".join(m.content for m in self.messages)

    @property
    def task(self) -> str:
        """What tells tasks apart: the id, else the prompt, else the group of a step."""
        return self.id or self.prompt or f"{self.step}/{self.group}"

    @property
    def name(self) -> str:
        """How a person finds it again."""
        parts = [f"step {self.step}"] if self.step is not None else []
        parts += [f"group {self.group}"] if self.group else []
        parts += [f"rollout {self.index}"] if self.index is not None else []
        return ", ".join(parts) or f"row {self.number + 1}"

    def item(self) -> Item:
        """Return the task of this row."""
        return Item(self.task, self.messages, self.gold or "", self.family, self.tier, self.extra)


@dataclass(frozen=True)
class Rows:
    """What a file holds: rows, the key of each role that was found, and what was skipped, in words."""

    rows: tuple[Row, ...]
    keys: Mapping[str, str]
    notes: tuple[str, ...] = ()
    source: str = ""


def read_rows(path: Path, given: Mapping[str, str] | None = None, *, needs: Sequence[str] = ()) -> Rows:
    """Read a JSONL, JSON, CSV or parquet file (also .gz).

    Args:
        given: role -> key of the file, in place of the names that are known.
        needs: roles without which the file is of no use.

    Raises InputError with every problem found.
    """
    given = given or {}
    unknown = [Problem("unknown role", "--map", repr(r), ", ".join(KEYS)) for r in given if r not in KEYS]
    if unknown:
        raise InputError(*unknown)
    records, notes = _records(path)
    if not any(records):  # no key to speak of: "no prompt found" would only mislead
        raise InputError(_empty(path, notes, needs, len(records)))
    seen: dict[str, None] = {}
    for record in records[:1000]:
        seen.update(dict.fromkeys(record))
    keys = {role: key for role in KEYS if (key := _key(role, given, records[:1000])) is not None}
    problems = [
        Problem(
            f"no {role} found", str(path), f"the keys {', '.join(list(seen)[:12])}", hint=f"Say it: --map {role}=KEY"
        )
        for role in needs
        if role not in keys
    ]
    problems += [
        Problem("mapped key is not in the file", f"--map {role}={key}", hint=f"Keys: {', '.join(list(seen)[:12])}")
        for role, key in given.items()
        if role not in keys
    ]
    if problems:
        raise InputError(*problems)
    used = {k.partition(".")[0] for k in keys.values()}
    rows = tuple(_row(i, r, keys, used, path.name) for i, r in enumerate(records))
    return Rows(rows, keys, tuple(notes), str(path))


def _empty(path: Path, notes: Sequence[str], needs: Sequence[str], blank: int) -> Problem:
    """Return what to say of a file without a single value: why, and what a line of it should look like."""
    shown = {"prompt": "What is 2 + 3?", **({} if needs else {"completion": "5", "reward": 1.0}), "answer": "5"}
    line = f"one row per {'task' if needs else 'rollout'}, such as this line of JSON: {json.dumps(shown)}"
    size = path.stat().st_size
    if blank:
        what, found = "the file has no value", f"{blank} row{'s' * (blank > 1)} without one"
    elif notes:
        what, found = "no row could be read", f"only this: {'; '.join(notes)}"
    elif size:
        what, found = (
            "the file has no row",
            f"{size} byte{'s' * (size > 1)}, only blank lines, a header or an empty list",
        )
    else:
        what, found = "the file is empty", "0 bytes"
    return Problem(what, str(path), found, line)


def _key(role: str, given: Mapping[str, str], records: Sequence[Mapping[str, object]]) -> str | None:
    names = (given[role],) if role in given else KEYS[role]
    return next((n for n in names if any(_get(r, n) is not None for r in records)), None)


def _get(record: Mapping[str, object], key: str) -> object:
    """Return the value of a key or of a path.to.key."""
    if key in record:
        return record[key]
    head, dot, rest = key.partition(".")
    inner = record.get(head)
    return _get(inner, rest) if dot and isinstance(inner, Mapping) else None


def _records(path: Path) -> tuple[list[dict[str, object]], list[str]]:
    if not path.is_file():
        raise InputError(Problem("no such file", str(path)))
    if path.stat().st_size > MAX_BYTES:
        raise InputError(Problem("file too large", str(path), f"{path.stat().st_size} bytes", f"at most {MAX_BYTES}"))
    name = path.name.removesuffix(".gz").lower()
    if name.endswith(".parquet"):
        return _parquet(path)
    try:
        data = gzip.decompress(path.read_bytes()) if path.name.endswith(".gz") else path.read_bytes()
    except (OSError, EOFError) as error:
        raise InputError(Problem("cannot be read", str(path), str(error))) from error
    if name.endswith(".csv"):
        return _csv(data)
    if data.lstrip()[:1] == b"[":
        return _array(data, path)
    return _jsonl(data)


def _jsonl(data: bytes) -> tuple[list[dict[str, object]], list[str]]:
    out: list[dict[str, object]] = []
    broken = encoded = 0
    for line in data.split(b"\n"):
        if not line.strip():
            continue
        if len(out) >= MAX_ROWS:
            return out, [f"only the first {MAX_ROWS:,} rows were read"]
        try:
            found = orjson.loads(line)
        except ValueError:
            try:  # NaN, which sick runs write, or broken text
                text = line.decode("utf-8", "replace")
                encoded += "\ufffd" in text
                found = json.loads(text)
            except (ValueError, RecursionError):
                found = None
        if isinstance(found, dict):
            out.append(found)
        else:
            broken += 1
    notes = [f"{broken} broken line{'s were' if broken > 1 else ' was'} skipped"] if broken else []
    return out, notes + ([f"{encoded} lines are not UTF-8; what could not be read shows as �"] if encoded else [])


def _array(data: bytes, path: Path) -> tuple[list[dict[str, object]], list[str]]:
    try:
        found = json.loads(data.decode("utf-8", "replace"))
    except (ValueError, RecursionError) as error:
        raise InputError(Problem("broken JSON", str(path), str(error)[:200])) from error
    good = [r for r in found if isinstance(r, dict)]
    return good[:MAX_ROWS], [f"{len(found) - len(good)} entries that are no objects were skipped"] * (
        len(good) < len(found)
    )


def _csv(data: bytes) -> tuple[list[dict[str, object]], list[str]]:
    csv.field_size_limit(MAX_TEXT * 10)
    reader = csv.DictReader(io.StringIO(data.decode("utf-8", "replace"), newline=""))
    out: list[dict[str, object]] = []
    try:
        for row in reader:
            out.append({k: v for k, v in row.items() if k is not None and v not in (None, "")})
            if len(out) >= MAX_ROWS:
                return out, [f"only the first {MAX_ROWS:,} rows were read"]
    except csv.Error as error:
        return out, [f"reading stopped at row {len(out) + 1}: {error}"]
    return out, []


def _parquet(path: Path) -> tuple[list[dict[str, object]], list[str]]:
    import duckdb

    try:
        cursor = duckdb.connect().execute("SELECT * FROM read_parquet(?) LIMIT ?", [str(path), MAX_ROWS])
        names = [d[0] for d in cursor.description or ()]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()], []
    except duckdb.Error as error:
        raise InputError(Problem("not a readable parquet file", str(path), str(error).splitlines()[0][:200])) from error


def _row(number: int, record: Mapping[str, object], keys: Mapping[str, str], used: set[str], source: str) -> Row:
    def text(role: str) -> str:
        return _text(_get(record, keys[role])) or "" if role in keys else ""

    completion = _get(record, keys["completion"]) if "completion" in keys else None
    turns = _turns(_get(record, keys["turns_text"])) if "turns_text" in keys else _turns(completion)
    return Row(
        number=number,
        source=source,
        messages=_messages(_get(record, keys["prompt"])) if "prompt" in keys else (),
        completion=_said_by_assistant(completion),
        gold=_text(_get(record, keys["gold"])) if "gold" in keys else None,
        family=text("family"),
        tier=text("tier"),
        id=text("prompt_id"),
        step=_whole(_get(record, keys["step"])) if "step" in keys else None,
        group=text("group"),
        index=_whole(_get(record, keys["index"])) if "index" in keys else None,
        reward=_number(_get(record, keys["reward"])) if "reward" in keys else math.nan,
        correct=_number(_get(record, keys["correct"])) if "correct" in keys else math.nan,
        stop=text("stop_reason"),
        raw=text("raw_output"),
        seed=_whole(_get(record, keys["seed"])) if "seed" in keys else None,
        turns=turns,
        hash=text("text_hash"),
        extra={k: v for k, v in record.items() if k not in used},
    )


def _messages(value: object) -> tuple[Message, ...]:
    """Return a prompt as messages: text is one user turn; of a conversation all before the first assistant's turn."""
    if isinstance(value, list | tuple):
        out: list[Message] = []
        for m in value:
            if not isinstance(m, Mapping) or m.get("role") == "assistant":
                break
            out.append(Message(str(m.get("role", "user")), _text(m.get("content")) or ""))
        return tuple(out)
    found = _text(value)
    return () if found is None else (Message("user", found),)


def _turns(value: object) -> tuple[str, ...]:
    """Return the assistant's turns of a completion."""
    if isinstance(value, list | tuple):
        out = []
        for m in value:
            if isinstance(m, Mapping):
                if m.get("role", "assistant") == "assistant":
                    out.append(_text(m.get("content")) or "")
            else:
                out.append(_text(m) or "")
        return tuple(out)
    found = _text(value)
    return () if found is None else (found,)


def _said_by_assistant(value: object) -> str | None:
    turns = _turns(value)
    return "\n".join(turns) if turns else None


def _text(value: object) -> str | None:
    """Return a value as bounded text, None for nothing."""
    if value is None:
        return None
    if isinstance(value, str):
        return value[:MAX_TEXT]
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    if isinstance(value, list | tuple) and len(value) == 1:
        return _text(value[0])
    if isinstance(value, Mapping | list | tuple):
        return json.dumps(value, default=str, ensure_ascii=False)[:MAX_TEXT]
    return str(value)[:MAX_TEXT]


def _number(value: object) -> float:
    """Return a value as a number, NaN for anything that is none."""
    if isinstance(value, list | tuple) and len(value) == 1:
        value = value[0]
    if isinstance(value, Mapping):
        value = value.get("score", value.get("reward"))
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return float(value.lower() == "true")
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return math.nan


def _whole(value: object) -> int | None:
    found = _number(value)
    return int(found) if math.isfinite(found) and found == int(found) else None


def write_rows(rows: Sequence[Row], path: Path) -> None:
    """Write rollouts as JSON lines under their canonical names. Raises InputError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as stream:
            for r in rows:
                line = {
                    "step": r.step, "group": r.group, "index": r.index, "prompt_id": r.id, "family": r.family,
                    "tier": r.tier, "prompt": r.prompt, "completion": r.completion, "gold": r.gold,
                    "reward": r.reward if math.isfinite(r.reward) else None,
                    "correct": r.correct if math.isfinite(r.correct) else None, "stop_reason": r.stop,
                }  # fmt: skip
                stream.write(json.dumps(line, ensure_ascii=True).encode() + b"\n")
    except OSError as error:
        raise InputError(Problem("cannot write", str(path), error.strerror or str(error))) from error
