"""Names under which dumps write the columns of the table, and how stop reasons are told apart."""

from __future__ import annotations

import re
from collections.abc import Mapping

from rlvitals.rollouts.readers.sql import Raw, literal
from rlvitals.rollouts.table import PART

STEP = ("step", "training_step", "global_step", "iteration")
GROUP = ("group", "group_id", "group_idx", "prompt_uid", "prompt_idx")
INDEX = ("index", "sample_idx", "traj_idx", "rollout_idx")
PROMPT = ("prompt", "input", "question", "input_prompt", "problem")
PROMPT_ID = ("prompt_id", "example_id", "task_id", "problem_id")
COMPLETION = ("completion", "output", "response", "output_response", "model_response", "generation")
REWARD = ("reward", "score", "total_reward", "final_reward")
CORRECT = ("correct", "is_correct", "acc", "accuracy", "success")
FAMILY = ("family", "data_source", "dataset", "env", "env_name", "task", "domain", "source", "tag", "subject")
TIER = ("tier", "level", "difficulty")
SPLIT = ("split",)
GOLD = ("gold", "gts", "ground_truth", "answer", "solution", "label", "gold_answer")
PARSED = ("parsed", "pred", "extracted", "extracted_answer", "parsed_answer")
RAW = ("raw_output", "verifier_output", "raw")
STATUS = ("verifier_status",)
STOP = ("stop_reason", "finish_reason", "termination_reason", "stop_condition")
TOKENS = ("tokens", "completion_tokens", "response_length", "num_tokens", "output_tokens", "completion_length")
PROMPT_TOKENS = ("prompt_tokens", "prompt_len", "prompt_length", "input_tokens")
ADVANTAGE = ("advantage", "advantages")
VERSION = ("policy_version", "model_version", "weight_version", "tail_version")
TURNS = ("turns", "num_turns")

FLAT: dict[str, tuple[str, tuple[str, ...]]] = {
    "step": ("whole", STEP),
    "group": ("text", GROUP),
    "index": ("whole", INDEX),
    "prompt_id": ("text", PROMPT_ID),
    "prompt": ("text", PROMPT),
    "completion": ("text", COMPLETION),
    "reward": ("number", REWARD),
    "correct": ("number", CORRECT),
    "family": ("text", FAMILY),
    "tier": ("text", TIER),
    "split": ("text", SPLIT),
    "gold": ("text", GOLD),
    "parsed": ("text", PARSED),
    "raw_output": ("text", RAW),
    "verifier_status": ("text", STATUS),
    "tokens": ("whole", TOKENS),
    "prompt_tokens": ("whole", PROMPT_TOKENS),
    "advantage": ("number", ADVANTAGE),
    "policy_version": ("whole", VERSION),
    "turns": ("whole", TURNS),
}
KEYS: tuple[str, ...] = tuple(dict.fromkeys(key for _, keys in FLAT.values() for key in keys)) + STOP
_JUDGED = re.compile(r"(?:^|[_/ ])(?:acc|accuracy|correct|correctness|success|exact_match)(?:$|[_/ ])", re.IGNORECASE)

_STOPS: dict[str, tuple[str, ...]] = {
    "eos": ("stop", "eos", "end_turn", "completed", "agent_completed", "finished", "has_final_env_response"),
    "budget": (
        "length", "budget", "max_tokens", "truncated", "context_length", "generation_truncated",
        "max_response_length_exceeded", "max_prompt_length_exceeded", "max_total_tokens", "max_output_tokens",
        "max_input_tokens", "max_tokens_reached", "max_seq_len",
    ),
    "timeout": ("timeout", "timed_out", "timeout_reached"),
    "error": ("error", "abort", "aborted", "failed", "cancelled", "has_error"),
    "tool": ("tool", "tool_calls", "tool_call"),
    "env": ("env", "env_done", "max_turns", "max_turns_exceeded", "max_turns_reached", "done", "terminated"),
}  # fmt: skip
STOP_NAMES = {name: reason for reason, names in _STOPS.items() for name in names}


def stop(value: object) -> str | None:
    """Return the stop reason in canonical words; one that no trainer is known to write stays as it is."""
    if not isinstance(value, str) or not value:
        return None
    return STOP_NAMES.get(value.lower(), value[:80])


def stop_sql(text: str | None) -> str | None:
    """Return SQL for the same."""
    if text is None:
        return None
    lists = " ".join(
        f"WHEN lower({text}) IN ({', '.join(map(literal, names))}) THEN {literal(reason)}"
        for reason, names in _STOPS.items()
    )
    return f"CASE {lists} ELSE left({text}, 80) END"


_ANSWER = r"\\boxed\{[^{}]{1,200}\}|<answer>[^<]{1,200}</answer>|####[ \t]*\S[^\n]{0,199}"
_WRAP = r"^(?:\\boxed\{|<answer>|####[ \t]*)|(?:\}|</answer>)$"
_TAIL = 4_000  # characters from the end of a completion in which its final answer is looked for
_FOUND, _AROUND = re.compile(_ANSWER), re.compile(_WRAP)


def answer(text: object) -> str | None:
    """Return the final answer of a completion: the last boxed, tagged or ####-marked one, None without any."""
    found = _FOUND.findall(text[-_TAIL:]) if isinstance(text, str) else []
    return _AROUND.sub("", found[-1]).strip() if found else None


def answer_sql(text: str | None) -> str | None:
    """Return SQL for the same."""
    if text is None:
        return None
    last = f"regexp_extract_all(right({text}, {_TAIL}), {literal(_ANSWER)})[-1]"
    return f"trim(regexp_replace({last}, {literal(_WRAP)}, '', 'g'))"


def flat(raw: Raw) -> dict[str, str | None]:
    """Return the columns that a flat dump has under any of the usual names."""
    forms = {"whole": raw.whole, "number": raw.number, "text": raw.text}
    out: dict[str, str | None] = {name: forms[kind](*keys) for name, (kind, keys) in FLAT.items()}
    out["stop_reason"] = stop_sql(raw.text(*STOP))
    if out["parsed"] is None and out["gold"] is not None:
        out["parsed"] = answer_sql(out["completion"])
    return out


def flat_row(record: Mapping[str, object]) -> dict[str, object]:
    """Return the same columns of one record."""
    out = {name: next((record[k] for k in keys if record.get(k) is not None), None) for name, (_, keys) in FLAT.items()}
    out["stop_reason"] = stop(next((record[k] for k in STOP if record.get(k) is not None), None))
    if out["parsed"] is None and out["gold"] is not None:
        out["parsed"] = answer(out["completion"])
    return out


def part(name: str) -> str:
    """Return the column of a reward component."""
    return PART + name[:80]


def judges(name: str) -> bool:
    """True for the name of a component that says whether the answer is right."""
    return _JUDGED.search(name) is not None


def text_key(sql: str | None) -> str | None:
    """Return SQL that identifies a prompt or completion by its text."""
    return None if sql is None else f"left(md5({sql}), 16)"
