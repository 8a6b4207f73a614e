"""Alerts: what is told at once, what may wait, what a message says, and that no step waits for any of it."""

from __future__ import annotations

import dataclasses
import json
import threading
import time
from pathlib import Path

import pytest

from rlvitals.check import Action, Verdict
from rlvitals.checks import CHECKS
from rlvitals.cli.common import Extras
from rlvitals.cli.follow import follow
from rlvitals.errors import InputError
from rlvitals.live import courier as courier_module
from rlvitals.live import delivered
from rlvitals.live.alerts import Alerts
from rlvitals.live.channels import NotSent
from rlvitals.live.courier import Courier
from rlvitals.live.delivered import Delivered, DeliveredFile
from rlvitals.live.message import Message, Severity, message, stop_message
from rlvitals.live.monitor import Monitor
from rlvitals.live.stop import StopOn, StopRequest
from rlvitals.live.transitions import Kind
from rlvitals.schema import RunConfig
from rlvitals.settings import AlertSettings, load_settings
from tests.live.servers import http_server
from tests.live.transitions import Recorder, changed, eventually, finding

TEXT = """\
Run run a: S001 zero-variance-groups: fix, at step 140. Verdict now: act.
92% of the groups are tied, from 30%.
Since steps 90-110, high confidence.
Evidence: zero_variance_frac from 0.3 to 0.92 fraction, limit above 0.6 fraction (measured: docs/measurements.md: \
Tied groups), steps 100-140.
First: Mix in easier prompts.
More: https://example.org/docs/checks/S001-zero-variance-groups.md (rlvitals explain S001)."""


def test_a_message_says_what_since_when_evidence_first_action_and_link() -> None:
    found = changed()
    told = message(found, found, docs="https://example.org/docs/")
    assert told.text == TEXT
    assert told.title == "S001 zero-variance-groups: fix (run a)"
    assert told.severity is Severity.WARNING
    assert told.as_dict()["link"] == "https://example.org/docs/checks/S001-zero-variance-groups.md"


def test_a_message_quotes_no_rollout() -> None:
    excerpt = "the secret answer is forty-two and so on"
    quoting = finding(summary=f"rollouts loop on '{excerpt}'", excerpt=excerpt)
    part = finding(summary=f"rollouts loop on '{excerpt[:30]}'", excerpt=excerpt)
    for found in (quoting, part):
        told = message(changed(found=found), changed(found=found))
        assert "secret answer" not in str(told.as_dict())
        assert next(c.fault for c in CHECKS if c.id == "S001") in told.text


def test_names_from_a_log_can_mention_nobody_and_link_nowhere() -> None:
    found = changed(run="<!channel> @everyone https://evil.example\n`x`" + "y" * 300)
    told = message(found, found)
    for text in (told.text, told.title):
        assert "<" not in text
        assert "@everyone" not in text
        assert "https://evil" not in text
        assert "`" not in text
    assert len(told.title) <= 63
    assert told.text.count("\n") == TEXT.count("\n")


def test_relief_says_what_was() -> None:
    told = message(changed(Kind.CLOSED, step=200), changed(action=Action.STOP), changes=3)
    assert told.title == "S001 zero-variance-groups: over (run a)"
    assert "Since steps 90-110 until step 200." in told.text
    assert "First:" not in told.text
    assert "It changed 3 times since the last message." in told.text
    assert told.severity is Severity.INFO


def sent_by(recorder: Recorder, **options: object) -> Courier:
    return Courier(recorder, first_retry_s=0.01, **options)  # type: ignore[arg-type]


def test_new_worse_and_other_kinds_pass_at_once_repeats_wait() -> None:
    recorder = Recorder()
    courier = sent_by(recorder)
    steps = [
        (changed(), "fix"),
        (changed(Kind.CLOSED, step=150), "over"),
        (changed(step=160), None),  # the same again: waits for repeat_s
        (changed(Kind.WORSENED, Action.STOP, step=170), "worse, stop the run"),
        (changed(Kind.CLOSED, step=180), "over"),
        (changed(action=Action.STOP, step=190), "stop the run"),  # a stop is never held back
        (changed(Kind.EASED, Action.FIX, step=200), "milder, fix"),
        (changed(Kind.WORSENED, Action.STOP, step=205), "worse, stop the run"),
        (changed(check="E001", step=210), "fix"),  # another check
        (changed(Kind.CLOSED, check="E001", step=211), "over"),
        (changed(check="E001", variant="all wrong", step=212), "fix"),  # another kind of the same
    ]
    count = 0
    for found, word in steps:
        courier.take(found)
        if word is None:
            time.sleep(0.05)
        else:
            count += 1
            eventually(lambda n=count: len(recorder.messages) == n)  # type: ignore[misc]
            assert recorder.titles[-1].split(": ")[1] == f"{word} (run a)"
    courier.close(5)
    assert courier.status().undelivered == 0


