"""`rlvitals audit`: is the reward what you think it is? Hand scores, a probed verifier, replays, leakage."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rlvitals.cli.common import Exit, leave, one_of, pairs
from rlvitals.cli.preflight import FORMATS, ROLE_HELP, RUN_HELP, finish, record_folder, say
from rlvitals.errors import InputError, Problem

if TYPE_CHECKING:
    from rlvitals.audit.probeinputs import Case
    from rlvitals.audit.rows import Row
    from rlvitals.audit.score import Session

audit = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Is the reward what you think it is? Each audit writes a record that check reads.",
)

Map = Annotated[list[str] | None, typer.Option("--map", metavar="COLUMN=KEY", help=ROLE_HELP)]
RunDir = Annotated[Path | None, typer.Option("--run", metavar="DIR", help=RUN_HELP)]
Format = Annotated[str, typer.Option("--format", "-f", metavar="FORMAT", help="terminal or json.")]
Seconds = Annotated[float, typer.Option("--seconds", metavar="S", min=0.1, help="Time limit of one call or episode.")]
Memory = Annotated[
    int, typer.Option("--memory", metavar="MB", min=64, help="Memory beyond what importing the code takes.")
]

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
Function = Annotated[
    str,
    typer.Argument(
        metavar="MODULE:FUNCTION", help="The reward function, as training imports it; path/to/file.py:function too."
    ),
]
Tasks = Annotated[
    Path, typer.Option("--tasks", metavar="FILE", help="Tasks with prompt and gold answer: JSONL, CSV or parquet.")
]
Logged = Annotated[
    Path | None,
    typer.Option(
        "--logged", metavar="FILE", help="Completions of a run with their rewards: they must score the same now."
    ),
]
Correct = Annotated[Path | None, typer.Option("--correct", metavar="FILE", help="Completions known to be right.")]
Incorrect = Annotated[Path | None, typer.Option("--incorrect", metavar="FILE", help="Completions known to be wrong.")]
Template = Annotated[
    str,
    typer.Option(
        "--template",
        metavar="TEXT",
        help="How a completion gives its answer, with {gold} in it; the usual ones are tried without it.",
    ),
]
Calling = Annotated[
    str, typer.Option("--calling", metavar="NAME", help="TRL, verl, verifiers or plain; found by itself without it.")
]
ReplayRollouts = Annotated[Path, typer.Argument(metavar="ROLLOUTS", help="Episodes with seed, turns and task.")]
Env = Annotated[
    str,
    typer.Option(
        "--env", metavar="MODULE:CLASS", help="The environment: reset(item, seed) and step(text), see rlvitals.env."
    ),
]
ReplayTasks = Annotated[
    Path | None,
    typer.Option("--tasks", metavar="FILE", help="Tasks by prompt_id, where the episodes do not hold them."),
]
Pick = Annotated[
    list[str] | None,
    typer.Option(
        "--pick", metavar="KIND", help="longest, crashed, top or off-group. Repeatable; all in turn without it."
    ),
]
Episode = Annotated[
    list[str] | None, typer.Option("--episode", metavar="STEP/GROUP/INDEX", help="This episode. Repeatable.")
]
ReplayCount = Annotated[int, typer.Option("--n", metavar="N", min=1, help="Episodes to replay.")]
HeldOut = Annotated[Path, typer.Argument(metavar="HELD_OUT", help="The held-out set: JSONL, CSV or parquet.")]
Train = Annotated[list[Path] | None, typer.Option("--train", metavar="FILE", help="RL training tasks. Repeatable.")]
Sft = Annotated[
    list[Path] | None, typer.Option("--sft", metavar="FILE", help="Data of the supervised warm start. Repeatable.")
]
FewShot = Annotated[
    list[Path] | None, typer.Option("--few-shot", metavar="FILE", help="Examples that prompts carry. Repeatable.")
]
Family = Annotated[
    list[str] | None,
    typer.Option("--held-out-family", metavar="NAME", help="A family meant to be wholly held out. Repeatable."),
]
Folder = Annotated[
    Path, typer.Argument(metavar="[DIR]", help="Records of rlvitals.reward_probe; .rlvitals/rewards without it.")
]
Out = Annotated[
    Path | None,
    typer.Option("--out", "-o", metavar="FILE", help="Parquet file; rewards.parquet beside the folder without it."),
]
Remove = Annotated[bool, typer.Option("--remove", help="Delete the lines once the file is written.")]


def _options(map_: Sequence[str] | None, format: str, *more: Problem) -> dict[str, str]:
    problems = list(more)
    one_of(format, FORMATS, "--format", problems)
    mapping = pairs(map_ or (), "--map", "COLUMN=KEY", problems)
    if problems:
        raise InputError(*problems)
    return mapping


@audit.command()
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
    mapping = _options(map_, format)
    from rlvitals.audit.draw import draw
    from rlvitals.audit.load import full_marks, load_rollouts, out_of_reach
    from rlvitals.audit.score import Session, agreement

    found = load_rollouts(rollouts, mapping)
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
    from rlvitals.audit.score import Said
    from rlvitals.report.words import block, clean

    keys = {"r": Said.RIGHT, "w": Said.WRONG, "u": Said.UNSURE}
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
        print("\nIs it right? r right, w wrong, u unsure, q quit: ", end="", file=sys.stderr, flush=True)
        line = sys.stdin.readline()
        if not line or line.strip().lower() == "q":
            return
        said = keys.get(line.strip().lower()[:1])
        if said is not None:
            session.answer(i, said)
            print(clean(session.revealed(i, full)), file=sys.stderr)


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


@audit.command()
def probe(
    function: Function,
    tasks: Tasks,
    logged: Logged = None,
    correct: Correct = None,
    incorrect: Incorrect = None,
    template: Template = "",
    calling: Calling = "",
    seconds: Seconds = 5.0,
    memory: Memory = 1024,
    map_: Map = None,
    run: RunDir = None,
    format: Format = "terminal",
) -> None:
    """Give the verifier answers whose reward is known, in a worker process with limits, as the trainer would.

    Gold, wrong, empty, prompt only, cut, other spellings, another task's answer, very long and hostile completions; the
    same input twice, in a fresh process, in another order; a task without a gold answer.

    Exit code 0: nothing wrong was found
    Exit code 1: findings
    Exit code 2: wrong usage, or an input that cannot be read
    """
    problems: list[Problem] = []
    if calling:
        one_of(calling, ("TRL", "verl", "verifiers", "plain"), "--calling", problems)
    if template and "{gold}" not in template:
        problems.append(Problem("no place for the answer", "--template", repr(template), "{gold} in it"))
    mapping = _options(map_, format, *problems)
    from rlvitals.audit import probe as probing
    from rlvitals.audit.load import load_tasks

    items, gold_key = load_tasks(tasks, mapping)
    own = [
        *_own(logged, "logged", None, mapping),
        *_own(correct, "known right", True, mapping),
        *_own(incorrect, "known wrong", False, mapping),
    ]
    record = probing.probe(
        function, items, limits=probing.Limits(seconds, memory), calling=calling, gold_key=gold_key, template=template,
        logged=own, sources=[str(p) for p in (tasks, logged, correct, incorrect) if p is not None],
    )  # fmt: skip
    finish(record, record_folder(run, None if run else Path()), format)
    leave(Exit.FINDINGS if record.findings else Exit.OK)


MAX_LOGGED = 200  # of one file: each is one call


def _own(path: Path | None, kind: str, right: bool | None, mapping: dict[str, str]) -> list[Case]:
    """Return the user's own completions as inputs."""
    if path is None:
        return []
    import math

    from rlvitals.audit.calling import Ask
    from rlvitals.audit.load import load_rollouts
    from rlvitals.audit.probeinputs import Case

    rows = [r for r in load_rollouts(path, mapping).rows if r.completion is not None and r.gold]
    if not rows:
        raise InputError(
            Problem("no completion with a gold answer", str(path), hint="--map completion=KEY --map gold=KEY")
        )
    if len(rows) > MAX_LOGGED:
        every = -(-len(rows) // MAX_LOGGED)
        say([f"{path}: one in {every} of {len(rows)} completions is asked"])
        rows = rows[::every]
    out = []
    for r in rows:
        reward = None if math.isnan(r.reward) or right is not None else r.reward
        out.append(Case(kind, Ask(r.item(), r.completion or "", r.gold), right, r.name, reward))
    return out


@audit.command()
def replay(
    rollouts: ReplayRollouts,
    env: Env,
    tasks: ReplayTasks = None,
    pick: Pick = None,
    episode: Episode = None,
    n: ReplayCount = 12,
    seconds: Seconds = 60.0,
    memory: Memory = 2048,
    map_: Map = None,
    run: RunDir = None,
    format: Format = "terminal",
) -> None:
    """Replay episodes from their seeds, twice, each in a process of its own; compare reward, ending and observations.

    Exit code 0: all come out as logged
    Exit code 1: findings
    Exit code 2: wrong usage, or an input that cannot be read
    """
    from rlvitals.audit.replay import PICKS

    problems: list[Problem] = []
    for kind in pick or ():
        one_of(kind, PICKS, "--pick", problems)
    mapping = _options(map_, format, *problems)
    from rlvitals.audit import replay as replaying
    from rlvitals.audit.load import load_rollouts, load_tasks

    found = load_rollouts(rollouts, mapping)
    say(found.notes)
    chosen = _named(found.rows, episode) if episode else replaying.pick(found.rows, pick or PICKS, n)
    items = {i.id: i for i in load_tasks(tasks, mapping)[0]} if tasks is not None else {}
    record = replaying.replay(env, chosen, tasks=items, seconds=seconds, memory_mb=memory, sources=[str(rollouts)])
    finish(record, record_folder(run, rollouts), format)
    leave(Exit.FINDINGS if record.findings else Exit.OK)


def _named(rows: Sequence[Row], names: Sequence[str]) -> tuple[Row, ...]:
    by_name = {f"{r.step}/{r.group}/{r.index}": r for r in rows}
    missing = [n for n in names if n not in by_name]
    if missing:
        raise InputError(*(Problem("no such episode", "--episode", n, "STEP/GROUP/INDEX of the dump") for n in missing))
    return tuple(by_name[n] for n in names)


@audit.command()
def leakage(
    held_out: HeldOut,
    train: Train = None,
    sft: Sft = None,
    few_shot: FewShot = None,
    family: Family = None,
    map_: Map = None,
    run: RunDir = None,
    format: Format = "terminal",
) -> None:
    """Compare every training path with the held-out set: exact, normalised, n-gram and near-duplicate overlap.

    Tasks of one template with other numbers are counted apart; they are no leak.

    Exit code 0: nothing was found
    Exit code 1: held-out items or families are in the training data
    Exit code 2: wrong usage, or an input that cannot be read
    """
    paths = {"train": train or [], "sft": sft or [], "few-shot": few_shot or []}
    given = [p for files in paths.values() for p in files]
    nothing = (
        []
        if given
        else [Problem("nothing to compare with", "rlvitals audit leakage", expected="--train, --sft or --few-shot")]
    )
    mapping = _options(map_, format, *nothing)
    from rlvitals.audit.leakage import examine_leakage
    from rlvitals.audit.rows import read_rows

    asked = read_rows(held_out, mapping, needs=("prompt",))
    training = {
        name: [r for p in files for r in read_rows(p, mapping, needs=("prompt",)).rows]
        for name, files in paths.items()
        if files
    }  # fmt: skip
    record = examine_leakage(
        training, asked.rows, families=family or (), subject=held_out.name, sources=[str(p) for p in (held_out, *given)]
    )
    finish(record, record_folder(run, held_out), format)
    leave(Exit.FINDINGS if record.leaked.count or record.shared_families else Exit.OK)


@audit.command()
def compact(
    folder: Folder = Path(".rlvitals/rewards"),
    out: Out = None,
    remove: Remove = False,
    run: RunDir = None,
    format: Format = "terminal",
) -> None:
    """Turn what rlvitals.reward_probe recorded into one row per trajectory, and count errors.

    Exit code 0: no errors
    Exit code 1: calls raised or gave no number
    Exit code 2: wrong usage, or an input that cannot be read
    """
    _options(None, format)
    from rlvitals.audit import compact as compacting

    files = sorted(folder.glob("*.jsonl"))
    target = out or folder.parent / "rewards.parquet"
    record = compacting.compact(folder, target)
    if remove:
        for path in files:
            path.unlink()
    say([f"{record.trajectories} trajectories are in {target}"])
    beside = folder.parent if folder.parent.name == ".rlvitals" and run is None else record_folder(run, folder)
    finish(record, beside, format)
    leave(Exit.FINDINGS if record.errors.count else Exit.OK)
