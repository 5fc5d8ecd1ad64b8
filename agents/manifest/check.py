"""Checks a manifest: everything that is wrong is found in one pass and told in one line.

First the JSON Schema (agents/manifest.schema.json: a field's `description` is what a person is told it must be),
then what a schema cannot see: names used twice, files, modules and callables that are not there.
"""

from __future__ import annotations

import difflib
import json
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from agents.manifest.code import callable_problem, source_of
from agents.model.schema import cut, faults, read_schema, schema_problem
from telemetry.edge.errors import BadInput
from telemetry.edge.files import MANIFEST, read_again
from telemetry.edge.records import load_json, load_yaml
from telemetry.edge.text import some

SCHEMA = Path(__file__).parents[1] / "manifest.schema.json"
EVERYONE = "*"
MOST_LISTED = 24  # names in one message


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


def unchecked(root: Path) -> dict[str, Any]:
    """The manifest as it is written, for who must not import what it names; its agents are mappings with a name."""
    raw = _read(root / MANIFEST)
    entries = raw.get("agents") if isinstance(raw, dict) else None
    if not isinstance(entries, list) or not all(
        isinstance(_mapping(one).get("name"), str) for one in entries
    ):
        raise BadInput(f"{MANIFEST}: agents: must be a list of mappings, each with a name")
    return dict(raw)


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
                yield f"{where}{name}: unknown field ({_suggested(str(name), list(known))})"
        elif fault.keyword == "dependentRequired":
            for name, needed in rule["dependentRequired"].items():
                if name in fault.value:
                    yield f"{where}{name}: only beside {', '.join(needed)}"
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


def _suggested(name: str, allowed: Sequence[str]) -> str:
    """What may have been meant, and what is allowed, as far as it fits a line."""
    meant = difflib.get_close_matches(name, allowed, n=1)
    said = f"did you mean {meant[0]}? " if meant else ""
    return f"{said}allowed: {some(allowed, MOST_LISTED)}"


def _name(entry: object, index: int) -> str:
    name = entry.get("name") if isinstance(entry, dict) else None
    return name if isinstance(name, str) and name else f"[{index}]"


def _reference_problems(raw: Mapping[str, Any], root: Path) -> Iterator[str]:
    """What a schema cannot see: names, files, modules and callables that are not there."""
    domain = raw.get("domain")
    if isinstance(domain, str) and isinstance(missing := source_of(domain), str):
        yield f"domain: {missing}"
    settled = _mapping(raw.get("outcomes")).get("call")
    if isinstance(settled, str) and ":" in settled and (problem := callable_problem(*settled.split(":", 1))):
        yield f"outcomes.call: {problem}"
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
    if isinstance(module, str) and isinstance(name, str) and (problem := callable_problem(module, name)):
        yield f"{'module' if isinstance(source_of(module), str) else 'callable'}: {problem}"
    feed, signal = _mapping(entry.get("inputs")), _mapping(entry.get("signal"))
    named = {"eval_adapter": entry.get("eval_adapter"), "signal.call": signal.get("call")}
    named |= {f"inputs.{key}": feed.get(key) for key in ("call", "days")}
    named["iterate.by"] = _mapping(entry.get("iterate")).get("by")
    tools = _strings(entry.get("tools"))
    named |= {f"tools.{at}": tool for at, tool in enumerate(tools)}
    short = [tool.rpartition(":")[2] for tool in tools]
    for tool in dict.fromkeys(short):
        if short.count(tool) > 1:
            yield f"tools: {tool!r} is offered {short.count(tool)} times, names must differ"
    for where, code in named.items():
        if isinstance(code, str) and ":" in code and (problem := callable_problem(*code.split(":", 1))):
            yield f"{where}: {problem}"
    for key in ("prompt", "output_schema", "eval_suite"):
        path = entry.get(key)
        if isinstance(path, str) and not _is_file(root, path):
            yield f"{key}: no such file {path!r}"
    if "command" in entry:
        yield from _command_problems(entry)
    elif module in (None, "agents.prompted"):
        for key in ("prompt", "output_schema"):
            if key not in entry:
                yield f"{key}: missing, an agent without code needs one"
    schema = entry.get("output_schema")
    if isinstance(schema, str) and _is_file(root, schema) and (problem := _bad_schema(root / schema)):
        yield f"output_schema: {schema!r} is not a JSON Schema: {problem}"


def _command_problems(entry: Mapping[str, Any]) -> Iterator[str]:
    if "module" in entry:
        yield "command: not beside module and callable, it is one or the other"
    try:
        shlex.split(str(entry["command"]))
    except ValueError as problem:
        yield f"command: must be a command such as `node triage.js` ({problem})"


def _bad_schema(path: Path) -> str | None:
    try:
        return schema_problem(load_json(read_again(path)))
    except (OSError, ValueError) as error:
        return str(error)


def _unknown(where: str, given: Iterable[str], names: Sequence[str]) -> Iterator[str]:
    for name in given:
        if name not in names and name != EVERYONE:
            yield f"{where}: unknown agent {name!r} ({_suggested(name, list(dict.fromkeys(names)))})"


def _is_file(root: Path, path: str) -> bool:
    return ".." not in Path(path).parts and (root / path).is_file()


def _mapping(value: object) -> dict[str, Any]:
    entries = value.items() if isinstance(value, dict) else ()
    return {key: entry for key, entry in entries if isinstance(key, str)}


def _strings(value: object) -> list[str]:
    return [entry for entry in value if isinstance(entry, str)] if isinstance(value, list) else []
