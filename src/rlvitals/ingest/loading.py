"""load(): paths -> one Run. Picks the adapter, reads the config beside the log, joins what belongs together."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rlvitals.errors import InputError, NotATrainingRun, Problem
from rlvitals.ingest import hygiene, registry
from rlvitals.ingest.adapter import Adapter
from rlvitals.ingest.assemble import Part, assemble, combine
from rlvitals.ingest.discover import has_log, is_checkpoint
from rlvitals.ingest.inputs import Loaded, is_rl, read_paths
from rlvitals.ingest.mapping import map_table
from rlvitals.ingest.rules import EVAL_PREFIX, STEP_METRIC, Resolver
from rlvitals.ingest.sources import STDIN
from rlvitals.ingest.table import RawTable
from rlvitals.metrics import METRICS, is_canonical
from rlvitals.schema import Evals, Event, Note, Provenance, Run, RunConfig, Unrecognised

if TYPE_CHECKING:
    from rlvitals.ingest.trajectories import Count
    from rlvitals.settings import Settings

MAX_NEAREST = 200  # unrecognised keys for which the nearest metric is looked up

_SUPERVISED_KEYS = frozenset(
    {"token_acc", "mean_token_accuracy", "eval_loss", "train_loss", "perplexity", "eval_token_acc"}
)


def load(
    *paths: str | Path,
    map: Mapping[str, str] | None = None,
    evals: Mapping[str, str | Path] | None = None,
    settings: Settings | None = None,
    rollouts: bool = True,
    counting: Count | None = None,
) -> Run:
    """Read a run from a file, a directory, several files of one run, or "-" for stdin (each also .gz or .zst).

    Args:
        map: canonical metric ("step" and "eval:NAME" too) -> the log's own key; wins over what was recognised.
        evals: held-out set name -> file with scores kept elsewhere.
        settings: read from rlvitals.toml beside the run or above when None.
        rollouts: read the rollout dump beside the log too.
        counting: how its facts are counted (`Growing.count` for a run that is read repeatedly); whole when None.

    Raises InputError with every problem found, NotATrainingRun for a log without RL metrics.
    """
    if not paths:
        raise InputError(Problem("no input given", expected="a log file, a run directory or -"))
    settings = settings if settings is not None else _find_settings(paths)
    loaded = read_paths(paths, counting)
    keys: frozenset[str] = frozenset().union(*(table.keys() for table in loaded.tables))
    user, notes = _user_map(settings, map or {}, keys)
    adapter = registry.pick(keys, "".join(table.text for table in loaded.tables)[:200_000])
    if adapter.prepare is not None:
        loaded = replace(loaded, tables=tuple([adapter.prepare(table) for table in loaded.tables]))
    config, config_notes = _config(loaded, adapter, settings)
    resolver = Resolver(adapter, keys, config, user)
    parts = [assemble(table, map_table(table, resolver)) for table in loaded.tables]
    part = combine(_same_run(parts))
    _require_rl(part, keys, loaded.name)
    held_out = {**_sized(part.evals, config), **_extra_evals(settings, evals)}
    provenance = _provenance(part, adapter, config)
    events = part.events + _checkpoints(loaded, int(part.step[-1]))
    audits, audit_notes = _audits(loaded.base)
    run = Run(
        name=loaded.name,
        step=part.step,
        columns=part.columns,
        trainer=replace(adapter.info, version=config.versions.get(adapter.info.name.lower(), adapter.info.version)),
        config=config,
        evals=held_out,
        segments=part.segments,
        events=tuple(sorted(events, key=lambda e: -1 if e.step is None else e.step)),
        provenance=provenance,
        unrecognised=_nearest(part.unrecognised),
        notes=(*loaded.notes, *notes, *part.notes, *config_notes, *audit_notes),
        sources=tuple(dict.fromkeys(table.source for table in loaded.tables)),
        settings=settings,
        audits=audits,
    )
    return _with_rollouts(run, loaded, counting) if rollouts else run


def _sized(evals: Mapping[str, Evals], config: RunConfig) -> dict[str, Evals]:
    """Return the logged held-out series with their number of items, where the settings say it."""
    items = config.eval_items or 0
    return {
        name: replace(found, items=items) if not found.items and found.metric == "accuracy" else found
        for name, found in evals.items()
    }


def _with_rollouts(run: Run, loaded: Loaded, counting: Count | None) -> Run:
    """Return the run with the rollouts that were named or lie beside its log."""
    from rlvitals.ingest.trajectories import attach, beside, joined

    if loaded.dump is not None:
        return joined(run, *loaded.dump)
    found = beside(loaded.base, loaded.places) if loaded.base is not None else None
    if found is None:
        return run
    return attach(run, found) if counting is None else attach(run, found, counting)


def _same_run(parts: Sequence[Part]) -> list[Part]:
    """Leave out parts without rows, and supervised ones beside a part that has a reward."""
    has_reward = [any(hygiene.is_reward_like(n) for n in p.columns) for p in parts]
    if not any(has_reward):
        return list(parts)
    rl_loss = any(rewarded and "loss" in p.columns for p, rewarded in zip(parts, has_reward, strict=True))
    kept: list[Part] = []
    notes: list[Note] = []
    for part, rewarded in zip(parts, has_reward, strict=True):
        if not rewarded and rl_loss and "loss" in part.columns:
            notes.append(Note("a table of supervised fine-tuning: left out", part.source, 0, int(part.step.size)))
        elif part.step.size or part.evals:
            kept.append(part)
    if not kept:
        return list(parts)
    return [replace(kept[0], notes=(*kept[0].notes, *notes)), *kept[1:]]


def _require_rl(part: Part, keys: frozenset[str], name: str) -> None:
    """Raise NotATrainingRun for a log that shows no reinforcement learning, InputError for one without rows."""
    evidence = [n for n in part.columns if is_rl(n) and n != "success_frac"]
    guessed_success = "success_frac" in part.columns and "loss" not in part.columns
    if part.step.size and (evidence or guessed_success):
        return
    if not part.step.size and any(is_rl(n) for n in part.provenance):
        why = "; ".join(dict.fromkeys(note.text for note in part.notes)) or "no row with a training metric"
        raise InputError(Problem("no row could be used", name, why, "rows with a step and a reward"))
    shown = ", ".join(sorted(keys)[:12]) + (" ..." if len(keys) > 12 else "")
    if keys & _SUPERVISED_KEYS or "loss" in part.columns:
        raise NotATrainingRun(
            Problem("this is the log of supervised training, not of an RL run", name, f"no reward; keys: {shown}",
                    "the log of a GRPO or RLVR run")
        )  # fmt: skip
    raise NotATrainingRun(
        Problem("no reward and no other RL metric found", name, f"the keys {shown}" if keys else "no keys",
                "the log of a GRPO or RLVR run", "If a key is the reward, say so with: --map reward_mean=KEY")
    )  # fmt: skip


def _user_map(
    settings: Settings | None, given: Mapping[str, str], keys: frozenset[str]
) -> tuple[dict[str, str], tuple[Note, ...]]:
    """Return the user's map. Raises InputError for unknown names; a setting for a key of another log is only noted."""
    problems: list[Problem] = []
    names = [m.name for m in METRICS]
    for canonical, raw in given.items():
        if not (is_canonical(canonical) or canonical == STEP_METRIC or canonical.startswith(EVAL_PREFIX)):
            near = difflib.get_close_matches(canonical, names, n=1)
            hint = f"Nearest: {near[0]}" if near else "List: rlvitals metrics"
            problems.append(Problem("unknown metric in the map", canonical, hint=hint))
        if raw not in keys:
            near = difflib.get_close_matches(raw, sorted(keys), n=1)
            hint = f"Nearest: {near[0]}" if near else ""
            problems.append(Problem("mapped key is not in the log", f"{canonical}={raw}", hint=hint))
    if problems:
        raise InputError(*problems)
    stored = settings.map if settings is not None else {}
    notes = tuple(
        Note(f"[map] {canonical} = {raw!r}: no such key in this log", str(settings.path))
        for canonical, raw in stored.items()
        if settings is not None and raw not in keys
    )
    return {**{c: r for c, r in stored.items() if r in keys}, **given}, notes


