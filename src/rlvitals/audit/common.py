"""What the audits share: dated records, intervals, agreement beyond chance, and loading `module:name`."""

from __future__ import annotations

import importlib
import math
import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from rlvitals import __version__
from rlvitals.auditresults import Made, Share
from rlvitals.errors import InputError, Problem
from rlvitals.shares import wilson
from rlvitals.tails import beta_inc

ALPHA = 0.05  # intervals are 95%


def made(subject: str, sources: Sequence[str] = ()) -> Made:
    """Return the date and origin of a record made now."""
    return Made(datetime.now(UTC).isoformat(timespec="seconds"), subject, tuple(sources), __version__)


def share(count: int, of: int) -> Share:
    """Return a share with Wilson's 95% interval; 0..1 when nothing was counted."""
    low, high = wilson(count, of)
    return Share(count, of, low, high)


def exact_share(count: int, of: int) -> Share:
    """Return a share with the exact (Clopper-Pearson) 95% interval; 0..1 when nothing was counted."""
    low, high = clopper_pearson(count, of)
    return Share(count, of, low, high)


def clopper_pearson(count: int, of: int, alpha: float = ALPHA) -> tuple[float, float]:
    """Return the exact interval of a proportion: it holds with at least 1 - alpha whatever the truth."""
    if of <= 0:
        return (0.0, 1.0)
    low = 0.0 if count == 0 else beta_quantile(alpha / 2, count, of - count + 1)
    high = 1.0 if count == of else beta_quantile(1 - alpha / 2, count + 1, of - count)
    return (low, high)


def beta_quantile(p: float, a: float, b: float) -> float:
    """Return x with I_x(a, b) = p, by bisection to 1e-12."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        if beta_inc(a, b, middle) < p:
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)


def kappa(both: int, first_only: int, second_only: int, neither: int) -> float:
    """Return Cohen's kappa of two yes/no judges; NaN where chance alone would agree in everything."""
    n = both + first_only + second_only + neither
    if n == 0:
        return math.nan
    agreed = (both + neither) / n
    first, second = (both + first_only) / n, (both + second_only) / n
    chance = first * second + (1 - first) * (1 - second)
    return math.nan if chance >= 1.0 else (agreed - chance) / (1 - chance)


def load_object(target: str, option: str) -> Any:
    """Import what `module:name` names, from the working folder too. Raises InputError."""
    module, sign, name = target.partition(":")
    if not (module and sign and name):
        raise InputError(Problem("not a module and a name", option, repr(target), "module:name, e.g. rewards:correct"))
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except Exception as error:  # the user's module runs as it is imported
        hint = "Run the command in the folder that holds the module."
        raise InputError(
            Problem("cannot be imported", f"{option} {target}", f"{type(error).__name__}: {error}", hint=hint)
        ) from error
    return found


def percent(value: float) -> str:
    """Return a share as whole percent, one decimal below 10%, "unknown" for NaN."""
    if math.isnan(value):
        return "unknown"
    return f"{value:.0%}" if value >= 0.1 or value == 0 else f"{value:.1%}"


def interval(low: float, high: float) -> str:
    """Return "12% to 34%"."""
    return f"{percent(low)} to {percent(high)}"


def said(found: Share) -> str:
    """Return "3 of 20 (5.2% to 36%)"."""
    return f"{found.count} of {found.of} ({interval(found.low, found.high)})"
