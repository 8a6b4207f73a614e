"""The text facts' measures in plain words: what the arrays of `rollouts/facts/words.py` must agree with to the bit."""

from __future__ import annotations

import re
import zlib

import numpy as np

MASK = 2**64 - 1


def words(text: str) -> list[str]:
    part = text[:4000].lower()
    found = part.split()
    return found if len(found) * 20 >= len(part) else list(part.replace(" ", ""))


def crc(text: str) -> int:
    return zlib.crc32(text.encode("utf-8", "replace"))


def runs(of: list[str], size: int) -> list[str]:
    return [" ".join(of[i : i + size]) for i in range(len(of) - size + 1)]


def shingles(text: str) -> set[str]:
    found = words(text)
    return set(runs(found, 3)) if len(found) > 3 else {" ".join(found)}


def approach(text: str) -> set[str]:
    plain = re.sub(r"[-+]?\d[\d.,/]*", "#", text[:4000].lower())
    pieces = [" ".join(p.split()[:3]) for p in re.split(r"[.!?;\n]+", plain) if p.strip()]
    return {f"{a} > {b}" for a, b in zip(["", *pieces], pieces, strict=False)}


def signature(parts: set[str]) -> list[int]:
    out = []
    for slot in range(8):
        salt = (2654435761 * (slot + 1)) % 2**32
        mixed = []
        for part in parts:
            x = ((crc(part) ^ salt) * 0x9E3779B97F4A7C15) & MASK
            mixed.append((((x ^ (x >> 29)) * 0xBF58476D1CE4E5B9) & MASK) >> 12)
        out.append(min(mixed))
    return out


def phrase_codes(text: str) -> set[int]:
    parts = [text] if len(text) <= 4000 else [text[:2000], text[-2000:]]
    out = set()
    for part in parts:
        each = [crc(w) | 1 for w in words(part)]
        for i in range(len(each) - 3):
            code = 0
            for k in range(4):
                code = ((code ^ each[i + k]) * 0x9E3779B97F4A7C15) & MASK
                code ^= code >> 31
            out.add((code >> 12) | 1)
    return out


def repetition(text: str) -> tuple[float, float, float]:
    found = words(text[-4000:])
    triples = list(zip(found, found[1:], found[2:], strict=False))
    distinct = len(set(triples)) / len(triples) if len(found) >= 50 else np.nan
    data = text[-4000:].encode("utf-8", "replace")
    size = len(zlib.compress(data, 1)) / len(data) if len(data) >= 600 else np.nan
    return float(loops(found) or distinct < 0.4 or size < 0.2), distinct, size


def loops(found: list[str]) -> bool:
    tail = found[-200:]
    for period in range(1, len(tail) // 3 + 1):
        length = period
        while length < len(tail) and tail[-1 - length] == tail[-1 - length + period]:
            length += 1
        if length >= 3 * period and length >= max(0.25 * len(tail), 12):
            return True
    return False
