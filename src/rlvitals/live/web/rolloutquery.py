"""Which rollouts a request asks for, as a filter of the index; values are always bound, never part of the SQL."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from rlvitals.live.web.query import Query

PAGE = 50  # rollouts on a page
MAX_PAGE = 200
MAX_OFFSET = 10**9
ORDERS: dict[str, str] = {
    "newest": "step DESC, grp, idx, row",
    "oldest": "step, grp, idx, row",
    "reward": "reward DESC NULLS LAST, step DESC, row",
    "-reward": "reward NULLS LAST, step DESC, row",
    "tokens": "tokens DESC NULLS LAST, step DESC, row",
    "advantage": "abs(advantage) DESC NULLS LAST, step DESC, row",
}
ORDER_WORDS: dict[str, str] = {
    "newest": "newest first",
    "oldest": "oldest first",
    "reward": "highest reward first",
    "-reward": "lowest reward first",
    "tokens": "longest first",
    "advantage": "largest advantage first",
}
TEXT_FILTERS = {"family": "family", "stop_reason": "stop_reason", "status": "verifier_status", "group": "grp"}
Row = dict[str, Any]
"""Canonical column -> value of one rollout, None where absent; "row" is its number in the index."""


@dataclass(frozen=True, slots=True)
class Filters:
    """What is asked for; None or "" where it does not matter. Rewards are in the run's own unit, both ends included."""

    steps: tuple[int, int] | None = None
    family: str = ""
    stop_reason: str = ""
    status: str = ""
    group: str = ""
    reward_min: float | None = None
    reward_max: float | None = None
    order: str = "newest"
    offset: int = 0
    limit: int = PAGE

    def where(self) -> tuple[str, list[Any]]:
        """Return the condition and its values."""
        parts: list[str] = []
        values: list[Any] = []
        if self.steps is not None:
            parts.append("step BETWEEN ? AND ?")
            values += self.steps
        for name, column in TEXT_FILTERS.items():
            wanted = getattr(self, name)
            if wanted:
                parts.append(f"{column} = ?")
                values.append(wanted)
        for wanted, sign in ((self.reward_min, ">="), (self.reward_max, "<=")):
            if wanted is not None:
                parts.append(f"reward {sign} ?")
                values.append(wanted)
        return " AND ".join(parts) or "TRUE", values

    def address(self, **changes: Any) -> str:
        """Return the filters as a query, with some of them changed."""
        f = replace(self, **changes)
        steps = (
            "" if f.steps is None else (str(f.steps[0]) if f.steps[0] == f.steps[1] else f"{f.steps[0]}-{f.steps[1]}")
        )
        pairs = {
            "steps": steps,
            "family": f.family,
            "stop_reason": f.stop_reason,
            "status": f.status,
            "group": f.group,
            "reward_min": "" if f.reward_min is None else f"{f.reward_min:g}",
            "reward_max": "" if f.reward_max is None else f"{f.reward_max:g}",
            "order": "" if f.order == "newest" else f.order,
            "offset": str(f.offset or ""),
            "limit": "" if f.limit == PAGE else str(f.limit),
        }
        return urlencode({k: v for k, v in pairs.items() if v}, errors="replace")

    @property
    def narrowed(self) -> bool:
        return self.where()[0] != "TRUE"


def read_filters(query: Query) -> Filters:
    """Return the filters of a request; problems stay with the query."""
    return Filters(
        steps=query.steps("steps"),
        family=query.text("family"),
        stop_reason=query.text("stop_reason"),
        status=query.text("status"),
        group=query.text("group"),
        reward_min=query.number("reward_min"),
        reward_max=query.number("reward_max"),
        order=query.one_of("order", tuple(ORDERS), "newest"),
        offset=query.whole("offset", 0, 0, MAX_OFFSET),
        limit=query.whole("limit", PAGE, 1, MAX_PAGE),
    )


def to_dict(row: Row) -> dict[str, Any]:
    """Return a rollout as plain JSON data; what is absent is left out."""
    return {name: value for name, value in row.items() if value is not None}
