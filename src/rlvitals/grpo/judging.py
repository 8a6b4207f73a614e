"""The answers of one turn handed to their environments: in order, or several at a time where those allow it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait

from rlvitals.env import Env, Item, Message, Step, StopReason, VerifierStatus, fault_of, messages_fault
from rlvitals.grpo.interrupt import give_up
from rlvitals.grpo.workerpool import workers_here

LOOK_S = 0.1  # seconds between two looks whether the run was asked to stop (convention)
SAID_CHARS = 300  # of what an environment did wrong that are kept (convention)

Judged = tuple[Step, float]
"""What an environment answered, and the seconds that it took."""


class Failed:
    """In the place of an environment that could not start: whatever is said to it, its verdict is an error."""

    version = "failed"
    concurrent = True

    def __init__(self, why: str) -> None:
        self._why = why

    def reset(self, item: Item, seed: int) -> tuple[Message, ...]:
        return item.messages or (Message("user", item.id),)

    def step(self, text: str) -> Step:
        return failed(self._why)


def started(new_env: Callable[[], Env], item: Item, seed: int) -> tuple[Env, tuple[Message, ...]]:
    """Return an environment that plays an item, and its first messages; one that `Failed` where that went wrong."""
    try:
        env = new_env()
        messages = tuple(env.reset(item, seed))
        wrong = messages_fault(messages) or ("" if messages else "reset returned no messages")
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        wrong = f"reset: {_said(error)}"
    if not wrong:
        return env, messages
    instead = Failed(wrong)
    return instead, instead.reset(item, seed)


def failed(why: str) -> Step:
    """Return the answer of an environment that gave none: an error, with why."""
    raw = why[:SAID_CHARS].encode(errors="backslashreplace").decode()  # it may quote what no file can hold
    return Step(raw=raw, status=VerifierStatus.ERROR, done=True, reason=StopReason.ERROR)


def judge(envs: Sequence[Env], texts: Sequence[str]) -> list[Judged]:
    """Return what each environment says to its text, in their order; what it raises is an error, not a wrong answer.

    So is an answer that is no whole `Step` (`env.fault_of`).

    Environments with `concurrent = True` share nothing but what may be used by several threads: the answers do not
    depend on who is asked first, and a few are asked at a time. Others are asked one after the other. When the run was
    asked to stop, no more are asked (`interrupt.give_up`) and the rest counts as errors.
    """
    if len(envs) > 1 and all(getattr(e, "concurrent", False) for e in envs):
        return _together(envs, texts)
    return [_unasked() if give_up() else _ask(env, text) for env, text in zip(envs, texts, strict=True)]


def _together(envs: Sequence[Env], texts: Sequence[str]) -> list[Judged]:
    with ThreadPoolExecutor(workers_here()) as pool:
        asked: list[Future[Judged]] = [pool.submit(_ask, e, t) for e, t in zip(envs, texts, strict=True)]
        try:
            left = set(asked)
            while left:
                left = wait(left, timeout=LOOK_S).not_done
                if left and give_up():
                    break
        finally:
            for each in asked:  # those under way end within their time limit; after an error too
                each.cancel()
    return [_unasked() if each.cancelled() else each.result() for each in asked]


def _ask(env: Env, text: str) -> Judged:
    start = time.perf_counter()
    try:
        step = env.step(text)
        wrong = fault_of(step)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit too: it ends the environment, not the run
        wrong = _said(error)
    return failed(wrong) if wrong else step, time.perf_counter() - start


def _said(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:
        return type(error).__name__


def _unasked() -> Judged:
    return Step(raw="not asked: the run was to stop", status=VerifierStatus.ERROR, reason=StopReason.ERROR), 0.0
