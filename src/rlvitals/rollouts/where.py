"""A small filter language over the columns of the table: `step=120 and reward>0.5 and family=gsm8k`.

Comparisons (`=`, `!=`, `<`, `<=`, `>`, `>=`, `~` for "contains"), `in (a, b)`, `and`, `or`, `not` and brackets. It is
parsed here and compared with numpy; nothing of it reaches SQL or Python. A value that is absent is equal to nothing,
not even by `!=`; `column=none` finds it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

import numpy as np
import numpy.typing as npt

from rlvitals.errors import InputError, Problem
from rlvitals.rollouts.table import BY_NAME, MISSING, PART, Batch, Kind, kind_of

Mask = npt.NDArray[np.bool_]
Node = Callable[[Batch], Mask]
MAX_LENGTH = 2_000  # characters of a filter
MAX_DEPTH = 50  # brackets and negations within each other
_TOKEN = re.compile(
    r"""\s*(?:(?P<op><=|>=|!=|==|=|<|>|~)|(?P<mark>[(),])|"(?P<dq>[^"]*)"|'(?P<sq>[^']*)'|(?P<word>[^\s()=<>!~,"']+))"""
)
_COMPARE = {
    "=": np.equal, "==": np.equal, "!=": np.not_equal, "<": np.less, "<=": np.less_equal, ">": np.greater,
    ">=": np.greater_equal,
}  # fmt: skip
SHORT = {"part": PART, "length": "tokens", "stop": "stop_reason", "version": "policy_version"}


@dataclass(frozen=True, slots=True)
class Filter:
    """A parsed filter: `columns` are those it reads; called with a batch it returns bool[rows]."""

    text: str
    columns: tuple[str, ...]
    node: Node

    def __call__(self, batch: Batch) -> Mask:
        return self.node(batch)


def parse(text: str) -> Filter:
    """Return the filter that a text says. Raises InputError with the place of what could not be read."""
    parser = _Parser(text)
    node = parser.either(0)
    parser.done()
    return Filter(text, tuple(dict.fromkeys(parser.columns)), node)


def equal(column: str, value: str) -> Filter:
    """Return the filter that asks for one value, whatever characters it has. Raises InputError."""

    def problem(what: str) -> InputError:
        return InputError(Problem(what, column))

    return Filter(f"{column}={value}", (column,), _compared(column, "=", value, problem))


def both(filters: Sequence[Filter]) -> Filter | None:
    """Return the filter that asks for all of them, None for none."""
    if not filters:
        return None
    columns = tuple(dict.fromkeys(c for f in filters for c in f.columns))
    return Filter(
        " and ".join(f"({f.text})" for f in filters), columns, lambda b: np.logical_and.reduce([f(b) for f in filters])
    )


