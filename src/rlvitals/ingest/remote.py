"""Runs elsewhere: files and folders through fsspec (s3://, gs://, hf://, https://), W&B runs through its API."""

from __future__ import annotations

import atexit
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

from rlvitals.errors import InputError, Problem
from rlvitals.ingest import discover
from rlvitals.ingest.configfiles import NAMES
from rlvitals.ingest.sources import MAX_WHOLE

WANDB_SCHEME = "wandb://"
MAX_FILES = 500  # fetched of a remote folder
MAX_LISTED = 20_000  # entries of a remote folder that are looked at

_CREDENTIALS = re.compile(r"://[^/@\s]*@")
_CONFIGS = frozenset(name.rpartition("/")[2] for name in NAMES)


def is_remote(given: str) -> bool:
    return "://" in given


def shown(url: str) -> str:
    """Return a URL without a user name and password in it."""
    return _CREDENTIALS.sub("://...@", url)


def fetch(url: str) -> Path:
    """Copy a remote file or folder into a temporary folder, which is removed at exit. Raises InputError."""
    try:
        import fsspec
    except ImportError:
        raise InputError(
            Problem("remote paths need fsspec", shown(url), hint="Install it with: pip install 'rlvitals[remote]'")
        ) from None
    folder = Path(tempfile.mkdtemp(prefix="rlvitals-"))
    atexit.register(shutil.rmtree, folder, True)
    try:
        files, path = fsspec.core.url_to_fs(url)
        if files.isdir(path):
            return _fetch_folder(files, path, folder, url)
        local = folder / _safe_name(path)
        _copy(files, path, local, MAX_WHOLE, url)
    except InputError:
        raise
    except Exception as error:  # every filesystem raises its own kinds
        reason = shown(str(error)[:200]) or type(error).__name__
        raise InputError(Problem("cannot read the remote file", shown(url), reason)) from error
    return local


def _fetch_folder(files: Any, path: str, folder: Path, url: str) -> Path:
    """Copy the files that can be logs or configs; more bytes than fit are an error, not a silent cut."""
    root = path.rstrip("/")
    target = folder / _safe_name(root)
    target.mkdir(exist_ok=True)
    left, copied = MAX_WHOLE, 0
    for listed, entry in enumerate(sorted(files.find(root))):
        if listed >= MAX_LISTED or copied >= MAX_FILES:
            break
        parts = Path(entry[len(root) :].lstrip("/")).parts
        if not parts or ".." in parts or not _wanted(parts):
            continue
        local = target.joinpath(*parts)
        local.parent.mkdir(parents=True, exist_ok=True)
        left -= _copy(files, entry, local, left, url)
        copied += 1
    return target


def _wanted(parts: tuple[str, ...]) -> bool:
    """True for what a log or a config looks like, and for MLflow's files, which have no suffix."""
    name = parts[-1]
    mlflow = name == "meta.yaml" or any(part in ("metrics", "params") for part in parts[:-1])
    return name in _CONFIGS or mlflow or bool(discover.kind_of(Path(*parts)))


def _copy(files: Any, path: str, local: Path, limit: int, url: str) -> int:
    with files.open(path, "rb") as stream, local.open("wb") as out:
        copied = 0
        while chunk := stream.read(2**20):
            copied += len(chunk)
            if copied > limit:
                raise InputError(
                    Problem("the remote path is too large", shown(url), expected=f"at most {MAX_WHOLE >> 20} MB",
                            hint="Copy it here first and name the copy")
                )  # fmt: skip
            out.write(chunk)
    return copied


def _safe_name(path: str) -> str:
    name = path.rstrip("/").rsplit("/", 1)[-1].split("?", 1)[0]
    return name if name not in ("", ".", "..") else "remote.log"
