"""Hooks on stand-ins: small classes with the calls that each trainer's source makes at the commit in docs/hooks.md."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rlvitals.errors import InputError
from rlvitals.live.hooks import areal, mlx_lm_lora, nemo_rl, openrlhf, prime_rl, skyrl, slime, tinker, trl, verl
from rlvitals.live.hooks.common import config_of, shared
from rlvitals.live.monitor import Monitor
from rlvitals.live.stop import StopOn

STEPS = 30


def value(monitor: Monitor, metric: str, step: int) -> float | None:
    """Return what the monitor holds of a metric at a step."""
    row = monitor._rows.row(step)
    return None if row is None else row.get(metric)


class Tracking:
    """As verl.utils.tracking.Tracking: backends by name, each with `log(data=, step=)`."""

    supported_backend = ("console",)

    def __init__(self, project_name: str, experiment_name: str, default_backend: Any = "console", config: Any = None):
        self.logger: dict[str, Any] = {}

    def log(self, data: Any, step: int, backend: Any = None) -> None:
        for name, logger in self.logger.items():
            if backend is None or name in backend:
                logger.log(data=data, step=step)


def test_verl_backend_reads_the_config_and_the_rows() -> None:
    class Mine(Tracking):
        pass

    verl.wrap(Mine)
    verl.wrap(Mine)  # once per class
    config = {"actor_rollout_ref": {"rollout": {"n": 8}}}
    tracking = Mine(project_name="p", experiment_name="e", default_backend=["console"], config=config)
    assert list(tracking.logger) == ["rlvitals"]
    for step in range(1, STEPS):
        tracking.log({"critic/score/mean": 0.5, "actor/entropy": 0.3}, step=step)
    monitor = tracking.logger["rlvitals"].monitor
    assert (monitor.name, monitor._config.group_size) == ("e", 8)
    assert value(monitor, "reward_mean", STEPS - 1) == 0.5
    assert monitor.diagnosis().trainer == "verl"


def test_verl_not_installed_says_how_to_install_it() -> None:
    with pytest.raises(InputError, match=r"the hook of verl needs the package verl.*pip install verl"):
        verl.install()


def test_nemo_rl_takes_training_and_validation_and_leaves_hardware_out() -> None:
    logger = SimpleNamespace(loggers=[])
    monitor = nemo_rl.watch(logger, {"grpo": {"num_generations_per_prompt": 16}})
    for step in range(1, STEPS):
        for each in logger.loggers:
            each.log_hyperparams({})
            each.log_metrics({"reward": 0.25, "grad_norm": 0.1}, step, prefix="train", step_finished=True)
            each.log_metrics({"gpu.0.util": 1.0}, step, prefix="ray", step_metric="ray/ray_step")
            each.log_histogram([1], step, "h")
    logger.loggers[0].log_metrics({"accuracy": 0.5}, 10, prefix="validation")
    assert monitor._config.group_size == 16
    assert value(monitor, "reward_mean", STEPS - 1) == 0.25
    assert [h.score.tolist() for h in monitor._rows.engine.evals.values()] == [[0.5]]


def episode(group: str, rewards: list[float]) -> Any:
    traces = [SimpleNamespace(reward=r, num_output_tokens=7, agent=SimpleNamespace(trainable=True)) for r in rewards]
    traces.append(SimpleNamespace(reward=9.0, agent=SimpleNamespace(trainable=False)))  # a judge is no rollout
    return SimpleNamespace(group=SimpleNamespace(id=group), env=SimpleNamespace(id="gsm8k"), traces=traces)


def test_prime_rl_counts_all_episodes_when_the_batch_of_the_step_is_complete() -> None:
    monitors: list[Any] = []
    monitor = prime_rl.watch(monitors)

    async def run() -> None:
        (mine,) = monitors
        await mine.init(config=None)
        for _ in range(2):
            await mine.log([episode("a", [1.0]), episode("b", [0.0])], 3, "train", "all")
        await mine.log([episode("a", [1.0])], 3, "eval", "all")
        await mine.log([episode("a", [1.0])], 3, "train", "effective")
        await mine.log({"optim/grad_norm": 0.5}, 3)

    asyncio.run(run())
    row = monitor._rows.row(3)
    assert row is not None
    assert row["grad_norm"] == 0.5
    assert row["rollouts/zero_variance_frac"] == 1.0  # both groups are tied: an effective batch would have neither
    assert row["rollouts/reward_mean"] == 0.5
    assert monitors[0]._waiting == {}


def test_skyrl_callback_takes_logs_checkpoints_and_asks_for_one() -> None:
    callback = skyrl.callback(stop_on=StopOn(zero_reward_steps=2))
    control = SimpleNamespace(should_save=False, should_evaluate=False)
    asked = []
    for step in range(1, 5):
        seen = SimpleNamespace(global_step=step, metrics={}, logs={"reward/avg_raw_reward": 0.0}, ckpt_path=None)
        callback.on_step_end(None, seen, control)
        asked.append(control.should_save)
        control.should_save = False
        callback.on_log(None, seen, control)
    callback.on_save(None, SimpleNamespace(global_step=4, ckpt_path="/ckpt/global_step_4"), control)
    assert asked == [False, False, False, True]
    assert [e.path for e in callback.monitor._rows.events] == ["/ckpt/global_step_4"]


class Status(Enum):
    COMPLETED = "completed"
    TRUNCATED = "truncated"


@dataclass
class Sample:
    """As slime.utils.types.Sample, the fields that the hook reads."""

    group_index: int
    index: int
    reward: Any
    prompt: str = "1+1="
    response: str = "2"
    response_length: int = 4
    label: str = "2"
    weight_versions: list[str] = field(default_factory=lambda: ["3"])
    status: Status = Status.COMPLETED


def test_slime_functions_keep_the_default_logging(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLVITALS_DIR", str(tmp_path))
    shared.cache_clear()
    args = SimpleNamespace(reward_key="score")
    samples = [[Sample(0, 0, {"score": 1.0}), Sample(0, 1, {"score": 0.0}, status=Status.TRUNCATED)]]
    assert slime.log_rollout(0, args, samples, {"rollout/x": 1.0}, 2.0) is False
    assert slime.log_eval(0, args, {"aime": {"rewards": [1.0, 0.0]}}, None) is False
    assert slime.log_rollout(1, args, [object()], None, 2.0) is False  # another version of slime: counted, not raised
    monitor = shared("slime")
    assert (value(monitor, "reward_mean", 0), value(monitor, "truncated_frac", 0)) == (0.5, 0.5)
    assert monitor._rows.engine.evals["aime"].score.tolist() == [0.5]
    assert [t.what for t in monitor.troubles] == ["the hook of slime failed"]
    monitor.close()
    shared.cache_clear()
    assert (tmp_path / "rollouts.jsonl").read_text().count("\n") == 2


def test_tinker_logger_takes_steps_and_leaves_stepless_metrics_out() -> None:
    logger = SimpleNamespace(loggers=[])
    monitor = tinker.watch(logger)
    (mine,) = logger.loggers
    mine.log_hparams({})
    mine.log_metrics({"env/all/reward/total": 0.4}, step=0)
    mine.log_metrics({"time/total": 1.0})
    mine.log_long_text("k", "v")
    mine.sync()
    assert mine.get_logger_url() is None
    assert value(monitor, "reward_mean", 0) == 0.4
    assert monitor.troubles == ()
    mine.close()


def test_openrlhf_logger_hands_every_call_on() -> None:
    calls: list[Any] = []
    behind = SimpleNamespace(
        log_train=lambda s, d: calls.append(("train", s, dict(d))),
        log_eval=lambda s, d: calls.append(("eval", s, dict(d))),
        close=lambda: calls.append("close"),
    )
    trainer = SimpleNamespace(tensorboard_logger=behind, args=SimpleNamespace())
    monitor = openrlhf.watch(trainer)
    logs = {"reward": 0.4, "policy_loss": 0.1, "none": None, "generated_samples": ["text", 1.0]}
    for step in range(1, 4):
        trainer.tensorboard_logger.log_train(step, logs)
    trainer.tensorboard_logger.log_eval(3, {"eval_gsm8k_pass1": 0.25})
    assert value(monitor, "reward_mean", 3) == 0.4
    assert [h.score.tolist() for h in monitor._rows.engine.evals.values()] == [[0.25]]
    trainer.tensorboard_logger.close()
    assert calls[0] == ("train", 1, logs)
    assert calls[-2:] == [("eval", 3, {"eval_gsm8k_pass1": 0.25}), "close"]


def test_areal_hears_commits_of_one_dict_or_several() -> None:
    committed: list[Any] = []

    class StatsLogger:
        def commit(self, epoch: int, step: int, global_step: int, data: Any) -> None:
            committed.append((global_step, data))

    logger = StatsLogger()
    monitor = areal.watch(logger)
    logger.commit(0, 0, 0, {"ppo_actor/task_reward/avg": 0.3})
    logger.commit(0, 1, 1, [{"ppo_actor/task_reward/avg": 0.4}, {"ppo_actor/task_reward/avg": 0.5}])
    assert (value(monitor, "reward_mean", 0), value(monitor, "reward_mean", 1)) == (0.3, 0.5)
    assert [step for step, _ in committed] == [0, 1]


def test_mlx_lm_lora_callback_takes_the_reports() -> None:
    callback = mlx_lm_lora.callback()
    for it in (10, 20):
        report = {"iteration": it, "train_loss": 0.1, "train_total_rewards_mean": 0.5, "learning_rate": 1e-5}
        callback.on_train_loss_report(report)
        callback.on_val_loss_report({"iteration": it, "val_loss": 0.2, "val_time": 1.0})
    assert value(callback.monitor, "reward_mean", 20) == 0.5
    callback.on_train_loss_report({})
    assert [t.what for t in callback.monitor.troubles] == ["the hook of mlx-lm-lora failed"]


def test_trl_takes_each_generation_batch_once_and_survives_other_versions() -> None:
    taken = trl._Completions()
    logs = {
        "prompt": ["p", "p"], "completion": ["a", "b"], "advantages": [1.0, -1.0],
        "rewards": {"f": [1.0, float("nan")], "g": [0.5, 0.5]},
    }  # fmt: skip
    trainer = SimpleNamespace(_logs=logs, num_generations=2, reward_weights=[1.0, 2.0])
    rows = taken.fresh(trainer)
    assert [(r["group"], r["index"], r["reward"]) for r in rows] == [("0", 0, 2.0), ("0", 1, 1.0)]
    assert taken.fresh(trainer) == []  # the same generation batch serves several steps
    assert taken.fresh(SimpleNamespace()) == []
    assert trl._total([float("nan")], [1.0]) is None


def test_settings_of_a_trainer_become_the_config() -> None:
    assert (
        config_of("TRL", {"num_generations": 8, "beta": 0.0}, "args").sources["group_size"] == "args: num_generations"
    )
    assert config_of("nobody", {"num_generations": 8}, "args").group_size is None


def test_importing_the_hooks_imports_no_trainer() -> None:
    names = "areal, mlx_lm_lora, nemo_rl, openrlhf, prime_rl, skyrl, slime, tinker, trl, verl"
    code = f"from rlvitals.live.hooks import {names}; import sys"
    code += "; print([m for m in ('torch', 'transformers') if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert out.strip() == "[]"
