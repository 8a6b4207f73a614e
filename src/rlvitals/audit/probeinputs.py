"""What a verifier is asked: completions that are known to be right, known to be wrong, broken or hostile."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from rlvitals.audit.calling import Ask
from rlvitals.env import Item

TEMPLATES = (
    "{gold}",
    "The answer is {gold}.",
    "\\boxed{{gold}}",
    "#### {gold}",
    "<answer>{gold}</answer>",
    "<answer>\n{gold}\n</answer>",
    "Answer: {gold}",
    "**Final Answer**\n\\boxed{{gold}}",
    "<think>\nI work it out step by step.\n</think>\n<answer>{gold}</answer>",
    "<think>\nI work it out step by step.\n</think>\n\n<answer>\n{gold}\n</answer>",
    "<think>\nI work it out step by step.\n</think>\nThe answer is \\boxed{{gold}}.",
    "<think>\nI work it out step by step.\n</think>\n{gold}",
    "<reasoning>\nI work it out step by step.\n</reasoning>\n<answer>\n{gold}\n</answer>\n",
    '{"answer": "{gold}"}',
)
LONG = 200_000  # characters: beyond any completion, short of what a process can't hold
HOSTILE: tuple[tuple[str, str], ...] = (
    ("deep brackets", "(" * 20_000 + ")" * 20_000),
    ("deep boxes", "\\boxed{" * 5_000 + "1" + "}" * 5_000),
    ("unclosed boxes", "\\boxed{" * 5_000),
    ("deep JSON", "[" * 20_000 + "]" * 20_000),
    ("a tower of powers", "10**10**10"),
    ("a tower of powers in LaTeX", "9^{9^{9^{9^{9}}}}"),
    ("a factorial", "100000000!"),
    ("division by zero", "1/0"),
    ("not a number", "nan"),
    ("infinity", "inf"),
    ("a long number", "9" * 50_000),
    ("code", "__import__('time').sleep(3600)"),
    ("a template", "{{7*7}} ${7*7} %s %n {0.__class__}"),
    ("digits of other scripts", "\u0664\u0662 \uff14\uff12 \U0001d7dc\U0001d7da"),
    ("control characters", "\x00\x1b[2J\x07\r\n"),
    ("half a surrogate pair", "\ud83d"),
    ("backtracking", "a" * 5_000 + "!" + " " * 20_000 + "<answer>" * 2_000),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Case:
    """One input: its kind, a word more, and what is asked. `right` is what an honest verifier says, None = open."""

    kind: str
    ask: Ask
    right: bool | None
    detail: str = ""
    logged: float | None = None  # reward that the log holds


def fill(template: str, gold: str) -> str:
    """Return a completion that gives an answer in the form of a template."""
    return template.replace("{gold}", gold)


def truncated(template: str, gold: str) -> str:
    """Return a completion cut before its answer is there: a worked solution at its half, else all before the answer."""
    return template.partition("{gold}")[0] + (gold[: len(gold) // 2] if len(gold) > 20 else "")


def wrong_answer(gold: str) -> str:
    """Return an answer of the same kind that is not the gold one: another number, letter or word."""
    found = list(re.finditer(r"-?\d+", gold))
    if found:
        last = found[-1]
        return gold[: last.start()] + str(int(last.group()[:18]) + 7) + gold[last.end() :]
    if len(gold.strip()) == 1 and gold.strip().isalpha():
        letter = gold.strip()
        return chr(ord(letter) + 1) if letter.lower() != "z" else chr(ord(letter) - 1)
    opposite = {"yes": "no", "no": "yes", "true": "false", "false": "true"}
    return opposite.get(gold.strip().lower(), f"not {gold.strip()} at all")


def spellings(gold: str) -> tuple[tuple[str, str], ...]:
    """Return other ways to write an answer: (what was changed, text)."""
    text = gold.strip()
    out = [("spaces around it", f"  {text} "), ("a full stop behind it", f"{text}.")]
    if re.fullmatch(r"-?\d+", text):
        out += [("as a decimal", f"{text}.0"), ("with a plus sign", f"+{text}"), ("in dollars", f"${text}$")]
        if len(text.lstrip("-")) > 3:
            out.append(("thousands separated", f"{int(text):,}"))
    elif re.fullmatch(r"-?\d+/\d+", text):
        top, bottom = text.split("/")
        out.append(("as LaTeX", f"\\frac{{{top}}}{{{bottom}}}"))
    elif text.lower() != text.upper():
        out += [("upper case", text.upper()), ("lower case", text.lower())]
    return tuple((what, t) for what, t in out if t != gold)


def build_cases(items: Sequence[Item], template: str) -> list[Case]:
    """Return the inputs for these tasks; hostile ones are asked of the first task alone."""
    out: list[Case] = []
    for n, item in enumerate(items):
        gold = fill(template, item.gold)

        def add(kind: str, completion: str, right: bool | None, detail: str = "", item: Item = item) -> None:
            out.append(Case(kind, Ask.of(item, completion), right, detail))

        add("gold", gold, True)
        add("wrong", fill(template, wrong_answer(item.gold)), False)
        add("empty", "", False)
        add("prompt only", "\n".join(m.content for m in item.messages), False)
        add("truncated gold", truncated(template, item.gold), False)
        for what, text in spellings(item.gold):
            add("other spelling", fill(template, text), None, what)
        other = next((o for o in (*items[n + 1 :], *items[:n]) if o.gold.strip() != item.gold.strip()), None)
        if other is not None:
            add("gold of another item", fill(template, other.gold), False)
    first = items[0]
    filler = "Let us think about it once more. " * (LONG // 33)
    out.append(Case("very long", Ask.of(first, filler + fill(template, first.gold)), None, f"{LONG:,} characters"))
    for what, text in HOSTILE:
        out.append(Case("hostile", Ask.of(first, text), False, what))
        out.append(Case("hostile", Ask.of(first, fill(template, text)), False, f"{what}, as an answer"))
    return out


def without_gold(items: Sequence[Item], template: str) -> list[Case]:
    """Return inputs that no verifier can judge: the task has no gold answer."""
    return [Case("no gold answer", Ask(i, fill(template, i.gold), None), None) for i in items]
