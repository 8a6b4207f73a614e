"""Run a `module:function` in a process of its own, with limits on time and memory.

For verifiers and reward functions that may hang, crash or eat memory: the caller always gets an `Answer`. The process
stays alive between calls and is started again after a timeout or a crash. Arguments and values travel as JSON, never
as pickle, so that nothing the function returns can run code here. This contains accidents; it is no security boundary.

Needs a POSIX system.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import json
import math
import os
import selectors
import signal
import struct
import subprocess
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any

from rlvitals.errors import InputError, Problem

START_SECONDS = 120.0  # time to import the target; convention, large libraries take tens of seconds on a busy machine
MAX_FRAME_BYTES = 64 * 2**20  # one call's arguments or value
WINDOW_BYTES = 32 * 1024  # requests under way; below the 64 KiB of a pipe, so that neither side can block the other
ERROR_CHARS = 2_000  # error text kept
BOOT = "import json,sys; sys.path[:]=json.loads(sys.argv[1]); from rlvitals.worker import serve; serve()"

Call = tuple[Sequence[object], Mapping[str, object]]


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of one call.

    Attributes:
        value: what the function returned, as JSON types; None unless it returned.
        error: "" when it returned, else the exception with its message, or how the process ended.
        timed_out: it was stopped because its time was up; `error` says so too.
        seconds: time the call took.
    """

    value: Any = None
    error: str = ""
    timed_out: bool = False
    seconds: float = math.nan

    @property
    def ok(self) -> bool:
        return not self.error


class Worker:
    """A process that calls one function.

    Args:
        target: "package.module:function" or "path/to/file.py:function"; dots reach into classes. Modules are found as
            here, and in the current folder. Async functions are awaited.
        seconds: limit of one call; the process is killed when it is over.
        memory_mb: memory a call may take beyond what importing the target took; MemoryError in the function past that.

    InputError at the first call when the target can't be imported. Use it as a context manager or `close` it.
    """

    def __init__(self, target: str, seconds: float = 5.0, memory_mb: int = 1024) -> None:
        self.target, self.seconds, self.memory_mb = target, seconds, memory_mb
        self.restarts = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._finalizer: weakref.finalize[[subprocess.Popen[bytes]], Worker] | None = None
        _pipe_errors_raise()  # here too: the first call may come from another thread, which must not set signals

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def call(self, *args: object, **kwargs: object) -> Answer:
        """Call the function once."""
        return self.call_many([(args, kwargs)])[0]

    def call_many(self, calls: Sequence[Call]) -> list[Answer]:
        """Call the function for each (args, kwargs), in order, without waiting for one answer before sending the next.

        Each call has the full time limit. A call that hangs or kills the process costs only its own answer.
        """
        with self._lock:
            answers: list[Answer] = []
            frames: deque[bytes | Answer] = deque(_request(args, kwargs, self.seconds) for args, kwargs in calls)
            while frames:
                answers += self._stretch(frames)
            return answers

    def start(self) -> None:
        """Start the process and import the target now. InputError when that fails."""
        with self._lock:
            self._running()

    def close(self) -> None:
        """End the process; a later call starts a new one."""
        with self._lock:
            self._stop()

    def _stretch(self, frames: deque[bytes | Answer]) -> list[Answer]:
        """Take frames off the left until all are answered or the process had to be stopped."""
        first = frames[0]
        if isinstance(first, Answer):  # could not even be sent
            frames.popleft()
            return [first]
        process = self._running()
        answers: list[Answer] = []
        sent = under_way = 0
        while sent < len(frames) or under_way:
            while sent < len(frames) and (under_way == 0 or under_way < WINDOW_BYTES):
                frame = frames[sent]
                if isinstance(frame, Answer) or (under_way and under_way + len(frame) > WINDOW_BYTES):
                    break
                with contextlib.suppress(BrokenPipeError):
                    _write(process, frame)
                under_way += len(frame)
                sent += 1
            if not under_way:
                break  # next is a frame that can't be sent
            done = frames.popleft()
            assert isinstance(done, bytes)
            sent -= 1
            under_way -= len(done)
            answer, alive = self._await(process)
            answers.append(answer)
            if not alive:
                self.restarts += 1
                break
        return answers

    def _await(self, process: subprocess.Popen[bytes]) -> tuple[Answer, bool]:
        """Return the next answer and whether the process can go on."""
        began = time.monotonic()
        try:
            frame = _read(process, self.seconds)
        except TimeoutError:
            self._stop()
            text = f"no answer within {self.seconds:g} s; the process was stopped"
            return Answer(error=text, timed_out=True, seconds=time.monotonic() - began), False
        except EOFError:
            how = _ending(process)
            self._stop()
            return Answer(error=how, seconds=time.monotonic() - began), False
        return Answer(value=frame.get("value"), error=frame.get("error", ""), seconds=frame["seconds"]), True

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._process.poll() is None:
            return self._process
        self._stop()
        _pipe_errors_raise()
        process = subprocess.Popen(
            [sys.executable, "-c", BOOT, json.dumps([*sys.path, os.getcwd()])],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            start_new_session=True, env={"OMP_NUM_THREADS": "1", **os.environ},
        )  # fmt: skip
        self._process = process
        self._finalizer = weakref.finalize(self, _kill, process)
        start = {"target": self.target, "memory_mb": self.memory_mb}
        try:
            _write(process, json.dumps(start).encode())
            error = _read(process, START_SECONDS).get("error", "")
        except TimeoutError:
            error = f"importing it took more than {START_SECONDS:g} s"
        except (EOFError, BrokenPipeError):
            error = _ending(process)
        if error:
            self._stop()
            hint = "Name it as package.module:function or path/to/file.py:function"
            raise InputError(Problem("the function can't be loaded", self.target, error, hint=hint))
        return process

    def _stop(self) -> None:
        if self._finalizer is not None:
            self._finalizer()  # kills once
        self._process = self._finalizer = None


