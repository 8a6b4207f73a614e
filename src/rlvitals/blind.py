"""Why a check could not look: what is really missing of what was read, and of what there is too little."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, replace

from rlvitals.auditresults import CLASSES, UNKNOWN, AuditKind, newest
from rlvitals.check import Check, Family, Few, NoData
from rlvitals.schema import NONFINITE_PREFIX, RunConfig
from rlvitals.view import View

AUDIT, CONFIG, ROLLOUTS, HELD_OUT, STEP = "audit:", "config:", "rollouts/", "held-out", "step"
SETTINGS = frozenset(f.name for f in fields(RunConfig))
NOT_IN_DUMP = "the rollouts that were read do not hold what it is counted from"


def met(check: Check, view: View) -> bool:
    """Return whether enough was logged for a check to look."""
    needs = check.needs
    if needs.audit is not None and not newest(view.audits, CLASSES[needs.audit]):
        return False
    if not all(_logged(m, view) >= needs.rows for m in needs.all_of):
        return False
    if needs.any_of and not any(_logged(m, view) >= needs.rows for m in needs.any_of):
        return False
    return all(getattr(view.config, f) is not None for f in needs.config)


def explained(check: Check, found: NoData, view: View) -> NoData:
    """Return why a check could not look, from its needs where they are not met, else from its own answer.

    What is there is never called missing: its number of values is told instead, and how many are needed.
    """
    needs = check.needs
    if met(check, view):
        return _apart(_own(check, found, view), view)
    if needs.audit is not None and not newest(view.audits, CLASSES[needs.audit]):
        return NoData((f"{AUDIT}{needs.audit}",), UNKNOWN[needs.audit])
    short = [m for m in needs.all_of if _logged(m, view) < needs.rows]
    others = [] if any(_logged(m, view) >= needs.rows for m in needs.any_of) else list(needs.any_of)
    begun = [m for m in others if _logged(m, view)]
    wanted = [*short, *(begun or others)]  # one of the others is enough: where one is there, none need be added
    few = tuple(Few(m, n, needs.rows) for m in wanted if (n := _logged(m, view)))
    missing = [m for m in wanted if not _logged(m, view)]
    settings = _settings((f for f in needs.config if getattr(view.config, f) is None), view)
    return _apart(NoData(tuple(dict.fromkeys((*missing, *settings))), "; ".join(map(str, few)), few), view)


def _own(check: Check, found: NoData, view: View) -> NoData:
    """Return a check's own answer without what is there, which is told with its number of values instead."""
    of_config = check.family is Family.CONFIG
    settings = [m for m in found.missing if m in SETTINGS and (of_config or not _logged(m, view))]
    others = [m for m in found.missing if m not in settings]
    missing = [m for m in others if not _known(m, view)]
    unknown = _settings((m for m in settings if getattr(view.config, m) is None), view)
    series = [m for m in others if m not in missing and m != STEP and not m.startswith(AUDIT)]
    counts = ", ".join(f"{m}: {_logged(m, view)} values" for m in series if m == HELD_OUT or m not in found.reason)
    reason = found.reason or ("too few, or at other steps than what else is needed" if counts else "")
    return replace(found, missing=(*missing, *unknown), reason=f"{reason} ({counts})" if counts else reason)


def _known(name: str, view: View) -> bool:
    if name.startswith(AUDIT):
        return bool(newest(view.audits, CLASSES[AuditKind(name.removeprefix(AUDIT))]))
    return name == STEP or _logged(name, view) > 0


def _settings(names: Iterable[str], view: View) -> tuple[str, ...]:
    """Return settings by name, those that share it with a series that was logged told apart from it."""
    return tuple(f"{CONFIG}{m}" if view.count(m, raw=True) else m for m in names)


def _apart(found: NoData, view: View) -> NoData:
    """Return the answer with what was logged without measuring anything set apart, and said."""
    told = {m: why for m in found.missing if (why := _unmeasured(m, view))}
    missing = tuple(m for m in found.missing if m not in told)
    no_fact = [NOT_IN_DUMP] if rollouts_read(view) and any(m.startswith(ROLLOUTS) for m in missing) else []
    reason = "; ".join(r for r in (found.reason, *told.values(), *no_fact) if r)
    return replace(found, missing=missing, reason=reason, unmeasured=tuple(told))


def _unmeasured(metric: str, view: View) -> str:
    """Return why a metric that is in the log says nothing, "" for one that is not there."""
    rows = view.count(metric, raw=True)
    if rows and view.placeholder(metric):
        return f"{metric} is 0 in all {rows} rows that have it, as it is written where nothing is measured"
    if not rows and view.count(NONFINITE_PREFIX + metric, raw=True):
        return f"{metric} is NaN or infinite wherever it was logged"
    return ""


def rollouts_read(view: View) -> bool:
    """Return whether a dump of rollouts was read with the run."""
    return any(n.startswith(ROLLOUTS) and view.count(n, raw=True) for n in view.store.names)


def _logged(metric: str, view: View) -> int:
    """Return how many values were logged: of a metric, of the fullest held-out set, of the fullest of a family."""
    if metric == HELD_OUT:
        return max((h.step.size for h in view.evals.values()), default=0)
    if metric.endswith("/"):
        return max((view.count(n) for n in view.family(metric)), default=0)
    return view.count(metric)
