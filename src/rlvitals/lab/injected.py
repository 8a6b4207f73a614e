"""What was put into a run: a digest of the code that breaks it, with its settings, its strength and its first step."""

from __future__ import annotations

import ast
import functools
import inspect
import sys
from collections.abc import Callable
from typing import Any

from rlvitals.grpo.config import digest
from rlvitals.lab.fault import Fault, Healthy, Strength

CODE = {"Fault": ("inject", 3), "Strength": ("", -1), "Healthy": ("parts", 3)}
"""Calls of which a keyword (or place) alone is code; the rest describes, or is digested by its value."""


def injected(subject: Fault | Healthy, strength: Strength | None) -> str:
    """Return the digest of what a run has in it that its control has not, "" for a control or unreadable code.

    Descriptions (harm, roots, texts), comments and layout do not count. Code that the module imports is not followed.
    """
    if isinstance(subject, Healthy) or strength is None:
        return ""
    modules = modules_of(subject.inject)
    code = [_code_of(name) for name in sorted(modules)]
    if not all(code):
        return ""
    settings = sorted((str(k), str(v)) for k, v in subject.settings.items())
    return digest([code, settings, strength.value, subject.start, subject.steps])


def modules_of(function: Callable[..., Any]) -> set[str]:
    """Return the modules that a function and the functions it holds were written in."""
    found: set[str] = set()
    todo: list[Any] = [function]
    seen: set[int] = set()
    while todo:
        at = todo.pop()
        if isinstance(at, functools.partial):
            todo += [at.func, *at.args, *at.keywords.values()]
        elif callable(at) and id(at) not in seen:
            seen.add(id(at))
            found.add(str(getattr(at, "__module__", "")))
            todo += [cell.cell_contents for cell in getattr(at, "__closure__", None) or ()]
    return found


def _code_of(name: str) -> str:
    """Return a module as normal text without descriptions, "" where it has no text."""
    module = sys.modules.get(name)
    try:
        tree = ast.parse(inspect.getsource(module)) if module is not None else None
    except (OSError, TypeError, SyntaxError):
        return ""
    if tree is None:
        return ""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef):
            _drop_docstring(node)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in CODE:
            keyword, place = CODE[node.func.id]
            node.keywords = [k for k in node.keywords if k.arg == keyword]
            node.args = node.args[place : place + 1] if place >= 0 else []
    return ast.unparse(tree)


def _drop_docstring(node: ast.Module | ast.FunctionDef | ast.ClassDef) -> None:
    first = node.body[0] if node.body else None
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
        node.body = node.body[1:] or [ast.Pass()]
