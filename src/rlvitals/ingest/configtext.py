"""Settings printed in a console log: dicts, YAML blocks, command lines, argparse and dataclass reprs."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterator
from itertools import chain

from rlvitals.ingest.adapter import Adapter
from rlvitals.ingest.configmap import FoundConfig, map_config
from rlvitals.schema import RunConfig

MAX_HEAD = 4_000_000  # characters searched from a log's start (convention: configs are printed first)
MAX_TAIL = 200_000  # and from its end, where Hydra repeats the overrides of a failed job
MAX_BLOCK_LINES = 5_000  # of one printed dict (convention: verl prints about 600)
MAX_BLOCK_CHARS = 400_000
MAX_LINE = 20_000  # a longer line is no line of a printed config
MAX_MISSES = 200  # printed blocks that are no settings, before the search for dicts stops
MAX_REPRS = 200  # `Config(...)` expressions that are looked at

# A printed dict or YAML block counts as settings when it sets this many fields (convention); the learning
# rate does not count: rows of metrics carry it too.
LEAST_FIELDS = 2

Lines = list[tuple[str, str]]  # (actor, line)

_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_RAY = re.compile(r"^\((?P<actor>\w[\w.:]* (?:pid|ip)=[^)]{1,80})\) ?")
_OVERRIDE = re.compile(r"(?<![\w.])\+{0,2}(?P<key>[A-Za-z_]\w*(?:\.\w+)+)=(?P<value>'[^']*'|\"[^\"]*\"|[^\s'\",\]]+)")
_FLAG = re.compile(r"(?<!\S)--(?P<key>[A-Za-z][\w.-]*)(?:=|\s+)(?P<value>'[^']*'|\"[^\"]*\"|(?!--)[^\s'\"\\]+)")
_SWITCH = re.compile(r"(?<!\S)--(?P<key>[A-Za-z][\w.-]*)(?=\s+--|\s*\\?\s*$)")  # a flag without a value
_BRACE = re.compile(r"\{(?=['\"]|\s*$)")
_BULLET = re.compile(r"^- (?P<key>[A-Za-z_][\w.]*): `?(?P<value>[^\s`]+)`?\s*$")
_COMMAND = re.compile(r"\b(python\d?|torchrun|accelerate|deepspeed|swift|uv run|srun|trl)\b|\.py\b|^\s*--")
_REPR = re.compile(r"\b\w*(?:Namespace|Config|Arguments|Args)\(")
_FIELD = re.compile(r"(?P<key>[A-Za-z_]\w*)=(?P<value>'[^']*'|\"[^\"]*\"|[^,()\[\]{}\s]+)(?=\s*[,)]|\s*$)", re.M)
_YAML_LINE = re.compile(r"^\s*(?:- |[\w.-]+:(?:\s|$))")
_YAML_TOP = re.compile(r"^[A-Za-z_][\w.-]*:(?:\s|$)")


def config_from_text(text: str, adapter: Adapter) -> RunConfig:
    """Return the settings that a console log or a README shows."""
    return scan_text(text, adapter, "console log").config


def scan_text(text: str, adapter: Adapter, source: str) -> FoundConfig:
    """Return the settings that a text shows, with notes; a command line wins over a printed config."""
    lines = _lines(text)
    names = frozenset(path.rpartition(".")[2] for paths in adapter.config.values() for path in paths)
    names -= {"learning_rate", "lr"}

    def plausible(block: str) -> bool:
        return sum(name in block for name in names) >= LEAST_FIELDS

    found = FoundConfig()
    for mapping in chain(_yaml_blocks(lines, plausible), _dicts(lines, plausible)):
        block = map_config(mapping, adapter, source)
        if len(set(block.config.known()) - {"learning_rate"}) >= LEAST_FIELDS:
            found = found.then(block)
    for mapping in _reprs(lines):
        found = found.then(map_config(mapping, adapter, source))
    return found.then(map_config(_command_line(lines), adapter, source))


def _lines(text: str) -> Lines:
    """Return (actor, line) of the searched part, without colours; Ray's prefix tells the actors apart."""
    if len(text) > MAX_HEAD + MAX_TAIL:
        text = text[:MAX_HEAD] + "\n" + text[-MAX_TAIL:]
    lines = []
    for raw in re.split(r"\r\n|\r|\n", text):
        if len(raw) > MAX_LINE:
            continue
        line = _ANSI.sub("", raw)
        head = _RAY.match(line)
        lines.append((head["actor"], line[head.end() :]) if head else ("", line))
    return lines


