"""What the checks of settings share: how a setting is shown, evidence and findings that hold from step 1."""

from __future__ import annotations

from rlvitals.check import Action, Confidence, Evidence, Finding, Fired, Onset, Threshold
from rlvitals.view import View

MAX_SOURCE = 120  # characters of where a setting was read
SEQUENCE_LOSSES = frozenset({"gspo", "gspo-token", "gspo_token", "luspo", "gmpo", "geo_mean"})
"""Losses whose importance ratio is one number per sequence, whatever another setting says."""
PRODUCT = "sequence sum"
"""A ratio of whole sequences: the product over tokens, which moves with the length; GSPO takes the geometric mean."""
SEQUENCE_LEVELS = frozenset({"sequence", PRODUCT})


def shown(view: View, field: str) -> str:
    """Return a setting with the trainer's own name of it and where it was read: `top_p 0.95 (config.yaml: top_p)`."""
    value = getattr(view.config, field)
    text = f"{value:g}" if isinstance(value, float) else str(value)
    source = view.config.sources.get(field, "")[:MAX_SOURCE]
    return f"{field} {text}" + (f" ({source})" if source else "")


def whole_run(view: View) -> tuple[int, int]:
    return max(view.first_step, 0), max(view.step, view.first_step, 0)


def setting(view: View, field: str, text: str, observed: float, unit: str, limit: Threshold, how: str) -> Evidence:
    """Return a setting as evidence, compared with a limit (`how` is ">", "<", "==" or "!=")."""
    return Evidence(field, text, observed, unit, whole_run(view), limit, how)


def finding(
    view: View,
    summary: str,
    action: Action,
    evidence: tuple[Evidence, ...],
    *,
    variant: str = "",
    confidence: Confidence = Confidence.HIGH,
) -> Fired:
    """Return a finding about settings: it holds from the first step on."""
    start = whole_run(view)[0]
    return Fired(Finding(summary, action, confidence, Onset(start, start), evidence, variant))


def per_sequence(view: View) -> bool:
    """True when importance ratios are taken per sequence."""
    loss = (view.config.loss_type or "").lower()
    return view.config.importance_level in SEQUENCE_LEVELS or loss in SEQUENCE_LOSSES
