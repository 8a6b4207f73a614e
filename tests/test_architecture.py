"""The shape of the code: imports run one way, start-up stays light, functions and files stay small."""

from __future__ import annotations

import ast
import functools
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SRC = Path(__file__).parents[1] / "src"
PACKAGE = SRC / "rlvitals"

# What each part may import of the package. A part is a module or a folder directly under rlvitals; lazy imports count
# too. "rlvitals" itself holds the version and the lazy public names.
MODEL = frozenset({"schema", "errors"})
JUDGE = MODEL | {"metrics", "stats", "onsets", "shares", "store", "view", "check", "auditresults"}
ENGINE = JUDGE | {"checks", "blind", "engine"}
ANSWER = ENGINE | {"diagnosis", "plan", "rollback", "logline", "conclude"}
INGEST = MODEL | {"metrics", "runconfig", "settings", "auditresults"}
ALLOWED: dict[str, frozenset[str]] = {
    "schema": frozenset(),
    "errors": frozenset(),
    "metric": MODEL,
    "metrics_rollouts": MODEL | {"metric"},
    "metrics": MODEL | {"metric", "metrics_rollouts"},
    "tails": frozenset(),
    "stats": MODEL | {"tails"},
    "onsets": MODEL | {"stats"},
    "shares": frozenset(),
    "runconfig": MODEL,
    "runbook": MODEL | {"stats"},
    "settings": MODEL | {"metrics", "runconfig"},
    "auditresults": frozenset({"errors"}),
    "env": frozenset(),
    "worker": frozenset({"errors"}),
    "rollouts": MODEL | {"metrics", "env", "settings", "runconfig"},
    "ingest": INGEST | {"rollouts"},
    "store": MODEL,
    "view": MODEL | {"metrics", "store"},
    "check": MODEL | {"metrics", "stats", "auditresults"},
    "checks": JUDGE | {"rlvitals"},
    "blind": JUDGE,
    "engine": JUDGE | {"blind"},
    "logline": JUDGE | {"blind"},
    "diagnosis": JUDGE | {"engine"},
    "plan": JUDGE | {"diagnosis"},
    "rollback": JUDGE | {"checks", "diagnosis"},
    "conclude": ANSWER,
    "focus": ANSWER,
    "exploit": ANSWER | {"rollouts"},
    "false_alarms": MODEL,
    "reference": ANSWER | {"ingest", "false_alarms", "runconfig"},
    "report": ANSWER | {"rlvitals"},
    "audit": MODEL
    | {"metrics", "stats", "shares", "tails", "env", "worker", "rollouts", "settings", "runconfig", "auditresults"}
    | {"rlvitals"},
    "live": ANSWER | {"ingest", "settings", "report", "rollouts", "env", "runconfig", "audit", "reference", "rlvitals"},
    "record": ANSWER | INGEST | {"ingest", "rollouts", "report", "tails", "rlvitals"},
    # the reference trainer: torch lives here
    "grpo": MODEL | {"env", "worker", "rollouts", "live", "settings", "runconfig"},
    "lab": ANSWER | INGEST | {"ingest", "rollouts", "env", "worker", "live", "grpo", "report", "audit", "record"}
    | {"reference"},
    "agents": ANSWER | INGEST | {"ingest", "rollouts", "record", "reference", "report", "rlvitals"},
    "cli": ANSWER
    | INGEST
    | {"ingest", "rollouts", "report", "live", "reference", "false_alarms", "focus", "env", "worker", "audit", "record"}
    | {"exploit", "agents", "grpo", "lab", "rlvitals"},
    "rlvitals": frozenset(),
    "__main__": frozenset({"cli"}),
}  # fmt: skip
EXCEPTIONS = frozenset({("diagnosis", "report")})  # Diagnosis._repr_html_ asks the report for itself, lazily
TORCH_HOMES = ("grpo", "lab")
MAX_FUNCTION_LINES = 60
MAX_FILE_LINES = 450


def sources() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


@functools.cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def part(path: Path) -> str:
    first = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    return "rlvitals" if first == "__init__" else first


