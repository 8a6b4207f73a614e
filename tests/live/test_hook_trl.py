"""The TRL hook on a real GRPO run of TRL on the CPU: a tiny model made from nothing, completions and parts included."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlvitals.ingest import load
from rlvitals.live.hooks import trl as hook
from rlvitals.live.monitor import Monitor
from rlvitals.live.stop import StopOn

pytestmark = pytest.mark.slow
STEPS = 6
GROUP = 4


def short(completions: list[str], **_: object) -> list[float]:
    """Reward short completions."""
    return [1.0 / (1 + len(text)) for text in completions]


def digits(completions: list[str], **_: object) -> list[float]:
    """Reward the share of digits."""
    return [sum(c.isdigit() for c in text) / max(len(text), 1) for text in completions]


def zero(completions: list[str], **_: object) -> list[float]:
    return [0.0] * len(completions)


def new_trainer(folder: Path, rewards: list[Any], **settings: Any) -> Any:
    """Return a GRPOTrainer with a Llama of a few thousand weights; nothing is downloaded."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    pytest.importorskip("trl", reason="no TRL")
    torch = pytest.importorskip("torch", reason="no torch")
    from datasets import Dataset
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
    from trl import GRPOConfig, GRPOTrainer

    torch.manual_seed(0)
    words = ("<pad>", "<bos>", "<eos>", *"0123456789+=abcdef ")
    base = Tokenizer(models.WordLevel({w: i for i, w in enumerate(words)}, unk_token=" "))
    base.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    base.decoder = decoders.Fuse()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=base, pad_token="<pad>", bos_token="<bos>", eos_token="<eos>", padding_side="left"
    )
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(words),
            hidden_size=16,
            intermediate_size=32,
            num_hidden_layers=1,
            num_attention_heads=2,
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=2,
        )
    )
    model.save_pretrained(folder / "start")  # the reference model is read from where the model came from
    config = GRPOConfig(
        output_dir=str(folder),
        max_steps=STEPS,
        per_device_train_batch_size=2 * GROUP,
        num_generations=GROUP,
        max_completion_length=8,
        logging_steps=1,
        save_steps=3,
        report_to="none",
        use_cpu=True,
        bf16=False,
        seed=1,
        beta=0.04,
        learning_rate=1e-3,
        **settings,
    )
    data = Dataset.from_dict({"prompt": [f"{i}+{i}=" for i in range(8)]})
    return GRPOTrainer(
        model=str(folder / "start"), args=config, train_dataset=data, reward_funcs=rewards, processing_class=tokenizer
    )


def test_a_real_run_is_taken_row_by_row_with_its_completions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlvitals.live.pace.TEXT_SHARE", 1e9)  # steps of so small a model are too fast for texts
    trainer = new_trainer(tmp_path / "run", [short, digits], reward_weights=[1.0, 0.5])
    monitor = hook.watch(trainer, directory=tmp_path / "vitals")
    trainer.train()
    trainer.save_state()
    assert monitor.troubles == ()
    assert (monitor._config.group_size, monitor._config.kl_coef) == (GROUP, 0.04)
    live = load(tmp_path / "vitals" / "metrics.jsonl")
    filed = load(tmp_path / "run" / "trainer_state.json")
    assert live.step.tolist() == filed.step.tolist() == list(range(1, STEPS + 1))
    for name in ("reward_mean", "reward_part/short", "reward_part/digits", "kl_ref", "entropy", "length_mean"):
        np.testing.assert_allclose(live.columns[name], filed.columns[name], rtol=1e-12, err_msg=name)

    rows = [json.loads(line) for line in (tmp_path / "vitals" / "rollouts.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == [s for s in range(1, STEPS + 1) for _ in range(2 * GROUP)]
    assert {row["group"] for row in rows} == {"0", "1"}
    assert all(row["reward_part/short"] == pytest.approx(short([row["completion"]])[0], abs=1e-6) for row in rows)
    for step in (1, STEPS):
        mine = [row["reward"] for row in rows if row["step"] == step]
        assert np.mean(mine) == pytest.approx(live.columns["reward_mean"][step - 1], rel=1e-5)
    assert [e.path.rpartition("/")[2] for e in monitor._rows.events] == ["checkpoint-3", "checkpoint-6"]


def test_a_stop_request_saves_a_checkpoint_and_ends_training(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    trainer = new_trainer(tmp_path / "run", [zero])
    monitor = hook.watch(trainer, stop_on=StopOn(zero_reward_steps=2))
    with caplog.at_level(logging.WARNING, logger="rlvitals"):
        trainer.train()
    assert trainer.state.global_step == 4  # the third row closes the second, and the fourth step is the next to end
    assert (tmp_path / "run" / "checkpoint-4").is_dir()
    request = monitor.stop_request
    assert request is not None
    assert (request.rule, request.step) == ("zero reward", 2)
    assert sum("asked the trainer to save a checkpoint and stop" in r.message for r in caplog.records) == 1


def test_a_broken_monitor_does_not_touch_training(tmp_path: Path) -> None:
    trainer = new_trainer(tmp_path / "run", [short])
    monitor = hook.watch(trainer)
    monitor._keys = None  # type: ignore[assignment]
    trainer.train()
    assert trainer.state.global_step == STEPS
    assert {t.what for t in monitor.troubles} == {"Monitor.log failed", "Monitor.log_rollouts failed"}


def test_without_the_trainer_the_callback_takes_the_rows_alone(tmp_path: Path) -> None:
    monitor = Monitor(trainer="TRL")
    trainer = new_trainer(tmp_path / "run", [short])
    trainer.add_callback(hook.callback(monitor))
    trainer.train()
    assert monitor._rows.engine.store.last_step == STEPS
    assert not any(name.startswith("rollouts/") for name in monitor._rows.engine.store.names)
