"""Texts as hashes of their words, once for all facts that read text.

A run of words has one hash: the CRC-32 of the words joined by spaces. It is computed from the CRCs of the words alone:
a CRC is linear, so that crc(a + b) = shift(crc(a), len(b)) ^ crc(b) (the identity behind zlib's crc32_combine).
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rlvitals.rollouts.table import Batch
from rlvitals.schema import Int64

CHARS = 4_000  # of a text that are read
LONGEST = 64  # bytes of a word up to which a shift is tabulated; a longer one is shifted in several goes
MOST_KEPT = 20_000  # rollouts of a batch whose words are kept for the next fact: about 4 kB each
UInt32 = npt.NDArray[np.uint32]
UInt64 = npt.NDArray[np.uint64]
_SPACE = np.uint32(zlib.crc32(b" "))
# what str.lower and str.split do to ASCII: the separators 28 to 31 count as spaces
_ASCII = bytes(32 if 28 <= b <= 31 else b + 32 if 65 <= b <= 90 else b for b in range(256))


def words_of(text: str) -> list[str]:
    """Return the words of a text, its characters where it is written without spaces."""
    part = text[:CHARS].lower()
    words = part.split()
    return words if len(words) * 20 >= len(part) else list(part.replace(" ", ""))


def coded_words(text: str) -> list[bytes]:
    """Return the same words as bytes."""
    part = text[:CHARS]
    if part.isascii():
        words = part.encode().translate(_ASCII).split()
        if len(words) * 20 >= len(part):
            return words
    return [w.encode("utf-8", "replace") for w in words_of(part)]


@dataclass(frozen=True, slots=True)
class Hashed:
    """The words of one or more texts: uint32[words] CRC-32 and int64[words] bytes of each."""

    crc: UInt32
    size: Int64

    @classmethod
    def of(cls, words: Sequence[bytes]) -> Hashed:
        return cls(
            np.fromiter(map(zlib.crc32, words), dtype=np.uint32, count=len(words)),
            np.fromiter(map(len, words), dtype=np.int64, count=len(words)),
        )

    def run_crcs(self, words: int) -> UInt32:
        """Return uint32[words + 1 - `words`]: the CRC-32 of so many words from each one on, joined by spaces."""
        runs = max(self.crc.size - words + 1, 0)
        spaced = _shifted(np.full(self.crc.size, _SPACE, dtype=np.uint32), self.size) ^ self.crc
        out = self.crc[:runs]
        for k in range(1, words):
            out = _shifted(out, self.size[k : k + runs] + 1) ^ spaced[k : k + runs]
        return out

    def run_codes(self, words: int) -> UInt64:
        """Return uint64[words + 1 - `words`]: a number for so many words from each one on; equal runs share it."""
        each = self.crc.astype(np.uint64) | np.uint64(1)
        runs = max(each.size - words + 1, 0)
        code = np.zeros(runs, dtype=np.uint64)
        with np.errstate(over="ignore"):
            for k in range(words):
                code ^= each[k : k + runs]
                code *= np.uint64(0x9E3779B97F4A7C15)
                code ^= code >> np.uint64(31)
        return code


@dataclass(frozen=True, slots=True)
class Joined:
    """Several texts, one after the other.

    Attributes:
        owner: int64[words], the text that each word stands in.
        starts: int64[texts + 1], where each text begins, and the end.
    """

    words: Hashed
    owner: Int64
    starts: Int64

    @classmethod
    def of(cls, texts: Sequence[Hashed]) -> Joined:
        sizes = np.array([t.crc.size for t in texts], dtype=np.int64)
        words = Hashed(np.concatenate([t.crc for t in texts]), np.concatenate([t.size for t in texts]))
        return cls(words, np.repeat(np.arange(sizes.size), sizes), np.concatenate([[0], np.cumsum(sizes)]))

    def inside(self, words: int) -> npt.NDArray[np.bool_]:
        """Return bool[runs]: the run of so many words from each one on lies within one text."""
        runs = max(self.owner.size - words + 1, 0)
        return np.asarray(self.owner[:runs] == self.owner[words - 1 : words - 1 + runs])


class Texts:
    """The completions of a batch, hashed when first asked for; a text of up to CHARS characters once."""

    def __init__(self, texts: npt.NDArray[np.object_]) -> None:
        self._texts = texts
        self._whole: dict[int, Hashed] = {}

    def head(self, at: int) -> Hashed:
        """Return the words of the first CHARS characters."""
        return self._short(at) or Hashed.of(coded_words(self._texts[at][:CHARS]))

    def tail(self, at: int) -> Hashed:
        """Return the words of the last CHARS characters."""
        return self._short(at) or Hashed.of(coded_words(self._texts[at][-CHARS:]))

    def ends(self, at: int) -> tuple[Hashed, ...]:
        """Return the words of all of a short text, else of half of CHARS at the beginning and at the end."""
        found = self._short(at)
        if found is not None:
            return (found,)
        return tuple(Hashed.of(coded_words(part)) for part in ends_of(self._texts[at]))

    def _short(self, at: int) -> Hashed | None:
        if len(self._texts[at]) > CHARS:
            return None
        found = self._whole.get(at)
        if found is None:
            found = Hashed.of(coded_words(self._texts[at]))
            if self._texts.size <= MOST_KEPT:
                self._whole[at] = found
        return found


def ends_of(text: str) -> list[str]:
    """Return a short text as it is, else half of CHARS of its beginning and of its end."""
    return [text] if len(text) <= CHARS else [text[: CHARS // 2], text[-CHARS // 2 :]]


def texts_of(batch: Batch) -> Texts:
    """Return the completions of a batch; the facts that look at the same batch share what was hashed."""
    found = batch.derived.get("words")
    if not isinstance(found, Texts):
        found = batch.derived["words"] = Texts(batch.text("completion"))
    return found


def _shifted(crc: UInt32, zeros: Int64) -> UInt32:
    """Return each CRC as `zeros` further zero bytes leave it, without their own contribution."""
    while zeros.size and int(zeros.max()) > LONGEST:
        now = np.minimum(zeros, LONGEST)
        crc, zeros = _shifted(crc, now), zeros - now
    table, at = _tables(), zeros * 1024
    out = table[at + (crc & 255)]
    for k in range(1, 4):
        out ^= table[at + 256 * k + ((crc >> np.uint32(8 * k)) & 255)]
    return out


@functools.lru_cache(maxsize=1)
def _tables() -> UInt32:
    """Return uint32[(LONGEST + 1) * 4 * 256]: what n zero bytes make of each byte of a CRC at each of its places."""
    byte = np.arange(256, dtype=np.uint32)
    one = byte.copy()
    for _ in range(8):
        one = (one >> np.uint32(1)) ^ np.where(one & 1, np.uint32(0xEDB88320), np.uint32(0))
    rows = [np.stack([byte << np.uint32(8 * k) for k in range(4)])]
    for _ in range(LONGEST):
        rows.append((rows[-1] >> np.uint32(8)) ^ one[rows[-1] & 255])
    return np.stack(rows).ravel()
