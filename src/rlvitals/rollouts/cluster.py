"""The facts of a dump counted by a Ray cluster: the same functions as on one machine, on parts of its files.

Every part is a task; a task whose worker dies is run again elsewhere. The workers see the same files under the same
paths (a shared file system).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rlvitals.errors import InputError, Problem
from rlvitals.rollouts import counting
from rlvitals.rollouts.counting import Pass
from rlvitals.rollouts.dump import Rollouts
from rlvitals.rollouts.fact import Fact
from rlvitals.rollouts.facts import FACTS
from rlvitals.rollouts.fold import Folded
from rlvitals.rollouts.sample import PER_STEP, Chosen

RETRIES = 3  # times a task is run again after its worker died (Ray's own default)
PART = 256 * 2**20  # bytes of files per task


def count(
    rollouts: Rollouts,
    facts: Sequence[Fact] = FACTS,
    *,
    text_sample: int | None = PER_STEP,
    address: str | None = None,
    part: int = PART,
) -> tuple[Folded, Rollouts]:
    """Return what the facts counted, as `counting.count` does.

    Args:
        address: of a running cluster ("auto" finds it); None uses the one that is connected, else starts a local one.
        part: bytes of files per task.

    Raises InputError when Ray is not installed or nothing can be read.
    """
    ray = _ray()
    if not ray.is_initialized():
        ray.init(address=address, log_to_driver=False, include_dashboard=False)
    pieces = parts(rollouts, part)
    facts = tuple(facts)
    run = ray.remote(max_retries=RETRIES)
    try:
        if text_sample is None or not any(f.reads_text for f in facts):
            task = run(counting.at_once)
            passes: list[Pass] = ray.get([task.remote(p, facts, text_sample) for p in pieces])
            folded = Folded.merge([p.folded for p in passes])
        else:
            task = run(counting.numbers)
            passes = ray.get([task.remote(p, facts, text_sample) for p in pieces])
            chosen = Chosen.merge([p.chosen for p in passes if p.chosen is not None], text_sample)
            reading = run(counting.texts)
            told = [reading.remote(p, facts, chosen, done.grouper) for p, done in zip(pieces, passes, strict=True)]
            folded = Folded.merge([*(p.folded for p in passes), *ray.get(told)])
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, InputError):
            raise error.cause from error
        raise
    folded = counting.with_excerpts(rollouts, folded)
    return folded, counting.described(rollouts, passes, folded)


def parts(rollouts: Rollouts, size: int) -> list[Rollouts]:
    """Return the dump in parts of about `size` bytes, cut between files and never where files need each other."""
    if rollouts.reader.together or len(rollouts.files) < 2:
        return [rollouts]
    blocks: list[list[Path]] = []
    for path in rollouts.files:
        if blocks and rollouts.reader.folder_is_step and blocks[-1][-1].parent == path.parent:
            blocks[-1].append(path)
        else:
            blocks.append([path])
    out: list[list[Path]] = [[]]
    held = 0
    for block in blocks:
        bytes_ = sum(p.stat().st_size for p in block if p.exists())
        if out[-1] and held + bytes_ > size:
            out.append([])
            held = 0
        out[-1] += block
        held += bytes_
    return [replace(rollouts, files=tuple(files)) for files in out]


def _ray() -> Any:
    try:
        import ray
    except ImportError:
        raise InputError(
            Problem("Ray is not installed", "--engine ray", hint="Install it with: pip install 'rlvitals[ray]'")
        ) from None
    return ray
