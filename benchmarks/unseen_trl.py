"""Make TRL runs with known faults, and healthy ones, and score what rlvitals says of them.

`make` needs an environment of its own (torch==2.13.0, trl==1.16.0, transformers, datasets, accelerate) and some minutes
of one core; `score` needs rlvitals alone. Nothing is downloaded, and the logs stay outside the repository:

    HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 nice python benchmarks/unseen_trl.py make /tmp/unseen
    python benchmarks/unseen_trl.py score /tmp/unseen [--json OUT]

Task and model are those of examples/make_trl_example.py, with other seeds. Each run is scored in the forms in which
users have such a log:

    eval      every step, TRL's evaluation (the run's own rewards), an independent exact match, and the arguments
    own       every step, TRL's evaluation alone: a broken verifier scores its own held-out set
    bare      every step, trainer_state.json alone without any evaluation
    five      the means of 5 steps, as logging_steps=5 writes them, with both evaluations
    ten       the same of 10 steps
    tenbare   the means of 10 steps and nothing else
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FORMS = ("eval", "own", "bare", "five", "ten", "tenbare")
EXACT = "eval_exact_match"  # the independent held-out score: greedy answers, scored by equality
EVAL_EVERY = 25
LAST_VALUE = ("learning_rate", "grad_norm", "step", "epoch", "num_tokens")  # what TRL does not average
HELD_OUT = 128  # items of each evaluation


@dataclass(frozen=True)
class Setting:
    """One run: what is changed, and what must be said of it.

    Attributes:
        seed: of model, warm start, prompts and sampling.
        first: checks any of which may be named first; empty for a run that nothing may be held against.
        verdicts: the verdicts that are right.
        blind: forms in which the log can't show the fault: there, being quiet is right too.
        reward: name of the reward's kind.
        args: arguments of GRPOConfig that differ from the recipe.
    """

    name: str
    seed: int
    first: tuple[str, ...]
    verdicts: tuple[str, ...]
    blind: tuple[str, ...] = ()
    reward: str = "correct"
    steps: int = 150
    digits: int = 2
    taught_digits: int = 2
    wrong: float = 0.3
    rollouts: int = 64
    args: Mapping[str, Any] = field(default_factory=dict)


BAD, QUIET, NOTED = ("act", "stop"), ("healthy", "watch"), ("watch", "act", "stop")
NO_TRUTH = ("own", "bare", "tenbare")  # a verifier that is wrong everywhere shows only in an independent score
DR_GRPO = {"loss_type": "dr_grpo", "scale_rewards": "none"}
SETTINGS = (
    Setting("in_gold", 101, ("H001", "H002", "L003", "R008", "E001"), BAD, NO_TRUTH, "in_gold", 200),
    Setting("contains_gold", 102, (), QUIET, (), "contains_gold"),  # a weak verifier that was not exploited here
    Setting("format_count", 103, ("R003",), BAD, (), "format_count", args={"max_completion_length": 32}),
    Setting("other_parser", 104, ("R001", "T001", "R004", "R012"), BAD, (), "other_parser"),
    Setting("budget_12", 105, ("L001", "L003", "H001", "H002"), NOTED, NO_TRUTH, args={"max_completion_length": 12}),
    Setting("kl_20", 106, ("K002",), NOTED, (), args={"beta": 20.0}),
    Setting("temperature_005", 107, ("S001", "R014", "R002", "C007", "H002"), BAD, (), args={"temperature": 0.05}),
    Setting(
        "timeout_pays", 108, ("H001", "H002", "L002", "R008", "O003", "L001", "L004"), BAD, ("own",), "timeout_pays"
    ),
    Setting("lr_3e3", 109, ("K001", "R002", "R014", "C010", "U002", "E002"), BAD, (), args={"learning_rate": 3e-3}),
    Setting("sign_flip", 110, ("R003",), BAD, (), "sign_flip"),
    Setting("constant", 111, ("R001",), BAD, (), "constant"),
    Setting("too_hard", 112, ("T001", "R001"), BAD, (), digits=4),
    Setting("too_easy", 113, ("T002", "R007", "R009"), NOTED, (), digits=1, taught_digits=1, wrong=0.0),
    Setting("lr_0", 114, ("D007",), BAD, (), args={"learning_rate": 0.0}),
    Setting("rescaled", 115, ("D005",), NOTED, (), "rescaled"),
    Setting("small_grpo", 201, (), QUIET, (), args={"loss_type": "grpo"}),  # eight prompts a step: it does not learn
    Setting("small_dapo", 202, ("K001", "H001", "H002", "R002", "R014"), NOTED, (), "format"),
    Setting("small_dr_grpo", 203, ("K001", "H002", "R002", "R014"), BAD, (), args=DR_GRPO),
    Setting("small_kl_004", 204, (), QUIET, (), args={"beta": 0.04}),
    Setting("ok_p32", 205, (), QUIET, (), "format", rollouts=256),
    Setting("ok_solved", 206, (), QUIET, (), digits=1, taught_digits=1),
    Setting("ok_reuse", 207, (), QUIET, (), args={"num_iterations": 2, "beta": 0.0}, steps=200),
    Setting("ok_grpo", 301, (), QUIET, (), args={"loss_type": "grpo"}, rollouts=128),
    Setting("ok_dapo", 302, (), QUIET, (), "format", args={"loss_type": "dapo"}, rollouts=128),
    Setting("ok_dr_grpo", 303, (), QUIET, (), args=DR_GRPO, rollouts=128),
    Setting("ok_kl_004", 304, (), QUIET, (), args={"beta": 0.04}, rollouts=128),
)  # fmt: skip


def parts() -> Any:
    """Return the example's script: its tokenizer, model, warm start and arguments. Raises ImportError without TRL."""
    sys.path.insert(0, str(ROOT / "examples"))
    import make_trl_example

    return make_trl_example