def _dicts(lines: Lines, plausible: Callable[[str], bool]) -> Iterator[dict[str, object]]:
    """Yield every printed dict or JSON object; lines of other actors in between are passed over."""
    start = misses = 0
    while start < len(lines) and misses < MAX_MISSES:
        actor, line = lines[start]
        head = _BRACE.search(line)
        step = 1
        if head is not None:
            end, parsed = _read_dict(lines, start, actor, head.start(), plausible)
            if parsed is not None:
                yield parsed
                step = end - start + 1
            elif end > start:
                misses += 1
        start += step


def _read_dict(
    lines: Lines, start: int, actor: str, brace: int, plausible: Callable[[str], bool]
) -> tuple[int, dict[str, object] | None]:
    text = ""
    depth = 0
    for at in range(start, min(start + MAX_BLOCK_LINES, len(lines))):
        other, line = lines[at]
        if other != actor:
            continue
        part = line[brace:] if at == start else line
        depth += _depth(part)
        text += part + "\n"
        if depth <= 0 or len(text) > MAX_BLOCK_CHARS:
            return at, _literal_dict(text[: text.rfind("}") + 1]) if plausible(text) else None
    return start + 1, None


def _depth(line: str) -> int:
    """Return how many brackets a line opens and does not close; quoted ones don't count."""
    bare = re.sub(r"'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"", "", line)
    return sum(bare.count(c) for c in "{[(") - sum(bare.count(c) for c in "}])")


def _literal_dict(text: str) -> dict[str, object] | None:
    if len(text) > MAX_BLOCK_CHARS:
        return None
    value: object
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return None
    return {str(key): inner for key, inner in value.items()} if isinstance(value, dict) else None


def _yaml_blocks(lines: Lines, plausible: Callable[[str], bool]) -> Iterator[dict[str, object]]:
    """Yield runs of at least two nested lines of YAML."""
    block: list[str] = []
    for _, line in [*lines, ("", "")]:
        if _YAML_LINE.match(line) and (block or _YAML_TOP.match(line)) and len(block) < MAX_BLOCK_LINES:
            block.append(line)
            continue
        if len(block) >= 2 and any(part[:1] == " " for part in block):
            text = "\n".join(block)
            parsed = _safe_yaml(text) if plausible(text) else None
            if parsed is not None:
                yield parsed
        block = []


def _safe_yaml(text: str) -> dict[str, object] | None:
    if len(text) > MAX_BLOCK_CHARS or "&" in text:  # no anchors: they can expand without bound
        return None
    import yaml  # imported here: start-up stays light

    try:
        value = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        return None
    return {str(key): inner for key, inner in value.items()} if isinstance(value, dict) else None


def _reprs(lines: Lines) -> Iterator[dict[str, object]]:
    """Yield the scalar fields of `Namespace(...)` and `GRPOConfig(...)`, on one line or on many."""
    seen = 0
    for at, (actor, line) in enumerate(lines):
        head = _REPR.search(line)
        if head is None or seen >= MAX_REPRS:
            continue
        seen += 1
        text = line[head.end() - 1 :]
        depth = _depth(text)
        for other, more in lines[at + 1 : at + 1 + MAX_BLOCK_LINES]:
            if depth <= 0 or len(text) > MAX_BLOCK_CHARS:
                break
            if other == actor:
                depth += _depth(more)
                text += "\n" + more
        yield {hit["key"]: _scalar(hit["value"]) for hit in _FIELD.finditer(text)}


def _command_line(lines: Lines) -> dict[str, object]:
    """Return Hydra overrides and model-card bullets of any line, and `--key value` of commands."""
    found: dict[str, object] = {}
    continued = False
    for _, line in lines:
        for hit in _OVERRIDE.finditer(line):
            found[hit["key"]] = _scalar(hit["value"])
        bullet = _BULLET.match(line)
        if bullet is not None:  # hyperparameters of a model card
            found[bullet["key"]] = _scalar(bullet["value"])
        if continued or _COMMAND.search(line):
            for hit in _SWITCH.finditer(line):
                found[hit["key"].replace("-", "_")] = True
            for hit in _FLAG.finditer(line):
                found[hit["key"].replace("-", "_")] = _scalar(hit["value"])
        continued = line.rstrip().endswith("\\")
    return found


def _scalar(text: str) -> object:
    bare = text.strip()
    if len(bare) >= 2 and bare[0] == bare[-1] and bare[0] in "'\"":
        bare = bare[1:-1]
    try:
        value = ast.literal_eval(bare)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return bare
    return value if isinstance(value, (int, float, bool, str)) else bare
