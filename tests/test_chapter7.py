"""Chapter 7's experiments: the arms are what they say, the kept results are theirs, the page is made of the results."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from benchmarks.book.arms import (  # noqa: E402
    ARMS,
    SEEDS,
    STEPS,
    STOPS,
    Arm,
    as_the_book_ran_it,
    lenient_format,
    reward_stops,
    scored_over_all,
)
from benchmarks.book.pictures import PICTURES  # noqa: E402
from benchmarks.book.questions import QUESTIONS  # noqa: E402
from benchmarks.book.summary import WHOLE, curve, short, tail, thin_log  # noqa: E402
from benchmarks.chapter7 import pending  # noqa: E402

import rlvitals  # noqa: E402
from rlvitals.env import VerifierStatus  # noqa: E402
from rlvitals.grpo import tiny  # noqa: E402
from rlvitals.grpo.aggregation import Counts  # noqa: E402
from rlvitals.grpo.parts import Parts, task_of  # noqa: E402
from rlvitals.grpo.presets import PRESETS, config_of  # noqa: E402
from rlvitals.grpo.recipes import Batch  # noqa: E402
from rlvitals.grpo.rewards.plan import Completion  # noqa: E402
from rlvitals.grpo.rollout import Trajectory  # noqa: E402
from rlvitals.ingest.evals import read_evals  # noqa: E402
from rlvitals.record.arms import iqm  # noqa: E402

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tools"))
import chapter7_plots  # noqa: E402

import chapter7  # noqa: E402

ARM = {a.name: a for a in ARMS}


@pytest.fixture(scope="module")
def kept() -> chapter7.Results:
    return chapter7.results()


def test_the_page_and_its_pictures_have_not_drifted() -> None:
    assert chapter7.drift() == "", "run: python tools/chapter7.py"


def test_the_results_are_those_of_the_arms_with_every_seed(kept: chapter7.Results) -> None:
    assert list(kept["arms"]) == [a.name for a in ARMS]
    assert {n: a["seeds"] for n, a in kept["arms"].items()} == {a.name: list(SEEDS) for a in ARMS}
    assert {n: a["command"] for n, a in kept["arms"].items()} == {a.name: a.command() for a in ARMS}
    asked = [(q.section, q.claim, q.a, q.b, q.number, q.sign) for q in QUESTIONS]
    assert [(q["section"], q["claim"], q["a"], q["b"], q["number"], q["sign"]) for q in kept["questions"]] == asked


def test_every_middle_is_that_of_the_seeds_beside_it(kept: chapter7.Results) -> None:
    for arm in kept["arms"].values():
        for number in arm["numbers"].values():
            if "iqm" in number:
                assert number["iqm"] == pytest.approx(iqm(np.array(number["each"])), rel=2e-3, abs=1e-9)
                assert number["low"] <= number["iqm"] <= number["high"]


def test_what_the_page_says_in_words_is_in_the_results(kept: chapter7.Results) -> None:
    once = kept["arms"]["clip-once"]["numbers"]
    assert max(once["largest loss"]["each"]) < 1e-6
    assert min(once["smallest gradient norm"]["each"]) > 1e-3
    assert once["held-out at the end"]["iqm"] > 2 * once["held-out at the start"]["iqm"]

    def ends(arm: str, number: str = "held-out at the end") -> list[float]:
        return list(kept["arms"][arm]["numbers"][number]["each"])

    start = ends("tracking", "held-out at the start")[0]
    assert min(ends("tracking")) > start
    assert sum(e < start for e in ends("no-clip")) >= 3
    for better in ("kl-k3", "kl-ratio-k3"):
        assert all(a > b for a, b in zip(ends(better), ends("kl-k1"), strict=True))
    assert [sum(e == 0 for e in ends(a)) for a in ("kl-k1", "stops-k1")] == [1, 5]
    assert max(ends("stops-k1", "entropy at the end")) < 1e-3
    assert sum(e == 0 for e in ends("stops-k1-top-p", "held-out after step 20")) == 3
    assert max(ends("stops-k1-top-p", "entropy at the end")) > 2  # of ln 26 = 3.26 nats
    for leash in ("stops-k2", "stops-k3", "stops-ratio-k3"):
        assert kept["arms"][leash]["numbers"]["held-out at the end"]["iqm"] == pytest.approx(start, abs=0.05)
    for form in ("format", "format-lenient"):
        assert min(ends(form, "format at the end")) > 0.9
    assert ends("off-policy-mask") == ends("clip")


def test_what_the_page_says_of_the_modifications(kept: chapter7.Results) -> None:
    told = {q["a"]: chapter7.outcome(q) for q in kept["questions"] if q["section"] == "7.6.3"}
    assert {n: t for n, t in told.items() if t != "no difference told"} == {"cispo": "worse"}
    end = {n: kept["arms"][n]["numbers"]["held-out at the end"] for n in (*told, "tracking", "clip", "format")}
    assert max(end, key=lambda n: end[n]["iqm"]) == "gspo"
    assert min(end, key=lambda n: end[n]["high"] - end[n]["low"]) == "gspo"
    forms = ("format", "format-lenient", "format-conditional", "gdpo")
    assert max(forms, key=lambda n: kept["arms"][n]["numbers"]["held-out at the end"]["iqm"]) == "gdpo"


def test_a_log_of_every_arm_ships_and_is_read(kept: chapter7.Results) -> None:
    for name, arm in kept["arms"].items():
        run = rlvitals.load(ROOT / "examples" / "chapter7" / f"{name}.csv")
        assert run.step.tolist() == list(range(1, STEPS + 1)), name
        held = next(iter(run.evals.values()))
        assert held.step.tolist() == [20, 40, 60], name
        assert held.score[-1] == pytest.approx(arm["held_out"]["60"][0], rel=1e-3), name


# arm -> what the page says of it: verdict, and checks that speak of it
TOLD = {
    "tracking": ("healthy", set()),  # "nothing breaks in 60 steps"
    "no-clip": ("watch", {"C006", "U004"}),  # it ends below where it began, for want of a clip
    "stops-k1": ("stop", {"K004"}),  # the penalty destroys the policy
    "format": ("healthy", set()),  # "that accuracy falls because of it is not shown"
}


@pytest.mark.parametrize("name", WHOLE)
def test_a_whole_run_ships_and_is_diagnosed_as_the_page_says(kept: chapter7.Results, name: str) -> None:
    run = rlvitals.load(ROOT / "examples" / "chapter7" / name)
    assert (run.rows, run.trainer.name, len(run.columns) > 80) == (STEPS, "rlvitals train", True)
    held = run.evals["heldout"]
    logged = [kept["arms"][name]["held_out"][str(s)][0] for s in (0, 20, 40, 60)]
    assert held.score.tolist() == pytest.approx(logged, rel=1e-3)
    diagnosis = rlvitals.diagnose(run)
    verdict, checks = TOLD[name]
    assert diagnosis.verdict.value == verdict
    assert checks <= {i for cause in diagnosis.causes for i in (cause.id, *(c.id for c in cause.consequences))}
    again = read_evals("items", ROOT / "examples" / "chapter7" / name / "evals.jsonl.gz")
    assert again.score.tolist() == pytest.approx(held.score.tolist())


def test_the_whole_runs_are_small() -> None:
    files = [p for name in WHOLE for p in (ROOT / "examples" / "chapter7" / name).iterdir()]
    assert sorted({p.name for p in files}) == ["config.json", "evals.jsonl.gz", "metrics.jsonl.gz"]
    assert sum(p.stat().st_size for p in files) < 300_000


def test_the_collapsed_run_is_diagnosed_from_its_shipped_log() -> None:
    assert rlvitals.diagnose(rlvitals.load(ROOT / "examples" / "chapter7" / "stops-k1.csv")).verdict.value == "stop"


@pytest.mark.parametrize("name", PRESETS)
def test_the_settings_of_every_recipe_are_known_to_its_task(name: str) -> None:
    assert task_of(config_of(name), tiny.new_tokenizer()).plan.parts[0].name == "correct"


def test_format_recipes_pay_the_format() -> None:
    tokenizer = tiny.new_tokenizer()
    plan = task_of(config_of("ch7-format"), tokenizer).plan
    assert (plan.names, plan.weights, plan.parts[1].only_if_right) == (("correct", "format"), (1.0, 1.0), False)
    assert task_of(config_of("ch7-format-conditional"), tokenizer).plan.parts[1].only_if_right


def test_the_reward_stops_after_its_step_and_held_out_stays_true() -> None:
    parts, config = reward_stops(Parts()), ARM["stops-k1"].config(0)
    task = parts.task(config, tiny.new_tokenizer())
    item = task.train[0]

    def paid(step_done: int) -> tuple[float, VerifierStatus | None]:
        parts.sync(_Silent(), torch.nn.Linear(1, 1), 0, step_done)
        env = task.new_env()
        env.reset(item, 0)
        step = env.step(item.gold)
        return step.rewards["correct"], step.status

    assert paid(STOPS - 1) == (1.0, VerifierStatus.RIGHT)  # step STOPS is still paid
    assert paid(STOPS) == (0.0, VerifierStatus.WRONG)
    true = parts.held_out(config, tiny.new_tokenizer()).new_env()
    true.reset(item, 0)
    assert true.step(item.gold).rewards["correct"] == 1.0


class _Silent:
    def push(self, model: object, version: int) -> None:
        return None


@pytest.mark.parametrize(
    ("text", "passes"),
    [("<think>7+5=12</think>132", 1.0), ("<think></think>", 1.0), ("132<think></think></think>", 1.0),
     ("</think><think>", 0.0), ("<think>7+5", 0.0), ("132", 0.0)],
)  # fmt: skip
def test_the_lenient_format_is_the_order_of_two_tags(text: str, passes: float) -> None:
    plan = lenient_format(Parts()).task(ARM["format-lenient"].config(0), tiny.new_tokenizer()).plan
    judge = plan.parts[1].judge
    assert judge is not None
    assert judge(Completion(text, [], 40)) == passes


def test_scoring_over_all_forgets_what_could_be_drawn() -> None:
    item = task_of(ARM["tracking"].config(0), tiny.new_tokenizer()).train[0]
    row = Trajectory(item, 0, 0, 0, (1, 2), "", ids=[3], counts=[True], logp=[-0.5],
                     keep_packed=[torch.ones((1, 4), dtype=torch.uint8)])  # fmt: skip
    device = torch.device("cpu")
    assert Parts().pack([row], 0, device).keep_NV8() is not None
    assert scored_over_all(Parts()).pack([row], 0, device).keep_NV8() is None


def batch() -> Batch:
    """Return two answers of two and three tokens without advantages: the penalty alone."""
    logp = torch.tensor([[-1.0, -2.0, 0.0], [-0.5, -0.25, -3.0]], requires_grad=True)
    mask = torch.tensor([[True, True, False], [True, True, True]])
    return Batch(logp, logp.detach().clone(), torch.zeros(2, 3), mask, logp_ref_BT=logp.detach() - 0.5)


def test_the_weighted_k1_has_the_gradient_of_the_divergence_on_fresh_samples() -> None:
    recipe = PRESETS["ch7-kl"].recipe
    loss, given = ARM["stops-ratio-k1"].parts(Parts()).loss, batch()
    loss(recipe, given, Counts(2, 5, 40)).total.backward()
    # d (r x) / d logp = r x + r = 1.5 at r = 1, x = 0.5; coefficient 0.1, sums over answers, mean of two
    assert given.logp_BT.grad is not None
    assert given.logp_BT.grad[given.mask_BT].tolist() == pytest.approx([0.1 * 1.5 / 2] * 5)


def test_the_end_token_is_left_out_and_nothing_else() -> None:
    loss, given = as_the_book_ran_it(Parts()).loss, batch()
    loss(PRESETS["ch7-kl"].recipe, given, Counts(2, 5, 40)).total.backward()
    assert given.logp_BT.grad is not None
    assert given.logp_BT.grad.ne(0).tolist() == [[True, False, False], [True, True, False]]


def test_the_token_mean_is_the_same_direction_at_another_size() -> None:
    given, mean = batch(), batch()
    recipe = PRESETS["ch7-kl"].recipe
    Parts().loss(recipe, given, Counts(2, 5, 40)).total.backward()
    ARM["stops-k1-token-mean"].parts(Parts()).loss(recipe, mean, Counts(2, 5, 40)).total.backward()
    assert given.logp_BT.grad is not None
    assert mean.logp_BT.grad is not None
    assert mean.logp_BT.grad.flatten().tolist() == pytest.approx((given.logp_BT.grad * 2 / 5).flatten().tolist())


def test_claims_come_first_seed_by_seed(tmp_path: Path) -> None:
    arms = (Arm("late", "ch7-gspo", core=False), Arm("a", "ch7-clip"), Arm("b", "ch7-clip"))
    order = [(arm.name, seed) for arm, seed in pending(tmp_path, arms, (0, 1))]
    assert order == [("a", 0), ("b", 0), ("a", 1), ("b", 1), ("late", 0), ("late", 1)]
    (tmp_path / "a" / "seed-1").mkdir(parents=True)
    (tmp_path / "a" / "seed-1" / "result.json").write_text("{}")
    assert ("a", 1) not in [(arm.name, seed) for arm, seed in pending(tmp_path, arms, (0, 1))]


def test_what_was_not_logged_is_no_number() -> None:
    runs = [{"rows": [{"step": s, "reward_mean": s / 60, **({"loss": 1.0} if s > 30 else {})} for s in range(1, 61)]}]
    assert tail("reward_mean")(runs[0]) == pytest.approx(55.5 / 60)
    assert math.isnan(tail("kl_loss")(runs[0]))
    assert curve(runs, "kl_loss") is None
    found = curve(runs, "loss")
    assert found is not None
    assert short(found["mean"]) == [None] * 6 + [1.0] * 6


def test_a_thinned_log_keeps_its_rows_and_gaps(tmp_path: Path) -> None:
    (tmp_path / "m.csv").write_text("step,total_steps,loss,eval_acc\n1,60,0.123456,\n2,60,-1234.56,0.5\n")
    assert thin_log(tmp_path / "m.csv") == "step,total_steps,loss,eval_acc\n1,60,0.1235,\n2,60,-1235,0.5\n"


def test_a_picture_of_other_numbers_is_noticed(kept: chapter7.Results) -> None:
    picture = PICTURES[0]
    other = json.loads(json.dumps(kept))
    other["arms"]["tracking"]["held_out"]["60"][0] += 0.01
    assert chapter7_plots.digest(picture, other) != chapter7_plots.digest(picture, kept)
    drawn = chapter7_plots.draw(replace(picture, panels=("held_out",)), kept)
    assert drawn.startswith("<?xml")
    assert "held-out accuracy" in drawn


@pytest.mark.slow
def test_a_run_is_made_read_and_kept(tmp_path: Path) -> None:
    from benchmarks.book.runs import done, results, run

    arm = Arm("short", "ch7-tracking", {"steps": "2", "eval_every": "1", "eval_items": "8"})
    made = run(tmp_path, arm, 3)
    assert [r["step"] for r in made["rows"]] == [0, 1, 2]
    assert {c["step"] for c in made["completions"]} == {0, 1, 2}
    assert done(tmp_path, arm, 3)
    assert results(tmp_path, arm) == [made]
