"""What may leave: each gate looks at a point and says why not; an error keeps it back, a warning is only counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from math import isfinite
from typing import Any, Final

from telemetry.batches.holdout import TUNE
from telemetry.batches.points import Point
from telemetry.edge.frozen import frozen
from telemetry.logger import COMPLEXITIES

ERROR, WARNING = "error", "warning"
MOST_QUALITY, LEAST_QUALITY = 1.0, 0.0
EXAMPLES: Final = 5  # points named per gate in the report


@frozen
class Known:
    """What gates know beside the point."""

    agents: Collection[str]
    unseen: Collection[str]  # input hashes of holdout and fresh cases
    texts: Mapping[str, str]
    versions: Mapping[str, str]  # by agent, the scoring version that counts
    now: str


@frozen
class Gate:
    """A rule that a point keeps, or a reason why it does not."""

    name: str
    level: str
    reason: Callable[[Point, Known], str | None]


def _schema(point: Point, known: Known) -> str | None:
    for name in ("latency_ms", "tokens_used"):
        value = getattr(point, name)
        if value is not None and value < 0:
            return f"{name} is below 0"
    if point.reward is not None and not isfinite(point.reward):
        return "reward is no number"
    return None if point.complexity in (*COMPLEXITIES, None) else "complexity is of no known kind"


def _complete(point: Point, known: Known) -> str | None:
    asked = {"success": point.success, "quality_score": point.quality, "latency_ms": point.latency_ms}
    missing = [name for name, value in (asked | {"tokens_used": point.tokens_used}).items() if value is None]
    return f"no {', '.join(missing)}" if missing else None


def _bounds(point: Point, known: Known) -> str | None:
    if point.quality is None or LEAST_QUALITY <= point.quality <= MOST_QUALITY:
        return None
    return f"quality {point.quality:g} is outside 0..1"


def _texts(point: Point, known: Known) -> str | None:
    if not point.turns:
        return "no model was asked"
    for turn in point.turns:
        if not turn.messages or turn.output is None:
            return "its texts are not named"
        if any(name not in known.texts for name in (turn.output, *(name for _, name in turn.messages))):
            return "a text is not kept here"
    return None


def _leak(point: Point, known: Known) -> str | None:
    if point.split not in (TUNE, None):
        return f"a {point.split} case"
    if not point.in_field and point.split is None:
        return f"nobody knows of which half this {point.source} run is"
    return "its input is that of an unseen case" if point.input_hash in known.unseen else None


def _order(point: Point, known: Known) -> str | None:
    if point.ts > known.now:
        return "it ended in the future"
    stamps = [*(turn.ts for turn in point.turns), point.ts]
    return None if stamps == sorted(stamps) else "its turns are not in order of time"


def _agent(point: Point, known: Known) -> str | None:
    return None if point.agent in known.agents else "the manifest has no such agent"


def _version(point: Point, known: Known) -> str | None:
    wanted = known.versions.get(point.agent)
    if point.scoring_version in (None, wanted):
        return None
    return f"scored by {point.scoring_version}, now {wanted}"


def _finished(point: Point, known: Known) -> str | None:
    return "a run that did not succeed" if point.success is False else None


GATES: Final = (
    Gate("schema", ERROR, _schema),
    Gate("complete-metrics", ERROR, _complete),
    Gate("quality-bounds", ERROR, _bounds),
    Gate("holdout-leak", ERROR, _leak),
    Gate("known-agent", ERROR, _agent),
    Gate("one-scoring-version", ERROR, _version),
    Gate("time-order", ERROR, _order),
    Gate("missing-text", ERROR, _texts),
    Gate("success", WARNING, _finished),
)
# Looked at by who picks and writes.
DUPLICATE, PRIVACY, LEDGER = "duplicate", "privacy-compliance", "exported-before"


class Report:
    """Who was kept back, by which gate, and why."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], Counter[str]] = {}
        self._examples: dict[tuple[str, str], list[str]] = {}

    def note(self, gate: str, level: str, reason: str, point: Point) -> None:
        self._counts.setdefault((gate, level), Counter())[reason] += 1
        examples = self._examples.setdefault((gate, level), [])
        if len(examples) < EXAMPLES:
            examples.append(point.point_id)

    @property
    def refused(self) -> int:
        return sum(sum(one.values()) for (_, level), one in self._counts.items() if level == ERROR)

    def rows(self) -> list[dict[str, Any]]:
        """One row per gate that found something."""
        return [
            {
                "gate": gate,
                "level": level,
                "points": sum(reasons.values()),
                "reasons": dict(reasons.most_common()),
                "examples": self._examples[gate, level],
            }
            for (gate, level), reasons in sorted(self._counts.items())
        ]


def passing(points: Sequence[Point], known: Known, report: Report) -> list[Point]:
    """The points that every gate lets through; of those that say the same, the first."""
    kept, seen = [], set()
    for point in points:
        refused = False
        for gate in GATES:
            if reason := gate.reason(point, known):
                report.note(gate.name, gate.level, reason, point)
                if gate.level == ERROR:
                    refused = True
                    break
        if refused:
            continue
        said = (point.agent, tuple((turn.messages, turn.output) for turn in point.turns))
        if said in seen:
            report.note(DUPLICATE, ERROR, "the same question and answer again", point)
            continue
        seen.add(said)
        kept.append(point)
    return kept


def newest_versions(points: Sequence[Point]) -> dict[str, str]:
    """By agent, the scoring version of its last rewarded run."""
    return {point.agent: point.scoring_version for point in points if point.scoring_version is not None}
