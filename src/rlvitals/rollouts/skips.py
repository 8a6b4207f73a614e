"""What a reader could not use: counted by reason, with the place of the first one, and told to the user."""

from __future__ import annotations

from dataclasses import dataclass, field

from rlvitals.schema import Note

MAX_REASONS = 100


@dataclass
class Skips:
    """Collects reasons while a dump is read; every pass over the same files counts anew, so the largest count stays."""

    found: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)

    def add(self, reason: str, file: str, row: int = -1, count: int = 1) -> None:
        """Count something; `row` is the first one, from 0."""
        if count <= 0:
            return
        key = (reason, file)
        if key not in self.found and len(self.found) >= MAX_REASONS:
            key = ("further problems", "")
        before, first = self.found.get(key, (0, row))
        self.found[key] = (before + count, first)

    @property
    def rollouts(self) -> int:
        """Rollouts that were left out; notes on rollouts that were kept start with "kept"."""
        return sum(count for (reason, _), (count, _) in self.found.items() if not reason.startswith("kept"))

    def notes(self) -> tuple[Note, ...]:
        """Return one note per reason: the files it concerns are counted, the first one is named."""
        out: dict[str, Note] = {}
        for (reason, file), (count, row) in self.found.items():
            known = out.get(reason)
            if known is None:
                out[reason] = Note(reason.removeprefix("kept: "), file, max(row + 1, 0), count)
            else:
                out[reason] = Note(known.text, known.file, known.line, known.count + count)
        return tuple(out.values())
