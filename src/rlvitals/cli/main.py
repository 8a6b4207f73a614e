"""The `rlvitals` command. Nothing heavy is imported before a command runs: `--help` must answer at once."""

from __future__ import annotations

import signal
import sys
import traceback
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from rlvitals import __version__
from rlvitals.cli.audit import audit
from rlvitals.cli.check import check
from rlvitals.cli.common import Exit, show_problems
from rlvitals.cli.compare import compare
from rlvitals.cli.demo import demo
from rlvitals.cli.explain import explain
from rlvitals.cli.export import export
from rlvitals.cli.lab import lab
from rlvitals.cli.mcp import mcp
from rlvitals.cli.metrics import metrics
from rlvitals.cli.preflight import preflight
from rlvitals.cli.record import record
from rlvitals.cli.rollback import rollback
from rlvitals.cli.rollouts import rollouts
from rlvitals.cli.serve import serve
from rlvitals.cli.train import train
from rlvitals.cli.verify import verify
from rlvitals.errors import InputError, Problem


class Commands(TyperGroup):
    """The commands, with every InputError shown as a list of problems and exit code 2."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except InputError as error:
            show_problems(error.problems)
            raise typer.Exit(int(Exit.BAD_INPUT)) from None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name = args[0] if args else ""
        if name and name not in self.commands and (name == "-" or Path(name).exists()):
            show_problems([Problem("no command given", found=repr(name), hint=f"Try: rlvitals check {name}")])
            raise typer.Exit(int(Exit.BAD_INPUT))
        return super().resolve_command(ctx, args)


app = typer.Typer(
    cls=Commands,
    name="rlvitals",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(asked: bool) -> None:
    if asked:
        print(f"rlvitals {__version__}")
        raise typer.Exit()


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """The vital signs of GRPO and RLVR training runs: one ordered, true diagnosis from the logs you already have."""


app.command(rich_help_panel="Before training")(preflight)
app.add_typer(audit, name="audit", rich_help_panel="Before training")
app.command(rich_help_panel="Diagnose")(check)
app.command(rich_help_panel="Diagnose")(demo)
app.command(rich_help_panel="Diagnose")(serve)
app.command(rich_help_panel="After the diagnosis")(verify)
app.command(rich_help_panel="After the diagnosis")(compare)
app.command(rich_help_panel="After the diagnosis")(record)
app.command(rich_help_panel="After the diagnosis")(rollback)
app.command(rich_help_panel="After the diagnosis")(export)
app.add_typer(train, name="train", rich_help_panel="Train")
app.add_typer(lab, name="lab", rich_help_panel="Train")
app.command(rich_help_panel="Understand")(rollouts)
app.command(rich_help_panel="Understand")(explain)
app.command(rich_help_panel="Understand")(metrics)
app.command(rich_help_panel="Understand")(mcp)


def main() -> None:
    """Run the command line; a fault of rlvitals itself ends with exit code 70, never with that of a finding."""
    if hasattr(signal, "SIGPIPE"):  # a closed pipe (`| head`) ends the command quietly, not with the code of a finding
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    try:
        app(prog_name="rlvitals")
    except Exception:
        traceback.print_exc()
        print("rlvitals: this is a fault of rlvitals, not of your run; please report it.", file=sys.stderr)
        sys.exit(int(Exit.INTERNAL))
