"""The pictures of docs/chapter7.md, drawn from benchmarks/results/chapter7.json with matplotlib.

Each picture carries a digest of the numbers it was drawn from, which is what `--check` compares: the same numbers give
other bytes with another release of matplotlib.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.book.pictures import Picture

PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#666666")  # Okabe and Ito 2008
WIDTH_IN, HEIGHT_IN = 8.0, 2.4
UNITS: Mapping[str, str] = {
    "held_out": "held-out accuracy",
    "reward_mean": "mean reward",
    "reward_part/correct": "share of right answers",
    "reward_part/format": "format part of the reward",
    "entropy": "entropy, nats per token",
    "length_mean": "length, tokens",
    "advantage_std": "std of advantages",
    "extra/kl_ref_k1": "KL k1, nats per token",
    "policy_loss": "policy loss",
    "grad_norm": "gradient norm",
}


def digest(picture: Picture, results: Mapping[str, Any]) -> str:
    """Return 16 hex digits over everything the picture shows."""
    shown = [
        [picture.alt, arm, panel, _series(results, arm, panel)] for arm in picture.arms for panel in picture.panels
    ]
    return hashlib.sha256(json.dumps(shown).encode()).hexdigest()[:16]


def draw(picture: Picture, results: Mapping[str, Any]) -> str:
    """Return the picture as SVG."""
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    with matplotlib.rc_context({"svg.hashsalt": picture.name, "svg.fonttype": "none", "font.size": 8}):
        figure = Figure(figsize=(WIDTH_IN, HEIGHT_IN), layout="constrained")
        FigureCanvasSVG(figure)
        axes = figure.subplots(1, len(picture.panels), squeeze=False)[0]
        for ax, panel in zip(axes, picture.panels, strict=True):
            for colour, arm in zip(PALETTE, picture.arms, strict=False):
                found = _series(results, arm, panel)
                if found is None:
                    continue
                step, mean, low, high = found
                ax.plot(step, mean, color=colour, linewidth=1.2, label=arm)
                ax.fill_between(step, low, high, color=colour, alpha=0.15, linewidth=0)
            ax.set_title(UNITS[panel], fontsize=8)
            ax.set_xlabel("step")
            ax.spines[["top", "right"]].set_visible(False)
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata={"Date": None, "Description": digest(picture, results)})
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def _series(results: Mapping[str, Any], arm: str, panel: str) -> tuple[Sequence[float], ...] | None:
    """Return steps, mean, lowest and highest seed; None where the arm does not log it."""
    found = results["arms"].get(arm)
    if found is None:
        return None
    if panel == "held_out":
        per_step = {int(s): v for s, v in found["held_out"].items()}
        steps = sorted(per_step)
        return (
            steps,
            [sum(per_step[s]) / len(per_step[s]) for s in steps],
            [min(per_step[s]) for s in steps],
            [max(per_step[s]) for s in steps],
        )
    curve = found["curves"].get(panel)
    return None if curve is None else (curve["step"], curve["mean"], curve["low"], curve["high"])
