"""promptfoo's templates, as far as they only name variables: which names, filled in, or named instead. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from eval.scaffolding.assertions import as_text
from eval.scaffolding.imported import LeftOut

PLACE: Final = re.compile(r"\{\{-?\s*([A-Za-z_]\w*(?:\.\w+)*)\s*-?\}\}")
_TEMPLATE: Final = re.compile(r"\{\{.*?\}\}|\{%.*?%\}", re.DOTALL)
_NAME: Final = re.compile(r"[A-Za-z_]\w*")

Row = Mapping[str, Any]


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
