"""Tools that an agent may use: plain typed functions, offered to the model in the form its endpoint takes.

    def lookup(symbol: str, days: int = 5) -> dict[str, float]:
        '''The closing prices of a symbol.'''

`tools: [my_pkg.tools:lookup]` in the manifest offers it. The model asks for a call; it is made here, timed, limited and
noted for the run's row, and the model reads what came of it. An offline analyst, or the agent's own code, calls it by
`call_tool("lookup", symbol="VIX")`. Arguments are held to the function's types before anything runs. A tool that fails
tells so whoever called it: that is no failure of the run.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import time
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import TimeoutError as TooLate
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from agents.model.schema import problems
from agents.model.threads import start
from telemetry.edge.errors import BadInput
from telemetry.edge.frozen import frozen
from telemetry.edge.records import load_json
from telemetry.logger import within
from telemetry.record.outcome import ToolCall
from telemetry.record.run import current_run, record_tool_call
from telemetry.texts import keep

TIMEOUT_S: Final = 10.0  # of one call
MOST_CALLS: Final = 20  # in one run: a model that goes round in circles is told to answer
MAX_RESULT: Final = 20_000  # characters of what a tool gives that the model reads

_SIMPLE: Final = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}


@frozen
class Tool:
    """A function with what a model is told of it."""

    name: str
    about: str
    parameters: Mapping[str, Any]  # a JSON Schema
    function: Callable[..., Any]

    @property
    def definition(self) -> dict[str, Any]:
        """As endpoints take it."""
        said = {"name": self.name, "description": self.about, "parameters": self.parameters}
        return {"type": "function", "function": said}


def described(function: Callable[..., Any]) -> Tool:
    """The tool that a typed function is; one that a model could not be told how to call is bad input."""
    name = function.__name__
    try:
        hints = get_type_hints(function)
        given = inspect.signature(function).parameters
    except (NameError, TypeError, ValueError) as problem:
        raise BadInput(f"tool {name}: its types cannot be read ({problem})") from None
    properties, required = {}, []
    for one in given.values():
        if one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD, one.POSITIONAL_ONLY) or one.name not in hints:
            raise BadInput(
                f"tool {name}: parameter {one.name} must be named and have a type, like `days: int`"
            )
        properties[one.name] = _schema(hints[one.name], f"tool {name}: parameter {one.name}")
        if one.default is one.empty:
            required.append(one.name)
    shape = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    return Tool(name, inspect.cleandoc(function.__doc__ or ""), shape, function)


def _schema(kind: Any, where: str) -> dict[str, Any]:
    """The JSON Schema of a type that JSON can say."""
    origin, parts = get_origin(kind), get_args(kind)
    if kind is Any:
        return {}
    if kind in _SIMPLE:
        return {"type": _SIMPLE[kind]}
    if origin is Literal:
        return {"enum": list(parts)}
    if origin in (Union, types.UnionType):
        return {"anyOf": [_schema(part, where) for part in parts]}
    if kind is list or origin is list:
        return {"type": "array", "items": _schema(parts[0], where) if parts else {}}
    if kind is dict or (origin is dict and parts[0] is str):
        return {"type": "object", "additionalProperties": _schema(parts[1], where) if parts else {}}
    raise BadInput(
        f"{where}: a type that JSON can say is due (str, int, float, bool, list, dict, Literal), not {kind}"
    )


_offered: ContextVar[Mapping[str, Tool]] = ContextVar("tools", default={})  # noqa: B039 - never changed


def offering(tools: Sequence[Tool]) -> AbstractContextManager[Mapping[str, Tool]]:
    """The run inside the block may use these."""
    return within(_offered, {tool.name: tool for tool in tools})


def offered() -> list[Tool]:
    """What the run around us may use."""
    return list(_offered.get().values())


class ToolError(Exception):
    """A tool that gave nothing; the words are for whoever called it."""


def call_tool(name: str, **arguments: Any) -> Any:
    """What the tool gives: for offline analysts, and for code of an agent's own. Raises ToolError."""
    with _noted(name, arguments) as call:
        future = start(call.checked(arguments), "tool")
        try:
            return call.gave(future.result(TIMEOUT_S))
        except TooLate:
            raise ToolError(f"no result after {TIMEOUT_S:g} s") from None


async def answer_call(name: str, arguments: str) -> str:
    """What a model reads of the call it asked for: JSON, also of what went wrong."""
    try:
        given = load_json(arguments or "{}")
        if not isinstance(given, dict):
            raise ToolError("arguments: an object is due")
        with _noted(name, given) as call:
            running = asyncio.wrap_future(start(call.checked(given), "tool"))
            try:
                async with asyncio.timeout(TIMEOUT_S):
                    found = await running
            except TimeoutError:
                raise ToolError(f"no result after {TIMEOUT_S:g} s") from None
            call.gave(found)
            return call.text
    except ValueError:
        said = "arguments: no JSON"
    except ToolError as problem:
        said = str(problem)
    return json.dumps({"error": said})


class _Call:
    """One call under way: its text is what a model reads."""

    def __init__(self, name: str) -> None:
        self.name, self.text, self.ok = name, "", False

    def checked(self, arguments: Mapping[str, Any]) -> Callable[[], Any]:
        """The work, if there is such a tool and it takes these arguments."""
        tools, run = _offered.get(), current_run()
        if self.name not in tools:
            raise ToolError(f"no tool {self.name!r} (there are: {', '.join(tools) or 'none'})")
        if run is not None and len(run.tools) >= MOST_CALLS:
            raise ToolError(f"{MOST_CALLS} calls in one run are enough; answer with what you have")
        if wrong := problems(tools[self.name].parameters, dict(arguments)):
            raise ToolError(f"arguments: {'; '.join(wrong)}")
        return lambda: tools[self.name].function(**arguments)

    def gave(self, found: Any) -> Any:
        """Take what came; what no model could read is an error."""
        try:
            self.text = json.dumps(found, ensure_ascii=False, allow_nan=False)[:MAX_RESULT]
        except (TypeError, ValueError, RecursionError) as problem:
            raise ToolError(f"gave something that is no JSON ({problem})") from None
        self.ok = True
        return found


@contextmanager
def _noted(name: str, arguments: Mapping[str, Any]) -> Iterator[_Call]:
    """A call that is timed and put on the run's row, however it ends; whatever it raises becomes a ToolError."""
    call, began, said = _Call(name), time.perf_counter(), ""
    try:
        yield call
    except ToolError as problem:
        said = str(problem)
        raise
    except (Exception, SystemExit) as problem:
        said = f"{type(problem).__name__}: {problem}"
        raise ToolError(said) from problem
    finally:
        took = round((time.perf_counter() - began) * 1000, 3)
        asked = keep(json.dumps(arguments, ensure_ascii=False, default=str, sort_keys=True))
        record_tool_call(ToolCall(name[:100], took, call.ok, asked, keep(call.text or said)))
