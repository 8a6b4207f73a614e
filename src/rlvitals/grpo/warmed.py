"""The warm start of a run: made once, kept in the run directory, and taken from there by a resume and `train eval`.

The policy of the start is what divergences are measured to and what adapters sit on, so a resume needs it again.
Training it a second time costs minutes, the file may have changed, and a GPU would not give the same bits.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import torch

from rlvitals.grpo.checkpoint import FOLDER, load_weights, written
from rlvitals.grpo.config import Config, digest
from rlvitals.grpo.distributed import Parallel
from rlvitals.grpo.logs import made
from rlvitals.grpo.models import Policy
from rlvitals.grpo.warmstart import Dialogue, settings_for, warm_start
from rlvitals.grpo.warmstart_file import read_file, unknown_share

NAME, NOTE = "warm-start", "warm-start.json"  # folder below checkpoints/, and what it says of how it was made
SHOWN = 200  # losses in events.jsonl at most, means over equal stretches of steps (convention)
ENDS = 10  # the first and the last loss that are told are means of so many steps (convention)

Say = Callable[[str, bool], None]
"""(how far it is, whether another tenth is done): called after each step."""


@dataclass(frozen=True)
class Warmed:
    """How a warm start went.

    Attributes:
        key: of the settings that it depends on; identity: of the policy that came out.
        losses: nats per assistant token of each step; seconds: that it took.
        unknown: share of the assistant's tokens that the vocabulary does not know.
    """

    key: str
    identity: str
    file: str
    demonstrations: int
    batch: int
    learning_rate: float
    losses: tuple[float, ...]
    seconds: float
    unknown: float = 0.0

    def sentence(self) -> str:
        """Return what is said at its end."""
        ends = min(ENDS, max(1, len(self.losses) // 4))
        first, last = (sum(part) / ends for part in (self.losses[:ends], self.losses[-ends:]))
        passes = len(self.losses) * self.batch / self.demonstrations
        return (
            f"warm start on {self.demonstrations} demonstrations of {self.file}: loss {first:.3f} to {last:.3f} nats "
            f"per token in {len(self.losses)} steps of {self.batch} ({passes:.1f} passes, peak rate "
            f"{self.learning_rate:g}), {self.seconds:.1f} s{self._unknown()}"
        )

    def _unknown(self) -> str:
        share = f"{self.unknown:.1%}" if self.unknown >= 0.001 else "under 0.1%"
        return f"; {share} of the assistant's tokens are outside the vocabulary" if self.unknown else ""

    def shown(self) -> list[float]:
        """Return the losses for events.jsonl: each, or means over equal stretches."""
        parts = torch.tensor(self.losses).tensor_split(min(SHOWN, len(self.losses)))
        return [round(float(p.mean()), 4) for p in parts]


@dataclass(frozen=True)
class WarmStart:
    """What a run starts with: a policy that it kept, or demonstrations, by their lines, to make it from."""

    config: Config
    folder: Path
    kept: Warmed | None
    dialogues: Mapping[int, Dialogue] = field(default_factory=dict)


def planned(config: Config, folder: Path, *, resume: bool) -> WarmStart | None:
    """Return the warm start of a run, None without one. Raises InputError for a file that cannot be used.

    Args:
        resume: take what the run directory keeps, if it was made with the same settings; the file is then not read. A
            start takes it too, as one that failed behind its warm start leaves it, if the file is the same as well.
    """
    if not config.warm_start:
        return None
    kept = _kept(folder, _key(config))
    if resume and kept is not None:
        return WarmStart(config, folder, kept)
    dialogues = read_file(Path(config.warm_start))
    same = kept is not None and kept.identity.endswith(_mark(config, list(dialogues.values())))
    return WarmStart(config, folder, kept, {}) if same else WarmStart(config, folder, None, dialogues)


def carry_out(plan: WarmStart, loaded: Policy, parallel: Parallel, say: Say | None = None) -> tuple[Policy, Warmed]:
    """Return the policy of the start and how it was made; it is trained where it will be used, and kept.

    Every process trains the same and takes the first one's weights: a GPU may round otherwise. Raises InputError.
    """
    loaded.model.to(parallel.device())
    if plan.kept is not None:
        load_weights(plan.folder / FOLDER / NAME, loaded.model)
        return replace(loaded, identity=plan.kept.identity), plan.kept
    config, dialogues = plan.config, list(plan.dialogues.values())
    unknown = unknown_share(loaded.tokenizer, plan.dialogues, config.warm_start)
    if parallel.main:
        made(plan.folder)  # before the training: what cannot be written is not made
    for module in loaded.model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0  # it would draw from a generator that no seed of the run sets
    settings = replace(
        settings_for(len(dialogues), loaded.model.num_parameters()),
        seed=config.seed, micro_tokens=config.micro_tokens, dtype=getattr(torch, config.dtype),
        recompute=config.checkpoint_activations,
    )  # fmt: skip
    told = None if say is None or not parallel.main else _progress(say)
    started = time.perf_counter()
    losses = warm_start(loaded.model, loaded.tokenizer, dialogues, settings, told)
    parallel.share_weights(loaded.model)
    identity = loaded.identity + _mark(config, dialogues)
    how = Warmed(
        _key(config), identity, config.warm_start, len(dialogues), settings.batch, settings.learning_rate,
        tuple(losses), time.perf_counter() - started, unknown,
    )  # fmt: skip
    if parallel.main:
        _keep(plan.folder, loaded, how)
    parallel.wait()
    return replace(loaded, identity=identity), how


def _progress(say: Say) -> Callable[[int, int, float], None]:
    def told(step: int, steps: int, loss: float) -> None:
        tenth = step * 10 // steps > (step - 1) * 10 // steps
        say(f"warm start: step {step}/{steps} · loss {loss:.3f}", tenth)

    return told


def _key(config: Config) -> str:
    """Return the identity of what a warm start depends on, the text of its file left out."""
    return digest([config.model, config.task, config.warm_start, config.seed, config.dtype, config.micro_tokens])


def _mark(config: Config, dialogues: Sequence[Dialogue]) -> str:
    """Return what a warm start adds to the identity of its policy."""
    return f"+{digest([config.warm_start, len(dialogues), str(list(dialogues))])}"


def _kept(folder: Path, key: str) -> Warmed | None:
    """Return how the policy that a run directory keeps was made, None where there is none with that key."""
    try:
        values = json.loads((folder / FOLDER / NAME / NOTE).read_text(encoding="utf-8"))
        found = Warmed(**{**values, "losses": tuple(values["losses"])})
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return found if found.key == key else None


def _keep(folder: Path, loaded: Policy, how: Warmed) -> None:
    """Write the policy of the start as a model that `--model` loads; its folder gets its name when it is whole."""
    with written(folder / FOLDER / NAME, folder, "Then start again with the same command") as draft:
        loaded.model.save_pretrained(draft, max_shard_size="1TB")
        loaded.tokenizer.save_pretrained(draft)
        (draft / NOTE).write_text(json.dumps(asdict(how)), encoding="utf-8")