def test_a_repeat_is_told_later_with_what_was_between() -> None:
    recorder = Recorder()
    courier = sent_by(recorder, repeat_s=0.3)
    courier.take(changed())
    eventually(lambda: len(recorder.messages) == 1)
    courier.take(changed(Kind.CLOSED, step=150))
    eventually(lambda: len(recorder.messages) == 2)
    for step in (160, 170, 180):
        courier.take(changed(step=step))
        courier.take(changed(Kind.CLOSED, step=step + 5))
    courier.take(changed(step=190))
    assert len(recorder.messages) == 2
    eventually(lambda: len(recorder.messages) == 3)
    assert "It changed 7 times since the last message." in recorder.messages[-1].text
    assert recorder.messages[-1].step == 190
    courier.close(1)


def test_what_is_milder_than_asked_for_is_not_told_until_it_is_worse() -> None:
    recorder = Recorder()
    courier = sent_by(recorder)
    courier.take(changed(action=Action.WATCH))
    courier.take(changed(Kind.CLOSED, Action.WATCH))
    courier.take(changed(action=Action.WATCH, check="E001"))
    courier.take(changed(Kind.WORSENED, Action.FIX, check="E001"))
    courier.close(5)
    assert recorder.titles == ["E001 entropy-collapse: worse, fix (run a)"]


def test_a_failing_channel_is_tried_again_and_nothing_is_lost() -> None:
    recorder = Recorder(down=3)
    courier = sent_by(recorder)
    courier.take(changed())
    courier.take(changed(check="E001"))
    eventually(lambda: len(recorder.messages) == 2)
    status = courier.status()
    assert (status.sent, status.failed, status.waiting, status.error) == (2, 3, 0, "the service is down")
    courier.close(1)


def test_waits_double_up_to_a_limit() -> None:
    recorder = Recorder(down=10**9)
    now = [0.0]
    courier = Courier(recorder, clock=lambda: now[0])
    waits = []
    for _ in range(12):
        courier._failed_with("down")
        waits.append(courier._retry_at - now[0])
    for n, wait in enumerate(waits):
        usual = min(300.0, 2.0**n)
        assert 0.8 * usual <= wait <= 1.2 * usual


def test_a_slow_channel_holds_up_neither_the_step_nor_another_channel() -> None:
    slow, quick = Recorder(), Recorder()
    slow.gate.clear()
    alerts = Alerts([slow, quick])
    began = time.perf_counter()
    for step in range(1000):
        alerts.on_transition(changed(check=f"X{step % 100:03}", step=step))
    assert time.perf_counter() - began < 0.5  # s for 1,000 transitions
    eventually(lambda: len({m.check for m in quick.messages}) == 100)
    assert threading.get_ident() not in quick.threads
    assert slow.messages == []
    slow.gate.set()
    alerts.close(5)
    assert {m.check for m in slow.messages} == {f"X{n:03}" for n in range(100)}


def test_overflow_never_mutes_what_is_worse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(courier_module, "MAX_WAITING", 4)
    recorder = Recorder()
    recorder.gate.clear()
    courier = sent_by(recorder)
    courier.take(changed(check="F000"))
    eventually(lambda: courier.status().waiting == 1 and not courier._waiting)  # it is on its way, and stuck
    for n in range(10):
        courier.take(changed(action=Action.ADJUST, check=f"A{n:03}"))
    courier.take(changed(action=Action.STOP, check="D001"))
    courier.take(changed(action=Action.FIX, check="E001"))
    assert len(courier._waiting) == 4
    recorder.gate.set()
    courier.close(5)
    told = [m.check for m in recorder.messages]
    assert told[0] == "F000"
    assert told[1:3] == ["D001", "E001"]  # the most severe first
    assert "Not told one by one: 8 changes of other checks." in recorder.messages[1].text
    assert courier.status().undelivered == 0


def test_the_end_waits_no_longer_than_it_was_told_and_counts_what_is_left() -> None:
    recorder = Recorder()
    recorder.gate.clear()
    alerts = Alerts([recorder])
    for n in range(3):
        alerts.on_transition(changed(check=f"X00{n}"))
    began = time.perf_counter()
    (status,) = alerts.close(0.1)
    assert time.perf_counter() - began < 1
    assert (status.sent, status.undelivered) == (0, 3)
    recorder.gate.set()


def test_an_error_of_a_library_is_told_by_its_kind_alone() -> None:
    class Leaky(Recorder):
        def send(self, message: object) -> None:
            raise ConnectionError("https://hooks.example/TOKEN-123")

    courier = sent_by(Leaky())
    courier.take(changed())
    courier.close(5)
    assert (courier.status().error, courier.status().undelivered) == ("ConnectionError", 1)


