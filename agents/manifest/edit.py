"""Changes the manifest's text as a person would: comments, order and layout stay as they are."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
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


def move(manifest: Any, names: Collection[str], model: str) -> None:
    """Let these agents ask another model: said once, in `defaults`, where all that take theirs from there move.

    What `challenger_models` says of that model goes with it; how an agent asks, stays. An agent without a prompt asks
    no model, so it does not count.
    """
    said = [one for one in manifest.get("challenger_models") or () if _name(one) == model]
    asking = [agent for agent in manifest["agents"] if agent.get("prompt")]
    heirs = [agent["name"] for agent in asking if not {"model", "models"} & agent.keys()]
    together = bool(heirs) and all(name in names for name in heirs)
    if together:
        if not manifest.get("defaults"):
            _put(manifest, list(manifest).index("agents"), "defaults", {})
        _put(manifest["defaults"], 0, "model", _renamed(manifest["defaults"].get("model"), [*said, model][0]))
    for agent in asking:
        if agent["name"] in names and not (together and agent["name"] in heirs):
            # First after its name: at its end stand the blank lines before the next.
            _put(agent, 1, "model", _renamed(agent.get("model"), [*said, model][0]))


def models(manifest: Any) -> dict[str, str | None]:
    """By agent that has a prompt, the model that is named for it; None: the one that everyone asks."""
    usual = (manifest.get("defaults") or {}).get("model")
    asking = [agent for agent in manifest.get("agents", ()) if agent.get("prompt")]
    return {
        agent["name"]: _name(agent.get("model", [*agent.get("models", ()), usual][0])) for agent in asking
    }


def _name(model: Any) -> str | None:
    return model.get("name") if isinstance(model, Mapping) else model


def _renamed(old: Any, new: Any) -> Any:
    """A `model:` with another name; prices and context belong to the name, the rest to who asks."""
    if not isinstance(old, Mapping):
        return new
    kept = {key: value for key, value in old.items() if key not in ("name", "prices", "context_tokens")}
    about = dict(new) if isinstance(new, Mapping) else {"name": new}
    return {**about, **kept} if kept else new


def _put(entry: Any, at: int, key: str, value: Any) -> None:
    """In place, or at a place of its own where the text has one."""
    if key in entry or not hasattr(entry, "insert"):
        entry[key] = value
    else:
        entry.insert(at, key, value)


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
