"""A dump that grows is counted as a whole one, at the cost of what is new."""

from __future__ import annotations

import errno
import json
import os
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlvitals.rollouts import growing as module
from rlvitals.rollouts import grown
from rlvitals.rollouts.counting import count
from rlvitals.rollouts.dump import open_rollouts
from rlvitals.rollouts.fact import Apart, Fact
from rlvitals.rollouts.facts import FACTS
from rlvitals.rollouts.growing import Growing
from rlvitals.rollouts.sample import PER_STEP
from tests.live.site import rollout_rows
from tests.rollouts.dumps import parquet, rollouts, verl


def lines(steps: int, **more: Any) -> list[str]:
    rows = rollout_rows(steps, 3, 4)
    for row in rows:
        row |= {"tier": f"t{row['index'] % 2}", "env_version": f"v{row['step'] // 20}", "temperature": 1.0, **more}
    return [json.dumps(row) + "\n" for row in rows]


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(text)


def same(kept: Growing, folder: Path, facts: Sequence[Fact] = FACTS) -> None:
    """What was counted piece by piece is what the whole dump gives: series, examples, notes."""
    ours, mine = kept.count(open_rollouts(folder))
    whole, theirs = count(open_rollouts(folder), facts)
    a, b = ours.series(), whole.series()
    assert sorted(a) == sorted(b)
    for name in b:
        np.testing.assert_array_equal(a[name][0], b[name][0], name)
        np.testing.assert_allclose(a[name][1], b[name][1], rtol=1e-12, atol=1e-12, err_msg=name)
    if facts is FACTS:
        assert sorted(map(repr, mine.examples)) == sorted(map(repr, theirs.examples))
    assert sorted(map(str, mine.notes())) == sorted(map(str, theirs.notes()))
    assert (mine.count, mine.grouping, set(mine.columns)) == (theirs.count, theirs.grouping, set(theirs.columns))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_file_that_grows_by_any_bytes_is_counted_as_a_whole(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    text = "".join(lines(50))
    kept, at = Growing(), 0
    while at < len(text):
        upto = min(at + rng.randrange(1, len(text) // 5), len(text))
        put(tmp_path / "all.jsonl", text[at:upto])
        at = upto
        if open_rollouts_ready(tmp_path):
            same(kept, tmp_path)
    same(kept, tmp_path)


def open_rollouts_ready(folder: Path) -> bool:
    return "\n" in (folder / "all.jsonl").read_text()


def test_only_what_is_new_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = lines(60)
    put(tmp_path / "all.jsonl", "".join(text[:600]))
    kept = Growing()
    kept.count(open_rollouts(tmp_path))
    copied = []
    real = grown._copied
    monkeypatch.setattr(grown, "_copied", lambda piece, folder: copied.append(piece) or real(piece, folder))
    for n in range(600, 720, 12):
        put(tmp_path / "all.jsonl", "".join(text[n : n + 12]))
        kept.count(open_rollouts(tmp_path))
    assert sum(p.end - p.begin for p in copied) == len("".join(text[600:]))
    assert kept._folded is not None
    apart = [f.name for f in FACTS if f.apart is not Apart.NEVER]
    steps = [kept._folded.sums[name].keys[0] for name in apart if name in kept._folded.sums]
    assert min(int(s.min()) for s in steps if s.size) == 59 - module.OPEN, "the sums of old steps are let go"


def test_broken_lines_keep_the_numbers_of_the_rows_after_them(tmp_path: Path) -> None:
    text = lines(20)
    kept = Growing()
    for n in range(0, 240, 24):
        put(tmp_path / "all.jsonl", "".join(text[n : n + 24]) + "{broken\n" * (n % 48 == 0))
        same(kept, tmp_path)


def test_files_per_step_with_and_without_ids(tmp_path: Path) -> None:
    for name, uid in (("ids", True), ("none", False)):
        kept = Growing()
        for steps in ((1, 2), (3,), (4, 5, 6), (7,)):
            verl(tmp_path / name, rollouts(steps), uid=uid)
            same(kept, tmp_path / name)


def test_files_that_end_without_a_line_end(tmp_path: Path) -> None:
    kept = Growing()
    for step in range(1, 8):
        rows = [json.dumps(r) for r in rollout_rows(step, 2, 4) if r["step"] == step]
        put(tmp_path / f"{step}.jsonl", "\n".join(rows))
        same(kept, tmp_path)
        same(kept, tmp_path)


def test_parquet_files_count_once_they_are_old_and_are_seen_before(tmp_path: Path) -> None:
    kept = Growing()
    for step in range(1, 5):
        rows = [r for r in rollout_rows(step, 2, 4) if r["step"] == step]
        path = parquet(tmp_path / "run" / f"step_{step}.parquet", rows, tmp_path)
        same(kept, tmp_path / "run")
        if step < 4:
            os.utime(path, (1e9, 1e9))
    assert len(kept._grown._known) == 3


def test_a_run_that_goes_back_far_is_counted_from_its_start(tmp_path: Path) -> None:
    text = lines(60)
    plain = [f for f in FACTS if f.name != "phrases"]  # a phrase is told from the texts of a step that stand together
    kept = Growing(plain)
    for part in (text, text[240:480], lines(70)[720:]):
        put(tmp_path / "all.jsonl", "".join(part))
        same(kept, tmp_path, plain)


def test_a_file_written_anew_is_counted_from_its_start(tmp_path: Path) -> None:
    kept = Growing()
    put(tmp_path / "all.jsonl", "".join(lines(30)))
    same(kept, tmp_path)
    (tmp_path / "all.jsonl").write_text("".join(lines(25, temperature=0.5)))
    same(kept, tmp_path)
    put(tmp_path / "more.jsonl", "".join(lines(40)[360:]))
    same(kept, tmp_path)
    (tmp_path / "more.jsonl").unlink()
    same(kept, tmp_path)


def test_large_pieces_and_large_files_come_out_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grown, "PIECE", 20_000)
    monkeypatch.setattr(module, "ONE_PASS", 10_000)
    put(tmp_path / "lines" / "all.jsonl", "".join(lines(30)))
    same(Growing(), tmp_path / "lines")
    for step in (1, 2, 3):
        rows = [r for r in rollout_rows(step, 30, 4) if r["step"] == step]
        os.utime(parquet(tmp_path / "files" / f"step_{step}.parquet", rows, tmp_path), (1e9, 1e9))
    same(Growing(), tmp_path / "files")


def test_text_that_comes_too_fast_is_sampled_and_the_share_is_told(tmp_path: Path) -> None:
    kept = Growing(text_share=1e-9)
    text = [json.dumps(r) + "\n" for r in rollout_rows(40, 8, 8)]
    put(tmp_path / "all.jsonl", "".join(text[:640]))
    assert kept.count(open_rollouts(tmp_path))[1].sampled_share == 1.0
    put(tmp_path / "all.jsonl", "".join(text[640:]))
    ours, mine = kept.count(open_rollouts(tmp_path))
    whole, _ = count(open_rollouts(tmp_path))
    assert ours.rollouts == 40 * PER_STEP
    assert 0.25 < mine.sampled_share < 0.5
    assert f"text of {100 * mine.sampled_share:.3g}% of them" in str(mine.notes()[0])
    a, b = ours.series(), whole.series()
    for name in (m for f in FACTS if not f.reads_text for m in f.metrics if m in b):
        np.testing.assert_array_equal(a[name][1], b[name][1])


def test_a_full_temporary_folder_costs_time_and_no_rollout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept, real, full = Growing(), grown._copied, False

    def copied(piece: grown.Piece, folder: Path) -> Path:
        if full:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(piece, folder)

    monkeypatch.setattr(grown, "_copied", copied)
    text = lines(30)
    for n in range(0, 360, 60):
        full = 120 <= n < 240
        put(tmp_path / "all.jsonl", "".join(text[n : n + 60]))
        same(kept, tmp_path)
