"""Every trainer's dump gives the rollouts of the run behind it."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlvitals.errors import InputError
from rlvitals.rollouts.counting import count
from rlvitals.rollouts.dump import Rollouts, open_rollouts
from rlvitals.rollouts.grouping import Grouper
from rlvitals.rollouts.readers import slime
from rlvitals.rollouts.skips import Skips
from rlvitals.rollouts.table import Batch
from tests.rollouts.dumps import jsonl, parquet, rollouts, trl, verl

# sample -> reader, steps by which it counts from 0, what the reward is made of, how groups are told
SAMPLES: dict[str, tuple[str, int, str, str]] = {
    "verl/rollout_v0": ("verl rollouts", 0, "reward", "position"),
    "verl/rollout_v1": ("verl rollouts", 0, "reward", "id"),
    "prime_rl": ("prime-rl traces", 0, "reward", "id"),
    "open_instruct": ("open-instruct traces", 0, "ten times", "id"),
    "tinker_cookbook": ("tinker-cookbook summaries", 1, "reward", "id"),
    "roll": ("ROLL rollout dump", 1, "reward", "id"),
    "ms_swift": ("ms-swift completions", 0, "sum", "position"),
    "rllm": ("rLLM episodes", 0, "reward", "id"),
}


def truth(shared: Path) -> dict[int, list[dict[str, Any]]]:
    out: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for line in (shared / "formats/_truth/rollouts.jsonl").read_text().splitlines():
        row = json.loads(line)
        out[row["step"]].append(row)
    return out


def reward(row: dict[str, Any], made_of: str) -> float:
    if made_of == "sum":
        return sum(row["reward_components"].values())
    return row["reward"] * (10 if made_of == "ten times" else 1)


def scanned(dump: Rollouts, **how: Any) -> Batch:
    return Batch.joined(list(dump.scan(**how)))


@pytest.mark.parametrize("name", SAMPLES)
def test_sample_holds_the_run_behind_it(shared: Path, name: str) -> None:
    reader, base, made_of, how = SAMPLES[name]
    dump = open_rollouts(shared / "formats" / name)
    assert dump.reader.name == reader
    grouper = Grouper()
    found = scanned(dump, grouper=grouper)
    assert grouper.found().how == how
    for step, rows in truth(shared).items():
        at = np.flatnonzero(found.integer("step") == step - base)
        want = sorted(round(reward(r, made_of), 6) for r in rows)
        assert sorted(found.number("reward")[at].round(6).tolist()) == want
        assert len(set(found.text("group")[at].tolist())) == len({r["group"] for r in rows})


def test_areal_groups_are_tasks_and_steps_are_told_by_the_version(shared: Path) -> None:
    dump = open_rollouts(shared / "formats/areal")
    skips = Skips()
    found = scanned(dump, skips=skips)
    want = sorted(r["reward"] for rows in truth(shared).values() for r in rows)
    assert sorted(found.number("reward").tolist()) == want
    names = found.text("group").tolist()
    assert (len(set(names)), {names.count(n) for n in set(names)}) == (64, {4})
    assert found.integer("step").max() == 15
    assert "no training step" in skips.notes()[0].text
    lag = found.integer("step") - found.integer("policy_version")
    assert lag.min() >= 0


def test_nemo_rl_lists_are_unwrapped(shared: Path) -> None:
    found = scanned(open_rollouts(shared / "formats/nemo_rl", group_size=4))
    rows = truth(shared)[2]
    at = found.integer("step") == 2
    assert found.number("reward")[at].tolist() == [r["reward"] for r in rows]
    assert found.number("advantage")[at].tolist() == [r["advantage"] for r in rows]
    assert found.integer("tokens")[at].tolist() == [r["completion_tokens"] for r in rows]
    assert float(found.number("mismatch_abs_mean")[at].max()) < 0.02
    assert len(set(found.text("group")[at])) == 4


def test_skyrl_and_verl_validation_are_held_out(shared: Path) -> None:
    for name, rows in (("skyrl", 48), ("verl/validation", 48)):
        dump = open_rollouts(shared / "formats" / name)
        assert dump.files == ()
        found = scanned(dump, evaluation=True)
        assert set(found.text("split")) == {"eval"}
        assert found.rows == rows
    assert count(open_rollouts(shared / "formats/skyrl"))[0].rollouts == 0


def test_trl_weights_are_unknown_and_evaluations_are_told_by_the_log(shared: Path) -> None:
    dump = open_rollouts(shared / "formats/trl/grpo_out", group_size=4, evaluated=frozenset({5, 10, 15, 16}))
    folded, found = count(dump)
    assert folded.rollouts == 12 * 16
    assert found.skips.rollouts == 0  # the overwritten ones are kept, as held-out
    assert "evaluation that overwrote" in found.skips.notes()[0].text
    assert found.skips.notes()[0].count == 4 * 12
    assert folded.series()["rollouts/reward_part/correct"][1].size == 12


def test_trl_evaluations_are_suspected_without_a_log(shared: Path) -> None:
    _, found = count(open_rollouts(shared / "formats/trl/grpo_out"))
    note = next(n for n in found.skips.notes() if "evaluations" in n.text)
    assert (note.count, Path(note.file).name) == (4, "completions_00005.parquet")


def test_trl_file_written_again_counts_once(tmp_path: Path) -> None:
    rows = rollouts((1,))
    again = [r | {"step": 2} for r in rows]
    folder = trl(tmp_path / "out", [*rows, *again, *rollouts((3,))], tmp_path)
    skips = Skips()
    found = scanned(open_rollouts(folder), skips=skips)
    assert set(found.integer("step").tolist()) == {1, 3}
    assert skips.rollouts == 8
    assert skips.notes()[0].text.startswith("completions written again")
    assert found.number("correct").tolist() == [r["reward"] for r in (*rows, *rollouts((3,)))]
    assert found.number("reward").tolist() == [r["reward"] + 1.0 for r in (*rows, *rollouts((3,)))]


def test_verl_without_uid_is_grouped_by_prompt(tmp_path: Path) -> None:
    grouper = Grouper()
    found = scanned(open_rollouts(verl(tmp_path / "dump", rollouts(), uid=False)), grouper=grouper)
    assert grouper.found().how == "prompt"
    series = count(open_rollouts(tmp_path / "dump"))[0].series()
    assert series["rollouts/group_size_min"][1].tolist() == [4.0] * 3
    assert found.rows == 24


def test_verl_steps_that_two_folders_have_count_once(tmp_path: Path) -> None:
    verl(tmp_path / "run/rollouts_a", rollouts())
    verl(tmp_path / "run/rollouts_b", rollouts())
    dump = open_rollouts(tmp_path / "run")
    assert {p.parent.name for p in dump.files} == {"rollouts_b"}
    assert dump.left_out == ("rollouts_a/1.jsonl (3 files whose steps another folder has too)",)


def test_a_restart_in_one_file_is_said(tmp_path: Path) -> None:
    rows = [r | {"group": str(r["group"])} for r in (*rollouts(range(1, 31)), *rollouts(range(28, 40)))]
    _, found = count(open_rollouts(jsonl(tmp_path / "dump.jsonl", rows)))
    assert any("steps go back" in note.text and note.count == 1 for note in found.notes())
    assert found.count == 42 * 8
    again = [r for pair in zip(rows[:80], rows[80:160], strict=True) for r in pair]  # two writers, no order
    _, found = count(open_rollouts(jsonl(tmp_path / "mixed.jsonl", again)))
    assert not any("steps go back" in note.text for note in found.notes())


def test_slime_pickles_are_never_opened(tmp_path: Path) -> None:
    path = tmp_path / "rollout_data/0.pt"
    path.parent.mkdir()
    path.write_bytes(b"cos\nsystem\n(S'true'\ntR.")
    with pytest.raises(InputError, match="a pickle is not opened") as error:
        open_rollouts(tmp_path)
    assert "--how-to-convert" in str(error.value)
    compile(slime.CONVERT, "convert.py", "exec")


def test_our_own_parquet_and_jsonl_say_the_same(tmp_path: Path) -> None:
    rows = [r | {"reward_part/format": 0.5, "stop_reason": "eos"} for r in rollouts()]
    folders = [tmp_path / "a", tmp_path / "b"]
    parquet(folders[0] / "step_1.parquet", rows, tmp_path)
    jsonl(folders[1] / "step_1.jsonl", rows)
    found = [scanned(open_rollouts(f)) for f in folders]
    assert [open_rollouts(f).reader.name for f in folders] == ["rlvitals rollouts"] * 2
    for name in ("step", "index", "reward", "reward_part/format"):
        assert found[0].columns[name].tolist() == found[1].columns[name].tolist()
    assert found[0].text("stop_reason").tolist() == ["eos"] * 24


@pytest.mark.parametrize("kind", ["jsonl", "parquet", "csv"])
def test_any_flat_dump_with_a_map(tmp_path: Path, kind: str) -> None:
    rows = [{"it": r["step"], "who": r["group"], "r": r["reward"], "said": r["completion"]} for r in rollouts()]
    path = tmp_path / f"mine.{kind}"
    if kind == "jsonl":
        jsonl(path, rows)
    elif kind == "parquet":
        parquet(path, rows, tmp_path)
    else:
        lines = [",".join(map(str, row.values())) for row in rows]
        path.write_text("\n".join(["it,who,r,said", *lines]) + "\n")
    mapping = {"step": "it", "group": "who", "reward": "r", "completion": "said"}
    found = scanned(open_rollouts(path, mapping=mapping))
    assert found.number("reward").tolist() == [r["reward"] for r in rollouts()]
    assert found.text("group").tolist() == [str(r["group"]) for r in rollouts()]
    with pytest.raises(InputError, match="mapped key is not in the dump"):
        list(open_rollouts(path, mapping={"step": "it", "reward": "none_such"}).scan())
