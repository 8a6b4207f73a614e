"""`rlvitals audit score`: hand scores without the reward in sight, then compared one by one."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rlvitals.cli.audit_common import Format, Map, RunDir, finish, options, read_rollouts, record_folder, say
from rlvitals.cli.common import Exit, leave
from rlvitals.errors import InputError, Problem

if TYPE_CHECKING:
    from rlvitals.audit.score import Said, Session

Rollouts = Annotated[
    Path, typer.Argument(metavar="ROLLOUTS", help="A trainer's rollout dump, or a JSONL, CSV or parquet file.")
]
Count = Annotated[
    int,
    typer.Option("--n", metavar="N", min=1, help="Trajectories to score, spread over family, reward and stop reason."),
]
Seed = Annotated[int, typer.Option("--seed", metavar="N", help="Of the draw.")]
SolvedAt = Annotated[
    float | None,
    typer.Option(
        "--solved-at",
        metavar="REWARD",
        help="Reward from which the pipeline counts a trajectory as right; without it the highest seen.",
    ),
]
Web = Annotated[bool, typer.Option("--web", help="Score in the browser, on this machine alone.")]
Restart = Annotated[bool, typer.Option("--restart", help="Forget the answers so far.")]


def score(
    rollouts: Rollouts,
    n: Count = 20,
    seed: Seed = 0,
    solved_at: SolvedAt = None,
    web: Web = False,
    restart: Restart = False,
    map_: Map = None,
    run: RunDir = None,
    format: Format = "terminal",
) -> None:
    """Score trajectories by hand without seeing the reward, then compare one by one.

    Stop whenever you like; the same command goes on where you stopped.

    Exit code 0: agreement
    Exit code 1: disagreements
    Exit code 2: wrong usage, or an input that cannot be read
    Exit code 3: fewer than 10 trajectories scored
    """
    mapping = options(map_, format)
    from rlvitals.audit.draw import draw
    from rlvitals.audit.load import full_marks, out_of_reach
    from rlvitals.audit.score import Session, agreement

    found = read_rollouts(rollouts, mapping)
    say(found.notes)
    full = full_marks(found.rows, solved_at)
    if unreached := out_of_reach(found.rows, solved_at):
        say([unreached])
    drawn = draw(found.rows, n, seed)
    if not drawn:
        raise InputError(Problem("no trajectory has a completion", str(rollouts), hint="--map completion=KEY"))
    folder = record_folder(run, rollouts)
    path = folder / f"score-session-{rollouts.stem}.jsonl"
    if restart:
        path.unlink(missing_ok=True)
    session = Session(path, drawn)
    (_score_in_browser if web else _score_here)(session, full)
    if not session.answers:
        path.unlink(missing_ok=True)  # nothing was answered: no session to go on with, and nothing to record
        print("No trajectory was scored; nothing is recorded.", file=sys.stderr)
        leave(Exit.CANNOT_SAY)
    record = agreement(session, full, rollouts.name, [str(rollouts)])
    finish(record, folder, format)
    enough = record.wrong.of >= min(10, len(drawn))
    leave(Exit.FINDINGS if record.wrong.count else Exit.OK if enough else Exit.CANNOT_SAY)


def _score_here(session: Session, full: float) -> None:
    """Ask for every trajectory that has no answer; end of input or q stops."""
    from rlvitals.report.words import block, clean

    while (i := session.next) is not None:
        shown = session.shown(i)
        print(f"\n== {clean(shown.title)} ==", file=sys.stderr)
        for name, text in (
            ("Prompt", shown.prompt),
            ("Completion", shown.completion),
            ("Expected answer", shown.gold),
            ("Raw verifier output", shown.raw),
        ):
            if text:
                print(f"\n-- {name} --\n{block(text)}", file=sys.stderr)
        said = _asked()
        if said is None:
            return
        session.answer(i, said)
        print(clean(session.revealed(i, full)), file=sys.stderr)


def _asked() -> Said | None:
    """Ask until an answer is understood; None for end of input or q."""
    from rlvitals.audit.score import Said
    from rlvitals.report.words import clean

    keys = {name: said for said in Said for name in (said.value[0], said.value)}
    print(file=sys.stderr)
    while True:
        print("Is it right? r right, w wrong, u unsure, q quit: ", end="", file=sys.stderr, flush=True)
        line = sys.stdin.readline()
        word = line.strip().lower()
        if not line or word in ("q", "quit"):
            return None
        if word in keys:
            return keys[word]
        print(f"Not understood: {clean(word, 40)!r}." if word else "Nothing was said.", file=sys.stderr)


def _score_in_browser(session: Session, full: float) -> None:
    import threading

    from rlvitals.audit.scoreweb import make_server

    server, address = make_server(session, full)
    print(f"Score at {address}\nCtrl-C stops; the answers are kept.", file=sys.stderr)
    serving = threading.Thread(target=server.serve_forever, daemon=True)
    serving.start()
    try:
        while session.next is not None and serving.is_alive():
            serving.join(0.3)
        serving.join(1.5)  # the last page is still to be fetched
    except KeyboardInterrupt:
        print("Stopped.", file=sys.stderr)
    finally:
        server.shutdown()
        server.server_close()
