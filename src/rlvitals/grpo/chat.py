"""Messages to token ids: what the policy sees, what it said, and what the environment adds between its turns.

Sampled ids are never decoded and encoded again: a conversation grows by the ids that were sampled and by the ids of
what the environment said, so that the trainer scores exactly what the sampler produced.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rlvitals.env import Message
from rlvitals.errors import InputError, Problem

Tokenizer = Any  # transformers.PreTrainedTokenizerBase, whose stubs are partial


def _rendered(tokenizer: Tokenizer, messages: Sequence[Message], *, open_turn: bool) -> str:
    rows = [{"role": m.role, "content": m.content} for m in messages]
    text = tokenizer.apply_chat_template(rows, tokenize=False, add_generation_prompt=open_turn)
    return str(text)


def _encoded(tokenizer: Tokenizer, text: str) -> list[int]:
    return [int(i) for i in tokenizer.encode(text, add_special_tokens=False)]


def prompt_ids(tokenizer: Tokenizer, messages: Sequence[Message]) -> list[int]:
    """Return the ids [P] that the first turn continues: the chat template, or the plain text where there is none."""
    if tokenizer.chat_template:
        return _encoded(tokenizer, _rendered(tokenizer, messages, open_turn=True))
    start = [] if tokenizer.bos_token_id is None else [int(tokenizer.bos_token_id)]
    return start + _encoded(tokenizer, "\n".join(m.content for m in messages))


def turn_ids(tokenizer: Tokenizer, text: str) -> list[int]:
    """Return the ids of one assistant turn that is known as text, with its end token."""
    return [*_encoded(tokenizer, text), end_id(tokenizer)]


def added_ids(tokenizer: Tokenizer, history: Sequence[Message], added: Sequence[Message]) -> list[int]:
    """Return the ids between an assistant turn's end token and the next turn.

    Args:
        history: the conversation up to and including the assistant turn just made.
        added: what the environment answered.
    """
    if not tokenizer.chat_template:
        return _encoded(tokenizer, "\n" + "\n".join(m.content for m in added) + "\n")
    before = _rendered(tokenizer, history, open_turn=False)
    after = _rendered(tokenizer, [*history, *added], open_turn=True)
    end = str(tokenizer.eos_token)
    # templates put a newline or so behind the end token, which the sampler never produced
    at = before.rfind(end) + len(end) if end in before else len(before)
    if not after.startswith(before[:at]):
        raise InputError(
            Problem(
                "the chat template rewrites earlier turns, so several turns can't be trained token by token",
                where="tokenizer.chat_template",
                hint="Use a task of one turn, or a template that only appends",
            )
        )
    return _encoded(tokenizer, after[at:])


def end_id(tokenizer: Tokenizer) -> int:
    """Return the id that ends a turn. Raises InputError where the tokenizer has none."""
    if tokenizer.eos_token_id is None:
        raise InputError(
            Problem(
                "the tokenizer has no end token, so the policy could never learn to stop",
                where="tokenizer.eos_token",
                found="none",
                hint="Set eos_token in tokenizer_config.json",
            )
        )
    return int(tokenizer.eos_token_id)


def decoded(tokenizer: Tokenizer, ids: Sequence[int]) -> str:
    """Return the text of sampled ids without the end token and padding; other special tokens stay visible.

    Tags such as `<think>` are special tokens in some vocabularies, and a verifier must see them.
    """
    hidden = {tokenizer.eos_token_id, tokenizer.pad_token_id}
    kept = [i for i in ids if i not in hidden]
    return str(tokenizer.decode(kept, skip_special_tokens=False, clean_up_tokenization_spaces=False))
