"""Whether a patch to an agent's code may be proposed: it must parse, and open no new way to anything but computing.

Checked on the syntax tree, without running anything. No such check is complete: it keeps honest mistakes and plain
attacks out; the walls of meta/patches/confine.py and a person who reads the draft stand behind it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from meta.publish.changes import Change

# fmt: off
# What a patch may newly import: computing, and what every agent is made of. Anything else might reach out, or read
# the answers that it is graded by.
PURE = frozenset([
    "__future__", "abc", "bisect", "calendar", "collections", "copy", "dataclasses", "datetime", "decimal", "difflib",
    "enum", "fractions", "functools", "hashlib", "heapq", "itertools", "json", "math", "numbers", "operator", "random",
    "re", "statistics", "string", "textwrap", "types", "typing", "unicodedata", "zoneinfo",
])
PURE_NAMES = frozenset([
    "agents.base.AgentError", "agents.base.AnswerError", "agents.base.BaseAgent", "agents.base.InputError",
    "agents.base.Inputs", "agents.base.Item", "agents.model.schema.listed", "agents.model.schema.problems",
    "agents.model.schema.record", "agents.model.schema.text",
])

# Ways out that need no import: built-in names, and attributes of what is there (`typing.sys`, `root.read_text()`).
OUTWARD_NAMES = frozenset([
    "__builtins__", "__import__", "breakpoint", "compile", "eval", "exec", "globals", "input", "open", "vars",
])
OUTWARD_ATTRIBUTES = frozenset([
    "builtins", "ctypes", "environ", "importlib", "modules", "os", "posix", "socket", "subprocess", "sys",
    "glob", "iterdir", "open", "read_bytes", "read_text", "rglob", "unlink", "write_bytes", "write_text",
])
# fmt: on

_HIDDEN = re.compile(r"__\w+__")  # x.__class__.__subclasses__() and its like


def check_python(change: Change) -> Iterator[str]:
    """Parses, and opens no new way to the network, other processes, files or the interpreter."""
    try:
        after = outward(change.after or b"")
    except (SyntaxError, ValueError, RecursionError) as error:
        yield f"is not Python: {error}"
        return
    for name in sorted(after - outward(change.before or b"")):
        yield f"newly uses {name}: no new way to the network, processes, files or the interpreter"


def outward(source: bytes) -> set[str]:
    """The ways out that a source text names: modules that do more than compute, calls, attributes."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {_module(alias.name) for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            module = f"agents.{node.module or ''}".rstrip(".") if node.level else node.module or ""
            found |= {_imported(module, alias.name) for alias in node.names}
        elif isinstance(node, ast.Name):
            found |= {node.id} & OUTWARD_NAMES
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found |= {node.value} if _HIDDEN.fullmatch(node.value) else set()  # getattr(x, "__globals__")
        elif isinstance(node, ast.Attribute):
            hidden = _HIDDEN.fullmatch(node.attr) and node.attr != "__name__"
            if hidden or node.attr.lstrip("_") in OUTWARD_ATTRIBUTES:
                found.add(node.attr)
    return found - {""}


def _module(name: str) -> str:
    """What an imported module is called in a finding; empty when it only computes."""
    first = name.partition(".")[0]
    return "" if first in PURE else name if first == "agents" else first


def _imported(module: str, name: str) -> str:
    """The same for a name taken out of a module; a pure module may hold another that is not (`typing.sys`)."""
    if module.partition(".")[0] == "agents":
        full = f"{module}.{name}"
        return "" if full in PURE_NAMES else full
    return name if name.lstrip("_") in OUTWARD_ATTRIBUTES else _module(module)
