"""`rlvitals explain`: what a check, a metric, a setting or any trainer's key means, and whether a value is normal."""

from __future__ import annotations

from typing import Annotated

import typer


def explain(
    topic: Annotated[
        str | None,
        typer.Argument(
            metavar="[CHECK|METRIC|KEY|SETTING]",
            help="A check (S001 or its name), a metric, a key or setting of any trainer, or false-alarms.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Explain a check, a metric, or any trainer's key: what it means, what is normal, what to do.

    Without an argument: the list of checks and metrics.
    """
    from rlvitals.cli.show import show
    from rlvitals.reference.topics import pages

    for content in pages(topic):
        show(content)
