"""A run as a whole: what it writes, what its parts may be, and that every metric is what it says."""

from __future__ import annotations

import csv
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

import rlvitals
from rlvitals.env import Item, Message, Step, StopReason, VerifierStatus
from rlvitals.grpo.config import Config
from rlvitals.grpo.loop import train
from rlvitals.grpo.rewards.plan import Part, RewardPlan
from rlvitals.grpo.rollout import Sampler, Trajectory
from rlvitals.grpo.rolloutfiles import row_of
from rlvitals.grpo.tasks.base import Task
from rlvitals.grpo.watch import Progress, Vitals
from rlvitals.metrics import is_canonical
from rlvitals.reference.tenthings import Have, standing
from rlvitals.rollouts.table import BY_NAME, PART
from tests.grpo.loops import PARTS, HasSeven, config, one_thread, rows, sevens


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    one_thread()
    folder = tmp_path_factory.mktemp("runs") / "run"
    train(config(), PARTS, folder=folder)
    return folder


def test_the_row_of_a_step_holds_canonical_names_and_numbers(run: Path) -> None:
    found = rows(run)
    assert [r["step"] for r in found] == list(range(7))
    assert set(found[0]) == {"step", "eval/heldout"}
    names = set(found[1]) - {"step"}
    assert {n for n in names if not is_canonical(n) and not n.startswith(("extra/", "eval/"))} == set()
    assert all(isinstance(v, int | float) and math.isfinite(v) for r in found for v in r.values())
    assert [s for s in range(7) if "eval/heldout" in found[s]] == [0, 3, 6]


def test_what_the_first_step_says_is_true(run: Path) -> None:
    """Recomputes the row of step 1 from its rollouts."""
    first = rows(run)[1]
    table = duckdb.sql(f"SELECT * FROM '{run}/rollouts/*.parquet' WHERE step = 1")
    names = table.columns
    got = [dict(zip(names, r, strict=True)) for r in table.fetchall()]
    assert len(got) == 16
    reward = [r["reward"] for r in got]
    assert first["reward_mean"] == pytest.approx(sum(reward) / 16)
    groups: dict[str, list[dict[str, Any]]] = {}
    for r in got:
        groups.setdefault(r["group"], []).append(r)
    tied = [len({r["reward"] for r in g}) == 1 for g in groups.values()]
    assert first["zero_variance_frac"] == sum(tied) / 4
    for g in groups.values():
        mean = sum(r["reward"] for r in g) / 4
        std = math.sqrt(sum((r["reward"] - mean) ** 2 for r in g) / 3)
        for r in g:
            assert r["advantage"] == pytest.approx((r["reward"] - mean) / (std + 1e-4) if std else 0.0, abs=1e-5)
    assert first["advantage_mean"] == pytest.approx(0.0, abs=1e-6)
    tokens = [r["tokens"] for r in got]
    assert first["length_mean"] == pytest.approx(sum(tokens) / 16)
    assert first["truncated_frac"] == sum(r["stop_reason"] == "budget" for r in got) / 16
    logp = [x for r in got for x in r["trainer_logp"]]
    assert first["surprisal_mean"] == pytest.approx(-sum(logp) / len(logp), abs=1e-4)
    assert first["kl_ref"] == 0.0  # the reference is the policy itself before the first update
    assert first["logprob_gap_max"] < 1e-5
    assert first["extra/ratio_first_mean"] == pytest.approx(1.0, abs=1e-5)
    assert (first["version_lag_max"], first["extra/optimizer_steps"]) == (0.0, 4.0)


def test_rollouts_hold_the_divergence_and_the_advantages_of_their_group(run: Path) -> None:
    columns = '"group", tokens, kl_ref, advantage, group_advantage_mean, group_advantage_std, parsed'
    for step in (1, 4):
        got = duckdb.sql(f"SELECT {columns} FROM '{run}/rollouts/*.parquet' WHERE step = {step}").fetchall()
        tokens = np.array([r[1] for r in got])
        assert rows(run)[step]["kl_ref"] == pytest.approx(float(tokens @ [r[2] for r in got]) / tokens.sum(), rel=1e-9)
        for name in {r[0] for r in got}:
            own = [r for r in got if r[0] == name]
            adv = np.array([r[3] for r in own])
            assert own[0][4:6] == pytest.approx((adv.mean(), adv.std(ddof=1)), abs=1e-7)
            assert len({r[4:6] for r in own}) == 1
        stds = {r[0]: r[5] for r in got}
        assert rows(run)[step]["extra/advantage_group_std_mean"] == pytest.approx(
            np.mean(list(stds.values())), abs=1e-7
        )
        assert {r[6] for r in got} == {None}  # this verifier does not say what it read


