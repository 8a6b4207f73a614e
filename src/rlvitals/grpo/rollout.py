"""What sampling gives: settings, generated token ids with their log-probabilities, and whole trajectories."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from rlvitals.env import Item, StopReason, VerifierStatus

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Sampling:
    """How tokens are drawn; max_tokens is the budget of one call."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    max_tokens: int = 32
    greedy: bool = False

    @property
    def filters(self) -> bool:
        """True when some entries of the vocabulary cannot be drawn."""
        return self.top_p < 1.0 or self.top_k > 0


@dataclass(frozen=True, slots=True)
class Generated:
    """One completion.

    Attributes:
        ids: token ids, the end token included when it was drawn.
        logp: log-probability of each under the distribution it was drawn from (nats).
        ended: the end token was drawn; False means that the budget ran out.
        version: of the weights that sampled it.
        keep_packed: uint8 (tokens, V/8), the entries that could be drawn (`fused.pack_keep`); None when all could.
    """

    ids: tuple[int, ...]
    logp: tuple[float, ...]
    ended: bool
    version: int
    keep_packed: Tensor | None = None


class Sampler(Protocol):
    """Something that samples: this process, or a server."""

    def generate(
        self, prompts: Sequence[Sequence[int]], seeds: Sequence[int], budgets: Sequence[int], sampling: Sampling
    ) -> list[Generated]:
        """Return one completion per prompt; equal prompts are prefilled once. `budgets` are tokens per row."""
        ...

    def push(self, model: nn.Module, version: int) -> None:
        """Take over the weights of a version."""
        ...


@dataclass(slots=True)
class Trajectory:
    """One rollout: what was asked, what was sampled, what it earned.

    Attributes:
        group: number of the group in its step; trajectories of a group share a prompt and a baseline.
        attempt: which draw of prompts of its step it came from; those of the first one are an unselected sample.
        seed: draws the tokens again.
        ids: every token after the first prompt; `counts` is False on those that the environment wrote.
        logp: the sampler's, 0 where the environment wrote.
        reward: NaN when the verifier failed; it is then left out of baseline and update.
        trainer_logp, ref_logp, entropy: per token that the policy wrote, before the update (nats); None unscored.
        raw: the verifier's own output; parsed: the answer that it read, None where it says none.
        divergence: nats to the reference, summed over tokens, for a penalty in the reward.
        advantage: NaN where the trajectory was dropped.
    """

    item: Item
    group: int
    index: int
    seed: int
    prompt_ids: tuple[int, ...]
    prompt: str
    attempt: int = 0
    ids: list[int] = field(default_factory=list)
    counts: list[bool] = field(default_factory=list)
    logp: list[float] = field(default_factory=list)
    keep_packed: list[Tensor] = field(default_factory=list)
    version: int = 0
    turns: int = 0
    text: str = ""
    stop: StopReason | None = None
    reward: float = math.nan
    parts: Mapping[str, float] = field(default_factory=dict)
    status: VerifierStatus | None = None
    raw: str = ""
    parsed: str | None = None
    verifier_seconds: float = math.nan
    trainer_logp: Floats | None = None
    ref_logp: Floats | None = None
    entropy: Floats | None = None
    divergence: float = 0.0
    advantage: float = math.nan

    @property
    def tokens(self) -> int:
        """Tokens that the policy wrote."""
        return sum(self.counts)

    @property
    def sampler_logp(self) -> Floats:
        """The sampler's log-probabilities of the tokens that the policy wrote (nats)."""
        return np.array([x for x, counts in zip(self.logp, self.counts, strict=True) if counts], dtype=np.float32)

    @property
    def truncated(self) -> bool:
        return self.stop is StopReason.BUDGET

    @property
    def scored(self) -> bool:
        return math.isfinite(self.reward)


def seed_of(*parts: object) -> int:
    """Return a seed (0 to 2**63 - 1) that depends on nothing but the parts."""
    text = "\x1f".join(map(str, parts)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big") >> 1


def uniforms(seed: int, count: int) -> Tensor:
    """Return the numbers in [0, 1) that a row's tokens are drawn with, float64: one per token, none shared."""
    return torch.rand(count, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
