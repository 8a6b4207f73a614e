"""What went wrong inside the monitor: counted always, said once, never raised into training."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

LOG = logging.getLogger("rlvitals")
MAX_KINDS = 64  # different troubles remembered; more share the last one (convention)
MAX_DETAIL = 200  # characters of the first example of each


@dataclass(frozen=True, slots=True)
class Trouble:
    """One kind of trouble.

    Attributes:
        what: what could not be done, in words.
        detail: the first example.
        step: training step of the first one, None where it is not known.
        count: how often it happened.
    """

    what: str
    detail: str
    step: int | None
    count: int = 1

    def __str__(self) -> str:
        since = "" if self.step is None else f" since step {self.step}"
        times = "once" if self.count == 1 else f"{self.count} times"
        return f"{self.what} ({times}{since}); first: {self.detail}"


class Troubles:
    """Counts troubles by kind; the first of each is logged as a warning of the logger "rlvitals"."""

    def __init__(self) -> None:
        self._found: dict[str, Trouble] = {}

    def note(self, what: str, detail: object, step: int | None = None, count: int = 1) -> None:
        """Count one trouble; say it when it is the first of its kind. Never raises."""
        known = self._found.get(what)
        if known is None and len(self._found) >= MAX_KINDS:
            what = "other troubles"
            known = self._found.get(what)
        if known is not None:
            self._found[what] = replace(known, count=known.count + count)
            return
        self._found[what] = Trouble(what, _shown(detail), step, count)
        LOG.warning("rlvitals: %s; training goes on. Said once, counted in Monitor.troubles", self._found[what])

    @property
    def all(self) -> tuple[Trouble, ...]:
        return tuple(self._found.values())

    def count(self, what: str) -> int:
        """Return how often this kind happened."""
        found = self._found.get(what)
        return 0 if found is None else found.count


def _shown(detail: object) -> str:
    """Return a bounded, printable form; a broken __str__ is no reason to raise."""
    try:
        text = f"{type(detail).__name__}: {detail}" if isinstance(detail, BaseException) else str(detail)
    except Exception:
        text = f"a {type(detail).__name__} that cannot be shown"
    return "".join(c if c.isprintable() else " " for c in text[:MAX_DETAIL])
