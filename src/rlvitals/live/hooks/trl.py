"""TRL, unsloth and ms-swift: a transformers TrainerCallback.

    from rlvitals.live.hooks import trl
    monitor = trl.watch(trainer, directory="vitals", stop_on="high")
    trainer.train()

`watch` reads the trainer's own arguments, takes its completions with their reward parts and advantages, and adds the
callback. `callback(monitor)` is the callback alone, for `callbacks=[...]`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from rlvitals.live.hooks.common import harmless, missing, monitor_for, said
from rlvitals.live.monitor import Monitor
from rlvitals.schema import Event, EventKind


def watch(trainer: Any, **options: Any) -> Monitor:
    """Add the callback to a GRPOTrainer (or a trainer with its interface); return the monitor.

    `options` are those of Monitor; `trainer="unsloth"` or `trainer="ms-swift"` names another trainer with this hook.
    Raises InputError when transformers is not installed.
    """
    arguments = trainer.args.to_dict()
    monitor = monitor_for(options.pop("trainer", "TRL"), arguments, "trainer.args", **options)
    trainer.add_callback(callback(monitor, trainer))
    return monitor


def callback(monitor: Monitor, trainer: Any = None) -> Any:
    """Return a TrainerCallback that feeds a monitor; with the trainer itself it takes the completions too.

    When `stop_on` of the monitor asks for it, the trainer saves a checkpoint and ends its training.
    Raises InputError when transformers is not installed.
    """
    try:
        from transformers import TrainerCallback
    except ImportError as error:
        raise missing("transformers", "TRL", error) from error

    taken = _Completions()

    class Vitals(TrainerCallback):
        """Feeds the monitor from the trainer's own log calls."""

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> Any:
            if state.is_world_process_zero and logs:
                if trainer is not None and "loss" in logs:
                    with harmless(monitor, "TRL"):
                        rows = taken.fresh(trainer)
                        if rows:
                            monitor.log_rollouts(state.global_step, rows)
                monitor.log(state.global_step, logs)
            return control

        def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
            path = f"{args.output_dir}/checkpoint-{state.global_step}"
            monitor.add_event(Event(EventKind.CHECKPOINT, state.global_step, path=path))
            return control

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
            request = monitor.stop_due()
            if request is not None:
                said(request, "asked the trainer to save a checkpoint and stop")
                control.should_save = True
                control.should_training_stop = True
            return control

        def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
            monitor.close()
            return control

    return Vitals()


class _Completions:
    """Takes each generation batch once out of the buffers that GRPOTrainer fills for its own completion tables."""

    def __init__(self) -> None:
        self._last: tuple[object, ...] = ()

    def fresh(self, trainer: Any) -> list[dict[str, Any]]:
        """Return the newest batch as rollouts, none when it was taken already or the buffers are not there.

        Their names are private to the trainer: a version that has others costs the completions and nothing else.
        """
        logs = getattr(trainer, "_logs", None)
        if not isinstance(logs, Mapping):
            return []
        completions, prompts = _list(logs, "completion"), _list(logs, "prompt")
        advantages = _list(logs, "advantages")
        group = int(getattr(trainer, "num_generations", 0) or 0)
        mark = (len(completions), *completions[-group:], *advantages[-group:])
        if not completions or len(prompts) != len(completions) or group < 1 or mark == self._last:
            return []
        self._last = mark
        parts = {str(n): list(v) for n, v in dict(logs.get("rewards") or {}).items() if len(v) == len(completions)}
        weights = _weights(trainer, list(parts))
        return [
            {
                "group": str(i // group),
                "index": i % group,
                "prompt": prompts[i],
                "completion": completions[i],
                "advantage": advantages[i] if i < len(advantages) else None,
                "reward": _total([values[i] for values in parts.values()], weights),
                "reward_parts": {name: values[i] for name, values in parts.items()},
            }
            for i in range(len(completions))
        ]


def _list(logs: Mapping[str, Any], name: str) -> list[Any]:
    return list(logs.get(name) or [])


def _weights(trainer: Any, names: Sequence[str]) -> list[float]:
    """Return the weight of each reward function, 1 where the trainer tells none."""
    found = getattr(trainer, "reward_weights", None)
    weights = [] if found is None else [float(w) for w in found]
    return weights if len(weights) == len(names) else [1.0] * len(names)


def _total(parts: Sequence[float], weights: Sequence[float]) -> float | None:
    """Return the weighted sum over the functions that scored it, None when none did."""
    scored = [w * p for w, p in zip(weights, parts, strict=True) if p is not None and not math.isnan(p)]
    return sum(scored) if scored else None
