"""What a trainer's own key stands for: canonical metric, estimator, direction and scope, in each trainer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches

from rlvitals.false_alarms import about
from rlvitals.ingest.adapter import Adapter, EvalKey, Key
from rlvitals.ingest.generic import guess
from rlvitals.ingest.rules import Kind, Resolver, Rule
from rlvitals.metrics import METRICS, lookup
from rlvitals.reference.checks import checks_needing
from rlvitals.reference.page import Bullets, Page, Paragraph, Table, page, section
from rlvitals.reference.words import trainers
from rlvitals.schema import RunConfig, Scope, Status

_CONFIGS = (
    RunConfig(),
    RunConfig(importance_level="sequence"),
    RunConfig(advantage_scaling="batch"),
    RunConfig(drops_zero_variance=True),
)  # settings on which the meaning of a key may depend


@dataclass(frozen=True, slots=True)
class Meaning:
    """One thing that a raw key can stand for in one trainer."""

    trainer: str
    metric: str  # canonical, or "held-out: NAME"
    estimator: str = ""
    direction: str = ""
    scope: str = ""
    transform: str = ""
    note: str = ""


def meanings(raw: str) -> tuple[Meaning, ...]:
    """Return what a raw key stands for in each trainer that knows it; several where it depends on the settings."""
    return tuple(dict.fromkeys(m for adapter in trainers() for m in _in(adapter, raw)))


def _in(adapter: Adapter, raw: str) -> Iterator[Meaning]:
    everything = frozenset((*adapter.keys, raw))
    for keys in (frozenset((raw,)), everything):
        for config in _CONFIGS:
            rule = Resolver(adapter, keys, config).rule(raw)
            if rule.status is Status.MEASURED and rule.kind in (Kind.METRIC, Kind.EVAL):
                yield _meaning(adapter, rule)
    for derived in adapter.derived:
        if raw in derived.inputs:
            yield Meaning(adapter.info.name, derived.metric, transform=derived.transform, note=derived.note)


def _meaning(adapter: Adapter, rule: Rule) -> Meaning:
    if rule.kind is Kind.EVAL:
        kind = rule.eval_key.metric if rule.eval_key is not None else "accuracy"
        note = rule.eval_key.note if rule.eval_key is not None else ""
        return Meaning(adapter.info.name, f"held-out {kind}: {rule.metric}", note=note)
    key = rule.key or Key(rule.metric)
    row = lookup(rule.metric)
    direction = key.direction or (row.direction if row is not None else None)
    scope = "" if key.scope is Scope.ALL else key.scope.value
    transform = key.transform or (f"{key.scale:g} x" if key.scale != 1 else "")
    return Meaning(
        adapter.info.name, rule.metric, key.estimator, direction.value if direction else "", scope, transform, key.note
    )


def ignored_by(raw: str) -> tuple[str, ...]:
    """Return the trainers in which the key is understood and not used (timings, memory, duplicates)."""
    return tuple(a.info.name for a in trainers() if Resolver(a, (raw,)).rule(raw).kind is Kind.IGNORE)


def keys_of(metric: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return (trainer, its own keys) for a canonical metric; a prefix `train/` is not repeated."""
    out = []
    for adapter in trainers():
        exact = [k for k, v in adapter.keys.items() if v.metric == metric]
        family = metric[:-1] if metric.endswith("/*") else metric.partition("/")[0] + "/" if "/" in metric else ""
        open_ = [p for p, v in adapter.patterns if family and v.metric.startswith(family)]
        made = [f"{d.transform} (derived)" for d in adapter.derived if d.metric == metric]
        found = tuple(k for k in dict.fromkeys((*exact, *open_)) if not k.startswith("train/"))
        if found or made:
            out.append((adapter.info.name, tuple(f"`{k.replace('{}', '<name>')}`" for k in found) + tuple(made)))
    return tuple(out)


def all_keys() -> tuple[str, ...]:
    """Return every exact key that some trainer's adapter knows."""
    return tuple(dict.fromkeys(k for a in trainers() for k in a.keys))


def key_page(raw: str) -> Page | None:
    """Return the page of a trainer's key, None when nobody knows it and no alias fits."""
    found = meanings(raw)
    ignored = ignored_by(raw)
    guessed = guess(raw) if not found else None
    if not found and guessed is None and not ignored:
        return None
    if found:
        metrics = tuple(dict.fromkeys(m.metric for m in found))
        several = "It stands for several things: which one depends on trainer, version and settings."
        lead = several if len(metrics) > 1 else _measures(metrics[0])
    elif guessed is not None:
        target = guessed.target
        metrics = (f"held-out {target.metric}: {target.name}",) if isinstance(target, EvalKey) else (target.metric,)
        lead = f"No trainer here writes it under this name. By its name it is taken for `{metrics[0]}` (guessed)."
        near = get_close_matches(raw, [m.name for m in METRICS], n=1, cutoff=0.8)
        lead += f" Or did you mean `{near[0]}`?" if near else ""
    else:
        metrics, lead = (), f"Understood and not used ({', '.join(ignored)}): it says nothing about health."
    rows = tuple((m.trainer, f"`{m.metric}`", _kind(m), m.note) for m in _together(found))
    needing = tuple(dict.fromkeys(f"`{c.id}` {c.name}" for m in metrics for c in checks_needing(m)))
    return page(
        raw,
        lead,
        section("What it is", Table(("trainer", "metric", "measured as", "note"), rows)),
        section("How a healthy run looks", Bullets(tuple(f"`{m}`: {_healthy(m)}" for m in metrics if lookup(m)))),
        section("Is this normal?", *false_alarm_blocks(metrics)),
        section("Checks that read it", Paragraph(", ".join(needing))),
    )


def _together(found: tuple[Meaning, ...]) -> tuple[Meaning, ...]:
    """Return the meanings with trainers of the same meaning in one row."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for m in found:
        names = groups.setdefault((m.metric, m.estimator, m.direction, m.scope, m.transform, m.note), [])
        if m.trainer not in names:
            names.append(m.trainer)
    return tuple(Meaning(", ".join(names), *rest) for rest, names in groups.items())


def _kind(m: Meaning) -> str:
    return "; ".join(part for part in (m.estimator, m.direction, m.scope, m.transform) if part)


def _measures(metric: str) -> str:
    row = lookup(metric)
    return f"`{metric}`: {row.measures}" if row is not None else f"`{metric}`."


def _healthy(metric: str) -> str:
    row = lookup(metric)
    return row.healthy if row is not None else ""


def false_alarm_blocks(metrics: tuple[str, ...]) -> tuple[Table, ...]:
    """Return the false-alarm rows about these metrics as one table."""
    rows = tuple((r.reading, r.normal, r.fault, ", ".join(f"`{c}`" for c in r.checks)) for r in about(metrics))
    return (Table(("reading", "normal when", "a fault when", "checks"), rows),) if rows else ()
