r"""Verifiers: text and expected answer in, a status and what was read out. They run inside a worker process.

None evaluates model output: numbers are parsed as decimals, formulas by the grammar of math-verify, JSON by json. What
still takes too long or too much memory (`10^{10^{10}}`) is ended by the worker and is a timeout or an error, not a 0.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation

from rlvitals.env import VerifierStatus
from rlvitals.grpo.rewards.extract import READERS, last_boxed

MAX_ANSWER_CHARS = 2_000  # longer "answers" are not parsed; convention, golds of MATH are below 200
MAX_NESTING = 40  # brackets within brackets; deeper ones overflow the stack of parsers; convention
RELATIVE = Decimal("1e-6")  # numbers closer than this share of the expected one are equal; as math-verify's 6 digits

Verdict = tuple[VerifierStatus, str]


def _said(right: bool, answer: str) -> Verdict:
    return (VerifierStatus.RIGHT if right else VerifierStatus.WRONG), answer


def nesting(text: str) -> int:
    """Return how deep brackets of any kind are nested, matched or not."""
    depth = deepest = 0
    for c in text:
        if c in "([{":
            depth += 1
            deepest = max(deepest, depth)
        elif c in ")]}":
            depth -= 1
    return deepest


def exact(answer: str, gold: str, extra: Mapping[str, object]) -> Verdict:
    """Compare texts after trimming and joining white space."""
    return _said(" ".join(answer.split()) == " ".join(gold.split()), answer)


def decimal_of(text: str) -> Decimal | None:
    """Return the number that a text is: thousands commas, a leading currency sign and a trailing % are dropped."""
    plain = text.strip().rstrip(".%").lstrip("$€£ ").replace(",", "").strip()
    if len(plain) > 400 or "_" in plain:
        return None
    try:
        value = Decimal(plain)
    except InvalidOperation:
        return None
    return value if value.is_finite() and abs(value.adjusted()) < 400 else None


def numeric(answer: str, gold: str, extra: Mapping[str, object]) -> Verdict:
    """Compare as decimal numbers, to one part in a million; whole numbers exactly. No parse where it is no number.

    ValueError when the expected answer is no number.
    """
    expected, found = decimal_of(gold), decimal_of(answer)
    if expected is None:
        raise ValueError(f"the expected answer {gold[:80]!r} is no number")
    if found is None:
        return VerifierStatus.NO_PARSE, answer
    whole = expected == expected.to_integral_value() and found == found.to_integral_value()
    return _said(found == expected if whole else abs(found - expected) <= RELATIVE * abs(expected), answer)


def math(answer: str, gold: str, extra: Mapping[str, object]) -> Verdict:
    """Compare as mathematics with math-verify. Only its LaTeX grammar is used: its other parser evaluates text.

    ImportError where math-verify is not installed; ValueError when the expected answer can't be read.
    """
    import logging

    from math_verify import LatexExtractionConfig, parse, verify

    logging.getLogger("math_verify").setLevel(logging.ERROR)  # it warns that the worker must keep the time, and it does
    if len(answer) > MAX_ANSWER_CHARS or nesting(answer) > MAX_NESTING:
        return VerifierStatus.NO_PARSE, answer[:MAX_ANSWER_CHARS]
    if answer.strip() == gold.strip():
        return VerifierStatus.RIGHT, answer
    how = [LatexExtractionConfig(boxed_match_priority=0)]

    def parsed(text: str) -> list[object]:
        return list(parse(f"\\boxed{{{text}}}", how, parsing_timeout=None, raise_on_error=True))

    expected = parsed(last_boxed(gold) or gold.strip().strip("$"))
    if not expected:
        raise ValueError(f"the expected answer {gold[:80]!r} can't be read as mathematics")
    try:
        found = parsed(answer)
    except (MemoryError, RecursionError):
        raise
    except Exception:  # the grammar refuses it
        return VerifierStatus.NO_PARSE, answer
    if not found:
        return VerifierStatus.NO_PARSE, answer
    return _said(bool(verify(expected, found, timeout_seconds=None, raise_on_error=True)), answer)


def numeric_fault(gold: str, extra: Mapping[str, object]) -> str:
    """Return what `numeric` could not read of an expected answer, "" where it is a number."""
    return "" if decimal_of(gold) is not None else f"{gold[:60]!r}, which is no number"


def schema_fault(gold: str, extra: Mapping[str, object]) -> str:
    """Return what `json_schema` could not use, "" where the schema is one. ImportError without jsonschema."""
    try:
        _schema(gold, extra)
    except (ValueError, RecursionError) as e:
        return str(e)[:200]
    return ""


def _schema(gold: str, extra: Mapping[str, object]) -> object:
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError

    given = extra.get("schema", gold)
    try:
        schema: object = json.loads(given) if isinstance(given, str) else given
        Draft202012Validator.check_schema(schema)
    except (json.JSONDecodeError, SchemaError) as e:
        raise ValueError(f"the schema can't be used: {str(e)[:200]}") from e
    return schema


def json_schema(answer: str, gold: str, extra: Mapping[str, object]) -> Verdict:
    """Say right when the answer is JSON that fits the schema, wrong when it does not fit, no parse when it is no JSON.

    The schema is the column `schema`, else the expected answer. References to other documents are not followed.
    ImportError where jsonschema is not installed; ValueError for a schema that is none.
    """
    from jsonschema import Draft202012Validator
    from referencing import Registry

    schema = _schema(gold, extra)
    if nesting(answer) > MAX_NESTING:
        return VerifierStatus.NO_PARSE, answer[:MAX_ANSWER_CHARS]
    try:
        value = json.loads(_unfenced(answer))
    except json.JSONDecodeError:
        return VerifierStatus.NO_PARSE, answer
    return _said(bool(Draft202012Validator(schema, registry=Registry()).is_valid(value)), answer)


def _unfenced(text: str) -> str:
    """Return the inside of a ``` block, the text itself where there is none."""
    body = text.strip()
    if body.startswith("```") and body.endswith("```") and "\n" in body:
        return body.split("\n", 1)[1].rsplit("```", 1)[0]
    return body


VERIFIERS: Mapping[str, Callable[[str, str, Mapping[str, object]], Verdict]] = {
    "math": math,
    "numeric": numeric,
    "exact": exact,
    "json": json_schema,
}
"""Name -> verifier of an extracted answer."""

GOLD_FAULTS: Mapping[str, Callable[[str, Mapping[str, object]], str]] = {
    "numeric": numeric_fault,
    "json": schema_fault,
}
"""Name -> what its verifier could not read of an expected answer; the others take any text."""


def judge(text: str, gold: str, how: str, read: str, extra: Mapping[str, object] | None = None) -> dict[str, str]:
    """Return {"status", "raw"} of a completion: what the worker process is asked.

    Args:
        how: a key of VERIFIERS; read: a key of READERS.
    """
    answer = READERS[read](text)
    if answer is None:
        return {"status": VerifierStatus.NO_PARSE.value, "raw": ""}
    status, raw = VERIFIERS[how](answer, gold, extra or {})
    return {"status": status.value, "raw": raw}
