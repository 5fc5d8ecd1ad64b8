"""The files that a config of another tool names: looked for below its own folder, read as data, never run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

from eval.scaffolding.imported import LeftOut, read_text
from telemetry.edge.records import load_yaml

_CODE: Final = (".js", ".cjs", ".mjs", ".ts", ".cts", ".mts", ".py", ".rb", ".sh", ".go", ".exe")


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
                return load_yaml(read_text(file))
            if file.suffix in (".txt", ".md", ".csv", ".html", ".xml", ""):
                return read_text(file).strip()
            self.left_out.add(f"{where}: {file.name}, no text")
        return None


def is_code(name: str) -> bool:
    """A program, or a function in one: `tests.py:make`."""
    return "\n" not in name and bool(re.search(rf"(?:{'|'.join(map(re.escape, _CODE))})(?::\w+)?$", name))
