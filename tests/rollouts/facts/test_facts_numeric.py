"""Facts on numbers: exact values on small batches."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from rlvitals.rollouts.facts import (
    components,
    gold,
    identity,
    index_order,
    length_coupling,
    lengths,
    other_number,
    outcomes,
    prompt_set,
    settings,
    stop_families,
    stops,
    streaks,
    tiers,
    trained,
    verifier,
    versions,
)
from rlvitals.rollouts.facts.streaks import chance_of
from rlvitals.rollouts.fold import fold
from tests.rollouts.facts.batches import batch, groups, merges, says


def test_lengths_of_right_and_wrong_answers() -> None:
    found = says(lengths.FACT, batch(tokens=[10, 20, 30, None], correct=[1, 0, 0, 1], turns=[1, 1, 2, None]))
    assert found["length_mean"] == {1: 20.0}
    assert (found["length_min"], found["length_max"], found["length_std"]) == ({1: 10.0}, {1: 30.0}, {1: 10.0})
    assert (found["length_right_mean"], found["length_wrong_mean"]) == ({1: 10.0}, {1: 25.0})
    assert found["turns_mean"] == {1: pytest.approx(4 / 3)}


def test_endings_are_shares_of_the_rollouts_whose_ending_is_known() -> None:
    b = batch(
        step=[1, 1, 1, 1, 2, 2],
        stop_reason=["eos", "eos", "budget", "error", "eos", None],
        tokens=[5, 6, 8, 3, 4, 4],
        token_budget=8,
    )
    found = says(stops.FACT, b)
    assert found["stop_frac/eos"] == {1: 0.5, 2: 1.0}
    assert found["stop_frac/error"] == {1: 0.25, 2: 0.0}
    assert found["truncated_frac"] == {1: 0.25, 2: 0.0}
    assert "cut_short_frac" not in found or found["cut_short_frac"] == {}


def test_a_cut_below_the_budget_is_no_cut() -> None:
    found = says(stops.FACT, batch(stop_reason="budget", tokens=[100, 40, 50, 100], token_budget=100))
    assert found["cut_short_frac"] == {1: 0.5}


def test_the_design_effect_of_clustered_errors() -> None:
    whole = batch(family="web", stop_reason=["error"] * 4 + ["eos"] * 12, **groups(4, 4))
    found = says(stop_families.FACT, whole)
    assert found["broken_family/web"] == {1: 0.25}
    # residuals 3, -1, -1, -1: variance 12 * 4 / 3 / 256 over .25 * .75 / 16
    assert found["broken_effect/web"] == {1: pytest.approx((12 * 4 / 3 / 256) / (0.25 * 0.75 / 16))}
    assert merges(stop_families.FACT, whole, 6)


def test_what_cut_rollouts_earn_and_right_ones_that_never_stopped() -> None:
    b = batch(
        stop_reason=["budget"] * 5 + ["eos"] * 5,
        reward=[1, 1, 1, 1, 0, 1, 0, 0, 0, 0],
        correct=[1, 1, 1, 1, 0, 1, 0, 0, 0, 0],
    )
    found = says(outcomes.FACT, b)
    assert found["truncated_reward_mean"] == {1: 0.8}
    assert found["stopped_reward_mean"] == {1: 0.2}
    assert found["right_stopped_frac"] == {1: 0.1}
    assert found["right_unstopped_share"] == {1: 0.8}


def test_tiers_have_success_share_and_tied_groups() -> None:
    b = batch(
        tier=["1"] * 4 + ["2"] * 4, correct=[1, 1, 1, 1, 1, 0, 0, 0], reward=[1, 1, 1, 1, 1, 0, 0, 0], **groups(2, 4)
    )
    found = says(tiers.FACT, b)
    assert (found["success_tier/1"], found["success_tier/2"]) == ({1: 1.0}, {1: 0.25})
    assert (found["zero_variance_tier/1"], found["zero_variance_tier/2"]) == ({1: 1.0}, {1: 0.0})
    assert found["tier_share/2"] == {1: 0.5}


def test_components_and_what_wrong_rollouts_earn_of_them() -> None:
    b = batch(
        correct=[1, 0, 0, 0, 0], **{"reward_part/format": [1, 1, 1, 0, 0], "reward_part/correct": [1, 0, 0, 0, 0]}
    )
    found = says(components.FACT, b)
    assert found["reward_part/format"] == {1: 0.6}
    assert found["part_wrong_mean/format"] == {1: 0.5}
    assert found["part_wrong_mean/correct"] == {1: 0.0}


def test_verifier_failures_that_have_a_reward() -> None:
    b = batch(
        verifier_status=["right", "wrong", "no parse", "timeout", "error"],
        reward=[1, 0, 0, 1, None],
        verifier_seconds=[0.1, 0.1, 0.1, 5.0, 0.2],
    )
    found = says(verifier.FACT, b)
    assert found["parse_failure_frac"] == {1: 0.2}
    assert found["verifier_error_frac"] == {1: 0.4}
    assert found["error_scored_frac"] == {1: 0.2}
    assert found["error_reward_mean"] == {1: 1.0}
    assert found["verified_reward_mean"] == {1: pytest.approx(1 / 3)}
    assert found["verifier_seconds_max"] == {1: 5.0}
    (example,) = fold([b], (verifier.FACT,)).examples
    assert (example.shows, example.step, example.reward) == ("verifier", 1, 1.0)


def test_other_numbers_that_are_paid() -> None:
    parsed = ["4", "5", "5", "", None, "1/2", "1,000", "3.141", "50%", "7", "2.9"]
    gold = ["4", "4", "4", "4", "4", "0.5", "1000", "3.14159", "0.5", "seven", "3.1"]
    paid = [1.0, 1.0, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 1.0]
    found = says(other_number.FACT, batch(parsed=parsed, gold=gold, reward=paid))
    # 5 and 5 and "" against 4, and 2.9 against 3.1; a fraction, a comma, a rounded decimal, a percentage, a word: not
    assert (found["other_answer_n"], found["other_answer_paid"]) == ({1: 4.0}, {1: 3.0})


def test_other_numbers_whose_verifier_failed_are_left_to_its_own_check() -> None:
    b = batch(parsed=["5", "5"], gold=["4", "4"], reward=[1.0, 1.0], correct=[1.0, 0.0], verifier_status=["error", ""])
    found = says(other_number.FACT, b)
    assert (found["other_answer_n"], found["other_answer_paid"]) == ({1: 1.0}, {1: 0.0})


def test_the_set_of_prompts_counts_whatever_its_order_and_how_often_each_stands_in_it() -> None:
    asked = ["a", "a", "b", "b", "b", "a", "b", "a", "a", "c", None, "a"]
    found = says(prompt_set.FACT, batch(step=[1] * 4 + [2] * 3 + [3] * 5, prompt_id=asked))
    assert found["prompts_n"] == {1: 2.0, 2: 2.0, 3: 2.0}
    sums = found["prompt_checksum"]
    assert sums[1] == sums[2] != sums[3]


def test_tasks_of_one_prompt_are_told_apart_by_their_gold_answer() -> None:
    found = says(prompt_set.FACT, batch(step=[1, 1, 2, 2], prompt_id="play", gold=["x", "y", "x", "z"]))
    assert found["prompts_n"] == {1: 2.0, 2: 2.0}
    assert found["prompt_checksum"][1] != found["prompt_checksum"][2]


def test_the_text_of_prompts_stands_in_for_ids_and_without_both_nothing_is_said() -> None:
    texts = says(prompt_set.FACT, batch(step=[1, 2], prompt=["a", "a"]))
    assert texts["prompt_checksum"][1] == texts["prompt_checksum"][2]
    assert not any(says(prompt_set.FACT, batch(reward=[1.0, 0.0])).values())


def test_sets_of_prompts_merge_whatever_the_order_and_the_division() -> None:
    rng = np.random.default_rng(5)
    steps, asked = rng.integers(1, 6, 200), [f"p{i}" for i in rng.integers(0, 9, 200)]
    whole = batch(step=steps, prompt_id=asked, gold=[None if i % 2 else "4" for i in range(200)])
    assert all(merges(prompt_set.FACT, whole, cut) for cut in (1, 77, 199))
    mixed = whole.take(rng.permutation(200))
    parts = [mixed.take(slice(a, a + 40)) for a in range(0, 200, 40)]
    assert says(prompt_set.FACT, *parts) == says(prompt_set.FACT, whole)


def test_gold_answers_that_earn_nothing() -> None:
    b = batch(parsed=["4", " 4", "5", None], gold=["4", "4", "4", "4"], reward=[1.0, 0.0, 0.0, 0.0], family="math")
    found = says(gold.FACT, b)
    assert (found["gold_given/math"], found["gold_missed/math"]) == ({1: 2.0}, {1: 1.0})


def test_the_simpson_trap_has_a_positive_slope_within_groups(shared: Path) -> None:
    """Pooled over prompts longer answers score less (-0.00097 per token); within each prompt they score more."""
    s = json.loads((shared / "vectors" / "metrics.json").read_text(encoding="utf-8"))["simpson"]
    b = batch(tokens=[int(x) for x in s["length"]], reward=s["reward"], group=[str(g) for g in s["group"]], correct=0)
    found = says(length_coupling.FACT, b)
    assert found["length_slope_equal"] == {1: pytest.approx(1000 * s["within_slope"], abs=1e-6)}
    assert found["length_corr_equal"] == {1: pytest.approx(s["within_r"], abs=1e-8)}
    assert np.polyfit(s["length"], s["reward"], 1)[0] == pytest.approx(s["pooled_slope"], abs=1e-8)


def test_own_simpson_trap() -> None:
    """Hard prompts need long answers and score low; within a prompt 100 tokens more earn 0.1 more."""
    length = [100, 200, 300, 400, 500, 600, 700, 800, 900, 1000, 1100, 1200]
    reward = [0.8 - 0.3 * (i // 4) + 0.1 * (i % 4) for i in range(12)]
    b = batch(tokens=length, reward=reward, correct=0, **groups(3, 4))
    found = says(length_coupling.FACT, b)
    assert found["length_slope_equal"] == {1: pytest.approx(1.0)}
    assert found["length_corr_equal"] == {1: pytest.approx(1.0)}
    assert np.polyfit(length, reward, 1)[0] < 0
    assert merges(length_coupling.FACT, b, 5)


def test_longer_right_answers_are_no_coupling_at_equal_correctness() -> None:
    b = batch(tokens=[300, 310, 290, 100, 110, 90] * 3, reward=[1, 1, 1, 0, 0, 0] * 3, correct=[1, 1, 1, 0, 0, 0] * 3,
              **groups(3, 6))  # fmt: skip
    found = says(length_coupling.FACT, b)
    assert found["length_corr_equal"] == {1: 0.0}
    assert found["length_corr_group"][1] > 0.99


def test_the_order_within_a_group_against_reward_and_length() -> None:
    b = batch(reward=[0, 1, 2, 3] * 4, tokens=[40, 10, 20, 30] * 4, **groups(4, 4))
    found = says(index_order.FACT, b)
    assert found["index_reward_corr"] == {1: pytest.approx(1.0)}
    assert found["index_length_corr"] == {1: pytest.approx(-0.2)}


def test_a_stretch_of_equal_rewards_has_the_chance_of_its_order() -> None:
    values = [0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 1, 1]  # 8 of 12 tied at 0, six of them in a row
    mixed = {1, 8, 10}
    reward = [[v, 1 - v] if i in mixed else [v, v] for i, v in enumerate(values)]
    found = says(streaks.FACT, batch(reward=[x for pair in reward for x in pair], **groups(12, 2)))
    assert found["same_streak"] == {1: 12.0}
    assert found["same_streak_value"] == {1: 0.0}
    assert found["same_streak_log10p"][1] == pytest.approx(chance_of(8, 12, 6))


@pytest.mark.parametrize(("k", "n", "length"), [(8, 12, 6), (5, 10, 3), (4, 9, 4)])
def test_the_bound_on_the_chance_of_a_stretch_holds(k: int, n: int, length: int) -> None:
    from itertools import combinations, pairwise
    from math import comb

    def longest(places: tuple[int, ...]) -> int:
        best = run = 1
        for a, b in pairwise(places):
            run = run + 1 if b == a + 1 else 1
            best = max(best, run)
        return best

    exact = sum(longest(p) >= length for p in combinations(range(n), k)) / comb(n, k)
    assert exact <= 10 ** chance_of(k, n, length) + 1e-12


def test_sorted_dumps_say_nothing_of_stretches() -> None:
    found = says(streaks.FACT, batch(reward=[0.0] * 12 + [1.0] * 12, **groups(12, 2)))
    assert "same_streak_log10p" not in found or found["same_streak_log10p"] == {}


def test_versions_give_the_lag_only_where_both_are_known() -> None:
    found = says(versions.FACT, batch(policy_version=[3, 5, 5], trainer_version=[6, 6, None]))
    assert (found["policy_version_min"], found["policy_version_max"]) == ({1: 3.0}, {1: 5.0})
    assert (found["version_lag_mean"], found["version_lag_max"]) == ({1: 2.0}, {1: 3.0})


def test_identity_counts_versions_and_tells_them_apart() -> None:
    found = says(identity.REWARD, batch(step=[1, 1, 2, 2, 3, 3], reward_version=["a", "a", "a", "b", "b", "b"]))
    assert found["reward_versions"] == {1: 1.0, 2: 2.0, 3: 1.0}
    assert len(set(found["reward_version_code"].values())) == 3


def test_settings_of_a_step() -> None:
    found = says(settings.FACT, batch(temperature=[1.0, 0.7, None], token_budget=[None, 512, 512]))
    assert (found["temperature_min"], found["temperature_max"]) == ({1: 0.7}, {1: 1.0})
    assert found["token_budget_min"] == {1: 512.0}
    assert "top_p_min" not in found


def test_discarded_groups_are_live_groups_without_an_advantage() -> None:
    b = batch(reward=[0, 1, 0, 1, 1, 1], tokens=[10, 10, 30, 30, 50, 50], advantage=[-1, 1, None, None, None, None],
              **groups(3, 2))  # fmt: skip
    found = says(trained.FACT, b)
    assert found["discarded_frac"] == {1: 0.5}
    assert found["discarded_length_ratio"] == {1: 3.0}
