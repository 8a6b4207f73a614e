"""A healthy run's rollouts: finite groups of prompts of unequal difficulty, families, tiers, lengths, versions, texts.

What makes rollouts of a group alike, and steps unlike each other, is there on purpose: difficulty per prompt, a drift
of the tasks that are drawn (AR(1)), learning, errors that hit whole groups, lengths that go with difficulty (so that
pooled over prompts longer answers score less) and filters that drop tied groups.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from rlvitals.schema import Float64, Int64, RunConfig

FAMILIES = ("math", "code", "web")
_HEADS = ("re", "con", "in", "pro", "de", "sub", "ex", "tra", "per", "mo")
_TAILS = ("late", "sider", "volve", "duce", "note", "mit", "press", "verse", "form", "ment", "tain", "fer")
VOCABULARY = [a + b for a in _HEADS for b in _TAILS]


@dataclass
class Rollouts:
    """Every rollout of a run, in the order of the dump; a fault changes the rows from step `onset` on.

    Attributes:
        steps, groups, size: steps of the run, prompts per step, rollouts per prompt.
        columns: canonical name -> array[rows].
        truth: float64[rows], 1 where the answer is right, whatever the verifier says.
    """

    seed: int
    rng: np.random.Generator
    steps: int
    groups: int
    size: int
    onset: int
    config: dict[str, object]
    columns: dict[str, np.ndarray] = field(default_factory=dict)
    truth: Float64 = field(default_factory=lambda: np.zeros(0))

    @property
    def rows(self) -> int:
        return self.steps * self.groups * self.size

    @property
    def late(self) -> np.ndarray:
        """bool[rows]: from the onset on."""
        return np.asarray(self.columns["step"] >= self.onset)

    def run_config(self) -> RunConfig:
        return RunConfig(**self.config)  # type: ignore[arg-type]


def drift(rng: np.random.Generator, n: int, phi: float) -> Float64:
    """Return float64[n] of AR(1) noise with unit variance."""
    out = np.empty(n)
    out[0] = rng.normal()
    for i in range(1, n):
        out[i] = phi * out[i - 1] + np.sqrt(1 - phi**2) * rng.normal()
    return out


def healthy(seed: int, *, steps: int = 120, texts: bool = False) -> Rollouts:
    """Return the rollouts of a healthy run; its layout follows from the seed."""
    rng = np.random.default_rng(seed)
    groups, size = int(rng.choice([8, 16, 32, 64])), int(rng.choice([4, 8, 16]))
    groups = 8 if texts else groups
    size = 8 if texts else size
    scaling = str(rng.choice(["group", "batch", "none"]))
    r = Rollouts(seed, rng, steps, groups, size, int(steps * rng.uniform(0.4, 0.6)), {
        "group_size": size, "prompts_per_step": groups, "reward_min": 0.0, "advantage_scaling": scaling,
        "temperature": 1.0, "top_p": 1.0, "token_budget": 1024,
    })  # fmt: skip
    _place(r)
    _outcome(r)
    _length(r)
    _ending(r)
    _reward(r)
    _advantage(r, scaling)
    _versions(r)
    _mismatch(r)
    if texts:
        r.columns["completion"] = write(r)
        r.columns["raw_output"] = np.array(
            [None if np.isnan(x) else str(bool(x)) for x in r.columns["correct"]], object
        )
    return r


def _place(r: Rollouts) -> None:
    """Steps, prompts, families and tiers: families mixed, or one after the other as in some dumps."""
    prompt = np.arange(r.steps * r.groups)
    family = r.rng.choice(len(FAMILIES), prompt.size, p=[0.6, 0.25, 0.15])
    if r.rng.random() < 0.3:
        family = np.sort(family.reshape(r.steps, r.groups), axis=1).ravel()
    share = 0.5 + 0.1 * drift(r.rng, r.steps, 0.5)  # of the easier tier
    tier = (r.rng.random(prompt.size) > np.repeat(share, r.groups)).astype(int)
    names = np.array([f"p{i}" for i in prompt], dtype=object)
    each = np.repeat(prompt, r.size)
    r.columns |= {
        "step": np.repeat(np.arange(1, r.steps + 1), r.groups * r.size),
        "group": names[each],
        "prompt_id": names[each],
        "index": np.tile(np.arange(r.size), prompt.size).astype(np.int64),
        "family": np.array(FAMILIES, dtype=object)[family][each],
        "tier": np.array(["easy", "hard"], dtype=object)[tier][each],
    }


def _outcome(r: Rollouts) -> None:
    """Right or wrong: learning from a start to an end, difficulty per tier and prompt, drifting over steps."""
    odds0, odds1 = r.rng.uniform(-2, 0.5), r.rng.uniform(0.3, 2.0)
    course = odds0 + odds1 * (1 - np.exp(-3 * np.arange(r.steps) / r.steps)) + 0.15 * drift(r.rng, r.steps, 0.6)
    prompt = np.repeat(course, r.groups) + r.rng.normal(0, 1.3, r.steps * r.groups)
    odds = np.repeat(prompt, r.size) - 0.9 * (r.columns["tier"] == "hard") + 0.4 * (r.columns["family"] == "web")
    r.columns["difficulty"] = -np.repeat(prompt, r.size)
    r.truth = (r.rng.random(r.rows) < 1 / (1 + np.exp(-odds))).astype(float)
    r.columns["correct"] = r.truth.copy()


def _length(r: Rollouts) -> None:
    """Hard prompts need long answers; right ones are somewhat shorter; both grow a little over the run."""
    mean = 5.0 + 0.25 * r.columns.pop("difficulty") + 0.2 * r.columns["step"] / r.steps - 0.1 * r.truth
    length = np.exp(mean + r.rng.normal(0, 0.35, r.rows)).astype(np.int64)
    r.columns["tokens"] = np.clip(length, 4, 1024)
    r.columns["token_budget"] = np.full(r.rows, 1024, dtype=np.int64)
    r.columns["temperature"], r.columns["top_p"] = np.ones(r.rows), np.ones(r.rows)


def _ending(r: Rollouts) -> None:
    """Cut at the budget, else by itself; errors are rare and hit most of a group at once."""
    stop = np.where(r.columns["tokens"] >= 1024, "budget", "eos").astype(object)
    broken = np.repeat(r.rng.random(r.steps * r.groups) < 0.01, r.size) & (r.rng.random(r.rows) < 0.7)
    stop[broken] = "error"
    r.columns["stop_reason"] = stop
    r.columns["correct"][(stop == "budget") | broken] = 0.0


def _reward(r: Rollouts) -> None:
    """The answer's reward, with a format part or a graded part in some runs; the verifier fails on one in 200."""
    right = r.columns["correct"]
    kind = str(r.rng.choice(["plain", "format", "graded"]))
    learned = 1 - 0.5 * np.exp(-8 * r.columns["step"] / r.steps)
    format_ok = (r.rng.random(r.rows) < np.maximum(learned, right)).astype(float)
    read = (format_ok == 1) | (right == 1)
    status = np.where(right == 1, "right", np.where(read, "wrong", "no parse")).astype(object)
    failed = r.rng.random(r.rows) < 0.005
    status[failed] = "timeout"
    reward = right.copy()
    top = 1.0
    if kind == "format":
        reward, top = reward + 0.2 * format_ok, 1.2
        r.columns["reward_part/format"], r.columns["reward_part/correct"] = format_ok, right.copy()
    if kind == "graded":
        reward, top = reward + 0.1 * r.rng.random(r.rows), 1.1
    reward[failed] = np.nan
    right[failed] = np.nan
    r.columns |= {"reward": reward, "verifier_status": status, "env_version": np.full(r.rows, "env-1", dtype=object),
                  "reward_version": np.full(r.rows, "r-1", dtype=object)}  # fmt: skip
    r.config["reward_max"] = top


