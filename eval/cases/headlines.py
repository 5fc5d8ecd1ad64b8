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
from collections.abc import Iterator
from typing import Any

FORCE, COERCION = (55, 100), (25, 75)

PLACES = {
    "middle_east": ("Iran", "Yemen", "Lebanon", "Syria", "Iraq", "Tehran", "Basra", "Aden", "Haifa"),
    "europe": ("Ukraine", "Latvia", "Moldova", "Kosovo", "Belarus", "Odesa", "Kharkiv", "Tallinn", "Narva"),
    "asia_pacific": ("Taiwan", "Myanmar", "Pakistan", "Taipei", "Pyongyang", "Manila", "Okinawa", "Kashmir"),
    "americas": ("Venezuela", "Colombia", "Haiti", "Ecuador", "Caracas", "Guyana", "Bogota"),
    "africa": ("Sudan", "Libya", "Somalia", "Nigeria", "Tripoli", "Khartoum", "Goma", "Bamako"),
}
INLAND = frozenset(
    {"Moldova", "Kosovo", "Belarus", "Kharkiv", "Kashmir", "Bogota", "Khartoum", "Goma", "Bamako"}
)
SEA = (
    "port in",
    "Navy",
    "Navies",
    "Blockade",
    "blockade",
    "Warship",
    "oast guard",
    "Patrol boats",
    "Port of",
)

