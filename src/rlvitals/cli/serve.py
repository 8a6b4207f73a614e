"""`rlvitals serve`: a local web page over the runs of a folder, live."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rlvitals.cli.common import INPUT_PANEL, MAP_HELP, SETTINGS_HELP, Extras, load_run, missing_paths, read_extras
from rlvitals.errors import InputError, Problem

if TYPE_CHECKING:
    from rlvitals.live.web.security import Policy

HOST = "127.0.0.1"
PORT = 7420
MIN_TOKEN = 16  # characters
NOT_IN_COOKIES = frozenset(' ";,\\')
PANEL = "Who may see it"
HOST_HELP = "Address to listen on. Any other than this machine's own needs a token."
PORT_HELP = "Port to listen on; 0 for any free one."
TOKEN_HELP = "Ask for this token, at least 16 characters; read from RLVITALS_TOKEN too. A random one is printed where one is needed and none is given."  # noqa: E501
ALLOW_HELP = "Also answer to this host name. Repeatable."


def serve(
    paths: Annotated[list[str], typer.Argument(metavar="PATH", help="A run, or a folder of runs.")],
    host: Annotated[str, typer.Option("--host", metavar="ADDRESS", help=HOST_HELP, rich_help_panel=PANEL)] = HOST,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help=PORT_HELP, rich_help_panel=PANEL)] = PORT,
    token: Annotated[
        str, typer.Option("--token", metavar="TOKEN", help=TOKEN_HELP, rich_help_panel=PANEL, envvar="RLVITALS_TOKEN",
                          show_envvar=False)
    ] = "",
    allow_host: Annotated[
        list[str] | None, typer.Option("--allow-host", metavar="NAME", help=ALLOW_HELP, rich_help_panel=PANEL)
    ] = None,
    map_: Annotated[
        list[str] | None, typer.Option("--map", metavar="METRIC=KEY", help=MAP_HELP, rich_help_panel=INPUT_PANEL)
    ] = None,
    settings: Annotated[
        Path | None, typer.Option("--settings", metavar="FILE", help=SETTINGS_HELP, rich_help_panel=INPUT_PANEL)
    ] = None,
) -> None:  # fmt: skip
    """Show runs as a web page while they run: diagnosis, plots, rollouts.

    The page stays on this machine and loads nothing from the network. Ctrl-C ends it.
    """
    problems = missing_paths(paths)
    problems += [Problem("cannot be watched", p, expected="a file or folder") for p in paths if p == "-" or "://" in p]
    extras = read_extras(map_, None, settings, problems)
    if token and len(token) < MIN_TOKEN:
        found = f"{len(token)} characters"
        problems.append(Problem("the token is too short", "--token", found, f"at least {MIN_TOKEN}"))
    if token and not (token.isascii() and token.isprintable() and NOT_IN_COOKIES.isdisjoint(token)):
        problems.append(Problem("the token does not fit into a cookie", "--token", expected="letters and digits"))
    problems += _missing_extra()
    if problems:
        raise InputError(*problems)
    _run(paths, extras, host, port, token, allow_host or ())


def _missing_extra() -> list[Problem]:
    from importlib.util import find_spec

    missing = [name for name in ("starlette", "uvicorn") if find_spec(name) is None]
    hint = "Install them with: pip install 'rlvitals[serve]'"
    return (
        [Problem("packages are missing", "rlvitals serve", expected=" and ".join(missing), hint=hint)]
        if missing
        else []
    )


def _run(paths: Sequence[str], extras: Extras, host: str, port: int, token: str, names: Sequence[str]) -> None:
    from rlvitals.live.web.app import create_app
    from rlvitals.live.web.running import server_of
    from rlvitals.live.web.runs import Shelf
    from rlvitals.live.web.security import policy_for

    roots = [Path(p).expanduser() for p in paths]
    policy = policy_for(host, token, names)
    bound = _bind(host, port)
    shelf = Shelf(lambda: find(roots), lambda path, counting: load_run([str(path)], extras, counting))
    print(f"Showing {', '.join(paths)} at {_address(bound, host, policy)}", file=sys.stderr)
    print("Ctrl-C ends it.", file=sys.stderr, flush=True)
    server_of(create_app(shelf, policy)).run(sockets=[bound])


def _bind(host: str, port: int) -> socket.socket:
    """Return a listening socket. Raises InputError when the address is none or taken."""
    name = host.strip("[]")
    try:
        family, kind, proto, _, address = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)[0]
        bound = socket.socket(family, kind, proto)
        if os.name == "posix":
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except OSError as error:
        hint = "Choose another port with: --port 0"
        raise InputError(
            Problem("cannot listen there", f"{host}:{port}", error.strerror or str(error), hint=hint)
        ) from error
    return bound


def _address(bound: socket.socket, host: str, policy: Policy) -> str:
    port = bound.getsockname()[1]
    name = socket.gethostname() if host in ("0.0.0.0", "::") else host.strip("[]")
    shown = f"[{name}]" if ":" in name else name
    return f"http://{shown}:{port}/" + (f"?token={policy.token}" if policy.token else "")


def find(roots: Sequence[Path]) -> Iterator[tuple[str, Path]]:
    """Yield name and path of every run under the paths; a folder that is one run itself is one."""
    for root in roots:
        if root.is_file() or is_one_run(root):
            yield (root.parent.name + "/" + root.name if root.is_file() else root.absolute().name), root
            continue
        from rlvitals.cli.each import find_runs

        for path in find_runs(root):
            yield root.absolute().name if path == root else path.relative_to(root).as_posix(), path


def is_one_run(folder: Path) -> bool:
    """True when a folder holds the files of one run: marks of a run, or no two logs of a kind.

    A folder whose logs are several of one kind is a folder of runs, each a file.
    """
    from rlvitals.cli.each import RUN_MARKS
    from rlvitals.ingest.discover import has_log, kind_of

    if not folder.is_dir() or not has_log(folder):
        return False
    names = list(folder.iterdir())
    if any(p.name in RUN_MARKS for p in names):
        return True
    kinds = [kind for p in names if p.is_file() and (kind := kind_of(p))]
    return len(kinds) == len(set(kinds))
