"""The embedded tasks and the tiny policy: splits, verdicts, turns, demonstrations and the cache."""

from __future__ import annotations

import math
import random
from pathlib import Path

import pytest
import torch

from rlvitals.env import Message, StopReason, VerifierStatus
from rlvitals.errors import InputError
from rlvitals.grpo import tiny
from rlvitals.grpo.chat import added_ids, decoded, prompt_ids, turn_ids
from rlvitals.grpo.models import load_policy
from rlvitals.grpo.tasks.arithmetic import Sum, arithmetic, columns, judge, sums
from rlvitals.grpo.tasks.arithmetic import item_of as sum_item
from rlvitals.grpo.tasks.calculator import CalculatorEnv, calculate, calculator, item_of
from rlvitals.grpo.tasks.demonstrations import arithmetic_demonstrations, calculator_demonstrations, worked
from rlvitals.grpo.tasks.load import KINDS, load_task
from rlvitals.grpo.warmstart import Settings, encode, warm_start
from rlvitals.grpo.warmstart_file import read_file

RIGHT, WRONG, NO_PARSE = VerifierStatus.RIGHT, VerifierStatus.WRONG, VerifierStatus.NO_PARSE


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("<think>7+5=12,4+8+1=13</think>132", RIGHT),
        ("132", RIGHT),
        ("<think>7+5=12</think>122", WRONG),
        ("0132", WRONG),
        ("<think>132", NO_PARSE),
        ("132 ", NO_PARSE),
        ("１３２", NO_PARSE),
        ("", NO_PARSE),
        ("10**10**10", NO_PARSE),
        ("(" * 5000, NO_PARSE),
        ("open('x','w')", NO_PARSE),
    ],
)
def test_sums_are_judged_by_their_digits(text: str, status: VerifierStatus) -> None:
    assert judge(text, "132") is status


def test_environment_gives_partial_credit_for_right_columns() -> None:
    env = arithmetic(("2",)).new_env()
    item = sum_item(Sum(47, 85))
    env.reset(item, 0)
    lines = columns(item)
    step = env.step(f"<think>{lines[0]}</think>{item.gold}")
    assert (step.done, step.status, step.raw) == (True, RIGHT, item.gold)
    assert step.rewards == {"correct": 1.0, "milestones": 0.5}


def test_written_out_columns() -> None:
    assert columns(sum_item(Sum(47, 85))) == ("7+5=12", "4+8+1=13")
    assert (Sum(47, 85).carries, Sum(11, 11).carries, Sum(955, 155).carries) == (1, 0, 2)


def test_split_keeps_both_orders_on_one_side_and_never_overlaps() -> None:
    train = {(s.a, s.b) for s in sums(2, held_out=False, count=9999, seed=0)}
    held_out = {(s.a, s.b) for s in sums(2, held_out=True, count=9999, seed=0)}
    assert train.isdisjoint(held_out)
    assert len(train) + len(held_out) == 8100
    assert all((b, a) in held_out for a, b in held_out)
    assert 0.17 < len(held_out) / 8100 < 0.23
    task = arithmetic(("1", "2", "3"))
    assert {i.id for i in task.train}.isdisjoint(i.id for i in task.held_out)
    assert {i.tier for i in task.held_out} == {"2", "3"}
    assert task == arithmetic(("1", "2", "3"))


def test_demonstrations_say_nothing_about_when_to_carry() -> None:
    due = {True: [0, 0], False: [0, 0]}
    rng = random.Random(1)
    for item in sums(2, held_out=False, count=6000, seed=3):
        thinking, answer = worked(item, rng, 0.3)
        shown = thinking.split(",")[1].count("+") == 2
        due[item.carries > 0][shown] += 1
        low, high = (line.split("=")[1] for line in thinking.split(","))
        assert answer == high + low[-1]
    rates = {k: shown / (shown + hidden) for k, (hidden, shown) in due.items()}
    assert rates[True] == pytest.approx(0.3, abs=0.03)
    assert rates[False] == pytest.approx(0.3, abs=0.03)


