"""Changes the manifest's text as a person would: comments, order and layout stay as they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


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
