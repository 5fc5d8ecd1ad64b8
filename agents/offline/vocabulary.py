"""Which rules are there to be changed, and how far? The vocabulary of agents/analysts.py as a table for the search.

`scale` is a usual size of a number: where to look when the prompt does not set it. Keys `by_series` also exist as
`<key>_by_series`. `in_text` says that terms are looked up in the input's texts: then only cases that hold a term can
change when it does.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a `rules` block."""

    kind: str  # number | flag | word | terms | weights | numbers | words
    scale: float = 0.0
    whole: bool = False  # numbers: only whole ones make sense
    choices: tuple[str, ...] = ()
    by_series: bool = False
    in_text: bool = False
    mends: tuple[str, ...] = ()  # words of a failed grade that say that this key may be at fault; empty: any


def _number(scale: float, *, whole: bool = False, by_series: bool = False) -> Key:
    return Key("number", scale=scale, whole=whole, by_series=by_series)


def _word(*choices: str) -> Key:
    return Key("word", choices=choices)


def _answers(word: str) -> Key:
    """Terms that lead to this answer: worth a look when it was expected."""
    return Key("terms", in_text=True, mends=(f'expected "{word}"',))


FLAG: Final = Key("flag")
TERMS: Final = Key("terms", in_text=True)
RAISES: Final = Key("weights", in_text=True, mends=("missed", "score"))
LOWERS: Final = Key("weights", in_text=True, mends=("false alarm", "score"))
SILENCES: Final = Key("terms", in_text=True, mends=("false alarm", "score"))
NAMES: Final = Key("terms")  # fields, series or venues: not words of a text
NUMBERS: Final = Key("numbers")
SEVERITIES: Final = Key("words", choices=("low", "med", "high"))
PRIORITIES: Final = Key("words", choices=("P0", "P1", "P2"))

REGIONS: Final = ("middle_east", "europe", "asia_pacific", "americas", "africa")
CATEGORIES: Final = ("conflict", "sanctions", "coup", "terror", "cyber", "trade", "diplomacy")
DAMPERS: Final = ("sport", "anniversary", "hypothetical", "fiction")

VOCABULARY: Final[dict[str, dict[str, Key]]] = {
    "macro": {
        "z_alert": _number(2.0, by_series=True),
        "min_move": _number(0.02, by_series=True),
        "min_move_pp": _number(0.05, by_series=True),
        "rates_in_pp": FLAG,
        "big_move": _number(0.1, by_series=True),
        "gap_scaling": FLAG,
        "max_stale_days": _number(3, whole=True),
        "min_history": _number(20, whole=True),
        "data_error_ratio": _number(3.0, by_series=True),
        "positive_only": NAMES,
        "vix_calm_below": _number(20, whole=True),
        "vix_stressed_from": _number(30, whole=True),
        "vol_calm_below": _number(0.8),
        "vol_stressed_from": _number(1.5),
    },
    "headlines": {
        "risk_terms": RAISES,
        "spill": _number(0.5),
        "escalation_terms": RAISES,
        "deescalation_terms": LOWERS,
        "metaphors": SILENCES,
        "negation_cues": SILENCES,
        "negation_after": SILENCES,
        "negation_window": _number(3, whole=True),
        "negation_factor": _number(0.3),
        **{f"{name}_cues": Key("terms", in_text=True, mends=(f"kind {name}",)) for name in DAMPERS},
        **{f"{name}_factor": _number(0.5) for name in DAMPERS},
        "report_threshold": _number(20, whole=True),
        **{f"region_{name}": _answers(name) for name in REGIONS},
        "global_from": _number(3, whole=True),
        "default_region": _word(*REGIONS, "global", "none"),
        **{f"category_{name}": _answers(name) for name in CATEGORIES},
    },
    "arbitrage": {
        "profit_basis": _word("net", "gross"),
        "min_profit_pct": _number(0.1),
        "min_notional_usd": _number(500, whole=True),
        "min_profit_usd": _number(1),
        "max_plausible_profit_pct": _number(5),
        "max_quote_age_s": _number(30, whole=True),
        "max_age_gap_s": _number(30, whole=True),
        "max_future_s": _number(2),
        "allow_fx": FLAG,
        "fx_haircut_bps": _number(5),
        "stablecoin_parity": _word("assume", "refuse"),
        "stablecoin_haircut_bps": _number(5),
        "reject_crossed": FLAG,
        "best_per_symbol": FLAG,
    },
    "review": {
        "number_fields": NAMES,
        "min_by_field": NUMBERS,
        "max_by_field": NUMBERS,
        "max_abs_by_field": NUMBERS,
        "up_signals": NAMES,
        "down_signals": NAMES,
        "high_score": _number(70, whole=True),
        "calm_words": TERMS,
        "low_score": _number(20, whole=True),
        "alarm_words": TERMS,
        "different_fields": NAMES,
        "unsupported_numbers_from": _number(1, whole=True),
        "unsupported_phrases": TERMS,
        "duplicate_keys": NAMES,
        "max_age_days": _number(3, whole=True),
        "max_quote_age_s": _number(60, whole=True),
        "min_rationale_words": _number(3, whole=True),
        "empty_rationales": TERMS,
        "cost_spike_ratio": _number(2),
        "latency_spike_ratio": _number(2),
        "max_error_rate": _number(0.2),
        "error_rate_rise": _number(0.2),
        "min_runs": _number(20, whole=True),
        "severity_by_defect": SEVERITIES,
        "high_ratio": _number(4),
    },
    "triage": {
        "unsafe_terms": _answers("reject"),
        "min_evidence_words": _number(2, whole=True),
        "min_change_words": _number(2, whole=True),
        "respect_protected": FLAG,
        "path_decides": FLAG,
        "retire_terms": _answers("retire_review"),
        "code_terms": _answers("code_patch"),
        "prompt_terms": _answers("prompt_change"),
        "default_action": _word("prompt_change", "code_patch", "retire_review", "reject"),
        "reject_uneditable": FLAG,
        "priority_by_severity": PRIORITIES,
        "urgent_terms": _answers("P0"),
    },
    "threshold": {
        "field": _word("daily_change", "z_score", "change_pp", "value"),
        "above": _number(1.0),
        "below": _number(10.0),
        "risk_per_unit": _number(10),
        "max_risk": _number(50, whole=True),
    },
}


def keys_of(analyst: str) -> dict[str, Key]:
    """Every key of an analyst, those by series included."""
    found = dict(VOCABULARY.get(analyst, {}))
    for name, key in list(found.items()):
        if key.by_series:
            found[f"{name}_by_series"] = Key("numbers", scale=key.scale, by_series=True)
    return found


def known_keys(values: Iterable[str]) -> dict[str, Key]:
    """Of these keys the ones that some analyst knows: for a prompt that several agents share."""
    return {
        name: keys[name]
        for analyst in VOCABULARY
        for keys in (keys_of(analyst),)
        for name in values
        if name in keys
    }
