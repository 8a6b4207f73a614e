"""The Hugging Face hub, asked once whether it answers: without it its libraries try every file six times."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

SECONDS = 5.0  # to wait for the hub's first answer (convention: half the hub library's own limit)
_LOGGERS = ("huggingface_hub", "datasets", "transformers")


def unreachable() -> str:
    """Return why the hub does not answer, "" where it does; any answer counts, a refusal too."""
    import huggingface_hub
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        return "HF_HUB_OFFLINE is set"
    try:
        huggingface_hub.get_session().head(constants.ENDPOINT, timeout=SECONDS)
    except Exception as error:  # of whichever http library it has; none is this program's fault
        return f"{constants.ENDPOINT} does not answer: {str(error) or type(error).__name__}"[:200]
    return ""


@contextmanager
def asked() -> Iterator[str]:
    """Give why the hub cannot be reached, "" where it can; without it its libraries look into their caches alone.

    What they would log of it is left out: the caller says it once.
    """
    why = unreachable()
    if not why:
        yield why
        return
    kept = [(holder, name, getattr(holder, name)) for holder, name in _switches()]
    levels = [(logger, logger.level) for logger in map(logging.getLogger, _LOGGERS)]
    try:
        for holder, name, _ in kept:
            setattr(holder, name, True)
        for logger, _ in levels:
            logger.setLevel(logging.CRITICAL)
        yield why
    finally:
        for holder, name, value in kept:
            setattr(holder, name, value)
        for logger, level in levels:
            logger.setLevel(level)


def _switches() -> list[tuple[Any, str]]:
    """Return where the libraries keep that they are offline; the environment is read only when they are imported."""
    import importlib.util

    from huggingface_hub import constants

    found: list[tuple[Any, str]] = [(constants, "HF_HUB_OFFLINE")]
    if importlib.util.find_spec("datasets") is not None:
        import datasets

        found.append((datasets.config, "HF_HUB_OFFLINE"))
    return found
