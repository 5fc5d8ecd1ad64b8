"""Writes `.github/COMMANDS.md`: what every script says about itself under `--help`. `make docs`."""

from __future__ import annotations

import argparse
import importlib
import os
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

from telemetry.edge.files import write_atomic

REPOSITORY = Path(__file__).resolve().parents[1]
PAGE = REPOSITORY / ".github/COMMANDS.md"
PACKAGES = {
    "meta": "what should change?",
    "eval": "how good is it?",
    "agents": "who acts?",
    "telemetry": "what happened?",
}
HEAD = "# Every command\nWhat each script says under `--help`; `make docs` writes this page, and a test compares it.\n"


def page() -> str:
    """The whole page, from the parsers themselves, 80 columns wide."""
    heads = {package: f"## {package}: {about}\n" for package, about in PACKAGES.items()}
    return "\n".join([HEAD, *(part for name, head in heads.items() for part in (head, *parts(name)))])


def parts(package: str) -> list[str]:
    """What the scripts of a package say, one part each."""
    with patch.dict(os.environ, {"COLUMNS": "80"}):
        return list(_parts(package))


def _parts(package: str) -> Iterator[str]:
    for path in sorted((REPOSITORY / package).glob("[a-z]*.py")):
        if "cli.entry(" not in path.read_text(encoding="utf-8"):
            continue
        parse = importlib.import_module(f"{package}.{path.stem}").parser()
        told = [parse.format_help(), *(sub.format_help() for sub in _below(parse))]
        shown = "\n".join(one.rstrip() + "\n" for one in told)
        summary = str(parse.description).strip().partition("\n")[0]
        yield f"<details><summary><code>{parse.prog}</code>: {summary}</summary>\n\n```\n{shown}```\n\n</details>\n"


def _below(parse: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    for action in parse._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from dict.fromkeys(action.choices.values())


def main() -> int:
    write_atomic(PAGE, page())
    print(f"Wrote {PAGE.relative_to(REPOSITORY)}.")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