def _kill(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)  # its children too
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=5.0)


def _ending(process: subprocess.Popen[bytes]) -> str:
    try:
        code = process.wait(timeout=1.0)
    except subprocess.TimeoutExpired:
        return "the process closed its output"
    if code < 0:
        with contextlib.suppress(ValueError):
            return f"the process died of {signal.Signals(-code).name}"
    return f"the process ended with status {code}"


def _request(args: Sequence[object], kwargs: Mapping[str, object], seconds: float) -> bytes | Answer:
    try:
        frame = json.dumps({"args": list(args), "kwargs": dict(kwargs), "seconds": seconds}).encode()
    except (TypeError, ValueError, RecursionError) as e:
        return Answer(error=f"arguments can't be handed on as JSON: {e}"[:ERROR_CHARS], seconds=0.0)
    if len(frame) > MAX_FRAME_BYTES:
        return Answer(error=f"arguments of {len(frame)} bytes; at most {MAX_FRAME_BYTES}", seconds=0.0)
    return frame


def _pipe_errors_raise() -> None:
    """Let a write to a dead worker raise: a command line may have made a broken pipe end the process instead."""
    here = threading.current_thread() is threading.main_thread()
    if here and hasattr(signal, "SIGPIPE") and signal.getsignal(signal.SIGPIPE) is signal.SIG_DFL:
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)


def _write(process: subprocess.Popen[bytes], frame: bytes) -> None:
    assert process.stdin is not None
    process.stdin.write(struct.pack("<I", len(frame)) + frame)
    process.stdin.flush()


def _read(process: subprocess.Popen[bytes], seconds: float) -> dict[str, Any]:
    """Return the next frame. TimeoutError when it does not come in time, EOFError when the process is gone."""
    assert process.stdout is not None
    until = time.monotonic() + seconds
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)

        def take(count: int) -> bytes:
            data = bytearray()
            while len(data) < count:
                if not selector.select(max(0.0, until - time.monotonic())):
                    raise TimeoutError
                assert process.stdout is not None
                piece = os.read(process.stdout.fileno(), count - len(data))
                if not piece:
                    raise EOFError
                data += piece
            return bytes(data)

        size = struct.unpack("<I", take(4))[0]
        if size > MAX_FRAME_BYTES:
            raise EOFError
        try:
            frame = json.loads(take(size))
        except (ValueError, RecursionError):
            raise EOFError from None
    if not isinstance(frame, dict):
        raise EOFError
    return frame


# --- the other side: what runs in the process ---


