"""Tasks as files hold them: who may take one, and on what input it is done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, Final

from telemetry.edge.errors import BadInput
from telemetry.edge.frozen import frozen
from telemetry.edge.records import load_json, made

SCHEMA: Final = Path(__file__).parents[1] / "task.schema.json"
UNTYPED: Final = "any"  # the type of a task that names none


@frozen
class Requirements:
    """What a task asks of whoever takes it."""

    capabilities: tuple[str, ...] = ()


@frozen
class Task:
    """One task; without an `input` the agent that takes it reads its own source."""

    task_id: str
    task_type: str = UNTYPED
    complexity: str | None = None  # trivial | standard | complex
    tenant_id: str | None = None
    requirements: Requirements = field(default_factory=Requirements)
    input: Mapping[str, Any] | None = None

    @property
    def about(self) -> dict[str, Any]:
        """What goes on every row of it."""
        names = ("task_id", "task_type", "complexity", "tenant_id")
        return {name: getattr(self, name) for name in names}


def load_tasks(path: Path) -> list[Task]:
    """The task of a file, or its list of tasks."""
    from agents.model.schema import read_schema

    raw = read_json(path)
    entries = raw if isinstance(raw, list) else [raw]
    schema = read_schema(SCHEMA)
    for number, entry in enumerate(entries):
        check(schema, entry, f"{path}: {number}." if isinstance(raw, list) else f"{path}: ", "task")
    tasks = [made(Task, entry) for entry in entries]
    if len({task.task_id for task in tasks}) < len(tasks):
        raise BadInput(f"{path}: task_id: used twice, must be unique")
    return tasks


def read_json(path: Path) -> Any:
    """What a file of JSON holds."""
    try:
        return load_json(path.read_bytes())
    except ValueError as error:
        raise BadInput(f"{path}: not JSON: {error}") from None


def check(schema: Mapping[str, Any], value: Any, where: str, top: str) -> None:
    """Refuse what does not match the schema, in the words of its descriptions."""
    from agents.model.schema import faults

    for fault in faults(schema, value):
        wanted = fault.rule.get("description")
        raise BadInput(f"{where}{fault.at(top)}: {f'must be {wanted}' if wanted else fault.said}")
