"""Logged scalars as numbers: floats, number strings, percentages, "5/212", numpy and tensor reprs, literal NaN."""

from __future__ import annotations

import math
import re

_PLAIN = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_THOUSANDS = re.compile(r"[-+]?[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?")  # 0,341 is no 341
_RATIO = re.compile(r"([-+]?\d+(?:\.\d+)?)\s*/\s*(\d+(?:\.\d+)?)")
_WRAPPED = re.compile(r"[A-Za-z_][\w.]*\(\s*([-+]?(?:[\d.]+(?:[eE][-+]?\d+)?|nan|inf))\s*(?:,[^()]*)?\)")
_NONFINITE = {"nan": float("nan"), "inf": float("inf"), "infinity": float("inf")}
MAX_NUMBER_TEXT = 64  # characters; a longer string is text


def number(value: object, key: str = "") -> float | None:
    """Return the value as a float, or None when it is no number (null, empty cell, text, list).

    A logged NaN or Infinity is returned as such. "5/212" is 5 under a step or epoch key, else the quotient; "45%" is
    0.45. Arrays and tensors that hold one number (numpy, torch, jax scalars) are that number.
    """
    if isinstance(value, float):
        return float(value)  # of numpy's own float too: its arithmetic warns where a float raises
    if isinstance(value, int):  # bool included
        try:
            return float(value)
        except OverflowError:
            return float("inf")
    if isinstance(value, str):
        return _from_text(value, key)
    return _from_scalar(value)


def _from_scalar(value: object) -> float | None:
    """Return the number that an array or tensor of one element holds; None for anything else."""
    shape, item = getattr(value, "shape", None), getattr(value, "item", None)
    if not isinstance(shape, tuple) or not callable(item) or math.prod(shape) != 1:
        return None
    found = item()
    return number(found) if isinstance(found, (bool, int, float)) else None


def _from_text(text: str, key: str) -> float | None:
    text = text.strip()
    if not text or len(text) > MAX_NUMBER_TEXT:
        return None
    if _PLAIN.fullmatch(text):
        return float(text)
    low = text.lower()
    sign = -1.0 if low.startswith("-") else 1.0
    if low.lstrip("+-") in _NONFINITE:
        return sign * _NONFINITE[low.lstrip("+-")]
    if text.endswith("%") and _PLAIN.fullmatch(text[:-1].strip()):
        return float(text[:-1]) / 100.0
    if _THOUSANDS.fullmatch(text):
        return float(text.replace(",", ""))
    ratio = _RATIO.fullmatch(text)
    if ratio:
        top, bottom = float(ratio[1]), float(ratio[2])
        if any(word in key.lower() for word in ("step", "iter", "epoch")):
            return top
        return top / bottom if bottom else float("nan")
    wrapped = _WRAPPED.fullmatch(text)
    return _from_text(wrapped[1], key) if wrapped else None
