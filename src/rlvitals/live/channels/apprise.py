"""Slack, Discord, e-mail, PagerDuty, webhooks and a hundred more, through apprise; one channel per address."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from rlvitals.errors import InputError, Problem
from rlvitals.live.channels import NotSent
from rlvitals.live.message import Message, Severity

TYPES = {Severity.INFO: "INFO", Severity.WARNING: "WARNING", Severity.CRITICAL: "FAILURE"}

LOGGERS = ("apprise", "urllib3.connectionpool", "urllib3.util.retry")  # at DEBUG they write whole addresses
SHORTEST = 6  # characters of a part of an address that may be a secret (convention)


class _Redactor(logging.Filter):
    """Drops records that hold a part of an address, whichever thread of whichever library writes them."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: frozenset[str] = frozenset()

    def filter(self, record: logging.LogRecord) -> bool:
        said = record.getMessage()
        if record.exc_info is not None and record.exc_info[1] is not None:
            said += str(record.exc_info[1])
        return not any(part in said for part in self.parts)


_REDACTOR = _Redactor()


def keep_quiet(address: str) -> None:
    """Keep every part of an address that may be a secret out of the logs of this process."""
    _, _, rest = address.partition("://")
    parts = {part for text in (rest, unquote(rest)) for part in re.split(r"[/:@?&=#,\s]+", text)}
    _REDACTOR.parts |= {part for part in parts if len(part) >= SHORTEST}
    for name in LOGGERS:
        logging.getLogger(name).addFilter(_REDACTOR)  # adding one filter twice is adding it once


class AppriseChannel:
    """An apprise address that an environment variable holds.

    Args:
        variable: the variable's name; its value is a secret and appears nowhere else.

    Raises:
        InputError: apprise is not installed, the variable is not set, or its value is no address of apprise.
    """

    def __init__(self, variable: str, environ: Mapping[str, str]) -> None:
        try:
            import apprise
        except ImportError as error:
            hint = "Install it: pip install 'rlvitals[alerts]'"
            raise InputError(Problem("alerts through apprise need the package apprise", variable, hint=hint)) from error
        address = environ.get(variable, "")
        if not address:
            raise InputError(Problem("environment variable not set", variable, expected="an address of apprise"))
        self.name = f"apprise ({variable})"
        keep_quiet(address)
        self._types: Any = apprise.NotifyType
        self._apprise: Any = apprise.Apprise(asset=apprise.AppriseAsset(async_mode=False, app_id="rlvitals"))
        if not self._apprise.add(address):
            expected = "an address of apprise, such as slack://... or mailto://..."
            raise InputError(Problem("the value is no address that apprise knows", variable, expected=expected))

    def prepare(self) -> None:
        """Nothing is needed of the training thread."""

    def send(self, message: Message) -> None:
        """Send through apprise. Raises NotSent.

        The service is called itself: `Apprise.notify` hands it to a pool of threads, which refuses at the exit of a
        process, when the last alert of a run that died is due.
        """
        for service in self._apprise:
            sent = service.notify(
                title=message.title,
                body=message.text,
                notify_type=getattr(self._types, TYPES[message.severity]),
                body_format="text",
            )
            if not sent:
                raise NotSent("the service did not take the message")
