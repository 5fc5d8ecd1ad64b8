"""Pictures that stand alone on the data branch: a badge for the README, and the score over nights for the issue."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from markupsafe import Markup

from eval.ledger.decisions import decisions
from eval.ledger.provenance import Line
from meta.site import draw
from telemetry.branch.remote import BRANCH
from telemetry.edge.files import Repo

BADGE = "pictures/badge.svg"
NIGHTS = "pictures/nights.svg"
GOOD, PLAIN, WAITS = "#1a7f37", "#0b5cad", "#9a6700"  # white text can be read on each

Nights = Sequence[tuple[str, float]]  # the date, and the share of cases passed


def by_night(lines: Iterable[Line]) -> Nights:
    """The share of cases passed, every agent counting equally; a night's last eval of an agent counts."""
    rates: dict[str, dict[str, float]] = defaultdict(dict)
    for line in lines:
        if line.run_type == "eval":
            night = rates[line.date]
            for agent, row in (line.summary.get("agents") or {}).items():
                if isinstance(row, dict) and row.get("counted"):
                    night[agent] = row["passed"] / row["counted"]
    return [(date, sum(own.values()) / len(own)) for date, own in sorted(rates.items()) if own]


def promotions(repo: Repo) -> dict[str, str]:
    """What was promoted on which date."""
    return {one.date: f"promote {one.subject}" for _, one in decisions(repo) if one.decision == "promote"}


def pictures(nights: Nights, promoted: Mapping[str, str], waiting: int) -> dict[str, bytes]:
    """Every picture that there is something to show on, by its path on the branch."""
    if not nights:
        return {}
    date, rate = nights[-1]
    parts = [
        ("last night", date, PLAIN),
        ("cases passed", f"{rate:.0%}", PLAIN),
        ("waiting for you", f"{waiting}" if waiting else "nothing", WAITS if waiting else GOOD),
    ]
    drawn = {BADGE: draw.badge(parts)}
    if len(nights) > 1:
        drawn[NIGHTS] = chart(nights, promoted, alone=True)
    return {path: str(svg).encode() for path, svg in drawn.items()}


def chart(nights: Nights, promoted: Mapping[str, str], *, alone: bool = False) -> Markup:
    """The share of cases passed, night by night, promotions marked."""
    points = [
        draw.Point(place, rate, date, promoted.get(date, "")) for place, (date, rate) in enumerate(nights)
    ]
    lowest = min((rate for _, rate in nights), default=0.0)
    title = "Share of cases passed, night by night"
    return draw.line(title, _told(nights), points, low=max(0.0, lowest - 0.1), high=1.0, alone=alone)


def in_words(nights: Nights) -> str:
    """That picture for an issue, and the same as a line that an e-mail shows too; empty before the second night."""
    if len(nights) < 2:
        return ""
    (first, before), (last, now) = nights[0], nights[-1]
    path = f"../blob/{BRANCH}/{NIGHTS}?raw=true"
    return f"{before:.0%} on {first}, {now:.0%} on {last}.\n\n![{_told(nights)}]({path})"


def _told(nights: Nights) -> str:
    return ", ".join(f"{date} {rate:.0%}" for date, rate in nights[-12:])
