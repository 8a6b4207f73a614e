"""PRESETS: what `--recipe NAME` chooses: a row of the loss and the settings that belong to it.

Every published recipe goes by its own name. The ch7 ones are the experiments of chapter 7, each against the same
baseline: REINFORCE with group advantages over whole sequences, no ratio, no clip, no penalty.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from rlvitals.errors import InputError, Problem
from rlvitals.grpo.advantages import Advantage
from rlvitals.grpo.aggregation import Aggregation
from rlvitals.grpo.config import Config
from rlvitals.grpo.correction import TOKEN_TIS
from rlvitals.grpo.kl import Estimator, KlTerm, Place
from rlvitals.grpo.losses import Clip, Reinforce
from rlvitals.grpo.ratios import RatioLevel
from rlvitals.grpo.recipes import RECIPES, DeadGroups, Recipe
from rlvitals.grpo.tasks.base import Task
from rlvitals.grpo.tasks.options import twice

MAX_STEPS = 10**9  # the most that Config.steps takes
MAX_COEF = 10**6  # the most that Config.kl_coef takes
SHOWN_FAMILIES = 10  # named in an error (convention)
ADDED_ESTIMATOR = Estimator.RATIO_K3  # of a penalty that a recipe lacks and kl_coef asks for: see the table in kl.py


@dataclass(frozen=True)
class Preset:
    """A recipe and the settings of `Config` that it changes; the user's own settings win over them."""

    recipe: Recipe
    settings: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))


_BOOK = "Raschka, Build a Reasoning Model (From Scratch), chapter 7"
_BASE = replace(RECIPES["ch6-reinforce"], source=_BOOK)
# The chapter adds a clipped ratio per answer, counted once, and a divergence summed over the answer's tokens. Here one
# aggregation serves both: without a penalty the ratio counts once per answer, as there (_ONCE); with one it counts once
# per token, which is its answer's length times the chapter's weight. So a coefficient c weighs like c / length there,
# and long answers pull harder. The clip is PPO's at 0.2; the chapter's is at 10 and keeps the larger side for A < 0.
_CLIPPED = replace(_BASE, surrogate=Clip(0.2, 0.2), ratio_level=RatioLevel.SEQUENCE_SUM)
_ONCE = replace(_CLIPPED, aggregation=Aggregation.SEQUENCE_MEAN)
_REUSE: Mapping[str, object] = MappingProxyType({"epochs": 2})
_FORMAT: Mapping[str, object] = MappingProxyType({"task": "arithmetic:format=1"})


def _kl(estimator: Estimator, coef: float) -> Preset:
    return Preset(replace(_CLIPPED, kl_term=KlTerm(estimator, Place.LOSS, coef)), _REUSE)


