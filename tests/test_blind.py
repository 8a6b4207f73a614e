"""What is said of a check that could not look: only what is really missing is called missing, the rest is counted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rlvitals import diagnose, load
from rlvitals.check import Check, Clear, Few, Needs, NoData, Outcome, Threshold
from rlvitals.checks import CHECKS
from rlvitals.diagnosis import BlindSpot
from rlvitals.engine import run_engine
from rlvitals.report import html, markdown, terminal, words
from rlvitals.schema import Evals, Run, RunConfig, TrainerInfo
from rlvitals.view import View

BASE = next(c for c in CHECKS if c.id == "K004")
CONFIG = next(c for c in CHECKS if c.id == "C010")
EXAMPLE = Path("src/rlvitals/examples/trl_run")


def run(rows: int = 6, config: RunConfig | None = None, **columns: float) -> Run:
    held = Evals("math", np.array([1, 3]), np.array([0.2, 0.4]), np.full(2, np.nan))
    return Run(
        "r",
        np.arange(1, rows + 1),
        {name.replace("__", "/"): np.full(rows, value) for name, value in columns.items()},
        config=config or RunConfig(),
        evals={"math": held},
        trainer=TrainerInfo(
            "t", how_to_log={"entropy": "log entropy", "kl_ref": "set beta", "rollouts": "write a dump"}
        ),
    )


def answer(of: Run, check: Check) -> NoData:
    found = run_engine(of, (check,)).examine().outcomes[check.id]
    assert isinstance(found, NoData)
    return found


def needing(needs: Needs, base: Check = BASE) -> Check:
    return replace(base, id="X001", needs=needs, fold=None, judge=lambda view, limits: Clear("looked"))


def saying(found: NoData, base: Check = BASE) -> Check:
    def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
        return found

    return replace(base, id="X001", needs=Needs(), fold=None, judge=judge)


def test_what_is_there_is_counted_and_what_is_not_is_missing() -> None:
    found = answer(run(reward_mean=0.5), needing(Needs(all_of=("reward_mean", "entropy"), rows=20)))
    assert found == NoData(("entropy",), "6 logged values of reward_mean; 20 are needed", (Few("reward_mean", 6, 20),))


def test_where_one_of_several_would_do_and_is_there_none_need_be_added() -> None:
    either = needing(Needs(any_of=("entropy", "grad_norm", "held-out", "reward_part/"), rows=20))
    assert answer(run(entropy=1.0), either).missing == ()
    assert answer(run(entropy=1.0), either).few == (Few("entropy", 6, 20), Few("held-out", 2, 20))
    parts = answer(replace(run(reward_part__a=1.0), evals={}), either)
    assert (parts.missing, parts.few) == ((), (Few("reward_part/", 6, 20),))
    none = answer(replace(run(reward_mean=1.0), evals={}), either)
    assert (none.missing, none.few) == (either.needs.any_of, ())


def test_a_checks_own_answer_is_corrected_the_same_way() -> None:
    own = NoData(("step", "held-out", "reward_part/", "reward_std", "group_size", "entropy"), "too little")
    found = answer(run(reward_std=0.1, reward_part__a=1.0, config=RunConfig(group_size=8)), saying(own))
    assert found.missing == ("entropy",)
    assert found.reason == "too little (held-out: 2 values, reward_part/: 6 values, reward_std: 6 values)"
    named = NoData(("reward_std",), "6 values of reward_std; 20 are needed")
    assert answer(run(reward_std=0.1), saying(named)) == replace(named, missing=())
    bare = answer(run(reward_std=0.1), saying(NoData(("reward_std",))))
    assert bare.reason == "too few, or at other steps than what else is needed (reward_std: 6 values)"


def test_a_setting_is_told_apart_from_the_series_of_its_name() -> None:
    assert answer(run(learning_rate=1e-6), CONFIG).missing == ("config:learning_rate",)
    assert answer(run(reward_mean=0.1), CONFIG).missing == ("learning_rate",)
    assert answer(run(kl_coef=0.1), needing(Needs(config=("kl_coef",)))).missing == ("config:kl_coef",)


def test_what_was_logged_and_says_nothing_is_explained_with_the_line_that_mends_it() -> None:
    zero = run(kl_ref=0.0)
    found = answer(zero, needing(Needs(all_of=("kl_ref",))))
    assert (found.missing, found.unmeasured) == ((), ("kl_ref",))
    assert found.reason == "kl_ref is 0 in all 6 rows that have it, as it is written where nothing is measured"
    (spot,) = diagnose(zero, checks=(needing(Needs(all_of=("kl_ref",))),)).blind_spots
    assert spot.how_to_log == ("set beta",)
    broken = run(entropy=np.nan, nonfinite__entropy=1.0)
    found = answer(broken, needing(Needs(all_of=("entropy",))))
    assert (found.missing, found.reason) == ((), "entropy is NaN or infinite wherever it was logged")


def test_a_dump_that_was_read_is_not_to_be_written_again() -> None:
    tiers = (needing(Needs(all_of=("rollouts/tier_share/",))),)
    (without,) = diagnose(run(reward_mean=0.5), checks=tiers).blind_spots
    (with_dump,) = diagnose(run(reward_mean=0.5, rollouts__reward_mean=0.5), checks=tiers).blind_spots
    assert without.how_to_log == ("write a dump",)
    assert (with_dump.how_to_log, with_dump.missing) == ((), ("rollouts/tier_share/",))
    assert with_dump.reason == "the rollouts that were read do not hold what it is counted from"


@pytest.mark.parametrize("rows", [3, 5, 12, 30, 201])
def test_of_the_example_nothing_that_was_read_is_called_missing(rows: int) -> None:
    whole = load(EXAMPLE)
    short = replace(
        whole,
        step=whole.step[:rows],
        columns={n: c[:rows] for n, c in whole.columns.items()},
        evals={n: replace(e, step=e.step[:rows], score=e.score[:rows], stderr=e.stderr[:rows])
               for n, e in whole.evals.items()},
    )  # fmt: skip
    found = diagnose(short)
    logged = {n for n, c in short.columns.items() if np.isfinite(c).any()} | set(short.config.known()) | {"step"}
    logged |= {n.split("/")[0] + "/" for n in logged if "/" in n} | {"held-out"}
    for spot in found.blind_spots:
        assert not logged & set(spot.missing), spot
        assert spot.missing or spot.reason, spot


SPOTS = [
    BlindSpot("A", "first", "f", ("x", "y"), (), "6 logged values of r; 20 are needed", (Few("r", 6, 20),)),
    BlindSpot("B", "second", "f", (), (), "6 logged values of r; 60 are needed; k is 0", (Few("r", 6, 60),)),
    BlindSpot("C", "third", "f", (), (), "6 logged values of s; 20 are needed", (Few("s", 6, 20),)),
    BlindSpot("D", "fourth", "f", ("y",), (), "no luck"),
]


def test_the_words_count_what_is_there_and_name_what_is_not() -> None:
    assert words.blind_count(SPOTS) == "2 checks have too little to judge, 2 lack"
    assert words.blind_count(SPOTS[:1]) == "1 check lacks"
    assert words.blind_count(SPOTS[2:3]) == "1 check has too little to judge"
    assert words.lacking(SPOTS) == ["x", "y"]
    assert words.reasons(SPOTS) == [
        "too few: 6 of 20 to 60 values of r; 6 of 20 values of s",
        "second: k is 0",
        "fourth: no luck",
    ]


def test_every_report_says_it() -> None:
    found = replace(diagnose(run(reward_mean=0.5), checks=(CONFIG,)), blind_spots=tuple(SPOTS[1:3]))
    for render in (terminal.render, markdown.render, html.render):
        said = " ".join(str(render(found)).split())
        assert "2 checks have too little to judge" in said
        assert "6 of 60 values of r; 6 of 20 values of s" in said
        assert "lack" not in said.split("too little to judge")[1].split("second: k is 0")[0]


@pytest.mark.parametrize("check_id", ["S001", "S005"])
def test_a_share_that_is_a_sum_of_two_is_not_called_missing_by_its_words(check_id: str) -> None:
    check = next(c for c in CHECKS if c.id == check_id)
    found = answer(run(15, all_wrong_frac=0.3, all_right_frac=0.2, reward_mean=0.4, grad_norm=0.3), check)
    assert not [m for m in found.missing if "all_" in m], found
