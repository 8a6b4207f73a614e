"""A trainer's own settings, however nested, as RunConfig: dotted paths, typed values, a source each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from rlvitals.ingest.adapter import Adapter
from rlvitals.runconfig import MAX_TEXT, Rejected, coerce, kinds
from rlvitals.schema import Note, RunConfig

MAX_KEYS = 20_000  # settings looked at (convention: the largest verl config has about 1,500)
MAX_DEPTH = 16  # levels of nesting (convention)

# A setting found at the end of a longer path is not the training's own when one of these stands before it.
OTHER_ROLES = frozenset(
    {
        "eval",
        "evaluation",
        "val",
        "val_kwargs",
        "validation",
        "test",
        "ref",
        "reference",
        "critic",
        "judge",
        "teacher",
        "reward_model",
        "env",
    }
)


@dataclass(frozen=True)
class FoundConfig:
    """What a config told, and which of its values could not be used."""

    config: RunConfig = field(default_factory=RunConfig)
    notes: tuple[Note, ...] = ()

    def then(self, other: FoundConfig) -> FoundConfig:
        """Return both, where `other` wins."""
        notes = self.notes + tuple(n for n in other.notes if n not in self.notes)
        return FoundConfig(self.config.merged(other.config), notes)


def flatten(mapping: Mapping[str, object]) -> dict[str, object]:
    """Return dotted path -> value; lists stay values; `a/b` paths (MLflow) are read as `a.b`."""
    flat: dict[str, object] = {}
    for path, value in _walk(_unwrap(mapping), "", 0):
        if len(flat) >= MAX_KEYS:
            break
        flat[path.replace("/", ".")] = value
    return flat


def _walk(value: object, path: str, depth: int) -> Iterator[tuple[str, object]]:
    if isinstance(value, Mapping) and value and depth < MAX_DEPTH:
        for key, inner in value.items():
            yield from _walk(inner, f"{path}.{key}" if path else str(key), depth + 1)
    elif path:
        yield path, value


def _unwrap(mapping: Mapping[str, object]) -> Mapping[str, object]:
    """Return W&B's and SwanLab's `{key: {value: x}}` as `{key: x}`."""
    rows = {key: row for key, row in mapping.items() if key not in ("_wandb", "wandb_version")}
    wrapped = bool(rows) and all(
        isinstance(row, Mapping) and "value" in row and set(row) <= {"value", "desc", "sort"} for row in rows.values()
    )
    if not wrapped:
        return mapping
    return {key: row["value"] for key, row in rows.items() if isinstance(row, Mapping)}


def config_from_mapping(mapping: Mapping[str, object], adapter: Adapter, source: str) -> RunConfig:
    """Return the RunConfig that a trainer's settings say; `source` names where they were read."""
    return map_config(mapping, adapter, source).config


def map_config(mapping: Mapping[str, object], adapter: Adapter, source: str) -> FoundConfig:
    """Return the RunConfig and a note for each value that a field can't have."""
    flat = flatten(mapping)
    wanted: dict[str, tuple[object, str]] = {}
    for name, paths in adapter.config.items():
        found = _first(flat, paths)
        if found is not None:
            wanted[name] = found
    if adapter.config_rules is not None:
        wanted.update(adapter.config_rules(flat))
    return _with_versions(_typed(wanted, source), flat)


def _with_versions(found: FoundConfig, flat: Mapping[str, object]) -> FoundConfig:
    """Add what a config says of versions: `versions.environment`, `versions.reward` and the like."""
    named = {key.removeprefix("versions."): value for key, value in flat.items() if key.startswith("versions.")}
    versions = {name: value[:MAX_TEXT] for name, value in named.items() if isinstance(value, str) and value}
    return replace(found, config=replace(found.config, versions=versions)) if versions else found


def _first(flat: Mapping[str, object], paths: tuple[str, ...]) -> tuple[object, str] | None:
    for path in paths:
        found = lookup(flat, path)
        if found is not None:
            return found
    return None


def lookup(flat: Mapping[str, object], path: str) -> tuple[object, str] | None:
    """Return the value at a path and its full path: exact, or the only one that ends with it."""
    value = flat.get(path)
    if _is_set(value):
        return value, path
    ending = "." + path
    hits = [
        (value, key)
        for key, value in flat.items()
        if key.endswith(ending) and _is_set(value) and not OTHER_ROLES & set(key[: -len(ending)].lower().split("."))
    ]
    same = {repr(value) for value, _ in hits}
    return hits[0] if len(same) == 1 else None


def _other_role(prefix: str) -> bool:
    return bool(OTHER_ROLES & set(prefix.lower().split(".")))


def _is_set(value: object) -> bool:
    return value is not None and not (isinstance(value, str) and (not value.strip() or "${" in value))


def _typed(wanted: Mapping[str, tuple[object, str]], source: str) -> FoundConfig:
    known = kinds()
    values: dict[str, object] = {}
    sources: dict[str, str] = {}
    notes: list[Note] = []
    for name, (raw, path) in wanted.items():
        if name not in known:
            continue
        value = coerce(name, raw)
        if value is None:
            continue
        if isinstance(value, Rejected):
            text = f"config value ignored: {path} is {value.found}, expected {value.expected} ({name})"
            notes.append(Note(text, file=source))
            continue
        values[name] = value
        sources[name] = f"{source}: {path}"
    config = replace(RunConfig(sources=sources), **values)  # type: ignore[arg-type]
    return FoundConfig(config, tuple(notes))