PRESETS: Mapping[str, Preset] = MappingProxyType(
    {
        **{name: Preset(recipe) for name, recipe in RECIPES.items()},
        # 7.2, 7.3: the baseline and what it logs
        "ch7-tracking": Preset(_BASE),
        # 7.4: ratios of whole sequences under a fixed old policy, with and without the clip
        "ch7-clip": Preset(_ONCE, _REUSE),
        "ch7-no-clip": Preset(replace(_ONCE, surrogate=Clip(1e6, 1e6)), _REUSE),
        # 7.5: the summed k1 that restrains nothing, and what would
        "ch7-kl": _kl(Estimator.K1, 0.1),
        "ch7-kl-k2": _kl(Estimator.K2, 0.1),
        "ch7-kl-k3": _kl(Estimator.K3, 0.1),
        "ch7-kl-ratio-k3": _kl(Estimator.RATIO_K3, 0.1),
        # 7.6.1, 7.6.2: a format reward, on its own and only for right answers
        "ch7-format": Preset(_BASE, _FORMAT),
        "ch7-format-conditional": Preset(_BASE, MappingProxyType({"task": "arithmetic:format=1,format_if_right=yes"})),
        # 7.6.3: each modification alone
        "ch7-drop-dead-groups": Preset(replace(_BASE, dead_groups=DeadGroups.DROP)),
        "ch7-active-sampling": Preset(replace(_BASE, dead_groups=DeadGroups.RESAMPLE)),
        "ch7-token-loss": Preset(replace(_BASE, aggregation=Aggregation.TOKEN_MEAN)),
        "ch7-clip-higher": Preset(
            replace(_BASE, surrogate=Clip(0.2, 0.28), aggregation=Aggregation.TOKEN_MEAN), _REUSE
        ),
        "ch7-truncated-is": Preset(replace(_BASE, corrections=(TOKEN_TIS,))),
        "ch7-no-std": Preset(replace(_BASE, advantage=Advantage.GROUP_MEAN)),
        "ch7-off-policy-mask": Preset(replace(_ONCE, off_policy_delta=0.1), _REUSE),
        # the sampler leaves the tail out, and policy, old policy and reference are scored within what it kept
        "ch7-keep-mask": Preset(_BASE, MappingProxyType({"top_p": 0.9})),
        "ch7-gdpo": Preset(replace(_BASE, advantage=Advantage.COMPONENTS), _FORMAT),
        "ch7-gspo": Preset(replace(RECIPES["gspo"], source=_BOOK), _REUSE),
        "ch7-cispo": Preset(replace(RECIPES["cispo"], source=_BOOK), _REUSE),
    }
)


def preset(spec: str) -> Preset:
    """Return the preset of a spec; `dr_grpo` is `dr-grpo`. Raises InputError with the nearest name."""
    name = spec.partition(":")[0]
    found = PRESETS.get(name.replace("_", "-"))
    if found is None:
        near = difflib.get_close_matches(name, PRESETS, n=1)
        hint = f"Nearest: {near[0]}" if near else f"Recipes: {', '.join(PRESETS)}"
        raise InputError(Problem("unknown recipe", "--recipe", repr(name), "a recipe of the trainer", hint))
    return found


def config_of(spec: str) -> Config:
    """Return the config of a preset before the user's own settings. Raises InputError."""
    return replace(Config(recipe=spec), **preset(spec).settings)  # type: ignore[arg-type]


def recipe_of(config: Config) -> Recipe:
    """Return the recipe of a config, with the user's KL estimator, place and coefficient. Raises InputError.

    The coefficient is `kl_coef`, estimator, place and exceptions by family are options of the recipe:
    `grpo:kl=exact,kl_in=reward,kl_by=math=0+code=0.02`. The recipe's own exceptions stay, unless named again.
    """
    recipe = preset(config.recipe).recipe
    term, chosen = recipe.kl_term, _options(config.recipe)
    by_family = kl_by(config)
    if term is None and (config.kl_coef > 0 or by_family or chosen.keys() & _CHOICES.keys()):
        term = KlTerm(ADDED_ESTIMATOR, Place.LOSS, config.kl_coef)
    if term is None:
        return recipe
    if config.kl_coef >= 0:
        term = replace(term, coef=config.kl_coef)
    if term.coef < 0:
        others = ", or =0 for families without an exception" if by_family else ""
        raise InputError(
            Problem("a KL term without a coefficient", "kl_coef", expected="a number of 0 or more",
                    hint=f"{config.recipe.partition(':')[0]} has none of its own: try --set kl_coef=0.01{others}")
        )  # fmt: skip
    term = replace(term, by_family=MappingProxyType({**term.by_family, **by_family}))
    if config.reference_reset < 0 and not any((term.coef, *term.by_family.values())):
        return replace(recipe, kl_term=None)  # nothing is weighed and nothing is there to be measured to
    estimator, place = chosen.get("kl", term.estimator.value), chosen.get("kl_in", term.place.value)
    return replace(recipe, kl_term=replace(term, estimator=Estimator(estimator), place=Place(place)))


KL_BY = "kl_by"


