"""Config, credit, prompt pool and stop rules, each on its own; bad input is refused whole and before the first step."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from rlvitals.env import StopReason, VerifierStatus
from rlvitals.errors import InputError
from rlvitals.grpo.advantages import advantage_B
from rlvitals.grpo.config import Config, checked, problems, with_settings
from rlvitals.grpo.credit import credit
from rlvitals.grpo.evaluate import Cadence, summary
from rlvitals.grpo.kl import Estimator, KlTerm, Place
from rlvitals.grpo.logs import RunLog
from rlvitals.grpo.loop import train
from rlvitals.grpo.models import Policy
from rlvitals.grpo.pool import COOLDOWN, Pool, Tried
from rlvitals.grpo.presets import PRESETS, config_of, recipe_of
from rlvitals.grpo.recipes import RECIPES, DeadGroups, Overlong
from rlvitals.grpo.rewards.plan import CORRECT_ONLY, Part, RewardPlan
from rlvitals.grpo.rollout import Trajectory, seed_of, uniforms
from rlvitals.grpo.stop import Stopping
from tests.grpo.loops import PARTS, config, items, sevens, untrained


def test_the_config_is_one_small_place() -> None:
    assert len(fields(Config)) <= 30
    assert problems(Config()) == []
    assert {name for name in PRESETS if problems(config_of(name))} == set()


def test_everything_wrong_is_said_at_once() -> None:
    with pytest.raises(InputError) as caught:
        checked(Config(group_size=1, temperature=0.0, top_p=math.nan, minibatches=99, dtype="int8", lr=-1.0))
    where = [p.where for p in caught.value.problems]
    assert where == ["group_size", "top_p", "temperature", "lr", "dtype", "minibatches"]
    assert "relative to the other rollouts" in caught.value.problems[0].hint
    assert caught.value.problems[-1].found == "99 for 16"


def test_settings_are_typed_and_unknown_ones_named() -> None:
    found = with_settings(Config(), {"lr": "1e-5", "prompts": "4", "checkpoint_activations": "true", "task": "gym:x=1"})
    assert (found.lr, found.prompts, found.checkpoint_activations, found.task) == (1e-5, 4, True, "gym:x=1")
    with pytest.raises(InputError) as caught:
        with_settings(Config(), {"prompst": "4", "lr": "fast", "steps": "1.5", "checkpoint_activations": "1"})
    assert [(p.where, p.hint) for p in caught.value.problems] == [
        ("--set prompst", "Nearest: prompts"), ("--set lr", ""), ("--set steps", ""),
        ("--set checkpoint_activations", ""),
    ]  # fmt: skip


def test_whole_numbers_are_taken_exactly() -> None:
    top = 2**63 - 1
    for text, value in (("9007199254740993", 2**53 + 1), (str(top), top), ("9007199254740993.0", 2**53 + 1),
                        ("1e3", 1000), ("1e18", 10**18)):  # fmt: skip
        assert checked(with_settings(Config(), {"seed": text})).seed == value
    for wrong in ("9007199254740993.5", "nan", "1e400", "9" * 5000, "x", ""):
        with pytest.raises(InputError, match="not a value of this setting"):
            with_settings(Config(), {"seed": wrong})
    with pytest.raises(InputError, match=r"seed: setting out of range; found 9223372036854775808"):
        checked(with_settings(Config(), {"seed": str(top + 1)}))


def test_an_option_of_a_recipe_that_is_given_twice_is_refused() -> None:
    with pytest.raises(InputError) as caught:
        recipe_of(Config(recipe="grpo:kl_by=a=0,kl=k1,kl_by=a=5,kl=k1,score_every=0"))
    assert [str(p) for p in caught.value.problems][:2] == [
        "--recipe: kl_by is given twice; found 'a=0' and 'a=5'; expected one of them",
        "--recipe: kl is given twice; found 'k1' and 'k1'; expected one of them",
    ]
    assert len(caught.value.problems) == 3


def no_end(settings: Config) -> Policy:
    loaded = untrained(settings)
    loaded.tokenizer.eos_token = None
    return loaded


@pytest.mark.parametrize(
    ("changes", "parts", "said"),
    [
        ({"group_size": 1}, {}, "group_size: setting out of range; found 1"),
        ({"minibatches": 17}, {}, "more minibatches than rollouts; found 17 for 16"),
        ({"recipe": "grop"}, {}, "Nearest: grpo"),
        ({"reference_reset": -1}, {}, "a KL term without a reference"),
        ({}, {"model": no_end}, "the tokenizer has no end token"),
        ({}, {"task": lambda c, t: replace(sevens(c, t), train=())}, "no items to train on"),
        ({"lora_rank": 2, "reference_reset": 5}, {}, "cannot be reset"),
    ],
)
def test_bad_input_is_refused_before_anything_is_written(
    changes: dict[str, Any], parts: dict[str, Any], said: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=said):
        train(config(**changes), replace(PARTS, **parts), folder=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_recipes_go_by_the_spelling_of_other_trainers_too() -> None:
    assert recipe_of(Config(recipe="dr_grpo")) is RECIPES["dr-grpo"]


def test_logs_keep_whole_rows_up_to_an_offset(tmp_path: Path) -> None:
    with RunLog(tmp_path, 3) as log:
        log.step(1, {"loss": 0.5})
        kept = log.offsets()
        log.step(2, {"loss": math.nan})
    with RunLog(tmp_path, 3, kept) as log:
        log.step(2, {"loss": 0.25}, held_out=0.5)
        log.event(2, "finished")
    assert (tmp_path / "metrics.jsonl").read_text() == '{"step": 1, "loss": 0.5}\n{"step": 2, "loss": 0.25}\n'
    table = (tmp_path / "metrics.csv").read_text().splitlines()
    assert [line.split(",")[2] for line in table] == ["loss", "0.5", "0.25"]
    assert (tmp_path / "train.log").read_text().splitlines()[1] == "[Step 2/3] loss=0.2500"


def test_a_log_that_cannot_be_written_says_how_to_go_on(tmp_path: Path) -> None:
    class Full:
        def write(self, data: bytes) -> int:
            raise OSError(28, "No space left on device")

        def close(self) -> None:
            return None

    log = RunLog(tmp_path / "run", 3)
    for file in log._files.values():
        file.close()
    log._files = dict.fromkeys(log._files, Full())  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"No space left on device.*rlvitals train --resume --out"):
        log.step(1, {"loss": 0.5})


def test_a_kl_coefficient_adds_a_term_that_restrains() -> None:
    assert recipe_of(Config(recipe="dapo")).kl_term is None
    assert recipe_of(Config(recipe="dapo", kl_coef=0.1)).kl_term == KlTerm(Estimator.RATIO_K3, Place.LOSS, 0.1)
    changed = recipe_of(Config(recipe="grpo", kl_coef=0.5)).kl_term
    assert (changed.estimator, changed.coef) == (Estimator.K3, 0.5)  # type: ignore[union-attr]


def test_estimator_and_place_are_options_of_a_recipe() -> None:
    found = recipe_of(Config(recipe="grpo:kl=exact"))
    assert found.kl_term == KlTerm(Estimator.EXACT, Place.LOSS, 0.04)
    found = recipe_of(Config(recipe="dapo:kl=k1,kl_in=reward", kl_coef=0.01))
    assert found.kl_term == KlTerm(Estimator.K1, Place.REWARD, 0.01)
    assert recipe_of(Config(recipe="dapo")) == replace(found, kl_term=None)
    with pytest.raises(InputError, match=r"a KL term without a coefficient.*dapo has none of its own"):
        recipe_of(Config(recipe="dapo:kl=k2"))
    with pytest.raises(InputError) as caught:
        recipe_of(Config(recipe="grpo:kl=k9,where=loss"))
    assert [(p.where, p.found) for p in caught.value.problems] == [
        ("--recipe", "'kl=k9'"), ("--recipe", "'where=loss'"),
    ]  # fmt: skip


def group(number: int, rewards: list[float], **more: Any) -> list[Trajectory]:
    out = []
    for k, reward in enumerate(rewards):
        t = Trajectory(items(0, 1)[0], number, k, 0, (1,), "")
        t.ids, t.counts, t.reward, t.stop = [5, 2], [True, True], reward, StopReason.EOS
        t.parts = {"correct": reward}
        for name, value in more.items():
            setattr(t, name, value)
        out.append(t)
    return out


def test_failures_leave_baseline_and_loss_and_dead_groups_the_loss() -> None:
    all_ = [*group(0, [1.0, 0.0, math.nan, 0.0]), *group(1, [1.0, 1.0]), *group(2, [1.0, math.nan])]
    found = credit(replace(RECIPES["dr-grpo"], dead_groups=DeadGroups.DROP), all_, CORRECT_ONLY, 8, advantage_B)
    assert found.adv_B.tolist() == pytest.approx([2 / 3, -1 / 3, 0, -1 / 3, 0, 0, 0, 0])
    assert found.rows.tolist() == [0, 1, 3]
    assert found.judged_B.tolist() == [True, True, False, True, True, True, False, False]
    kept = credit(RECIPES["dr-grpo"], all_, CORRECT_ONLY, 8, advantage_B)
    assert kept.rows.tolist() == [0, 1, 3, 4, 5]


def test_without_any_reward_nothing_is_learnt() -> None:
    found = credit(RECIPES["grpo"], group(0, [math.nan, math.nan]), CORRECT_ONLY, 8, advantage_B)
    assert (found.rows.tolist(), found.adv_B.tolist()) == ([], [0.0, 0.0])


def test_truncated_answers_are_filtered_or_shaped() -> None:
    all_ = group(0, [1.0, 0.0, 0.0])
    all_[2].stop, all_[2].counts = StopReason.BUDGET, [True] * 10
    filtered = credit(replace(RECIPES["dr-grpo"], overlong=Overlong.FILTER), all_, CORRECT_ONLY, 10, advantage_B)
    assert filtered.rows.tolist() == [0, 1]
    assert filtered.adv_B.tolist() == pytest.approx([2 / 3, -1 / 3, -1 / 3])
    shaped = credit(replace(RECIPES["dr-grpo"], overlong=Overlong.SHAPE), all_, CORRECT_ONLY, 10, advantage_B)
    assert shaped.adv_B.tolist() == pytest.approx([1.0, 0.0, -1.0])  # 10 of 10 tokens cost the whole penalty


def test_a_penalty_in_the_reward_uses_the_coefficient_of_the_family() -> None:
    all_ = group(0, [1.0, 1.0])
    all_[0].divergence = 2.0
    term = KlTerm(Estimator.K1, Place.REWARD, 0.5, {"sevens": 0.25})
    found = credit(replace(RECIPES["dr-grpo"], kl_term=term), all_, CORRECT_ONLY, 8, advantage_B)
    assert found.adv_B.tolist() == [-0.25, 0.25]


def test_gdpo_normalises_each_part() -> None:
    plan = RewardPlan((Part("correct"), Part("format", 0.1)))
    all_ = group(0, [1.1, 0.0, 0.0, 0.1])
    for t, (a, b) in zip(all_, [(1, 1), (0, 0), (0, 0), (0, 1)], strict=True):
        t.parts = {"correct": float(a), "format": float(b)}
    found = credit(RECIPES["gdpo"], all_, plan, 8, advantage_B)
    z = torch.tensor([1.5, -0.5, -0.5, -0.5]) + 0.1 * torch.tensor([1, -1, -1, 1]) * 0.5 / (1 / 3) ** 0.5
    torch.testing.assert_close(found.adv_B, (z - z.mean()) / z.std(), atol=1e-3, rtol=0)


def test_the_pool_asks_each_prompt_once_before_any_twice_and_resumes() -> None:
    pool = Pool(items(0, 24), seed=3)
    first = [i.id for step in range(1, 7) for i in pool.draw(4, step)]
    assert len(set(first)) >= 20  # tiers are drawn by chance, so the smaller one may start its second pass
    assert all(len({i.id for i in pool.draw(8, s)}) == 8 for s in range(7, 12))
    twin = Pool(items(0, 24), seed=3)
    twin.load(pool.state())
    assert [i.id for i in twin.draw(8, 99)] == [i.id for i in pool.draw(8, 99)]
    assert Pool(items(0, 2), seed=0).draw(5, 1)[4] in items(0, 2)


def test_the_pool_prefers_mixed_prompts_and_tiers_that_teach() -> None:
    pool = Pool(items(0, 4000), seed=0)
    mixed = items(0, 4000)[10]
    for step in range(1, 60):
        easy = [Tried(i, 1.0, mixed=False) for i in items(0, 4000) if i.tier == "1"][:8]
        even = [Tried(i, 0.5, mixed=i.id == mixed.id) for i in items(0, 4000) if i.tier == "2"][:8]
        pool.learn([*easy, *even, Tried(mixed, 0.5, mixed=step == 1)], step)
    drawn = [i for s in range(100, 200) for i in pool.draw(8, s)]
    share = sum(i.tier == "2" for i in drawn) / len(drawn)
    assert 0.7 < share < 0.95
    again = Pool(items(0, 4000), seed=0)
    again.learn([Tried(mixed, 0.5, mixed=True)], 1)
    asked = [s for s in range(2, 60) for i in again.draw(8, s) if i.id == mixed.id]
    assert asked
    assert min(asked) >= 1 + COOLDOWN


def test_stop_rules() -> None:
    rules = Stopping(patience=2, dead_steps=20)
    assert [rules.evaluated(s, x, 0.05) for s, x in ((0, 0.2), (10, 0.4), (20, 0.44))] == ["", "", ""]
    said = rules.evaluated(30, 0.41, 0.05)
    assert said == "no better held-out score in 2 evaluations: best 0.400 after step 10, now 0.410"
    dead = Stopping(0, 3)
    tied = {"zero_variance_frac": 1.0, "reward_mean": 0.0}
    assert [bool(dead.stepped(r)) for r in (tied, tied, {"zero_variance_frac": 0.9}, tied, tied, tied)] == [
        False, False, False, False, False, True,
    ]  # fmt: skip
    solved = Stopping(0, 50)
    won = {"zero_variance_frac": 1.0, "all_right_frac": 1.0}
    said = [solved.stepped(won) for _ in range(10)][-1]
    assert said.startswith("solved: every rollout was right for 10 steps")
    twin = Stopping(2, 20)
    twin.load(rules.state())
    assert twin == rules
    assert not any(Stopping(0, 0).stepped(won) for _ in range(99))
    short = Stopping(0, 3)  # the count of the solved task is its own
    assert [bool(short.stepped({"zero_variance_frac": 0.5, "all_right_frac": 1.0})) for _ in range(10)] == [
        *[False] * 9, True,
    ]  # fmt: skip


def test_an_evaluation_leaves_out_what_the_verifier_failed_on() -> None:
    played = group(0, [1.0, 0.0, math.nan])
    for t, status in zip(played, ("right", "wrong", "timeout"), strict=True):
        t.status = VerifierStatus(status)
    found = summary(played)
    assert (found.score, found.items) == (0.5, 2)
    assert found.stderr == pytest.approx(math.sqrt(0.25 / 2))
    assert [r["correct"] for r in found.rows] == [1.0, 0.0, None]
    assert math.isnan(summary(played[2:]).score)


def test_evaluations_keep_to_their_share_of_the_time() -> None:
    cadence = Cadence(10)
    assert [s for s in range(1, 41) if cadence.due(s)] == [10, 20, 30, 40]
    assert not cadence.took(5.0, of_run=30.0)  # short runs keep their cadence
    assert not cadence.took(20.0, of_run=100.0)
    assert cadence.took(20.0, of_run=120.0)
    assert cadence.every == 20


def test_seeds_depend_on_nothing_but_their_parts() -> None:
    assert seed_of(0, "rollouts", 1) == seed_of(0, "rollouts", 1) != seed_of(0, "rollouts", 2)
    assert seed_of(1, 23) != seed_of(12, 3)
    assert torch.equal(uniforms(5, 4), uniforms(5, 8)[:4])
