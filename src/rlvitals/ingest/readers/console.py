"""Console output: python-dict and JSON lines, verl's `step:1 - k:v`, `key=value` lines; bars, colours, Ray prefixes."""

from __future__ import annotations

import ast
import contextlib
import itertools
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import orjson

from rlvitals.ingest.readers.blocks import Blocks
from rlvitals.ingest.readers.crash import crash_events
from rlvitals.ingest.readers.unwrap import unwrap
from rlvitals.ingest.sources import Source
from rlvitals.ingest.table import RawTable, TableBuilder
from rlvitals.ingest.values import number
from rlvitals.schema import Note

MAX_RECORD = 200_000  # characters of one record
MAX_TEXT = 2_000_000  # characters of the other output kept for the config that it prints
MAX_TAIL = 400  # lines after the last record that are searched for a crash

_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07]*\x07")
_RAY = re.compile(r"^\s*\((?:[\w.:-]+ )*(?:pid|rank)=[^)]*\)\s?")
_BAR = re.compile(r"(\d+)/(\d+) \[")
_VERL = re.compile(r"(?:^|\s)step:\s*(\d+)\s+-\s+(.*)")
_VERL_PAIR = re.compile(r"([^\s:][^:]*?):\s*(\S.*)")
_COUNT = r"\s*[:=#]?\s*\[?(\d+)(?:\s*/\s*(\d+))?"
_STEP = re.compile(
    r"(?:^|[\s\[(|,{])(?:global[_ ]?|train(?:ing)?[_ ]?|optim(?:izer)?[_ ]?)?(?:step|iter(?:ation)?|update)\b" + _COUNT,
    re.IGNORECASE,
)
_EPOCH = re.compile(r"(?:^|[\s\[(|,{])(?:episode|epoch)\b" + _COUNT + r"(?!\.?\d)", re.IGNORECASE)
_VALUE = r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?%?|nan|[-+]?inf"
_PAIR = re.compile(rf"([A-Za-z_][\w./@-]*)\s*[=:]\s*({_VALUE})(?![\w.])", re.IGNORECASE)
_EVAL_LINE = re.compile(r"\s*\[Eval step (\d+)\]\s+(\w+)=(\d+(?:\.\d+)?)\b")  # the chapter-7 scripts' txt log
_BARE_NONFINITE = re.compile(r"(?<=[:\s\[(,])(-?)(nan|inf|NaN|Infinity)(?=[\s,})\]])")
_WRAPPED = re.compile(
    r"(?:np|numpy|torch)\.?\w*\(([-+.\deEnaif]+)(?:,[^()]*)?\)|tensor\(([-+.\deEnaif]+)(?:,[^()]*)?\)"
)
_METRIC_WORD = re.compile(r"loss|reward|score|step|entropy|(?:^|[/_'])kl|learning_rate|grad_norm|return", re.IGNORECASE)
_REWARD_WORD = re.compile(r"reward|score|return", re.IGNORECASE)


Record = tuple[dict[str, object], int, tuple[int, int] | None]  # values, line number, progress bar seen before


@dataclass
class Console:
    """Everything of one console log that matters; rows by style."""

    rows: dict[str, list[Record]] = field(default_factory=dict)
    text: list[str] = field(default_factory=list)
    text_size: int = 0
    tail: list[str] = field(default_factory=list)
    broken: int = 0


def read(source: Source) -> list[RawTable]:
    """Read a console log."""
    return [parse(((n, line.decode("utf-8", "replace")) for n, line in source.lines()), source.name)]


def parse(lines: Iterable[tuple[int, str]], name: str) -> RawTable:
    """Return the table of numbered lines: of the record styles found, the one with most reward values."""
    log = Console()
    blocks = Blocks()
    bar: tuple[int, int] | None = None
    for n, piece in unwrap(pieces(lines)):
        if "\ufffd" in piece:
            log.broken += 1
        found = _BAR.findall(piece) if "it/s" in piece or "s/it" in piece or "%|" in piece else None
        if found:
            bar = (int(found[-1][0]), int(found[-1][1]))
        in_block, done = blocks.feed(piece, n)
        _keep_block(log, done, bar)
        if in_block:
            continue
        style, record = parse_record(piece)
        if record is None:
            _keep_text(log, piece, is_bar=bool(found))
            continue
        log.rows.setdefault(style, []).append((record, n, bar))
        log.tail.clear()
    _keep_block(log, blocks.finish(), bar)
    return _table(log, name)


