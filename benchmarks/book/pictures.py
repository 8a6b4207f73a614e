"""PICTURES: which curves of which setups docs/chapter7.md draws; these alone are kept."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Picture:
    """One picture: panels side by side, an arm per colour; lines are means over seeds, bands lowest to highest seed."""

    name: str
    alt: str
    arms: tuple[str, ...]
    panels: tuple[str, ...]


PICTURES: tuple[Picture, ...] = (
    Picture("chapter7-tracking", "Baseline: held-out accuracy, reward, entropy and spread of advantages over 60 steps",
            ("tracking",), ("held_out", "reward_mean", "entropy", "advantage_std")),
    Picture("chapter7-ratios", "With the clip, without it and without ratios: held-out accuracy, reward, entropy",
            ("clip", "no-clip", "tracking"), ("held_out", "reward_mean", "entropy")),
    Picture("chapter7-penalty", "Reward stops after step 20: held-out accuracy, entropy, length, distance to reference",
            ("stops-none", "stops-k1", "stops-k2", "stops-k3", "stops-ratio-k3"),
            ("held_out", "entropy", "length_mean", "extra/kl_ref_k1")),
    Picture("chapter7-format", "Format rewards: held-out accuracy, reward, its format part",
            ("tracking", "format", "format-lenient", "format-conditional", "gdpo"),
            ("held_out", "reward_mean", "reward_part/format")),
    Picture("chapter7-zero-loss", "One step per batch: the logged loss is zero while the gradient and accuracy are not",
            ("clip-once",), ("policy_loss", "grad_norm", "held_out")),
)  # fmt: skip
