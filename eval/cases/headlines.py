"""The cases of geopolitical_risk: headlines written by hand as patterns, set in many places.

Labelling rule, for the pattern and so for every headline made from it:
1. A headline carries risk when it says that something happened, is happening or has been ordered: force (strikes,
   shelling, invasion, bombings, coups, armed seizures) or coercion (sanctions, embargoes, blockades, mobilisation,
   tariffs, attacks on networks, broken truces).
2. Force scores 55-100, coercion 25-75; a real attack "with no casualties" is still force.
3. No risk, nothing reported: what is denied, ruled out, averted, lifted or called off; anniversaries and history;
   drills; sport, films, books and games; business and other metaphors ("price war", "hostile takeover"); truces that
   are signed or hold.
4. A trade war is not a metaphor but not a war either: coercion, category `trade`.
5. The region is where the risk lands: of "Washington sanctions Tehran", the Middle East. No place named: `global`.

Patterns marked hard hold a cue of the wrong kind on purpose (a real attack on an anniversary).
"""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from eval.cases import Row, case, content, family_of, generator, one_sided, wanted


@dataclass(frozen=True, slots=True)
class Group:
    """Patterns of one sort: how many cases have one alone, how often a mixed case draws one, and their label."""

    tag: str
    cases: int
    patterns: list[str]
    mixed: int = 0
    band: str | None = None  # None: nothing is reported
    category: str | None = None

    def family(self, pattern: str) -> str:
        return family_of("news", self.tag, pattern)


GIVEN = content(__file__)
GROUPS = [Group(**group) for group in GIVEN["groups"]]

Headline = tuple[str, str, Group, str]  # text, region, what it is, its family


def cases() -> Iterator[Row]:
    """All cases, in order; no headline appears twice."""
    draw, used, numbers = generator("headlines"), set[str](), Counter[str]()
    for group in GROUPS:
        for number in range(group.cases):
            numbers[group.tag] += 1
            made = [_set(draw, used, group.patterns[number % len(group.patterns)], group)]
            yield _case(draw, f"geo-{group.tag}-{numbers[group.tag]:02}", made)
    often = [group.mixed for group in GROUPS]
    for number in range(GIVEN["mixed"]):
        groups = draw.choices(GROUPS, often, k=2 + number % 2)
        made = [_set(draw, used, draw.choice(groups[0].patterns), groups[0])]
        for group in groups[1:]:
            near = [one for one in group.patterns if one_sided([made[0][3], group.family(one)])]
            made.append(_set(draw, used, draw.choice(near), group))
        yield _case(draw, f"geo-mixed-{number + 1:02}", made)


def _set(draw: random.Random, used: set[str], pattern: str, group: Group) -> Headline:
    """Set a pattern in a place it has not been in; one that names none is about the whole world."""
    if "{p}" not in pattern:
        return pattern, "global", group, group.family(pattern)
    at_sea = any(word in pattern for word in GIVEN["sea"])
    free = [
        (region, text)
        for region, places in GIVEN["places"].items()
        for place in places
        if (text := pattern.format(p=place)) not in used and not (at_sea and place in GIVEN["inland"])
    ]
    region, text = draw.choice(free)
    used.add(text)
    return text, region, group, group.family(pattern)


def _case(draw: random.Random, case_id: str, made: list[Headline]) -> Row:
    morning = dt.datetime(2026, 1, 5, 7, tzinfo=dt.UTC) + dt.timedelta(days=draw.randrange(300))
    rows, risky, labels = [], [], []
    for number, (text, region, group, _) in enumerate(made, 1):
        published = morning - dt.timedelta(minutes=draw.randrange(20, 900))
        stamp = published.strftime("%Y-%m-%dT%H:%M:%SZ")
        name, item = f"h{number}", f"[headline_id=h{number}]"
        rows.append({"id": name, "published": stamp, "source": draw.choice(GIVEN["sources"]), "text": text})
        if group.band:
            low, high = GIVEN["bands"][group.band]
            risky.append(name)
            labels.append(wanted("exact", f"{item}.region", value=region))
            labels.append(wanted("band", f"{item}.risk_score", low=low, high=high))
            if group.category:
                labels.append(wanted("exact", f"{item}.category", value=group.category))
    expect = [wanted("set_f1", "*.headline_id", values=risky, weight=2), *labels]
    payload = {"as_of": morning.date().isoformat(), "headlines": rows}
    return case(case_id, made[0][3], payload, expect, sorted({group.tag for _, _, group, _ in made}))
