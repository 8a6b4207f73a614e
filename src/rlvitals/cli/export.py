"""`rlvitals export`: alert rules for Prometheus, or a dashboard for Grafana, made from the checks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rlvitals.cli.common import one_of, write_file
from rlvitals.errors import InputError, Problem

RULES, GRAFANA = "prometheus-rules", "grafana"


def export(
    what: Annotated[str, typer.Argument(metavar="prometheus-rules|grafana", help="What to write.", show_default=False)],
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write it there; without it to standard output.")
    ] = None,
    docs: Annotated[
        str, typer.Option("--docs", metavar="URL", help="Address of the documentation, for the links of the alerts.")
    ] = "",
) -> None:
    """Write Prometheus alert rules or a Grafana dashboard, made from the checks."""
    problems: list[Problem] = []
    one_of(what, (RULES, GRAFANA), "export", problems)
    if docs and not docs.startswith(("https://", "http://")):
        problems.append(Problem("not an address", "--docs", repr(docs), "one that begins with https:// or http://"))
    if docs and what == GRAFANA:
        problems.append(Problem("option without a use", "--docs", expected="rlvitals export prometheus-rules"))
    if problems:
        raise InputError(*problems)
    if what == RULES:
        from rlvitals.report.prometheus_rules import render

        text = render(docs=docs)
    else:
        from rlvitals.report import grafana

        text = grafana.render()
    if out is None:
        print(text, end="")
        return
    write_file(out, text.encode())
