"""Fixtures that several tests share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.ci_plugin import pytest_make_collect_report, pytest_runtest_makereport  # noqa: F401


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real logs and format samples; tests that need it are skipped where it is absent."""
    folder = Path(os.environ.get("RLVITALS_SHARED", Path(__file__).parents[2] / "shared"))
    if not folder.is_dir():
        pytest.skip("no shared data: set RLVITALS_SHARED")
    return folder
