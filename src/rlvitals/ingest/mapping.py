"""Apply a resolver to a whole table (column-wise) or to one live row (RowMapper): the same rules, the same values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from rlvitals.ingest.adapter import Derived, RawSum
from rlvitals.ingest.rules import SUMMARY_KEYS, Kind, Resolver, Rule, pattern, scope_of
from rlvitals.ingest.table import Bool, RawTable
from rlvitals.ingest.values import number
from rlvitals.metrics import lookup
from rlvitals.schema import NONFINITE_PREFIX, Float64, Provenance, Status, Unrecognised

PERCENT_MAX = 100.0  # by definition of a percentage
FRACTION_SLACK = 1e-6  # rounding above 1 that is still a fraction


@dataclass(frozen=True)
class EvalColumn:
    """A held-out series inside a table: value[N], NaN where not evaluated."""

    name: str
    values: Float64
    key: str
    metric: str
    guessed: bool = False


@dataclass(frozen=True)
class Mapped:
    """A table in canonical names, rows still in file order.

    Args:
        step: float64[N], NaN where the row carries none; None when no row does.
        summary: bool[N], end-of-run records.
        rank: canonical metric -> priority of the key it came from.
    """

    source: str
    step: Float64 | None
    step_key: str
    columns: Mapping[str, Float64]
    evals: tuple[EvalColumn, ...]
    provenance: Mapping[str, Provenance]
    unrecognised: tuple[Unrecognised, ...]
    summary: Bool


def map_table(table: RawTable, resolver: Resolver) -> Mapped:
    """Return the table in canonical names; of several keys for one metric the resolver's first choice is taken."""
    table = replace(table, columns=_with_sums(table.columns, resolver.adapter.sums))
    chosen: dict[str, tuple[Rule, str]] = {}
    evals: list[EvalColumn] = []
    unknown: list[str] = []
    step_key = _step_key(table, resolver)
    for raw, column in table.columns.items():
        if raw == step_key:
            continue
        rule = resolver.rule(raw)
        if rule.kind is Kind.METRIC:
            best = chosen.get(rule.metric)
            if best is None or rule.priority < best[0].priority:
                chosen[rule.metric] = (rule, raw)
        elif rule.kind is Kind.EVAL:
            evals.append(_eval_column(rule, raw, column))
        elif rule.kind is Kind.UNKNOWN:
            unknown.append(raw)
    columns: dict[str, Float64] = {}
    provenance: dict[str, Provenance] = {}
    for metric, (rule, raw) in chosen.items():
        columns[metric], provenance[metric] = _column(rule, raw, table.columns[raw], table.source)
        bad = table.nonfinite.get(raw)
        if bad is not None:
            columns[NONFINITE_PREFIX + metric] = np.where(bad, 1.0, np.where(np.isnan(columns[metric]), np.nan, 0.0))
    _derive(resolver.adapter.derived, table, columns, provenance)
    summary = np.zeros(table.rows, dtype=np.bool_)
    for raw in SUMMARY_KEYS & set(table.columns):
        summary |= ~np.isnan(table.columns[raw])
    step = table.columns[step_key] if step_key else None
    left = tuple(Unrecognised(raw, table.source, _logged(table, raw)) for raw in unknown)
    return Mapped(table.source, step, step_key, columns, tuple(evals), provenance, left, summary)


def _with_sums(columns: Mapping[str, Float64], sums: tuple[RawSum, ...]) -> Mapping[str, Float64]:
    """Return the columns and the sums of sparse counts: 0 where none of them was logged but `beside` was."""
    out = dict(columns)
    for each in sums:
        beside = columns.get(each.beside)
        if beside is None:
            continue
        fits = pattern(each.pattern).fullmatch
        parts = [column for raw, column in columns.items() if fits(raw)]
        total = np.nansum(parts, axis=0) if parts else np.zeros(beside.size)
        logged = ~np.isnan(beside) | np.any([~np.isnan(p) for p in parts], axis=0) if parts else ~np.isnan(beside)
        out[each.name] = np.where(logged, total, np.nan)
    return out


