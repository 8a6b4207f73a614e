"""rlvitals.toml: the user's own map of keys, thresholds, tolerances, price, switched-off checks and held-out files."""

from __future__ import annotations

import difflib
import math
import re
import tomllib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from dataclasses import fields as dataclass_fields
from pathlib import Path

from rlvitals.errors import InputError, Problem
from rlvitals.metrics import METRICS, is_canonical
from rlvitals.runconfig import MAX_TEXT, Rejected, coerce, kinds
from rlvitals.schema import RunConfig

FILE_NAME = "rlvitals.toml"
VERSIONS = "versions"  # the one table inside [config]
USER = "user"  # the source shown for everything that the user set
MAX_BYTES = 1_000_000  # of a settings file (convention)
SECTIONS = ("map", "thresholds", "config", "price", "checks", "evals", "alerts")
PRICE_FIELDS = {"gpus": "gpus", "per_gpu_hour": "price_per_gpu_hour"}
ACTIONS = ("watch", "finish", "adjust", "fix", "stop")  # of check.Action, mildest first
VARIABLE = re.compile(r"RLVITALS_[A-Z0-9_]{1,80}")  # a settings file may name no other part of the environment
EVAL_PREFIX = "eval:"  # "eval:NAME" in [map] names a column that holds a held-out score


@dataclass(frozen=True, slots=True)
class CheckOff:
    """A check that the user switched off, and why."""

    id: str
    reason: str


@dataclass(frozen=True, slots=True)
class AlertSettings:
    """Which alerts are sent, and where. Secrets stay in the environment: here are only the names of its variables.

    Attributes:
        apprise: variables that hold one address of apprise each.
        command: variable that holds the command line of a program; "" for none.
        trackio, wandb, mlflow: tell it to the run of that tracker in the training process.
        mildest: the mildest action that is told.
        repeat_minutes: between two messages about one check that say nothing new or worse.
        resolved: also tell what eased or is over.
        docs: address under which docs/ can be read, for the links; "" for paths.
        follow: `rlvitals check --follow` sends them too, but not to trackers: their run is in the training process.
    """

    apprise: tuple[str, ...] = ()
    command: str = ""
    trackio: bool = False
    wandb: bool = False
    mlflow: bool = False
    mildest: str = "adjust"
    repeat_minutes: float = 60.0
    resolved: bool = True
    docs: str = ""
    follow: bool = False

    def channels(self) -> tuple[tuple[str, str], ...]:
        """Return the channels that are on: kind and, where it has one, environment variable."""
        trackers = ("trackio", "wandb", "mlflow")
        return (
            *(("apprise", variable) for variable in self.apprise),
            *((("command", self.command),) if self.command else ()),
            *((kind, "") for kind in trackers if getattr(self, kind)),
        )


@dataclass(frozen=True)
class Settings:
    """What a user set in rlvitals.toml.

    Attributes:
        map: canonical metric (or "step", or "eval:NAME") -> the trainer's key.
        thresholds: "ID.name" of a check's threshold -> the user's value.
        config: RunConfig fields, each with source "user"; the price is among them.
        off: checks that are switched off.
        evals: name of a held-out set -> its file.
        alerts: which alerts a monitor sends, and where.
    """

    map: Mapping[str, str] = field(default_factory=dict)
    thresholds: Mapping[str, float] = field(default_factory=dict)
    config: RunConfig = field(default_factory=RunConfig)
    off: tuple[CheckOff, ...] = ()
    evals: Mapping[str, Path] = field(default_factory=dict)
    alerts: AlertSettings = field(default_factory=AlertSettings)
    path: Path | None = None


def find_settings(run: Path, cwd: Path | None = None) -> Path | None:
    """Return the rlvitals.toml beside a run, or in a folder above it up to the working directory, or there."""
    here = (cwd or Path.cwd()).resolve()
    folder = run.resolve() if run.is_dir() else run.resolve().parent
    folders = [folder]
    if folder.is_relative_to(here):
        folders += [up for up in folder.parents if up.is_relative_to(here)]
    else:
        folders.append(here)
    return next((up / FILE_NAME for up in folders if (up / FILE_NAME).is_file()), None)


def load_settings(path: Path) -> Settings:
    """Return the settings of a file.

    Raises:
        InputError: with every problem of the file at once.
    """
    data = _read(path)
    problems = [
        _unknown(f"[{name}]", name, SECTIONS, path, f"one of [{'], ['.join(SECTIONS)}]")
        for name in data
        if name not in SECTIONS
    ]
    tables = {name: _table(data, name, path, problems) for name in SECTIONS}
    settings = Settings(
        map=_map(tables["map"], path, problems),
        thresholds=_thresholds(tables["thresholds"], path, problems),
        config=_config(tables["config"], tables["price"], path, problems),
        off=_off(tables["checks"], path, problems),
        evals=_evals(tables["evals"], path, problems),
        alerts=_alerts(tables["alerts"], path, problems),
        path=path,
    )
    if problems:
        raise InputError(*problems)
    return settings


