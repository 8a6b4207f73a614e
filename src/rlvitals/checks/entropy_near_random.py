"""E003: entropy is close to the logarithm of the vocabulary size: the policy is close to uniform noise."""

from __future__ import annotations

import math
from collections.abc import Mapping

from rlvitals.check import (
    Action,
    Check,
    Clear,
    Confidence,
    Evidence,
    Family,
    Finding,
    Fired,
    LookAlike,
    Needs,
    Outcome,
    Plan,
    Remedy,
    Rollback,
    SourceKind,
    Threshold,
    Verify,
)
from rlvitals.checks import course
from rlvitals.checks.common import fmt, onset_of
from rlvitals.view import View

SMALLEST_VOCABULARY = 32_000  # tokens: the smallest vocabulary of common language models, used when none is known
TOY_VOCABULARY = 1_000  # tokens: below this an untrained toy model may honestly start near random


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    level, limit = course.level(view, "entropy"), limits["share_of_maximum"]
    size = view.config.vocab_size
    top = math.log(size if size and size > 1 else SMALLEST_VOCABULARY)
    bound = limit.value * top
    named = f"ln {size:,}" if size else f"ln {SMALLEST_VOCABULARY:,} (vocabulary size unknown, smallest common one)"
    if not level.now > bound:
        return Clear(f"entropy is {fmt(level.now)} nats/token; {fmt(limit.value)} of {named} is {fmt(bound)}")
    began = bool(level.start > bound)
    onset = onset_of(view, "entropy", bound, math.inf, center="median")
    text = (
        f"entropy is {fmt(level.now)} nats/token over steps {level.first}-{level.last}, "
        f"{fmt(level.now / top)} of {named} = {fmt(top)}; at the start it was {fmt(level.start)}; limit {limit}"
    )
    evidence = Evidence(
        "entropy", text, level.now, "nats/token", level.steps, limit, ">", None if began else level.start
    )
    if began:
        toy = size is not None and size < TOY_VOCABULARY
        action = Action.WATCH if toy else Action.FIX
        what = "the policy is close to uniform noise from the first step: no trained model was loaded"
        return Fired(Finding(what, action, Confidence.HIGH, onset, (evidence,), "from the start"))
    what = f"the policy became close to uniform noise since {onset}: entropy {fmt(level.now)} nats/token"
    return Fired(Finding(what, Action.STOP, Confidence.HIGH, onset, (evidence,)))


CHECK = Check(
    id="E003",
    name="entropy-near-random",
    family=Family.ENTROPY,
    fault="The policy is close to choosing tokens at random.",
    why="The largest possible entropy is the logarithm of the vocabulary size (11.9 nats for 152 thousand tokens). A "
    "pretrained model starts at 0.1 to 3 nats and never comes near it, so this is a broken model, never one that has "
    "not learned yet. Nothing that such a policy samples earns a reward, and training on it goes nowhere.",
    needs=Needs(all_of=("entropy",), rows=3),
    thresholds=(
        Threshold(
            "share_of_maximum",
            0.9,
            "of the logarithm of the vocabulary size",
            SourceKind.DEFINITION,
            "entropy is at most ln V; a trained policy is far from uniform",
        ),
    ),
    judge=judge,
    plans={
        "": Plan(
            remedies=(
                Remedy("Stop, and resume from a checkpoint saved before entropy began to climb", "", ""),
                Remedy("Set the entropy bonus to zero", "entropy_coef", "lower"),
                Remedy(
                    "Check the loss for terms that act without reward (summed KL, k1 as a loss)", "kl_coef", "check"
                ),
                Remedy("Lower the learning rate", "learning_rate", "lower"),
            ),
            verify=(Verify("entropy stays near its start level over 50 steps", "entropy", "not rising", None, 50),),
            rollback=Rollback.BEFORE_ONSET,
        ),
        "from the start": Plan(
            remedies=(
                Remedy("Check that the weights were loaded and belong to this tokenizer", "", "check"),
                Remedy("Check the sampler's temperature and the units of the logged entropy", "temperature", "check"),
            ),
            verify=(Verify("entropy of the first step is below 3 nats/token", "entropy", "first <", 3.0, 3),),
        ),
    },
    leads_to=("R001", "R002", "R014", "T001", "S001", "L001", "L002", "L004", "H002", "K001", "U001"),
    look_alikes=(
        LookAlike(
            "An untrained toy model with a few dozen tokens starts near ln V", "vocabulary below 1,000 tokens: watch"
        ),
        LookAlike("Entropy per sequence instead of per token", "the first values are far above ln V already"),
    ),
    sources=(
        "GRPO health-check runbook: entropy approaching log(vocab_size)",
        "docs/evidence.md: Healthy bands and their sources",
    ),
)
