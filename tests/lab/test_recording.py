"""A recording of the lab is what was on the screen, without clock and path, and plays anywhere."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from rlvitals.cli.demo import RECORDING
from rlvitals.errors import InputError
from rlvitals.lab.recording import LONGEST, MAX_BYTES, PAUSES, Recorder, play, read
from rlvitals.lab.screen import Screen


def shown(frames: object, *, moving: bool = False, speed: float = 1.0) -> tuple[str, list[float]]:
    out, waits = io.StringIO(), list[float]()
    screen = Screen(out)
    screen.moving = moving
    screen.begin = lambda steps: setattr(screen, "_steps", steps)  # type: ignore[method-assign]
    play(frames, screen, speed, waits.append)  # type: ignore[arg-type]
    return out.getvalue(), waits


def test_what_is_recorded_plays_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    screen = Recorder(fault="x", seed=3)
    screen.title("1. Break it")
    screen.begin(2)
    screen.step(1, {"reward_mean": 0.123456, "kl_ref": float("nan")})
    screen.step(2, {"reward_mean": 0.5})
    screen.end()
    screen.text("noticed", "bold")
    screen.here(f"It lies in {tmp_path}")
    screen.table(("", "broken"), [("steps", "2")])
    screen.write(tmp_path / "rec.jsonl")
    printed = capsys.readouterr().out
    frames = read(tmp_path / "rec.jsonl")
    again, waits = shown(frames)
    assert again == printed.replace(f"It lies in {tmp_path}\n", "").replace("0.123456", "0.1235")
    assert waits == []  # no terminal: at once
    assert frames[0] == {"rlvitals_show": 1, "fault": "x", "seed": 3}
    assert frames[3]["values"] == {"reward_mean": 0.1235}


def test_the_shipped_recording_shows_all_that_a_demo_must() -> None:
    assert RECORDING.stat().st_size < MAX_BYTES
    text, _ = shown(read(RECORDING))
    for part in ("1. Break it", "steps after it broke", "2. The diagnosis", "R021", "3. Mend it", "4. Did it help?",
                 "broken", "mended", "Fixed: "):  # fmt: skip
        assert part in text
    assert "/tmp" not in text
    assert "\x1b" not in text


def test_on_a_terminal_it_takes_seconds_and_the_speed_scales_them() -> None:
    frames = read(RECORDING)
    whole = sum(shown(frames, moving=True)[1])
    assert 3 < whole <= LONGEST + 1e-6
    assert sum(shown(frames, moving=True, speed=2)[1]) == pytest.approx(whole / 2)
    assert shown(frames, moving=True, speed=0)[1] == []
    assert set(PAUSES) <= {str(f.get("do")) for f in frames}


@pytest.mark.parametrize("text", ["", "no json", "{}", '{"rlvitals_show": 99}', "[1]"])
def test_what_is_no_recording_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match="no recording of the lab"):
        read(tmp_path / "x.jsonl")
    with pytest.raises(InputError, match="cannot read"):
        read(tmp_path / "gone.jsonl")
