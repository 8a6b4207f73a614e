"""QUESTIONS: what each section claims, as two arms, one number and the arm that should have more of it."""

from __future__ import annotations

from dataclasses import dataclass

END = "held-out at the end"
KL = "KL k1 at the end"
ENTROPY = "entropy at the end"


@dataclass(frozen=True, slots=True)
class Question:
    """A claim of a section: arm `a` has more of a number than arm `b`; `sign` -1 where it should have less."""

    section: str
    claim: str
    a: str
    b: str
    number: str = END
    sign: int = 1


def _cause(arm: str, without: str) -> Question:
    return Question("7.5 causes", without, arm, "stops-k1")


def _change(arm: str, claim: str, base: str = "tracking") -> Question:
    return Question("7.6.3", claim, arm, base)


QUESTIONS: tuple[Question, ...] = (
    Question("7.4", "clipping the ratios makes training more stable than the same ratios without a clip",
             "clip", "no-clip"),
    Question("7.4", "clipped ratios with reuse of rollouts do better than the baseline", "clip", "tracking"),
    Question("7.5", "with a working reward the summed k1 costs accuracy", "kl-none", "kl-k1"),
    Question("7.5", "k2 in its place does better", "kl-k2", "kl-k1"),
    Question("7.5", "k3 in its place does better", "kl-k3", "kl-k1"),
    Question("7.5", "ratio-weighted k3 in its place does better", "kl-ratio-k3", "kl-k1"),
    Question("7.5 no reward", "without a reward the summed k1 destroys the policy", "stops-none", "stops-k1"),
    Question("7.5 no reward", "what it turns into is more random than before", "stops-k1", "stops-none", ENTROPY),
    Question("7.5 no reward", "it turns random where scoring ignores that sampling left out the tail",
             "stops-k1-top-p", "stops-none", ENTROPY),
    Question("7.5 no reward", "it turns random with that, one step per batch and an end token that is not trained",
             "stops-k1-as-run", "stops-none", ENTROPY),
    Question("7.5 no reward", "k2 ends nearer to the reference", "stops-k2", "stops-k1", KL, -1),
    Question("7.5 no reward", "k3 ends nearer to the reference", "stops-k3", "stops-k1", KL, -1),
    Question("7.5 no reward", "ratio-weighted k3 ends nearer to the reference", "stops-ratio-k3", "stops-k1", KL, -1),
    _cause("stops-k1-token-mean", "the sum over the answer (a mean over tokens instead)"),
    _cause("stops-k1-small", "the size of the coefficient (0.001 instead of 0.1)"),
    _cause("stops-k1-on-policy", "reuse of rollouts (one optimizer step per batch instead)"),
    _cause("stops-k1-no-end", "training of the end token (left out of the loss instead)"),
    _cause("stops-k1-top-p", "sampling from the whole vocabulary (top-p 0.9, ignored in scoring, instead)"),
    _cause("stops-ratio-k1", "the missing weight of off-policy samples (ratio times k1 instead)"),
    Question("7.6.2", "the format reward lowers accuracy", "tracking", "format"),
    Question("7.6.2", "the chapter's own, more lenient format reward lowers accuracy", "tracking", "format-lenient"),
    Question("7.6.2", "paying the format for right answers alone does better", "format-conditional", "format"),
    Question("7.6.2", "total reward is higher with the format reward", "format", "tracking", "reward at the end"),
    _change("drop-dead-groups", "leave out groups whose rewards are all equal"),
    _change("active-sampling", "replace them by other prompts"),
    _change("token-loss", "a token mean in place of sums over answers"),
    _change("no-std", "no division of advantages by the group's spread"),
    _change("clip-higher", "a wider upper clip, token ratios, reuse of rollouts"),
    _change("gspo", "sequence ratios by length, reuse of rollouts"),
    _change("cispo", "clipped weights in place of clipped ratios, reuse of rollouts"),
    _change("off-policy-mask", "leave out bad answers that the policy has moved away from", "clip"),
    _change("gdpo", "reward parts normalised apart", "format"),
    _change("top-p-keep-mask", "score within what the sampler could draw (top-p 0.9)", "top-p"),
    _change("top-p-truncated-is", "truncated weights between sampler and trainer (top-p 0.9)", "top-p"),
)  # fmt: skip
