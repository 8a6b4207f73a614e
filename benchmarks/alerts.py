"""What alerts and /metrics cost a training step: python -m benchmarks.alerts [STEPS].

The same rows go through `Monitor.log` alone, with an exporter that is scraped ten times a second, with alerts whose
only channel hangs, and with both. Then a storm: a transition of every check at every step, into a channel that fails.
"""

from __future__ import annotations

import sys
import threading
import time
import urllib.request
from pathlib import Path

import numpy as np
import orjson

from benchmarks.speed import peak_mb
from rlvitals.checks import CHECKS
from rlvitals.live.alerts import Alerts
from rlvitals.live.channels import NotSent
from rlvitals.live.message import Message
from rlvitals.live.monitor import Monitor
from rlvitals.live.prometheus import Exporter
from rlvitals.live.transitions import Kind, Transition, page_of
from rlvitals.live.watcher import Watcher
from rlvitals.schema import RunConfig
from rlvitals.settings import AlertSettings

RESULTS = Path(__file__).parent / "results" / "alerts.json"
STEPS = 20_000
REPEATS = 3  # the fastest counts
SCRAPE_EVERY_S = 0.1
STORM_STEPS = 200


class Hangs:
    """A channel that answers nothing."""

    name = "hangs"

    def prepare(self) -> None:
        pass

    def send(self, message: Message) -> None:
        time.sleep(3600)


class Fails(Hangs):
    """A channel that is down."""

    name = "fails"

    def send(self, message: Message) -> None:
        raise NotSent("down")


class Catch(Watcher):
    """Keeps one transition of a real run for the storm."""

    found: Transition | None = None

    def on_transition(self, found: Transition) -> None:
        self.found = self.found or found


def rows(steps: int) -> list[dict[str, float]]:
    """Return rows of 40 metrics of a run whose groups tie more and more."""
    rng = np.random.default_rng(0)
    t = np.linspace(0, 1, steps)
    named = {
        "reward_mean": 0.3 + 0.4 * t + rng.normal(0, 0.03, steps),
        "reward_std": np.abs(rng.normal(0.4, 0.05, steps)),
        "zero_variance_frac": np.clip(0.1 + 0.9 * t + rng.normal(0, 0.03, steps), 0, 1),
        "entropy": 0.5 * np.exp(-4 * t) * np.exp(rng.normal(0, 0.05, steps)),
        "kl_ref": 0.05 * np.sqrt(t) * np.exp(rng.normal(0, 0.2, steps)),
        "grad_norm": np.abs(rng.normal(1, 0.1, steps)),
        "truncated_frac": np.full(steps, 0.01),
        "length_mean": rng.normal(200, 5, steps),
    }
    named |= {f"reward_part/{i}": rng.normal(0.5, 0.05, steps) for i in range(40 - len(named))}
    table = np.stack(list(named.values()), axis=1).tolist()
    return [dict(zip(named, row, strict=True)) for row in table]


def scrape(address: str, until: threading.Event) -> None:
    while not until.wait(SCRAPE_EVERY_S):
        with urllib.request.urlopen(address, timeout=10) as answer:
            answer.read()


def measure(data: list[dict[str, float]], *, exporter: bool, alerts: bool) -> dict[str, float]:
    """Return the time of a call of Monitor.log, ms: processor time of the training thread, and by the clock."""
    told = Alerts([Hangs()], AlertSettings(mildest="watch"))
    monitor = Monitor(RunConfig(group_size=8, kl_estimator="k3"), name="bench", watchers=[told] if alerts else [])
    over = threading.Event()
    shown = Exporter()
    if exporter:
        shown.watch(monitor)
        threading.Thread(target=scrape, args=(shown.serve(port=0), over), daemon=True).start()
    times = np.empty(len(data))
    busy = time.thread_time()
    for step, row in enumerate(data):
        begin = time.perf_counter()
        monitor.log(step, row)
        times[step] = time.perf_counter() - begin
    busy = time.thread_time() - busy
    over.set()
    shown.close()
    return {
        "busy_ms": round(1e3 * busy / len(data), 4),
        "mean_ms": round(1e3 * float(times.mean()), 4),
        "worst_ms": round(1e3 * float(times.max()), 2),
    }


def storm(data: list[dict[str, float]]) -> dict[str, float]:
    """Return the time that a transition takes in the training thread, us, and how many slots wait in the end."""
    catch = Catch()
    monitor = Monitor(RunConfig(group_size=8), name="bench", watchers=[catch])
    for step, row in enumerate(data):
        monitor.log(step, row)
    assert catch.found is not None
    kinds = (Kind.OPENED, Kind.WORSENED, Kind.EASED, Kind.CLOSED)
    seed = catch.found
    alerts = Alerts([Fails()], AlertSettings(mildest="watch"))
    begin = time.perf_counter()
    for step in range(STORM_STEPS):
        for check in CHECKS:
            alerts.on_transition(
                Transition(
                    kinds[step % 4], check.id, check.name, seed.finding, step, seed.run, seed.verdict, seed.headline,
                    seed.first_action, page_of(check.id, check.name), None, check.id,
                )
            )  # fmt: skip
    spent = time.perf_counter() - begin
    (status,) = alerts.status()
    count = STORM_STEPS * len(CHECKS)
    return {"transitions": count, "us_each": round(1e6 * spent / count, 2), "waiting": status.waiting}


def main(steps: int) -> None:
    data = rows(steps)
    out: dict[str, object] = {"steps": steps, "metrics": len(data[0])}
    for name, exporter, alerts in (
        ("monitor alone", False, False),
        ("with exporter", True, False),
        ("with alerts", False, True),
        ("with both", True, True),
    ):
        runs = [measure(data, exporter=exporter, alerts=alerts) for _ in range(REPEATS)]
        out[name] = min(runs, key=lambda r: r["busy_ms"])
        print(name, out[name], flush=True)
    out["storm"] = storm(data)
    out["peak_mb"] = round(peak_mb(), 1)
    print(out["storm"], out["peak_mb"])
    RESULTS.write_bytes(orjson.dumps(out, option=orjson.OPT_INDENT_2) + b"\n")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else STEPS)
