"""FALSE_ALARMS: forty readings of a training log that look like a fault and usually are none, and when they are one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FalseAlarm:
    """One naive reading and what decides it.

    Attributes:
        metrics: canonical metrics that it is about; empty where it is about no logged series.
        fields: what has to be known before anybody can decide; without them the answer is "cannot decide".
        checks: ids of the checks that tell the two apart; empty where a log cannot.
        source: public reports and papers behind the row.
    """

    number: int
    metrics: tuple[str, ...]
    reading: str
    normal: str
    fault: str
    fields: tuple[str, ...]
    checks: tuple[str, ...]
    source: str


FALSE_ALARMS: tuple[FalseAlarm, ...] = (
    FalseAlarm(
        1,
        ("loss", "policy_loss"),
        "The loss is 0 at the start, or all the time.",
        "There is one update per rollout batch and the loss averages per sequence: advantages cancel. Four printed "
        "decimals and a tiny KL term hide the rest.",
        "The loss averages over tokens, groups are mixed, lengths differ, and it is still exactly 0; or the gradient "
        "norm is 0 as well.",
        ("loss_type", "TRL version", "grad_norm", "length_min", "length_max", "zero_variance_frac", "kl_coef"),
        ("U007", "U001"),
        "trl#3452, trl#2703, trl#2802",
    ),
    FalseAlarm(
        2,
        ("loss", "policy_loss"),
        "The loss is negative, or changes its sign.",
        "Always possible: it is proportional to minus advantage times length.",
        "Never by itself.",
        (),
        (),
        "ms-swift FAQ",
    ),
    FalseAlarm(
        3,
        ("loss",),
        "The loss rises.",
        "What is left of the loss is the KL term, and it grows while the reward is saturated.",
        "The reward falls at the same time.",
        ("kl_coef", "kl_ref", "reward_mean"),
        ("R014",),
        "open-r1#239",
    ),
    FalseAlarm(
        4,
        ("kl_ref",),
        "The KL to the reference is 0, or missing.",
        "The KL coefficient is 0 (TRL's default from 0.19 on logs none), it is the first step, or the warm-up has "
        "not raised the learning rate yet.",
        "Coefficient and learning rate are above 0, several updates were made, and it is exactly 0: no update "
        "reaches the weights that are measured.",
        ("kl_coef", "learning_rate", "steps so far", "LoRA or full"),
        ("U008", "D006"),
        "ms-swift#5571, ms-swift#7229",
    ),
    FalseAlarm(
        5,
        ("kl_ref",),
        "A KL of 5e-4 is too small, so nothing is learnt.",
        "Usual in the first tens of steps at a learning rate of 1e-6.",
        "Never by its size alone.",
        ("learning_rate", "steps so far"),
        ("K002",),
        "trl#3452",
    ),
    FalseAlarm(
        6,
        ("kl_ref",),
        "A KL between 0.1 and 10 has blown up.",
        "It is a sum over the sequence and no mean per token, another estimator, or the end of a long run whose "
        "reference was never reset.",
        "It is above 0 before any update, or it climbs steeply while the reward falls.",
        ("unit", "estimator", "reference_reset_steps", "kl_coef"),
        ("K001", "K003", "K004"),
        "unsloth PR#4934, DeepSeek-R1 (reference reset every 400 steps)",
    ),
    FalseAlarm(
        7,
        ("kl_ref", "kl_old_new", "kl_sampler_trainer"),
        "The KL is negative.",
        "It is the k1 estimate on samples, of the size 1e-4 to 1e-3.",
        "It is clearly negative (about -1.5) and grows: sampler and trainer use different settings. A negative k3 is "
        "a bug by definition.",
        ("estimator", "size"),
        ("K004", "O001"),
        "LlamaFactory#1833, trl#1161, verl#2088",
    ),
    FalseAlarm(
        8,
        ("kl_old_new",),
        "A high `ppo_kl` means that the policy is far from the reference.",
        "It compares the policy before and after the update; it knows nothing of the reference.",
        "Read the KL to the reference instead; log it if it is missing.",
        ("which two policies",),
        ("K001",),
        "verl's metric definitions",
    ),
    FalseAlarm(
        9,
        ("clip_frac", "clip_low_frac", "clip_high_frac"),
        "The clip fraction is always 0.",
        "There is one optimizer step per rollout batch: old and new policy are the same, nothing can be clipped.",
        "There are several minibatches or epochs, or rollouts lag behind, and it is still 0: clipping is off.",
        ("updates_per_rollout", "version_lag_mean"),
        ("U004",),
        "trl#3120, trl#3757, SkyRL#1315",
    ),
    FalseAlarm(
        10,
        ("clip_frac", "clip_low_frac", "clip_high_frac"),
        "The clip fraction is high.",
        "The ratio is per sequence with bounds of 3e-4 (GSPO), which clips about a hundred times more; or the clip "
        "range is tiny.",
        "It rises under unchanged settings while the reward falls.",
        ("importance_level", "clip_low", "clip_high", "own history"),
        ("U003",),
        "GSPO paper, UniRL PR#156",
    ),
    FalseAlarm(
        11,
        ("clip_frac", "kl_old_new", "ratio_mean"),
        "Clip fraction or old-to-new KL is slightly above 0 although training is on policy.",
        "The two log-probability passes use different micro-batches: about 1e-3 of numerics.",
        "It is large, or grows within one batch.",
        ("both micro-batch sizes",),
        ("U005",),
        "verl#6280, verl#2305",
    ),
    FalseAlarm(
        12,
        ("advantage_mean",),
        "The mean advantage is 0, so there is no signal.",
        "Group-relative advantages sum to 0 by construction.",
        "Look at their spread and at the share of tied groups instead.",
        ("advantage_std", "zero_variance_frac"),
        ("S001",),
        "trl#2884",
    ),
    FalseAlarm(
        13,
        ("advantage_mean",),
        "The mean advantage is not 0, so the trainer has a bug.",
        "verl logs a mean over tokens, in which long answers weigh more; leave-one-out baselines and uneven groups "
        "shift it too.",
        "The mean over sequences within one group is not 0.",
        ("trainer", "token or sequence mean"),
        ("S003",),
        "verl's metric definitions, EasyR1#585",
    ),
    FalseAlarm(
        14,
        ("advantage_std",),
        "The advantage spread is below 1.",
        "A share z of tied groups leaves about sqrt(1 - z); without scaling by the standard deviation (Dr. GRPO) it "
        "has the reward's own scale.",
        "It is exactly 0.",
        ("advantage_scaling", "zero_variance_frac"),
        ("S001",),
        "arithmetic, trl#3857",
    ),
    FalseAlarm(
        15,
        ("reward_std",),
        "The reward spread is 0 in one step.",
        "The step holds one prompt, and it was easy or hard.",
        "The share of tied groups stays high over a window, or all completions are the same text.",
        ("prompts_per_step", "a window of steps", "unique_frac"),
        ("S001", "O002"),
        "unsloth#2291, verl PR#2646",
    ),
    FalseAlarm(
        16,
        ("zero_variance_frac",),
        "More than half of the groups have no variance.",
        "30% to 99% is reported as usual on MATH and DAPO-17k. A binary reward and small groups tie often: "
        "p^G + (1-p)^G. Dynamic sampling hides it.",
        "It climbs towards 1, or every group is all wrong from the first step on.",
        ("group_size", "success_frac", "drops_zero_variance", "all_wrong_frac", "all_right_frac"),
        ("S001", "T001"),
        "RL-ZVP 2509.21880, CoursIA#10603",
    ),
    FalseAlarm(
        17,
        ("zero_variance_frac",),
        "Few groups have no variance, so the signal is healthy.",
        "Usually true; this row is the reverse, a false all-clear.",
        "A noisy verifier breaks ties and fakes a signal: the same answer scored twice gets two rewards.",
        ("agreement of a second scoring",),
        (),
        "post-training-experiments#15",
    ),
    FalseAlarm(
        18,
        ("reward_std", "reward_part_std/*"),
        "The spread per reward function and the total spread do not fit together.",
        "One is taken over the batch, the other within groups.",
        "Never by itself.",
        ("trainer version",),
        (),
        "trl#3857, ms-swift#4570, ms-swift#3877",
    ),
    FalseAlarm(
        19,
        ("entropy",),
        "The entropy is below 0.5.",
        "Instruction-tuned and coder models start at 0.2 to 0.4; Skywork-OR1 holds 0.2 on purpose.",
        "It falls fast from its own start, and diversity or held-out score falls with it.",
        ("own start level", "trend", "clip_high", "held-out score"),
        ("E001",),
        "Skywork-OR1 2505.22312, TinyLoRA#4",
    ),
    FalseAlarm(
        20,
        ("entropy",),
        "The entropy rises.",
        "A wider upper clip bound is there to do that, as long as it settles below 1.",
        "It passes 1 and goes on while the score falls, or an entropy bonus nobody remembers drives it.",
        ("clip_high", "entropy_coef", "trend"),
        ("E002", "E004"),
        "rllm#116, verl PR#781, verl#651",
    ),
    FalseAlarm(
        21,
        ("entropy",),
        "The entropy differs from that of a published run.",
        "Another framework version, dynamic batches, padding counted, or several turns (0.6 against 1.0 for the "
        "same policy).",
        "Never by itself.",
        ("trainer version", "dynamic batch size"),
        (),
        "JustRL#5, trl#6809, ms-swift PR#7044",
    ),
    FalseAlarm(
        22,
        ("length_mean",),
        "Completions get shorter at first.",
        "A base model drops text that was never part of the answer; the held-out score rises meanwhile.",
        "Accuracy falls too, the budget cuts long answers, or a per-sequence loss favours short ones.",
        ("held-out score", "truncated_frac", "loss_type"),
        ("L003",),
        "simpleRL#4, simpleRL#65, EasyR1#40",
    ),
    FalseAlarm(
        23,
        ("truncated_frac",),
        "Nearly every completion is counted as truncated.",
        "The model ends with another stop token than the tokenizer's, and the mean length is far below the budget.",
        "Mean, maximum and budget are the same number, and the mean length of finished completions is 0.",
        ("length_mean", "length_max", "token_budget", "all stop tokens", "finish reason"),
        ("L001", "L004", "L005"),
        "trl PR#7039, trl#5697",
    ),
    FalseAlarm(
        24,
        ("grad_norm",),
        "The gradient norm is 1200 although it is clipped at 0.5.",
        "It is logged before clipping.",
        "Never by itself.",
        ("max_grad_norm",),
        ("U002",),
        "ms-swift#3713",
    ),
    FalseAlarm(
        25,
        ("grad_norm",),
        "The gradient norm is far from that of another run.",
        "ZeRO stage (1656 against 0.025), engine, loss type and length change its scale.",
        "It jumps against this run's own history.",
        ("ZeRO stage", "engine", "loss_type"),
        ("U002",),
        "ms-swift#6815, AReaL PR#1273",
    ),
    FalseAlarm(
        26,
        ("grad_norm",),
        "The gradient norm is above a fixed limit.",
        "The task's usual norm is 397: a limit of 100 skipped 393 of 394 steps.",
        "Judge it against the run's own median only.",
        ("own median",),
        ("U002",),
        "senpai PR#3294",
    ),
    FalseAlarm(
        27,
        ("kl_ref", "clip_frac"),
        "KL and clip fraction are NaN.",
        "The overlong filter masked every sample of one GPU: 0/0 in the metric, not in the loss.",
        "Loss, gradient norm or entropy is not finite either.",
        ("masks_truncated", "loss", "grad_norm"),
        ("D001", "U009"),
        "ms-swift#4465",
    ),
    FalseAlarm(
        28,
        ("learning_rate",),
        "The learning rate is 0.000.",
        "verl's console prints three decimals; 1e-6 looks like 0 there.",
        "The schedule has ended, or a later step of it sets 0.",
        ("learning_rate of the config",),
        ("D007",),
        "verl#2088, verl#721",
    ),
    FalseAlarm(
        29,
        ("reward_mean",),
        "The reward dropped after an upgrade.",
        "Its definition changed (truncated answers now score 0: 0.53 to 0.36) while the held-out score is flat.",
        "The very first step on the same data scores lower than before.",
        ("versions", "reward mode", "reward of the first step"),
        ("D005",),
        "SkyRL PR#2055, verl#4286",
    ),
    FalseAlarm(
        30,
        ("logprob_gap_mean", "prob_gap_mean"),
        "Sampler and trainer log-probabilities differ at a temperature other than 1.",
        "The metric compares raw with scaled log-probabilities, or counts masked tokens.",
        "The gap is on trained tokens and between log-probabilities scaled the same way.",
        ("log-probability mode of the sampler", "temperature", "mask"),
        ("Y002",),
        "verl#4162, vime#64, miles#2476",
    ),
    FalseAlarm(
        31,
        ("sampler_ratio_mean", "sampler_ratio_max"),
        "The importance ratio of sequences explodes.",
        "0.012 per token over 100 tokens is a factor of 3.3: it grows with length by itself.",
        "The ratio per token is off as well.",
        ("length_mean", "token or sequence level"),
        ("U006", "Y002"),
        "trl#4772",
    ),
    FalseAlarm(
        32,
        ("kl_sampler_trainer", "logprob_gap_mean"),
        "The difference between sampler and trainer is about 0, so they agree.",
        "True for an absolute difference or k3; this row is the reverse, a false all-clear.",
        "It is a signed mean, in which large differences cancel.",
        ("absolute or signed",),
        ("Y002",),
        "slime PR#596",
    ),
    FalseAlarm(
        33,
        (),
        "The inference server still shows the model path it was started with, so its weights are stale.",
        "That name never changes when weights are updated in place.",
        "The log-probability gap jumps at the first update or climbs from there on.",
        ("logprob_gap_mean",),
        ("Y001", "Y003"),
        "trl#3189",
    ),
    FalseAlarm(
        34,
        ("advantage_mean",),
        "Groups are mixed up across GPUs.",
        "Rewards are gathered before they are grouped, and the sampler repeats prompts globally.",
        "Advantages computed again by prompt id differ from the logged ones.",
        ("prompt id of every rollout",),
        ("S003",),
        "trl#2961, trl#5030",
    ),
    FalseAlarm(
        35,
        ("reward_mean",),
        "The reward oscillates and does not rise.",
        "One or two prompts per step are binomial noise; a learning rate of 1e-8 moves nothing.",
        "The slope over a window is negative, its interval included.",
        ("prompts_per_step", "interval of the slope", "learning_rate"),
        ("R010", "R014"),
        "unsloth#2291, minimind#755",
    ),
    FalseAlarm(
        36,
        ("kl_ref", "kl_loss"),
        "The KL is counted twice, or its formula is wrong.",
        "It is the k3 estimator; or the KL in the reward is switched off because it stands in the loss.",
        "Both switches are on in the config.",
        ("kl_in_reward", "kl_coef", "kl_estimator"),
        ("K004",),
        "OpenRLHF#768, trl#3104",
    ),
    FalseAlarm(
        37,
        ("reward_mean", "success_frac"),
        "The reward is at 0.98, so the task is solved.",
        "It came there over many steps, and the held-out score came along.",
        "It was there at steps 0 to 3, gold answers that cannot be parsed score 1, or an empty answer is accepted.",
        ("step", "share of gold answers that parse", "score of a wrong answer"),
        ("R007", "R001"),
        "ms-swift#3130, open-r1#159, Visual-RFT#176",
    ),
    FalseAlarm(
        38,
        ("success_frac",),
        "The held-out score is above the training score, or out of its range.",
        "Evaluation samples at a lower temperature, or its reward runs from -1 to 1.",
        "Training and held-out set share instances.",
        ("temperature of the evaluation", "overlap of the splits"),
        (),
        "verl-tool#149",
    ),
    FalseAlarm(
        39,
        (),
        "Some W&B panels are missing.",
        "A filter of the page hides them; the raw history has them.",
        "The metric is no longer produced, for example `val/*` after an update.",
        ("raw history",),
        ("D004",),
        "trl#3078, verl#926",
    ),
    FalseAlarm(
        40,
        ("ratio_mean",),
        "Rollouts are sampled with the model in training mode.",
        "All dropout rates are 0: there is no difference.",
        "Dropout is above 0, and the first minibatch's ratio is not exactly 1.",
        ("dropout",),
        ("U005",),
        "trl#3000, verl PR#4708",
    ),
)


def about(metrics: Iterable[str]) -> tuple[FalseAlarm, ...]:
    """Return the rows about any of these canonical metrics; `reward_part/x` matches `reward_part/*`."""
    names = set(metrics)
    names |= {name.partition("/")[0] + "/*" for name in names if "/" in name}
    return tuple(row for row in FALSE_ALARMS if names & set(row.metrics))


def told_apart_by(check: str) -> tuple[FalseAlarm, ...]:
    """Return the rows that a check decides."""
    return tuple(row for row in FALSE_ALARMS if check in row.checks)