def test_without_a_reference_a_rollout_has_no_divergence(tmp_path: Path) -> None:
    train(config(steps=1, reference_reset=-1, kl_coef=0.0), PARTS, folder=tmp_path / "run")
    found = duckdb.sql(f"SELECT DISTINCT kl_ref FROM '{tmp_path}/run/rollouts/*.parquet'").fetchall()
    assert found == [(None,)]


def test_what_the_verifier_read_is_kept_and_what_it_could_not_read_is_not() -> None:
    item = Item("a", (Message("user", "4+5="),), gold="9")
    rollout = Trajectory(item, 0, 0, 0, (1,), "", status=VerifierStatus.NO_PARSE, raw="4+5,9")
    assert (row_of(rollout, 1, 0)["parsed"], row_of(rollout, 1, 0)["raw_output"]) == (None, "4+5,9")
    read = replace(rollout, status=VerifierStatus.RIGHT, raw="1: 9", parsed="9")
    assert row_of(read, 1, 0)["parsed"] == "9"


def test_rollout_files_have_the_canonical_columns(run: Path) -> None:
    files = sorted(p.name for p in (run / "rollouts").iterdir())
    assert files == [f"steps-00000{a}-00000{a + 1}.parquet" for a in (1, 3, 5)]
    names = duckdb.sql(f"SELECT * FROM '{run}/rollouts/*.parquet'").columns
    assert {n for n in names if n not in BY_NAME and not n.startswith(PART)} == set()
    assert {"prompt_id", "raw_output", "verifier_status", "sampler_logp", "policy_version", "env_version",
            "reward_version", "sampler_version", "seed", "reward_part/correct"} <= set(names)  # fmt: skip


def test_the_chapter_7_formats_are_read_as_such(run: Path) -> None:
    with (run / "metrics.csv").open() as file:
        table = list(csv.DictReader(file))
    assert [r["step"] for r in table] == ["1", "2", "3", "4", "5", "6"]
    assert [bool(r["eval_acc"]) for r in table] == [False, False, True, False, False, True]
    for name in ("metrics.csv", "train.log"):
        found = rlvitals.load(run / name)
        assert found.trainer.name == "chapter-7 scripts"
        expected = [r["reward_mean"] for r in rows(run)[1:]]
        assert found.columns["reward_mean"].tolist() == pytest.approx(expected, abs=1e-4)


def test_all_ten_things_are_there(run: Path) -> None:
    loaded = rlvitals.load(run)
    diagnosis = rlvitals.diagnose(loaded)
    from rlvitals.ingest.registry import by_name

    lacking = [s.thing.number for s in standing(loaded, diagnosis, by_name("rlvitals train")) if s.have is not Have.YES]
    assert lacking == []
    assert loaded.unrecognised == ()


def test_config_json_names_everything_that_decided_the_run(run: Path) -> None:
    said = json.loads((run / "config.json").read_text())
    assert said["train"]["group_size"] == 4
    assert said["run"]["updates_per_rollout"] == 4.0
    assert (said["run"]["clip_low"], said["run"]["kl_coef"], said["run"]["kl_estimator"]) == (0.2, 0.04, "k3")
    assert set(said["versions"]) >= {"environment", "reward", "sampler", "torch", "transformers"}
    kinds = [json.loads(line)["kind"] for line in (run / "events.jsonl").read_text().splitlines()]
    assert [k for k in kinds if k != "tokenizer"] == ["checkpoint"] * 3 + ["finished"]