def _config(loaded: Loaded, adapter: Adapter, settings: Settings | None) -> tuple[RunConfig, tuple[Note, ...]]:
    """Return the config: the log's own facts, then what it prints, then files beside it, then the user's settings."""
    from rlvitals.ingest.configfiles import locate_config, read_mapping
    from rlvitals.ingest.configtext import scan_text

    config = RunConfig()
    notes: list[Note] = []
    for table in loaded.tables:
        config = config.merged(_facts(table))
        for label, mapping in _written_configs(table):
            found = read_mapping(mapping, adapter, label)
            config = config.merged(found.config)
            notes += found.notes
        if table.text:
            found = scan_text(table.text, adapter, Path(table.source).name)
            config = config.merged(found.config)
            notes += found.notes
    if loaded.base is not None:
        beside = locate_config(loaded.base, adapter, loaded.places.others)
        config = beside.config.merged(config)
        notes += beside.notes
    else:
        config = adapter.fixed.merged(config)
    return (config if settings is None else config.merged(settings.config)), tuple(notes)


def _written_configs(table: RawTable) -> list[tuple[str, Mapping[str, object]]]:
    """Return the settings that a tracker keeps beside the rows: (what it calls them, settings)."""
    configs = table.facts.get("configs")
    if not isinstance(configs, Mapping):
        return []
    return [(str(label), mapping) for label, mapping in configs.items() if isinstance(mapping, Mapping)]