def typing_only(path: Path) -> set[int]:
    """Return the ids of the nodes that stand under `if TYPE_CHECKING`."""
    blocks = (n for n in ast.walk(tree(path)) if isinstance(n, ast.If) and ast.unparse(n.test) == "TYPE_CHECKING")
    return {id(inner) for block in blocks for inner in ast.walk(block)}


def imports(path: Path) -> Iterator[str]:
    """Yield the dotted name of every module that a file imports at run time, lazy imports included."""
    skipped = typing_only(path)
    for node in ast.walk(tree(path)):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield node.module or ""
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def own(name: str) -> str:
    """Return the part that a dotted name of the package belongs to, "" for another package."""
    head, *rest = name.split(".")
    if head != "rlvitals":
        return ""
    return rest[0] if rest else "rlvitals"


def test_every_part_has_its_place() -> None:
    parts = {part(path) for path in sources()}
    assert parts - set(ALLOWED) == set(), "give the new part a line in ALLOWED"


def test_imports_run_one_way() -> None:
    wrong = [
        f"{path.relative_to(SRC)} imports {name}"
        for path in sources()
        for name in imports(path)
        if own(name)
        and own(name) not in ALLOWED[part(path)] | {part(path)}
        and (part(path), own(name)) not in EXCEPTIONS
    ]
    assert wrong == []


def test_allowed_imports_have_no_cycle() -> None:
    order: list[str] = []
    left = {name: {other for other in inner if other != name} for name, inner in ALLOWED.items()}
    while left:
        free = sorted(name for name, inner in left.items() if inner <= set(order))
        assert free, f"a cycle among {sorted(left)}"
        order += free
        left = {name: inner for name, inner in left.items() if name not in free}


def test_torch_stays_at_home() -> None:
    users = [p.relative_to(PACKAGE) for p in sources() if any(n.split(".")[0] == "torch" for n in imports(p))]
    assert [p for p in users if p.parts[0] not in TORCH_HOMES] == []


@functools.cache
def loaded_after(code: str) -> frozenset[str]:
    """Return the top-level modules that a fresh interpreter holds after running `code`."""
    script = f"{code}\nimport json, sys\nprint()\nprint(json.dumps(sorted({{m.split('.')[0] for m in sys.modules}})))"
    env = {"PYTHONPATH": str(SRC), "PATH": "/usr/bin:/bin"}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=env, check=True)
    return frozenset(json.loads(done.stdout.splitlines()[-1]))


def test_live_monitor_pulls_numpy_and_orjson_alone() -> None:
    found = loaded_after("import rlvitals.live.monitor") - loaded_after("pass") - set(sys.stdlib_module_names)
    assert {name for name in found if not name.startswith("_")} <= {"rlvitals", "numpy", "orjson"}


HELP = """
import contextlib, io, sys
sys.argv = ["rlvitals", "--help"]
from rlvitals.cli.main import main
with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
    main()
"""


@pytest.mark.parametrize("heavy", ["duckdb", "plotly", "jinja2", "numpy", "yaml", "matplotlib", "zstandard"])
def test_help_stays_light(heavy: str) -> None:
    assert heavy not in loaded_after(HELP)


def functions(path: Path) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{path.relative_to(SRC)}:{node.lineno} {node.name}", (node.end_lineno or 0) - node.lineno + 1


def test_functions_fit_a_screen() -> None:
    long = [
        f"{name}: {size} lines" for path in sources() for name, size in functions(path) if size > MAX_FUNCTION_LINES
    ]
    assert long == []


def test_files_stay_small() -> None:
    sizes = {p.relative_to(SRC): len(p.read_text(encoding="utf-8").splitlines()) for p in sources()}
    tables = {
        Path(f"rlvitals/{n}.py") for n in ("metrics", "metrics_rollouts", "false_alarms")
    }  # data, one entry after the other
    assert {str(p): n for p, n in sizes.items() if n > MAX_FILE_LINES and p not in tables} == {}


def test_no_sentence_is_left_hanging() -> None:
    """A string on a line of its own after an assignment is a sentence that lost its end."""
    for path in sorted(PACKAGE.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            assert not (isinstance(node, ast.Expr) and isinstance(node.value, ast.JoinedStr)), f"{path}:{node.lineno}"