def resolve(target: str) -> Callable[..., Any]:
    """Return the function that "module:function" or "file.py:function" names. Raises what importing it raises."""
    place, colon, name = target.rpartition(":")
    if not (place and colon and name):
        raise ValueError(f"{target!r} is not of the form module:function")
    if place.endswith(".py"):
        spec = importlib.util.spec_from_file_location("rlvitals_worker_target", place)
        if spec is None or spec.loader is None or not os.path.isfile(place):
            raise FileNotFoundError(place)
        module = importlib.util.module_from_spec(spec)
        sys.modules["rlvitals_worker_target"] = module
        spec.loader.exec_module(module)
    else:
        module = importlib.import_module(place)
    found: Any = module
    for piece in name.split("."):
        found = getattr(found, piece)
    if not callable(found):
        raise TypeError(f"{target} is no function")
    return found  # type: ignore[no-any-return]


def serve() -> None:
    """Answer calls until the input closes; the only thing a worker process does."""
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    quiet = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1):  # what the function prints goes nowhere
        os.dup2(quiet, fd)
    start = _next(requests)
    if start is None:
        return
    try:
        function = resolve(str(start["target"]))
    except BaseException as e:
        _answer(answers, {"error": _said(e), "seconds": 0.0})
        return
    _limit_memory(int(start["memory_mb"]))
    _answer(answers, {"seconds": 0.0})
    while (request := _next(requests)) is not None:
        _limit_cpu(float(request["seconds"]))
        _answer(answers, _called(function, request["args"], request["kwargs"]))


def _called(function: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    began = time.perf_counter()
    try:
        value = function(*args, **kwargs)
        if hasattr(value, "__await__"):
            import asyncio

            async def wait() -> Any:
                return await value

            value = asyncio.run(wait())
        json.dumps(value, default=_plain)
    except BaseException as e:  # SystemExit too: the caller decides what a failing verifier means
        return {"error": _said(e), "seconds": time.perf_counter() - began}
    return {"value": value, "seconds": time.perf_counter() - began}


def _plain(value: Any) -> Any:
    """Return numbers and arrays of numpy and torch as JSON types."""
    for name in ("tolist", "item"):
        if callable(found := getattr(value, name, None)):
            return found()
    if isinstance(value, set | frozenset):
        return sorted(value, key=repr)
    raise TypeError(f"a value of type {type(value).__name__} can't be handed back; return numbers, text, lists, dicts")


def _said(error: BaseException) -> str:
    try:
        text = f"{type(error).__name__}: {error}"
    except Exception:
        text = type(error).__name__
    return text[:ERROR_CHARS].rstrip(": ")


def _next(requests: IO[bytes]) -> dict[str, Any] | None:
    head = requests.read(4)
    if len(head) < 4:
        return None
    frame: dict[str, Any] = json.loads(requests.read(struct.unpack("<I", head)[0]))
    return frame


def _answer(answers: IO[bytes], frame: dict[str, Any]) -> None:
    data = json.dumps(frame, default=_plain).encode()
    if len(data) > MAX_FRAME_BYTES:
        data = json.dumps(
            {"error": f"a value of {len(data)} bytes; at most {MAX_FRAME_BYTES}", "seconds": 0.0}
        ).encode()
    answers.write(struct.pack("<I", len(data)) + data)
    answers.flush()


def _limit_memory(megabytes: int) -> None:
    """Cap the address space at what is mapped now plus the allowance; where the system can't tell, set no cap."""
    try:
        import resource

        with open("/proc/self/statm", encoding="ascii") as file:
            pages = int(file.read().split()[0])
        cap = pages * resource.getpagesize() + megabytes * 2**20
        resource.setrlimit(resource.RLIMIT_AS, (cap, cap))
    except (ImportError, OSError, ValueError):
        return


def _limit_cpu(seconds: float) -> None:
    """Cap CPU time, so that a call that hangs ends even when the process that would kill it is gone."""
    try:
        import resource

        used = resource.getrusage(resource.RUSAGE_SELF)
        cap = math.ceil(used.ru_utime + used.ru_stime + seconds) + 2
        resource.setrlimit(resource.RLIMIT_CPU, (cap, resource.getrlimit(resource.RLIMIT_CPU)[1]))
    except (ImportError, OSError, ValueError):
        return