def _facts(table: RawTable) -> RunConfig:
    """Return what trainer_state.json itself says about the run."""
    config = RunConfig()
    name = Path(table.source).name
    for fact, field in (("max_steps", "planned_steps"), ("logging_steps", "logging_steps")):
        value = table.facts.get(fact)
        if isinstance(value, int | float) and value >= 1 and value == int(value):
            sources = {field: f"{name}: {fact}"}
            config = config.merged(replace(RunConfig(sources=sources), **{field: int(value)}))  # type: ignore[arg-type]
    return config


def _provenance(part: Part, adapter: Adapter, config: RunConfig) -> dict[str, Provenance]:
    provenance = {n: p for n, p in part.provenance.items() if n in part.columns}
    if adapter.finish is not None:
        provenance = dict(adapter.finish(provenance, config))
    return hygiene.mark_placeholders(part.columns, provenance, config)


def _nearest(unrecognised: Sequence[Unrecognised]) -> tuple[Unrecognised, ...]:
    names = [m.name for m in METRICS if not m.name.endswith("/*")]
    out: list[Unrecognised] = []
    for i, item in enumerate(unrecognised):
        near = difflib.get_close_matches(item.key.lower(), names, n=1, cutoff=0.7) if i < MAX_NEAREST else []
        out.append(replace(item, nearest=near[0] if near else ""))
    return tuple(out)


def _checkpoints(loaded: Loaded, last_step: int) -> tuple[Event, ...]:
    """Return the run's checkpoints; around a single file those that can't be another run's."""
    base = loaded.base
    if base is None:
        return ()
    from rlvitals.ingest.checkpoints import find_checkpoints

    if base.is_dir():
        return find_checkpoints(base, loaded.places.others)
    inside = is_checkpoint(base.parent.name)  # checkpoint-20/trainer_state.json
    found = find_checkpoints(base.parent.parent if inside else base.parent)
    beside = tuple(event for event in found if "/" not in event.path)
    folders = {event.path.rpartition("/")[0] for event in found}
    if not beside and len(folders) == 1 and not has_log(base.parent / next(iter(folders))):
        beside = found
    return tuple(event for event in beside if event.step is not None and event.step <= last_step)


def _audits(base: Path | None) -> tuple[tuple[object, ...], tuple[Note, ...]]:
    """Return the records of audits in `.rlvitals/` beside the run, and a note for each that could not be read."""
    if base is None:
        return (), ()
    from rlvitals.auditresults import folder_of, read_folder

    folder = folder_of(base)
    found, broken = read_folder(folder)
    return found, tuple(Note(text, str(folder)) for text in broken)


def _find_settings(paths: Sequence[str | Path]) -> Settings | None:
    """Return the settings of the rlvitals.toml beside the first path or above it, if there is one."""
    from rlvitals.settings import find_settings, load_settings

    first = Path.cwd() if str(paths[0]) == STDIN else Path(paths[0]).expanduser()
    found = find_settings(first)
    return load_settings(found) if found is not None else None


def _extra_evals(settings: Settings | None, evals: Mapping[str, str | Path] | None) -> dict[str, Evals]:
    wanted: dict[str, str | Path] = {**(settings.evals if settings is not None else {}), **(evals or {})}
    if not wanted:
        return {}
    from rlvitals.ingest.evals import read_evals

    return {name: read_evals(name, Path(path)) for name, path in wanted.items()}
