"""rlvitals.toml: what it may hold, where it is looked for, and all its problems at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlvitals.checks import CHECKS
from rlvitals.errors import InputError
from rlvitals.settings import CheckOff, check_names, find_settings, load_settings

GOOD = """
[map]
reward_mean = "my/reward"
"reward_part/format" = "fmt"
step = "it"
"eval:heldout" = "val_acc"

[thresholds]
"S010.limit" = 0.5
S020.floor = 2

[config]
max_version_lag = 4
reward_min = 0
reward_max = 2.0
temperature = 0.8
advantage_scaling = "none"

[price]
gpus = 8
per_gpu_hour = 2.5

[checks]
off = [{id = "S010", reason = "one prompt per step by design"}]

[evals]
math = "scores.csv"
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "rlvitals.toml"
    path.write_text(text)
    return path


def test_everything_it_may_hold(tmp_path: Path) -> None:
    (tmp_path / "scores.csv").write_text("step,score\n1,0.5\n")
    settings = load_settings(write(tmp_path, GOOD))
    assert settings.map == {
        "reward_mean": "my/reward", "reward_part/format": "fmt", "step": "it", "eval:heldout": "val_acc",
    }  # fmt: skip
    assert settings.thresholds == {"S010.limit": 0.5, "S020.floor": 2.0}
    assert settings.config.known() == {
        "temperature": 0.8, "advantage_scaling": "none", "max_version_lag": 4.0, "reward_min": 0.0, "reward_max": 2.0,
        "gpus": 8.0, "price_per_gpu_hour": 2.5,
    }  # fmt: skip
    assert set(settings.config.sources.values()) == {"user"}
    assert settings.off == (CheckOff("S010", "one prompt per step by design"),)
    assert settings.evals == {"math": tmp_path / "scores.csv"}


def test_all_problems_at_once_with_the_nearest_name(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        'treshold = 1\n[map]\nreward_men = "x"\nentropy = 3\n[thresholds]\n"S010.limit" = nan\nlimit = 1\n'
        "[config]\ntemprature = 1.0\ntop_p = 1.5\nreward_min = 2\nreward_max = 1\n[price]\ngpu = 8\n"
        '[checks]\noff = [{id = "S010"}, "S020"]\n[evals]\nmath = "nowhere.csv"\n',
    )
    with pytest.raises(InputError) as caught:
        load_settings(path)
    text = [str(problem) for problem in caught.value.problems]
    assert len(text) == 12
    for part in (
        "Nearest: thresholds", "Nearest: reward_mean", "[map] entropy: Wrong kind of value; found 3",
        "[thresholds] S010.limit: Wrong kind of value; found nan",
        "[thresholds] limit: Not a threshold's name; found limit; expected ID.name", "Nearest: temperature",
        "[config] top_p: Value out of range or of a wrong kind; found 1.5",
        "reward_min 2, reward_max 1", "Nearest: gpus", "No reason to switch off S010", "found 'S020'", "nowhere.csv",
    ):  # fmt: skip
        assert any(part in line for line in text), part


def test_broken_toml(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not valid TOML"):
        load_settings(write(tmp_path, "[map\n"))
    with pytest.raises(InputError, match="Cannot read the settings file"):
        load_settings(tmp_path / "missing.toml")


def test_ids_and_thresholds_that_no_check_has(tmp_path: Path) -> None:
    settings = load_settings(
        write(tmp_path, '[thresholds]\n"S01.limit" = 1\n[checks]\noff = [{id="S011", reason="x"}]\n')
    )
    check_names(settings, {"S011"}, {"S01.limit"})
    with pytest.raises(InputError) as caught:
        check_names(settings, {"S010"}, {"S010.limit"})
    assert [p.hint for p in caught.value.problems] == ["Nearest: S010.limit", "Nearest: S010"]


def test_looked_up_beside_the_run_and_upwards(tmp_path: Path) -> None:
    run = tmp_path / "work" / "runs" / "a"
    run.mkdir(parents=True)
    log = run / "log.jsonl"
    log.write_text("{}")
    work = tmp_path / "work"
    write(tmp_path, "")
    assert find_settings(log, cwd=work) is None  # above the working directory is not looked at
    top = write(work, "")
    assert find_settings(log, cwd=work) == top
    beside = write(run, "")
    assert find_settings(run, cwd=work) == beside
    elsewhere = tmp_path / "other"
    elsewhere.mkdir()
    (run / "rlvitals.toml").unlink()
    mine = write(elsewhere, "")
    assert find_settings(log, cwd=elsewhere) == mine


def test_versions_of_environment_and_reward(tmp_path: Path) -> None:
    settings = load_settings(write(tmp_path, '[config.versions]\nenvironment = "1.2"\nreward = 3\n'))
    assert settings.config.versions == {"environment": "1.2", "reward": "3"}


def test_versions_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        load_settings(write(tmp_path, '[config]\nversions = "1.2"\n'))
    assert "[config.versions]" in str(caught.value)
    with pytest.raises(InputError, match=r"\[config\.versions\] reward"):
        load_settings(write(tmp_path, "[config.versions]\nreward = [1]\n"))


def test_the_example_of_the_page_loads(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "settings.md").read_text()
    text = page.split("```toml\n")[1].split("```")[0]
    (tmp_path / "evals").mkdir()
    (tmp_path / "evals" / "math500.csv").write_text("step,score\n10,0.3\n")
    path = tmp_path / "rlvitals.toml"
    path.write_text(text)
    settings = load_settings(path)
    assert settings.map["reward_mean"] == "my/total_reward"
    assert settings.thresholds == {"L001.watch_share": 0.05, "S001.tied_share": 0.6}
    assert (settings.config.max_version_lag, settings.config.price_per_gpu_hour) == (4, 2.5)
    assert [off.id for off in settings.off] == ["U002"]
    known = {f"{c.id}.{t.name}" for c in CHECKS for t in c.thresholds}
    assert set(settings.thresholds) <= known