def test_a_replaced_part_is_the_one_that_is_used(tmp_path: Path) -> None:
    """Each seam that a lab needs, once."""
    flipped = replace(PARTS, advantage=lambda how, r_BK, g_B, w_K: -PARTS.advantage(how, r_BK, g_B, w_K))

    def without_end(trainer: Any, recipe: Any, data: Any, step: int, loss: Any) -> Any:
        mask_BT = data.packed.mask_BT & (data.packed.ids_BL[:, 1:] != 2)
        return PARTS.update(trainer, recipe, replace(data, packed=replace(data.packed, mask_BT=mask_BT)), step, loss)

    def warmer(policy: Any, tokenizer: Any, settings: Config) -> Sampler:
        inner = PARTS.sampler(policy, tokenizer, settings)

        class Warmer:
            push = inner.push

            def generate(self, prompts: Any, seeds: Any, budgets: Any, sampling: Any) -> Any:
                return inner.generate(prompts, seeds, budgets, replace(sampling, temperature=3.0))

        return Warmer()

    short = config(steps=1, eval_every=0, epochs=1, minibatches=1)
    named = {"usual": PARTS, "flipped": flipped, "warmer": replace(PARTS, sampler=warmer),
             "endless": replace(PARTS, update=without_end),
             "told": replace(PARTS, record=lambda step, row: {**row, "entropy": 9.0})}  # fmt: skip
    found = {}
    for name, parts in named.items():
        train(short, parts, folder=tmp_path / name)
        found[name] = rows(tmp_path / name)[0]
    assert found["flipped"]["advantage_max"] == -found["usual"]["advantage_min"]
    assert found["flipped"]["reward_mean"] == found["usual"]["reward_mean"]
    assert found["usual"]["logprob_gap_mean"] < 1e-6 < 0.03 < found["warmer"]["logprob_gap_mean"]
    assert found["told"]["entropy"] == 9.0
    assert found["endless"]["grad_norm"] != found["usual"]["grad_norm"]
    assert found["endless"]["surprisal_mean"] == found["usual"]["surprisal_mean"]  # scored with the end token


class Flaky(HasSeven):
    """Its verifier fails on prompts of an odd number, and raises on one."""

    def reset(self, item: Item, seed: int) -> tuple[Message, ...]:
        self.item = item
        return item.messages

    def step(self, text: str) -> Step:
        if self.item.id == "item-4":
            raise RuntimeError("no such judge")
        if self.item.tier == "2":
            return Step((), {}, "timed out", VerifierStatus.TIMEOUT, reason=StopReason.TIMEOUT)
        return super().step(text)


def test_verifier_failures_are_counted_and_never_a_reward_of_zero(tmp_path: Path) -> None:
    def flaky(settings: Config, tokenizer: Any) -> Task:
        return replace(sevens(settings, tokenizer), new_env=Flaky)

    train(config(steps=3, eval_every=0), replace(PARTS, task=flaky), folder=tmp_path / "run")
    table = duckdb.sql(
        f"SELECT verifier_status, reward, advantage, raw_output FROM '{tmp_path}/run/rollouts/*.parquet'"
    ).fetchall()
    failed = [r for r in table if r[0] in ("error", "timeout")]
    assert len(failed) > 8
    assert {(r[1], r[2]) for r in failed} == {(None, None)}
    assert {r[3] for r in failed} <= {"timed out", "RuntimeError: no such judge"}
    assert all(r[1] in (0.0, 1.0) for r in table if r not in failed)
    shares = [r["verifier_error_frac"] for r in rows(tmp_path / "run")]
    assert sum(shares) * 16 == pytest.approx(len(failed))


def test_adapters_train_and_the_model_without_them_is_the_reference(tmp_path: Path) -> None:
    pytest.importorskip("peft")
    train(config(lora_rank=2, recipe="dapo"), PARTS, folder=tmp_path / "whole")
    train(config(lora_rank=2, recipe="dapo", steps=4), PARTS, folder=tmp_path / "run")
    train(config(lora_rank=2, recipe="dapo"), PARTS, folder=tmp_path / "run", resume=True)
    # the closing evaluation of the shorter run stands in its last row
    assert rows(tmp_path / "run")[5:] == rows(tmp_path / "whole")[5:]
    assert rows(tmp_path / "whole")[1]["kl_ref"] == 0.0 < rows(tmp_path / "whole")[-1]["kl_ref"]
    saved = {p.name for p in (tmp_path / "run/checkpoints/checkpoint-6").iterdir()}
    assert "adapter_model.safetensors" in saved
    assert "model.safetensors" not in saved


def test_a_reset_reference_starts_again_at_zero_and_survives_a_resume(tmp_path: Path) -> None:
    one_thread()
    settings = config(reference_reset=2, recipe="dapo", eval_every=0)
    train(settings, PARTS, folder=tmp_path / "whole")
    found = [r["kl_ref"] for r in rows(tmp_path / "whole")]
    assert [k == 0.0 for k in found] == [True, False, True, False, True, False]
    train(replace(settings, steps=2), PARTS, folder=tmp_path / "run")
    train(settings, PARTS, folder=tmp_path / "run", resume=True)
    assert rows(tmp_path / "run") == rows(tmp_path / "whole")


