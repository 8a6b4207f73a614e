"""Every quirk of real logs: one small fixture each, exact values."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path

import numpy as np
import pytest
import zstandard

from rlvitals.errors import InputError, NotATrainingRun
from rlvitals.ingest import load
from rlvitals.schema import Run, Status


def trl_row(step: int, **extra: object) -> dict[str, object]:
    """Return a row as TRL logs it; the reward is step / 100."""
    return {
        "step": step,
        "loss": 0.001 * step,
        "reward": step / 100,
        "reward_std": 0.25 + step / 1000,
        "completions/mean_length": 100.0 + step,
        "rewards/correct/mean": step / 200,
        **extra,
    }


def jsonl(path: Path, rows: list[dict[str, object]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def note_texts(run: Run) -> str:
    return "\n".join(note.text for note in run.notes)


def test_half_written_last_line_is_skipped_and_noted(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "log.jsonl", [trl_row(s) for s in (1, 2, 3)])
    path.write_text(path.read_text() + '{"step": 4, "rewa')
    run = load(path)
    assert run.step.tolist() == [1, 2, 3]
    note = next(n for n in run.notes if "half-written" in n.text)
    assert (note.line, note.count) == (4, 1)


def test_lines_that_are_no_json_are_counted_with_the_first(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    rows = [json.dumps(trl_row(s)) for s in (1, 2, 3)]
    path.write_text("\n".join([rows[0], "WARNING: something", "oops", rows[1], "", rows[2]]) + "\n")
    run = load(path)
    assert run.step.tolist() == [1, 2, 3]
    note = next(n for n in run.notes if "no JSON" in n.text)
    assert (note.line, note.count) == (2, 2)
    assert "WARNING" in note.text


def test_nan_and_infinity_are_told_from_not_logged(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    rows = [trl_row(1, kl=0.1), trl_row(2, kl=float("nan")), trl_row(3, kl=None), trl_row(4, kl=float("-inf"))]
    run = load(jsonl(path, rows))
    np.testing.assert_array_equal(run.columns["kl_ref"], [0.1, np.nan, np.nan, np.nan])
    np.testing.assert_array_equal(run.columns["nonfinite/kl_ref"], [0.0, 1.0, np.nan, 1.0])
    assert "nonfinite/loss" not in run.columns


def test_number_strings_percentages_and_minus_zero(tmp_path: Path) -> None:
    rows = [
        {"step": "1", "reward": "-0.0", "reward_std": "1e-3", "success_rate": "45%", "loss": "-0.06613"},
        {"step": "2", "reward": "1,250.5", "reward_std": " 0.25 ", "success_rate": "50%", "loss": "nan"},
    ]
    run = load(jsonl(tmp_path / "log.jsonl", rows))
    assert run.columns["reward_mean"].tolist() == [0.0, 1250.5]
    assert run.columns["reward_std"].tolist() == [0.001, 0.25]
    assert run.columns["success_frac"].tolist() == [0.45, 0.5]
    assert run.columns["nonfinite/loss"].tolist() == [0.0, 1.0]


def test_step_as_text_of_ms_swift_and_its_last_record(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [
        {"reward": 0.1 * s, "reward_std": 0.2 + 0.01 * s, "kl": 0.01, "completions/mean_length": 50,
         "global_step/max_steps": f"{s}/212", "percentage": "2.3%", "memory(GiB)": 15.9}
        for s in (5, 10, 15)
    ]  # fmt: skip
    rows.append({"last_model_checkpoint": "out/checkpoint-15", "global_step": 15, "log_history": [{"reward": 9.0}]})
    run = load(jsonl(tmp_path / "logging.jsonl", rows))
    assert run.trainer.name == "ms-swift"
    assert run.step.tolist() == [5, 10, 15]
    assert run.provenance["reward_std"].estimator == "group"
    assert [e.kind.value for e in run.events] == ["finished"]


def test_rewind_closes_a_segment(tmp_path: Path) -> None:
    rows = [trl_row(s) for s in range(1, 31)] + [trl_row(s, reward=9.0) for s in range(21, 41)]
    run = load(jsonl(tmp_path / "log.jsonl", rows))
    assert run.step.tolist() == list(range(1, 41))
    assert run.columns["reward_mean"][19:21].tolist() == [0.2, 9.0]
    segment = run.segments[0]
    assert (segment.first_step, segment.last_step, segment.rows, segment.resumed_at) == (21, 30, 10, 21)
    assert segment.reason == "rewind"
    assert [(e.kind.value, e.step) for e in run.events] == [("resume", 21)]


def test_two_rewinds_in_a_row(tmp_path: Path) -> None:
    rows = [trl_row(s) for s in [*range(1, 11), *range(6, 9), *range(4, 7)]]
    run = load(jsonl(tmp_path / "log.jsonl", rows))
    assert run.step.tolist() == [1, 2, 3, 4, 5, 6]
    assert [(s.first_step, s.last_step, s.rows) for s in run.segments] == [(6, 10, 5), (4, 8, 5)]


def test_rows_of_an_aborted_start_leave_the_series(tmp_path: Path) -> None:
    rows = [trl_row(s, reward=-1.0) for s in (1, 2, 3)] + [trl_row(s) for s in range(1, 31)]
    run = load(jsonl(tmp_path / "log.jsonl", rows))
    assert run.columns["reward_mean"].min() == 0.01
    assert [s.reason for s in run.segments] == ["aborted start"]


def test_concatenated_runs_keep_the_last(tmp_path: Path) -> None:
    rows = [trl_row(s, reward=-1.0) for s in range(1, 41)] + [trl_row(s) for s in range(1, 31)]
    run = load(jsonl(tmp_path / "log.jsonl", rows))
    assert run.rows == 30
    assert [s.reason for s in run.segments] == ["other run in the same file"]


def test_step_logged_twice_takes_the_last_value(tmp_path: Path) -> None:
    rows = [trl_row(1), trl_row(2, reward=5.0, kl=0.5), trl_row(2), trl_row(3)]
    run = load(jsonl(tmp_path / "log.jsonl", rows))
    assert run.step.tolist() == [1, 2, 3]
    assert run.columns["reward_mean"].tolist() == [0.01, 0.02, 0.03]
    assert run.columns["kl_ref"][1] == 0.5
    assert "more than once" in note_texts(run)


def test_same_steps_from_two_processes_are_joined(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = []
    for s in range(1, 6):
        rows.append({"step": s + 1, "reward": s / 10, "completion_length": 50.0 + s, "rewards/f": 0.1 * s})
        rows.append({"step": s, "loss": 0.1 * s, "grad_norm": 1.0 + s})
    run = load(jsonl(tmp_path / "log.jsonl", rows))
    assert run.step.tolist() == [1, 2, 3, 4, 5, 6]
    np.testing.assert_array_equal(run.columns["reward_mean"], [np.nan, 0.1, 0.2, 0.3, 0.4, 0.5])
    np.testing.assert_allclose(run.columns["grad_norm"], [2, 3, 4, 5, 6, np.nan])
    assert run.segments == ()


def test_rows_without_a_step_are_numbered(tmp_path: Path) -> None:
    rows = [{k: v for k, v in trl_row(s).items() if k != "step"} for s in (1, 2, 3)]
    run = load(jsonl(tmp_path / "log.jsonl", rows))
    assert run.step.tolist() == [1, 2, 3]
    assert "carries no step" in note_texts(run)


def test_some_rows_without_a_step_join_the_step_before(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = []
    for s in (1, 2, 3):
        rows += [trl_row(s), {"entropy": 1.0 / s}]
    run = load(jsonl(tmp_path / "log.jsonl", rows))
    assert run.step.tolist() == [1, 2, 3]
    assert run.columns["entropy"].tolist() == [1.0, 0.5, 1 / 3]


def test_summary_row_becomes_an_event_not_data(tmp_path: Path) -> None:
    rows = [trl_row(s) for s in (1, 2, 3)]
    rows.append({"step": 3, "train_runtime": 10.0, "train_loss": 0.5, "reward": 0.9, "epoch": 1.0})
    run = load(jsonl(tmp_path / "log.jsonl", rows))
    assert run.columns["reward_mean"].tolist() == [0.01, 0.02, 0.03]
    assert [(e.kind.value, e.step) for e in run.events] == [("finished", 3)]


def test_supervised_rows_before_rl_are_dropped(tmp_path: Path) -> None:
    sft = [{"step": s, "loss": 2.0 / s, "mean_token_accuracy": 0.5, "entropy": 1.0} for s in (10, 20, 30)]
    run = load(jsonl(tmp_path / "log.jsonl", [*sft, *(trl_row(s) for s in range(1, 11))]))
    assert run.step.tolist() == list(range(1, 11))
    assert run.segments == ()
    note = next(n for n in run.notes if "supervised" in n.text)
    assert (note.line, note.count) == (1, 3)


def test_sparse_reward_is_not_taken_for_supervised_training(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [
        {"step": s, "loss": 0.1 * s, "grad_norm": 1.0, **({"reward": s / 10, "kl": 0.1} if s % 5 == 0 else {})}
        for s in range(1, 21)
    ]
    run = load(jsonl(tmp_path / "log.jsonl", rows))
    assert run.rows == 20
    assert int(np.isfinite(run.columns["reward_mean"]).sum()) == 4


def test_eval_rows_and_odd_eval_steps_are_no_training_rows(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = []
    for s in range(1, 9):
        rows.append(trl_row(s * 10))
        if s in (2, 5):
            rows.append({"step": s * 10 + 3, "eval_reward": 0.1 * s, "eval_loss": 0.0, "eval_runtime": 3.0})
    run = load(jsonl(tmp_path / "log.jsonl", rows))
    assert run.step.tolist() == list(range(10, 90, 10))
    assert run.evals["reward"].step.tolist() == [23, 53]
    assert run.evals["reward"].score.tolist() == [0.2, 0.5]


@pytest.mark.parametrize(("scores", "want"), [((31.0, 42.5), (0.31, 0.425)), ((0.31, 0.425), (0.31, 0.425))])
def test_accuracy_in_percent_or_fraction(tmp_path: Path, scores: tuple[float, ...], want: tuple[float, ...]) -> None:
    rows = [{"step": s, "reward": 0.1 * s, "kl": 0.01, "eval_accuracy": score} for s, score in enumerate(scores, 1)]
    run = load(jsonl(tmp_path / "log.jsonl", rows))
    np.testing.assert_allclose(run.evals["eval"].score, want)


def test_evals_of_replaced_steps_are_dropped(tmp_path: Path) -> None:
    rows = [trl_row(s) for s in range(1, 11)] + [{"step": 10, "eval_reward": 9.0}]
    rows += [trl_row(s) for s in range(6, 11)] + [{"step": 12, "eval_reward": 0.5}]
    run = load(jsonl(tmp_path / "log.jsonl", rows))
    assert run.evals["reward"].score.tolist() == [0.5]


def test_forward_filled_values_keep_the_first_of_each_block(tmp_path: Path) -> None:
    rows = [trl_row(s, reward=0.1 + (s - 1) // 5 * 0.013, loss=0.01 * ((s - 1) // 5)) for s in range(1, 51)]
    run = load(jsonl(tmp_path / "log.jsonl", rows))
    assert np.flatnonzero(np.isfinite(run.columns["reward_mean"])).tolist() == list(range(0, 50, 5))
    assert "forward-filled" in note_texts(run)


def test_a_constant_stretch_is_not_forward_filled(tmp_path: Path) -> None:
    rows = [trl_row(s, reward=-5.0 if s > 40 else (s // 8) * 0.7) for s in range(1, 121)]
    run = load(jsonl(tmp_path / "log.jsonl", rows))
    assert int(np.isfinite(run.columns["reward_mean"]).sum()) == 120


def test_crlf_bom_and_broken_utf8(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    text = "\r\n".join(json.dumps(trl_row(s)) for s in (1, 2)) + "\r\n"
    bad = json.dumps({**trl_row(3), "note": "X"}).encode().replace(b"X", b"\xff\xfe")
    path.write_bytes(b"\xef\xbb\xbf" + text.encode() + bad + b"\r\n")
    run = load(path)
    assert run.step.tolist() == [1, 2, 3]
    assert "no UTF-8" in note_texts(run)


def test_utf16_as_powershell_writes_it(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    line = "{'loss': 0.1, 'reward': 0.5, 'reward_std': 0.2, 'completion_length': 10.0, 'epoch': 0.1}\r\n"
    path.write_bytes((line + line.replace("0.5", "0.6")).encode("utf-16"))
    assert load(path).columns["reward_mean"].tolist() == [0.5, 0.6]


def test_more_than_200_columns_and_keys_that_come_late(tmp_path: Path) -> None:
    rows = [trl_row(s, **{f"rewards/f{i}/mean": i + s / 10 for i in range(250 if s > 3 else 1)}) for s in range(1, 6)]
    run = load(jsonl(tmp_path / "log.jsonl", rows))
    late = run.columns["reward_part/f249"]
    assert np.isnan(late[:3]).all()
    assert late[3:].tolist() == [249.4, 249.5]


def test_git_lfs_pointer_is_named(tmp_path: Path) -> None:
    path = tmp_path / "trainer_state.json"
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 12345\n")
    with pytest.raises(InputError, match=r"Git LFS pointer.*git lfs pull"):
        load(path)


@pytest.mark.parametrize("name", ["training_args.bin", "optimizer.pt", "state.pkl"])
def test_pickles_are_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(b"\x80\x04\x95\x00cos\nsystem\n")
    with pytest.raises(InputError, match="binary files may run code"):
        load(path)


def test_a_pickle_under_another_name_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(b"\x80\x04\x95\x00cos\nsystem\n")
    with pytest.raises(InputError, match="a Python pickle"):
        load(path)


def test_supervised_log_is_refused(tmp_path: Path) -> None:
    rows = [
        {"loss": 2.0 / s, "token_acc": 0.5, "grad_norm": 1.0, "global_step/max_steps": f"{s}/44"} for s in range(1, 9)
    ]
    with pytest.raises(NotATrainingRun, match="supervised training"):
        load(jsonl(tmp_path / "logging.jsonl", rows))


def test_log_without_any_rl_metric_names_the_keys_and_the_way_out(tmp_path: Path) -> None:
    rows = [{"step": s, "temperature_c": 20.0 + s, "wind": 3.0} for s in range(1, 9)]
    with pytest.raises(NotATrainingRun, match=r"temperature_c.*--map reward_mean=KEY"):
        load(jsonl(tmp_path / "weather.jsonl", rows))


def test_empty_file_and_missing_file(tmp_path: Path) -> None:
    empty = tmp_path / "empty.log"
    empty.write_text("\n\n")
    (tmp_path / "trainer_state.json").write_text("{}")
    with pytest.raises(InputError, match="empty file"):
        load(empty)
    with pytest.raises(InputError, match=r"Nearest: trainer_state\.json"):
        load(tmp_path / "trainer_stat.json")


def test_all_problems_of_several_paths_are_reported_at_once(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        load(tmp_path / "a.log", tmp_path / "b.log")
    assert len(caught.value.problems) == 2


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_packed_files(tmp_path: Path, suffix: str) -> None:
    text = "".join(json.dumps(trl_row(s)) + "\n" for s in (1, 2, 3)).encode()
    path = tmp_path / f"log.jsonl{suffix}"
    path.write_bytes(gzip.compress(text) if suffix == ".gz" else zstandard.compress(text))
    assert load(path).step.tolist() == [1, 2, 3]


def test_stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "".join(json.dumps(trl_row(s)) + "\n" for s in (1, 2, 3)).encode()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text)))
    run = load("-")
    assert (run.name, run.rows) == ("stdin", 3)


def test_several_files_of_one_run_are_joined(tmp_path: Path) -> None:
    a = jsonl(tmp_path / "a.jsonl", [trl_row(s) for s in range(1, 11)])
    b = jsonl(tmp_path / "b.jsonl", [trl_row(s, reward=7.0) for s in range(8, 16)])
    c = jsonl(tmp_path / "c.jsonl", [{"step": s, "entropy": 1.0 / s} for s in range(1, 16)])
    run = load(a, b, c)
    assert run.step.tolist() == list(range(1, 16))
    assert run.columns["reward_mean"][6:8].tolist() == [0.07, 7.0]
    assert run.columns["entropy"][14] == 1 / 15
    assert [(s.first_step, s.last_step, s.resumed_at) for s in run.segments] == [(8, 10, 8)]


def test_scores_of_rows_that_the_next_file_replaces_go_with_them(tmp_path: Path) -> None:
    def scored(step: int, reward: float, score: float) -> dict[str, object]:
        return {"step": step, "reward": reward, "loss": 0.1, "eval_accuracy": score}

    a = jsonl(tmp_path / "a.jsonl", [scored(s, 0.01 * s, 0.1) for s in range(1, 11)])
    b = jsonl(tmp_path / "b.jsonl", [scored(s, 7.0 + s, 0.9) for s in range(8, 16, 2)])
    (held,) = load(a, b).evals.values()
    assert held.step.tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14]
    assert held.score.tolist() == [0.1] * 7 + [0.9] * 4


def test_user_map_wins_and_is_shown_as_user(tmp_path: Path) -> None:
    rows = [{"step": s, "reward": 0.1 * s, "true_score": 0.2 * s, "kl": 0.1} for s in (1, 2)]
    run = load(jsonl(tmp_path / "log.jsonl", rows), map={"reward_mean": "true_score", "eval:gold": "reward"})
    assert run.columns["reward_mean"].tolist() == [0.2, 0.4]
    assert run.provenance["reward_mean"].status is Status.USER
    assert run.evals["gold"].score.tolist() == [0.1, 0.2]


def test_user_map_errors_name_the_nearest(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "log.jsonl", [trl_row(1)])
    with pytest.raises(InputError) as caught:
        load(path, map={"reward_meen": "reward", "entropy": "rewardd"})
    text = str(caught.value)
    assert "Nearest: reward_mean" in text
    assert "Nearest: reward" in text


def test_unrecognised_keys_are_kept_by_name(tmp_path: Path) -> None:
    run = load(jsonl(tmp_path / "log.jsonl", [trl_row(s, zebra=1.0, entropyy=2.0) for s in (1, 2)]))
    assert [(u.key, u.values, u.nearest) for u in run.unrecognised] == [("zebra", 2, ""), ("entropyy", 2, "entropy")]
