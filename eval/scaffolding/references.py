"""What the texts of a promptfoo config refer to: files below its own folder, read as data, never run, and variables.

Templates are taken as far as they only name variables: which names, filled in, or named instead.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from eval.scaffolding.assertions import as_text
from eval.scaffolding.imported import LeftOut, read_data, read_text

_CODE: Final = (".js", ".cjs", ".mjs", ".ts", ".cts", ".mts", ".py", ".rb", ".sh", ".go", ".exe")
PLACE: Final = re.compile(r"\{\{-?\s*([A-Za-z_]\w*(?:\.\w+)*)\s*-?\}\}")
_TEMPLATE: Final = re.compile(r"\{\{.*?\}\}|\{%.*?%\}", re.DOTALL)
_NAME: Final = re.compile(r"[A-Za-z_]\w*")

Row = Mapping[str, Any]


class Folder:
    """Where a config stands; what cannot be read goes on the list of what was left out."""

    def __init__(self, path: Path, left_out: LeftOut) -> None:
        self.path, self.left_out = path.resolve(), left_out

    def files(self, said: str, where: str) -> list[Path] | None:
        """The files that a text names, below the config's folder; None if it names none."""
        name = said.removeprefix("file://")
        if name == said and ("\n" in said or len(said) > 300 or not re.search(r"\.\w{1,5}$", said)):
            return None
        if is_code(name):
            return None
        try:
            found = sorted(self.path.glob(name)) if not Path(name).is_absolute() else [Path(name)]
            inside = [file for file in found if file.is_file() and file.resolve().is_relative_to(self.path)]
        except (ValueError, OSError):  # no name that a file could have
            inside = []
        if name == said:
            return inside or None
        if not inside:
            self.left_out.add(f"{where}: {said}, no file below the config's folder")
        return inside

    def loaded(self, value: Any, where: str) -> Any:
        """What a `file://` names, as data or text; any other value as it is."""
        if not isinstance(value, str) or not value.startswith("file://"):
            return value
        for file in self.files(value, where) or ():
            if file.suffix in (".json", ".yaml", ".yml"):
                return read_data(file)
            if file.suffix in (".txt", ".md", ".csv", ".html", ".xml", ""):
                return read_text(file).strip()
            self.left_out.add(f"{where}: {file.name}, no text")
        return None


def is_code(name: str) -> bool:
    """A program, or a function in one: `tests.py:make`."""
    return "\n" not in name and bool(re.search(rf"(?:{'|'.join(map(re.escape, _CODE))})(?::\w+)?$", name))


def names_in(text: str) -> set[str]:
    """The names that the templates of a text mention."""
    return {name for template in _TEMPLATE.findall(text) for name in _NAME.findall(template)}


def filled(value: Any, given: Row) -> tuple[Any, list[str]]:
    """A value with the variables written into its texts, and the templates that take more than that."""
    if isinstance(value, list):
        parts = [filled(one, given) for one in value]
        return [part for part, _ in parts], [one for _, more in parts for one in more]
    if not isinstance(value, str) or "{" not in value:
        return value, []

    def fill(match: re.Match[str]) -> str:
        found: Any = given
        for name in match[1].split("."):
            if not isinstance(found, Mapping) or name not in found:
                return match[0]
            found = found[name]
        return json.dumps(found, ensure_ascii=False) if isinstance(found, Mapping | list) else as_text(found)

    text = PLACE.sub(fill, value)
    return text, [one for one in _TEMPLATE.findall(text) if one in value]


def instruction(text: str, left_out: LeftOut) -> str:
    """A prompt whose variables are named instead of written in."""
    plain = PLACE.sub(lambda match: f"`{match[1]}`", text)
    for template in _TEMPLATE.findall(plain):
        left_out.add("template code in a prompt, which stays as text", " ".join(template.split())[:40])
    return plain.strip() + "\n"
