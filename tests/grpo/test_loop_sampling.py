"""Sampling: shared prefill and dropped rows change nothing, the kept log-probabilities are those of the draw."""

from __future__ import annotations

import pytest
import torch

from rlvitals.grpo import sampling, tiny
from rlvitals.grpo.packing import pack
from rlvitals.grpo.rollout import Generated, Sampling, Trajectory
from rlvitals.grpo.sampling import LocalSampler, draw, kept_BV
from rlvitals.grpo.score import Policy, score
from tests.grpo.loops import SHAPE, items, one_thread

PROMPTS = [[1, 9, 10], [1, 9, 10], [1, 12, 13, 14, 15], [1, 9, 10], [1, 12, 13, 14, 15], [1, 18]]
SEEDS = [11, 12, 13, 14, 15, 16]


@pytest.fixture(scope="module")
def model() -> torch.nn.Module:
    one_thread()
    made = tiny.new_model(SHAPE).eval()
    with torch.no_grad():
        made.model.embed_tokens.weight.mul_(20.0)  # tied to the head: far from uniform
    return made


def made(model: torch.nn.Module, how: Sampling, prompts: list[list[int]] = PROMPTS) -> list[Generated]:
    sampler = LocalSampler(model, end_id=2, pad_id=0)
    return sampler.generate(prompts, SEEDS[: len(prompts)], [how.max_tokens] * len(prompts), how)


def trajectories(found: list[Generated]) -> list[Trajectory]:
    out = []
    for k, (prompt, g) in enumerate(zip(PROMPTS, found, strict=True)):
        t = Trajectory(items(0, 1)[0], 0, k, SEEDS[k], tuple(prompt), "")
        t.ids, t.counts, t.logp = list(g.ids), [True] * len(g.ids), list(g.logp)
        t.keep_packed = [] if g.keep_packed is None else [g.keep_packed]
        out.append(t)
    return out


HOWS = [
    Sampling(max_tokens=12),
    Sampling(temperature=0.7, max_tokens=12),
    Sampling(top_p=0.8, max_tokens=12),
    Sampling(top_k=5, max_tokens=12),
    Sampling(temperature=1.3, top_p=0.9, top_k=8, max_tokens=12),
]


@pytest.mark.parametrize("how", HOWS, ids=str)
def test_a_row_does_not_depend_on_what_else_is_in_the_batch(model: torch.nn.Module, how: Sampling) -> None:
    together = made(model, how)
    sampler = LocalSampler(model, end_id=2, pad_id=0)
    for prompt, seed, row in zip(PROMPTS, SEEDS, together, strict=True):
        (alone,) = sampler.generate([prompt], [seed], [how.max_tokens], how)
        assert alone.ids == row.ids
        assert alone.logp == pytest.approx(row.logp, abs=1e-5)
        assert (alone.ended, alone.version) == (row.ended, row.version)


@pytest.mark.parametrize("how", HOWS, ids=str)
def test_the_trainer_scores_the_distribution_that_was_sampled(model: torch.nn.Module, how: Sampling) -> None:
    found = trajectories(made(model, how))
    packed = pack(found, 0, torch.device("cpu"))
    scores = score(Policy(model), packed, how.temperature, 1000)
    torch.testing.assert_close(scores.logp_BT, packed.logp_sampler_BT, atol=1e-5, rtol=0)


def test_dropping_finished_rows_changes_no_sample(model: torch.nn.Module, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = made(model, Sampling(max_tokens=20))
    assert len({len(g.ids) for g in usual}) > 1
    monkeypatch.setattr(sampling, "DROP_BELOW", 0.0)
    assert [g.ids for g in made(model, Sampling(max_tokens=20))] == [g.ids for g in usual]


def test_small_batches_change_no_sample(model: torch.nn.Module, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = made(model, Sampling(max_tokens=10))
    monkeypatch.setattr(sampling, "CACHE_TOKENS", 30)
    assert [g.ids for g in made(model, Sampling(max_tokens=10))] == [g.ids for g in usual]


def test_every_row_keeps_its_own_budget(model: torch.nn.Module) -> None:
    sampler = LocalSampler(model, end_id=-1, pad_id=0)
    found = sampler.generate(PROMPTS, SEEDS, [1, 2, 3, 4, 5, 6], Sampling())
    assert [len(g.ids) for g in found] == [1, 2, 3, 4, 5, 6]
    assert not any(g.ended for g in found)


def test_the_end_token_is_part_of_the_completion() -> None:
    class Ends(torch.nn.Module):
        """Says 5, then the end token."""

        def __init__(self) -> None:
            super().__init__()
            self.inner = tiny.new_model(SHAPE)
            self.config = self.inner.config

        def forward(self, input_ids: torch.Tensor, cache: object = None, **rest: object) -> object:
            out = self.inner(input_ids, cache=cache, **rest)
            out.logits[:] = -100.0
            out.logits[:, -1, 5] = 0.0
            out.logits[input_ids[:, -1] == 5, -1, 2] = 100.0
            return out

    sampler = LocalSampler(Ends(), end_id=2, pad_id=0)
    (found,) = sampler.generate([[1, 9]], [1], [6], Sampling())
    assert (found.ids, found.ended, found.logp) == ((5, 2), True, (0.0, 0.0))


def test_draw_follows_its_numbers() -> None:
    logits = torch.tensor([[0.1, 0.2, 0.3, 0.4]]).log()
    for u, wanted in [(0.0, 0), (0.0999, 0), (0.1001, 1), (0.2999, 1), (0.3001, 2), (0.6001, 3), (0.999999, 3)]:
        ids, logp, packed = draw(logits, torch.tensor([u], dtype=torch.float64), Sampling())
        assert int(ids) == wanted
        assert float(logp) == pytest.approx(float(logits[0, wanted]), abs=1e-6)
        assert packed is None


def test_the_kept_set_is_the_smallest_that_reaches_top_p() -> None:
    logits = torch.tensor([[0.1, 0.4, 0.3, 0.2]]).log()
    assert kept_BV(logits, Sampling(top_p=0.69)).tolist() == [[False, True, True, False]]
    assert kept_BV(logits, Sampling(top_p=0.71)).tolist() == [[False, True, True, True]]
    assert kept_BV(logits, Sampling(top_p=0.01)).tolist() == [[False, True, False, False]]
    assert kept_BV(logits, Sampling(top_k=3, top_p=0.5)).tolist() == [[False, True, True, False]]
    ids, logp, _ = draw(logits, torch.tensor([0.99], dtype=torch.float64), Sampling(top_p=0.69))
    assert int(ids) == 2
    assert float(logp) == pytest.approx(torch.tensor(3 / 7).log().item(), abs=1e-6)


def test_greedy_takes_the_most_likely() -> None:
    ids, _, packed = draw(torch.tensor([[0.0, 3.0, 1.0]]), torch.tensor([0.0]), Sampling(greedy=True, top_p=0.5))
    assert (ids.tolist(), packed) == ([1], None)
