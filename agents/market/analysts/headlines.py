"""The offline judgement on headlines.

A term may end in `*` (any ending); one with a capital is found only as written (`US` is not "us").
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from agents.offline.rules import Rules, found, number, pattern, terms, weights, word

RISK_TERMS = {
    "war": 60, "attack*": 50, "missile*": 60, "invasion": 75, "coup": 60, "bomb*": 55, "sanction*": 40,
    "terror*": 55, "cyberattack*": 45, "tariff*": 30, "troops": 45, "nuclear": 60, "crisis": 40, "kill*": 50,
}  # fmt: skip
REGION_TERMS = {
    "middle_east": ("middle east",),
    "europe": ("europe*", "EU"),
    "asia_pacific": ("asia*",),
    "americas": ("america*", "US"),
    "africa": ("africa*",),
}
CATEGORY_TERMS = {  # the specific before the general: a tie goes to the first
    "coup": ("coup",),
    "terror": ("terror*",),
    "cyber": ("cyber*",),
    "sanctions": ("sanction*",),
    "trade": ("tariff*",),
    "diplomacy": (),
    "conflict": ("war", "attack*", "missile*", "troops"),
}
DAMPERS = ("sport", "anniversary", "hypothetical", "fiction")


KEYS: Final = {
    "risk_terms": weights("term -> weight of a risk", "missed", "score", default=RISK_TERMS),
    "spill": number(1.0, "share of every further term's weight that is added to the strongest", 0.5),
    "escalation_terms": weights("term -> weight added once there is a risk term", "missed", "score"),
    "deescalation_terms": weights("... and taken off", "false alarm", "score"),
    "metaphors": terms("phrases that mean nothing: blanked before anything is read", "false alarm", "score"),
    "negation_cues": terms("before a risk term: it weighs less", "false alarm", "score"),
    "negation_after": terms("... or after it", "false alarm", "score"),
    "negation_window": number(3, "... within so many words", 3, whole=True),
    "negation_factor": number(0.0, "... by this share", 0.3),
    **{f"{kind}_cues": terms("one of them in the headline ...", f"kind {kind}") for kind in DAMPERS},
    **{f"{kind}_factor": number(1.0, "... multiplies its score by this", 0.5) for kind in DAMPERS},
    "report_threshold": number(1.0, "report scores from here on", 20, whole=True),
    **{
        f"region_{name}": terms("most hits decide", f'expected "{name}"', default=found_by)
        for name, found_by in REGION_TERMS.items()
    },
    "global_from": number(99, "so many different regions named are `global`", 3, whole=True),
    "default_region": word("global", "when no region is named", *REGION_TERMS, "global", "none"),
    **{
        f"category_{name}": terms(
            "most hits decide, ties in the order given here", f'expected "{name}"', default=found_by
        )
        for name, found_by in CATEGORY_TERMS.items()
    },
}


def answer(rules: Rules, payload: Mapping[str, Any]) -> dict[str, Any]:
    """One item per headline whose score reaches the threshold."""
    least = rules.number("report_threshold")
    items = []
    for line in payload.get("headlines") or ():
        if not isinstance(line, dict) or not isinstance(line.get("text"), str):
            continue
        text = _blanked(rules.terms("metaphors"), line["text"].replace("’", "'"))
        score, terms = _score(rules, text)
        if terms and score > 0 and score >= least:
            about = {"headline_id": str(line.get("id")), "region": _region(rules, text), "risk_score": score}
            why = f"risk terms: {', '.join(terms)}"
            items.append(about | {"category": _category(rules, text), "rationale": why})
    return {"items": items}


def _blanked(phrases: tuple[str, ...], text: str) -> str:
    finder = pattern(phrases)
    return text if finder is None else finder.sub(lambda match: "." * len(match.group()), text)


def _score(rules: Rules, text: str) -> tuple[float, list[str]]:
    """The score in 0..100 and the terms that made it."""
    hits = sorted(_hits(rules, text), reverse=True)
    if not hits:
        return 0.0, []
    score = hits[0][0] + rules.number("spill") * sum(weight for weight, _ in hits[1:])
    up, down = (_sum(rules.weights(f"{way}escalation_terms"), text) for way in ("", "de"))
    score += up - abs(down)
    for kind in DAMPERS:
        if found(rules.terms(f"{kind}_cues"), text):
            score *= rules.number(f"{kind}_factor")
    return round(min(100.0, max(0.0, score)), 1), [term for _, term in hits]


def _hits(rules: Rules, text: str) -> list[tuple[float, str]]:
    """Each risk term once, with what is left of its weight after negation."""
    weights = rules.weights("risk_terms")
    if not found(tuple(weights), text):  # most headlines: one search instead of one per term
        return []
    before, after = rules.terms("negation_cues"), rules.terms("negation_after")
    window, factor = int(rules.number("negation_window")), rules.number("negation_factor")
    strongest: dict[str, float] = {}
    for term, weight in weights.items():
        finder = pattern((term,))
        for match in finder.finditer(text) if finder else ():
            lead = " ".join(text[: match.start()].split()[-window:]) if window > 0 else ""
            trail = " ".join(text[match.end() :].split()[:window]) if window > 0 else ""
            negated = bool(found(before, lead) or found(after, trail))
            left = weight * factor if negated else weight
            word = match.group().lower()
            strongest[word] = max(strongest.get(word, 0.0), left)
    return [(weight, word) for word, weight in strongest.items() if weight > 0]


def _sum(weights: Mapping[str, float], text: str) -> float:
    return sum(weight for term, weight in weights.items() if found((term,), text))


def _region(rules: Rules, text: str) -> str:
    counts = {region: len(found(rules.terms(f"region_{region}"), text)) for region in REGION_TERMS}
    named = [region for region, count in counts.items() if count]
    if len(named) >= rules.number("global_from"):
        return "global"
    default = rules.word("default_region")
    known = (*REGION_TERMS, "global", "none")
    if not named:
        return default if default in known else "global"

    def rank(region: str) -> tuple[int, int]:
        finder = pattern(rules.terms(f"region_{region}"))
        first = finder.search(text) if finder else None
        return counts[region], -(first.start() if first else len(text))

    return max(named, key=rank)


def _category(rules: Rules, text: str) -> str:
    counts = {kind: len(found(rules.terms(f"category_{kind}"), text)) for kind in CATEGORY_TERMS}
    best = max(counts, key=lambda kind: counts[kind])
    return best if counts[best] else "other"
