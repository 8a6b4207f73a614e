"""slime: sparse counts, two step axes, free KL, settings."""

from __future__ import annotations

import math
from pathlib import Path

from rlvitals.ingest import load
from rlvitals.ingest.configtext import config_from_text
from rlvitals.ingest.live import live_mapper
from rlvitals.ingest.readers.console import parse
from rlvitals.ingest.slime import ADAPTER
from rlvitals.ingest.slime_steps import on_rollout_steps
from rlvitals.ingest.table import TableBuilder
from rlvitals.schema import RunConfig, Scope
from tests.ingest.tables import first, mapped

GROUPS = RunConfig(prompts_per_step=8)
ROWS = [
    {"step": 0, "rollout/raw_reward": 0.1, "rollout/response_len/mean": 9.0, "rollout/zero_std/count_0.0": 3,
     "rollout/zero_std/count_1.0": 1},
    {"step": 1, "rollout/raw_reward": 0.2, "rollout/response_len/mean": 9.0},
    {"step": 2, "rollout/raw_reward": 0.3, "rollout/response_len/mean": 9.0, "rollout/zero_std/count_1.0": 2},
]  # fmt: skip


def test_missing_counts_are_zero_and_need_the_batch_size() -> None:
    assert mapped(ADAPTER, ROWS, GROUPS).columns["zero_variance_frac"].tolist() == [0.5, 0.0, 0.25]
    without = mapped(ADAPTER, ROWS)
    assert ("zero_variance_frac" in without.columns, without.unrecognised) == (False, ())


def test_counts_of_live_rows() -> None:
    mapper, _ = live_mapper("slime", frozenset(ROWS[0]), GROUPS)
    assert [mapper.map_row(row).values["zero_variance_frac"] for row in ROWS] == [0.5, 0.0, 0.25]


def test_a_filter_means_kept_groups_only() -> None:
    found = mapped(ADAPTER, [{**ROWS[0], "rollout/dynamic_filter/drop_zero_std_0.0": 5}], GROUPS)
    assert found.provenance["reward_mean"].scope is found.provenance["zero_variance_frac"].scope is Scope.KEPT


def test_reference_log_probabilities_give_a_k1() -> None:
    row = {**ROWS[0], "rollout/log_probs": -0.5, "rollout/ref_log_probs": -0.75}
    found = mapped(ADAPTER, [row])
    assert (first(found)["kl_ref"], first(found)["surprisal_mean"]) == (0.25, 0.5)
    assert found.provenance["kl_ref"].estimator == "k1"
    logged = mapped(ADAPTER, [{**row, "train/kl_loss": 0.03}], RunConfig(kl_estimator="k3"))
    assert (first(logged)["kl_ref"], logged.provenance["kl_ref"].estimator) == (0.03, "k3")


def test_held_out_scores_without_their_statistics() -> None:
    row = {**ROWS[0], "eval/aime": 0.3, "eval/aime-pass@4": 0.5, "eval/aime-truncated_ratio": 0.1,
           "eval/aime/response_len/mean": 400.0}  # fmt: skip
    assert {e.name: e.metric for e in mapped(ADAPTER, [row]).evals} == {"aime": "reward", "aime pass@4": "accuracy"}


def _two_axes(updates: int) -> TableBuilder:
    """Rows by step as TensorBoard holds them: rollouts on 0..2, updates on 0..3*updates-1."""
    builder = TableBuilder("events")
    for step in range(3 * updates):
        rollout = {"rollout/raw_reward": 0.1 * step, "rollout/response_len/mean": 9.0} if step < 3 else {}
        builder.add({"step": step, **rollout, "train/pg_loss": float(step), "train/pg_clipfrac": 0.01 * step}, step + 1)
    return builder


def test_several_updates_per_rollout_are_put_on_its_step() -> None:
    table = on_rollout_steps(_two_axes(4).build())
    assert table.facts["configs"] == {"train/step over rollout/step": {"num_steps_per_rollout": 4}}
    assert table.columns["step"].tolist() == [0, 1, 2] + [0] * 4 + [1] * 4 + [2] * 4
    assert table.columns["train/pg_loss"][3:].tolist() == list(map(float, range(12)))
    assert all(math.isnan(value) for value in table.columns["train/pg_loss"][:3])


def test_one_update_per_rollout_changes_nothing() -> None:
    table = _two_axes(1).build()
    assert on_rollout_steps(table) is table


def test_console_with_two_updates_per_rollout(tmp_path: Path) -> None:
    head = "[2026-11-29 10:01:01] x.py:1 - "
    lines = []
    for i in range(3):
        lines.append(f"{head}perf {i}: {{'rollout/response_len/mean': 9.0, 'rollout/truncated_ratio': 0.0}}")
        lines.append(f"{head}rollout {i}: {{'rollout/raw_reward': {0.1 * i:.1f}, 'rollout/step': {i}}}")
        lines += [
            f"{head}step {j}: {{'train/pg_loss': 0.{j}, 'train/grad_norm': 1.0, 'train/step': {j}}}"
            for j in (2 * i, 2 * i + 1)
        ]
    log = tmp_path / "console.log"
    log.write_text("\n".join(lines))
    run = load(log)
    assert run.step.tolist() == [0, 1, 2]
    assert run.columns["reward_mean"].tolist() == [0.0, 0.1, 0.2]
    assert run.columns["policy_loss"].tolist() == [0.1, 0.3, 0.5]  # of each rollout's last update
    assert run.config.updates_per_rollout == 2


def test_prose_with_braces_is_left_alone() -> None:
    table = parse([(1, "rollout 3: {'who': 'knows'}"), (2, "eval 4: {broken")], "console.log")
    assert table.rows == 0


def test_command_line() -> None:
    found = config_from_text(
        "python3 train.py --rollout-batch-size 32 --n-samples-per-prompt 8 --global-batch-size 128 --use-kl-loss "
        "--kl-loss-coef 0.001 --kl-loss-type low_var_kl --eps-clip 0.2 --eps-clip-high 0.28 --lr 1e-6 "
        "--rollout-max-response-len 8192 --rollout-temperature 0.8 --advantage-estimator gspo",
        ADAPTER,
    ).known()
    assert (found["updates_per_rollout"], found["kl_coef"], found["kl_in_reward"]) == (2.0, 0.001, False)
    assert (found["kl_estimator"], found["importance_level"], found["loss_type"]) == ("k3", "sequence", "gspo")
    assert (found["group_size"], found["clip_high"], found["token_budget"]) == (8, 0.28, 8192)
