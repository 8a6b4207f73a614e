"""Every trainer says how to log each part of the ten things, and what a user then logs is understood."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rlvitals.ingest.adapter import Adapter
from rlvitals.ingest.registry import by_name
from rlvitals.ingest.rules import OWN_NAMES, Kind, Resolver, own_name
from rlvitals.reference.sheets import SHEETS
from rlvitals.reference.tenthings import TEN_THINGS, log_line
from rlvitals.reference.words import how_to_log, trainers

PARTS = [part for thing in TEN_THINGS for part in thing.parts]
NO_CODE = "not possible without code: "
REFUSAL = re.compile(r"\b(?:does not log|not logged|logs none|keeps no|dumps no|cannot|can't|has no)\b")

# Where a value of the user's own ends up in each trainer's log, by the lines of its adapter.
WRITTEN: dict[str, tuple[str, ...]] = {
    "TRL": ("{}", "train/{}"),
    "unsloth": ("{}",),
    "ms-swift": ("rewards/{}/mean",),
    "TRL async": ("{}",),
    "verl": ("{}",),
    "agent-lightning": ("{}",),
    "rLLM": ("batch/{}",),
    "open-instruct": ("objective/{}_reward",),
    "ROLL": ("{}",),
    "torchforge": ("{}",),
    "Atropos": ("train/{}",),
    "mlx-lm-lora": ("{}_mean", "train_{}_mean"),
    "tinker-cookbook": ("env/all/{}",),
    "OpenRLHF": ("train/{}", "{}"),
    "NeMo-RL": ("train/{}",),
    "prime-rl": ("train/agg/all/agent/metrics/{}/mean",),
    "verifiers": ("reward/{}",),
    "SkyRL": ("environment/{}",),
    "slime": ("rollout/{}",),
    "AReaL": ("rollout/{}",),
    "chapter-7 scripts": ("{}",),
    "rlvitals train": ("{}",),
}


def name(adapter: Adapter) -> str:
    return adapter.info.name


@pytest.mark.parametrize("adapter", trainers(), ids=name)
def test_each_part_of_the_ten_things_has_a_line_of_this_trainer(adapter: Adapter) -> None:
    wanted = [p for p in PARTS if not p.sources[0].startswith("version:")]
    keys = [tuple("config" if s.startswith("config:") else s for s in p.sources) for p in wanted]
    assert [ks for ks in keys if not any(how_to_log(adapter, k) for k in ks)] == []


@pytest.mark.parametrize("adapter", trainers(), ids=name)
def test_what_needs_code_says_so_and_shows_it(adapter: Adapter) -> None:
    lines = {log_line(p.sources, adapter) for p in PARTS}
    assert [t for t in lines if REFUSAL.search(t) and not t.startswith(NO_CODE)] == []
    needing = [t for t in lines if t.startswith(NO_CODE)]
    assert [t for t in needing if "`" not in t and not re.search(r"train with|grpo|append it", t)] == []


@pytest.mark.parametrize("adapter", trainers(), ids=name)
def test_what_a_user_logs_under_our_names_is_understood(adapter: Adapter) -> None:
    resolver = Resolver(adapter, frozenset(adapter.keys))
    logged = [*((n, n) for n in OWN_NAMES), ("success_tier_hard", "success_tier/hard"),
              ("reward_family_math", "reward_family/math"), ("stop_frac_eos", "stop_frac/eos")]  # fmt: skip
    for form in WRITTEN[name(adapter)]:
        got = {written: resolver.rule(form.format(written)) for written, _ in logged}
        assert {w: r.metric for w, r in got.items() if r.kind is Kind.METRIC} == dict(logged), form


@pytest.mark.parametrize(
    "raw",
    ["eval_success_frac", "val/parse_failure_frac", "tools/success_frac", "rewards/success_tier_easy/std",
     "call_success_frac", "prompt_truncated_fraction", "stop_frac", "reward_family/"],
)  # fmt: skip
def test_what_only_looks_like_our_names_is_left_alone(raw: str) -> None:
    assert own_name(raw) is None


def test_every_trainer_has_a_sheet_and_no_sheet_is_left_over() -> None:
    assert [name(a) for a in trainers()] == list(SHEETS)
    assert list(WRITTEN) == list(SHEETS)


@pytest.mark.parametrize("trainer", SHEETS)
def test_a_sheet_says_on_what_it_was_tested_and_its_hook_logs(trainer: str) -> None:
    sheet = SHEETS[trainer]
    assert any((sheet.tested.public, sheet.tested.own, sheet.tested.sample))
    assert "monitor.log(" in sheet.hook
    assert by_name(trainer) is not None


def test_every_line_of_code_for_trl_is_in_the_script_that_runs_them() -> None:
    script = (Path(__file__).parents[2] / "examples" / "check_trl_lines.py").read_text(encoding="utf-8")
    lines = by_name("TRL").info.how_to_log.values()  # type: ignore[union-attr]
    calls = {call for line in lines for call in re.findall(r"log_(?:metric|extra)\(f?'[^']+'", line)}
    assert len(calls) >= 6
    assert [call for call in calls if call not in script] == []
