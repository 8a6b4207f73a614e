"""Keys to canonical metrics: trainers' generations, aliases, and live rows against whole tables."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from rlvitals.ingest import generic, load, ms_swift, registry, trl, unsloth
from rlvitals.ingest.adapter import EvalKey, Key
from rlvitals.ingest.generic import guess
from rlvitals.ingest.mapping import RowMapper, map_table
from rlvitals.ingest.rules import Kind, Resolver
from rlvitals.ingest.table import TableBuilder
from rlvitals.ingest.values import number
from rlvitals.metrics import is_canonical
from rlvitals.schema import Direction, RunConfig, Status


@pytest.mark.parametrize(
    ("key", "metric"),
    [
        ("mean_reward", "reward_mean"),
        ("reward/mean", "reward_mean"),
        ("train/mean_reward", "reward_mean"),
        ("avg_reward", "reward_mean"),
        ("Mean Reward", "reward_mean"),
        ("rewards/mean", "reward_mean"),
        ("kl_div", "kl_ref"),
        ("kl_divergence", "kl_ref"),
        ("approx_kl", "kl_old_new"),
        ("train/grad_norm", "grad_norm"),
        ("success_rate", "success_frac"),
        ("accuracy", "success_frac"),
        ("zero_adv_fraction", "zero_variance_frac"),
        ("frac_reward_zero_std", "zero_variance_frac"),
        ("completion_length", "length_mean"),
        ("policy/entropy", "entropy"),
        ("truncated_rate", "truncated_frac"),
        ("parse_failure_rate", "parse_failure_frac"),
        ("lr", "learning_rate"),
        ("retrieval_reward", "reward_part/retrieval"),
        ("reward/compilable_g", "reward_part/compilable_g"),
        ("format_rate", "reward_part/format"),
    ],
)
def test_guess(key: str, metric: str) -> None:
    found = guess(key)
    assert found is not None
    assert isinstance(found.target, Key)
    assert found.target.metric == metric


@pytest.mark.parametrize(
    "key",
    ["baseline_reward", "reward_std_ema", "reward_weight", "zebra", "memory_gb", "reward_model_loss", "test_loss", "",
     "reward_count", "num_rewards", "val/entropy", "system/vram_gb"],
)  # fmt: skip
def test_keys_that_are_not_guessed(key: str) -> None:
    assert guess(key) is None


@pytest.mark.parametrize(
    ("key", "name", "metric"),
    [
        ("eval_accuracy", "eval", "accuracy"),
        ("eval/math500/accuracy", "math500", "accuracy"),
        ("val_reward", "val reward", "reward"),
        ("test/success_rate", "test", "accuracy"),
        ("heldout_acc", "heldout", "accuracy"),
    ],
)
def test_guess_of_held_out_keys(key: str, name: str, metric: str) -> None:
    found = guess(key)
    assert found is not None
    assert isinstance(found.target, EvalKey)
    assert (found.target.name, found.target.metric) == (name, metric)


def test_every_alias_stands_once_and_names_a_metric() -> None:
    names = [name for _, aliases in generic.ALIASES for name in aliases]
    assert len(names) == len(set(names))
    assert all(is_canonical(metric) for metric, _ in generic.ALIASES)
    assert all(generic.normalise(name) == name for name in names)


def test_every_adapter_names_canonical_metrics_only() -> None:
    for adapter in registry.ADAPTERS:
        for key in (*adapter.keys.values(), *(key for _, key in adapter.patterns)):
            assert is_canonical(key.metric.replace("{}", "x")), (adapter.info.name, key.metric)
        for derived in adapter.derived:
            assert is_canonical(derived.metric)


V15 = frozenset({"step", "loss", "reward", "reward_std", "completion_length", "kl", "rewards/correct"})
V18 = frozenset({"step", "reward", "reward_std", "completions/mean_length", "frac_reward_zero_std", "rewards/f/mean"})


@pytest.mark.parametrize(
    ("keys", "adapter"),
    [
        (V15, trl.ADAPTER),
        (V18, trl.ADAPTER),
        (frozenset("train/" + key for key in V18), trl.ADAPTER),
        (V18 | {"completion_length"}, unsloth.ADAPTER),
        (V18 | {"completion_length", "entropy"}, trl.ADAPTER),
        (V18 | {"global_step/max_steps"}, ms_swift.ADAPTER),
        (frozenset({"step", "reward", "loss"}), generic.ADAPTER),
        (frozenset({"loss", "mean_token_accuracy"}), generic.ADAPTER),
    ],
)
def test_adapter_is_picked_by_fingerprint(keys: frozenset[str], adapter: object) -> None:
    assert registry.pick(keys) is adapter


def test_unsloth_by_its_banner() -> None:
    assert registry.pick(V15, "Unsloth: Will patch your computer") is unsloth.ADAPTER


@pytest.mark.parametrize(
    ("version", "extra", "kind"),
    [
        ("0.15.2", set(), "group"),
        ("0.21.0", set(), "group"),
        ("0.22.0", set(), "batch"),
        ("0.22.1", set(), "batch"),
        ("0.22.2", set(), "group"),
        ("0.26.2", {"step_time"}, "group"),
        ("0.27.0", {"step_time"}, "batch"),
        ("1.16.0", {"step_time"}, "batch"),
        ("", {"step_time"}, "batch"),
        ("", set(), "group"),
    ],
)
def test_kind_of_trl_reward_std(version: str, extra: set[str], kind: str) -> None:
    config = RunConfig(versions={"trl": version} if version else {})
    assert trl.reward_std_kind(V18 | extra, config)[0] == kind


def test_the_asynchronous_trainers_kl_is_old_to_new() -> None:
    resolver = Resolver(trl.ADAPTER, V18 | {"kl", "sample/staleness_mean"})
    rule = resolver.rule("kl")
    assert (rule.metric, rule.key and rule.key.direction) == ("kl_old_new", Direction.OLD_NEW)
    assert Resolver(trl.ADAPTER, V18 | {"kl"}).rule("kl").metric == "kl_ref"


def test_swapped_release_is_noted_at_the_zero_variance_share() -> None:
    resolver = Resolver(trl.ADAPTER, V18, RunConfig(versions={"trl": "0.22.1"}))
    key = resolver.rule("frac_reward_zero_std").key
    assert key is not None
    assert "whole batch" in key.note


def test_eval_and_ignored_keys_of_trl() -> None:
    resolver = Resolver(trl.ADAPTER, V18)
    assert (resolver.rule("eval_rewards/gsm/mean").kind, resolver.rule("eval_rewards/gsm/mean").metric) == (
        Kind.EVAL,
        "gsm",
    )
    for key in ("eval_loss", "profiling/Time taken: GRPOTrainer.x", "clip_ratio/low_min", "train_runtime", "step"):
        assert resolver.rule(key).kind is Kind.IGNORE


ROWS: tuple[dict[str, object], ...] = (
    {"step": 1, "reward": "0.5", "kl": 0.0, "loss": float("nan"), "accuracy": 40.0, "eval_reward": 0.1, "zebra": 1},
    {"step": 2, "reward": -0.25, "kl": None, "loss": float("inf"), "accuracy": 50.0, "mean_reward": 9.0},
    {"step": "3/10", "reward": 1, "kl": 1e-3, "loss": 0.5, "accuracy": 60.0, "rewards/f/mean": 0.5},
)


@pytest.mark.parametrize("adapter", [trl.ADAPTER, generic.ADAPTER], ids=["trl", "generic"])
def test_a_live_row_gives_what_the_table_gives(adapter: object) -> None:
    assert adapter in (trl.ADAPTER, generic.ADAPTER)
    chosen = trl.ADAPTER if adapter is trl.ADAPTER else generic.ADAPTER
    builder = TableBuilder("x")
    for i, row in enumerate(ROWS):
        builder.add(row, i + 1)
    table = builder.build()
    mapped = map_table(table, Resolver(chosen, table.keys()))
    mapper = RowMapper(Resolver(chosen, table.keys()))
    for i, row in enumerate(ROWS):
        live = mapper.map_row(row)
        whole = {n: float(c[i]) for n, c in mapped.columns.items() if not np.isnan(c[i])}
        assert dict(live.values) == {n: v for n, v in whole.items() if not (n.startswith("nonfinite/") and v == 0.0)}
        assert dict(live.evals) == {e.name: float(e.values[i]) for e in mapped.evals if not np.isnan(e.values[i])}


def test_derived_values_live() -> None:
    mapper = RowMapper(Resolver(generic.ADAPTER))
    assert mapper.map_row({"truncated_count": 5, "rollout_count": 20}).values == {"truncated_frac": 0.25}
    assert mapper.map_row({"truncated_count": 5, "rollout_count": 0}).values == {}


def test_live_rows_take_one_key_per_metric_as_a_table_does() -> None:
    mapper = RowMapper(Resolver(generic.ADAPTER))
    assert mapper.map_row({"mean_reward": 0.1}).values == {"reward_mean": 0.1}
    assert mapper.map_row({"reward": 0.5, "mean_reward": 0.1}).values == {"reward_mean": 0.5}
    assert mapper.map_row({"mean_reward": 0.1}).values == {}  # not the series that "reward" began


def test_a_step_or_epoch_that_is_no_number_is_no_error_live() -> None:
    mapper = RowMapper(Resolver(generic.ADAPTER))
    row = {"reward": 0.5, "step": float("nan"), "epoch": float("inf")}
    assert mapper.map_row(row).values["reward_mean"] == 0.5


@pytest.mark.parametrize(
    "value", [np.float32(0.5), np.float16(0.5), np.array(0.5), np.array([0.5]), np.float64(0.5)], ids=repr
)
def test_array_scalars_are_numbers(value: object) -> None:
    found = number(value)
    assert (found, type(found)) == (0.5, float)


def test_arrays_of_several_numbers_are_none() -> None:
    assert number(np.array([0.5, 0.5])) is None
    assert number(np.array(["0.5"])) is None
    assert number(np.array([], dtype=float)) is None


def test_placeholders_need_rows_and_give_way_to_the_config(tmp_path: Path) -> None:
    def run(rows: int, config: dict[str, object]) -> Status:
        folder = tmp_path / f"{rows}{len(config)}"
        folder.mkdir()
        log = folder / "log.jsonl"
        log.write_text("".join(
            json.dumps({"step": s, "reward": s / 10, "completion_length": 9.0, "rewards/f": 0.1, "kl": 0.0}) + "\n"
            for s in range(1, rows + 1)
        ))  # fmt: skip
        (folder / "args.json").write_text(json.dumps(config))
        return load(log).provenance["kl_ref"].status

    assert run(2, {}) is Status.MEASURED
    assert run(5, {}) is Status.PLACEHOLDER
    assert run(5, {"beta": 0.04}) is Status.MEASURED


def test_config_next_to_the_log_reaches_the_run(tmp_path: Path) -> None:
    (tmp_path / "args.json").write_text(json.dumps({"num_generations": 8, "beta": 0.04, "epsilon": 0.2}))
    log = tmp_path / "logging.jsonl"
    log.write_text(json.dumps({"reward": 0.5, "reward_std": 0.1, "kl": 0.1, "global_step/max_steps": "1/9"}) + "\n")
    run = load(log)
    assert (run.config.group_size, run.config.kl_coef) == (8, 0.04)
    assert run.trainer.knob("clip_high") == "epsilon_high"