def sums(m: Any, digits: int, held_out: bool, count: int, seed: int) -> list[Any]:
    rng, low, high = random.Random(seed), 10 ** (digits - 1) if digits > 1 else 0, 10**digits - 1
    out: list[Any] = []
    while len(out) < count:
        item = m.Sum(rng.randint(low, high), rng.randint(low, high))
        if item.held_out == held_out:
            out.append(item)
    return out


def rewards(m: Any, kind: str) -> tuple[list[Any], list[float]]:
    """Return the reward functions of a kind and their weights."""
    calls = {"train": 0}

    def in_gold(completions: list[str], answer: list[str], **_: object) -> list[float]:
        return [float(m.final_answer(t) in a) for t, a in zip(completions, answer, strict=True)]

    def contains_gold(completions: list[str], answer: list[str], **_: object) -> list[float]:
        return [float(a in t) for t, a in zip(completions, answer, strict=True)]

    def format_count(completions: list[str], **_: object) -> list[float]:
        return [0.25 * (t.count("<think>") + t.count("</think>")) for t in completions]

    def other_parser(completions: list[str], answer: list[str], **_: object) -> list[float]:
        return [
            float(t.rsplit("#", 1)[1].strip() == a) if "#" in t else 0.0
            for t, a in zip(completions, answer, strict=True)
        ]

    def timeout_pays(
        completions: list[str], answer: list[str], completion_ids: list[list[int]], **_: object
    ) -> list[float]:
        right = m.correct(completions, answer)
        return [1.0 if len(ids) > 24 else r for ids, r in zip(completion_ids, right, strict=True)]

    def constant(completions: list[str], **_: object) -> list[float]:
        return [0.5] * len(completions)

    def rescaled(completions: list[str], answer: list[str], **_: object) -> list[float]:
        calls["train"] += len(answer) > 1 and completions_of_one_prompt(answer)
        factor = 10.0 if calls["train"] > 90 else 1.0
        return [factor * r for r in m.correct(completions, answer)]

    def completions_of_one_prompt(answer: list[str]) -> bool:
        return len(set(answer[:8])) == 1  # training batches hold groups, evaluations single completions

    one = {f.__name__: f for f in (in_gold, contains_gold, other_parser, timeout_pays, constant, rescaled)}
    if kind in one:
        return [one[kind]], [1.0]
    if kind == "format":
        return [m.correct, m.well_formed], [1.0, 1.0]
    if kind == "format_count":
        return [m.correct, format_count], [1.0, 1.0]
    return [m.correct], [-1.0 if kind == "sign_flip" else 1.0]