FORCE_PATTERNS = (
    "Missile strike hits port in {p} before dawn",
    "Missile strike on {p} kills nine, officials say",
    "Airstrikes pound rebel positions near {p}",
    "Airstrikes on {p} enter second night",
    "Shelling resumes on the outskirts of {p}",
    "Heavy shelling forces thousands to leave {p}",
    "Army units invade border district near {p}",
    "Tanks invade {p} from the north, residents flee",
    "Generals announce coup in {p}, parliament sealed",
    "Coup under way in {p} as soldiers take state television",
    "Car bomb kills eleven outside ministry in {p}",
    "Car bomb tears through market in {p}",
    "Gunmen storm oil terminal in {p}",
    "Gunmen hold dozens hostage at airport in {p}",
    "Drone attack sets refinery near {p} ablaze",
    "Drone attack knocks out power across {p}",
    "Militants overrun garrison near {p}",
    "Militants seize dam in {p}",
    "Artillery duel erupts along the line near {p}",
    "Artillery fire hits grain silos in {p}",
    "Warship sunk off {p}, crew missing",
    "Assassinated governor in {p} leaves power vacuum",
)
UNHARMED_PATTERNS = (
    "Missile strike hits depot near {p}, no casualties reported",
    "Drone attack on {p} substation, no injuries",
    "Shelling damages rail bridge in {p} without casualties",
    "Car bomb explodes in {p}, nobody hurt",
)
COERCION_PATTERNS = (
    "EU adopts new sanctions on {p} over arms shipments",
    "Washington widens sanctions against banks in {p}",
    "Oil embargo against {p} takes effect on Monday",
    "Arms embargo on {p} extended to spare parts",
    "Navy begins blockade of {p}",
    "Blockade of {p} enters third week, insurers withdraw cover",
    "Cyberattack shuts down hospitals in {p}",
    "Cyberattack on power grid in {p} blamed on foreign unit",
    "Government in {p} orders mobilisation of reservists",
    "Partial mobilisation announced in {p}",
    "Troop build-up near {p} visible from space",
    "Troop build-up around {p} alarms neighbours",
    "{p} expels diplomats in row over spying",
    "Martial law declared in {p} after night of unrest",
    "Martial law extended in {p} by ninety days",
    "Coast guard seizes tanker off {p}",
    "Patrol boats detain fishing fleet near {p}",
    "Ultimatum to {p}: withdraw by Friday",
    "Washington recalls ambassador from {p}",
    "{p} closes airspace to foreign carriers",
)
TRADE_PATTERNS = (
    "Tariffs on {p} exporters doubled as trade war deepens",
    "Trade war: {p} answers with tariffs of its own",
    "New tariffs hit shipments from {p}",
    "Export ban on rare metals from {p} starts today",
)
BROKEN_PATTERNS = (
    "Ceasefire collapses near {p} after a day",
    "Truce breaks down in {p}, both sides mass forces",
    "Peace talks on {p} collapse, envoys go home",
    "Ceasefire violated again on the road to {p}",
)
NEGATED_PATTERNS = (
    "Army denies missile strike near {p}",
    "{p} denies plans for mobilisation",
    "President rules out sanctions against {p}",
    "Cabinet rules out invasion of {p}",
    "Alarm over coup in {p} unfounded, envoys say",
    "Reports of shelling in {p} unfounded, monitors find",
    "Blockade of {p} averted at the last minute",
    "Strike on {p} averted after overnight call",
    "Sanctions on {p} lifted after nine years",
    "Arms embargo on {p} lifted by unanimous vote",
    "Drone attack on {p} was false alarm, police say",
    "False alarm: no car bomb at station in {p}",
    "Operator in {p} says outage was not a cyberattack",
    "Blast in {p} was gas leak, not airstrikes",
    "Tariffs on {p} goods suspended before they start",
    "Threatened airstrikes on {p} called off",
    "Planned troop build-up near {p} called off",
    "No sign of militants near {p}, patrol reports",
)
PEACE_PATTERNS = (
    "Ceasefire in {p} signed and holding",
    "Truce around {p} holds for tenth day, shelling stops",
    "Hostages held by gunmen in {p} freed unharmed",
    "Militants near {p} lay down arms in ceremony",
)
HISTORY_PATTERNS = (
    "{p} marks anniversary of the coup of 1973",
    "Anniversary of invasion observed in {p} with silence",
    "Veterans of the siege of {p} meet for the last time",
    "Museum in {p} opens hall on wartime shelling",
    "Historian finds letters from the blockade of {p}",
    "{p} commemorates victims of 1990s airstrikes",
    "Memorial to car bomb victims unveiled in {p}",
    "Archive opens files on 1962 missile crisis near {p}",
)
SPORT_PATTERNS = (
    "Striker fires {p} into cup final with late missile",
    "{p} coach under fire after league defeat",
    "Goalkeeper keeps {p} attack at bay in cup match",
    "{p} forwards invade penalty area and win league derby",
    "Midfield artillery carries {p} to championship",
    "Sanctions for {p} club after crowd trouble at derby",
    "Captain's last-minute strike rescues {p} in cup match",
    "Sprinter from {p} explodes out of the blocks at championship",
)
FICTION_PATTERNS = (
    "Film about a coup in {p} tops box office",
    "Novel imagines invasion of {p}, wins prize",
    "Video game lets players defend {p} against airstrikes",
    "Documentary festival in {p} opens with war film",
    "Navies rehearse blockade in annual exercise off {p}",
    "Mock car bomb tests rescue teams in {p} exercise",
    "Civil defence drill in {p} simulates missile strike",
    "Cyberattack drill keeps banks in {p} busy",
)
METAPHOR_PATTERNS = (
    "Price war among airlines spreads to {p}",
    "Supermarkets in {p} locked in price war",
    "Hostile takeover bid shakes brewer in {p}",
    "Bidding war for office towers in {p}",
    "Start-ups invade lunch market in {p}",
    "Ad blitz in {p} as streaming war heats up",
    "Charm offensive brings investors to {p}",
    "Casting star is a coup for {p} opera",
    "Tech giant fills war chest for {p} expansion",
    "Bombshell ruling rocks property market in {p}",
    "Explosive growth of cafes in {p}",
    "Shelling out: families in {p} pay more for school meals",
)
DULL_PATTERNS = (
    "Central bank in {p} leaves rates unchanged",
    "New metro line opens in {p}",
    "Rain delays harvest around {p}",
    "{p} hosts regional health summit",
    "Tourist arrivals in {p} at record",
    "Port of {p} orders new cranes",
)
GLOBAL_PATTERNS = (
    ("Cyberattack disrupts payment networks on four continents", COERCION),
    ("Worldwide sanctions on timber smugglers take effect", COERCION),
    ("Ransomware wave shuts down ports around the world", COERCION),
    ("Export ban on chips widened by allied governments", COERCION),
    ("Embargo on luxury goods agreed by twenty nations", COERCION),
    ("Tariffs return as trade war goes worldwide", COERCION),
)
HARD_PATTERNS: tuple[tuple[str, tuple[int, int] | None], ...] = (
    ("On anniversary of truce, missile strike hits {p}", FORCE),
    ("Cup match in {p} abandoned after drone attack on stadium", FORCE),
    ("Museum in {p} destroyed by shelling", FORCE),
    ("Army denies retreat as airstrikes pound {p}", FORCE),
    ("Minister rules out talks, orders blockade of {p}", COERCION),
    ("Film star killed by car bomb in {p}", FORCE),
    ("Sanctions on {p} lifted only to be replaced by embargo", COERCION),
    ("Not a drill: missile strike confirmed in {p}", FORCE),
    ("Hopes of coup in {p} box office after weak summer", None),
    ("General who led coup in {p} retires to grow roses", None),
)

