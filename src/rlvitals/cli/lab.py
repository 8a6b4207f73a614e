"""`rlvitals lab`: train with a fault put in on purpose, and keep score of what is said of it."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rlvitals.cli.common import Exit, leave, pairs
from rlvitals.errors import InputError, Problem

if TYPE_CHECKING:
    from rlvitals.lab.cases import Case
    from rlvitals.lab.fault import Fault, Healthy
    from rlvitals.lab.kept import Kept

FOLDER = Path("lab-runs")
SAID = 5  # names in one message
INTERRUPTED = 130  # exit code of what Ctrl-C ended, as shells have it
FAULTS_HELP = "Faults by name, comma-separated; all or none. All without --faults, --healthy and --fault."
HEALTHY_HELP = "Healthy runs by name, comma-separated; all or none."
SEEDS_HELP = "A number of seeds (5: 0 to 4), a range (100-104) or a list (0,3,7)."
RECORD_HELP = "Keep what is shown, as JSON lines: rlvitals demo --play FILE shows it again."
FRESH_HELP = "Train anew what was trained with another version of its fault."
FAULT_HELP = "A fault of your own: module:NAME or path/to/file.py:NAME. Repeatable."
SET_HELP = "Change a setting of every healthy setup: task=calculator, model=PATH. Repeatable."

lab = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Train with a fault put in on purpose, and keep score of what is said of it.",
)

Folder = Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="Folder of runs and results.")]
Own = Annotated[list[str] | None, typer.Option("--fault", metavar="MODULE:NAME", help=FAULT_HELP)]


@lab.command("list")
def list_() -> None:
    """List the faults by the place that is broken, and the healthy runs that are hard to tell from sick ones."""
    from rlvitals.cli.train import require_packages

    require_packages()
    from rlvitals.lab.faults import FAULTS
    from rlvitals.lab.healthy import HEALTHY
    from rlvitals.lab.say import list_text

    print(list_text(FAULTS, HEALTHY, _width()))


@lab.command()
def run(
    faults: Annotated[str, typer.Option("--faults", metavar="NAMES", help=FAULTS_HELP)] = "",
    healthy: Annotated[str, typer.Option("--healthy", metavar="NAMES", help=HEALTHY_HELP)] = "",
    fault: Own = None,
    seeds: Annotated[str, typer.Option("--seeds", metavar="SEEDS", help=SEEDS_HELP)] = "1",
    steps: Annotated[int, typer.Option("--steps", metavar="N", min=0, help="Of every run; 0: each its own.")] = 0,
    jobs: Annotated[int, typer.Option("--jobs", "-j", metavar="N", min=1, max=256, help="Runs at a time.")] = 1,
    set_: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help=SET_HELP)] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Examine runs that are there with today's checks; train nothing.")
    ] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help=FRESH_HELP)] = False,
    out: Folder = FOLDER,
) -> None:
    """Train faults with their controls, and healthy runs; what has a result already is left out, so call it again.

    Exit code 0: every run has a result
    Exit code 1: a run left no result, rlvitals failed on its log, or it is of another version of its fault
    Exit code 2: wrong usage
    Exit code 130: interrupted; runs under way leave no result
    """
    from rlvitals.cli.train import require_packages

    require_packages()
    cases = _cases(faults, healthy, fault or [], seeds, steps, set_ or [], out)
    from rlvitals.lab.jobs import Interrupted
    from rlvitals.lab.run import hear_cases, missing, refresh, run_cases, torn

    _tell(torn(cases, out), "left out, train it anew without --again" if again else "trained anew")
    others = set(refresh([c.subject for c in cases], out)) & {c.name for c in cases}
    todo = [c for c in cases if fresh and c.name in others] + missing(cases, out)
    done = len(cases) - len(todo)
    waiting = {c.name for c in todo}
    names = [c.name for c in cases if c.name not in waiting]
    count, title = len(todo), f"{_runs(len(todo))} into {out}, {done} there already, {jobs} at a time"
    if again:
        count, title = len(names), f"{_runs(len(names))} to examine again in {out}"
    try:
        with _Bar(count, title) as bar:
            failed = hear_cases(names, out, jobs, bar.said) if again else run_cases(todo, out, jobs, bar.said)
    except Interrupted as interrupted:
        print(f"interrupted: {interrupted.left} left, call it again", file=sys.stderr)
        raise typer.Exit(INTERRUPTED) from None
    stale = [] if fresh and not again else sorted(others)
    if stale:
        print(_of_another_version(stale, "rlvitals lab run --fresh with the same options"), file=sys.stderr)
    if failed:
        print(
            f"{_runs(failed)} left no result, or one that is no answer: call it again to train what is "
            "missing, with --again to examine what is there",
            file=sys.stderr,
        )
    print(f"Score them: rlvitals lab score --out {out}", file=sys.stderr)
    leave(Exit.FINDINGS if failed or stale else Exit.OK)


@lab.command()
def score(
    fault: Own = None,
    out: Folder = FOLDER,
    json_: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Keep the results here: answers, no logs.")
    ] = None,
    page: Annotated[
        Path | None, typer.Option("--page", metavar="DIR", help="Write scoreboard.md and scoreboard.html here.")
    ] = None,
    results: Annotated[
        Path | None, typer.Option("--results", metavar="FILE", help="Score kept results in place of runs.")
    ] = None,
    date: Annotated[str, typer.Option("--date", metavar="DATE", help="Of the runs, said on the page.")] = "",
) -> None:
    """Say how often the root cause was named first, what was accused wrongly, how late, and what it saved.

    Faults are described as the code has them now, those given with --fault too.
    """
    from rlvitals.lab.kept import write
    from rlvitals.lab.page import summary

    if page is not None and (wrong := _not_a_folder(page, "--page")):
        raise InputError(*wrong)
    kept = _kept(out, results, date, fault or [])
    if json_ is not None:
        write(kept, json_)
    if page is not None:
        _write_pages(kept, page)
    print(summary(kept, _width()))


@lab.command()
def show(
    fault: Annotated[str, typer.Argument(metavar="FAULT", help="Name of a fault (rlvitals lab list), or MODULE:NAME.")],
    strength: Annotated[str, typer.Option("--strength", metavar="NAME", help="Its first one without it.")] = "",
    seed: Annotated[int, typer.Option("--seed", metavar="N", min=0, help="Of the run.")] = 0,
    steps: Annotated[int, typer.Option("--steps", metavar="N", min=0, help="At most; 0: as the fault asks.")] = 0,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="Folder of the two runs.")] = FOLDER / "show",
    record: Annotated[Path | None, typer.Option("--record", metavar="FILE", help=RECORD_HELP)] = None,
) -> None:
    """Train a fault live until it is noticed, then once more with the fix, and verify that it helped.

    Exit code 0: noticed, fixed, and the fix is verified
    Exit code 1: not noticed, or the fix is not verified
    Exit code 2: wrong usage
    Exit code 3: too early to say whether the fix worked
    Exit code 130: interrupted
    """
    from rlvitals.cli.train import require_packages

    require_packages()
    from rlvitals.lab.find import own_faults, subject_of
    from rlvitals.lab.show import show as play

    subject = (
        own_faults([fault], "FAULT")[0][0] if ":" in fault else subject_of(fault, "", healthy=False, where="FAULT")
    )
    try:
        code = play(subject, strength, seed, steps, out, record)
    except KeyboardInterrupt:  # between the steps of a run, where nothing of it is under way
        print("stopped by you", file=sys.stderr)
        code = INTERRUPTED
    if code == INTERRUPTED:
        raise typer.Exit(code)
    leave(Exit(code))


def _cases(faults: str, healthy: str, own: list[str], seeds: str, steps: int, set_: list[str], out: Path) -> list[Case]:
    """Return the cases that the options ask for. Raises InputError with every problem."""
    from rlvitals.grpo.config import Config, with_settings
    from rlvitals.grpo.tasks.load import kind_of
    from rlvitals.lab.cases import cases_of, refused
    from rlvitals.lab.find import choose, own_faults, seeds_of

    problems: list[Problem] = _not_a_folder(out, "--out")
    given = pairs(set_, "--set", "KEY=VALUE", problems)
    problems += _of_the_call(given)
    more: dict[str, object] = {}
    subjects = []
    try:
        found = with_settings(Config(), given)
        kind_of(found.task)
        more = {k: getattr(found, k) for k in given}
    except InputError as error:
        problems += error.problems
    names = _names(faults) if faults or healthy or own else ["all"]
    for wanted, is_healthy in ((names, False), (_names(healthy), True)):
        try:
            subjects += [(s, "") for s in choose(wanted, healthy=is_healthy)]
        except InputError as error:
            problems += error.problems
    try:
        subjects += own_faults(own)
    except InputError as error:
        problems += error.problems
    try:
        chosen = seeds_of(seeds)
    except InputError as error:
        problems += error.problems
    if not subjects and not problems:
        problems.append(Problem("nothing to run", "--faults, --healthy and --fault", "no fault and no healthy run",
                                "at least one", "List them: rlvitals lab list"))  # fmt: skip
    if problems:
        raise InputError(*problems)
    cases = cases_of(subjects, chosen, steps=steps, more=more)
    if wrong := refused(cases):
        raise InputError(*wrong)
    return cases


def _not_a_folder(out: Path, where: str) -> list[Problem]:
    """Refuse a folder that cannot be one, before every run fails on it."""
    first = next(part for part in (out, *out.absolute().parents) if part.exists())
    if first.is_dir():
        return []
    return [Problem("not a folder", where, f"the file {first}", "a folder, or a name that is free")]


def _of_the_call(given: Mapping[str, str]) -> list[Problem]:
    """Refuse what an option of its own gives, and a model that is a path to nothing."""
    from rlvitals.lab.valid import OF_THE_CALL

    found = [
        Problem(f"{name} has an option of its own", f"--set {name}={given[name]}", expected=f"{option} {given[name]}")
        for name, option in OF_THE_CALL.items()
        if name in given
    ]
    model = given.get("model", "")
    if model.startswith(("/", ".", "~")) and not Path(model).expanduser().is_dir():
        found.append(Problem("no such model", f"--set model={model}", "no folder", "a folder with config.json, "
                             "tokenizer and safetensors, or the name of a model"))  # fmt: skip
    return found


def _of_another_version(cases: list[str], again: str) -> str:
    """Say which results are of a fault that has changed since."""
    more = f" and {len(cases) - SAID} more" if len(cases) > SAID else ""
    were = "run was" if len(cases) == 1 else "runs were"
    return (
        f"{len(cases)} {were} trained with another version of their fault: {', '.join(cases[:SAID])}{more}. Train "
        f"them again ({again}) or remove their folders"
    )


def _runs(n: int) -> str:
    return f"{n} run{'' if n == 1 else 's'}"


def _tell(torn: list[Problem], then: str) -> None:
    """Say which files hold no result, and what becomes of them."""
    for problem in torn:
        print(f"{problem}: {then}", file=sys.stderr)


def _list(runs: list[str], what: str, then: str) -> None:
    """Say of which runs something must be known beside the figures."""
    if runs:
        verb = "is" if len(runs) == 1 else "are"
        print(f"{_runs(len(runs))} {what} {verb} {then}:", *runs, sep="\n  ", file=sys.stderr)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _kept(out: Path, results: Path | None, date: str, own: list[str]) -> Kept:
    """Return kept results, or what is kept of the runs in a folder. Raises InputError when there is nothing."""
    from rlvitals import __version__
    from rlvitals.lab.kept import keep, read

    if results is not None:
        if own:
            raise InputError(Problem("kept results hold their own descriptions", "--fault", ", ".join(own),
                                     "--fault with a folder of runs, or --results alone"))  # fmt: skip
        return read(results)
    from rlvitals.cli.train import require_packages

    require_packages()
    from rlvitals.lab.about import about, from_json
    from rlvitals.lab.faults import FAULTS
    from rlvitals.lab.find import own_faults
    from rlvitals.lab.healthy import HEALTHY
    from rlvitals.lab.results import crashes_in, read_all
    from rlvitals.lab.run import is_other

    mine = [subject for subject, _ in own_faults(own)]
    found, torn = read_all(out) if out.is_dir() else ([], [])
    _tell(torn, "not scored, rlvitals lab run trains it anew")
    _list(crashes_in(out), "crashed in the code of the fault or on what it returned and", "not scored")
    _list([f"{r['case']}: {r['crash']}" for r in found if r.get("crash")], "ended in a crash and", "scored so")
    if not found:
        raise InputError(
            Problem("no results of the lab", str(out), expected="a folder that rlvitals lab run has filled",
                    hint="Make some: rlvitals lab run --faults tasks-too-hard")
        )  # fmt: skip
    known: list[Fault | Healthy] = [*FAULTS, *HEALTHY, *mine]
    by_name = {s.name: s for s in known}
    others = sorted(r["case"] for r in found if r["subject"] in by_name and is_other(r, by_name[r["subject"]]))
    if others:
        print(_of_another_version(others, "rlvitals lab run --fresh"), file=sys.stderr)
    now = {s.name: from_json(about(s)) for s in known}
    made = {"rlvitals": __version__, **({"date": date} if date else {})}
    return keep(found, made, now)


def _write_pages(kept: Kept, folder: Path) -> None:
    from rlvitals.cli.common import write_file
    from rlvitals.lab.html import html
    from rlvitals.lab.page import markdown

    folder.mkdir(parents=True, exist_ok=True)
    write_file(folder / "scoreboard.md", markdown(kept).encode())
    write_file(folder / "scoreboard.html", html(kept).encode())


def _width() -> int:
    """Return the columns of the terminal, 80 where there is none."""
    return shutil.get_terminal_size((80, 24)).columns


class _Bar:
    """A progress bar on a terminal, a line per run elsewhere."""

    def __init__(self, total: int, title: str) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self._console = Console(file=sys.stderr, highlight=False)
        self._total, self._title, self._done = total, title, 0
        self._bar: Progress | None = None
        if self._console.is_terminal and total:
            self._bar = Progress(
                BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}", markup=False),
                TimeRemainingColumn(), console=self._console,
            )  # fmt: skip
            self._task = self._bar.add_task("", total=total)

    def __enter__(self) -> _Bar:
        self._console.print(self._title, markup=False, soft_wrap=True)
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def said(self, name: str, text: str) -> None:
        """Show that a run has ended, and how."""
        self._done += 1
        if self._bar is not None:
            self._bar.update(self._task, completed=self._done, description=name)
            if text == "done":
                return
        self._console.print(f"{self._done}/{self._total} {name}: {text}", markup=False, soft_wrap=True)
