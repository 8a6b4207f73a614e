"""The terminal report: order, width, colour and honesty."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rlvitals.check import Onset
from rlvitals.diagnosis import Diagnosis
from rlvitals.engine import Incident
from rlvitals.report import terminal
from tests.report.examples import HOSTILE, sick, too_short, well

EXAMPLES = {
    "sick": sick(),
    "well": well(),
    "short": too_short(),
    "live": replace(sick(), run=None),
    "wide name": sick("模型" * 60),
}


@pytest.mark.parametrize("width", [60, 80])
@pytest.mark.parametrize("name", EXAMPLES)
def test_no_line_is_wider_than_asked(name: str, width: int) -> None:
    from rich.cells import cell_len

    lines = terminal.render(EXAMPLES[name], width=width, color=False).splitlines()
    assert max(cell_len(line) for line in lines) <= width
    assert all(line == line.rstrip() for line in lines)


def test_parts_come_in_reading_order() -> None:
    text = terminal.render(sick(), width=80, color=False)
    parts = (
        "countdown-grpo",
        "TRL 0.24 · steps 1-200 · 200 rows",
        " ACT  Most groups carry no learning signal since step 101.",
        " 1 zero-variance-groups S001",
        "fix · high confidence · since steps 96-101",
        "└ led to entropy-collapse E001 · since step 117",
        "Vital signs",
        "Noted, nothing to do",
        "Ruled out",
        "Blind spots",
        "Plan",
        " 0 Verify the verifier",
        " 1 Move the mixture",
        "verify: fewer tied groups (zero_variance_frac < 0.5 over 20 steps)",
        " 2 Raise the group size [num_generations] for S001",
        "Rollback To step 80 (out/checkpoint-80)",
        "Cost",
    )
    at = [text.index(part) for part in parts]
    assert at == sorted(at)


def test_evidence_carries_value_change_limit_and_its_source() -> None:
    flat = " ".join(terminal.render(sick(), width=80, color=False).split())
    assert (
        "zero_variance_frac: 0.1306 → 0.8045 fraction · limit > 0.5 fraction (paper: DAPO, section 3.2)"
        " · steps 101-200" in flat
    )


def test_sparklines_share_an_axis_and_bracket_the_incident() -> None:
    lines = terminal.render(sick(), width=80, color=False).splitlines()
    tied = next(line for line in lines if line.startswith(" zero_variance_frac  "))
    entropy = next(line for line in lines if line.startswith(" entropy  "))
    reward = next(line for line in lines if line.startswith(" reward_mean  "))
    assert tied.index("[") < entropy.index("[")
    assert tied.index("]") == entropy.index("]")
    assert "[" not in reward


def test_healthy_always_names_the_blind_families() -> None:
    text = terminal.render(well(), width=80, color=False)
    assert " HEALTHY  Nothing is wrong among the things that could be looked at." in text
    assert " 6 of 7 checks that apply could look · blind: sync" in text


def test_cannot_say_gives_the_reason_once_and_says_what_to_log() -> None:
    text = terminal.render(too_short(), width=80, color=False)
    assert " CANNOT SAY  10 usable steps; at least 20 are needed." in text
    assert " 1 Let it train for 10 more steps: 10 rows have a reward, and 20 are needed." in text


def test_a_crash_is_another_matter_than_health() -> None:
    text = terminal.render(replace(well(), crash="CUDA out of memory"), width=80, color=False)
    assert "HEALTHY" in text
    assert "The process died: CUDA out of memory. That is another matter" in text


@pytest.mark.parametrize("diagnosis", [sick(HOSTILE), replace(well(), crash=HOSTILE)])
def test_untrusted_text_sends_no_escape_sequence(diagnosis: Diagnosis) -> None:
    assert "\x1b" not in terminal.render(diagnosis, width=80, color=False)
    assert "\x1b[31m" + "\n" not in terminal.render(diagnosis, width=80, color=True)
    assert "\\x1b[31m" in terminal.render(diagnosis, width=80, color=False)


def test_colour_needs_a_terminal_and_no_color_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\x1b" not in terminal.render(sick())  # captured output is no terminal
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b" in terminal.render(sick())
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in terminal.render(sick())


def test_without_a_run_there_are_no_sparklines() -> None:
    assert "Vital signs" not in terminal.render(replace(sick(), run=None), width=80, color=False)


def test_one_row_per_run() -> None:
    assert terminal.render_row(sick()) == (
        "act         countdown-grpo        1-200      S001 zero-variance-groups from 96"
    )
    assert terminal.render_row(well()).endswith("1-200      nothing found")
    assert len(terminal.render_row(sick("x" * 200), width=80)) <= 80


def test_incidents_of_one_check_share_a_line() -> None:
    finding = sick().causes[0].finding
    over = (Incident("S001", Onset(5, 5), 9, finding), Incident("S001", Onset(20, 22), 31, finding))
    text = terminal.render(replace(well(), incidents=over), width=80, color=False)
    assert " · zero-variance-groups S001 · steps 5-9, 20-31\n" in text
