"""`rlvitals audit`: is the reward what you think it is? Hand scores, a probed verifier, replays, leakage."""

from __future__ import annotations

import typer

from rlvitals.cli.audit_compact import compact
from rlvitals.cli.audit_leakage import leakage
from rlvitals.cli.audit_probe import probe
from rlvitals.cli.audit_replay import replay
from rlvitals.cli.audit_score import score

audit = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Is the reward what you think it is? Each audit writes a record that check reads.",
)
audit.command()(score)
audit.command()(probe)
audit.command()(replay)
audit.command()(leakage)
audit.command()(compact)