def test_demonstrations_come_from_the_training_side() -> None:
    asked = {d[0].content for d in arithmetic_demonstrations(("2",), 500)}
    held_out = {s.prompt for s in sums(2, held_out=True, count=9999, seed=0)}
    assert asked.isdisjoint(held_out)
    task = calculator()
    asked = {d[0].content for d in calculator_demonstrations(500)}
    assert asked.isdisjoint(i.messages[0].content for i in task.held_out)


@pytest.mark.parametrize(
    ("call", "value"),
    [("47+85", "132"), ("3-5", "-2"), ("12*12", "144"), ("1+2+3", "?"), ("9**9", "?"), ("", "?"),
     ("open('x')", "?"), ("1" * 13 + "+1", "?"), ("９+1", "?")],
)  # fmt: skip
def test_calculator_takes_two_numbers_and_evaluates_nothing(call: str, value: str) -> None:
    assert calculate(call) == value


def test_calculator_plays_over_turns() -> None:
    env = CalculatorEnv()
    assert env.reset(item_of((47, 85, 36)), 0) == (Message("user", "#47+85+36="),)
    first = env.step("<call>47+85</call>")
    assert (first.done, first.messages, first.status, first.rewards) == (False, (Message("tool", "132"),), None, {})
    assert env.step("<call>132+").messages == (Message("tool", "?"),)
    assert env.step("<call>132+36</call>").messages == (Message("tool", "168"),)
    last = env.step("168")
    assert (last.done, last.status, last.rewards) == (True, RIGHT, {"correct": 1.0})


def test_fourth_turn_must_be_an_answer() -> None:
    env = CalculatorEnv()
    env.reset(item_of((47, 85, 36)), 0)
    for _ in range(3):
        assert not env.step("<call>47+85</call>").done
    last = env.step("<call>47+85</call>")
    assert (last.done, last.status, last.reason, last.rewards) == (True, NO_PARSE, StopReason.ENV, {"correct": 0.0})
    env.reset(item_of((47, 85, 36)), 0)
    assert not env.step("<call>47+85</call>").done


def test_tokenizer_has_one_token_per_character_and_tag() -> None:
    tok = tiny.new_tokenizer()
    text = "<think>7+5=12,4+8+1=13</think>132"
    ids = turn_ids(tok, text)
    assert len(ids) == len(text) - len("<think></think>") + 2 + 1
    assert (decoded(tok, ids), ids[-1]) == (text, tok.eos_token_id)
    assert tok.decode(prompt_ids(tok, [Message("user", "4+5=")])) == "<bos>4+5="


def test_turns_are_joined_without_encoding_them_again() -> None:
    tok = tiny.new_tokenizer()
    user, call, result = (Message("user", "#1+2+3="), Message("assistant", "<call>1+2</call>"), Message("tool", "3"))
    whole = prompt_ids(tok, [user]) + turn_ids(tok, call.content) + added_ids(tok, [user, call], [result])
    assert tok.decode(whole) == "<bos>#1+2+3=<call>1+2</call><eos><out>3</out>"
    row = encode(tok, (user, call, result, Message("assistant", "6")))
    assert tok.decode([i for i, said in zip(row.ids, row.said, strict=True) if said]) == "<call>1+2</call><eos>6<eos>"


SMALL = tiny.Recipe(steps=3, batch=4, hidden=16, heads=2, ff=16, layers=1)


def test_warm_start_is_the_same_each_time_and_lowers_the_loss() -> None:
    first, second = tiny.make(SMALL), tiny.make(SMALL)
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))
    model = tiny.new_model(SMALL)
    dialogues = arithmetic_demonstrations(("1",), 64, carry_shown=0.0)
    settings = Settings(epochs=10, batch=16, warmup_steps=2, learning_rate=1e-2)
    losses = warm_start(model, tiny.new_tokenizer(), dialogues, settings)
    assert len(losses) == 40
    assert losses[0] == pytest.approx(math.log(len(tiny.WORDS)), abs=0.2)
    assert sum(losses[-5:]) / 5 < 0.75 * losses[0]
    assert not model.training or tiny.new_model(SMALL).training


