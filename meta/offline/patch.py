"""How the offline model writes a patch: it sets one named constant to one named number, or says that it cannot.

It knows the payload alone (the recommendation and the source text), like every offline analyst. Anything that
takes understanding of code it declines; a constant such as `TRAILING = 60` it really changes.
"""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agents.offline.rules import Rules

_NUMBER = r"(-?\d+(?:\.\d+)?)(?![\w.]*\d|\w)"
_WANTED = re.compile(rf"(?:\bto|=|\bof|\bbecomes?|->)\s*{_NUMBER}")


def answer(_rules: Rules, payload: Mapping[str, Any]) -> dict[str, Any]:
    """`{"action": "patch" or "decline", "why": ..., "diff": ...}`."""
    source, path = str(payload.get("source") or ""), str(payload.get("path") or "")
    change = str((payload.get("recommendation") or {}).get("change") or "")
    if payload.get("refused"):
        return _decline("I would write the same again")
    try:
        constants = number_constants(source)
    except (SyntaxError, ValueError, RecursionError):
        return _decline("the source does not parse")
    named = [name for name in constants if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", change)]
    wanted = sorted(set(_WANTED.findall(change)))
    if len(named) != 1:
        return _decline(
            "it names several constants" if named else "it names no numeric constant of the module"
        )
    if len(wanted) != 1:
        return _decline("it names several numbers" if wanted else "it does not say to which number")
    [name], [number] = named, wanted
    old = constants[name]
    was = ast.get_source_segment(source, old)
    if was == number:
        return _decline(f"{name} is {number} already")
    lines = source.splitlines(keepends=True)
    line = lines[old.lineno - 1].encode()
    changed = line[: old.col_offset].decode() + number + line[old.end_col_offset :].decode()
    after = [*lines[: old.lineno - 1], changed, *lines[old.lineno :]]
    diff = "".join(difflib.unified_diff(lines, after, f"a/{path}", f"b/{path}"))
    return {"action": "patch", "why": f"sets {name} from {was} to {number}, as recommended", "diff": diff}


def number_constants(source: str) -> dict[str, ast.expr]:
    """The module-level constants that are plain numbers on one line, by name."""
    found: dict[str, ast.expr] = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target, value = node.targets[0], node.value
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            target, value = node.target, node.value
        else:
            continue
        inner = value.operand if isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.USub) else value
        number = isinstance(inner, ast.Constant) and type(inner.value) in (int, float)
        if isinstance(target, ast.Name) and number:
            found[target.id] = value
    return found


def _decline(why: str) -> dict[str, Any]:
    why = f"offline I can only set one named constant to one number: {why}"
    return {"action": "decline", "why": why, "diff": ""}