def _logged(table: RawTable, raw: str) -> int:
    return int(np.count_nonzero(~np.isnan(table.columns[raw])))


def _step_key(table: RawTable, resolver: Resolver) -> str:
    """Return the first step key whose values are whole numbers, "" when there is none."""
    for raw in resolver.step_keys():
        column = table.columns.get(raw)
        if column is None:
            continue
        values = column[~np.isnan(column)]
        if values.size and bool(np.all(values == np.floor(values))) and (raw != "epoch" or _is_counter(values)):
            return raw
    return ""


def _is_counter(values: Float64) -> bool:
    """An epoch column serves as step axis only when it counts up by one each row."""
    return values.size > 1 and bool(np.all(np.diff(values) == 1))


def is_percent(metric: str, largest: float, smallest: float) -> bool:
    """True for a share whose values cannot be fractions but can be percentages."""
    row = lookup(metric)
    share = row is not None and row.unit == "fraction"
    return share and largest > 1.0 + FRACTION_SLACK and smallest >= 0.0 and largest <= PERCENT_MAX + FRACTION_SLACK


def _column(rule: Rule, raw: str, column: Float64, file: str) -> tuple[Float64, Provenance]:
    key = rule.key
    assert key is not None  # a METRIC rule always has one
    scale, transform = rule.scale, key.transform
    finite = column[~np.isnan(column)]
    unsure = rule.status is not Status.MEASURED and bool(finite.size)
    if unsure and is_percent(rule.metric, float(finite.max()), float(finite.min())):
        scale, transform = scale / PERCENT_MAX, "percent -> fraction"
    values = column if scale == 1.0 and rule.offset == 0.0 else scale * column + rule.offset
    row = lookup(rule.metric)
    if not transform and values is not column:
        transform = f"{scale:g} x" + (f" + {rule.offset:g}" if rule.offset else "")
    unit = key.unit or (row.unit if row is not None else "")
    direction = key.direction or (row.direction if row is not None else None)
    return values, Provenance(
        rule.metric, raw, file, rule.status, key.estimator, direction, scope_of(rule), unit, transform, key.note
    )


def _eval_column(rule: Rule, raw: str, column: Float64) -> EvalColumn:
    assert rule.eval_key is not None  # an EVAL rule always has one
    values = rule.scale * column if rule.scale != 1.0 else column
    finite = values[~np.isnan(values)]
    metric = rule.eval_key.metric
    either = rule.status is not Status.MEASURED or rule.eval_key.percent_or_fraction
    share = bool(finite.size) and metric == "accuracy" and either
    if share and is_percent("success_frac", float(finite.max()), float(finite.min())):
        values = values / PERCENT_MAX
    return EvalColumn(rule.metric, values, raw, metric, rule.status is Status.GUESSED)


def _derive(
    derived: tuple[Derived, ...], table: RawTable, columns: dict[str, Float64], provenance: dict[str, Provenance]
) -> None:
    for rule in derived:
        if rule.metric in columns:
            continue
        inputs = [columns[name] if name in columns else table.columns.get(name) for name in rule.inputs]
        known = [column for column in inputs if column is not None]
        if len(known) != len(inputs):
            continue
        with np.errstate(divide="ignore", invalid="ignore"):
            values = np.asarray(rule.compute(*known), dtype=np.float64)
        columns[rule.metric] = np.where(np.isfinite(values), values, np.nan)
        row = lookup(rule.metric)
        provenance[rule.metric] = Provenance(
            rule.metric,
            ", ".join(rule.inputs),
            table.source,
            Status.DERIVED,
            estimator=rule.estimator,
            direction=row.direction if row is not None else None,
            unit=row.unit if row is not None else "",
            transform=rule.transform,
            note=rule.note,
        )