def test_weights_are_kept_under_the_hash_of_their_recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(tiny.CACHE, str(tmp_path))
    state = torch.random.get_rng_state()
    made, _ = tiny.load(SMALL)
    assert torch.equal(state, torch.random.get_rng_state())  # the caller's randomness is left alone
    assert [p.name for p in tmp_path.iterdir()] == [f"tiny-arithmetic-{SMALL.key}.safetensors"]
    monkeypatch.setattr(tiny, "make", lambda recipe: pytest.fail("made again"))
    kept, _ = tiny.load(SMALL)
    for (name, a), (_, b) in zip(made.state_dict().items(), kept.state_dict().items(), strict=True):
        assert torch.equal(a, b), name
    assert kept.lm_head.weight is kept.get_input_embeddings().weight


def test_folder_that_cannot_be_written_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(tiny.CACHE, str(tmp_path / "file" / "below"))
    model, _ = tiny.load(SMALL)
    assert sum(p.numel() for p in model.parameters()) > 0


def test_every_task_has_its_own_recipe() -> None:
    assert tiny.recipe_for("calculator").kind == "calculator"
    assert tiny.recipe_for("arithmetic:format=1,tiers=2+3").tiers == ("2", "3")
    assert tiny.recipe_for("arithmetic:tiers=4") == tiny.recipe_for("dataset:path=x") == tiny.Recipe()
    assert len({tiny.recipe_for(k.name).key for k in KINDS[:2]}) == 2


def test_format_reward_looks_at_ids_where_tags_are_tokens() -> None:
    task = load_task("arithmetic:format=0.2,format_if_right=yes,length_penalty=0.1,rule=gated", tiny.new_tokenizer())
    assert task.plan.names == ("correct", "format", "length_penalty")
    assert task.plan.weights == (1.0, 0.2, -0.1)
    assert task.plan.parts[1].judge.__qualname__.startswith("by_ids")  # type: ignore[union-attr]
    assert load_task("arithmetic:format=1").plan.parts[1].judge.__name__ == "by_text"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("arithmetik", "Nearest: arithmetic"),
        ("arithmetic:tier=2", "Nearest: tiers"),
        ("arithmetic:tiers=9", "expected 1+2+3+4"),
        ("arithmetic:format=much", "expected a number"),
        ("arithmetic:format", "a task option has no value"),
        ("arithmetic:rule=mean", "expected sum, gated, gdpo"),
        ("calculator:milestones=1", "the task gives no such reward part"),
        ("dataset", "Try --task dataset:path=problems.jsonl"),
        ("code:path=x", "expected yes"),
    ],
)
def test_what_is_wrong_with_a_task_is_said(spec: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        load_task(spec)
    assert said in str(caught.value)


def test_warm_start_file(tmp_path: Path) -> None:
    path = tmp_path / "demos.jsonl"
    path.write_text(
        '{"prompt": "1+1=", "completion": "2"}\n\n'
        '{"messages": [{"role": "user", "content": "1+2="}, {"role": "assistant", "content": "3"}]}\n'
    )
    assert read_file(path) == {
        1: (Message("user", "1+1="), Message("assistant", "2")),
        3: (Message("user", "1+2="), Message("assistant", "3")),
    }
    path.write_text('{"prompt": "1+1="}\n{"messages": [{"role": "user", "content": "1"}]}\nnot json\n[1]\n')
    with pytest.raises(InputError) as caught:
        read_file(path)
    assert [p.where for p in caught.value.problems] == [f"{path} line {n}" for n in (1, 2, 3, 4)]
    with pytest.raises(InputError, match="no such file"):
        read_file(tmp_path / "gone.jsonl")
    path.write_text("")
    with pytest.raises(InputError, match="no demonstrations"):
        read_file(path)


def test_model_that_is_not_there() -> None:
    with pytest.raises(InputError, match="the model can't be loaded"):
        load_policy("/no/such/folder")
