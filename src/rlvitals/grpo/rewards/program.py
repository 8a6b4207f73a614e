"""Run one program with its tests in a confined process. It contains accidents and is no security boundary."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass

from rlvitals.env import VerifierStatus

SAID_CHARS = 300  # of the program's error output kept
WRONG, SETUP_FAILED = 41, 42  # exit status of the process: program or tests raised; the limits could not be set

# what the process does before it runs anything: limits, then no network where a namespace of its own is to be had
CONFINE = """
import resource, sys
seconds, memory, wanted = int(sys.argv[1]), int(sys.argv[2]) * 2**20, sys.argv[3] == "1"
try:
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, 2**20))
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
except (ValueError, OSError):
    sys.exit(42)
if wanted:
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    NEW_USER, NEW_NET = 0x10000000, 0x40000000
    unshare = getattr(libc, "unshare", lambda flags: -1)
    if unshare(NEW_NET) and unshare(NEW_USER | NEW_NET):
        sys.stderr.write("network: not cut off\\n")
    del ctypes, libc, unshare
try:
    resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
except (ValueError, OSError):
    pass
source = sys.stdin.read()
sys.argv[:] = ["program"]
names = {"__name__": "__main__"}
try:
    program, tests = source.split("\\x00", 1)
    exec(compile(program, "program", "exec"), names)
    exec(compile(tests, "tests", "exec"), names)
except BaseException as e:
    sys.stderr.write(f"{type(e).__name__}: {e}"[:300])
    sys.stderr.flush()
    import os
    os._exit(41)
print("\\x00passed " + TOKEN, flush=True)
"""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one run; no_network asks for a network namespace of its own, which some systems refuse."""

    seconds: float = 5.0
    memory_mb: int = 512
    no_network: bool = True


def run_program(program: str, tests: str, limits: Limits) -> tuple[VerifierStatus, str]:
    """Return right when the tests pass, wrong when program or tests raise, die or run out of time, and what was said.

    Running out of time or memory is the program's own doing, so it is wrong, not an error; an error is that the process
    could not be set up.
    """
    token = os.urandom(16).hex()  # so that printing "passed" or leaving early passes nothing
    code = f"TOKEN = {token!r}\n" + CONFINE
    if "\x00" in program:
        return VerifierStatus.WRONG, "the program has a null character"
    source = f"{program}\x00{tests}".encode("utf-8", "replace")
    args = [str(max(1, round(limits.seconds))), str(limits.memory_mb), "1" if limits.no_network else "0"]
    with tempfile.TemporaryDirectory(prefix="rlvitals-code-") as folder:
        try:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-B", "-c", code, *args],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                cwd=folder, env={}, start_new_session=True,
            )  # fmt: skip
        except OSError as e:
            return VerifierStatus.ERROR, f"{type(e).__name__}: {e}"[:SAID_CHARS]
        with process:
            try:
                out, err = process.communicate(source, timeout=limits.seconds + 1.0)
            except subprocess.TimeoutExpired:
                _end(process)
                return VerifierStatus.WRONG, f"no end within {limits.seconds:g} s"
            _end(process)
    said = err.decode("utf-8", "replace")[-SAID_CHARS:]
    if process.returncode == SETUP_FAILED:
        return VerifierStatus.ERROR, said or "the limits could not be set"
    if process.returncode == 0 and out.rstrip().endswith(f"\x00passed {token}".encode()):
        return VerifierStatus.RIGHT, said
    if process.returncode < 0:
        return VerifierStatus.WRONG, f"died of signal {-process.returncode}"
    return VerifierStatus.WRONG, said or f"ended with status {process.returncode}"


def _end(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)  # what it left running too
    except (ProcessLookupError, PermissionError):
        process.kill()
