"""The filter language: what it finds, what it refuses, and that absent values are equal to nothing."""

from __future__ import annotations

import numpy as np
import pytest

from rlvitals.errors import InputError
from rlvitals.rollouts.table import MISSING, Batch
from rlvitals.rollouts.where import MAX_LENGTH, parse

BATCH = Batch(
    4,
    {
        "step": np.array([1, 1, 2, MISSING]),
        "reward": np.array([0.0, 1.0, np.nan, -0.5]),
        "family": np.array(["math", "code", None, "math word"], dtype=object),
        "completion": np.array(["As an AI", "no", "yes", 'it\'s "x"'], dtype=object),
        "reward_part/format": np.array([1.0, 0.0, 1.0, 1.0]),
    },
)


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("step=1", [0, 1]),
        ("step=1 and reward>0.5", [1]),
        ("step = 1 AND NOT reward > 0.5", [0]),
        ("reward<-0.1 or step>=2", [2, 3]),
        ("family=math", [0]),
        ("family!=math", [1, 3]),
        ("family in (math, 'math word')", [0, 3]),
        ("family~MATH", [0, 3]),
        ("family=none", [2]),
        ("reward=none or step=none", [2, 3]),
        ("reward!=none", [0, 1, 3]),
        ("not (step=1 or step=2)", [3]),
        ("part/format=1 and reward<=0", [0, 3]),
        ('completion~"as an ai"', [0]),
        ("completion~'\"x\"'", [3]),
        ("advantage>0", []),
    ],
)
def test_finds(text: str, rows: list[int]) -> None:
    assert np.flatnonzero(parse(text)(BATCH)).tolist() == rows


def test_names_the_columns_it_reads() -> None:
    assert parse("step=1 and (reward>0 or part/format=1) and length<5").columns == (
        "step", "reward", "reward_part/format", "tokens",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("stp=1", "Nearest: step"),
        ("step", "a comparison is missing"),
        ("step=", "a value is missing"),
        ("reward>much", "reward is a number"),
        ("reward~5", "~ is for text"),
        ("(step=1", "a bracket is not closed"),
        ("step=1; drop table rollouts", "is a number, '1;' is none"),
        ("step=1 --", "more than a filter"),
        ("", "a column is missing"),
        ("sampler_logp=1", "one number per token"),
        ("__class__=1", "unknown column"),
        ("not " * 100 + "step=1", "nested too deeply"),
        ("(" * 100 + "step=1" + ")" * 100, "nested too deeply"),
        ("x" * (MAX_LENGTH + 1), "too long"),
    ],
)
def test_refuses(text: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        parse(text)
