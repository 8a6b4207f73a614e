"""What is known under a name: a check, a metric, a setting or any trainer's key, as reference pages."""

from __future__ import annotations

from rlvitals.errors import InputError, Problem
from rlvitals.reference.page import Page

FALSE_ALARMS_TOPIC = "false-alarms"


def pages(topic: str | None) -> tuple[Page, ...]:
    """Return the pages about a topic.

    Raises:
        InputError: nothing is known under that name; with the nearest names.
    """
    from rlvitals.reference.checks import by_id, check_page, index_page
    from rlvitals.reference.fields import FIELDS, field_page, fields_of_setting
    from rlvitals.reference.keys import key_page, meanings
    from rlvitals.reference.metrics import false_alarms_page, metric_page, vocabulary_page

    if topic is None:
        return (index_page(), vocabulary_page())
    name = topic.strip()
    if name.lower() == FALSE_ALARMS_TOPIC:
        return (false_alarms_page(),)
    check = by_id(name)
    if check is not None:
        return (check_page(check),)
    canonical = _metric(name)
    out: list[Page] = []
    if canonical:
        out.append(metric_page(canonical))
    if not canonical or any(m.metric != canonical for m in meanings(name)):
        key = key_page(name)
        out += [key] if key is not None else []
    fields = (name,) if name in FIELDS else fields_of_setting(name)
    out += [field_page(f) for f in fields if f in FIELDS]
    if not out:
        raise InputError(_unknown(name))
    return tuple(out)


def _metric(name: str) -> str:
    """Return the canonical metric of a name, "" when it is none. `stop_frac/*` and `stop_frac/eos` are metrics."""
    from rlvitals.metrics import lookup

    return name if lookup(name) is not None else ""


def _unknown(name: str) -> Problem:
    import difflib

    from rlvitals.checks import CHECKS
    from rlvitals.metrics import METRICS
    from rlvitals.reference.fields import FIELDS
    from rlvitals.reference.keys import all_keys

    known = [*(c.id for c in CHECKS), *(c.name for c in CHECKS), *(m.name for m in METRICS), *FIELDS, *all_keys()]
    near = list(dict.fromkeys(difflib.get_close_matches(name, known, n=4, cutoff=0.5)))
    hint = f"Nearest: {', '.join(near)}" if near else "List them with: rlvitals explain"
    return Problem(
        "nothing is known under this name", found=repr(name), expected="a check, metric, key or setting", hint=hint
    )