def _keep_block(log: Console, done: tuple[str, dict[str, object], int] | None, bar: tuple[int, int] | None) -> None:
    if done is not None:
        style, record, line = done
        log.rows.setdefault(style, []).append((record, line, bar))
        log.tail.clear()


def pieces(lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """Yield what the terminal would have shown: colours, Ray prefixes and carriage returns resolved."""
    for n, line in lines:
        if "\x1b" in line:
            line = _ANSI.sub("", line)
        for piece in line.split("\r"):
            if piece and not piece.isspace():
                yield n, _RAY.sub("", piece) if "pid=" in piece or "rank=" in piece else piece


def _keep_text(log: Console, piece: str, *, is_bar: bool) -> None:
    if is_bar:
        return
    if log.text_size < MAX_TEXT:
        log.text.append(piece[:MAX_RECORD])
        log.text_size += len(piece)
    log.tail.append(piece[:1000])
    if len(log.tail) > 2 * MAX_TAIL:
        del log.tail[:MAX_TAIL]


def parse_record(piece: str) -> tuple[str, dict[str, object] | None]:
    """Return (style, record) of one line; the record is None for a line that is none."""
    if len(piece) > MAX_RECORD:
        return "", None
    if "step:" in piece and " - " in piece:
        record = _verl(piece)
        if record is not None:
            return "verl", record
    brace = piece.find("{")
    if brace >= 0 and piece[brace + 1 : brace + 2] in ("'", '"') and "}" in piece:
        record = _dict(piece, brace)
        if record is not None:
            return "dict", record
    if "=" in piece or ":" in piece:
        record = _pairs(piece)
        if record is not None:
            return "pairs", record
    return "", None


def _verl(piece: str) -> dict[str, object] | None:
    match = _VERL.search(piece)
    if match is None:
        return None
    record: dict[str, object] = {"step": int(match[1])}
    for part in match[2].split(" - "):
        pair = _VERL_PAIR.fullmatch(part.strip())
        if pair is not None:
            value = number(pair[2].strip(), pair[1])
            if value is not None:
                record[pair[1].strip()] = value
    return record if len(record) > 1 else None


def _dict(piece: str, brace: int) -> dict[str, object] | None:
    text = piece[brace : piece.rfind("}") + 1]
    if len(text) < 2:  # the only closing brace stands before the opening one
        return None
    record: object = None
    plain_quotes = text[1] == "'" and '"' not in text and "\\" not in text  # then a dict of numbers reads as JSON
    if plain_quotes or text[1] == '"':
        with contextlib.suppress(orjson.JSONDecodeError):
            record = orjson.loads(text.replace("'", '"') if plain_quotes else text)
    if record is None:
        record = _literal(text)
    if not isinstance(record, dict):
        return None
    plain: dict[str, object] = {str(k): v for k, v in record.items()}
    numbers = [k for k, v in plain.items() if number(v, k) is not None or isinstance(v, dict)]
    if len(numbers) < 2 or not any(_METRIC_WORD.search(k) for k in numbers):
        return None
    if not any(k in plain for k in ("step", "global_step", "epoch", "iteration")):
        prefix = _STEP.search(piece[:brace])
        if prefix is not None:
            plain = {"step": int(prefix[1]), **plain}
    return plain


def _literal(text: str) -> object:
    """Evaluate a printed python dict; numpy and tensor reprs become numbers, bare nan becomes a logged NaN."""
    text = _WRAPPED.sub(r"\1", text)
    text = _BARE_NONFINITE.sub(r"'\1\2'", text)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)  # "1or 2" in the text of a log is not our syntax
            return ast.literal_eval(text)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return None


