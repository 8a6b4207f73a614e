"""Whatever a check lacks, and whoever trains: there is a line that says how to write it down."""

from __future__ import annotations

import numpy as np
import pytest

from rlvitals import diagnose
from rlvitals.diagnosis import BlindSpot
from rlvitals.ingest.adapter import Adapter
from rlvitals.ingest.registry import ADAPTERS
from rlvitals.logline import BY_HAND
from rlvitals.schema import Run, TrainerInfo


def spots(trainer: TrainerInfo, **columns: float) -> dict[str, BlindSpot]:
    rows = 30
    series = {name.replace("__", "/"): np.full(rows, value) for name, value in columns.items()}
    series["reward_mean"] = np.linspace(0.2, 0.4, rows)
    return {s.id: s for s in diagnose(Run("r", np.arange(1, rows + 1), series, trainer=trainer)).blind_spots}


@pytest.mark.parametrize("adapter", ADAPTERS, ids=lambda a: a.info.name)
def test_what_is_missing_has_a_line_in_every_trainer(adapter: Adapter) -> None:
    found = spots(adapter.info)
    lacking = {i: s for i, s in found.items() if any(not m.startswith("audit:") for m in s.missing)}
    assert len(lacking) > 40
    assert [i for i, s in lacking.items() if not s.how_to_log] == []


def test_a_line_of_the_trainer_comes_before_one_by_hand() -> None:
    bare = spots(TrainerInfo("t"))
    told = spots(TrainerInfo("t", how_to_log={"rollouts": "write a dump", "stop_frac/*": "log the reason"}))
    assert bare["L006"].how_to_log == (BY_HAND["rollouts"],)
    assert told["L006"].how_to_log == ("write a dump",)
    assert told["O003"].how_to_log == ("log the reason",)


def test_a_metric_that_no_setting_logs_is_asked_for_by_name_and_meaning() -> None:
    (line,) = spots(TrainerInfo("t"), updates_per_rollout=1.0)["Y001"].how_to_log
    assert line == (
        "where no setting of the trainer does, log it from your own code as `logprob_gap_mean`: mean absolute "
        "difference of sampler and trainer log-probabilities"
    )


def test_a_setting_is_asked_for_once_and_a_dump_that_was_read_not_again() -> None:
    assert spots(TrainerInfo("t"))["C008"].how_to_log == (BY_HAND["config"],)
    assert spots(TrainerInfo("t"))["C010"].how_to_log == (BY_HAND["config"],), "the setting, not the logged series"
    assert spots(TrainerInfo("t"), rollouts__prompts_n=16.0)["T008"].how_to_log == ()


def test_held_out_scores_are_asked_for_in_the_trainers_words() -> None:
    assert spots(TrainerInfo("t"))["H003"].how_to_log == (BY_HAND["evals"],)
    assert spots(TrainerInfo("t", how_to_log={"evals": "set eval_steps"}))["H003"].how_to_log == ("set eval_steps",)
