"""The diagnosis as one figure for a paper: the vital signs over the steps, the incident shaded."""

from __future__ import annotations

import io
import textwrap
from typing import Any

from rlvitals.diagnosis import Diagnosis
from rlvitals.errors import InputError, Problem
from rlvitals.report import words
from rlvitals.report.panels import Panel, decimate, panels, smooth
from rlvitals.report.series import Role, Stretch

SHOWN = ("reward", "held-out", "held-out-reward", "zero-variance", "entropy", "kl", "grad-norm")
WIDTH_IN, ROW_IN = 7.0, 1.75  # a two-column text width; height of a row of panels
DPI = 200
TITLE_CHARS = 100  # at 8 points on WIDTH_IN
PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#666666")  # Okabe and Ito 2008
INCIDENT = "#D55E00"
RECOVERED = "#888888"


def render(diagnosis: Diagnosis) -> bytes:
    """Return a PNG image.

    Raises:
        InputError: matplotlib is not installed, or the diagnosis holds no series to draw.
    """
    found = [p for p in panels(diagnosis) if p.key in SHOWN]
    if not found:
        raise InputError(
            Problem(
                "there is nothing to draw",
                words.run_name(diagnosis),
                "none of " + ", ".join(SHOWN),
                "at least one of them over two steps or more",
            )
        )
    figure = _figure(diagnosis, found)
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=DPI, metadata={"Software": None})
    return out.getvalue()


def _figure(d: Diagnosis, found: list[Panel]) -> Any:
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        hint = "Install it: pip install 'rlvitals[png]'"
        raise InputError(Problem("the PNG report needs matplotlib, which is not installed", hint=hint)) from error
    columns = 2 if len(found) > 1 else 1
    rows = -(-len(found) // columns)
    figure = Figure(figsize=(WIDTH_IN, ROW_IN * rows + 0.55), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(rows, columns, squeeze=False, sharex=True).ravel()
    for ax, panel in zip(axes, found, strict=False):
        _draw(ax, panel, d)
    for ax in axes[len(found) :]:
        ax.set_axis_off()
    for ax in axes[: len(found)][-columns:]:
        ax.set_xlabel("step", fontsize=7)
        ax.tick_params(labelbottom=True)
    title = f"{words.run_name(d)}: {words.VERDICT_WORD[d.verdict].lower()}. {words.headline(d)}"
    figure.suptitle(textwrap.fill(title, TITLE_CHARS), fontsize=8, parse_math=False)  # its own wrapping parses maths
    return figure


def _draw(ax: Any, panel: Panel, d: Diagnosis) -> None:
    for stretch in panel.stretches:
        _shade(ax, stretch)
    for color, s in zip(PALETTE, panel.lines, strict=False):
        dense = s.value.size > 60
        ax.plot(*decimate(s.step, s.value), color=color, lw=0.5 if dense else 1.0, alpha=0.35 if dense else 1.0)
        label = words.clean(s.label, 32)
        (line,) = ax.plot(*decimate(s.step, smooth(s.value)), color=color, lw=1.2, alpha=1.0 if dense else 0.0)
        line.set_label(label)
        if not dense:
            ax.plot(s.step, s.value, "o", ms=2.2, color=color)
    ax.set_title(panel.title, fontsize=7.5, loc="left", parse_math=False)
    ax.set_ylabel(panel.unit, fontsize=6.5, parse_math=False)
    ax.set_xlim(d.position.first_step, d.position.last_step)
    ax.tick_params(labelsize=6.5, width=0.5, length=2)
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_linewidth(0.5)
    if len(panel.lines) > 1:
        legend = ax.legend(fontsize=6, frameon=False, handlelength=1.2)
        for handle, text in zip(legend.get_lines(), legend.get_texts(), strict=True):
            handle.set_alpha(1.0)
            text.set_parse_math(False)


def _shade(ax: Any, s: Stretch) -> None:
    color = RECOVERED if s.role is Role.RECOVERED else INCIDENT
    if s.onset_last > s.first:  # it may have begun anywhere in here
        ax.axvspan(s.first, s.onset_last, color=color, alpha=0.05, lw=0)
    if s.role is not Role.CONSEQUENCE:
        ax.axvspan(s.onset_last, s.last, color=color, alpha=0.08 if s.role is Role.RECOVERED else 0.11, lw=0)
    style = (0, (3, 2)) if s.role is Role.CONSEQUENCE else "solid"
    ax.axvline(s.first, color=color, lw=0.7, ls=style)
