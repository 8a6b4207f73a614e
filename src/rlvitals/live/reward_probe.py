"""`reward_probe(fn)`: record what a reward function returned, raised and took, without changing what training sees.

    reward = rlvitals.reward_probe(reward)      # or as a decorator

One line of JSON per call goes to `.rlvitals/rewards/<name>-<host>-<pid>.jsonl`, in one write, so that a kill loses the
line in flight and no other. `rlvitals audit compact` turns the lines into one row per trajectory.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import os
import re
import socket
import sys
import threading
import time
import warnings
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

import orjson

F = TypeVar("F", bound=Callable[..., Any])

FOLDER = Path(".rlvitals") / "rewards"
MAX_FILE_BYTES = 4 << 30  # recording stops there, training goes on
MAX_RAW = 2_000  # characters kept of one raw output
TAIL = 120  # characters kept of a completion's end: where the answer stands
MAX_BATCH = 4_096  # trajectories of one call that are recorded
_TIERS = ("tier", "level", "difficulty")
_FAMILIES = ("family", "data_source", "task", "source", "env_name")
_IDS = ("prompt_id", "example_id", "task_id", "id", "uid", "index")
_STEPS = ("step", "global_step")
_VERSIONS = ("env_version", "policy_version", "sampler_version")
_TEXTS = ("completions", "completion", "solution_str", "response", "text", "output")
_PLAIN = (str, int, float, bool, type(None))


class _Sink:
    """A file of one process; opened on first use and again after a fork, and never a reason to fail."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.name = folder, name
        self._pid = 0
        self._fd = -1
        self._bytes = 0
        self._torn = False
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {"folder": self.folder, "name": self.name}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__init__(state["folder"], state["name"])  # type: ignore[misc]

    def write(self, line: bytes) -> None:
        """Append one line. Raises OSError; the caller drops the line then."""
        if self._pid != os.getpid():
            self._open()
        if self._fd < 0 or self._bytes + len(line) > MAX_FILE_BYTES:
            return
        with self._lock:
            whole = b"\n" + line if self._torn else line  # after a half-written line begin a new one
            written = os.write(self._fd, whole)
            self._torn = written != len(whole)
            self._bytes += written

    def _open(self) -> None:
        self._lock = threading.Lock()  # a fork may have copied it locked
        self._pid = os.getpid()
        self.folder.mkdir(parents=True, exist_ok=True)
        host = re.sub(r"[^A-Za-z0-9.-]", "-", socket.gethostname())[:60]
        path = self.folder / f"{self.name}-{host}-{self._pid}.jsonl"
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o644)
        self._bytes = os.fstat(self._fd).st_size
        self._torn = self._bytes > 0  # of an earlier process with this number: it may have been killed


class _Recorder:
    """Turns one call into one line."""

    def __init__(self, fn: Callable[..., Any], folder: Path, version: str) -> None:
        name = getattr(fn, "__name__", type(fn).__name__)
        self.version = version or _version_of(fn)
        self.sink = _Sink(folder, re.sub(r"[^A-Za-z0-9_.-]", "-", name)[:60] or "reward")
        self.name = name
        self.names = _names_of(fn)
        self.dropped = 0

    def record(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], out: Any, error: str, began: float) -> None:
        """Write the line of one call; whatever goes wrong here is swallowed, said once, and counted."""
        seconds = time.perf_counter() - began
        try:
            self.sink.write(orjson.dumps(self.line(args, kwargs, out, error, seconds), default=_short) + b"\n")
        except Exception as fault:
            self.dropped += 1
            if self.dropped == 1:
                print(f"rlvitals.reward_probe: a record of {self.name} was dropped: {fault!r}", file=sys.stderr)

    def line(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any], out: Any, error: str, seconds: float
    ) -> dict[str, Any]:
        """Return what is kept of one call; of a batched one `raw`, `tail` and the columns are lists."""
        kwargs = {**dict(zip(self.names, args, strict=False)), **kwargs}
        texts = _first(kwargs, _TEXTS)
        if texts is None and args:
            texts = args[0]
        batched = isinstance(texts, list | tuple) and not _is_chat(texts)
        row: dict[str, Any] = {"t": time.time(), "f": self.name, "v": self.version, "s": seconds}
        if error:
            row["e"] = error
        if batched:
            row["n"] = len(texts)
            texts = texts[:MAX_BATCH]
            row["raw"] = [_plain(r) for r in out[:MAX_BATCH]] if isinstance(out, list | tuple) else _plain(out)
            row["tail"] = [_tail(x) for x in texts]
        else:
            row["raw"] = _plain(out)
            row["tail"] = _tail(texts)
        for short, names in (("tier", _TIERS), ("family", _FAMILIES), ("id", _IDS), ("step", _STEPS)):
            found = _column(kwargs, names)
            if found is not None:
                row[short] = found
        if "step" not in row and "trainer_state" in kwargs:  # TRL hands its state on
            row["step"] = getattr(kwargs["trainer_state"], "global_step", None)
        for name in _VERSIONS:
            if name in kwargs:
                row[name] = _column(kwargs, (name,))
        return row


