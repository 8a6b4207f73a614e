"""unsloth: TRL's trainer rewritten at import. Logs `completion_length` beside TRL's keys, always a `kl`, no entropy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from rlvitals.ingest import trl
from rlvitals.ingest.adapter import Key
from rlvitals.schema import RunConfig, TrainerInfo

_KL_NOTE = "unsloth writes kl without a reference too, as 0; mean of per-sequence means"


def matches(keys: frozenset[str]) -> int:
    """Score TRL's fingerprint plus unsloth's: both length keys, or the short notebook table; never an entropy."""
    bare = {key.removeprefix("train/") for key in keys}
    if "reward" not in bare or "entropy" in bare:
        return 0
    if {"completion_length", "completions/mean_length"} <= bare:
        return 90
    return 0


def refine(keys: frozenset[str], config: RunConfig) -> Mapping[str, Key]:
    """As TRL, with the note that a zero `kl` may mean that there is no reference."""
    out = dict(trl.refine(keys, config))
    for name in ("kl", "train/kl"):
        if name not in out:
            out[name] = replace(trl.KEYS["kl"], note=_KL_NOTE)
    return out


ADAPTER = replace(
    trl.ADAPTER,
    info=TrainerInfo(
        name="unsloth",
        knobs=trl.KNOBS,
        how_to_log={
            **trl.HOW_TO_LOG,
            "entropy": "not possible without code: with UNSLOTH_RETURN_LOGITS=1, in a reward function, "
            "`p = model(ids).logits.log_softmax(-1)` and `log_metric('entropy', -(p.exp() * p).sum(-1).mean().item())`",
            "kl_ref": "set `beta` above 0; with beta=0 unsloth writes kl as 0",
        },
        step_base=1,
        defaults=trl.DEFAULTS,
    ),
    matches=matches,
    refine=refine,
)
