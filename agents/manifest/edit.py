"""Changes the manifest's text as a person would: comments, order and layout stay as they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Path = tuple[str | int, ...]  # `("agents", 0)` is the first agent


def edited(text: str, change: Callable[[Any], None]) -> str:
    """The text after `change` was made to its parsed tree."""
    from io import StringIO

    from ruamel.yaml import YAML

    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = 4096  # a long line stays one line
    yaml.indent(mapping=2, sequence=4, offset=2)
    tree = yaml.load(text)
    change(tree)
    out = StringIO()
    yaml.dump(tree, out)
    return out.getvalue()


def without(text: str, drop: Callable[[Path, Any], bool]) -> str:
    """The text without the entries that `drop(path, value)` names, and without the comments right above them.

    What is left empty goes as well. Done on lines: a parsed tree hangs the comment above an entry on the one before.
    """
    import yaml

    loader = yaml.SafeLoader(text)
    lines: list[str | None] = list(text.splitlines(keepends=True))

    def visit(node: Any, path: Path) -> bool:
        """Whether anything of the node stays."""
        if isinstance(node, yaml.MappingNode):
            entries = [(key, value, (*path, key.value)) for key, value in node.value]
        elif isinstance(node, yaml.SequenceNode):
            entries = [(value, value, (*path, place)) for place, value in enumerate(node.value)]
        else:
            return True
        kept = []
        for first, value, where in entries:
            if not drop(where, loader.construct_object(value, deep=True)) and visit(value, where):
                kept.append(text[first.start_mark.index : value.end_mark.index])
            elif not node.flow_style:
                _cut(lines, first.start_mark.line, _end(value), last=value is entries[-1][1])
        if node.flow_style and 0 < len(kept) < len(entries):
            start, end = node.start_mark, node.end_mark
            inside = text[start.index] + ", ".join(kept) + text[end.index - 1]
            rest = text[end.index :].partition("\n")[0]
            lines[start.line : end.line + 1] = [None] * (end.line + 1 - start.line)
            lines[start.line] = f"{text[start.index - start.column : start.index]}{inside}{rest}\n"
        return not entries or bool(kept)

    visit(loader.get_single_node(), ())
    return "".join(line for line in lines if line is not None)


def _end(node: Any) -> int:
    """The line after the last one that the node stands on."""
    if getattr(node, "flow_style", None) is False and node.value:  # a block ends with its last entry
        last = node.value[-1]
        return _end(last[1] if isinstance(last, tuple) else last)
    # A text block's end is marked on the line below it.
    return int(node.end_mark.line) + (getattr(node, "style", None) not in ("|", ">"))


def _cut(lines: list[str | None], first: int, end: int, *, last: bool) -> None:
    """Take out an entry, the comments right above it, and the blank line that would be one too many."""

    def blank(line: str | None) -> bool:
        return line is not None and not line.strip()

    def comment(line: str | None) -> bool:
        return line is not None and line.lstrip().startswith("#")

    while blank(lines[end - 1]):
        end -= 1
    while first and comment(lines[first - 1]):
        first -= 1
    above = next((place for place in range(first - 1, -1, -1) if lines[place] is not None), 0)
    if end == len(lines) or blank(lines[end]):
        if blank(lines[above]):
            lines[above] = None
        elif not last:
            end += 1
    lines[first:end] = [None] * (end - first)
