"""A run of ours, written again as TRL, verl and chapter 7 would have logged it: only what those trainers write.

Detection is measured on these, so nothing may slip through that the trainer does not log. Keys and kinds of statistics
are those of docs/trainers/; tests read each back with its own adapter.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

Row = Mapping[str, float]

TRL_KEYS: Mapping[str, str] = {
    "loss": "loss",
    "grad_norm": "grad_norm",
    "learning_rate": "learning_rate",
    "reward_mean": "reward",
    "reward_std": "reward_std",
    "zero_variance_frac": "frac_reward_zero_std",
    "length_mean": "completions/mean_length",
    "length_min": "completions/min_length",
    "length_max": "completions/max_length",
    "truncated_frac": "completions/clipped_ratio",
    "terminated_length_mean": "completions/mean_terminated_length",
    "entropy": "entropy",
    "kl_ref": "kl",
    "clip_frac": "clip_ratio/region_mean",
    "clip_low_frac": "clip_ratio/low_mean",
    "clip_high_frac": "clip_ratio/high_mean",
    "logprob_gap_mean": "sampling/sampling_logp_difference/mean",
    "logprob_gap_max": "sampling/sampling_logp_difference/max",
    "sampler_ratio_mean": "sampling/importance_sampling_ratio/mean",
    "step_time_s": "step_time",
    "tokens_total": "num_tokens",
    "epoch": "epoch",
}
VERL_KEYS: Mapping[str, str] = {
    "policy_loss": "actor/pg_loss",
    "grad_norm": "actor/grad_norm",
    "learning_rate": "actor/lr",
    "entropy": "actor/entropy",
    "clip_frac": "actor/pg_clipfrac",
    "kl_ref": "actor/kl_loss",  # with use_kl_loss alone: the term's estimate, not yet times its coefficient
    "kl_coef": "actor/kl_coef",
    "reward_mean": "critic/score/mean",
    "reward_max": "critic/score/max",
    "reward_min": "critic/score/min",
    "advantage_mean": "critic/advantages/mean",
    "advantage_max": "critic/advantages/max",
    "advantage_min": "critic/advantages/min",
    "length_mean": "response_length/mean",
    "length_max": "response_length/max",
    "length_min": "response_length/min",
    "truncated_frac": "response_length/clip_ratio",
    "prompt_length_mean": "prompt_length/mean",
    "prob_gap_mean": "training/rollout_probs_diff_mean",
    "prob_gap_max": "training/rollout_probs_diff_max",
    "step_time_s": "perf/time_per_step",
    "tokens_per_second": "perf/throughput",
}
CHAPTER7_COLUMNS: tuple[tuple[str, str], ...] = (
    ("loss", "loss"),
    ("reward_avg", "reward_mean"),
    ("tokens_per_sec", "tokens_per_second"),
    ("avg_response_len", "length_mean"),
    ("adv_avg", "advantage_mean"),
    ("adv_std", "advantage_std"),
    ("entropy_avg", "entropy"),
)


def rows_of(folder: Path) -> list[dict[str, float]]:
    """Return the rows of a run's metrics.jsonl; NaN where a value was not finite.

    Without a KL term in the loss the divergence is left out: TRL and verl keep no reference then.
    """
    text = (folder / "metrics.jsonl").read_text(encoding="utf-8")
    rows = [json.loads(line) for line in text.splitlines() if line.strip()]
    if _part(folder, "run").get("kl_coef", 0.0) > 0.0:
        return rows
    return [{k: v for k, v in row.items() if k not in ("kl_ref", "kl_coef")} for row in rows]


def trl(source: Path, target: Path, *, every: int = 1) -> Path:
    """Write `trainer_state.json` as transformers does, one row per so many steps."""
    rows = [r for r in rows_of(source) if "reward_mean" in r]
    history: list[dict[str, float]] = []
    for part in _parts(rows, every):
        row = {theirs: _mean(part, ours) for ours, theirs in TRL_KEYS.items() if ours in part[-1]}
        row |= {f"rewards/{_name(k)}/mean": _mean(part, k) for k in part[-1] if k.startswith("reward_part/")}
        history.append({**{k: v for k, v in row.items() if v is not None}, "step": part[-1]["step"]})
    target.mkdir(parents=True, exist_ok=True)
    state = {"log_history": history, "global_step": history[-1]["step"] if history else 0, "logging_steps": every}
    file = target / "trainer_state.json"
    file.write_text(json.dumps(state), encoding="utf-8")
    return target


def verl(source: Path, target: Path) -> Path:
    """Write the lines of verl's file logger, held-out scores under val-core."""
    target.mkdir(parents=True, exist_ok=True)
    lines = []
    for row in rows_of(source):
        data = {theirs: row[ours] for ours, theirs in VERL_KEYS.items() if ours in row}
        data |= {f"val-core/{k[5:]}/acc/mean@1": v for k, v in row.items() if k.startswith("eval/")}
        if data:
            lines.append(json.dumps({"step": int(row["step"]), "data": data}))
    (target / "metrics.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return target


def chapter7(source: Path, target: Path) -> Path:
    """Write the CSV of the chapter-7 scripts with tracking, held-out accuracy in its last column."""
    target.mkdir(parents=True, exist_ok=True)
    total = int(_part(source, "train")["steps"])
    with (target / "7_3_plus_tracking_metrics.csv").open("w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        out.writerow(["step", "total_steps", *(name for name, _ in CHAPTER7_COLUMNS), "eval_acc"])
        for row in rows_of(source):
            if "reward_mean" not in row:
                continue
            held = next((v for k, v in row.items() if k.startswith("eval/")), "")
            out.writerow([int(row["step"]), total, *(row.get(m, "") for _, m in CHAPTER7_COLUMNS), held])
    return target


def _part(source: Path, name: str) -> dict[str, float]:
    """Return "train", the settings of a run as given, or "run", what they come to."""
    config: dict[str, dict[str, float]] = json.loads((source / "config.json").read_text(encoding="utf-8"))
    return config[name]


def _parts(rows: Sequence[Row], size: int) -> Iterable[Sequence[Row]]:
    return (rows[i : i + size] for i in range(0, len(rows) - size + 1, size))


def _mean(part: Sequence[Row], metric: str) -> float | None:
    """Return the mean over logged rows, NaN when one of them is not finite, as trainers average."""
    values = [r[metric] for r in part if r.get(metric) is not None]
    return sum(values) / len(values) if values else None


def _name(metric: str) -> str:
    return metric.partition("/")[2]


def lossy(source: Path, target: Path) -> Path:
    """Write TRL's log of means over ten steps, without spread and held-out scores: what many users have."""
    return trl(source, target, every=10)


LAYOUTS: Mapping[str, Callable[[Path, Path], Path] | None] = {
    "own": None,
    "trl": trl,
    "verl": verl,
    "chapter7": chapter7,
}
