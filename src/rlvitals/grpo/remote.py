"""Sampling elsewhere: a client for a server that generates with ids, log-probabilities and the version of its weights.

The protocol is three requests, with bodies as in wire.py:

    GET  /health     {"version": N}                       is it there, and how old are its weights
    POST /generate   prompts, seeds, budgets, settings -> ids, log-probabilities, ended, versions
    POST /weights    weights by name and their version -> {"version": N}

`rlvitals.grpo.server` speaks it. An engine such as vLLM can stand behind it as well; that is untested.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Sequence
from typing import Any, cast

from torch import Tensor, nn

from rlvitals.errors import InputError, Problem
from rlvitals.grpo.distributed import weights
from rlvitals.grpo.rollout import Generated, Sampling
from rlvitals.grpo.wire import MAX_BYTES, pack_request, pack_weights, unpack_answer

TIMEOUT_S = 3600.0  # of one request: a batch of long completions takes minutes (convention)


class RemoteSampler:
    """A sampler that asks a server.

    Args:
        url: its address, "http://host:port".

    The lag is measured, not assumed: every completion carries the version that the server says it sampled with. Raises
    InputError when the server does not answer or answers nonsense.
    """

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        if not self.url.startswith(("http://", "https://")):
            raise InputError(Problem("not the address of a server", "sampler", repr(url), "http://host:port"))
        self.version()

    def version(self) -> int:
        """Return the version of the weights that the server samples with now."""
        try:
            return int(json.loads(self._send("/health"))["version"])
        except (ValueError, KeyError, TypeError) as error:
            raise self._problem(f"its health: {error}") from error

    def generate(
        self, prompts: Sequence[Sequence[int]], seeds: Sequence[int], budgets: Sequence[int], sampling: Sampling
    ) -> list[Generated]:
        """Return one completion per prompt, in order."""
        data = self._send("/generate", pack_request(prompts, seeds, budgets, sampling))
        try:
            made = unpack_answer(data)
        except ValueError as error:
            raise self._problem(str(error)) from error
        if len(made) != len(prompts) or any(len(g.ids) != len(g.logp) or not g.ids for g in made):
            raise self._problem(f"{len(made)} completions for {len(prompts)} prompts")
        return made

    def push(self, model: nn.Module, version: int) -> None:
        """Send the weights; adapters are merged into what they adapt first."""
        self._send("/weights", pack_weights(merged_weights(model), version))

    def _send(self, path: str, body: bytes | None = None) -> bytes:
        request = urllib.request.Request(self.url + path, data=body, method="GET" if body is None else "POST")
        if body is not None:
            request.add_header("Content-Type", "application/octet-stream")
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
                return bytes(answer.read(MAX_BYTES))
        except urllib.error.HTTPError as error:
            raise self._problem(f"HTTP {error.code}: {error.read(200).decode(errors='replace')}") from error
        except OSError as error:
            raise self._problem(str(error)) from error

    def _problem(self, found: str) -> InputError:
        return InputError(
            Problem("the sampling server cannot be used", self.url, found[:200], "a server of this protocol",
                    "Start one: python -m rlvitals.grpo.server --model PATH --port 8100")
        )  # fmt: skip


def merged_weights(model: nn.Module) -> dict[str, Tensor]:
    """Return the weights under the names of the model without adapters, the adapters added in."""
    if not hasattr(model, "peft_config"):
        return weights(model)
    adapted = cast("Any", model)
    adapted.merge_adapter()
    try:
        state = weights(adapted.get_base_model())
        return {n.replace(".base_layer.", "."): w.clone() for n, w in state.items() if "lora_" not in n}
    finally:
        adapted.unmerge_adapter()
