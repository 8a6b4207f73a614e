"""A small notation for test series, so that a case file can be skimmed.

    "0.2 x50"                 0.2 for 50 rows
    "0.2->0.8 x100 ~0.02"     a line from 0.2 to 0.8 over 100 rows, Gaussian noise of sd 0.02
    "0.3=>0.01 x60 ~10%"      a straight line in log space, multiplicative noise of 10%
    "0.2 x50; nan x10; 1, 0, 1"   parts one after another; commas list single values
    "(0, 1) x40"              a pattern repeated 40 times

Noise comes from one generator seeded by the series' name, so a case always sees the same rows.
"""

from __future__ import annotations

import re
import zlib

import numpy as np


def series(text: str, *, seed: str = "") -> np.ndarray:
    """Return float64[rows] for one series in the notation above."""
    rng = np.random.default_rng(zlib.crc32(seed.encode()))
    return np.concatenate([_part(p.strip(), rng) for p in text.split(";") if p.strip()])


def _part(part: str, rng: np.random.Generator) -> np.ndarray:
    pattern = re.match(r"^\((.*)\) x(\d+)(?: ~([\d.e-]+))?$", part)
    if pattern:
        values = np.tile([float(v) for v in pattern[1].split(",")], int(pattern[2]))
        return values + rng.normal(0, float(pattern[3]), values.size) if pattern[3] else values
    if "," in part:
        return np.array([float(v) for v in part.split(",")])
    noise = re.search(r" ~([\d.e-]+)(%?)$", part)
    core = part[: noise.start()] if noise else part
    times = re.search(r" x(\d+)$", core)
    n = int(times[1]) if times else 1
    core = core[: times.start()] if times else core
    if "=>" in core:
        a, b = (float(v) for v in core.split("=>"))
        out = np.exp(np.linspace(np.log(a), np.log(b), n))
    elif "->" in core:
        a, b = (float(v) for v in core.split("->"))
        out = np.linspace(a, b, n)
    else:
        out = np.full(n, float(core))
    if noise:
        size = float(noise[1])
        out = out * np.exp(rng.normal(0, size / 100, n)) if noise[2] else out + rng.normal(0, size, n)
    return out
