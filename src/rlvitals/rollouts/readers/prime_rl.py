"""prime-rl and verifiers: `rollouts/step_<N>/{train,eval}/all/traces.jsonl`, one episode per line.

The subset "effective" repeats a part of "all" and is left out. A reward is the sum of score times weight.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rlvitals.rollouts.readers import aliases, records
from rlvitals.rollouts.readers.base import Head, Reader, Request
from rlvitals.rollouts.readers.records import Row
from rlvitals.rollouts.readers.steps import step_of
from rlvitals.rollouts.readers.texts import joined
from rlvitals.rollouts.table import Batch

_STEP = re.compile(r"step_(\d+)/")
_MOST_NODES = 4_096


def _accepts(head: Head) -> bool:
    return head.has("traces", "task") and "/effective/" not in f"/{head.place}"


def _evaluation(head: Head) -> bool:
    return "/eval/" in f"/{head.place}"


def _rows(record: Mapping[str, Any], path: Path) -> Iterator[Row]:
    work = (record.get("run") or {}).get("work") or {}
    step = work.get("step", step_of(path, _STEP))
    data = (record.get("task") or {}).get("data") or {}
    policy = work.get("policy") or {}
    kind = work.get("type") or (record.get("run") or {}).get("type")
    for trace in record.get("traces") or ():
        nodes = (trace.get("nodes") or [])[:_MOST_NODES]
        sampled = [n for n in nodes if n.get("sampled")]
        calls = trace.get("calls") or []
        settings = (calls[-1].get("sampling") if calls else None) or {}
        logprobs = [v for n in sampled for v in n.get("logprobs") or ()]
        yield {
            "step": step,
            "group": (record.get("group") or {}).get("id"),
            "prompt_id": (record.get("task") or {}).get("hash"),
            "family": data.get("family") or (record.get("env") or {}).get("name"),
            "tier": data.get("tier", data.get("level")),
            "split": "eval" if kind == "eval" or _in_eval(path) else "train",
            "prompt": joined([n.get("message") for n in nodes if not n.get("sampled")][:4]),
            "completion": joined([n.get("message") for n in sampled]),
            "turns": len(sampled),
            "gold": data.get("answer"),
            "advantage": (trace.get("info") or {}).get("advantage"),
            "tokens": sum(len(n.get("token_ids") or ()) for n in sampled) or None,
            "prompt_tokens": sum(len(n.get("token_ids") or ()) for n in nodes[:1] if not n.get("sampled")) or None,
            "stop_reason": _stop(trace, calls),
            "verifier_status": "error" if trace.get("errors") else None,
            "policy_version": policy.get("start"),
            "sampler_logp": logprobs or None,
            "sampler_logp_sum": sum(logprobs) if logprobs else None,
            "temperature": settings.get("temperature"),
            "top_p": settings.get("top_p"),
            "token_budget": settings.get("max_tokens", settings.get("max_completion_tokens")),
            "env_version": (trace.get("verifiers") or {}).get("commit"),
            **_rewards(trace),
        }


def _in_eval(path: Path) -> bool:
    return "/eval/" in path.as_posix()


def _rewards(trace: Mapping[str, Any]) -> dict[str, object]:
    parts = trace.get("rewards") or {}
    out: dict[str, object] = {}
    total = 0.0
    for name, part in parts.items():
        score = records.number(part.get("score"))
        if score is None:
            continue
        out[aliases.part(name)] = score
        total += score * (records.number(part.get("weight", 1.0)) or 0.0)
        if aliases.judges(name):
            out["correct"] = score
    return {**out, "reward": total} if out else out


def _stop(trace: Mapping[str, Any], calls: Sequence[Mapping[str, Any]]) -> str | None:
    reason = trace.get("stop_condition")
    if calls and calls[-1].get("finish_reason") == "length":
        return "budget"
    return aliases.stop(reason or (calls[-1].get("finish_reason") if calls else None))


def read(paths: Sequence[Path], request: Request) -> Iterator[Batch]:
    return records.read(paths, _rows, request)


READER = Reader("prime-rl traces", _accepts, read, _evaluation)