def test_the_request_to_stop_is_told() -> None:
    recorder = Recorder()
    alerts = Alerts([recorder], run="run a")
    alerts.on_stop(StopRequest("zero reward", 40, "mean reward is exactly 0 in 20 logged steps in a row"))
    alerts.close(5)
    (told,) = recorder.messages
    assert told.title == "stop asked for: zero reward (run a)"
    assert told.severity is Severity.CRITICAL
    assert "Rule: zero reward. mean reward is exactly 0 in 20 logged steps in a row." in told.text


def test_a_note_that_is_always_refused_blocks_nothing() -> None:
    class Picky(Recorder):
        def send(self, message: Message) -> None:
            if not message.check:
                raise NotSent("refused")
            super().send(message)

    refused_note = StopRequest("solved", 1, "solved")
    picky = Picky()
    courier = sent_by(picky)
    courier.note(stop_message(refused_note, "run a"))
    for n in range(5):
        courier.take(changed(check=f"X00{n}"))
    eventually(lambda: len(picky.messages) == 5)
    courier.close(5)
    status = courier.status()
    assert (status.sent, status.undelivered, status.error) == (5, 1, "refused")


def test_a_monitor_tells_what_it_finds() -> None:
    recorder = Recorder()
    monitor = Monitor(
        RunConfig(group_size=8),
        name="run a",
        watchers=[Alerts([recorder], AlertSettings(mildest="watch"), run="run a")],
        stop_on=StopOn(zero_reward_steps=30),
    )
    opened = {}
    for step in range(1, 81):
        row = {"reward_mean": 0.0, "reward_std": 0.0, "zero_variance_frac": 1.0, "grad_norm": 0.0, "entropy": 0.4}
        for found in monitor.log(step, row):
            opened[found.check] = found
    monitor.close()
    told = {m.check: m for m in recorder.messages}
    assert opened
    assert set(opened) | {""} == set(told)
    assert told[""].name == "zero reward"
    assert all(m.verdict in {v.value for v in Verdict} and m.run == "run a" for m in recorder.messages)
    assert monitor.troubles == ()


def zeros(monitor: Monitor, first: int, last: int) -> None:
    for step in range(first, last + 1):
        row = {"reward_mean": 0.0, "reward_std": 0.0, "zero_variance_frac": 1.0, "grad_norm": 0.0, "entropy": 0.4}
        monitor.log(step, row)


def test_a_restarted_process_tells_what_the_one_before_could_not_and_nothing_twice(tmp_path: Path) -> None:
    def process(first: int, last: int, channel: Recorder, *, killed: bool = False) -> Recorder:
        alerts = Alerts([channel], AlertSettings(mildest="watch"), run="run a", directory=tmp_path)
        monitor = Monitor(RunConfig(group_size=8), name="run a", directory=tmp_path, watchers=[alerts])
        zeros(monitor, first, last)
        if killed:
            monitor._watchers.clear()  # what waits is not sent at the end
        monitor.close()
        return channel

    stuck = Recorder()
    stuck.gate.clear()
    process(1, 60, stuck, killed=True)
    assert stuck.messages == []
    told = process(61, 80, Recorder())
    checks = sorted(m.check for m in told.messages)
    assert len(checks) == len(set(checks)) > 0
    assert all("First: " in m.text for m in told.messages)
    again = process(81, 100, Recorder())
    assert again.messages == []


def test_what_was_delivered_is_kept_short_and_survives_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivered, "MAX_BYTES", 2000)
    now = [1000.0]
    file = DeliveredFile(tmp_path / "new", "c", lambda: now[0])
    for n in range(100):
        file.append(("run a", f"X{n % 3}"), Delivered(n % 6, frozenset({""}), n % 2 == 0, 0.0))
    path = tmp_path / "new" / delivered.FILE
    assert path.stat().st_size < 2300
    with path.open("ab") as out:
        out.write(b'\n{"channel": "c", "run": "run a"}\n[1]\nnot json\n{"half')
    file.append(("run b", "X0"), Delivered(3, frozenset({"all wrong"}), True, 0.0))
    now[0] = 1060.0
    found = file.load(clock_s=500.0)
    assert found["run b", "X0"] == Delivered(3, frozenset({"all wrong"}), True, 440.0)
    assert set(found) == {("run a", "X0"), ("run a", "X1"), ("run a", "X2"), ("run b", "X0")}
    assert found["run a", "X0"] == Delivered(3, frozenset({""}), False, 440.0)
    assert DeliveredFile(tmp_path / "new", "other").load(0.0) == {}
    assert DeliveredFile(None, "c").load(0.0) == {}


