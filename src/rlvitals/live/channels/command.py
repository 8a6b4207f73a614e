"""A command of the user's: it gets each message as JSON on standard input. No shell is involved."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Mapping

from rlvitals.errors import InputError, Problem
from rlvitals.live.channels import NotSent
from rlvitals.live.message import Message

TIMEOUT_S = 30.0  # s; then the command and what it started are killed (convention)


class CommandChannel:
    """A command line that an environment variable holds.

    It stands in the environment, not in rlvitals.toml, so that a settings file that came with a downloaded run can
    start nothing.

    Raises:
        InputError: the variable is not set, cannot be split into words, or names no program.
    """

    def __init__(self, variable: str, environ: Mapping[str, str], timeout_s: float = TIMEOUT_S) -> None:
        self.name = f"command ({variable})"
        self._timeout_s = timeout_s
        line = environ.get(variable, "")
        if not line.strip():
            raise InputError(Problem("environment variable not set", variable, expected="a command line"))
        try:
            self._words = shlex.split(line)
        except ValueError as error:
            raise InputError(Problem("not a command line", variable, str(error))) from error
        if shutil.which(self._words[0]) is None:
            raise InputError(Problem("no such program", variable, expected="a program of PATH, or its full path"))

    def prepare(self) -> None:
        """Nothing is needed of the training thread."""

    def send(self, message: Message) -> None:
        """Run the command. Raises NotSent when it cannot start, takes too long or ends with another code than 0."""
        try:
            process = subprocess.Popen(
                self._words,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            raise NotSent(f"the command cannot start: {error.strerror}") from error
        try:
            process.communicate(json.dumps(message.as_dict()).encode(), timeout=self._timeout_s)
        except subprocess.TimeoutExpired as error:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise NotSent(f"the command took longer than {self._timeout_s:g} s") from error
        if process.returncode:
            raise NotSent(f"the command ended with code {process.returncode}")
