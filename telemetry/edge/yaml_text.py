"""Reads YAML as what JSON could say too: no key twice, no dates, nothing but plain data."""

from __future__ import annotations

import functools
from typing import Any

from telemetry.edge.errors import BadInput

_MERGE, _DATE = "tag:yaml.org,2002:merge", "tag:yaml.org,2002:timestamp"


def load(text: str | bytes) -> Any:
    """The value of a text; bad input, in one line, when it is no such YAML."""
    import yaml

    try:
        return yaml.load(text, Loader=loader())
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise BadInput(f"not YAML: {' '.join(str(error).split())}") from None


@functools.cache
def loader() -> Any:
    """The fast safe loader, which also refuses a key given twice: YAML itself would silently keep the last."""
    import yaml

    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
        """Safe YAML without repeated keys."""

        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
            seen = set()
            for key, _ in node.value:
                if isinstance(key, yaml.ScalarNode) and key.tag != _MERGE:
                    name = self.construct_object(key)
                    if name in seen:
                        said = f"{key.value!r} is given twice"
                        raise yaml.constructor.ConstructorError(None, None, said, key.start_mark)
                    seen.add(name)
            mapping: dict[Any, Any] = super().construct_mapping(node, deep=deep)
            return mapping

    Loader.yaml_implicit_resolvers = {
        first: [(tag, test) for tag, test in tests if tag != _DATE]
        for first, tests in Loader.yaml_implicit_resolvers.items()
    }
    return Loader