def test_without_a_reference_no_divergence_is_logged(tmp_path: Path) -> None:
    for recipe, changes in (("dapo", {}), ("grpo:kl=exact", {"kl_coef": 0.0})):
        settings = config(reference_reset=-1, recipe=recipe, steps=1, **changes)
        train(settings, PARTS, folder=tmp_path / recipe)
        assert "kl_ref" not in rows(tmp_path / recipe)[1]


def test_filtered_sampling_is_scored_as_it_was_sampled(tmp_path: Path) -> None:
    train(config(top_p=0.7, temperature=0.8, steps=2), PARTS, folder=tmp_path / "run")
    assert max(r["logprob_gap_max"] for r in rows(tmp_path / "run")[1:]) < 1e-5


@pytest.mark.parametrize(("recipe", "changes"), [("grpo:kl=exact", {}), ("grpo:kl=exact", {"lora_rank": 2})])
def test_the_exact_divergence_in_the_loss(recipe: str, changes: dict[str, Any], tmp_path: Path) -> None:
    if changes:
        pytest.importorskip("peft")
    settings = config(recipe=recipe, kl_coef=0.5, top_p=0.9, steps=4, eval_every=0, **changes)
    train(settings, PARTS, folder=tmp_path / "run")
    found = rows(tmp_path / "run")
    assert found[0]["kl_loss"] >= 0.0
    assert 0.0 < found[-1]["kl_loss"] < 0.5 * 0.2
    said = json.loads((tmp_path / "run" / "config.json").read_text())["run"]
    assert (said["loss_type"], said["kl_estimator"], said["kl_coef"]) == ("grpo", "exact", 0.5)


def test_the_exact_divergence_in_the_reward_is_that_of_the_sampled_prefixes(tmp_path: Path) -> None:
    """Nothing is taken off before the first update, and the loss has no term."""
    free, leashed = (
        train(config(recipe=f"grpo:{how}kl_in=reward", kl_coef=coef, steps=3, eval_every=0), PARTS, folder=tmp_path / n)
        for n, how, coef in (("free", "kl=k1,", 0.0), ("leashed", "kl=exact,", 0.3))
    )
    assert (free.steps, leashed.steps) == (3, 3)
    first, last = rows(tmp_path / "leashed")[0], rows(tmp_path / "leashed")[-1]
    assert (
        first["advantage_max"] == rows(tmp_path / "free")[0]["advantage_max"]
    )  # no divergence before the first update
    assert (last["kl_coef"], "kl_loss" in last) == (0.3, False)
    assert last["kl_ref"] > 0.0


def test_several_reward_parts_and_gdpo(tmp_path: Path) -> None:
    plan = RewardPlan((Part("correct"), Part("short", 0.5, lambda c: float(len(c.ids) < 6))))
    parts = replace(PARTS, task=lambda c, t: replace(sevens(c, t), plan=plan))
    train(config(recipe="gdpo", steps=2), parts, folder=tmp_path / "run")
    first = rows(tmp_path / "run")[1]
    assert first["reward_mean"] == pytest.approx(first["reward_part/correct"] + 0.5 * first["reward_part/short"])


def test_the_monitor_sees_what_check_sees(tmp_path: Path) -> None:
    with (tmp_path / "out").open("w") as out:
        vitals = Vitals(Progress(30, out))
        train(config(steps=25, save_every=30), PARTS, folder=tmp_path / "run", watch=[vitals])
    assert vitals.headline() == rlvitals.diagnose(rlvitals.load(tmp_path / "run")).headline


def test_progress_off_a_terminal_is_a_line_now_and_then(tmp_path: Path) -> None:
    with (tmp_path / "out").open("w+") as out:
        with Progress(4, out) as progress:
            train(config(steps=4, eval_every=2), PARTS, folder=tmp_path / "run", watch=[progress])
        out.seek(0)
        lines = out.read().splitlines()
    assert [line.split(" · ")[0] for line in lines] == [f"step {i}/4" for i in (1, 2, 3, 4)]
    assert "held-out" in lines[-1]


def test_a_dead_reward_ends_the_run(tmp_path: Path) -> None:
    class Never(HasSeven):
        def step(self, text: str) -> Step:
            return Step((), {"correct": 0.0}, text, VerifierStatus.WRONG)

    parts = replace(PARTS, task=lambda c, t: replace(sevens(c, t), new_env=Never))
    outcome = train(config(steps=50, dead_steps=4), parts, folder=tmp_path / "run")
    assert (outcome.steps, outcome.complete) == (4, False)
    assert outcome.reason.startswith("dead reward: all rewards of each group were equal for 4 steps (mean 0.000)")
