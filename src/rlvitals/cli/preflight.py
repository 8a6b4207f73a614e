"""`rlvitals preflight`: is the task learnable at all?"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rlvitals.cli.audit_common import Format, Map, RunDir, finish, options, read_rollouts, record_folder, say
from rlvitals.cli.common import Exit, leave, one_of
from rlvitals.errors import Problem

if TYPE_CHECKING:
    from rlvitals.audit.rows import Row
    from rlvitals.env import Item, Message

SAMPLE_PANEL = "Sample the base policy now"
SOLVER_PANEL = "Try the tasks without the policy"

Rollouts = Annotated[
    Path | None,
    typer.Argument(
        metavar="[ROLLOUTS]",
        help="Base-policy rollouts with rewards: a trainer's dump or a JSONL, CSV or parquet file.",
        show_default=False,
    ),
]
GroupSize = Annotated[
    int, typer.Option("--group-size", "-G", metavar="N", min=2, help="Rollouts per prompt you plan to train with.")
]
SolvedAt = Annotated[
    float | None,
    typer.Option(
        "--solved-at",
        metavar="REWARD",
        help="Reward from which a rollout counts as solved; without it the highest seen.",
    ),
]
Tasks = Annotated[
    Path | None,
    typer.Option("--tasks", metavar="FILE", help="Tasks with prompt and gold answer.", rich_help_panel=SAMPLE_PANEL),
]
Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="NAME",
        help="A local model (folder or hub name), or the endpoint's name of it.",
        rich_help_panel=SAMPLE_PANEL,
    ),
]
Endpoint = Annotated[
    str | None,
    typer.Option(
        "--endpoint",
        metavar="URL",
        help="An OpenAI-compatible endpoint, e.g. http://localhost:8000/v1. The key is read from OPENAI_API_KEY.",
        rich_help_panel=SAMPLE_PANEL,
    ),
]
Reward = Annotated[
    str | None,
    typer.Option(
        "--reward",
        metavar="MODULE:FUNCTION",
        help="Reward function that scores the samples.",
        rich_help_panel=SAMPLE_PANEL,
    ),
]
Calling = Annotated[
    str,
    typer.Option(
        "--calling",
        metavar="NAME",
        help="TRL, verl, verifiers or plain; found by itself without it.",
        rich_help_panel=SAMPLE_PANEL,
    ),
]
Env = Annotated[
    str | None,
    typer.Option(
        "--env",
        metavar="MODULE:CLASS",
        help="Environment that scores the samples and that solvers play.",
        rich_help_panel=SAMPLE_PANEL,
    ),
]
Count = Annotated[
    int, typer.Option("--n", metavar="N", min=1, help="Tasks to sample or try.", rich_help_panel=SAMPLE_PANEL)
]
PerTask = Annotated[
    int, typer.Option("--per-task", metavar="K", min=1, help="Completions per task.", rich_help_panel=SAMPLE_PANEL)
]
Temperature = Annotated[
    float,
    typer.Option(
        "--temperature",
        metavar="T",
        min=0.01,
        help="Sampling temperature: the one you will train with.",
        rich_help_panel=SAMPLE_PANEL,
    ),
]
MaxTokens = Annotated[
    int,
    typer.Option(
        "--max-tokens", metavar="N", min=1, help="Token budget of a completion.", rich_help_panel=SAMPLE_PANEL
    ),
]
Solver = Annotated[
    str | None,
    typer.Option(
        "--solver",
        metavar="MODULE:FUNCTION",
        help="Let a scripted solver, or 'human', play --tasks through --env.",
        rich_help_panel=SOLVER_PANEL,
    ),
]
AllSteps = Annotated[
    bool, typer.Option("--all-steps", help="Take the rollouts of all steps; else of a file with several the first.")
]


@dataclass(frozen=True, slots=True)
class Source:
    """Where the rollouts come from and what scores them."""

    tasks: Path | None
    model: str | None
    endpoint: str | None
    reward: str | None
    env: str | None
    calling: str


def preflight(
    rollouts: Rollouts = None,
    group_size: GroupSize = 8,
    solved_at: SolvedAt = None,
    all_steps: AllSteps = False,
    tasks: Tasks = None,
    model: Model = None,
    endpoint: Endpoint = None,
    reward: Reward = None,
    calling: Calling = "",
    env: Env = None,
    n: Count = 64,
    per_task: PerTask = 8,
    temperature: Temperature = 1.0,
    max_tokens: MaxTokens = 512,
    solver: Solver = None,
    map_: Map = None,
    run: RunDir = None,
    format: Format = "terminal",
) -> None:
    """Is the task learnable? Success of the base policy, pass@k, expected zero-variance groups, a verdict.

    Exit code 0: learnable
    Exit code 1: start easier, already solved, or tasks that a solver cannot solve
    Exit code 2: wrong usage, or an input that cannot be read
    Exit code 3: more samples are needed
    """
    source = Source(tasks, model, endpoint, reward, env, calling)
    problems = _usage(rollouts, source, solver)
    if solved_at is not None and not math.isfinite(solved_at):
        problems.append(Problem("not a reward", "--solved-at", str(solved_at), "a finite number"))
    mapping = options(map_, format, *problems)
    from rlvitals.audit.learnable import examine_rollouts, with_solver
    from rlvitals.audit.load import load_tasks, out_of_reach
    from rlvitals.audit.sample import Sampling

    folder = record_folder(run, rollouts or tasks)
    if rollouts is not None:
        found = read_rollouts(rollouts, mapping)
        say(found.notes)
        rows: Sequence[Row] = found.rows if all_steps else _untrained(found.rows)
    else:
        rows = _sampled(source, Sampling(per_task, temperature, max_tokens=max_tokens), n, mapping, folder)
    if unreached := out_of_reach(rows, solved_at):
        say([unreached])
    subject = str(rollouts.name if rollouts else model)
    record = examine_rollouts(
        rows, group_size=group_size, threshold=solved_at, subject=subject, sources=[str(rollouts or tasks)]
    )
    if solver is not None and tasks is not None and env is not None:
        items, _ = load_tasks(tasks, mapping)
        record = with_solver(record, solver, _tried(solver, env, items[:n], solved_at))
    finish(record, folder, format)
    leave(_code(record.verdict.name, bool(record.unsolved)))


def _untrained(rows: Sequence[Row]) -> Sequence[Row]:
    """Return the rollouts of the first step: those of later ones come from a policy that was trained since."""
    steps = {r.step for r in rows if r.step is not None}
    if len(steps) < 2:
        return rows
    kept = [r for r in rows if r.step == min(steps)]
    say([f"{len(steps)} training steps: only the {len(kept)} rollouts of step {min(steps)} are taken as the base "
         f"policy's; --all-steps takes all {len(rows)}, for steps without updates between them"])  # fmt: skip
    return kept


def _usage(rollouts: Path | None, source: Source, solver: str | None) -> list[Problem]:
    out = []
    if rollouts is None:
        if source.tasks is None or source.model is None:
            out.append(
                Problem("nothing to examine", "rlvitals preflight", expected="ROLLOUTS, or --tasks with --model")
            )
        elif (source.reward is None) == (source.env is None):
            out.append(Problem("the samples must be scored", expected="either --reward or --env"))
    elif source.model is not None:
        out.append(Problem("rollouts and a model to sample", expected="one of them"))
    if solver is not None and (source.env is None or source.tasks is None):
        out.append(Problem("a solver plays through an environment", "--solver", expected="--env and --tasks beside it"))
    if source.calling:
        one_of(source.calling, ("TRL", "verl", "verifiers", "plain"), "--calling", out)
    return out


def _sampled(source: Source, how: object, n: int, mapping: dict[str, str], folder: Path) -> Sequence[Row]:
    """Sample the policy and score the samples; they are kept beside the record, to be read again."""
    from rlvitals.audit import sample, scoring
    from rlvitals.audit.load import load_tasks
    from rlvitals.audit.rows import write_rows

    assert isinstance(how, sample.Sampling)
    assert source.tasks is not None
    assert source.model is not None
    items, gold_key = load_tasks(source.tasks, mapping)
    tell = progress("sampled")
    if source.endpoint:
        rows = sample.sample_endpoint(source.endpoint, source.model, items[:n], how, progress=tell)
    else:
        rows = sample.sample_local(source.model, items[:n], how, progress=tell)
    if source.env is not None:
        rows = scoring.score_with_env(source.env, rows)
    elif source.reward is not None:
        rows = scoring.score_with_reward(source.reward, rows, calling=source.calling, gold_key=gold_key)
    kept = folder / "preflight-rollouts.jsonl"
    write_rows(rows, kept)
    say([f"the samples are in {kept}"])
    return rows


def _tried(solver: str, env: str, items: Sequence[Item], full: float | None) -> dict[str, bool]:
    from rlvitals.audit import scoring

    marks = 1.0 if full is None else full
    if solver == "human":
        return scoring.try_by_hand(env, items, _ask_person, full=marks)
    return scoring.try_solver(solver, env, items, full=marks)


def _ask_person(messages: Sequence[Message]) -> str | None:
    """Show what the environment said and return the person's turn; an empty line ends it, `quit` alone stops."""
    from rlvitals.report.words import block

    for message in messages:
        print(f"\n[{block(message.role)}]\n{block(message.content)}", file=sys.stderr)
    print("\nYour turn; an empty line sends it, `quit` stops:", file=sys.stderr)
    lines: list[str] = []
    for line in sys.stdin:
        if line.strip() == "quit" and not lines:
            return None
        if not line.strip():
            break
        lines.append(line.rstrip("\n"))
    return "\n".join(lines) if lines else None


def _code(verdict: str, unsolved: bool) -> Exit:
    if verdict == "UNSURE":
        return Exit.CANNOT_SAY
    return Exit.OK if verdict == "YES" and not unsolved else Exit.FINDINGS


class progress:  # noqa: N801
    """Shows how far a count has come, on a terminal alone."""

    def __init__(self, what: str) -> None:
        self.what = what

    def __call__(self, done: int, of: int) -> None:
        if sys.stderr.isatty():
            print(f"\r{self.what} {done} of {of}", end="\n" if done >= of else "", file=sys.stderr)
