"""The table of every manifest field, made from the schema: `python -m agents.manifest.table` prints it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from agents.manifest.check import SCHEMA
from agents.model.schema import read_schema

Rule = Mapping[str, Any]


def fields_table() -> str:
    """One line a field: where it stands, what it is for, what it must be; those that are needed are in bold."""
    schema = read_schema(SCHEMA)
    agent = schema["$defs"]["agent"]
    lines = ["| field of an agent | what it must be |", "|---|---|", *_lines(schema, agent, "", ())]
    lines += ["", "| field of the manifest | what it must be |", "|---|---|"]
    # Of an agent's fields, and of defaults for them, all is said above.
    told = (*agent["properties"], "defaults", "agents")
    return "\n".join([*lines, *_lines(schema, schema, "", told)]) + "\n"


def _lines(schema: Rule, holder: Rule, above: str, briefly: Collection[str]) -> Iterator[str]:
    """The fields of a mapping, and those inside them, but for the ones to be told briefly."""
    for name, given in holder.get("properties", {}).items():
        rule = _resolved(schema, given)
        field = f"`{above}{name}`"
        shown = f"**{field}**" if name in holder.get("required", ()) else field
        told = "; ".join(rule[part] for part in ("title", "description") if part in rule)
        yield f"| {shown} | {told.replace('|', '&#124;').replace('<', '&lt;')} |"
        if name not in briefly:
            yield from _lines(schema, rule, f"{above}{name}.", briefly)


def _resolved(schema: Rule, rule: Rule) -> Rule:
    """The rule with what it refers to; what it says itself comes first."""
    if "$ref" not in rule:
        return rule
    return {**schema["$defs"][rule["$ref"].rpartition("/")[2]], **rule}


if __name__ == "__main__":
    print(fields_table(), end="")