def reward_probe(fn: F, *, to: str | Path | None = None, version: str = "") -> F:
    """Return the reward function with a recorder around it: same name, signature, result and exceptions.

    Args:
        fn: a function, coroutine function or callable object, of one completion or of a batch.
        to: folder of the records; the RLVITALS_REWARDS environment variable or `.rlvitals/rewards` when None.
        version: identity of the reward; a hash of its source when "".

    A reward model (a torch module) is returned as it is, with a warning. Raises TypeError for what can't be called.
    """
    if not callable(fn):
        raise TypeError(f"reward_probe takes a function, found a {type(fn).__name__}")
    if any(c.__module__.startswith("torch.nn") for c in type(fn).__mro__):
        warnings.warn("reward_probe records functions; a torch module is returned as it is", stacklevel=2)
        return fn
    recorder = _Recorder(fn, Path(to or os.environ.get("RLVITALS_REWARDS") or FOLDER), version)
    asynchronous = inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(getattr(fn, "__call__", None))  # noqa: B004
    probe = _async_probe(fn, recorder) if asynchronous else _probe(fn, recorder)
    functools.update_wrapper(probe, fn)
    if not hasattr(fn, "__name__"):
        probe.__name__ = type(fn).__name__  # TRL names its metrics by it
    return cast(F, probe)


def _probe(fn: Callable[..., Any], recorder: _Recorder) -> Callable[..., Any]:
    def probe(*args: Any, **kwargs: Any) -> Any:
        began = time.perf_counter()
        try:
            out = fn(*args, **kwargs)
        except BaseException as error:
            recorder.record(args, kwargs, None, f"{type(error).__name__}: {error}"[:MAX_RAW], began)
            raise
        if inspect.isawaitable(out):
            return _awaited(out, recorder, args, kwargs, began)
        recorder.record(args, kwargs, out, "", began)
        return out

    return probe


def _async_probe(fn: Callable[..., Any], recorder: _Recorder) -> Callable[..., Any]:
    async def probe(*args: Any, **kwargs: Any) -> Any:
        return await _awaited(fn(*args, **kwargs), recorder, args, kwargs, time.perf_counter())

    return probe


async def _awaited(
    out: Awaitable[Any], recorder: _Recorder, args: tuple[Any, ...], kwargs: Mapping[str, Any], began: float
) -> Any:
    try:
        value = await out
    except BaseException as error:
        recorder.record(args, kwargs, None, f"{type(error).__name__}: {error}"[:MAX_RAW], began)
        raise
    recorder.record(args, kwargs, value, "", began)
    return value


def _version_of(fn: Callable[..., Any]) -> str:
    """Return a hash of the source of a function, "" where there is none."""
    try:
        return hashlib.sha256(inspect.getsource(inspect.unwrap(fn)).encode()).hexdigest()[:12]
    except (OSError, TypeError):
        return ""


def _names_of(fn: Callable[..., Any]) -> tuple[str, ...]:
    """Return the names of the parameters that may be given by place."""
    try:
        found = inspect.signature(fn).parameters.values()
    except (TypeError, ValueError):
        return ()
    return tuple(p.name for p in found if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD))


def _first(kwargs: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    for name in names:
        if name in kwargs:
            return kwargs[name]
    return None


def _column(kwargs: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    """Return a column given by name, or by name in verl's extra_info or verifiers' info."""
    found = _first(kwargs, names)
    if found is None:
        inner = kwargs.get("extra_info", kwargs.get("info"))
        found = _first(inner, names) if isinstance(inner, dict) else None
    if isinstance(found, list | tuple):
        return [x if isinstance(x, _PLAIN) else str(x)[:TAIL] for x in found[:MAX_BATCH]]
    return found if isinstance(found, _PLAIN) else str(found)[:TAIL]


def _is_chat(value: list[Any] | tuple[Any, ...]) -> bool:
    return bool(value) and isinstance(value[0], dict)


def _tail(value: Any) -> str:
    """Return the end of a completion, of a conversation the end of its last message."""
    if isinstance(value, list | tuple) and value:
        value = value[-1]
    if isinstance(value, dict):
        value = value.get("content")
    return (value if isinstance(value, str) else str(value)[:MAX_RAW])[-TAIL:]


def _plain(value: Any) -> Any:
    """Return a raw output as JSON types: numbers and short text as they are, the rest as bounded text."""
    kind = type(value)
    if kind is float:
        return value if -1e308 < value < 1e308 else repr(value)  # NaN and infinities as text: JSON has none
    if value is None or kind is bool or (kind is int and -(2**53) < value < 2**53):
        return value
    if kind is str:
        return value[:MAX_RAW]
    if kind is dict and len(value) <= 32:
        return {str(k)[:TAIL]: _plain(v) for k, v in value.items()}
    return _short(value)


def _short(value: Any) -> Any:
    item = getattr(value, "item", None)
    if callable(item) and getattr(value, "size", 0) == 1:  # a number of numpy
        return _plain(item())
    return repr(value)[:MAX_RAW]
