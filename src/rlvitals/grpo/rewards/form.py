"""Format rewards for thinking tags: 1 for exactly one non-empty `<think>...</think>` with an answer behind it, else 0.

Stricter than "an opening tag stands before a closing one": empty thinking, tags at the very end, repeated tags and an
answer inside the tags all pass that test and teach nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rlvitals.grpo.rewards.plan import Completion

OPEN, CLOSE = "<think>", "</think>"


def well_formed(text: str) -> bool:
    """Say whether the text is one pair of tags around some thinking, then an answer, with nothing before it."""
    head, opened, rest = text.strip().partition(OPEN)
    thinking, closed, answer = rest.partition(CLOSE)
    parts_there = bool(opened and closed and thinking.strip() and answer.strip())
    return parts_there and not head and not any(tag in thinking + answer for tag in (OPEN, CLOSE))


def by_text(completion: Completion) -> float:
    """Return 1.0 for a well-formed text, else 0.0."""
    return float(well_formed(completion.text))


def by_ids(open_id: int, close_id: int, ignored: Sequence[int] = ()) -> Callable[[Completion], float]:
    """Return the judge that looks at token ids, for vocabularies where each tag is one token.

    Ids can't be confused by text that merely spells a tag. `ignored`: end and padding ids, which are no answer.
    """
    skip = frozenset(ignored)

    def judge(completion: Completion) -> float:
        ids = [i for i in completion.ids if i not in skip]
        if ids.count(open_id) != 1 or ids.count(close_id) != 1:
            return 0.0
        start, end = ids.index(open_id), ids.index(close_id)
        return float(start == 0 and end > start + 1 and end < len(ids) - 1)

    return judge
