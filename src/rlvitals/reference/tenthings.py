"""The ten things to log so that diagnosis is possible, and which of them a run has."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from rlvitals.check import NoData
from rlvitals.diagnosis import Diagnosis
from rlvitals.ingest.adapter import Adapter
from rlvitals.ingest.generic import ADAPTER as GENERIC
from rlvitals.ingest.generic import guess
from rlvitals.logline import BY_HAND
from rlvitals.reference.words import how_to_log
from rlvitals.schema import Run

MIN_SCORES = 2  # of one held-out set; a single score is no cadence (definition)


class Have(StrEnum):
    YES = "yes"
    PARTLY = "partly"
    NO = "no"


@dataclass(frozen=True, slots=True)
class Part:
    """One piece of a thing to log; any one of its sources is enough.

    `sources` are canonical metrics, open families ("stop_frac/*"), "evals", "rollouts", "config:FIELD" or
    "version:NAME"; the first one is what is asked for when all are missing.
    """

    label: str
    sources: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Thing:
    number: int
    title: str
    parts: tuple[Part, ...]


TEN_THINGS: tuple[Thing, ...] = (
    Thing(
        1,
        "Reward distribution per task family, and the raw verifier output beside the parsed reward",
        (
            Part("mean reward", ("reward_mean",)),
            Part("spread of the reward", ("reward_std", "reward_min", "reward_max")),
            Part("reward components", ("reward_part/*",)),
            Part("reward per task family", ("reward_family/*",)),
            Part("raw verifier output per rollout", ("rollouts",)),
        ),
    ),
    Thing(2, "Share of groups without reward variance", (Part("zero-variance share", ("zero_variance_frac",)),)),
    Thing(3, "Success rate per curriculum tier", (Part("success per tier", ("success_tier/*",)),)),
    Thing(
        4,
        "Parse-failure rate and truncation rate",
        (Part("parse failures", ("parse_failure_frac",)), Part("truncation", ("truncated_frac",))),
    ),
    Thing(
        5,
        "Distribution of completion lengths, and reward against length",
        (
            Part("mean length", ("length_mean",)),
            Part("spread of lengths", ("length_max", "length_min", "length_std")),
            Part("length of rewarded and unrewarded completions", ("length_right_mean", "rollouts")),
        ),
    ),
    Thing(
        6,
        "KL to the reference, and entropy",
        (Part("KL to the reference", ("kl_ref",)), Part("entropy", ("entropy",))),
    ),
    Thing(7, "Counts of termination reasons per task family", (Part("termination reasons", ("stop_frac/*",)),)),
    Thing(
        8,
        "Policy version of every trajectory, and version lag of every batch",
        (Part("version lag", ("version_lag_mean", "version_lag_max")), Part("version per trajectory", ("rollouts",))),
    ),
    Thing(9, "Held-out evaluation at a fixed cadence with fixed seeds", (Part("held-out scores", ("evals",)),)),
    Thing(
        10,
        "Environment version, reward version and sampler settings",
        (
            Part("sampler settings", ("config:temperature",)),
            Part("token budget", ("config:token_budget",)),
            Part("environment version", ("version:environment", "version:env")),
            Part("reward version", ("version:reward",)),
        ),
    ),
)


@dataclass(frozen=True, slots=True)
class Missing:
    """A part that a run lacks, the checks that are blind for it, and the line that adds it."""

    part: Part
    unlocks: tuple[str, ...]  # ids of checks
    line: str


@dataclass(frozen=True, slots=True)
class Standing:
    """One of the ten things in one run."""

    thing: Thing
    have: Have
    present: tuple[str, ...]  # labels of the parts that are there
    missing: tuple[Missing, ...]


def standing(run: Run, diagnosis: Diagnosis, adapter: Adapter | None) -> tuple[Standing, ...]:
    """Return where a run stands on each of the ten things."""
    blind = {i: (*o.missing, *o.unmeasured) for i, o in diagnosis.outcomes.items() if isinstance(o, NoData)}
    out = []
    for thing in TEN_THINGS:
        there = tuple(p.label for p in thing.parts if any(_has(run, s) for s in p.sources))
        lacking = tuple(
            Missing(p, _blind_for(p.sources, blind.items()), log_line(p.sources, adapter))
            for p in thing.parts
            if p.label not in there
        )
        have = Have.YES if not lacking else Have.PARTLY if there else Have.NO
        out.append(Standing(thing, have, there, lacking))
    return tuple(out)


def _has(run: Run, source: str) -> bool:
    kind, _, name = source.partition(":")
    if kind == "config":
        return getattr(run.config, name) is not None
    if kind == "version":
        return any(name == known.lower() or f"{name}_version" == known.lower() for known in run.config.versions)
    if source == "evals":
        return any(e.step.size >= MIN_SCORES for e in run.evals.values())
    if source == "rollouts":
        return run.rollouts is not None
    if source.endswith("/*"):
        return any(run.has(m) for m in run.family(source[:-1]))
    return run.has(source)


def _blind_for(sources: tuple[str, ...], blind: Iterable[tuple[str, tuple[str, ...]]]) -> tuple[str, ...]:
    names = {s.removesuffix("*").removeprefix("config:") for s in sources}
    if "evals" in sources:
        names.add("held-out")
    return tuple(sorted(i for i, missing in blind if names & set(missing)))


def log_line(sources: tuple[str, ...], adapter: Adapter | None) -> str:
    """Return what makes this trainer log one of the sources, or how to add it to the log by hand."""
    if sources[0].startswith("version:"):
        return VERSIONS
    for known in (adapter, GENERIC):
        for source in sources:
            key = "config" if source.startswith("config:") else source
            found = how_to_log(known, key) if known is not None else None
            if found:
                return found
    return BY_HAND.get("config" if sources[0].startswith("config:") else sources[0]) or _own_line(sources[0])


VERSIONS = (
    'in rlvitals.toml beside the run: `[config.versions]`, then `environment = "..."` and `reward = "..."`, '
    "written by the launch script"
)  # no trainer keeps them where a log reader finds them


def _own_line(source: str) -> str:
    """Return the line for a metric that no adapter can switch on: log it under a name that is recognised."""
    example = source.replace("/*", "/<name>")
    recognised = source.endswith("/*") or guess(source) is not None
    return f"log it yourself as `{example}`" + ("" if recognised else f" and pass `--map {source}={example}`")