def taught(m: Any, setting: Setting, folder: Path) -> str:
    """Return the folder of a model after the warm start on sums of the given number of digits; made once each."""
    target = folder / "taught" / f"{setting.taught_digits}-{setting.wrong:g}"
    if target.exists():
        return str(target)
    m.WRONG_DEMOS = setting.wrong
    m.two_digit_sums = lambda *, held_out, count, seed: sums(m, setting.taught_digits, held_out, count, seed)
    model = m.new_model(setting.seed)
    m.warm_start(model, m.tokenizer(), setting.seed)
    model.save_pretrained(target)
    return str(target)


def exact_match_callback(m: Any, words: Any, held: list[Any], log: list[dict[str, float]]) -> Any:
    """Return a callback that scores greedy answers to the held-out items by equality, with room to finish."""
    import torch
    from transformers import TrainerCallback

    batch = words([i.prompt for i in held], return_tensors="pt", padding=True, add_special_tokens=False)

    class ExactMatch(TrainerCallback):  # type: ignore[misc]
        def on_evaluate(self, args: Any, state: Any, control: Any, model: Any = None, **_: object) -> None:
            with torch.no_grad():
                out = model.generate(
                    input_ids=batch["input_ids"],
                    attention_mask=batch["attention_mask"],
                    max_new_tokens=48,
                    do_sample=False,
                )
            texts = words.batch_decode(out[:, batch["input_ids"].shape[1] :])
            said = [t.split("<eos>")[0].replace("<pad>", "") for t in texts]
            right = [m.final_answer(t) == i.answer for t, i in zip(said, held, strict=True)]
            log.append({EXACT: sum(right) / len(right), "step": state.global_step, "epoch": state.epoch or 0.0})

    return ExactMatch()


def run_one(setting: Setting, folder: Path) -> None:
    """Train one run and write its log and arguments to the folder."""
    m = parts()
    words = m.tokenizer()
    start = taught(m, setting, folder.parent.parent)
    functions, weights = rewards(m, setting.reward)
    args = m.settings(str(folder / "trl"), setting.steps, setting.seed, 3e-4)
    changed = {
        "max_completion_length": 28,
        "reward_weights": weights,
        "save_strategy": "no",
        "eval_steps": EVAL_EVERY,
        "per_device_train_batch_size": setting.rollouts,
    }
    for key, value in {**changed, **setting.args}.items():
        setattr(args, key, value)
    args = type(args)(
        **{k: getattr(args, k) for k in vars(args) if k in type(args).__dataclass_fields__ and k not in MADE}
    )
    held = sums(m, setting.digits, True, HELD_OUT, 4321 + setting.seed)

    def rows(items: list[Any]) -> Any:
        return m.Dataset.from_list([{"prompt": i.prompt, "answer": i.answer} for i in items])

    exact: list[dict[str, float]] = []
    trainer = m.GRPOTrainer(
        model=start, reward_funcs=functions, args=args, processing_class=words,
        train_dataset=rows(sums(m, setting.digits, False, 4096, setting.seed)), eval_dataset=rows(held),
        callbacks=[exact_match_callback(m, words, held, exact)],
    )  # fmt: skip
    trainer.train()
    trainer.save_state()
    state = json.loads((folder / "trl" / "trainer_state.json").read_text())
    (folder / "state.json").write_text(json.dumps({"state": state, "exact": exact}))
    (folder / "args.json").write_text(json.dumps({k: getattr(trainer.args, k) for k in m.KEPT_ARGS}, default=str))


MADE = ("generation_batch_size", "steps_per_generation")  # worked out by GRPOConfig from the others


def means(rows: list[dict[str, Any]], every: int) -> list[dict[str, Any]]:
    """Return the training rows as TRL writes them with logging_steps=every; other rows stay."""
    out: list[dict[str, Any]] = []
    window: list[dict[str, Any]] = []
    for row in rows:
        if "grad_norm" not in row:
            out.append(row)
            continue
        window.append(row)
        if row["step"] % every == 0:
            keys = dict.fromkeys(k for r in window for k in r)
            vals = {k: [r[k] for r in window if k in r] for k in keys}
            out.append({k: v[-1] if k in LAST_VALUE else sum(v) / len(v) for k, v in vals.items()})
            window = []
    return out