Headline = tuple[str, str, tuple[int, int] | None, str | None, str]  # text, region, band, category, tag

# tag, cases with this headline alone, band or None, category
GROUPS: tuple[tuple[str, tuple[str, ...], int, tuple[int, int] | None, str | None], ...] = (
    ("force", FORCE_PATTERNS, 44, FORCE, None),
    ("unharmed", UNHARMED_PATTERNS, 12, FORCE, None),
    ("coercion", COERCION_PATTERNS, 40, COERCION, None),
    ("trade", TRADE_PATTERNS, 12, COERCION, "trade"),
    ("broken-truce", BROKEN_PATTERNS, 12, COERCION, None),
    ("negated", NEGATED_PATTERNS, 54, None, None),
    ("peace", PEACE_PATTERNS, 8, None, None),
    ("history", HISTORY_PATTERNS, 16, None, None),
    ("sport", SPORT_PATTERNS, 16, None, None),
    ("fiction", FICTION_PATTERNS, 16, None, None),
    ("metaphor", METAPHOR_PATTERNS, 24, None, None),
    ("dull", DULL_PATTERNS, 6, None, None),
)
MIXED = 40  # cases of two or three headlines


def cases(seed: int = 20261116) -> Iterator[dict[str, Any]]:
    """All cases, in order; the same seed gives the same cases, and no headline appears twice."""
    draw, used = random.Random(f"headlines/{seed}"), set[str]()
    for tag, patterns, count, band, category in GROUPS:
        for number in range(count):
            pattern = patterns[number % len(patterns)]
            made = [_set(draw, used, pattern, band, category, tag)]
            yield _case(draw, f"geo-{tag}-{number + 1:02}", made)
    for number, (text, band) in enumerate(GLOBAL_PATTERNS):
        used.add(text)
        yield _case(draw, f"geo-global-{number + 1:02}", [(text, "global", band, None, "global")])
    for number, (pattern, band) in enumerate(HARD_PATTERNS):
        yield _case(draw, f"geo-hard-{number + 1:02}", [_set(draw, used, pattern, band, None, "hard")])
    for number in range(MIXED):
        groups = draw.choices(GROUPS, [3, 1, 3, 1, 1, 3, 1, 1, 1, 1, 2, 1], k=2 + number % 2)
        made = [
            _set(draw, used, draw.choice(patterns), band, category, tag)
            for tag, patterns, _, band, category in groups
        ]
        yield _case(draw, f"geo-mixed-{number + 1:02}", made)


def _set(
    draw: random.Random,
    used: set[str],
    pattern: str,
    band: tuple[int, int] | None,
    category: str | None,
    tag: str,
) -> Headline:
    """Set a pattern in a place it has not been in."""
    free = [
        (region, text)
        for region, places in PLACES.items()
        for place in places
        if (text := pattern.format(p=place)) not in used
        and not (place in INLAND and any(word in pattern for word in SEA))
    ]
    region, text = draw.choice(free)
    used.add(text)
    return text, region, band, category, tag


def _case(draw: random.Random, case_id: str, made: list[Headline]) -> dict[str, Any]:
    morning = dt.datetime(2026, 1, 5, 7, tzinfo=dt.UTC) + dt.timedelta(days=draw.randrange(300))
    rows, risky = [], []
    for number, (text, region, band, category, _) in enumerate(made, 1):
        published = morning - dt.timedelta(minutes=draw.randrange(20, 900))
        source = draw.choice(("Wire A", "Wire B", "Daily C", "Agency D"))
        stamp = published.strftime("%Y-%m-%dT%H:%M:%SZ")
        rows.append({"id": f"h{number}", "published": stamp, "source": source, "text": text})
        if band:
            risky.append((f"h{number}", region, band, category))
    expect: list[dict[str, Any]] = [
        {"grader": "set_f1", "path": "*.headline_id", "values": [row[0] for row in risky], "weight": 2}
    ]
    for name, region, band, category in risky:
        item = f"[headline_id={name}]"
        expect.append({"grader": "exact", "path": f"{item}.region", "value": region})
        expect.append({"grader": "band", "path": f"{item}.risk_score", "low": band[0], "high": band[1]})
        if category:
            expect.append({"grader": "exact", "path": f"{item}.category", "value": category})
    payload = {"as_of": morning.date().isoformat(), "headlines": rows}
    tags = sorted({row[4] for row in made})
    return {"id": case_id, "input": payload, "expect": expect, "tags": tags}
