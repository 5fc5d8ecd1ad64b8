"""The offline judgement on headlines; vocabulary in agents/analysts.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agents.offline.rules import Rules, found, pattern

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


def answer(rules: Rules, payload: Mapping[str, Any]) -> dict[str, Any]:
    """One item per headline whose score reaches the threshold."""
    least = rules.number("report_threshold", 1.0)
    items = []
    for line in payload.get("headlines") or ():
        if not isinstance(line, dict) or not isinstance(line.get("text"), str):
            continue
        text = _blanked(rules.terms("metaphors"), line["text"].replace("’", "'"))
        score, terms = _score(rules, text)
        if terms and score > 0 and score >= least:
            items.append(
                {
                    "headline_id": str(line.get("id")),
                    "region": _region(rules, text),
                    "risk_score": score,
                    "category": _category(rules, text),
                    "rationale": f"risk terms: {', '.join(terms)}",
                }
            )
    return {"items": items}


def _blanked(phrases: tuple[str, ...], text: str) -> str:
    finder = pattern(phrases)
    return text if finder is None else finder.sub(lambda match: "." * len(match.group()), text)


def _score(rules: Rules, text: str) -> tuple[float, list[str]]:
    """The score in 0..100 and the terms that made it."""
    hits = sorted(_hits(rules, text), reverse=True)
    if not hits:
        return 0.0, []
    score = hits[0][0] + rules.number("spill", 1.0) * sum(weight for weight, _ in hits[1:])
    score += _sum(rules.weights("escalation_terms"), text) - abs(
        _sum(rules.weights("deescalation_terms"), text)
    )
    for kind in DAMPERS:
        if found(rules.terms(f"{kind}_cues"), text):
            score *= rules.number(f"{kind}_factor", 1.0)
    return round(min(100.0, max(0.0, score)), 1), [term for _, term in hits]


def _hits(rules: Rules, text: str) -> list[tuple[float, str]]:
    """Each risk term once, with what is left of its weight after negation."""
    weights = rules.weights("risk_terms", RISK_TERMS)
    if not found(tuple(weights), text):  # most headlines: one search instead of one per term
        return []
    before, after = rules.terms("negation_cues"), rules.terms("negation_after")
    window, factor = int(rules.number("negation_window", 3)), rules.number("negation_factor", 0.0)
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
    counts = {
        region: len(found(rules.terms(f"region_{region}", terms), text))
        for region, terms in REGION_TERMS.items()
    }
    named = [region for region, count in counts.items() if count]
    if len(named) >= rules.number("global_from", 99):
        return "global"
    default = rules.word("default_region", "global")
    known = (*REGION_TERMS, "global", "none")
    if not named:
        return default if default in known else "global"
    return max(
        named,
        key=lambda region: (
            counts[region],
            -_first(rules.terms(f"region_{region}", REGION_TERMS[region]), text),
        ),
    )


def _first(terms: tuple[str, ...], text: str) -> int:
    finder = pattern(terms)
    match = finder.search(text) if finder else None
    return match.start() if match else len(text)


def _category(rules: Rules, text: str) -> str:
    counts = {
        kind: len(found(rules.terms(f"category_{kind}", terms), text))
        for kind, terms in CATEGORY_TERMS.items()
    }
    best = max(counts, key=lambda kind: counts[kind])
    return best if counts[best] else "other"
