"""Each channel against a local server, or the real library offline; secrets stay out of logs and status."""

from __future__ import annotations

import email
import json
import logging
import os
import shlex
import subprocess
import sys
from email.policy import default
from pathlib import Path

import pytest

from rlvitals.check import Action
from rlvitals.ingest.readers.recordlog import Damage, records
from rlvitals.ingest.sources import Source
from rlvitals.live.alerts import Alerts
from rlvitals.live.channels import Channel, NotSent
from rlvitals.live.channels.command import CommandChannel
from rlvitals.live.courier import Courier, Delivery
from rlvitals.live.message import message
from rlvitals.live.transitions import Kind
from rlvitals.settings import AlertSettings
from tests.live.servers import http_server, mail_server
from tests.live.transitions import changed, eventually

SECRET = "aaaabbbbccccddddeeeeffff"  # has the form that Mattermost asks for
MESSAGE = message(changed(), changed())
STOP = changed(action=Action.STOP)


def through_apprise(address: str) -> Delivery:
    """Send one message through the whole way: settings, courier, channel."""
    alerts = Alerts.of(AlertSettings(apprise=("RLVITALS_X",)), {"RLVITALS_X": address})
    alerts.on_transition(STOP)
    (status,) = alerts.close(20)
    return status


@pytest.mark.parametrize(
    ("address", "field"),
    [
        ("json://127.0.0.1:{port}/{secret}", "message"),
        ("mmost://127.0.0.1:{port}/{secret}", "text"),
        ("gotify://127.0.0.1:{port}/{secret}", "message"),
        ("ntfy://127.0.0.1:{port}/topic", "message"),
    ],
)
def test_apprise_services_on_a_local_server(address: str, field: str) -> None:
    with http_server() as server:
        status = through_apprise(address.format(port=server.server_port, secret=SECRET))
    assert (status.sent, status.failed, status.undelivered) == (1, 0, 0)
    assert status.channel == "apprise (RLVITALS_X)"
    body = server.posts[0][1]
    said = json.loads(body)[field] if body.startswith("{") else body
    assert "Run run a: S001 zero-variance-groups: stop the run, at step 140." in said
    assert "First: Mix in easier prompts." in said


@pytest.mark.parametrize(
    ("address", "host"),
    [
        ("slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/#training", "hooks.slack.com"),
        ("discord://4174216298/JHMHI8qBe7bk2ZwO5U711o3dV_js", "discord.com"),
        ("pagerduty://integrationkey@apikey", "events.pagerduty.com"),
    ],
)
def test_apprise_services_elsewhere_offline(monkeypatch: pytest.MonkeyPatch, address: str, host: str) -> None:
    import requests

    posts: list[tuple[str, str]] = []

    def answer(_: object, request: requests.PreparedRequest, **__: object) -> requests.Response:
        posts.append((str(request.url), str(request.body)))
        found = requests.Response()
        found.status_code = 202 if "pagerduty" in host else 200
        found._content = b"ok"
        return found

    monkeypatch.setattr(requests.Session, "send", answer)
    assert through_apprise(address).sent == 1
    assert len(posts) == 1
    assert posts[0][0].split("/")[2] == host
    assert "zero-variance-groups" in posts[0][1]


def test_apprise_mail() -> None:
    with mail_server() as server:
        port = server.server_address[1]
        status = through_apprise(
            f"mailto://127.0.0.1:{port}?smtp=127.0.0.1&from=r@a.example&to=me@a.example&mode=insecure"
        )
    assert status.sent == 1
    mail = email.message_from_string(server.mails[0], policy=default)  # type: ignore[attr-defined]
    assert mail["Subject"] == "S001 zero-variance-groups: stop the run (run a)"
    body = mail.get_body(("plain",))
    assert body is not None
    assert "Evidence: zero_variance_frac from 0.3 to 0.92 fraction" in " ".join(body.get_content().split())


def test_a_refusing_server_is_tried_again_and_no_secret_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with http_server(500, 503) as server:
        address = f"json://user:{SECRET}@127.0.0.1:{server.server_port}/hook/{SECRET}"
        alerts = Alerts.of(AlertSettings(apprise=("RLVITALS_X",)), {"RLVITALS_X": address})
        alerts._couriers[0]._first_retry_s = 0.01
        alerts.on_transition(STOP)
        for _ in range(1000):
            if len(server.posts) == 3:
                break
            alerts._couriers[0]._thread.join(0.01)  # type: ignore[union-attr]
        (status,) = alerts.close(10)
    assert (status.sent, status.failed, status.undelivered) == (1, 2, 0)
    assert status.error == "the service did not take the message"
    logging.getLogger("urllib3.connectionpool").debug("another thread still logs")
    assert SECRET not in caplog.text
    assert SECRET not in str(status)
    assert "another thread still logs" in caplog.text


CRASH = """
import os
from rlvitals.live.alerts import Alerts
from rlvitals.settings import AlertSettings
from tests.live.transitions import changed, eventually
alerts = Alerts.of(AlertSettings(apprise=("RLVITALS_X",)))
alerts.on_transition(changed())
raise RuntimeError("training died")
"""


