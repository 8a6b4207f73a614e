"""Methods that may be called inside a training loop: idle off rank 0, one thread at a time, never raising."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar, cast

from rlvitals.live.trouble import Troubles


class Guarded(Protocol):
    """What such a method's object has."""

    noted: Troubles

    @property
    def lock(self) -> AbstractContextManager[Any]: ...

    @property
    def active(self) -> bool: ...

    @property
    def closed(self) -> bool: ...

    def begin(self) -> None: ...


Method = TypeVar("Method", bound=Callable[..., Any])


def never_raises(default: object) -> Callable[[Method], Method]:
    """Make a method return `default` where it would raise or is not the speaking process's; failures are counted."""

    def wrap(method: Method) -> Method:
        @functools.wraps(method)
        def safe(self: Guarded, *args: object, **kwargs: object) -> object:
            with self.lock:
                try:
                    if not self.active:
                        if self.closed:
                            self.noted.note(
                                f"{type(self).__name__}.{method.__name__} after close: nothing is taken", ""
                            )
                        return default
                    self.begin()
                    return method(self, *args, **kwargs)
                except Exception as error:  # training is worth more than any one row
                    self.noted.note(f"{type(self).__name__}.{method.__name__} failed", error)
                    return default

        return cast("Method", safe)

    return wrap
