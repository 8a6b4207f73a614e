"""In CI a test that is skipped because a tool or package is missing has failed.

Only the data that lies outside the repository may be absent (fixture `shared`). Anything else that a test needs must be
installed by `make test`, or the suite would turn green by running less of itself.
"""

from __future__ import annotations

import os
from collections.abc import Generator

import pytest

ALLOWED = "no shared data"  # start of the one reason that may skip a test in CI


def in_ci() -> bool:
    return os.environ.get("CI", "").lower() in ("1", "true", "yes")


def refused(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Return the reason of a skip that CI does not allow, "" for everything else."""
    if not in_ci() or not report.skipped or hasattr(report, "wasxfail"):
        return ""
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    reason = reason.removeprefix("Skipped: ")
    return "" if reason.startswith(ALLOWED) else reason


def _fail(report: pytest.TestReport | pytest.CollectReport) -> None:
    reason = refused(report)
    if reason:
        report.outcome = "failed"
        report.longrepr = f"skipped in CI: {reason}. Install what is missing in `make test`, or take the test out."


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    _fail(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    _fail(report)
    return report
