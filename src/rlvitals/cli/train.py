"""`rlvitals train`: the reference trainer; without options the embedded model on the embedded task, in a minute."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rlvitals.cli.common import Exit, leave, pairs
from rlvitals.errors import InputError, Problem

if TYPE_CHECKING:
    from rlvitals.grpo.config import Config
    from rlvitals.grpo.loop import Outcome
    from rlvitals.grpo.run import Run

PACKAGES = ("torch", "transformers", "accelerate", "safetensors")

train = typer.Typer(
    invoke_without_command=True,
    no_args_is_help=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


@train.callback()
def start(
    context: typer.Context,
    recipe: Annotated[
        str | None, typer.Option("--recipe", metavar="NAME", help="Loss and settings: grpo, dapo, dr-grpo, ch7-kl ...")
    ] = None,
    task: Annotated[
        str | None, typer.Option("--task", metavar="NAME", help="Task with options: arithmetic:tiers=1+2 ...")
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", metavar="PATH", help="tiny, smollm2, or a folder or hub name.")
    ] = None,
    steps: Annotated[int | None, typer.Option("--steps", metavar="N", help="Rollout batches.")] = None,
    seed: Annotated[int | None, typer.Option("--seed", metavar="N", help="Of prompts and samples.")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="DIR", help="Run directory; a new one under runs/ without it.")
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Any other setting. Repeatable.")
    ] = None,
    warm_start: Annotated[
        Path | None,
        typer.Option("--warm-start", metavar="FILE", help="Train on these demonstrations first (JSON lines)."),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the newest complete checkpoint in --out.")
    ] = False,
    vitals: Annotated[bool, typer.Option("--vitals/--no-vitals", help="Watch the run's health meanwhile.")] = True,
    tracker: Annotated[
        str | None, typer.Option("--tracker", metavar="NAME", help="tensorboard, wandb, mlflow or trackio.")
    ] = None,
) -> None:
    """Train a policy with verifiable rewards; without options a tiny one on sums, with no download.

    Exit code 0: all planned steps are done, or a stop rule ended the run
    Exit code 2: wrong usage, or an input that cannot be used
    """
    if context.invoked_subcommand is not None:
        return
    require_packages()
    problems: list[Problem] = []
    given = pairs(set_ or (), "--set", "KEY=VALUE", problems)
    if problems:
        raise InputError(*problems)
    own = {"recipe": recipe, "task": task, "model": model, "steps": steps, "seed": seed}
    if warm_start is not None:
        own["warm_start"] = str(warm_start)
    chosen = {**given, **{k: str(v) for k, v in own.items() if v is not None}}
    config, folder = _settled(chosen, out, resume=resume)
    outcome = _run(config, folder, resume=resume, vitals=vitals, tracker=tracker)
    print(f"{outcome.steps} of {config.steps} steps: {outcome.reason}", file=sys.stderr)
    print(f"Look at it: rlvitals check {folder}", file=sys.stderr)
    leave(Exit.OK)


@train.command("eval")
def eval_(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run directory of rlvitals train.")],
    items: Annotated[
        int | None, typer.Option("--items", metavar="N", min=1, help="Held-out items; as in the run.")
    ] = None,
) -> None:
    """Score every saved checkpoint of a run on its held-out items, after the run or beside it."""
    require_packages()
    from rlvitals.grpo.rescore import ITEMS, rescore

    target = rescore(run, items, lambda text: print(text, file=sys.stderr))
    print(
        f"Wrote {target}, and every item into {run / ITEMS}; use it: rlvitals check {run} --evals rescored={target}",
        file=sys.stderr,
    )


def require_packages() -> None:
    """Raise InputError naming every package that training needs and that is not installed."""
    from importlib.util import find_spec

    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing:
        raise InputError(
            Problem("training needs packages that are not installed", found=f"no {', '.join(missing)}",
                    hint="Install them: pip install 'rlvitals[train]'")
        )  # fmt: skip


def _settled(chosen: dict[str, str], out: Path | None, *, resume: bool) -> tuple[Config, Path]:
    """Return the config and the run directory. Raises InputError."""
    from rlvitals.grpo.config import Config, checked, with_settings
    from rlvitals.grpo.presets import config_of

    if resume:
        if out is None:
            raise InputError(Problem("nothing to resume", "--resume", expected="--out with a run directory"))
        from rlvitals.grpo.rescore import stored

        return checked(with_settings(stored(out), chosen)), out
    name = chosen.get("recipe", Config.recipe)
    config = checked(with_settings(config_of(name), chosen))
    return config, out if out is not None else _fresh_folder(config)


def _fresh_folder(config: Config) -> Path:
    """Return a folder under runs/ that is not there yet."""
    base = Path("runs") / f"{config.task.partition(':')[0]}-{config.recipe.partition(':')[0]}-seed{config.seed}"
    number = 1
    folder = base
    while folder.exists():
        number += 1
        folder = base.with_name(f"{base.name}-{number}")
    return folder


def _opened(config: Config, folder: Path, *, resume: bool) -> Run:
    """Return the run ready for its next step; on a terminal a line that goes away says so. Raises InputError.

    Elsewhere a warm start says every tenth of its steps.
    """
    from rich.console import Console
    from rich.markup import escape

    from rlvitals.grpo.parts import Parts
    from rlvitals.grpo.run import open_run
    from rlvitals.grpo.tasks.load import kind_of

    kind_of(config.task)  # a wrong name needs no model to be loaded first
    console = Console(stderr=True, highlight=False)
    with console.status(f"loading {escape(config.model)}") as status:

        def say(text: str, last: bool) -> None:
            if console.is_terminal:
                status.update(escape(text))
            elif last:
                console.print(text, markup=False, soft_wrap=True)

        return open_run(config, Parts(), folder, resume=resume, say=say)


def _run(config: Config, folder: Path, *, resume: bool, vitals: bool, tracker: str | None) -> Outcome:
    """Train with everything that looks on."""
    from rlvitals.grpo.loop import go_on
    from rlvitals.grpo.notices import notices
    from rlvitals.grpo.parts import settle
    from rlvitals.grpo.trackers import Tracker, closing
    from rlvitals.grpo.watch import Progress, Vitals

    settle(config)
    told = Tracker(tracker, str(folder)) if tracker is not None else None
    run = _opened(config, folder, resume=resume)  # before a word is said: an error is then all that is seen
    progress = Progress(config.steps)
    watches: list[Progress | Vitals | Tracker] = [progress]
    if vitals:
        watches.append(Vitals(progress))
    if told is not None:
        told.start(run)
        watches.append(told)
    with closing(watches), progress:
        progress.say(f"{config.recipe} on {config.task} with {config.model}: {config.steps} steps into {folder}")
        if run.warm is not None and run.step == 0:
            progress.say(run.warm.sentence())
        for text in notices(config, run.task, run.held_out):
            progress.say(f"notice: {text}")
        outcome = go_on(run, watches)
    for each in watches:
        if isinstance(each, Vitals) and each.headline():
            progress.say(f"health: {each.headline()}")
    return outcome