def toml(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "rlvitals.toml"
    path.write_text(text)
    return path


def test_settings(tmp_path: Path) -> None:
    text = """
    [alerts]
    apprise = ["RLVITALS_SLACK", "RLVITALS_MAIL"]
    command = "RLVITALS_COMMAND"
    wandb = true
    from = "stop"
    repeat_minutes = 5
    resolved = false
    docs = "https://example.org/docs"
    """
    found = load_settings(toml(tmp_path, text)).alerts
    assert found == AlertSettings(
        ("RLVITALS_SLACK", "RLVITALS_MAIL"), "RLVITALS_COMMAND", wandb=True, mildest="stop", repeat_minutes=5.0,
        resolved=False, docs="https://example.org/docs",
    )  # fmt: skip
    assert found.channels() == (
        ("apprise", "RLVITALS_SLACK"),
        ("apprise", "RLVITALS_MAIL"),
        ("command", "RLVITALS_COMMAND"),
        ("wandb", ""),
    )


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('apprise = "slack://T/SECRET/x"', "never the secret itself"),
        ('apprise = ["AWS_SECRET_ACCESS_KEY"]', "begins with RLVITALS_"),
        ('command = "rm -rf SECRET"', "begins with RLVITALS_"),
        ('from = "panic"', "one of watch, finish, adjust, fix, stop"),
        ("repeat_minutes = -1", "0 or more"),
        ("repeat_minutes = nan", "0 or more"),
        ("wandb = 1", "true or false"),
        ('docs = "javascript:x"', "https://"),
        ("aprise = []", "Nearest: apprise"),
    ],
)
def test_wrong_settings_name_what_was_expected_and_no_secret(tmp_path: Path, line: str, said: str) -> None:
    with pytest.raises(InputError) as error:
        load_settings(toml(tmp_path, f"[alerts]\n{line}\n"))
    assert said in str(error.value)
    assert "SECRET/x" not in str(error.value)
    assert "rm -rf" not in str(error.value)


def test_every_channel_that_cannot_be_opened_is_named_at_once() -> None:
    settings = AlertSettings(("RLVITALS_A", "RLVITALS_B"), "RLVITALS_C")
    with pytest.raises(InputError) as error:
        Alerts.of(settings, {"RLVITALS_B": "no-such-scheme://SECRET", "RLVITALS_C": "no-such-program-here SECRET"})
    text = str(error.value)
    assert "SECRET" not in text
    assert text.splitlines() == [
        "RLVITALS_A: environment variable not set; expected an address of apprise",
        "RLVITALS_B: the value is no address that apprise knows; expected an address of apprise, such as slack://... "
        "or mailto://...",
        "RLVITALS_C: no such program; expected a program of PATH, or its full path",
    ]


@pytest.mark.parametrize("wanted", [True, False])
def test_follow_sends_alerts_when_the_settings_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], wanted: bool
) -> None:
    log = tmp_path / "log.jsonl"
    text = "[alerts]\napprise = 'RLVITALS_HOOK'\nwandb = true\nfrom = 'watch'\n" + f"follow = {str(wanted).lower()}\n"
    toml(tmp_path, text)
    row = {"reward": 0.0, "reward_std": 0.0, "frac_reward_zero_std": 1.0, "entropy": 0.4, "grad_norm": 0.0}
    log.write_text("".join(json.dumps({**row, "step": n}) + "\n" for n in range(1, 61)))
    with http_server() as server:
        monkeypatch.setenv("RLVITALS_HOOK", f"json://127.0.0.1:{server.server_port}/")
        rounds = iter(range(3))
        found = follow(log, Extras({}, {}, None), every=0.01, going=lambda: next(rounds, None) is not None)
    assert found is not None
    told = {json.loads(body)["title"][:4] for _, body in server.posts}
    changes = capsys.readouterr()
    printed = {line.split("opened")[1].split()[0] for line in changes.out.splitlines() if " opened " in line}
    assert printed
    assert told == ({f"{c}" for c in printed} if wanted else set())
    assert ("Alerts go to: apprise (RLVITALS_HOOK)." in changes.err) is wanted


def test_the_page_names_every_setting_and_every_field() -> None:
    docs = Path(__file__).parents[2] / "docs"
    page, settings = (docs / "alerts.md").read_text(), (docs / "settings.md").read_text()
    names = ["from" if f.name == "mildest" else f.name for f in dataclasses.fields(AlertSettings)]
    assert [n for n in names if f"{n} = " not in settings] == []
    assert [n for n in ("apprise", "command", "trackio", "wandb", "mlflow") if f"| `{n}` |" not in page] == []
    found = changed()
    assert [n for n in message(found, found).as_dict() if f"`{n}`" not in page] == []