def test_a_process_that_dies_of_an_exception_still_sends_what_waits() -> None:
    root = Path(__file__).parents[2]
    with http_server(500) as server:  # the first try fails, the last one at the exit does not
        address = f"json://127.0.0.1:{server.server_port}/"
        env = {**os.environ, "RLVITALS_X": address, "PYTHONPATH": f"{root / 'src'}:{root}"}
        done = subprocess.run([sys.executable, "-c", CRASH], capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 1
    assert "training died" in done.stderr
    assert len(server.posts) == 2


def command(tmp_path: Path, body: str, timeout_s: float = 20.0) -> CommandChannel:
    script = tmp_path / "tell.py"
    script.write_text(body)
    line = shlex.join([sys.executable, str(script), str(tmp_path / "out.json"), "a; touch evil"])
    return CommandChannel("RLVITALS_COMMAND", {"RLVITALS_COMMAND": line}, timeout_s)


def test_a_command_gets_the_message_as_json_and_no_shell(tmp_path: Path) -> None:
    body = (
        "import sys, pathlib\n"
        "assert sys.argv[2] == 'a; touch evil'\n"
        "pathlib.Path(sys.argv[1]).write_text(sys.stdin.read())\n"
    )
    channel = command(tmp_path, body)
    channel.send(MESSAGE)
    told = json.loads((tmp_path / "out.json").read_text())
    assert told == MESSAGE.as_dict()
    assert (told["check"], told["action"], told["severity"]) == ("S001", "fix", "warning")


def test_a_command_that_fails_or_hangs(tmp_path: Path) -> None:
    with pytest.raises(NotSent, match="the command ended with code 3"):
        command(tmp_path, "raise SystemExit(3)").send(MESSAGE)
    with pytest.raises(NotSent, match=r"the command took longer than 0\.3 s"):
        command(tmp_path, "import time; time.sleep(60)", 0.3).send(MESSAGE)


def send(channel: Channel, *kinds: Kind) -> Delivery:
    """Send transitions as a monitor would: taken in this thread, sent from the courier's."""
    courier = Courier(channel, first_retry_s=0.01)
    for kind in kinds:
        courier.take(changed(kind, Action.STOP))
    courier.close(20)
    return courier.status()


TRACKIO = """
import json, trackio
from rlvitals.check import Action
from rlvitals.live.channels import NotSent
from rlvitals.live.channels.trackio import TrackioChannel
from rlvitals.live.courier import Courier
from tests.live.transitions import changed, eventually

channel = TrackioChannel()
courier = Courier(channel, first_retry_s=0.01)
trackio.init(project="proj", name="r")
courier.take(changed(action=Action.STOP))  # sent from a thread that does not see the current run by itself
courier.close(20)
trackio.finish()
from trackio.sqlite_storage import SQLiteStorage
print("ALERTS", json.dumps([courier.status().sent, SQLiteStorage.get_alerts("proj")]))
"""


@pytest.mark.slow
def test_trackio(tmp_path: Path) -> None:
    pytest.importorskip("trackio")
    root = Path(__file__).parents[2]
    env = {**os.environ, "TRACKIO_DIR": str(tmp_path), "PYTHONPATH": f"{root / 'src'}:{root}"}
    done = subprocess.run(
        [sys.executable, "-c", TRACKIO], capture_output=True, text=True, env=env, check=True, timeout=120
    )
    line = next(line for line in done.stdout.splitlines() if line.startswith("ALERTS "))
    sent, (alert,) = json.loads(line.removeprefix("ALERTS "))
    assert (sent, alert["run"], alert["level"]) == (1, "r", "error")
    assert alert["title"] == "S001 zero-variance-groups: stop the run (run a)"
    assert "First: Mix in easier prompts." in alert["text"]


def test_trackio_without_a_run() -> None:
    pytest.importorskip("trackio")
    from rlvitals.live.channels.trackio import TrackioChannel

    with pytest.raises(NotSent, match=r"call trackio\.init first"):
        TrackioChannel().send(MESSAGE)


@pytest.mark.slow
def test_wandb_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wandb = pytest.importorskip("wandb")
    from rlvitals.live.channels.wandb import WandbChannel

    monkeypatch.setenv("WANDB_SILENT", "true")
    with pytest.raises(NotSent, match=r"call wandb\.init first"):
        WandbChannel().send(MESSAGE)
    run = wandb.init(mode="offline", dir=str(tmp_path), project="p")
    assert send(WandbChannel(), Kind.OPENED).sent == 1
    run.finish()
    (file,) = tmp_path.glob("wandb/offline-run-*/*.wandb")
    eventually(lambda: alerts_in(file) != [], 20)  # W&B's own process writes the file, some time after `finish`
    assert alerts_in(file) == [("S001 zero-variance-groups: stop the run (run a)", "ERROR")]


def alerts_in(file: Path) -> list[tuple[str, str]]:
    """Return title and level of the alerts in a .wandb file, read with our own reader of its frames."""
    from wandb.proto import wandb_internal_pb2

    out = []
    for data in records(Source(file.name, file), Damage()):
        record = wandb_internal_pb2.Record()
        record.ParseFromString(data)
        if record.WhichOneof("record_type") == "alert":
            assert "Evidence: zero_variance_frac" in record.alert.text
            out.append((record.alert.title, record.alert.level))
    return out


@pytest.mark.slow
def test_mlflow_tags(tmp_path: Path) -> None:
    mlflow = pytest.importorskip("mlflow")
    from rlvitals.live.channels.mlflow import MlflowChannel

    mlflow.set_tracking_uri(f"sqlite:///{tmp_path}/mlflow.db")
    with pytest.raises(NotSent, match=r"call mlflow\.start_run first"):
        MlflowChannel().send(MESSAGE)
    with mlflow.start_run() as run:
        assert send(MlflowChannel(), Kind.OPENED).sent == 1
    tags = mlflow.MlflowClient().get_run(run.info.run_id).data.tags
    assert tags["rlvitals.verdict"] == "act"
    assert tags["rlvitals.S001"].startswith("Run run a: S001 zero-variance-groups: stop the run, at step 140.")