def check_names(settings: Settings, check_ids: Collection[str], thresholds: Collection[str]) -> None:
    """Compare the ids and threshold names in the settings with those that exist.

    Raises:
        InputError: with every id or threshold that no check has, and the nearest one.
    """
    path = settings.path or Path(FILE_NAME)
    problems = [
        _unknown(f"[thresholds] {name}", name, thresholds, path, "a threshold (ID.name)")
        for name in settings.thresholds
        if name not in thresholds
    ]
    problems += [
        _unknown("[checks] off", off.id, check_ids, path, "the id of a check")
        for off in settings.off
        if off.id not in check_ids
    ]
    if problems:
        raise InputError(*problems)


def _read(path: Path) -> dict[str, object]:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise InputError(Problem("Settings file too large", str(path), f"{path.stat().st_size:,} bytes"))
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(Problem("Cannot read the settings file", str(path), error.strerror or str(error))) from error
    except UnicodeDecodeError as error:
        raise InputError(Problem("The settings file is not UTF-8", str(path), f"byte {error.start}")) from error
    except tomllib.TOMLDecodeError as error:
        raise InputError(Problem("The settings file is not valid TOML", str(path), str(error))) from error


def _table(data: Mapping[str, object], name: str, path: Path, problems: list[Problem]) -> Mapping[str, object]:
    table = data.get(name, {})
    if isinstance(table, dict):
        return table
    problems.append(Problem("Wrong kind of value", f"{path}: {name}", repr(table)[:60], f"a table, [{name}]"))
    return {}


def _unknown(where: str, name: str, known: Iterable[str], path: Path, what: str) -> Problem:
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.4)
    hint = f"Nearest: {near[0]}" if near else ""
    return Problem(f"Unknown name {name!r}", f"{path}: {where}", expected=what, hint=hint)


def _flat(table: Mapping[str, object], prefix: str = "") -> dict[str, object]:
    """Return dotted key -> value: `A.b = 1` and `"A.b" = 1` mean the same."""
    out: dict[str, object] = {}
    for key, value in table.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict):
            out.update(_flat(value, f"{name}."))
        else:
            out[name] = value
    return out


def _map(table: Mapping[str, object], path: Path, problems: list[Problem]) -> dict[str, str]:
    out: dict[str, str] = {}
    names = [m.name for m in METRICS]
    for name, key in table.items():
        known = is_canonical(name) or name == "step" or (name.startswith(EVAL_PREFIX) and name != EVAL_PREFIX)
        if not known:
            problems.append(_unknown(f"[map] {name}", name, names, path, "a canonical metric (rlvitals metrics)"))
        elif not isinstance(key, str) or not key:
            problems.append(Problem("Wrong kind of value", f"{path}: [map] {name}", repr(key)[:60], "a key, as text"))
        else:
            out[name] = key
    return out


def _thresholds(table: Mapping[str, object], path: Path, problems: list[Problem]) -> dict[str, float]:
    out: dict[str, float] = {}
    for name, value in _flat(table).items():
        where = f"{path}: [thresholds] {name}"
        if "." not in name:
            problems.append(Problem("Not a threshold's name", where, name, "ID.name"))
        elif isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            problems.append(Problem("Wrong kind of value", where, repr(value)[:60], "a finite number"))
        else:
            out[name] = float(value)
    return out


def _config(table: Mapping[str, object], price: Mapping[str, object], path: Path, problems: list[Problem]) -> RunConfig:
    values: dict[str, object] = {}
    known = tuple(kinds())
    wanted = [("[config]", name, name, value, known) for name, value in table.items() if name != VERSIONS]
    wanted += [
        ("[price]", name, PRICE_FIELDS.get(name, name), value, tuple(PRICE_FIELDS)) for name, value in price.items()
    ]
    for section, name, target, raw, allowed in wanted:
        where = f"{section} {name}"
        if name not in allowed:
            problems.append(_unknown(where, name, allowed, path, f"a field of {section}"))
            continue
        value = coerce(target, raw)
        if isinstance(value, Rejected):
            problems.append(
                Problem("Value out of range or of a wrong kind", f"{path}: {where}", value.found, value.expected)
            )
        elif value is not None:
            values[target] = value
    _check_range(values, path, problems)
    versions = _versions(table.get(VERSIONS, {}), path, problems)
    return replace(RunConfig(versions=versions, sources=dict.fromkeys(values, USER)), **values)  # type: ignore[arg-type]


