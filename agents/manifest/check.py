"""Checks a manifest: everything that is wrong is found in one pass and told in one line.

First the JSON Schema (agents/manifest.schema.json: a field's `description` is what a person is told it must be),
then what a schema cannot see: names used twice, files, modules and callables that are not there.
"""

from __future__ import annotations

import ast
import functools
import importlib.util
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from agents.model.schema import cut, faults, read_schema, schema_problem
from telemetry.edge.errors import BadInput
from telemetry.edge.files import MANIFEST, read_again
from telemetry.edge.records import load_yaml

SCHEMA = Path(__file__).parents[1] / "manifest.schema.json"
EVERYONE = "*"


def checked(root: Path) -> dict[str, Any]:
    """The manifest of a checkout as it was written, if nothing is wrong with it."""
    raw = _read(root / MANIFEST)
    problems = list(_schema_problems(raw))
    if isinstance(raw, dict) and isinstance(raw.get("agents"), list):
        problems += _reference_problems(raw, root)
    if problems:
        raise BadInput(f"{MANIFEST}: {'; '.join(dict.fromkeys(problems))}")
    manifest: dict[str, Any] = raw
    return manifest


def _read(path: Path) -> Any:
    try:
        return load_yaml(read_again(path).decode())
    except FileNotFoundError:
        raise BadInput(f"{MANIFEST}: no such file in {path.parent.parent}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{MANIFEST}: cannot be read: {error}") from error
    except BadInput as error:
        raise BadInput(f"{MANIFEST}: {error}") from None


def _schema_problems(raw: object) -> Iterator[str]:
    for fault in faults(read_schema(SCHEMA), raw):
        where, rule = _where(raw, fault.path), fault.rule
        known = rule.get("properties", {})
        if fault.keyword == "additionalProperties":
            for name in fault.value.keys() - known.keys():
                yield f"{where}{name}: unknown field (allowed: {', '.join(known)})"
        elif fault.keyword == "required":
            for name in rule["required"]:
                if name not in fault.value:
                    yield f"{where}{name}: missing, must be {known.get(name, {}).get('description', 'given')}"
        else:
            meaning = rule.get("description") or fault.said
            shown = cut(json.dumps(fault.value, default=str, ensure_ascii=False))
            yield f"{where.rstrip('.') or 'top level'}: must be {meaning}, not {shown}"


def _where(raw: Any, path: Sequence[str | int]) -> str:
    """`agents.macro_watcher.` for the path `agents.0`: a person knows the name, not the index."""
    parts = [str(part) for part in path]
    if len(path) > 1 and path[0] == "agents" and isinstance(path[1], int):
        parts[1] = _name(raw["agents"][path[1]], path[1])
    return "".join(f"{part}." for part in parts)


def _name(entry: object, index: int) -> str:
    name = entry.get("name") if isinstance(entry, dict) else None
    return name if isinstance(name, str) and name else f"[{index}]"


def _reference_problems(raw: Mapping[str, Any], root: Path) -> Iterator[str]:
    """What a schema cannot see: names, files, modules and callables that are not there."""
    domain = raw.get("domain")
    if isinstance(domain, str) and isinstance(missing := _tree(domain), str):
        yield f"domain: {missing}"
    entries = [entry for entry in raw["agents"] if isinstance(entry, dict)]
    names = [entry["name"] for entry in entries if isinstance(entry.get("name"), str)]
    for name in dict.fromkeys(names):
        if names.count(name) > 1:
            yield f"agents.{name}.name: used {names.count(name)} times, must be unique"
    for index, entry in enumerate(entries):
        where = f"agents.{_name(entry, index)}"
        yield from (f"{where}.{problem}" for problem in _agent_problems(entry, root))
    for path, affected in _mapping(raw.get("prompts")).items():
        if not _is_file(root, path):
            yield f"prompts.{path}: no such file"
        yield from _unknown(f"prompts.{path}", _strings(affected), names)
    yield from _unknown("retirement.exempt", _strings(_mapping(raw.get("retirement")).get("exempt")), names)
    for index, pair in enumerate(raw.get("critique_pairs") or ()):
        yield from _unknown(f"critique_pairs.{index}", _strings(pair), [*names, EVERYONE])
        if isinstance(pair, list) and pair and pair[0] == EVERYONE:
            yield f"critique_pairs.{index}: the critic must be an agent name, not '*'"


def _agent_problems(entry: Mapping[str, Any], root: Path) -> Iterator[str]:
    module, name = entry.get("module"), entry.get("callable")
    if isinstance(module, str) and isinstance(name, str) and (problem := _callable_problem(module, name)):
        yield f"{'module' if isinstance(_tree(module), str) else 'callable'}: {problem}"
    adapter = entry.get("eval_adapter")
    if isinstance(adapter, str) and ":" in adapter and (problem := _callable_problem(*adapter.split(":", 1))):
        yield f"eval_adapter: {problem}"
    for key in ("prompt", "output_schema", "eval_suite"):
        path = entry.get(key)
        if isinstance(path, str) and not _is_file(root, path):
            yield f"{key}: no such file {path!r}"
    if module == "agents.prompted":
        for key in ("prompt", "output_schema"):
            if key not in entry:
                yield f"{key}: missing, an agent without code needs one"
    schema = entry.get("output_schema")
    if isinstance(schema, str) and _is_file(root, schema) and (problem := _bad_schema(root / schema)):
        yield f"output_schema: {schema!r} is not a JSON Schema: {problem}"


def _bad_schema(path: Path) -> str | None:
    try:
        return schema_problem(json.loads(read_again(path)))
    except (OSError, ValueError) as error:
        return str(error)


def _unknown(where: str, given: Iterable[str], names: Sequence[str]) -> Iterator[str]:
    for name in given:
        if name not in names and name != EVERYONE:
            yield f"{where}: unknown agent {name!r} (allowed: {', '.join(dict.fromkeys(names))})"


def _is_file(root: Path, path: str) -> bool:
    return ".." not in Path(path).parts and (root / path).is_file()


def _mapping(value: object) -> dict[str, Any]:
    entries = value.items() if isinstance(value, dict) else ()
    return {key: entry for key, entry in entries if isinstance(key, str)}


def _strings(value: object) -> list[str]:
    return [entry for entry in value if isinstance(entry, str)] if isinstance(value, list) else []


def _callable_problem(module: str, name: str) -> str | None:
    """Why `module` has no callable `name` (`function` or `Class.method`), or None if it has: read, never run."""
    tree = _tree(module)
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


@functools.lru_cache(maxsize=256)
def _tree(module: str) -> ast.Module | str:
    """The source of a module, or why it cannot be had."""
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError, AttributeError):  # a parent is missing, or is not a package
        spec = None
    if spec is None or spec.origin is None:
        return f"no module named {module!r}"
    if not spec.origin.endswith(".py"):
        return ast.Module([], [])
    try:
        return ast.parse(Path(spec.origin).read_bytes())
    except (OSError, SyntaxError) as error:
        return f"module {module!r} cannot be read: {error}"


def _top_level(tree: ast.Module) -> dict[str, ast.AST]:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return {node.name: node for node in tree.body if isinstance(node, kinds)}


def _methods(module: str, owner: str, depth: int = 0) -> set[str]:
    """The methods of a class, inherited ones too; `*` stands for a base that cannot be read."""
    tree = _tree(module)
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
