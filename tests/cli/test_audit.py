"""preflight and audit from the command line: what they print, write and exit with, and that check reads it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rlvitals.audit.rows import write_rows
from rlvitals.cli.main import app
from tests.audit.data import row, task_file, write_jsonl


def run(*args: object, stdin: str | None = None) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, [str(a) for a in args], input=stdin)
    return done.exit_code, done.stdout, done.stderr


def rollouts(path: Path, solved: float, n: int = 40) -> Path:
    rows = [row(i, index=j, completion=f"said {j}", reward=float(j < solved * 8)) for i in range(n) for j in range(8)]
    write_rows(rows, path)
    return path


@pytest.mark.parametrize(
    ("solved", "code", "words"), [(0.5, 0, "Verdict: learnable"), (0.0, 1, "Verdict: start easier")]
)
def test_preflight_on_rollouts(tmp_path: Path, solved: float, code: int, words: str) -> None:
    found, out, _ = run("preflight", rollouts(tmp_path / "base.jsonl", solved))
    assert found == code
    assert words in out
    record = json.loads((tmp_path / ".rlvitals" / "preflight-base.jsonl.json").read_text())
    assert (record["audit"], record["rollouts"]) == ("preflight", 320)


def test_of_a_training_dump_the_first_step_alone_is_the_base_policy(tmp_path: Path) -> None:
    rows = [
        {"step": step, "group": str(g), "index": i, "prompt": f"q{g}", "completion": "x", "reward": float(i < 2 * step)}
        for step in (1, 2, 3) for g in range(40) for i in range(8)
    ]  # fmt: skip
    path = tmp_path / "train.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    _, out, err = run("preflight", path)
    assert "25% of 320 rollouts on 40 tasks" in out
    assert "only the 320 rollouts of step 1 are taken" in err
    _, out, _ = run("preflight", path, "--all-steps")
    assert "50% of 960 rollouts on 40 tasks" in out


def test_preflight_with_a_solver_lists_what_it_cannot_solve(tmp_path: Path) -> None:
    tasks = write_jsonl(
        tmp_path / "tasks.jsonl",
        [
            {"id": "easy", "question": "What is 2 + 3 ?", "answer": "5"},
            {"id": "no", "question": "hard is 2 + 3 ?", "answer": "5"},
        ],
    )
    base = rollouts(tmp_path / "base.jsonl", 0.5)
    code, out, _ = run(
        "preflight", base, "--tasks", tasks, "--env", "tests.audit.envs:Sums", "--solver", "tests.audit.envs:solve"
    )
    assert code == 1
    assert "tests.audit.envs:solve solved 1 of 2 tasks." in out
    assert "- no\n" in out


def test_preflight_says_everything_that_is_missing() -> None:
    code, _, err = run("preflight", "--solver", "human", "--format", "xml")
    assert code == 2
    assert "rlvitals: 3 problems" in err


def test_probe_and_its_record(tmp_path: Path) -> None:
    tasks = task_file(tmp_path / "tasks.jsonl", 3)
    code, out, _ = run("audit", "probe", "tests.audit.verifiers:always_zero", "--tasks", tasks, "--run", tmp_path)
    assert code == 1
    assert "always zero: all " in out
    assert (tmp_path / ".rlvitals" / "probe-tests.audit.verifiers-always_zero.json").is_file()
    code, out, _ = run(
        "audit", "probe", "tests.audit.verifiers:good_trl", "--tasks", tasks, "--run", tmp_path, "--format", "json"
    )
    assert (code, json.loads(out)["findings"]) == (0, [])


def test_score_in_the_terminal_is_blind_and_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    write_rows([row(i, completion=f"\x1b[31msaid {i}", reward=float(i % 2)) for i in range(12)], path)
    code, _, err = run("audit", "score", path, "--n", 12, stdin="r\nq\n")
    assert code in (1, 3)
    assert err.count("The pipeline:") == 1
    assert err.index("Is it right?") < err.index("The pipeline:")
    assert "\x1b" not in err
    code, out, err = run("audit", "score", path, "--n", 12, stdin="w\n" * 11)
    assert code == 1
    assert "12 trajectories scored, 0 unsure" in out
    assert "paid although wrong (false positives)" in out
    code, out, _ = run("audit", "score", path, "--n", 12, "--restart", stdin="u\nq\n")
    assert code == 3


def test_replay_of_named_and_picked_episodes(tmp_path: Path) -> None:
    path = write_jsonl(
        tmp_path / "e.jsonl",
        [
            {"step": 1, "group": "a", "index": i, "prompt": "What is 2 + 3 ?", "completion": "so 5", "gold": "5",
             "reward": 1.0, "seed": i}
            for i in range(2)
        ],
    )  # fmt: skip
    code, out, _ = run("audit", "replay", path, "--env", "tests.audit.envs:Sums")
    assert (code, "2 episodes replayed twice; 2 come out as logged" in out) == (0, True)
    code, out, _ = run("audit", "replay", path, "--env", "tests.audit.envs:Crashing", "--episode", "1/a/1")
    assert code == 1
    assert "crash recorded as failure" in out.lower()
    code, _, err = run("audit", "replay", path, "--env", "tests.audit.envs:Sums", "--episode", "9/a/1", "--pick", "top")
    assert (code, "no such episode" in err) == (2, True)


def test_leakage_is_found_and_check_reads_it(tmp_path: Path) -> None:
    from tests.cli.runs import trl_rows

    directory = tmp_path / "run"
    directory.mkdir()
    write_jsonl(directory / "log.jsonl", trl_rows())
    text = "Ada buys 12 apples at the market. How many apples does she have?"
    held = write_jsonl(
        tmp_path / "held.jsonl", [{"question": text, "answer": "12"}, {"question": "Who wrote Faust?", "answer": "G"}]
    )
    sft = write_jsonl(tmp_path / "sft.jsonl", [{"question": text.upper(), "answer": "12"}])
    code, out, _ = run("audit", "leakage", held, "--sft", sft, "--run", directory)
    assert code == 1
    assert "1 of 2" in out
    code, out, _ = run("check", directory, "--format", "json")
    assert code == 1
    assert json.loads(out)["causes"][0]["id"] == "H004"
    assert run("audit", "leakage", held)[0] == 2


def test_compact(tmp_path: Path) -> None:
    from rlvitals import reward_probe

    folder = tmp_path / ".rlvitals" / "rewards"
    reward_probe(lambda completion: 1.0, to=folder)("said")
    code, out, _ = run("audit", "compact", folder, "--remove")
    assert (code, "1 trajectories recorded" in out) == (0, True)
    assert (tmp_path / ".rlvitals" / "rewards.parquet").is_file()
    assert (tmp_path / ".rlvitals" / "rewards-rewards.json").is_file()
    assert list(folder.glob("*.jsonl")) == []
    assert run("audit", "compact", folder)[0] == 2


@pytest.mark.parametrize(
    ("body", "words"),
    [("import os; os._exit(3)", "the process ended with status 3"), ("return [None] * len(completions)", "(None)")],
)
def test_a_verifier_that_dies_or_says_nothing_is_found(tmp_path: Path, body: str, words: str) -> None:
    """In a process of its own: the command line ends quietly on a closed pipe, which a dead worker must not trigger."""
    (tmp_path / "judge.py").write_text(f"def score(prompts, completions, **more):\n    {body}\n")
    tasks = write_jsonl(tmp_path / "tasks.jsonl", [{"prompt": "2+2", "answer": "4"}, {"prompt": "2+3", "answer": "5"}])
    command = [sys.executable, "-m", "rlvitals", "audit", "probe", "judge.py:score", "--tasks", str(tasks)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1, done.stderr
    assert words in " ".join(done.stdout.split())


def test_no_answer_is_no_score(tmp_path: Path) -> None:
    source = rollouts(tmp_path / "base.jsonl", 0.5)
    code, _, err = run("audit", "score", source, "--n", 5, stdin="q\n")
    assert code == 3
    assert "nothing is recorded" in err
    assert not list((tmp_path / ".rlvitals").glob("score*"))


def test_a_limit_that_is_no_number_is_refused(tmp_path: Path) -> None:
    code, _, err = run("preflight", rollouts(tmp_path / "base.jsonl", 0.5), "--solved-at", "nan")
    assert code == 2
    assert "a finite number" in err


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "the file is empty; found 0 bytes"),
        ("\n\n", "the file has no row; found 2 bytes, only blank lines, a header or an empty list"),
        ("[]", "the file has no row; found 2 bytes, only blank lines, a header or an empty list"),
        ("{}\n{}\n", "the file has no value; found 2 rows without one"),
        ("no json\n", "no row could be read; found only this: 1 broken line was skipped"),
    ],
)
def test_a_file_without_rows_is_told_with_a_line_as_it_should_be(tmp_path: Path, content: str, said: str) -> None:
    nothing, tasks = tmp_path / "nothing.jsonl", task_file(tmp_path / "tasks.jsonl")
    nothing.write_text(content)
    task = """expected one row per task, such as this line of JSON: {"prompt": "What is 2 + 3?", "answer": "5"}"""
    rollout = (
        """expected one row per rollout, such as this line of JSON: {"prompt": "What is 2 + 3?", "completion": "5","""
    )
    for args, line in (
        (["audit", "probe", "json:loads", "--tasks", nothing], task),
        (["audit", "leakage", nothing, "--train", tasks], task),
        (["audit", "leakage", tasks, "--train", nothing], task),
        (["audit", "probe", "json:loads", "--tasks", tasks, "--logged", nothing], rollout),
        (["preflight", nothing], rollout),
        (["preflight", nothing, "--map", "reward=score"], rollout),
    ):
        code, out, err = run(*args)
        assert (code, out) == (2, "")
        assert f"rlvitals: {nothing}: {said}; {line}" in err


def test_full_marks_that_nothing_reaches_are_told_with_the_highest_reward(tmp_path: Path) -> None:
    path = rollouts(tmp_path / "base.jsonl", 0.5)
    _, out, err = run("preflight", path, "--solved-at", "2")
    assert "no prompt counts as solved: --solved-at is 2, and the highest reward of 320 rollouts is 1." in err
    assert "such as --solved-at 1" in err
    assert "0% of 320 rollouts" in out
    for reached in ((), ("--solved-at", "1"), ("--solved-at", "0.5")):
        assert "counts as solved" not in run("preflight", path, *reached)[2]
    _, _, err = run("preflight", rollouts(tmp_path / "floor.jsonl", 0.0), "--solved-at", "1")
    assert "the highest reward of 320 rollouts is 0. If the reward can't pay 1, look at the reward first" in err
    _, _, err = run("audit", "score", path, "--solved-at", "2", stdin="q\n")
    assert "--solved-at is 2, and the highest reward of 320 rollouts is 1." in err


def graded_run(folder: Path, shared: Path) -> Path:
    """Return a run whose dump has two reward parts and no total, beside a log that tells their weights."""
    return Path(shutil.copytree(shared / "formats" / "trl_real_run", folder / "real", copy_function=shutil.copyfile))


def test_a_reward_without_a_total_is_weighed_as_the_log_tells_or_said_to_be_a_plain_sum(
    tmp_path: Path, shared: Path
) -> None:
    folder = graded_run(tmp_path, shared)
    folder.chmod(0o755)
    _, _, err = run("audit", "score", folder, stdin="w\nq\n")
    assert "reward = 1 x correct + 0.5 x digit_frac, as the logged rewards tell" in err
    assert "The pipeline: wrong (reward 0.227273)" in err
    part = folder / "completions" / "completions_00001.parquet"
    _, _, err = run("audit", "score", part, "--run", tmp_path, stdin="q\n")
    assert "the sum of the parts, unweighted: the logged reward is not in this file" in err


def test_graded_rewards_are_tied_by_their_own_values(tmp_path: Path, shared: Path) -> None:
    folder = graded_run(tmp_path, shared)
    folder.chmod(0o755)
    _, out, _ = run("preflight", folder)
    text = " ".join(out.split())
    assert "groups all right or all wrong can still carry a reward difference" in text
    assert "without a reward difference, by group size k value 95% 2 12% 4.3% to 21% 4 0% 0% to 49%" in text
    assert "all right or all wrong, by group size k value 95% 4 100%" in text


def test_what_is_not_understood_is_said_and_the_trajectory_is_not_shown_again(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    write_rows([row(i, completion="", reward=float(i % 2)) for i in range(12)], path)
    _, _, err = run("audit", "score", path, "--n", 2, stdin="x\n\nreward\nr\nq\n")
    assert "Not understood: 'x'." in err
    assert "Not understood: 'reward'." in err
    assert err.count("== 1 of 2") == 1
    assert "-- Completion --\n(empty)" in err
    assert err.count("The pipeline:") == 1


@pytest.mark.parametrize("name", ["console.log", "trainer_state.json"])
def test_a_log_without_rollouts_is_told_as_one_with_what_to_log(name: str, tmp_path: Path, shared: Path) -> None:
    path = tmp_path / name
    path.write_bytes((shared / "formats" / "trl_real_run" / name).read_bytes())
    for command in (["audit", "score"], ["preflight"]):
        code, _, err = run(*command, path)
        assert code == 2
        assert "this is a log of TRL without rollouts" in err
        assert "set `log_completions=True`" in err
        assert "broken line" not in err