def _advantage(r: Rollouts, scaling: str) -> None:
    r.columns["advantage"] = advantages(r.columns["reward"], r.steps, r.groups, r.size, scaling)
    if r.rng.random() < 0.25:  # a filter drops tied groups before the update
        cube = r.columns["reward"].reshape(-1, r.size)
        tied = np.nanmax(np.nan_to_num(cube, nan=-1), 1) == np.nanmin(np.where(np.isnan(cube), np.inf, cube), 1)
        r.columns["advantage"][np.repeat(tied, r.size)] = np.nan
        r.config["drops_zero_variance"] = True


def advantages(reward: Float64, steps: int, groups: int, size: int, scaling: str) -> Float64:
    """Return the advantages of rewards in the order step, group, index, printed with four decimals."""
    import warnings

    cube = reward.reshape(steps, groups, size)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # groups that the verifier left without any reward
        centred = cube - np.nanmean(cube, 2, keepdims=True)
        if scaling == "group":
            centred = centred / (np.nanstd(cube, 2, keepdims=True, ddof=1) + 1e-4)
        elif scaling == "batch":
            centred = centred / np.nanstd(cube, (1, 2), keepdims=True)
    return np.round(np.where(np.isnan(cube), np.nan, centred), 4).ravel()


def _versions(r: Rollouts) -> None:
    step = r.columns["step"]
    lag = np.repeat(r.rng.integers(0, 2, r.steps * r.groups), r.size)
    r.columns["trainer_version"] = step.astype(np.int64)
    r.columns["policy_version"] = np.maximum(step - lag, 0).astype(np.int64)


def _mismatch(r: Rollouts) -> None:
    """Numerical noise per token, somewhat larger on wrong answers; the sums over a sequence follow from it."""
    noise = r.rng.uniform(0.004, 0.012)
    tokens = r.columns["tokens"]
    scale = noise * np.exp(r.rng.normal(0, 0.2, r.rows)) * np.where(r.truth == 1, 1.0, 1.15)
    r.columns["mismatch_abs_mean"] = 0.8 * scale
    r.columns["mismatch_k3_mean"] = 0.5 * scale**2
    summed = r.rng.normal(-0.5 * scale**2 * tokens, scale * np.sqrt(tokens))
    r.columns["sampler_logp_sum"] = -0.4 * tokens
    r.columns["trainer_logp_sum"] = r.columns["sampler_logp_sum"] + summed


def write(r: Rollouts) -> np.ndarray:
    """Return a text per rollout: shared opening and closing words, the rest from the prompt's own small vocabulary."""
    out = np.empty(r.rows, dtype=object)
    words = np.array(VOCABULARY)
    for i in range(r.rows):
        if i % r.size == 0:
            own = r.rng.choice(words, 40)
        body = " ".join(own[r.rng.integers(0, 40, 50)])
        end = "so the final answer is" if r.truth[i] == 1 or r.rng.random() < 0.8 else "that is all"
        out[i] = f"Let us think step by step. {body} . Therefore {end} {int(r.rng.integers(0, 1000))}"
    return out


def per_step(values: Int64 | Float64, r: Rollouts) -> np.ndarray:
    """Return a value per step repeated for each of its rollouts."""
    return np.repeat(values, r.groups * r.size)
