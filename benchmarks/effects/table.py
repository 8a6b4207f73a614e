"""What is done to a healthy run to measure each check on step logs: one literal table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from benchmarks.effects import data, policy, reward, rollouts, signal
from benchmarks.effects.draft import Draft


@dataclass(frozen=True)
class Effect:
    """What happens to a healthy run, in words with numbers and units, and the function that does it."""

    words: str
    put: Callable[[Draft], None]


# The first effect of a check is the smallest that it claims; a second one is larger, or what asks for a move.
EFFECTS: Mapping[str, tuple[Effect, ...]] = {
    "D001": (
        Effect("one gradient norm is NaN", partial(data.nonfinite, rows=1)),
        Effect("the gradient norm is NaN from the onset on", partial(data.nonfinite, rows=10_000)),
    ),
    "D002": (Effect("a resume from 10 steps earlier", partial(data.rewind, back=10)),),
    "D003": (Effect("2 rows in a row are missing", partial(data.gap, rows=2)),),
    "D004": (Effect("the gradient norm is logged no more", data.vanished),),
    "D005": (
        Effect("every reward is multiplied by 1.8", partial(data.rescaled, factor=1.8)),
        Effect("every reward is multiplied by 10", partial(data.rescaled, factor=10.0)),
    ),
    "D006": (Effect("the entropy is 0 in every row, from the first step on", data.placeholder),),
    "D007": (Effect("the learning rate is 0", data.rate_zero),),
    "D010": (
        Effect("lengths 40% above their level, the band of own runs at 20%", partial(data.outside_history, share=0.4)),
    ),
    "T001": (
        Effect("0.3 successes per step on average, from the first step on", partial(reward.rare, per_step=0.3)),
        Effect("no success at all, from the first step on", partial(reward.rare, per_step=0.0)),
    ),
    "T002": (
        Effect(
            "pass rate 0.95 and held-out score 0.90 within 50 steps", partial(reward.solved, rate=0.95, held_out=0.9)
        ),
    ),
    "R001": (Effect("every rollout earns 0", reward.constant),),
    "R002": (
        Effect("the reward falls to 40% of its best level within 20 rows", partial(reward.fall, left=0.4)),
        Effect("the reward falls to 20% of its best level within 20 rows", partial(reward.fall, left=0.2)),
    ),
    "R003": (
        Effect(
            "the task part falls by 20% within 60 rows while a format part of weight 0.5 is learned (0.3 to 0.9)",
            partial(reward.truth_falls, by=0.2),
        ),
        Effect("the same with a fall by 40%", partial(reward.truth_falls, by=0.4)),
        Effect("the same with a task part that never moves", reward.truth_flat),
    ),
    "R004": (
        Effect("20% of the answers cannot be parsed, from 2%", partial(reward.unread, share=0.2)),
        Effect("50% of the answers cannot be parsed, from 2%", partial(reward.unread, share=0.5)),
    ),
    "R005": (
        Effect(
            "parse failures fall from 50% to 35% within 100 rows; 40% of the parsed answers are right all along",
            partial(reward.parsing, before=0.5, after=0.35),
        ),
        Effect("the same with a fall from 50% to 5%", partial(reward.parsing, before=0.5, after=0.05)),
    ),
    "R006": (Effect("one of three sources earns 0 in every rollout", reward.dead_source),),
    "R007": (
        Effect("pass rate 0.98, from the first step on", partial(reward.perfect, rate=0.98)),
        Effect("pass rate 0.995, from the first step on", partial(reward.perfect, rate=0.995)),
    ),
    "R008": (
        Effect(
            "step-to-step changes of reward and length correlate by 0.6 while length grows by half",
            partial(reward.coupled, correlation=0.6),
        ),
        Effect("the same with a correlation of 0.8", partial(reward.coupled, correlation=0.8)),
    ),
    "R009": (
        Effect("pass rate 0.98 within 50 rows", partial(reward.saturated, rate=0.98)),
        Effect("pass rate 0.99 within 50 rows", partial(reward.saturated, rate=0.99)),
    ),
    "R010": (
        Effect("the pass rate never moves, from the first step on", reward.flat),
        Effect("the same with a KL to the reference of 0.003 nats", partial(reward.flat, kl=0.003)),
    ),
    "R011": (
        Effect("the verifier fails on 5% of the rollouts, from 0.5%", partial(reward.verifier_errors, share=0.05)),
        Effect("the verifier fails on 20% of the rollouts, from 0.5%", partial(reward.verifier_errors, share=0.2)),
    ),
    "R012": (Effect("a third reward component is 0 in every row, from the first step on", reward.dead_part),),
    "R013": (
        Effect("pass rate 0.03 within 50 rows", partial(reward.saturated, rate=0.03)),
        Effect("pass rate 0.015 within 50 rows", partial(reward.saturated, rate=0.015)),
    ),
    "R014": (
        Effect("the pass rate falls by 0.1 in line until the last row", partial(reward.decline, by=0.1)),
        Effect("the pass rate falls by 0.25 in line until the last row", partial(reward.decline, by=0.25)),
    ),
    "R015": (
        Effect(
            "half of the rollouts that give the gold answer earn nothing, from the first step on",
            partial(reward.gold_missed, share=0.5, from_start=True),
        ),
        Effect(
            "all rollouts that give the gold answer earn nothing, from a later step on",
            partial(reward.gold_missed, share=1.0, from_start=False),
        ),
    ),
    "R020": (
        Effect(
            "a tenth of the answers with another number is scored right, from the first step on",
            partial(reward.events, cases="other_answer_n", found="other_answer_paid", share=0.1, from_start=True),
        ),
        Effect(
            "half of them, from a later step on",
            partial(reward.events, cases="other_answer_n", found="other_answer_paid", share=0.5, from_start=False),
        ),
    ),
    "R021": (
        Effect(
            "four fifths of the right answers are not read, from the first step on",
            partial(reward.events, cases="right_n", found="right_unread_n", share=0.8, from_start=True),
        ),
        Effect(
            "all of them, from a later step on",
            partial(reward.events, cases="right_n", found="right_unread_n", share=1.0, from_start=False),
        ),
    ),
    "S001": (
        Effect("60% of the groups are tied", partial(signal.tied, share=0.6)),
        Effect(
            "95% of the groups are tied, and the reward has never risen", partial(signal.tied, share=0.95, flat=True)
        ),
    ),
    "S002": (Effect("the advantages equal the rewards, from the first step on", signal.equals_score),),
    "S003": (
        Effect(
            "the advantages average 0.08 of their std where lengths spread by 5%",
            partial(signal.offset, of_std=0.08, length_spread=0.05),
        ),
        Effect(
            "the advantages average 0.5 of their std where lengths spread by 5%",
            partial(signal.offset, of_std=0.5, length_spread=0.05),
        ),
    ),
    "S004": (
        Effect("groups of 2 at a pass rate of 0.4, from the first step on", partial(signal.small_group, rate=0.4)),
    ),
    "S005": (
        Effect(
            "every group is tied in 96% of the rows and the gradient norm stays above 0",
            partial(signal.no_reward_gradient, rows=0.96),
        ),
        Effect(
            "every group is tied in every row and the gradient norm stays above 0",
            partial(signal.no_reward_gradient, rows=1.0),
        ),
    ),
    "O001": (
        Effect("surprisal 5% below the entropy, single rows within 3%", partial(policy.surprisal_gap, share=-0.05)),
        Effect("surprisal 20% below the entropy, single rows within 3%", partial(policy.surprisal_gap, share=-0.2)),
        Effect("the sampler keeps 99% of the probability mass", partial(policy.kept_mass, mass=0.99)),
    ),
    "O002": (
        Effect("20% different completions per group (not below 1.5 / G), from 70%", partial(policy.copies, unique=0.2)),
        Effect("10% of the completions loop, from 1%", partial(policy.loops, share=0.1)),
    ),
    "O003": (
        Effect("5% of the rollouts end with an error, from 0.5%", partial(policy.errored, share=0.05)),
        Effect(
            "20% end with an error, and the reward falls to 60% of its best level within 20 rows",
            partial(policy.errored, share=0.2, reward_left=0.6),
        ),
        Effect("35% of the rollouts end with a tool call, from 20%", partial(policy.other_end, by=0.15)),
    ),
    "L001": (
        Effect("10% of the completions are cut", partial(policy.cut, share=0.1)),
        Effect("50% of the completions are cut", partial(policy.cut, share=0.5)),
    ),
    "L002": (
        Effect(
            "length grows to 2 times its start within 100 rows; the reward has never risen",
            partial(policy.longer, factor=2.0),
        ),
        Effect(
            "length grows to 3 times its start within 100 rows; the reward falls to half of its best level",
            partial(policy.longer, factor=3.0, reward_left=0.5),
        ),
    ),
    "L003": (
        Effect(
            "length shrinks to 25% of its start within 30 rows, at a pass rate of 0.3",
            partial(policy.shorter, left=0.25, reward=0.3),
        ),
        Effect(
            "length shrinks to 10% of its start within 30 rows, at a pass rate of 0.3",
            partial(policy.shorter, left=0.1, reward=0.3),
        ),
    ),
    "L004": (Effect("99.5% of the completions are cut at the budget", partial(policy.nothing_ends, share=0.995)),),
    "L005": (
        Effect("90% of the completions count as cut, at their usual length", partial(policy.cut, share=0.9)),
        Effect("99% of the completions count as cut, at their usual length", partial(policy.cut, share=0.99)),
    ),
    "E001": (
        Effect("entropy falls to 10% of its start within 100 rows", partial(policy.entropy_falls, left=0.1)),
        Effect(
            "the same, and the reward falls to half of its best level",
            partial(policy.entropy_falls, left=0.1, reward_left=0.5),
        ),
    ),
    "E002": (
        Effect(
            "entropy rises within 100 rows to 3 times its start, at least by 1 nat",
            partial(policy.entropy_runs, factor=3.0, nats=1.0),
        ),
        Effect(
            "the same, and the reward falls to half of its best level",
            partial(policy.entropy_runs, factor=3.0, nats=1.0, reward_left=0.5),
        ),
    ),
    "E003": (
        Effect("entropy rises to 90% of ln V within 100 rows", partial(policy.entropy_random, of_maximum=0.9)),
        Effect("entropy rises to 97% of ln V within 100 rows", partial(policy.entropy_random, of_maximum=0.97)),
    ),
    "E004": (
        Effect(
            "entropy climbs evenly to 2 times its start at the last row", partial(policy.entropy_climbs, factor=2.0)
        ),
        Effect(
            "entropy climbs evenly to 3 times its start at the last row", partial(policy.entropy_climbs, factor=3.0)
        ),
    ),
    "U001": (Effect("the gradient norm is exactly 0 although groups are mixed", signal.gradient_zero),),
    "U002": (
        Effect("10% of the gradient norms are 12 times their level", partial(signal.spikes, rows=0.1, times=12.0)),
        Effect("20% of the gradient norms are 30 times their level", partial(signal.spikes, rows=0.2, times=30.0)),
    ),
    "U003": (
        Effect("10% of the tokens are clipped within 50 rows", partial(signal.clipped, share=0.1)),
        Effect("15% of the tokens are clipped within 50 rows", partial(signal.clipped, share=0.15)),
    ),
    "U004": (
        Effect("the clip fraction is 0 in every row", partial(signal.never_clipped, same=False)),
        Effect("the same, and KL(old, new) is 0 in every row", partial(signal.never_clipped, same=True)),
    ),
    "U005": (
        Effect(
            "with one update per rollout batch 0.2% of the tokens are clipped, from 0.05%",
            partial(signal.first_ratio, clip=0.002),
        ),
        Effect(
            "with one update per rollout batch 0.5% of the tokens are clipped, from 0.05%",
            partial(signal.first_ratio, clip=0.005),
        ),
    ),
    "U006": (
        Effect("the importance weights average 0.8", partial(signal.deflated, weight=0.8)),
        Effect("the importance weights average 0.6", partial(signal.deflated, weight=0.6)),
    ),
    "U007": (Effect("the loss of a token mean is exactly 0", signal.loss_zero),),
    "U008": (Effect("the KL to the reference is exactly 0, from the first step on", signal.no_movement),),
    "U009": (
        Effect("50% of the completions are cut and masked", partial(signal.masked, share=0.5)),
        Effect("92% of the completions are cut and masked", partial(signal.masked, share=0.92)),
    ),
    "U010": (
        Effect("3% of the losses are above 2 and 60 times their own", partial(signal.loss_spikes, rows=0.03, size=2.1)),
        Effect("6% of the losses are above 2 and 60 times their own", partial(signal.loss_spikes, rows=0.06, size=2.1)),
    ),
    "K001": (
        Effect(
            "KL grows in proportion to the step, from 0.01 nats or more",
            partial(policy.kl_grows, exponent=1.0, least=0.01),
        ),
        Effect("KL grows like step^1.6, from 0.01 nats or more", partial(policy.kl_grows, exponent=1.6, least=0.01)),
        Effect("KL jumps to 10 times its level, at least 0.01 nats", partial(policy.kl_jumps, factor=10.0, least=0.01)),
    ),
    "K002": (
        Effect(
            "KL stays at 0.009 nats and the pass rate never moves, from the first step on",
            partial(policy.kl_pinned, nats=0.009),
        ),
        Effect("the same with a KL of 0.002 nats", partial(policy.kl_pinned, nats=0.002)),
    ),
    "K003": (
        Effect("KL of 0.011 nats in a first step with learning rate 0", partial(policy.kl_early, nats=0.011)),
        Effect("KL of 11 nats in a first step with learning rate 0", partial(policy.kl_early, nats=11.0)),
    ),
    "K004": (
        Effect("one value of a k3 estimate is -0.0002 nats", partial(policy.kl_negative_k3, nats=-2e-4)),
        Effect(
            "a signed estimate averages -0.01 nats, single rows within 0.01",
            partial(policy.kl_negative_k1, nats=-0.01, sd=0.01),
        ),
        Effect(
            "a signed estimate averages -0.02 nats, single rows within 0.01",
            partial(policy.kl_negative_k1, nats=-0.02, sd=0.01),
        ),
    ),
    "K005": (
        Effect(
            "KL starts anew from 0 and is at its own course again 10 rows later",
            partial(policy.kl_anew, over=10, resumed=False),
        ),
        Effect("the same 30 rows later, at a resume", partial(policy.kl_anew, over=30, resumed=True)),
    ),
    "Y001": (
        Effect(
            "the log-probability gap jumps to 5 times its level, at least 0.05 nats", partial(data.gap_jump, factor=5.0)
        ),
        Effect(
            "the same to 6 times its level with the first weight update", partial(data.gap_first_update, factor=6.0)
        ),
    ),
    "Y002": (
        Effect("the log-probability gap is 0.05 nats", partial(data.gap_level, nats=0.05)),
        Effect("the log-probability gap is 0.06 nats", partial(data.gap_level, nats=0.06)),
    ),
    "Y003": (
        Effect(
            "the log-probability gap grows in line from the first step on to 5 times its start, at least 0.1 nats",
            partial(data.gap_ramp, factor=5.0, least=0.1, from_start=True),
        ),
        Effect(
            "the same to 8 times its start, at least 0.2 nats, from a later step on",
            partial(data.gap_ramp, factor=8.0, least=0.2, from_start=False),
        ),
    ),
    "Y004": (
        Effect("the oldest rollouts of a step are 9 versions old", partial(data.lag, versions=9.0)),
        Effect("rollouts get one version older with every step", data.stuck),
    ),
    "H001": (
        Effect(
            "training gains 0.08 of its range until the last row and held-out stays",
            partial(reward.not_following, gain=0.08),
        ),
        Effect("the same with a gain of 0.16", partial(reward.not_following, gain=0.16)),
        Effect("the same with a gain of 0.4", partial(reward.not_following, gain=0.4)),
    ),
    "H002": (
        Effect("held-out falls by 10% of its level", partial(reward.regression, by=0.1)),
        Effect("held-out falls by 30% of its level", partial(reward.regression, by=0.3)),
    ),
    "H003": (Effect("held-out falls by one standard error of a difference", partial(reward.passed, errors=1.0)),),
    # rollout facts
    "D008": (
        Effect("another reward version, the mean unchanged", partial(rollouts.version, jump=0.0)),
        Effect("another reward version, the mean 40% higher", partial(rollouts.version, jump=0.4)),
    ),
    "T006": (
        Effect("30% of the rollouts move to a hard tier", partial(rollouts.tier_mix, share=0.3)),
        Effect("60% of the rollouts move to a hard tier", partial(rollouts.tier_mix, share=0.6)),
    ),
    "T007": (
        Effect("success on one of two tiers falls by 0.2 within 20 rows", partial(rollouts.tier_forgotten, by=0.2)),
        Effect("success on one of two tiers falls by 0.5 within 20 rows", partial(rollouts.tier_forgotten, by=0.5)),
    ),
    "T008": (
        Effect("8 sets of 16 prompts come in turn", partial(rollouts.same_prompts, sets=8)),
        Effect("the same 16 prompts come at every step", partial(rollouts.same_prompts, sets=1)),
    ),
    "R016": (
        Effect("every fifth step holds a stretch of chance 10^-5", partial(rollouts.streaks, log10=-5.0, every=5)),
        Effect("every second step holds a stretch of chance 10^-12", partial(rollouts.streaks, log10=-12.0, every=2)),
    ),
    "R017": (
        Effect(
            "7% of the rollouts: verifier failures scored 0", partial(rollouts.errors_scored, share=0.07, reward=0.0)
        ),
        Effect(
            "20% of the rollouts: verifier failures scored 1", partial(rollouts.errors_scored, share=0.2, reward=1.0)
        ),
    ),
    "R018": (
        Effect("a new phrase in 20% of the texts pays", partial(rollouts.phrase, share=0.2, merit=0.6)),
        Effect("the same in 50% without more right answers", partial(rollouts.phrase, share=0.5, merit=0.0)),
    ),
    "R019": (
        Effect("one of three families spreads 3.5 times wider", partial(rollouts.family_scale, times=3.5)),
        Effect("one of three families spreads 10 times wider", partial(rollouts.family_scale, times=10.0)),
    ),
    "S006": (
        Effect("30% of the groups are tied, the log says none", partial(rollouts.misreported, share=0.3)),
        Effect("90% of the groups are tied, the log says none", partial(rollouts.misreported, share=0.9)),
    ),
    "S007": (
        Effect("groups of 8 lose a quarter", partial(rollouts.group_sizes, least=2.0, mean=6.0, most=8.0)),
        Effect("groups of 16 where 8 are configured", partial(rollouts.group_sizes, least=8.0, mean=12.0, most=16.0)),
    ),
    "S008": (
        Effect(
            "the advantages of 70% of the groups are shifted", partial(rollouts.advantages, kind="shifted", share=0.7)
        ),
        Effect("all advantages have the wrong sign", partial(rollouts.advantages, kind="sign_flipped", share=1.0)),
    ),
    "S009": (
        Effect("20% of the groups are copies", partial(rollouts.copies, share=0.2)),
        Effect("80% of the groups are copies", partial(rollouts.copies, share=0.8)),
    ),
    "O004": (
        Effect("60% of the groups go about it in one way", partial(rollouts.one_strategy, share=0.6)),
        Effect("90% of the groups go about it in one way", partial(rollouts.one_strategy, share=0.9)),
    ),
    "O005": (
        Effect("7% of one family's rollouts end with errors", partial(rollouts.broken_family, share=0.07)),
        Effect("40% of one family's rollouts end with errors", partial(rollouts.broken_family, share=0.4)),
    ),
    "O006": (
        Effect("reward against order within groups: correlation -0.1", partial(rollouts.state_leak, correlation=-0.1)),
        Effect("reward against order within groups: correlation -0.4", partial(rollouts.state_leak, correlation=-0.4)),
    ),
    "O007": (Effect("some rollouts at temperature 0.7 instead of 1", partial(rollouts.settings, temperature=0.7)),),
    "L006": (
        Effect("30% of the right rollouts never stopped", partial(rollouts.cut_rewarded, share=0.3)),
        Effect("80% of the right rollouts never stopped", partial(rollouts.cut_rewarded, share=0.8)),
    ),
    "Y005": (
        Effect(
            "7% of the useful groups are lost, 1.4 times as long", partial(rollouts.discarded, share=0.07, times=1.4)
        ),
        Effect("25% of the useful groups are lost, twice as long", partial(rollouts.discarded, share=0.25, times=2.0)),
    ),
    "Y006": (
        Effect(
            "a gap of 0.08 nats on negative advantages, twice that on positive ones",
            partial(rollouts.gap_by_sign, nats=0.08, times=2.0),
        ),
        Effect(
            "a gap of 0.3 nats on negative advantages, 5 times that on positive ones",
            partial(rollouts.gap_by_sign, nats=0.3, times=5.0),
        ),
    ),
    "Y007": (
        Effect("sequence weights leave 20% of the rollouts", partial(rollouts.sequence_weights, left=0.2)),
        Effect("sequence weights leave 5% of the rollouts", partial(rollouts.sequence_weights, left=0.05)),
    ),
}
