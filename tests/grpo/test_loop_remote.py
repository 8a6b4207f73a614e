"""Sampling through a server in another process: the same samples, weights that arrive, a lag that is measured."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from rlvitals.errors import InputError
from rlvitals.grpo import remote, tiny, wire
from rlvitals.grpo.loop import train
from rlvitals.grpo.remote import RemoteSampler
from rlvitals.grpo.rollout import Generated, Sampling
from rlvitals.grpo.sampling import LocalSampler
from rlvitals.grpo.server import Service, serve
from tests.grpo.loops import PARTS, SHAPE, config, one_thread, rows

SERVER = """
from rlvitals.grpo import tiny
from rlvitals.grpo.server import Service, serve
from tests.grpo.loops import SHAPE, one_thread
one_thread()
server = serve(Service(tiny.new_model(SHAPE).eval(), 2, 0), "127.0.0.1", 0)
print(server.server_port, flush=True)
server.serve_forever()
"""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A sampling server in a process of its own."""
    root = Path(__file__).parents[2]
    child = subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True, cwd=root)
    assert child.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(child.stdout.readline())}"
    finally:
        child.kill()
        child.wait()


def test_a_run_through_a_server_is_the_run_in_one_process(url: str, tmp_path: Path) -> None:
    one_thread()
    train(config(steps=4), PARTS, folder=tmp_path / "local")
    train(config(steps=4, sampler=url), PARTS, folder=tmp_path / "remote")
    local, far = rows(tmp_path / "local"), rows(tmp_path / "remote")
    for a, b in zip(local, far, strict=True):
        assert {k: b[k] for k in a} == pytest.approx(a, abs=1e-4)
    assert [r["version_lag_max"] for r in far[1:]] == [0.0] * 4
    assert RemoteSampler(url).version() == 4


def test_a_server_that_is_not_told_of_new_weights_lags(url: str, tmp_path: Path) -> None:
    one_thread()
    seldom = replace(PARTS, sync=lambda sampler, model, version, step: None if step else sampler.push(model, version))
    train(config(steps=3, sampler=url), seldom, folder=tmp_path / "run")
    found = rows(tmp_path / "run")[1:]
    assert [r["version_lag_max"] for r in found] == [0.0, 1.0, 2.0]
    assert found[0]["logprob_gap_max"] < 1e-5 < 1e-3 < found[2]["logprob_gap_max"]


@pytest.mark.parametrize("how", [Sampling(max_tokens=5), Sampling(top_p=0.6, temperature=0.8, max_tokens=5)], ids=str)
def test_the_same_prompt_and_seed_give_the_same_tokens_there(url: str, how: Sampling) -> None:
    one_thread()
    model = tiny.new_model(SHAPE).eval()
    far = RemoteSampler(url)
    far.push(model, 7)
    asked = ([[1, 9], [1, 10, 11], [1, 9]], [3, 4, 5], [5, 5, 2], how)
    here, there = LocalSampler(model, 2, 0).generate(*asked), far.generate(*asked)
    assert [g.ids for g in there] == [g.ids for g in here]
    assert [g.version for g in there] == [7, 7, 7]
    for a, b in zip(here, there, strict=True):
        assert b.logp == pytest.approx(a.logp, abs=1e-6)
        assert (a.keep_packed is None) == (b.keep_packed is None)
        assert a.keep_packed is None or torch.equal(a.keep_packed, b.keep_packed)


@pytest.mark.parametrize("address", ["ftp://x", "http://127.0.0.1:1"])
def test_no_server_there_is_said_before_the_first_step(address: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"Start one: python -m rlvitals\.grpo\.server|not the address"):
        train(config(sampler=address), PARTS, folder=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_broken_messages_are_refused() -> None:
    service = Service(tiny.new_model(SHAPE).eval(), 2, 0)
    for body in (b"", b"\x80\x04pickle", b"\xff" * 40, wire.pack_weights({"x": torch.ones(2)}, 1)):
        with pytest.raises(ValueError):
            service.generate(body)
    with pytest.raises(ValueError, match="another model"):
        service.weights(wire.pack_weights({"x": torch.ones(2)}, 1))
    server = serve(service, "127.0.0.1", 0)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sampler = RemoteSampler(f"http://127.0.0.1:{server.server_port}")
    with pytest.raises(InputError, match="HTTP 400: weights of another model: bias, weight"):
        sampler.push(torch.nn.Linear(2, 2), 1)
    assert sampler.version() == 0
    server.shutdown()
    server.server_close()


def test_messages_come_back_as_they_went() -> None:
    made = [Generated((5, 2), (-0.5, -0.25), True, 3, torch.tensor([[1, 2], [3, 4]], dtype=torch.uint8)),
            Generated((6,), (-1.0,), False, 4, torch.tensor([[5, 6]], dtype=torch.uint8))]  # fmt: skip
    back = wire.unpack_answer(wire.pack_answer(made))
    assert [(g.ids, g.logp, g.ended, g.version) for g in back] == [(g.ids, g.logp, g.ended, g.version) for g in made]
    assert [g.keep_packed.tolist() for g in back if g.keep_packed is not None] == [[[1, 2], [3, 4]], [[5, 6]]]
    request = wire.unpack_request(wire.pack_request([[1, 2], [3]], [2**62, 1], [4, 5], Sampling(top_k=3)))
    assert request == ([[1, 2], [3]], [2**62, 1], [4, 5], Sampling(top_k=3))
    assert json.dumps(Sampling().max_tokens) == "32"


def test_adapters_travel_merged() -> None:
    peft = pytest.importorskip("peft")
    model = peft.get_peft_model(tiny.new_model(SHAPE), peft.LoraConfig(r=2, target_modules="all-linear"))
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "lora_B" in name:
                weight.fill_(0.1)
    found = remote.merged_weights(model)
    plain = tiny.new_model(SHAPE)
    plain.load_state_dict(found, strict=False)
    ids = torch.tensor([[1, 9, 10]])
    torch.testing.assert_close(plain(ids).logits, model(ids).logits, atol=1e-5, rtol=0)
    assert set(found) <= set(plain.state_dict())