def _versions(table: object, path: Path, problems: list[Problem]) -> dict[str, str]:
    """Return the versions of environment, reward code and trainer that the user wrote down, by name."""
    where = f"{path}: [config.versions]"
    if not isinstance(table, dict):
        problems.append(Problem("Not a table", where, repr(table)[:MAX_TEXT], 'names with a version: reward = "1.2"'))
        return {}
    wrong = [name for name, value in table.items() if isinstance(value, dict | list | bool)]
    problems += [Problem("No version", f"{where} {name}", repr(table[name])[:MAX_TEXT], "a text") for name in wrong]
    return {str(name): str(value)[:MAX_TEXT] for name, value in table.items() if name not in wrong}


def _check_range(values: Mapping[str, object], path: Path, problems: list[Problem]) -> None:
    low, high = values.get("reward_min"), values.get("reward_max")
    if isinstance(low, float) and isinstance(high, float) and low >= high:
        found = f"reward_min {low:g}, reward_max {high:g}"
        problems.append(Problem("Empty reward range", f"{path}: [config]", found, "reward_min below reward_max"))


def _off(table: Mapping[str, object], path: Path, problems: list[Problem]) -> tuple[CheckOff, ...]:
    problems += [_unknown(f"[checks] {name}", name, ("off",), path, "off") for name in table if name != "off"]
    rows = table.get("off", [])
    where = f"{path}: [checks] off"
    form = 'a list of {id = "...", reason = "..."}'
    if not isinstance(rows, list):
        problems.append(Problem("Wrong kind of value", where, repr(rows)[:60], form))
        return ()
    out: list[CheckOff] = []
    for row in rows:
        fields = row if isinstance(row, dict) else {}
        name, reason = fields.get("id"), fields.get("reason")
        if not isinstance(name, str) or not name or set(fields) - {"id", "reason"}:
            problems.append(Problem("Not a switched-off check", where, repr(row)[:80], form))
        elif not isinstance(reason, str) or not reason.strip():
            problems.append(Problem(f"No reason to switch off {name}", where, expected=f'reason = "..." beside {name}'))
        else:
            out.append(CheckOff(name, reason.strip()))
    return tuple(out)


def _evals(table: Mapping[str, object], path: Path, problems: list[Problem]) -> dict[str, Path]:
    out: dict[str, Path] = {}
    for name, file in table.items():
        where = f"{path}: [evals] {name}"
        if not isinstance(file, str) or not file:
            problems.append(Problem("Wrong kind of value", where, repr(file)[:60], "a file, as text"))
            continue
        full = path.parent / file  # an absolute path stays as it is
        if full.exists():
            out[name] = full
        else:
            problems.append(Problem("No such held-out file", where, str(file), "a file or folder beside rlvitals.toml"))
    return out


def _alerts(table: Mapping[str, object], path: Path, problems: list[Problem]) -> AlertSettings:
    """Return [alerts]; `from` is the word for `mildest`, which is no name in Python."""
    fields = {"from" if f.name == "mildest" else f.name: f.name for f in dataclass_fields(AlertSettings)}
    values: dict[str, object] = {}
    for name, raw in table.items():
        where = f"{path}: [alerts] {name}"
        if name not in fields:
            problems.append(_unknown(f"[alerts] {name}", name, fields, path, f"one of {', '.join(fields)}"))
            continue
        value, expected = _alert_value(name, raw)
        if value is None:
            secret = name in ("apprise", "command")  # what stands there by mistake may be one
            problems.append(Problem("Wrong kind of value", where, "" if secret else repr(raw)[:60], expected))
        else:
            values[fields[name]] = value
    return replace(AlertSettings(), **values)  # type: ignore[arg-type]


def _alert_value(name: str, raw: object) -> tuple[object | None, str]:
    """Return the value of a key of [alerts], None when it is none, and what was expected."""
    variable = "the name of an environment variable that begins with RLVITALS_, never the secret itself"
    if name == "apprise":
        found = [raw] if isinstance(raw, str) else raw if isinstance(raw, list) else []
        named = all(isinstance(v, str) and VARIABLE.fullmatch(v) for v in found)
        return tuple(found) if found and named else None, f"a list: each {variable}"
    if name == "command":
        return raw if isinstance(raw, str) and VARIABLE.fullmatch(raw) else None, variable
    if name == "from":
        return raw if raw in ACTIONS else None, f"one of {', '.join(ACTIONS)}"
    if name == "repeat_minutes":
        whole = isinstance(raw, int | float) and not isinstance(raw, bool) and 0 <= raw < math.inf
        return float(raw) if whole else None, "a number of minutes, 0 or more"  # type: ignore[arg-type]
    if name == "docs":
        address = isinstance(raw, str) and raw.startswith(("https://", "http://"))
        return raw if address else None, "an address that begins with https:// or http://"
    return raw if isinstance(raw, bool) else None, "true or false"
