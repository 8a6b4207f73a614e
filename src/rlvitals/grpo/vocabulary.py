"""What a tokenizer makes of the thinking tags, and unused ids to give to them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from rlvitals.errors import InputError, Problem
from rlvitals.grpo.chat import Tokenizer

TAGS = ("<think>", "</think>")
# names under which vocabularies keep spare entries: <unused12>, <|reserved_special_token_3|>, <|extra_0|> ...
SPARE = re.compile(r"^<\|?(unused|reserved|extra|empty|filler|dummy)[a-z_]*[_-]?\d+\|?>$", re.IGNORECASE)
MARK = re.compile(r"^<[a-z]+(_[a-z]+)+>$")  # <file_sep>, <jupyter_start> ...: marks of code corpora


@dataclass(frozen=True, slots=True)
class TagReport:
    """How many tokens each tag takes.

    Attributes:
        tokens: tag -> its token ids.
        spare: ids of vocabulary entries that are named as unused, or lie in the model's matrix beyond the tokenizer;
            where there are none, of marks for file names and the like that chats never use.
    """

    tokens: dict[str, tuple[int, ...]]
    spare: tuple[int, ...]

    @property
    def single(self) -> bool:
        return all(len(ids) == 1 for ids in self.tokens.values())

    def __str__(self) -> str:
        counts = ", ".join(f"{tag} {len(ids)}" for tag, ids in self.tokens.items())
        if self.single:
            return f"thinking tags are one token each ({counts})"
        offer = f"{len(self.spare)} unused ids could take them" if self.spare else "no unused ids found"
        return f"thinking tags are several tokens ({counts}); {offer}"


def report(tokenizer: Tokenizer, model: Any = None) -> TagReport:
    """Return what the tokenizer makes of the thinking tags.

    Args:
        model: where given, rows of its embedding beyond the tokenizer's vocabulary count as spare too.
    """
    tokens = {tag: tuple(int(i) for i in tokenizer.encode(tag, add_special_tokens=False)) for tag in TAGS}
    spare = sorted(i for word, i in tokenizer.get_vocab().items() if SPARE.match(word))
    if model is not None:
        spare += range(len(tokenizer), model.get_input_embeddings().weight.shape[0])
    return TagReport(tokens, tuple(spare or _idle(tokenizer)))


def _idle(tokenizer: Tokenizer) -> list[int]:
    """Return ids of marks such as `<file_sep>` that neither the chat template nor a special role uses."""
    template = str(tokenizer.chat_template or "")
    roles = {str(t) for t in tokenizer.all_special_tokens if t in (tokenizer.bos_token, tokenizer.eos_token)}
    roles |= {str(t) for t in (tokenizer.pad_token, tokenizer.unk_token) if t}
    marks = sorted((i, word) for word, i in tokenizer.get_vocab().items() if MARK.match(word))
    return [i for i, word in marks if word not in roles and word not in template and word not in TAGS]


def tag_ids(tokenizer: Tokenizer) -> tuple[int, int] | None:
    """Return the ids of `<think>` and `</think>` where each is one token, else None."""
    found = report(tokenizer)
    if not found.single:
        return None
    open_ids, close_ids = (found.tokens[t] for t in TAGS)
    return (open_ids[0], close_ids[0]) if open_ids != close_ids else None  # both the unknown token


def take_unused(tokenizer: Tokenizer, model: Any) -> Tokenizer:
    """Return a tokenizer in which each thinking tag is one token, put on unused ids; the model's shape stays.

    The embedding of each new token starts at the mean of the tokens that spelled it. InputError where the
    vocabulary has fewer than two unused ids.
    """
    found = report(tokenizer, model)
    if found.single:
        return tokenizer
    if len(found.spare) < len(TAGS):
        raise InputError(
            Problem(
                "no unused ids for the thinking tags", "tokenizer", str(len(found.spare)), f"{len(TAGS)} or more",
                "Leave them as several tokens, or take a model whose vocabulary has spare entries",
            )
        )  # fmt: skip
    beyond = [i for i in found.spare if i >= len(tokenizer)]
    if len(beyond) >= len(TAGS):
        tokenizer.add_tokens(list(TAGS))  # they take the next ids, which the model's matrix already has
    else:
        tokenizer = _renamed(tokenizer, dict(zip(found.spare, TAGS, strict=False)))
    _start_at_mean(tokenizer, model, found)
    return tokenizer


def _renamed(tokenizer: Tokenizer, names: dict[int, str]) -> Tokenizer:
    """Return a tokenizer whose entries of these ids are called by these names and never split."""
    import json

    from tokenizers import Tokenizer as Inner

    state = json.loads(tokenizer.backend_tokenizer.to_str())
    added = {t["id"]: t for t in state["added_tokens"]}
    for i, name in names.items():
        plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": False}
        added[i] = {**plain, "id": i, "content": name}
    state["added_tokens"] = [added[i] for i in sorted(added)]
    vocabulary = state["model"].get("vocab")
    if isinstance(vocabulary, dict):
        renamed = {names.get(i, word): i for word, i in vocabulary.items()}
        state["model"]["vocab"] = renamed
    special = {k: v for k, v in tokenizer.special_tokens_map.items() if isinstance(v, str)}
    out = type(tokenizer)(tokenizer_object=Inner.from_str(json.dumps(state)), **special)
    out.chat_template = tokenizer.chat_template
    out.padding_side = tokenizer.padding_side
    return out


def _start_at_mean(tokenizer: Tokenizer, model: Any, before: TagReport) -> None:
    import torch

    after = report(tokenizer)
    tables = {id(t.weight): t.weight for t in (model.get_input_embeddings(), model.get_output_embeddings()) if t}
    with torch.no_grad():
        for tag in TAGS:
            pieces = torch.tensor(before.tokens[tag])
            for weight in tables.values():
                weight[after.tokens[tag][0]] = weight[pieces].mean(dim=0)
