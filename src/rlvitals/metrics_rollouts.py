"""What is recomputed from rollouts: rows of the vocabulary, concatenated into METRICS.

A series that the step log knows too keeps its name behind "rollouts/"; one line per task family, tier or stop reason is
an open family `rollouts/<name>/*`.
"""

from __future__ import annotations

from rlvitals.metric import INF, Metric

ROLLOUT_METRICS: tuple[Metric, ...] = (
    # rewards
    Metric("rollouts/count", "rollouts", 0, INF, "Rollouts of the step in the dump.", "Steady."),
    Metric(
        "rollouts/text_sampled_frac", "fraction", 0, 1,
        "Share of the step's rollouts whose text was read.", "As asked for.",
    ),
    Metric(
        "rollouts/reward_mean", "reward", -INF, INF,
        "Mean total reward of the step's rollouts.", "Equal to the logged reward_mean.", what_to_log=1,
    ),
    Metric(
        "rollouts/reward_std", "reward", 0, INF, "Spread of the rewards of the step's rollouts.", "Stays above 0.",
        variants=("batch",), what_to_log=1,
    ),
    Metric(
        "rollouts/reward_min", "reward", -INF, INF, "Smallest reward of the step's rollouts.", "Below the mean.",
        what_to_log=1,
    ),
    Metric(
        "rollouts/reward_max", "reward", -INF, INF, "Largest reward of the step's rollouts.", "Above the mean.",
        what_to_log=1,
    ),
    Metric(
        "rollouts/reward_missing_frac", "fraction", 0, 1,
        "Share of rollouts without a reward: the verifier gave none.", "0.", what_to_log=1,
    ),
    Metric(
        "rollouts/success_frac", "fraction", 0, 1, "Share of judged rollouts that are correct.",
        "Rises with the reward.", what_to_log=3,
    ),
    # groups
    Metric("rollouts/groups", "groups", 0, INF, "Groups of the step in the dump.", "Steady."),
    Metric(
        "rollouts/group_size_mean", "rollouts", 0, INF, "Mean number of rollouts per group.",
        "The configured group size.", what_to_log=2,
    ),
    Metric(
        "rollouts/group_size_min", "rollouts", 0, INF, "Rollouts of the smallest group.",
        "The configured group size.", what_to_log=2,
    ),
    Metric(
        "rollouts/group_size_max", "rollouts", 0, INF, "Rollouts of the largest group.",
        "The configured group size.", what_to_log=2,
    ),
    Metric(
        "rollouts/zero_variance_frac", "fraction", 0, 1,
        "Share of groups whose rewards are all the same, recomputed from the rewards.",
        "Equal to the logged share, and near p^G + (1-p)^G for the pass rates p.", what_to_log=2,
    ),
    Metric(
        "rollouts/all_wrong_frac", "fraction", 0, 1, "Share of groups in which every rollout fails.",
        "Falls as the task is learnt.", what_to_log=2,
    ),
    Metric(
        "rollouts/all_right_frac", "fraction", 0, 1, "Share of groups in which every rollout succeeds.",
        "Rises as the task is learnt.", what_to_log=2,
    ),
    # families
    Metric(
        "rollouts/reward_family/*", "reward", -INF, INF, "Mean reward of one task family.",
        "Every family is above its floor.", what_to_log=1,
    ),
    Metric(
        "rollouts/reward_family_std/*", "reward", 0, INF,
        "Spread of the rewards of one task family.", "On one scale with the other families.", what_to_log=1,
    ),
    Metric("rollouts/family_count/*", "rollouts", 0, INF, "Rollouts of one task family.", "Steady shares."),
    Metric(
        "rollouts/zero_variance_family/*", "fraction", 0, 1, "Share of tied groups of one task family.",
        "Well below 1.", what_to_log=2,
    ),
    # lengths and endings
    Metric(
        "rollouts/length_mean", "tokens", 0, INF,
        "Mean completion length.",
        "Grows slowly or settles.", what_to_log=5,
    ),
    Metric(
        "rollouts/length_std", "tokens", 0, INF,
        "Spread of the completion lengths.",
        "Above 0.", what_to_log=5,
    ),
    Metric(
        "rollouts/length_min", "tokens", 0, INF,
        "Shortest completion.",
        "Above a handful of tokens.", what_to_log=5,
    ),
    Metric(
        "rollouts/length_max", "tokens", 0, INF,
        "Longest completion.",
        "Below the budget in most steps.", what_to_log=5,
    ),
    Metric(
        "rollouts/length_right_mean", "tokens", 0, INF,
        "Mean length of correct completions.",
        "Moves with that of the wrong ones.", what_to_log=5,
    ),
    Metric(
        "rollouts/length_wrong_mean", "tokens", 0, INF,
        "Mean length of wrong completions.",
        "Moves with that of the right ones.", what_to_log=5,
    ),
    Metric(
        "rollouts/turns_mean", "turns", 0, INF,
        "Mean number of assistant turns.",
        "Steady for the task.",
    ),
    Metric(
        "rollouts/truncated_frac", "fraction", 0, 1,
        "Share of rollouts that ended at the token budget.",
        "Below 0.1 and not growing.", what_to_log=6,
    ),
    Metric(
        "rollouts/cut_short_frac", "fraction", 0, 1,
        "Share of the rollouts said to be cut that are far shorter than their budget.",
        "0.", what_to_log=6,
    ),
    Metric(
        "rollouts/stop_frac/*", "fraction", 0, 1,
        "Share of rollouts that ended for one reason.",
        "Errors and timeouts stay rare.", what_to_log=6,
    ),
    Metric(
        "rollouts/broken_family/*", "fraction", 0, 1,
        "Share of one family's rollouts that ended with an error or timeout.",
        "Below 0.05.", what_to_log=6,
    ),
    Metric(
        "rollouts/broken_effect/*", "ratio", 1, INF,
        "Design effect of that share: variance with rollouts clustered in groups over binomial.",
        "1 to 3.",
    ),
    Metric(
        "rollouts/truncated_reward_mean", "reward", -INF, INF,
        "Mean reward of cut rollouts.",
        "Far below that of finished ones.", what_to_log=6,
    ),
    Metric(
        "rollouts/stopped_reward_mean", "reward", -INF, INF,
        "Mean reward of rollouts that were not cut.",
        "Above that of cut ones.", what_to_log=6,
    ),
    Metric(
        "rollouts/right_stopped_frac", "fraction", 0, 1,
        "Share of judged rollouts that are right and stopped by themselves.",
        "Close to the success rate.", what_to_log=6,
    ),
    Metric(
        "rollouts/right_unstopped_share", "fraction", 0, 1,
        "Share of the right rollouts that never stopped by themselves.",
        "Near 0.", what_to_log=6,
    ),
    # tiers and components
    Metric(
        "rollouts/success_tier/*", "fraction", 0, 1,
        "Success rate on one difficulty tier.",
        "Rises, the easiest tier first.", what_to_log=3,
    ),
    Metric(
        "rollouts/reward_tier/*", "reward", -INF, INF,
        "Mean reward on one difficulty tier.",
        "Rises, the easiest tier first.", what_to_log=1,
    ),
    Metric(
        "rollouts/zero_variance_tier/*", "fraction", 0, 1,
        "Share of tied groups of one difficulty tier.",
        "Falls on hard tiers and rises on easy ones as the task is learnt.", what_to_log=2,
    ),
    Metric(
        "rollouts/tier_share/*", "fraction", 0, 1,
        "Share of the step's rollouts that belong to one tier.",
        "As planned.",
    ),
    Metric(
        "rollouts/reward_part/*", "reward", -INF, INF,
        "Mean of one reward component.",
        "Moves together with correctness.", what_to_log=1,
    ),
    Metric(
        "rollouts/reward_part_std/*", "reward", 0, INF,
        "Spread of one reward component.",
        "Above 0.", what_to_log=1,
    ),
    Metric(
        "rollouts/part_wrong_mean/*", "reward", -INF, INF,
        "Mean of one reward component among wrong rollouts.",
        "Does not rise.", what_to_log=1,
    ),
    # verifier
    Metric(
        "rollouts/parse_failure_frac", "fraction", 0, 1,
        "Share of verified rollouts whose answer could not be read.",
        "Low and falling.", what_to_log=4,
    ),
    Metric(
        "rollouts/verifier_error_frac", "fraction", 0, 1,
        "Share of verified rollouts on which the verifier failed or timed out.",
        "Near 0.", what_to_log=4,
    ),
    Metric(
        "rollouts/error_scored_frac", "fraction", 0, 1,
        "Share of verified rollouts on which the verifier failed and that have a reward all the same.",
        "0.", what_to_log=4,
    ),
    Metric(
        "rollouts/error_reward_mean", "reward", -INF, INF,
        "Mean reward that verifier failures earned.",
        "Not there: failures have no reward.", what_to_log=4,
    ),
    Metric(
        "rollouts/verified_reward_mean", "reward", -INF, INF,
        "Mean reward where the verifier answered.",
        "The reward of the task.", what_to_log=1,
    ),
    Metric(
        "rollouts/verifier_seconds_mean", "s", 0, INF,
        "Mean time the verifier took.",
        "Steady.",
    ),
    Metric(
        "rollouts/verifier_seconds_max", "s", 0, INF,
        "Longest time the verifier took.",
        "Below its time limit.",
    ),
    Metric(
        "rollouts/raw_failure_frac", "fraction", 0, 1,
        "Share of sampled rollouts whose verifier output reads as a failure and that have a reward.",
        "0.", what_to_log=4,
    ),
    Metric(
        "rollouts/raw_failure_reward_mean", "reward", -INF, INF,
        "Mean reward of those.",
        "Not there.", what_to_log=4,
    ),
    Metric(
        "rollouts/raw_other_reward_mean", "reward", -INF, INF,
        "Mean reward of the other sampled rollouts.",
        "The reward of the task.", what_to_log=1,
    ),
    Metric(
        "rollouts/raw_opposed_frac", "fraction", 0, 1,
        "Share of plain verifier outputs (right, wrong) that say the reverse of the reward.",
        "0.", what_to_log=4,
    ),
    Metric(
        "rollouts/gold_given/*", "rollouts", 0, INF,
        "Rollouts of one family whose parsed answer is the gold answer.",
        "Every one earns the full reward.", what_to_log=1,
    ),
    Metric(
        "rollouts/gold_missed/*", "rollouts", 0, INF,
        "Those of them that earned nothing.",
        "0.", what_to_log=1,
    ),
    Metric(
        "rollouts/right_n", "rollouts", 0, INF,
        "Sampled rollouts that were scored right, or end with the gold answer, parsed to nothing and earned nothing.",
        "Rises as the task is learnt.", what_to_log=1,
    ),
    Metric(
        "rollouts/right_unread_n", "rollouts", 0, INF,
        "Those of them that were parsed to nothing and earned nothing.",
        "0: every right answer is read.", what_to_log=1,
    ),
    Metric(
        "rollouts/other_answer_n", "rollouts", 0, INF,
        "Rollouts whose parsed answer is a number other than the gold one, or empty where that is a number.",
        "Falls as the task is learnt.", what_to_log=1,
    ),
    Metric(
        "rollouts/other_answer_paid", "rollouts", 0, INF,
        "Those of them that were scored right.",
        "0.", what_to_log=1,
    ),
    # reward against length and order
    Metric(
        "rollouts/length_corr_equal", "correlation", -1, 1,
        "Reward against length within groups among rollouts equally correct.",
        "Near 0: equal answers earn the same.",
    ),
    Metric(
        "rollouts/length_slope_equal", "reward/1,000 tokens", -INF, INF,
        "Reward per 1,000 tokens within groups among rollouts equally correct.",
        "Near 0.",
    ),
    Metric(
        "rollouts/length_corr_group", "correlation", -1, 1,
        "Reward against length within groups, correctness not held equal.",
        "Any: right answers may be longer.",
    ),
    Metric(
        "rollouts/index_reward_corr", "correlation", -1, 1,
        "Reward against the number of the rollout within its group.",
        "0 within its noise: rollouts of a prompt are exchangeable.",
    ),
    Metric(
        "rollouts/index_length_corr", "correlation", -1, 1,
        "Length against the number of the rollout within its group.",
        "0 within its noise, unless the dump is in order of finishing.",
    ),
    Metric(
        "rollouts/same_streak", "rollouts", 0, INF,
        "Longest stretch of neighbouring groups that all earn one reward.",
        "As long as chance makes it.",
    ),
    Metric(
        "rollouts/same_streak_log10p", "log10 probability", -INF, 0,
        "Chance of a stretch so long if the groups stood in random order.",
        "Above -4.",
    ),
    Metric(
        "rollouts/same_streak_value", "reward", -INF, INF,
        "The reward of that stretch.",
        "Any.",
    ),
    # advantages
    Metric(
        "rollouts/advantage_match/*", "fraction", 0, 1,
        "Share of groups with reward differences whose logged advantages are what the name says.",
        "One usual normalisation near 1.", what_to_log=2,
    ),
    Metric(
        "rollouts/advantage_groups", "groups", 0, INF,
        "Groups with reward differences that could be compared.",
        "Above 0.", what_to_log=2,
    ),
    Metric(
        "rollouts/advantage_mean", "advantage", -INF, INF,
        "Mean advantage of the rollouts.",
        "0 where groups are centred.", what_to_log=2,
    ),
    Metric(
        "rollouts/advantage_std", "advantage", 0, INF,
        "Spread of the advantages of the rollouts.",
        "Above 0.", what_to_log=2,
    ),
    Metric(
        "rollouts/advantage_min", "advantage", -INF, INF,
        "Smallest advantage.",
        "Below 0.", what_to_log=2,
    ),
    Metric(
        "rollouts/advantage_max", "advantage", -INF, INF,
        "Largest advantage.",
        "Above 0.", what_to_log=2,
    ),
    Metric(
        "rollouts/discarded_frac", "fraction", 0, 1,
        "Share of groups with reward differences that got no advantage.",
        "0 without a filter.",
    ),
    Metric(
        "rollouts/discarded_length_ratio", "ratio", 0, INF,
        "Mean length of those groups over that of the trained ones.",
        "Near 1.",
    ),
    # versions and settings
    Metric(
        "rollouts/policy_version_min", "versions", -INF, INF,
        "Oldest policy version among the rollouts.",
        "Advances.", what_to_log=10,
    ),
    Metric(
        "rollouts/policy_version_max", "versions", -INF, INF,
        "Newest policy version among the rollouts.",
        "Advances.", what_to_log=10,
    ),
    Metric(
        "rollouts/version_lag_mean", "versions", -INF, INF,
        "Mean versions between sampling and training.",
        "Small and steady.", what_to_log=10,
    ),
    Metric(
        "rollouts/version_lag_max", "versions", -INF, INF,
        "Largest of them.",
        "Within the tolerance.", what_to_log=10,
    ),
    Metric(
        "rollouts/env_versions", "versions", 0, INF,
        "Different environment versions in the step.",
        "1.",
    ),
    Metric(
        "rollouts/env_version_code", "1", 0, INF,
        "A number that stands for the environment versions of the step.",
        "The same all run long.",
    ),
    Metric(
        "rollouts/reward_versions", "versions", 0, INF,
        "Different reward versions in the step.",
        "1.",
    ),
    Metric(
        "rollouts/reward_version_code", "1", 0, INF,
        "A number that stands for the reward versions of the step.",
        "The same all run long.",
    ),
    Metric(
        "rollouts/sampler_versions", "versions", 0, INF,
        "Different sampler configurations in the step.",
        "1.",
    ),
    Metric(
        "rollouts/sampler_version_code", "1", 0, INF,
        "A number that stands for the sampler configurations of the step.",
        "The same all run long.",
    ),
    Metric(
        "rollouts/prompts_n", "prompts", 0, INF,
        "Different prompts of the step.",
        "The configured number, or a little fewer where the set is small.",
    ),
    Metric(
        "rollouts/prompt_checksum", "1", 0, INF,
        "A number that stands for the set of prompts of the step.",
        "Another one at every step.",
    ),
    Metric(
        "rollouts/temperature_min", "1", 0, INF,
        "Smallest sampling temperature that a rollout carries.",
        "The configured one.",
    ),
    Metric(
        "rollouts/temperature_max", "1", 0, INF,
        "Largest sampling temperature that a rollout carries.",
        "The configured one.",
    ),
    Metric(
        "rollouts/top_p_min", "fraction", 0, 1,
        "Smallest top-p that a rollout carries.",
        "The configured one.",
    ),
    Metric(
        "rollouts/top_p_max", "fraction", 0, 1,
        "Largest top-p that a rollout carries.",
        "The configured one.",
    ),
    Metric(
        "rollouts/token_budget_min", "tokens", 0, INF,
        "Smallest token budget that a rollout carries.",
        "The configured one.",
    ),
    Metric(
        "rollouts/token_budget_max", "tokens", 0, INF,
        "Largest token budget that a rollout carries.",
        "The configured one.",
    ),
    # sampler and trainer
    Metric(
        "rollouts/logprob_gap_mean", "nats", 0, INF,
        "Mean absolute difference of sampler and trainer log-probabilities, over tokens.",
        "0.005 to 0.03 in a dense bf16 model, and level.", what_to_log=8,
    ),
    Metric(
        "rollouts/logprob_gap_max", "nats", 0, INF,
        "Largest such difference of a token.",
        "Heavy-tailed: no alarm by itself.", what_to_log=8,
    ),
    Metric(
        "rollouts/kl_sampler_trainer", "nats/token", 0, INF,
        "k3 estimate of their divergence.",
        "3e-4 to 2e-3 in a dense bf16 model.", what_to_log=8,
    ),
    Metric(
        "rollouts/sampler_ratio_mean", "ratio", 0, INF,
        "Mean ratio of trainer to sampler probability, over tokens.",
        "1: below it the sampler kept that share of the mass.", what_to_log=8,
    ),
    Metric(
        "rollouts/effective_sample_frac", "fraction", 0, 1,
        "Effective sample size of the token weights.",
        "Near 1.", what_to_log=8,
    ),
    Metric(
        "rollouts/surprisal_mean", "nats/token", 0, INF,
        "Mean negative log-probability of the sampled tokens under the trainer.",
        "Equal to the entropy.", what_to_log=7,
    ),
    Metric(
        "rollouts/entropy", "nats/token", 0, INF,
        "Mean entropy of the policy over the same tokens.",
        "Falls slowly, then settles.", what_to_log=7,
    ),
    Metric(
        "rollouts/gap_positive_mean", "nats", 0, INF,
        "Mean absolute difference on tokens with positive advantage.",
        "Equal to that on the others.", what_to_log=8,
    ),
    Metric(
        "rollouts/gap_negative_mean", "nats", 0, INF,
        "Mean absolute difference on tokens with negative advantage.",
        "Equal to that on the others.", what_to_log=8,
    ),
    Metric(
        "rollouts/sequence_ess", "fraction", 0, 1,
        "Effective sample size of weights made of whole-sequence sums.",
        "Above 0.3 where such weights are used.", what_to_log=8,
    ),
    Metric(
        "rollouts/sequence_log_sd", "nats", 0, INF,
        "Spread of the summed log-ratio of a sequence.",
        "Below 0.5 where such weights are used.", what_to_log=8,
    ),
    Metric(
        "rollouts/sequence_length_corr", "correlation", -1, 1,
        "Summed log-ratio against length.",
        "0 within its noise.", what_to_log=8,
    ),
    # texts, on the sample
    Metric(
        "rollouts/unique_frac", "fraction", 0, 1,
        "Share of different completions within groups.",
        "Well above 1/G.",
    ),
    Metric(
        "rollouts/copied_law_frac", "fraction", 0, 1,
        "Share of groups that would be copies of one text by the policy's own probabilities.",
        "Small; it rises as the policy becomes certain.",
    ),
    Metric(
        "rollouts/copied_group_frac", "fraction", 0, 1,
        "Share of groups whose completions are all the same text.",
        "0 but for one-word answers.",
    ),
    Metric(
        "rollouts/tied_copied_share", "fraction", 0, 1,
        "Share of the tied groups that are copies of one text.",
        "Near 0.",
    ),
    Metric(
        "rollouts/tied_sample_frac", "fraction", 0, 1,
        "Share of tied groups in the text sample.",
        "Near the finite-group law, or above it for prompts of unequal difficulty.", what_to_log=2,
    ),
    Metric(
        "rollouts/tied_law_frac", "fraction", 0, 1,
        "Share of groups that chance alone ties at the step's pass rate.",
        "A lower bound of the tied share.", what_to_log=2,
    ),
    Metric(
        "rollouts/near_identical_frac", "fraction", 0, 1,
        "Share of groups whose completions share more than 0.8 of their word triples.",
        "Near 0.",
    ),
    Metric(
        "rollouts/one_strategy_frac", "fraction", 0, 1,
        "Share of groups whose completions go about it the same way, numbers left out.",
        "Not growing.",
    ),
    Metric(
        "rollouts/similarity_mean", "fraction", 0, 1,
        "Mean Jaccard similarity of the completions of a group.",
        "Not growing towards 1.",
    ),
    Metric(
        "rollouts/repetition_frac", "fraction", 0, 1,
        "Share of completions that loop.",
        "Below 0.1.",
    ),
    Metric(
        "rollouts/distinct_3_mean", "fraction", 0, 1,
        "Share of distinct word triples of a completion.",
        "About 0.99.",
    ),
    Metric(
        "rollouts/compression_mean", "ratio", 0, INF,
        "Compressed over plain size of a completion.",
        "0.42 and more.",
    ),
    Metric(
        "rollouts/phrase_code", "1", 0, INF,
        "A number that stands for the phrase with the surest reward gap.",
        "Changes from step to step.",
    ),
    Metric(
        "rollouts/phrase_share", "fraction", 0, 1,
        "Share of completions that hold that phrase.",
        "Low.",
    ),
    Metric(
        "rollouts/phrase_gap", "reward", -INF, INF,
        "Mean reward with the phrase minus without it.",
        "Small.",
    ),
    Metric(
        "rollouts/phrase_z", "standard errors", -INF, INF,
        "That gap in standard errors; the largest of many phrases.",
        "Below 5.",
    ),
    Metric(
        "rollouts/phrase_right_gap", "fraction", -1, 1,
        "Share of correct completions with the phrase minus without it.",
        "As large as the gap in reward.",
    ),
)  # fmt: skip
