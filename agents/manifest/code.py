"""Code that the manifest names: looked up in its source text when that is checked, imported when it is needed."""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib
import importlib.util
from collections.abc import Callable, Iterable
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

from telemetry.edge.errors import BadInput
from telemetry.edge.files import read_again


def load_code(name: str, where: str) -> Callable[..., Any]:
    """The function that `module:function` names; `where` says in a complaint who asked for it."""
    module, _, function = name.partition(":")
    try:
        found: Callable[..., Any] = getattr(importlib.import_module(module), function)
    except Exception as error:  # importing the user's code may do anything
        raise BadInput(f"{where} {name!r}: cannot be loaded ({error}); give module:function") from error
    if not callable(found):
        raise BadInput(f"{where} {name!r}: is not a function")
    return found


def code_hash(module: str) -> str:
    """Twelve hex digits of a module's source text; empty for one that has none."""
    spec = _found(module)
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return ""
    return hashlib.sha256(read_again(Path(spec.origin))).hexdigest()[:12]


def callable_problem(module: str, name: str) -> str | None:
    """Why `module` has no callable `name` (`function` or `Class.method`), or None if it has: read, never run."""
    tree = source_of(module)
    if isinstance(tree, str):
        return tree
    owner, _, method = name.partition(".")
    known = _top_level(tree)
    if owner not in known:
        return f"no {owner!r} in {module} (has: {_public(known)})"
    if method and method not in (methods := _methods(module, owner)) and "*" not in methods:
        return f"no {method!r} in {module}.{owner} (has: {_public(methods)})"
    return None


def _public(names: Iterable[str]) -> str:
    return ", ".join(sorted(name for name in names if not name.startswith("_"))) or "nothing"


def source_of(module: str) -> ast.Module | str:
    """The source of a module, or why it cannot be had."""
    spec = _found(module)
    if spec is None or spec.origin is None:
        return f"no module named {module!r}"
    if not spec.origin.endswith(".py"):
        return ast.Module([], [])
    try:
        return _parsed(spec.origin)
    except (OSError, SyntaxError) as error:
        return f"module {module!r} cannot be read: {error}"


def _found(module: str) -> ModuleSpec | None:
    try:
        return importlib.util.find_spec(module)
    except (ImportError, ValueError, AttributeError):  # a parent is missing, or is not a package
        return None


@functools.lru_cache(maxsize=256)
def _parsed(file: str) -> ast.Module:
    return ast.parse(Path(file).read_bytes())


def _top_level(tree: ast.Module) -> dict[str, ast.AST]:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return {node.name: node for node in tree.body if isinstance(node, kinds)}


def _methods(module: str, owner: str, depth: int = 0) -> set[str]:
    """The methods of a class, inherited ones too; `*` stands for a base that cannot be read."""
    tree = source_of(module)
    node = None if isinstance(tree, str) else _top_level(tree).get(owner)
    if isinstance(tree, str) or not isinstance(node, ast.ClassDef) or depth > 8:
        return {"*"}
    found = {part.name for part in node.body if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef)}
    imported = {
        alias.asname or alias.name: (line.module, alias.name)
        for line in tree.body
        if isinstance(line, ast.ImportFrom) and line.module and line.level == 0
        for alias in line.names
    }
    for base in node.bases:
        if not isinstance(base, ast.Name):
            found.add("*")
        elif base.id in imported:
            found |= _methods(*imported[base.id], depth + 1)
        else:
            found |= _methods(module, base.id, depth + 1)
    return found
