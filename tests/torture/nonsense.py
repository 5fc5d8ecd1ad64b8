"""A model that keeps to the shape it is asked for and means nothing by it: whole nights on it come through.

Texts are odd characters, markup and words of the question; numbers, lists and choices are drawn. Nobody can foresee
what a script makes of that, which is the point: no step may fail, no champion fall, and the pages are built.
"""

from __future__ import annotations

import json
import os
import random
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from meta.publish.kinds import KINDS
from telemetry.edge.files import HISTORY
from tests.torture import Clock, Figure, lived
from tests.worlds import children, night_checkout, world
from tests.worlds.loopback import Loopback, Reply, Request, as_json, chat

NIGHTS = 2
WORLDS = 12
ODD = (
    "risk",
    "<b>x</b>",
    "@someone",
    "#12",
    "https://evil.example",
    "```",
    "{{x}}",
    "\u202e",
    "|",
    "rules:",
    "日本",
)


class Speaker:
    """Answers every question by the schema that comes with it."""

    def __init__(self, seed: int) -> None:
        self._draw = random.Random(seed)

    def __call__(self, request: Request) -> Reply:
        if not request.body:
            return as_json({"data": []})
        asked = request.json()
        form = asked.get("response_format", {}).get("json_schema", {}).get("schema", {"type": "object"})
        try:
            words = list(_texts(json.loads(asked["messages"][-1]["content"])))
        except ValueError:
            words = []
        return chat(json.dumps(self._value(form, words)))

    def _value(self, form: Mapping[str, Any], words: Sequence[str]) -> Any:
        draw = self._draw
        if "enum" in form:
            return draw.choice(form["enum"])
        if "anyOf" in form:
            return self._value(draw.choice(form["anyOf"]), words)
        kind = form.get("type")
        match draw.choice(kind) if isinstance(kind, list) else kind:
            case "object":
                return {name: self._value(one, words) for name, one in form.get("properties", {}).items()}
            case "array":
                most = min(3, form.get("maxItems", 3))
                return [self._value(form.get("items", {}), words) for _ in range(draw.randint(0, most))]
            case "string" if words and draw.random() < 0.7:
                return draw.choice(words)
            case "string":
                return " ".join(draw.choices(ODD, k=draw.randint(1, 30)))
            case "number" | "integer" as told:
                drawn = draw.uniform(form.get("minimum", -10), form.get("maximum", 100))
                return int(drawn) if told == "integer" else drawn
            case "boolean":
                return draw.random() < 0.5
        return None


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        value = [*value, *value.values()]
    if isinstance(value, list):
        for one in value:
            yield from _texts(one)
    elif isinstance(value, str):
        yield value


def _life(root: Path, seed: int) -> int:
    """Some nights in a row, and then what looks at all of it."""
    os.chdir(root)
    night = lived.script("meta.night")
    with Loopback(Speaker(seed)) as server:
        os.environ.update(OPENAI_API_KEY="key", OPENAI_BASE_URL=server.url, OPENAI_MODEL="gpt-4.1-mini")
        for number in range(NIGHTS):
            if code := night(["--root", str(root), "--quiet", "--again", "--seed", str(number)]):
                return code
    return max(lived.call(root, script, ()) for script in ("meta.audit", "meta.dashboard"))


def _wrong(root: Path, ended: children.Ended) -> Iterator[str]:
    if ended.traceback:
        yield ended.traceback
    if ended.code:
        yield f"exit {ended.code}: {ended.said.strip()[-300:]}"
    history = root / HISTORY
    rows = [json.loads(line) for line in history.read_bytes().splitlines()] if history.exists() else []
    nights = [row["summary"]["steps"] for row in rows if row["run_type"] == "night"]
    if len(nights) != NIGHTS:
        yield f"{len(nights)} nights are on record"
    yield from (
        f"{name} {step['status']}: {step['told'][:200]}"
        for steps in nights
        for name, step in steps.items()
        if step["status"] == "failed"
    )
    told = [row["summary"]["comparisons"] for row in rows if row["run_type"] == "ab_test"]
    if won := [one["variant"] for night in told for one in night if one["verdict"] == "promote"]:
        yield f"promoted {won}"
    branches = world.git(root, "branch", "--list", "--format=%(refname:short)", "meta/*").split()
    if unknown := set(branches) - {kind.branch for kind in KINDS.values()}:
        yield f"branches {sorted(unknown)}"


def run(clock: Clock, wanted: int = WORLDS, seed: int = 1) -> list[Figure]:
    """So many checkouts, each with a speaker of its own."""
    lived.loaded()
    faults, tried = list[str](), 0
    with tempfile.TemporaryDirectory(prefix="ratchet-nonsense-") as folder:
        (Path(folder) / "made").mkdir()
        template = night_checkout.make(Path(folder) / "made/ratchet")
        while tried < wanted and not clock.over:
            tried += 1
            with lived.copy(template, Path(folder) / "life") as root:
                ended = children.run(lambda root=root, at=seed + tried: _life(root, at))  # type: ignore[misc]
                faults += [f"world {seed + tried}: {one}" for one in _wrong(root, ended)]
    broken = len({fault.split(":")[0] for fault in faults})
    what = f"{NIGHTS} nights each on a model that talks nonsense"
    return [Figure(what, tried - broken, tried, wanted, tuple(faults))]