def write_form(source: Path, target: Path, form: str) -> None:
    """Write one form of a run's log as a folder that rlvitals reads."""
    kept = json.loads((source / "state.json").read_text())
    state, rows = kept["state"], kept["state"]["log_history"]
    if form in ("eval", "five", "ten"):
        rows = sorted(rows + kept["exact"], key=lambda r: r["step"])
    if form in ("bare", "tenbare"):
        rows = [r for r in rows if not any(k.startswith("eval_") for k in r)]
    every = 5 if form == "five" else 10 if form.startswith("ten") else 1
    rows, state = means(rows, every), {**state, "logging_steps": every}
    target.mkdir(parents=True, exist_ok=True)
    (target / "trainer_state.json").write_text(json.dumps({**state, "log_history": rows}))
    if form == "eval":
        (target / "training_args.json").write_text((source / "args.json").read_text())


def make(folder: Path, only: list[str], shift: int) -> None:
    for setting in (replace(s, seed=s.seed + shift) for s in SETTINGS):
        where = folder / "made" / setting.name
        if (only and setting.name not in only) or (where / "state.json").exists():
            continue
        where.mkdir(parents=True, exist_ok=True)
        began = time.time()
        run_one(setting, where)
        print("made", setting.name, f"{time.time() - began:.0f} s", flush=True)


def verdict(path: Path) -> dict[str, Any]:
    """Return what `rlvitals check --format json` says of a folder."""
    command = [sys.executable, "-m", "rlvitals", "check", str(path), "--format", "json"]
    environment = {"PYTHONPATH": str(ROOT / "src"), **os.environ}  # another PYTHONPATH scores another version
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    return dict(json.loads(done.stdout)) if done.stdout.startswith("{") else {"verdict": "failed", "error": done.stderr}


def scored(setting: Setting, form: str, said: Mapping[str, Any]) -> dict[str, Any]:
    """Return one row of the table: what was said, and whether it is right."""
    causes = said.get("causes") or [{}]
    first, blind = causes[0].get("id", ""), form in setting.blind
    if not setting.first:
        right = said["verdict"] in QUIET or said["verdict"] == "cannot_say"
    else:
        right = said["verdict"] in setting.verdicts and first in setting.first
        right = right or (blind and said["verdict"] in (*QUIET, "cannot_say"))
    short = said["verdict"] == "cannot_say"  # fewer than 20 logged rows: it says that it can't tell
    return {
        "run": setting.name, "form": form, "right": right or short, "abstained": short,
        "verdict": said["verdict"], "first": first,
        "onset": causes[0].get("onset_step"),
        "under": [c["id"] for c in causes[0].get("consequences", [])],
        "others": [c.get("id") for c in causes[1:]],
        "rollback": (said.get("rollback") or {}).get("step"), "headline": said.get("headline", ""),
    }  # fmt: skip


def score(folder: Path, out: Path | None) -> None:
    rows = []
    for setting in SETTINGS:
        source = folder / "made" / setting.name
        if not (source / "state.json").exists():
            continue
        for form in FORMS:
            target = folder / "forms" / f"{setting.name}-{form}"
            write_form(source, target, form)
            said = verdict(target)
            row = scored(setting, form, said)
            (folder / "forms" / f"{target.name}.said.json").write_text(json.dumps(said))
            rows.append(row)
            print(
                f"{'- ' if row['abstained'] else '  ' if row['right'] else 'X '}"
                f"{row['run']:15} {form:7} {row['verdict']:10} {row['first']:5} "
                f"{row['onset']!s:5} under {','.join(row['under']):24} others {','.join(row['others']):16} "
                f"rollback {row['rollback']!s:5}| {row['headline'][:90]}",
                flush=True,
            )
    abstained, right = sum(r["abstained"] for r in rows), sum(r["right"] and not r["abstained"] for r in rows)
    print(f"{right} right, {abstained} abstained, {len(rows) - right - abstained} wrong, of {len(rows)}")
    if out:
        out.write_text(json.dumps(rows, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("make", "score"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--seed-shift", type=int, default=0, help="added to every seed")
    asked = parser.parse_args()
    if asked.what == "make":
        make(asked.folder, asked.only, asked.seed_shift)
    else:
        score(asked.folder, asked.json)


if __name__ == "__main__":
    main()
