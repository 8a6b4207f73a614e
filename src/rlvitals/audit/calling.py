"""How trainers call a reward function: which convention a signature follows, its arguments, and what it returned.

TRL calls `f(prompts, completions, **columns)` with lists, verl `f(data_source, solution_str, ground_truth,
extra_info)`, verifiers `f(prompt, completion, answer, state, ...)` with any subset by name, plain functions take
(completion, gold).
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from rlvitals.env import Item
from rlvitals.errors import InputError, Problem

GOLD_NAMES = ("gold", "answer", "ground_truth", "solution", "target", "label", "reference", "expected", "gt", "labels")
PROMPT_NAMES = ("prompt", "question", "problem", "query")
TEXT_NAMES = ("completion", "response", "text", "output", "prediction", "pred", "model_output", "completion_text")
VERIFIERS_NAMES = frozenset(
    {"prompt", "completion", "answer", "state", "task", "info", "parser", "example_id", "rollout_id"}
)


class Convention(StrEnum):
    TRL = "TRL"
    VERL = "verl"
    VERIFIERS = "verifiers"
    PLAIN = "plain"


@dataclass(frozen=True, slots=True)
class Signature:
    """The parameters of a function: names in order, which are required, whether it takes any name."""

    names: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    any_name: bool = False
    asynchronous: bool = False


@dataclass(frozen=True, slots=True)
class Ask:
    """One completion to be scored, and the task that it answers; `gold` None stands for a task without an answer."""

    item: Item
    completion: str
    gold: str | None

    @classmethod
    def of(cls, item: Item, completion: str) -> Ask:
        return cls(item, completion, item.gold)


@dataclass(frozen=True, slots=True)
class Way:
    """A convention, whether completions go as messages, and the dataset's own name of the gold column."""

    convention: Convention
    chat: bool = False
    gold_key: str = "answer"

    @property
    def batched(self) -> bool:
        return self.convention is Convention.TRL

    def __str__(self) -> str:
        form = "completions as messages" if self.chat else "completions as text"
        return f"{self.convention}, {form}"


@dataclass(frozen=True, slots=True)
class Reward:
    """What a call gave for one completion: a number, or None with the reason ("" = it abstained)."""

    value: float | None
    problem: str = ""


def describe(target: str) -> dict[str, object]:
    """Return the signature of `module:function` as JSON types; runs in a worker, for the module is the user's."""
    from rlvitals.worker import resolve

    function = resolve(target)
    called = getattr(function, "__call__", function)  # noqa: B004
    found = inspect.signature(function)
    kinds = inspect.Parameter
    plain = [p for p in found.parameters.values() if p.kind not in (kinds.VAR_POSITIONAL, kinds.VAR_KEYWORD)]
    return {
        "names": [p.name for p in plain],
        "required": [p.name for p in plain if p.default is kinds.empty],
        "any_name": any(p.kind is kinds.VAR_KEYWORD for p in found.parameters.values()),
        "asynchronous": inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called),
    }


def signature_of(value: object) -> Signature:
    """Return what `describe` found."""
    if not isinstance(value, Mapping):
        raise TypeError(f"expected the answer of describe, found {type(value).__name__}")
    return Signature(
        tuple(map(str, value["names"])),
        tuple(map(str, value["required"])),
        bool(value["any_name"]),
        bool(value["asynchronous"]),
    )


def detect(found: Signature, target: str) -> tuple[Convention, str]:
    """Return the convention of a signature and what shows it. Raises InputError when it follows none."""
    names = set(found.names)
    if "completions" in names:
        return Convention.TRL, "it takes `completions`, a list"
    if "solution_str" in names or {"data_source", "ground_truth"} <= names:
        return Convention.VERL, "it takes `solution_str` or `data_source` with `ground_truth`"
    own = names & {"state", "info", "parser", "task"}
    if "completion" in names and names <= VERIFIERS_NAMES and (own or found.asynchronous or "prompt" in names):
        also = (
            "is async"
            if found.asynchronous and not own
            else "takes " + ", ".join(f"`{n}`" for n in sorted(own | {"completion"}))
        )
        return Convention.VERIFIERS, f"it {also}"
    if found.names and len(found.required) <= 3:
        return Convention.PLAIN, f"it takes ({', '.join(found.names)})"
    raise InputError(
        Problem("no known way to call it", target, f"parameters ({', '.join(found.names) or 'none'})",
                "those of TRL, verl or verifiers, or (completion, gold)",
                "Say it: --calling trl, verl, verifiers or plain")
    )  # fmt: skip