def kl_by(config: Config) -> dict[str, float]:
    """Return the KL coefficients that the recipe's options give to task families. Raises InputError."""
    return {family: float(coef) for family, coef in _pairs(_options(config.recipe).get(KL_BY, ""))}


def unknown_families(config: Config, task: Task) -> list[Problem]:
    """Return which families of `kl_by` no training item has: their coefficient would never be used."""
    there = sorted({i.family for i in task.train})
    named = [f for f in there if f]
    more = len(named) - SHOWN_FAMILIES
    said = ", ".join(named[:SHOWN_FAMILIES]) + (f" and {more} more" if more > 0 else "")
    expected = said or "a task whose items have families: this one has none"
    return [
        Problem("no such family in the task", f"--recipe {KL_BY}", repr(family), expected, _nearest(family, named))
        for family in kl_by(config)
        if family not in there
    ]


def _nearest(name: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f"Nearest: {near[0]}" if near else ""


def _pairs(text: str) -> list[tuple[str, str]]:
    """Return (family, coefficient) of `math=0+code=0.02`; a family may hold `=`, neither `+` nor `,`."""
    return [(family, coef) for family, _, coef in (p.rpartition("=") for p in text.split("+") if p)]


def _wrong_pairs(part: str) -> list[Problem]:
    pairs = _pairs(part.partition("=")[2])
    known = [family for family, _ in pairs]
    good = all(f and _coefficient(c) for f, c in pairs) and len(set(known)) == len(known)
    if pairs and good:
        return []
    wanted = f"{KL_BY}=FAMILY=COEF+FAMILY=COEF, each family once, coefficients of 0 to 1e6"
    return [Problem(f"not a value of the option {KL_BY}", "--recipe", repr(part), wanted)]


def _coefficient(text: str) -> bool:
    try:
        return 0 <= float(text) <= MAX_COEF  # false for NaN
    except ValueError:
        return False


SCORE_EVERY = "score_every"


def score_every(config: Config) -> int:
    """Return the steps from one scoring pass to the next: 1 is each step. Raises InputError.

    In the steps between, the forward pass of the only update is the old policy's. An option of the recipe, because it
    says where the loss takes its old policy from: `grpo:score_every=10`.
    """
    return int(_options(config.recipe).get(SCORE_EVERY, "1"))


def _steps(text: str) -> bool:
    """Return whether a text is a number of steps; its length comes first, since int() refuses over 4,300 digits."""
    written = text.isascii() and text.isdigit() and len(text) <= len(str(MAX_STEPS))
    return written and 0 < int(text) <= MAX_STEPS


_CHOICES: Mapping[str, tuple[str, ...]] = {
    "kl": tuple(e.value for e in Estimator),
    "kl_in": tuple(p.value for p in Place),
}


def _options(spec: str) -> dict[str, str]:
    """Return the options behind a recipe's name. Raises InputError with every problem."""
    chosen: dict[str, str] = {}
    parts = [p for p in spec.partition(":")[2].split(",") if p]
    found = twice("--recipe", [p.partition("=")[::2] for p in parts])
    for part in parts:
        key, _, value = part.partition("=")
        if key == SCORE_EVERY:
            if not _steps(value):
                wanted = f"a whole number of steps, 1 to {MAX_STEPS}"
                found.append(Problem(f"not a value of the option {key}", "--recipe", repr(part), wanted))
        elif key == KL_BY:
            found += _wrong_pairs(part)
        elif key not in _CHOICES:
            known = " or ".join([*_CHOICES, KL_BY, SCORE_EVERY])
            found.append(Problem("unknown option of a recipe", "--recipe", repr(part), f"{known}=..."))
        elif value not in _CHOICES[key]:
            found.append(
                Problem(f"not a value of the option {key}", "--recipe", repr(part), " or ".join(_CHOICES[key]))
            )
        chosen[key] = value
    if found:
        raise InputError(*found)
    return chosen


def uses_ratio(recipe: Recipe) -> bool:
    """True when the loss looks at the ratio of new to old policy."""
    return not isinstance(recipe.surrogate, Reinforce)