class _Parser:
    def __init__(self, text: str) -> None:
        if len(text) > MAX_LENGTH:
            raise InputError(Problem("the filter is too long", "--where", f"{len(text)} characters", f"{MAX_LENGTH}"))
        self.text, self.columns = text, list[str]()
        self.tokens: list[tuple[str, str, int]] = []
        at = 0
        while at < len(text.rstrip()):
            found = _TOKEN.match(text, at)
            if found is None or found.end() == at:
                raise self._problem("this can't be read", at)
            kind = str(found.lastgroup)
            self.tokens.append(("text" if kind in ("dq", "sq") else kind, found[kind], found.start(kind)))
            at = found.end()
        self.at = 0

    def _problem(self, what: str, at: int) -> InputError:
        return InputError(
            Problem(what, f"--where, character {at + 1}", self.text[at : at + 40] or "the end",
                    "COLUMN OP VALUE, joined by and, or, not",
                    "Example: --where 'step=120 and reward>0.5 and family=math'")
        )  # fmt: skip

    def _next(self) -> tuple[str, str, int]:
        return self.tokens[self.at] if self.at < len(self.tokens) else ("end", "", len(self.text))

    def _take(self, *words: str) -> bool:
        kind, value, _ = self._next()
        if kind in ("word", "mark") and value.lower() in words:
            self.at += 1
            return True
        return False

    def done(self) -> None:
        if self.at < len(self.tokens):
            raise self._problem("more than a filter", self._next()[2])

    def either(self, depth: int) -> Node:
        left = self.every(depth)
        while self._take("or"):
            left = _or(left, self.every(depth))
        return left

    def every(self, depth: int) -> Node:
        left = self.one(depth)
        while self._take("and"):
            left = _and(left, self.one(depth))
        return left

    def one(self, depth: int) -> Node:
        if depth > MAX_DEPTH:
            raise self._problem("nested too deeply", self._next()[2])
        if self._take("not"):
            inner = self.one(depth + 1)
            return lambda batch: ~inner(batch)
        if self._take("("):
            inside = self.either(depth + 1)
            if not self._take(")"):
                raise self._problem("a bracket is not closed", self._next()[2])
            return inside
        return self.comparison()

    def comparison(self) -> Node:
        kind, name, at = self._next()
        if kind not in ("word", "text"):
            raise self._problem("a column is missing", at)
        self.at += 1
        column = self._column(name, at)
        if self._take("in"):
            return self._among(column, at)
        kind, operator, at = self._next()
        if kind != "op":
            raise self._problem("a comparison is missing", at)
        self.at += 1
        return _compared(column, operator, self._value(), lambda what: self._problem(what, at))

    def _among(self, column: str, at: int) -> Node:
        if not self._take("("):
            raise self._problem("a list in brackets is missing", self._next()[2])
        nodes = [_compared(column, "=", self._value(), lambda what: self._problem(what, at))]
        while self._take(","):
            nodes.append(_compared(column, "=", self._value(), lambda what: self._problem(what, at)))
        if not self._take(")"):
            raise self._problem("a bracket is not closed", self._next()[2])
        return lambda batch: np.logical_or.reduce([node(batch) for node in nodes])

    def _value(self) -> str:
        kind, value, at = self._next()
        if kind not in ("word", "text"):
            raise self._problem("a value is missing", at)
        self.at += 1
        return value

    def _column(self, name: str, at: int) -> str:
        name = SHORT.get(name, name)
        if name.startswith("part/"):
            name = PART + name.removeprefix("part/")
        if name not in BY_NAME and not (name.startswith(PART) and name != PART):
            near = get_close_matches(name, list(BY_NAME), n=1) or get_close_matches(name, list(SHORT), n=1)
            raise InputError(
                Problem("unknown column", f"--where, character {at + 1}", name[:80],
                        f"one of {', '.join(BY_NAME)}", f"Nearest: {near[0]}" if near else "")
            )  # fmt: skip
        self.columns.append(name)
        return name


def _and(a: Node, b: Node) -> Node:
    return lambda batch: a(batch) & b(batch)


def _or(a: Node, b: Node) -> Node:
    return lambda batch: a(batch) | b(batch)


def _compared(column: str, operator: str, value: str, problem: Callable[[str], InputError]) -> Node:
    kind = kind_of(column)
    if kind is Kind.TOKENS:
        raise problem(f"{column} holds one number per token and can't be compared")
    if value.lower() == "none" and operator in ("=", "==", "!="):
        return _absent(column, kind, operator == "!=")
    if kind is Kind.TEXT:
        return _text(column, operator, value)
    try:
        number = float(value)
    except ValueError:
        raise problem(f"{column} is a number, {value[:40]!r} is none") from None
    if operator == "~":
        raise problem(f"{column} is a number: ~ is for text")
    compare = _COMPARE[operator]
    if kind is Kind.NUMBER:
        return lambda batch: np.asarray(np.isfinite(batch.number(column)) & compare(batch.number(column), number))
    return lambda batch: np.asarray((batch.integer(column) != MISSING) & compare(batch.integer(column), number))


def _absent(column: str, kind: Kind, negated: bool) -> Node:
    def node(batch: Batch) -> Mask:
        if kind is Kind.NUMBER:
            gone = ~np.isfinite(batch.number(column))
        elif kind is Kind.INTEGER:
            gone = batch.integer(column) == MISSING
        else:
            gone = np.fromiter((v is None for v in batch.text(column)), dtype=bool, count=batch.rows)
        return np.asarray(~gone if negated else gone)

    return node


def _text(column: str, operator: str, value: str) -> Node:
    tests: dict[str, Callable[[str], bool]] = {
        "=": lambda v: v == value,
        "==": lambda v: v == value,
        "!=": lambda v: v != value,
        "~": lambda v: value.lower() in v.lower(),
        "<": lambda v: v < value,
        "<=": lambda v: v <= value,
        ">": lambda v: v > value,
        ">=": lambda v: v >= value,
    }
    test = tests[operator]
    return lambda batch: np.fromiter(
        (v is not None and test(v) for v in batch.text(column)), dtype=bool, count=batch.rows
    )
