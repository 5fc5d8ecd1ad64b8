"""Reads YAML as what JSON could say too: no key twice, no dates, nothing but plain data."""

from __future__ import annotations

import functools
import re
from typing import Any

from telemetry.edge.errors import BadInput

_TAG = "tag:yaml.org,2002:"


def load(text: str | bytes) -> Any:
    """The value of a text; bad input, in one line, when it is no such YAML."""
    try:
        return _loaded(text, _plain())
    except ValueError as error:
        raise BadInput(f"not YAML: {error}") from None


def load_terms(text: str) -> Any:
    """The same where only numbers, true and false are special, and of a key given twice the last counts.

    YAML 1.1 would read the term `no` as false. What is no YAML is a ValueError, in one line.
    """
    return _loaded(text, _terms())


def _loaded(text: str | bytes, by: Any) -> Any:
    import yaml

    try:
        return yaml.load(text, Loader=by)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ValueError(" ".join(str(error).split())) from None


@functools.cache
def _plain() -> Any:
    """The fast safe loader, which also refuses a key given twice: YAML itself would silently keep the last."""
    import yaml

    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
        """Safe YAML without repeated keys."""

        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
            seen = set()
            for key, _ in node.value:
                if isinstance(key, yaml.ScalarNode) and key.tag != f"{_TAG}merge":
                    name = self.construct_object(key)
                    if name in seen:
                        said = f"{key.value!r} is given twice"
                        raise yaml.constructor.ConstructorError(None, None, said, key.start_mark)
                    seen.add(name)
            mapping: dict[Any, Any] = super().construct_mapping(node, deep=deep)
            return mapping

    return _resolving(Loader, lambda tag: tag != f"{_TAG}timestamp")


@functools.cache
def _terms() -> Any:
    import yaml

    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
        """Safe YAML in which `no`, `off` and `null` are terms like any other."""

    _resolving(Loader, lambda tag: tag in (f"{_TAG}int", f"{_TAG}float", f"{_TAG}merge"))
    Loader.add_implicit_resolver(f"{_TAG}bool", re.compile(r"^(?:true|false)$"), list("tf"))
    return Loader


def _resolving(by: Any, wanted: Any) -> Any:
    """The loader, which takes only plain scalars of the wanted tags for more than text."""
    by.yaml_implicit_resolvers = {
        first: [(tag, test) for tag, test in tests if wanted(tag)]
        for first, tests in by.yaml_implicit_resolvers.items()
    }
    return by