@dataclass(frozen=True, slots=True)
class MappedRow:
    """One live row; a non-finite value is flagged in `values`, not stored.

    kinds: what each held-out score is, "accuracy" or "reward", by the same names as `evals`.
    """

    values: Mapping[str, float]
    evals: Mapping[str, float]
    kinds: Mapping[str, str]


class RowMapper:
    """Maps one row of raw metrics at a time, for the live monitor."""

    def __init__(self, resolver: Resolver) -> None:
        self.resolver = resolver
        self._percent: set[str] = set()  # shares that were once above 1: percentages from then on
        self._chosen: dict[str, tuple[int, str]] = {}  # metric -> priority and key: two keys are never one series
        self._sums = tuple((each, pattern(each.pattern)) for each in resolver.adapter.sums)

    def map_row(self, raw: Mapping[str, object]) -> MappedRow:
        """Return the canonical values of one row; nested dicts must be flattened by the caller."""
        values: dict[str, float] = {}
        evals: dict[str, float] = {}
        kinds: dict[str, str] = {}
        seen: dict[str, float] = {}
        for key, item in self._summed(raw).items() if self._sums else raw.items():
            value = item if type(item) is float else number(item, key)
            if value is None:
                continue
            seen[key] = value
            rule = self.resolver.rule(key)
            if rule.kind is Kind.METRIC:
                priority, chosen = self._chosen.get(rule.metric, (rule.priority, key))
                if rule.priority < priority or key == chosen:
                    self._chosen[rule.metric] = (rule.priority, key)
                    self._store(rule, value, values)
            elif rule.kind is Kind.EVAL and math.isfinite(value):
                evals[rule.metric] = self._fraction(rule, rule.scale * value, "success_frac")
                kinds[rule.metric] = "accuracy" if rule.eval_key is None else rule.eval_key.metric
        self._derive(seen, values)
        return MappedRow(values, evals, kinds)

    def estimator(self, metric: str) -> str:
        """Return the estimator of a series as its key or derivation says, "" when they do not."""
        chosen = self._chosen.get(metric)
        if chosen is not None:
            key = self.resolver.rule(chosen[1]).key
            return key.estimator if key is not None else ""
        return next((d.estimator for d in self.resolver.adapter.derived if d.metric == metric), "")

    def _summed(self, raw: Mapping[str, object]) -> Mapping[str, object]:
        out = dict(raw)
        for each, regex in self._sums:
            if each.beside in raw:
                parts = [number(item, key) for key, item in raw.items() if regex.fullmatch(key)]
                out[each.name] = sum(value for value in parts if value is not None)
        return out

    def _store(self, rule: Rule, value: float, values: dict[str, float]) -> None:
        values.pop(rule.metric, None)
        values.pop(NONFINITE_PREFIX + rule.metric, None)
        if math.isfinite(value):
            values[rule.metric] = self._fraction(rule, rule.scale * value + rule.offset, rule.metric)
        else:
            values[NONFINITE_PREFIX + rule.metric] = 1.0

    def _fraction(self, rule: Rule, value: float, metric: str) -> float:
        either = rule.eval_key is not None and rule.eval_key.percent_or_fraction
        if rule.status is Status.MEASURED and not either:
            return value
        if rule.eval_key is not None and rule.eval_key.metric != "accuracy":
            return value
        if rule.metric in self._percent or is_percent(metric, value, value):
            self._percent.add(rule.metric)
            return value / PERCENT_MAX
        return value

    def _derive(self, seen: Mapping[str, float], values: dict[str, float]) -> None:
        for rule in self.resolver.adapter.derived:
            if rule.metric in values:
                continue
            inputs = [values.get(name, seen.get(name)) for name in rule.inputs]
            if any(value is None for value in inputs):
                continue
            try:
                result = float(rule.compute(*inputs))
            except (ZeroDivisionError, OverflowError):
                continue
            if math.isfinite(result):
                values[rule.metric] = result
