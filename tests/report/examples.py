"""Small diagnoses made by the real engine from tiny checks, so that the reports are tested apart from the real ones."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rlvitals.check import (
    Action,
    Check,
    Clear,
    Confidence,
    Evidence,
    Family,
    Finding,
    Fired,
    Needs,
    NotApplicable,
    Onset,
    Outcome,
    Plan,
    Remedy,
    Rollback,
    SourceKind,
    Threshold,
    Verify,
)
from rlvitals.conclude import diagnose
from rlvitals.diagnosis import Diagnosis
from rlvitals.schema import (
    Evals,
    Event,
    EventKind,
    Provenance,
    Run,
    RunConfig,
    Segment,
    Status,
    TrainerInfo,
    Unrecognised,
)
from rlvitals.view import View
from tests.series import series

HOSTILE = "</script><img src=x onerror=alert(1)>\x1b[31m"
TRAINER = TrainerInfo(
    "TRL",
    knobs={"group_size": "num_generations", "kl_coef": "beta", "learning_rate": "learning_rate"},
    how_to_log={"kl_sampler_trainer": "vllm_importance_sampling_correction=True"},
    version="0.24",
)
LIMIT = Threshold("share", 0.5, "fraction", SourceKind.PAPER, "DAPO, section 3.2")


def _tied(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    steps, values = view.recent("zero_variance_frac")
    if values.size == 0 or values[-1] <= limits["share"].value:
        return Clear(f"zero_variance_frac is {values[-1]:.2f}, below {limits['share']}")
    since = int(steps[np.argmax(values > limits["share"].value)])
    evidence = Evidence(
        "zero_variance_frac",
        f"zero_variance_frac rose from {values[0]:.2f} to {values[-1]:.2f} since step {since}",
        float(values[-1]),
        "fraction",
        (since, view.step),
        limits["share"],
        ">",
        float(values[0]),
    )
    summary = f"Most groups carry no learning signal since step {since}."
    return Fired(Finding(summary, Action.FIX, Confidence.HIGH, Onset(since - 5, since), (evidence,)))


def _drop(metric: str, unit: str, ratio: float) -> object:
    def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
        steps, values = view.recent(metric)
        low = values < ratio * values[0]
        if not low[-1]:
            return Clear(f"{metric} is {values[-1]:.3g}, {values[-1] / values[0]:.0%} of its start")
        since = int(steps[np.argmax(low)])
        text = f"{metric} fell from {values[0]:.2f} to {values[-1]:.2f} {unit} since step {since}"
        evidence = Evidence(metric, text, float(values[-1]), unit, (since, view.step), None, "", float(values[0]))
        return Fired(Finding(text, Action.ADJUST, Confidence.MEDIUM, Onset(since, since), (evidence,)))

    return judge


def _clear(because: str) -> object:
    return lambda view, limits: Clear(because)


def _normal(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    evidence = Evidence("loss", "loss stays within 0.001 of 0", 0.0, "loss", (view.first_step, view.step))
    text = "A loss near 0 is normal because advantages sum to 0 in every group."
    return Fired(Finding(text, Action.NOTE, Confidence.HIGH, Onset(1, 1), (evidence,)))


def _boom(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    raise RuntimeError("broken check")


def _check(id: str, name: str, family: Family, judge: object, **more: object) -> Check:
    plans = more.pop("plans", {"": Plan((), ())})
    needs = more.pop("needs", Needs())
    return Check(id, name, family, f"{name}.", "", needs, judge=judge, plans=plans, **more)  # type: ignore[arg-type]


TIED = _check(
    "S001",
    "zero-variance-groups",
    Family.SIGNAL,
    _tied,
    thresholds=(LIMIT,),
    leads_to=("U001", "E001"),
    plans={
        "": Plan(
            (
                Remedy("Move the mixture to prompts that the policy solves between 10% and 90% of the time"),
                Remedy("Raise the group size", "group_size", "raise"),
            ),
            (Verify("fewer tied groups", "zero_variance_frac", "<", 0.5, 20),),
            Rollback.BEFORE_ONSET,
        )
    },
)
ENTROPY = _check("E001", "entropy-collapse", Family.ENTROPY, _drop("entropy", "nats/token", 0.5), thresholds=())
LEASH = _check(
    "K001",
    "kl-drift",
    Family.LEASH,
    _drop("kl_ref", "nats/token", 0.5),
    thresholds=(),
    plans={"": Plan((Remedy("Lower the KL coefficient", "kl_coef", "lower"),), ())},
)
CHECKS = (
    _check("D009", "log-gaps", Family.DATA, _clear("0 gaps in 200 rows"), thresholds=()),
    _check("R009", "constant-reward", Family.REWARD, _clear("reward_std is 0.31"), thresholds=()),
    TIED,
    ENTROPY,
    _check("U009", "loss-near-zero", Family.UPDATE, _normal, thresholds=()),
    LEASH,
    _check(
        "Y001",
        "sampler-drift",
        Family.SYNC,
        _clear(""),
        thresholds=(),
        needs=Needs(all_of=("kl_sampler_trainer",)),
    ),
    _check(
        "H001", "not-this-run", Family.HELD_OUT, lambda view, limits: NotApplicable("no held-out set"), thresholds=()
    ),
)
BROKEN = _check("X001", "broken", Family.HELD_OUT, _boom, thresholds=())


def a_run(name: str = "countdown-grpo", *, rows: int = 200, sick: bool = True, **more: object) -> Run:
    """A run whose groups tie from about step 90 and whose entropy falls after it; healthy when not `sick`."""
    half = rows // 2
    texts = {
        "reward_mean": f"0.2->0.6 x{half} ~0.03; 0.6->0.62 x{rows - half} ~0.02",
        "reward_std": f"0.4->0.3 x{rows} ~0.01",
        "reward_part/correct": f"0.1->0.5 x{rows} ~0.03",
        "reward_part/format": f"0.3->0.9 x{rows} ~0.02",
        "zero_variance_frac": f"0.12->0.3 x{half} ~0.02; 0.6->0.83 x{rows - half} ~0.02" if sick else f"0.2 x{rows}",
        "entropy": f"1.2->1.1 x{half} ~0.03; 0.9=>0.08 x{rows - half} ~3%" if sick else f"1.2->0.9 x{rows} ~0.02",
        "kl_ref": f"0.001=>0.08 x{rows} ~10%",
        "kl_old_new": f"0.0001 x{rows} ~10%",
        "grad_norm": f"0.3 x{half} ~15%; 0.3=>0.05 x{rows - half} ~15%",
        "loss": f"0 x{rows} ~0.0003",
        "length_mean": f"210->260 x{rows} ~8",
        "truncated_frac": f"0.02->0.04 x{rows} ~0.002",
        "advantage_mean": f"0 x{rows} ~0.00001",
        "advantage_std": f"0.9->0.5 x{rows} ~0.02",
        "clip_frac": f"0 x{rows}",
    }
    columns = {n: series(t, seed=n) for n, t in texts.items()}
    evals = {
        "math500": Evals(
            "math500",
            np.arange(20, rows + 1, 20),
            np.linspace(0.31, 0.44, rows // 20),
            np.full(rows // 20, 0.02),
            500,
        )
    }
    fields: dict[str, object] = {
        "trainer": TRAINER,
        "config": RunConfig(group_size=8, kl_coef=0.001, gpus=8, price_per_gpu_hour=2.5),
        "evals": evals,
        "events": (Event(EventKind.CHECKPOINT, 80, path="out/checkpoint-80"),),
        "provenance": {
            n: Provenance(n, f"key/{n}", "trainer_state.json", estimator="k3" if n.startswith("kl") else "")
            for n in columns
        }
        | {"clip_frac": Provenance("clip_frac", "clip_ratio", "trainer_state.json", Status.PLACEHOLDER)},
        "segments": (Segment(41, 60, 20, 41),),
        "unrecognised": (Unrecognised("foo/bar", "trainer_state.json", 200),),
        "sources": ("trainer_state.json",),
        **more,
    }
    columns["step_time_s"] = np.full(rows, 30.0)
    return Run(name=name, step=1 + np.arange(rows), columns=columns, **fields)  # type: ignore[arg-type]


def sick(name: str = "countdown-grpo", **more: object) -> Diagnosis:
    return diagnose(a_run(name, **more), CHECKS)  # type: ignore[arg-type]


def well(name: str = "countdown-grpo", **more: object) -> Diagnosis:
    return diagnose(a_run(name, sick=False, **more), CHECKS)  # type: ignore[arg-type]


def too_short() -> Diagnosis:
    return diagnose(a_run("short", rows=10, sick=False, evals={}), CHECKS)
