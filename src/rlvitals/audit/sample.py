"""Sample a base policy: a local model (transformers), or any endpoint that speaks OpenAI's chat completions.

The endpoint is asked with the standard library alone: one request per completion, a few at a time, retried when the
server is busy. torch and transformers are imported by name, only for a local model.
"""

from __future__ import annotations

import importlib
import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from rlvitals.audit.rows import Row
from rlvitals.env import Item, StopReason
from rlvitals.errors import InputError, Problem

MAX_REPLY = 16 << 20  # bytes
RETRIES = 3
PARALLEL = 8  # requests under way
KEY_VARIABLE = "OPENAI_API_KEY"
STOPS = {"stop": StopReason.EOS.value, "length": StopReason.BUDGET.value, "tool_calls": StopReason.TOOL.value}


@dataclass(frozen=True, slots=True)
class Sampling:
    """How to sample: completions per task, temperature, nucleus, token budget and, for a local model, the seed."""

    per_task: int = 8
    temperature: float = 1.0
    top_p: float = 1.0
    max_tokens: int = 512
    seed: int = 0


def _row(number: int, item: Item, index: int, text: str, stop: str) -> Row:
    return Row(
        number, "sampled", item.messages, text, item.gold, item.family, item.tier, item.id, 0, item.id, index,
        stop=stop, turns=(text,), extra=item.extra,
    )  # fmt: skip


def sample_endpoint(
    url: str,
    model: str,
    items: Sequence[Item],
    how: Sampling,
    *,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> tuple[Row, ...]:
    """Return per_task completions of each task from `url`/chat/completions.

    The key is read from the environment variable OPENAI_API_KEY, and sent over https or to this machine alone. Raises
    InputError when the endpoint can't be reached or answers otherwise.
    """
    parts = urlsplit(url)
    local = parts.hostname in ("localhost", "127.0.0.1", "::1")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InputError(Problem("not an address", "--endpoint", repr(url), "http://host:port/v1"))
    headers = {"Content-Type": "application/json"}
    key = os.environ.get(KEY_VARIABLE)
    if key and (local or parts.scheme == "https"):
        headers["Authorization"] = f"Bearer {key}"
    address = url.rstrip("/") + "/chat/completions"
    jobs = [(i, item, k) for i, item in enumerate(items) for k in range(how.per_task)]
    done = [0]

    def one(job: tuple[int, Item, int]) -> Row:
        i, item, k = job
        body = {
            "model": model, "messages": [{"role": m.role, "content": m.content} for m in item.messages],
            "temperature": how.temperature, "top_p": how.top_p, "max_tokens": how.max_tokens,
        }  # fmt: skip
        text, stop = _choice(_post(address, headers, body), address)
        done[0] += 1
        progress(done[0], len(jobs))
        return _row(i * how.per_task + k, item, k, text, stop)

    with ThreadPoolExecutor(PARALLEL) as pool:
        futures = [pool.submit(one, job) for job in jobs]
        try:
            return tuple(f.result() for f in futures)
        except InputError:
            for f in futures:
                f.cancel()
            raise


def _post(address: str, headers: dict[str, str], body: dict[str, Any]) -> Any:
    data = json.dumps(body).encode()
    for attempt in range(RETRIES + 1):
        request = urllib.request.Request(address, data, headers, method="POST")
        try:
            with urllib.request.urlopen(request, timeout=300) as reply:
                return json.loads(reply.read(MAX_REPLY))
        except urllib.error.HTTPError as error:
            said = error.read(500).decode("utf-8", "replace")
            if attempt == RETRIES or error.code not in (408, 409, 429, 500, 502, 503, 504):
                raise InputError(Problem("the endpoint refused", address, f"{error.code}: {said}")) from error
        except (OSError, ValueError) as error:
            if attempt == RETRIES or isinstance(error, ValueError):
                raise InputError(Problem("no answer from the endpoint", address, str(error))) from error
        time.sleep(0.5 * 2**attempt)
    raise AssertionError("unreachable")


def _choice(reply: Any, address: str) -> tuple[str, str]:
    try:
        choice = reply["choices"][0]
        return str(choice["message"]["content"] or ""), STOPS.get(choice.get("finish_reason"), "")
    except (KeyError, IndexError, TypeError) as error:
        raise InputError(
            Problem("no chat completion in the answer", address, json.dumps(reply)[:200], "choices[0].message.content")
        ) from error


def sample_local(
    model: str, items: Sequence[Item], how: Sampling, *, progress: Callable[[int, int], None] = lambda *_: None
) -> tuple[Row, ...]:
    """Return per_task completions of each task from a model of transformers, one task at a time.

    Raises InputError when torch or transformers is not installed, or the model can't be loaded.
    """
    try:
        torch: Any = importlib.import_module("torch")
        transformers: Any = importlib.import_module("transformers")
    except ImportError as error:
        raise InputError(
            Problem("a local model needs torch and transformers", hint="pip install 'rlvitals[train]'")
        ) from error
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(model)
        policy = transformers.AutoModelForCausalLM.from_pretrained(model)
    except (OSError, ValueError) as error:
        raise InputError(
            Problem("the model can't be loaded", f"--model {model}", str(error).splitlines()[0][:200])
        ) from error
    policy = policy.to("cuda" if torch.cuda.is_available() else "cpu").eval()
    torch.manual_seed(how.seed)
    rows: list[Row] = []
    for item in items:
        for k, (text, stop) in enumerate(_generate(torch, tokenizer, policy, item, how)):
            rows.append(_row(len(rows), item, k, text, stop))
        progress(len(rows), len(items) * how.per_task)
    return tuple(rows)


def _generate(torch: Any, tokenizer: Any, policy: Any, item: Item, how: Sampling) -> list[tuple[str, str]]:
    messages = [{"role": m.role, "content": m.content} for m in item.messages]
    if tokenizer.chat_template:
        prompt = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        inputs = tokenizer(prompt, return_tensors="pt", add_special_tokens=False)
    else:
        inputs = tokenizer("\n".join(m.content for m in item.messages), return_tensors="pt")
    ids = inputs["input_ids"].to(policy.device)
    ends = (
        policy.generation_config.eos_token_id
        if policy.generation_config.eos_token_id is not None
        else tokenizer.eos_token_id
    )
    stops = set(ends if isinstance(ends, list) else [ends]) - {None}
    with torch.no_grad():
        out = policy.generate(
            input_ids=ids, attention_mask=torch.ones_like(ids), do_sample=True, temperature=how.temperature,
            top_p=how.top_p, top_k=0, max_new_tokens=how.max_tokens, num_return_sequences=how.per_task,
            pad_token_id=tokenizer.pad_token_id if tokenizer.pad_token_id is not None else next(iter(stops), 0),
        )  # fmt: skip
    found = []
    for sequence in out[:, ids.shape[1] :].tolist():
        at = next((i for i, token in enumerate(sequence) if token in stops), None)
        text = tokenizer.decode(sequence if at is None else sequence[:at], skip_special_tokens=True)
        found.append((text, StopReason.BUDGET.value if at is None else StopReason.EOS.value))
    return found
