"""What Python code can reach: the ways out of plain computing that a source text opens, one finding each.

Refused by reach, not by a list of bad words: an attribute whose name is computed, a name with an underscore that is
somebody else's, a module that another module happens to hold, a frame, a class that is not one's own. What a patch may
import is a short list of modules that only compute (boundaries.yaml); into those the guard really looks.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from telemetry.edge.records import load_yaml

_LISTS = load_yaml(Path(__file__).with_name("boundaries.yaml").read_bytes())
PURE, PURE_NAMES, OUTWARD_NAMES, OUTWARD_ATTRIBUTES = (
    frozenset(_LISTS[name]) for name in ("pure", "pure_names", "outward_names", "outward_attributes")
)
# Built-in names that take attributes by name: only `getattr(x, "name")` is as good as `x.name`.
BY_NAME = frozenset({"getattr", "hasattr", "setattr", "delattr"})
OWN_DUNDERS = frozenset({"__name__", "__doc__", "__all__"})
SHOWN = 80  # characters of an expression in a finding

_DUNDER = re.compile(r"__\w+__")
_FIELD = re.compile(r"\{[^{}]*[.\[]\s*_")  # "{0._os}".format(random)
_UNKNOWN: Final = object()


def outward(source: bytes) -> set[str]:
    """Every way out that a source text opens; SyntaxError, ValueError or RecursionError where it is no Python."""
    return set(_Reader().read(ast.parse(source)))


class _Reader:
    """Walks one module; `imported` is what its names stand for, where that is known."""

    def __init__(self) -> None:
        self.imported: dict[str, Any] = {}
        self.called: set[ast.AST] = set()
        self.own: set[ast.AST] = set()  # `self` and `super()` where they are what they say

    def read(self, tree: ast.Module) -> Iterator[str]:
        for node in ast.walk(tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                yield from self._imports(node)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                self.called.add(node.func)
            if isinstance(node, ast.ClassDef):
                self._methods(node)
        for node in ast.walk(tree):
            match node:
                case ast.Name():
                    yield from self._name(node)
                case ast.Attribute():
                    yield from self._attribute(node)
                case ast.Call():
                    yield from self._call(node)
                case ast.MatchClass():  # `case object(_os=x)` takes attributes, too
                    yield from (name for name in node.kwd_attrs if self._hidden(name))
                case ast.Constant(value=str(text)) if _DUNDER.fullmatch(text) or _FIELD.search(text):
                    yield text if _DUNDER.fullmatch(text) else _shown(node)

    def _methods(self, node: ast.ClassDef) -> None:
        for method in node.body:
            if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef) and method.args.args:
                first = method.args.args[0].arg
                for inner in ast.walk(method):
                    if (isinstance(inner, ast.Name) and inner.id == first) or _is_super(inner):
                        self.own.add(inner)
                if method.name == "__init__":
                    parts = [one for one in ast.walk(method) if isinstance(one, ast.Attribute)]
                    self.own |= {one for one in parts if one.value in self.own}

    def _imports(self, node: ast.Import | ast.ImportFrom) -> Iterator[str]:
        if isinstance(node, ast.Import):
            for alias in node.names:
                if said := _module(alias.name):
                    yield said
                else:
                    whole = alias.name if alias.asname else alias.name.partition(".")[0]
                    self.imported[alias.asname or whole] = importlib.import_module(whole)
            return
        module = f"agents.{node.module or ''}".rstrip(".") if node.level else node.module or ""
        for alias in node.names:
            if _module(module):
                full = f"{module}.{alias.name}"
                yield from () if full in PURE_NAMES else (full,)
            else:
                yield from self._taken(alias, module)

    def _taken(self, alias: ast.alias, module: str) -> Iterator[str]:
        """A name taken out of a module that only computes."""
        if alias.name == "*":
            yield f"{module}.*"
            return
        value = getattr(importlib.import_module(module), alias.name, _UNKNOWN)
        self.imported[alias.asname or alias.name] = value
        if self._hidden(alias.name) or alias.name.startswith("_") or _foreign(value):
            yield alias.name

    def _name(self, node: ast.Name) -> Iterator[str]:
        dunder = _DUNDER.fullmatch(node.id) and node.id not in OWN_DUNDERS
        if node.id in OUTWARD_NAMES or (dunder and not isinstance(node.ctx, ast.Store)):
            yield node.id
        elif node.id in BY_NAME and node not in self.called:
            yield f"{node.id} as a value"

    def _call(self, node: ast.Call) -> Iterator[str]:
        if isinstance(node.func, ast.Name) and node.func.id in BY_NAME:
            name = node.args[1] if len(node.args) > 1 else None
            if node.func.id in ("setattr", "delattr"):
                yield _shown(node)
            elif not (isinstance(name, ast.Constant) and isinstance(name.value, str)):
                yield f"{_shown(node)} with a computed name"
            elif self._hidden(name.value) or name.value.startswith("_"):
                yield name.value
        if isinstance(node.func, ast.Attribute) and node.func.attr in ("format", "format_map"):
            text = node.func.value
            if not (isinstance(text, ast.Constant) and isinstance(text.value, str)):
                yield f"{_shown(node)} with a computed text"

    def _attribute(self, node: ast.Attribute) -> Iterator[str]:
        if not isinstance(node.ctx, ast.Load) and node not in self.own:
            yield f"{_shown(node)} = ..."  # of oneself at the start, of nobody else ever
        if self._hidden(node.attr):
            if not (node.attr == "__init__" and node.value in self.own):
                yield node.attr
            return
        private = node.attr.startswith("_") and node.attr not in OWN_DUNDERS
        if (private and node.value not in self.own) or _foreign(self._value(node)):
            yield _shown(node)

    def _value(self, node: ast.expr) -> Any:
        """What an expression stands for, as far as it is known from the imports."""
        if isinstance(node, ast.Name):
            return self.imported.get(node.id, _UNKNOWN)
        if isinstance(node, ast.Attribute):
            owner = self._value(node.value)
            return _UNKNOWN if owner is _UNKNOWN else getattr(owner, node.attr, _UNKNOWN)
        return _UNKNOWN

    @staticmethod
    def _hidden(name: str) -> bool:
        dunder = _DUNDER.fullmatch(name) and name not in OWN_DUNDERS
        return bool(dunder) or name.lstrip("_") in OUTWARD_ATTRIBUTES


def _is_super(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Name(id="super"), args=[]):
            return True
    return False


def _module(name: str) -> str:
    """What an imported module is called in a finding; empty when it only computes."""
    return "" if name.partition(".")[0] in PURE else name


def _foreign(value: Any) -> bool:
    """Whether a value that a module holds leads out of computing: another module, or a built-in that is refused."""
    if isinstance(value, ModuleType):
        return bool(_module(value.__name__))
    refused = OUTWARD_NAMES | BY_NAME
    return any(value is getattr(builtins, name, _UNKNOWN) for name in refused if value is not _UNKNOWN)


def _shown(node: ast.AST) -> str:
    return " ".join(ast.unparse(node).split())[:SHOWN]