def arguments(way: Way, found: Signature, asks: Sequence[Ask]) -> tuple[list[object], dict[str, object]]:
    """Return positional and named arguments for one call; a convention that is not batched takes one completion.

    Raises InputError when a required parameter has nothing to fill it.
    """
    if way.convention is Convention.TRL:
        return _trl(way, found, asks)
    (ask,) = asks
    if way.convention is Convention.VERL:
        offered: dict[str, object] = {
            "data_source": ask.item.family,
            "solution_str": ask.completion,
            "ground_truth": ask.gold,
            "extra_info": dict(ask.item.extra),
        }
        return [], _accepted(offered, found)
    if way.convention is Convention.VERIFIERS:
        prompt = [{"role": m.role, "content": m.content} for m in ask.item.messages]
        said: object = [{"role": "assistant", "content": ask.completion}] if way.chat else ask.completion
        info = dict(ask.item.extra)
        state = {
            "prompt": prompt,
            "completion": said,
            "answer": ask.gold,
            "info": info,
            "task": ask.item.family,
            "turn": 1,
        }
        offered = {
            "prompt": prompt, "completion": said, "answer": ask.gold, "state": state, "info": info,
            "task": ask.item.family, "example_id": ask.item.id, "parser": None, "rollout_id": 0,
        }  # fmt: skip
        return [], _accepted(offered, found)
    return _plain(way, found, ask)


def _trl(way: Way, found: Signature, asks: Sequence[Ask]) -> tuple[list[object], dict[str, object]]:
    prompts: list[object] = [_prompt(a, way) for a in asks]
    said: list[object] = [[{"role": "assistant", "content": a.completion}] if way.chat else a.completion for a in asks]
    columns = {k for a in asks for k in a.item.extra}
    offered: dict[str, object] = {k: [a.item.extra.get(k) for a in asks] for k in sorted(columns)}
    golds = [a.gold for a in asks]
    offered |= {name: golds for name in (*GOLD_NAMES, way.gold_key) if name in found.names and name not in offered}
    offered[way.gold_key] = golds
    ids = [[ord(c) % 256 for c in a.completion[:64]] for a in asks]
    offered |= {"prompts": prompts, "completions": said, "completion_ids": ids}
    return [], _accepted(offered, found, everything=True)


def _prompt(ask: Ask, way: Way) -> object:
    messages = [{"role": m.role, "content": m.content} for m in ask.item.messages]
    return messages if way.chat else "\n".join(m.content for m in ask.item.messages)


def _accepted(offered: Mapping[str, object], found: Signature, *, everything: bool = False) -> dict[str, object]:
    missing = [n for n in found.required if n not in offered]
    if missing:
        raise InputError(
            Problem(
                "nothing to give for a parameter", ", ".join(missing), expected="a column of that name in the tasks"
            )
        )
    if everything and found.any_name:
        return dict(offered)
    return {k: v for k, v in offered.items() if k in found.names}


def _plain(way: Way, found: Signature, ask: Ask) -> tuple[list[object], dict[str, object]]:
    """Fill parameters by name where it is known, else by place: the completion, then the gold answer."""
    out: dict[str, object] = {}
    text = next((n for n in found.names if n in TEXT_NAMES), None)
    unnamed = [n for n in found.names if n not in (*PROMPT_NAMES, *ask.item.extra)]
    text = text or (unnamed[0] if unnamed else None)
    gold = next((n for n in found.names if n in (*GOLD_NAMES, way.gold_key) and n != text), None)
    rest = [n for n in unnamed if n not in (text, gold)]
    gold = gold or (rest[0] if rest and rest[0] in found.required else None)
    for name in found.names:
        if name == text:
            out[name] = ask.completion
        elif name == gold:
            out[name] = ask.gold
        elif name in PROMPT_NAMES:
            out[name] = "\n".join(m.content for m in ask.item.messages)
        elif name in ask.item.extra:
            out[name] = ask.item.extra[name]
        elif name in found.required:
            raise InputError(
                Problem("nothing to give for a parameter", name, expected="a column of that name in the tasks")
            )
    return [], out


def uses_gold(way: Way, found: Signature) -> bool:
    """True when the function is handed the gold answer under any name."""
    if way.convention is Convention.PLAIN:
        return any(v == "\0gold" for v in _plain(way, found, Ask(Item("", ()), "", "\0gold"))[1].values())
    if way.convention is Convention.TRL:
        return found.any_name or bool({*GOLD_NAMES, way.gold_key} & set(found.names))
    return bool({"ground_truth", "answer", "state"} & set(found.names))


def read_rewards(way: Way, value: object, count: int) -> tuple[Reward, ...]:
    """Return what one call returned, as one reward per completion."""
    if not way.batched:
        return (_one(value),)
    if not isinstance(value, list | tuple):
        return (Reward(None, f"returned {type(value).__name__}, no list of rewards"),) * count
    if len(value) != count:
        return (Reward(None, f"returned {len(value)} rewards for {count} completions"),) * count
    return tuple(_one(v) for v in value)


def _one(value: object) -> Reward:
    if isinstance(value, Mapping):
        value = next((value[k] for k in ("score", "reward", "total") if k in value), value)
    if isinstance(value, list | tuple) and value:
        value = value[0]
    if value is None:
        return Reward(None)
    if isinstance(value, bool | int | float):
        return Reward(float(value)) if math.isfinite(value) else Reward(None, f"returned {value}, no finite number")
    return Reward(None, f"returned {type(value).__name__}, no number")
