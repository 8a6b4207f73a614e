"""The answers of one turn handed to their environments: in order, or several at a time where those allow it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait

from rlvitals.env import Env, Step, StopReason, VerifierStatus
from rlvitals.grpo.interrupt import give_up
from rlvitals.grpo.workerpool import workers_here

LOOK_S = 0.1  # seconds between two looks whether the run was asked to stop (convention)

Judged = tuple[Step, float]
"""What an environment answered, and the seconds that it took."""


def judge(envs: Sequence[Env], texts: Sequence[str]) -> list[Judged]:
    """Return what each environment says to its text, in their order; what it raises is an error, not a wrong answer.

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
    except Exception as error:
        raw = f"{type(error).__name__}: {error}"[:300]
        step = Step(raw=raw, status=VerifierStatus.ERROR, done=True, reason=StopReason.ERROR)
    return step, time.perf_counter() - start


def _unasked() -> Judged:
    return Step(raw="not asked: the run was to stop", status=VerifierStatus.ERROR, reason=StopReason.ERROR), 0.0