def _pairs(piece: str) -> dict[str, object] | None:
    """Return `[Step 1/500] loss=0.1 reward_avg=0.5`-like pairs; a step and two numbers at least, else it is prose."""
    held_out = _EVAL_LINE.match(piece)
    if held_out is not None:
        return {"step": int(held_out[1]), held_out[2]: held_out[3]}
    step = _STEP.search(piece) or _EPOCH.search(piece)
    if step is None:
        return None
    pairs = [(m[1], m[2]) for m in _PAIR.finditer(piece)]
    pairs = [(k, v) for k, v in pairs if not _STEP.fullmatch(f" {k}={v}") and not _EPOCH.fullmatch(f" {k}={v}")]
    if len(pairs) < 2 or not any(_METRIC_WORD.search(k) for k, _ in pairs):
        return None
    record: dict[str, object] = {"step": int(step[1])}
    if step[2]:
        record["total_steps"] = int(step[2])
    return {**record, **dict(pairs)}


def _table(log: Console, name: str) -> RawTable:
    notes: list[Note] = []
    styles = sorted(log.rows, key=lambda style: -_reward_values(log.rows[style]))
    builder = TableBuilder(name)
    if styles:
        rows = log.rows[styles[0]]
        if not any("step" in record for record, _, _ in rows):
            note = _number_by_bars(rows, name)
            notes += [note] if note else []
        for record, n, _ in rows:
            builder.add(record, n)
    if log.broken:
        notes.append(Note("replaced bytes that are no UTF-8", name, 0, log.broken))
    events = crash_events(log.tail[-MAX_TAIL:], at_end=bool(styles))
    return builder.build(tuple(notes), events, "\n".join(log.text))


def _reward_values(rows: list[Record]) -> float:
    rewarded = sum(any(_REWARD_WORD.search(key) for key in record) for record, _, _ in rows)
    return rewarded + 1e-3 * len(rows)


def _number_by_bars(rows: list[Record], name: str) -> Note | None:
    """Give rows without a step the position of the training bar, where that counts up with the rows.

    Output that was buffered shows all bars before all rows; then the bar's total over the number of rows gives
    the logging interval, provided that the run finished.
    """
    for start, end in _passes(rows):
        _number_pass(rows[start:end])
    numbered = [record["step"] for record, _, _ in rows if "step" in record]
    return Note("steps taken from the progress bar", name, 0, len(numbered)) if numbered else None


def _passes(rows: list[Record]) -> list[tuple[int, int]]:
    """Return [start, end) of each training pass: it ends with its summary or where the epoch falls back."""
    cuts = [0]
    last = -1.0
    for i, (record, _, _) in enumerate(rows):
        epoch = number(record.get("epoch"))
        if epoch is not None and epoch < last - 1e-9:
            cuts.append(i)
        last = epoch if epoch is not None else last
        if "train_runtime" in record:
            cuts.append(i + 1)
            last = -1.0
    cuts.append(len(rows))
    return [(a, b) for a, b in itertools.pairwise(cuts) if b > a]


def _number_pass(rows: list[Record]) -> None:
    train = [
        (record, bar)
        for record, _, bar in rows
        if "train_runtime" not in record
        and any(key == "loss" or "reward" in key for key in record if "eval" not in key)
    ]
    totals = Counter(bar[1] for _, bar in train if bar is not None)
    if not train or not totals:
        return
    total = max(totals, key=lambda t: (totals[t], t))
    seen = [bar[0] if bar is not None and bar[1] == total else None for _, bar in train]
    known = [n for n in seen if n is not None]
    if len(known) == len(train) and known[0] > 0 and all(b > a for a, b in itertools.pairwise(known)):
        for (record, _), n in zip(train, known, strict=True):
            record["step"] = n
        return
    finished = any("train_runtime" in record for record, _, _ in rows)
    interval = total // len(train)
    if finished and interval and total // interval == len(train):
        for i, (record, _) in enumerate(train):
            record["step"] = (i + 1) * interval
