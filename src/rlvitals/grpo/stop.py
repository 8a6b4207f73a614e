"""When a run should end before its planned steps: nothing held-out gained, nothing left to learn, nothing learnt."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass

SOLVED_STEPS = 10  # steps in a row in which every rollout of every group is right (convention)


@dataclass
class Stopping:
    """What the stop rules remember; JSON types alone, so that a checkpoint keeps them.

    Attributes:
        patience, dead_steps: from the config; 0 switches a rule off, dead_steps that of the solved task too: who asks
            for all planned steps gets them.
        best, best_step: held-out score and where.
        stale: evaluations since then.
        silent, solved: steps in a row in which every group had equal rewards; in which all of them were right.
    """

    patience: int
    dead_steps: int
    best: float = -math.inf
    best_step: int = 0
    stale: int = 0
    silent: int = 0
    solved: int = 0

    def evaluated(self, step: int, score: float, stderr: float) -> str:
        """Take a held-out score; return why to stop, "" to go on. A gain below one standard error is none."""
        if math.isfinite(score) and score > self.best + (stderr if math.isfinite(self.best) else 0.0):
            self.best, self.best_step, self.stale = score, step, 0
            return ""
        self.stale += 1
        if not self.patience or self.stale < self.patience:
            return ""
        return (
            f"no better held-out score in {self.stale} evaluations: best {self.best:.3f} after step {self.best_step}, "
            f"now {score:.3f}"
        )

    def stepped(self, row: Mapping[str, float]) -> str:
        """Take the row of a step; return why to stop, "" to go on. A step without groups to judge counts as silent."""
        tied, right = row.get("zero_variance_frac", 1.0), row.get("all_right_frac", 0.0)
        self.silent = self.silent + 1 if tied == 1.0 else 0
        self.solved = self.solved + 1 if right == 1.0 else 0
        if not self.dead_steps:
            return ""
        if self.solved >= SOLVED_STEPS:
            return f"solved: every rollout was right for {self.solved} steps, so no gradient is left"
        if self.silent >= self.dead_steps:
            reward = row.get("reward_mean", math.nan)
            return (
                f"dead reward: all rewards of each group were equal for {self.silent} steps (mean {reward:.3f}), so "
                "nothing was learnt; verify the verifier on gold answers, then look at the difficulty"
            )
        return ""

    def state(self) -> dict[str, float]:
        """Return what a checkpoint keeps."""
        kept = asdict(self)
        kept["best"] = self.best if math.isfinite(self.best) else None
        return {k: v for k, v in kept.items() if k not in ("patience", "dead_steps")}

    def load(self, state: Mapping[str, float | None]) -> None:
        """Take over the memory of a checkpoint."""
        for name, value in state.items():
            setattr(self, name, -math.inf if value is None else value)
