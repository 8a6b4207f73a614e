"""What travels between trainer and sampling server: safetensors and JSON headers, nothing that runs when it is read.

A request to generate carries prompts, seeds, budgets and sampling settings; the answer carries ids, log-probabilities
as float32, whether each row ended, the version of the weights, and the packed sets that could be drawn. Weights travel
by name with their version.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict

import torch
from safetensors.torch import load, save
from torch import Tensor

from rlvitals.grpo.rollout import Generated, Sampling

MAX_BYTES = 64_000_000_000  # of one message (convention: weights of 30 B parameters in bfloat16)


def _flat(rows: Sequence[Sequence[float]], dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    lengths = torch.tensor([len(r) for r in rows], dtype=torch.int64)
    return torch.tensor([x for r in rows for x in r], dtype=dtype), lengths


def _rows(flat: Tensor, lengths: Tensor) -> list[list[float]]:
    return [part.tolist() for part in torch.split(flat, lengths.tolist())]


def pack_request(
    prompts: Sequence[Sequence[int]], seeds: Sequence[int], budgets: Sequence[int], sampling: Sampling
) -> bytes:
    """Return a request to generate."""
    flat, lengths = _flat(prompts, torch.int64)
    tensors = {"prompts": flat, "lengths": lengths, "seeds": torch.tensor(seeds), "budgets": torch.tensor(budgets)}
    return bytes(save(tensors, {"sampling": json.dumps(asdict(sampling))}))


def unpack_request(data: bytes) -> tuple[list[list[int]], list[int], list[int], Sampling]:
    """Return what `pack_request` was given. Raises ValueError for anything else."""
    tensors, meta = _read(data)
    settings = json.loads(meta.get("sampling", "null"))
    if not isinstance(settings, dict) or not {"prompts", "lengths", "seeds", "budgets"} <= set(tensors):
        raise ValueError("not a request to generate")
    prompts = [[int(i) for i in r] for r in _rows(tensors["prompts"], tensors["lengths"])]
    seeds, budgets = tensors["seeds"].tolist(), tensors["budgets"].tolist()
    if not len(prompts) == len(seeds) == len(budgets):
        raise ValueError("prompts, seeds and budgets of different numbers")
    return prompts, seeds, budgets, Sampling(**settings)


def pack_answer(made: Sequence[Generated]) -> bytes:
    """Return completions."""
    ids, lengths = _flat([g.ids for g in made], torch.int64)
    logp, _ = _flat([g.logp for g in made], torch.float32)
    tensors = {
        "ids": ids,
        "lengths": lengths,
        "logp": logp,
        "ended": torch.tensor([g.ended for g in made]),
        "versions": torch.tensor([g.version for g in made]),
    }
    sets = [g.keep_packed for g in made if g.keep_packed is not None]
    if len(sets) == len(made) and sets:
        tensors["keep"] = torch.cat(sets)
    return bytes(save(tensors))


def unpack_answer(data: bytes) -> list[Generated]:
    """Return completions. Raises ValueError for anything else."""
    tensors, _ = _read(data)
    if not {"ids", "lengths", "logp", "ended", "versions"} <= set(tensors):
        raise ValueError("not an answer of a sampling server")
    lengths = tensors["lengths"].tolist()
    keep: Sequence[Tensor | None] = [None] * len(lengths)
    if "keep" in tensors:
        keep = torch.split(tensors["keep"], lengths)
    return [
        Generated(tuple(int(i) for i in ids), tuple(logp), bool(ended), int(version), kept)
        for ids, logp, ended, version, kept in zip(
            _rows(tensors["ids"], tensors["lengths"]), _rows(tensors["logp"], tensors["lengths"]),
            tensors["ended"].tolist(), tensors["versions"].tolist(), keep, strict=True,
        )
    ]  # fmt: skip


def pack_weights(weights: Mapping[str, Tensor], version: int) -> bytes:
    """Return weights by name, each stored once."""
    seen: dict[int, str] = {}
    own: dict[str, Tensor] = {}
    for name, weight in weights.items():
        if weight.data_ptr() not in seen:  # tied weights are one tensor under two names
            seen[weight.data_ptr()] = name
            own[name] = weight.detach().to("cpu").contiguous()
    return bytes(save(own, {"version": str(version)}))


def unpack_weights(data: bytes) -> tuple[dict[str, Tensor], int]:
    """Return weights and their version. Raises ValueError."""
    tensors, meta = _read(data)
    if not meta.get("version", "").isdigit():
        raise ValueError("weights without a version")
    return tensors, int(meta["version"])


def _read(data: bytes) -> tuple[dict[str, Tensor], Mapping[str, str]]:
    try:
        tensors = load(data)
        size = int.from_bytes(data[:8], "little")
        meta = json.loads(data[8 : 8 + size]).get("__metadata__") or {}
    except Exception as error:  # safetensors has an error type of its own for each release
        raise ValueError(f"not a safetensors message: {error}"[:200]) from error
    return tensors, {str(k): str(v) for k, v in meta.items()}
