"""The CI rule about skipped tests, on a small suite of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SUITE = """
import pytest

def test_passes():
    pass

@pytest.mark.skipif(True, reason="no shared data: set RLVITALS_SHARED")
def test_without_shared():
    pass

def test_without_tool():
    pytest.skip("chromium is missing")

@pytest.mark.xfail(reason="known")
def test_known():
    assert False
"""
MODULE = 'import pytest\npytest.importorskip("no_such_package_of_ours")\n\ndef test_never_seen():\n    pass\n'


def outcome(folder: Path, ci: str) -> tuple[int, str]:
    (folder / "test_suite.py").write_text(SUITE)
    (folder / "test_module.py").write_text(MODULE)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.ci_plugin", "-p", "no:cacheprovider"]
    command += ["--continue-on-collection-errors", "--rootdir"]
    env = {**os.environ, "CI": ci, "PYTHONPATH": str(ROOT)}
    command += [str(folder), str(folder)]
    done = subprocess.run(command, check=False, env=env, capture_output=True, text=True, cwd=folder)
    return done.returncode, done.stdout


def test_skip_for_a_missing_tool_fails_in_ci_alone(tmp_path: Path) -> None:
    code, text = outcome(tmp_path, "")
    assert (code, "1 passed, 3 skipped, 1 xfailed" in text) == (0, True), text
    code, text = outcome(tmp_path, "true")
    assert code != 0
    assert "skipped in CI: chromium is missing" in text
    assert "skipped in CI: could not import 'no_such_package_of_ours'" in text
    assert "no shared data" not in text


@pytest.mark.parametrize("value", ["", "0", "false"])
def test_only_a_true_value_of_ci_counts(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.ci_plugin import in_ci

    monkeypatch.setenv("CI", value)
    assert not in_ci()
