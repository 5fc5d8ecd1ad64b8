"""How does the offline model judge? One small pure analyst per task, each driven by the prompt's rules alone.

An analyst is `(rules, payload) -> answer`. It knows the rules and the payload, nothing else: no files, no agent
code, no case. The analyst is named by the rule `analyst`, else by the task (the agent's name), else chosen by
what the payload holds.

The whole vocabulary, key by key, with the naive default that holds when a prompt does not say:

**macro** (payload: `series`, the features of agents/macro_watcher.py). Keys marked (s) also exist as
`<key>_by_series`, a map from series id to number that wins over the plain key.
  `z_alert` (s) 2.0            report when |z| is at least this ...
  `min_move` (s) 0             ... and |daily_change| of a level at least this fraction
  `min_move_pp` (s) 0          ... and |change_pp| of a rate at least this many percentage points
  `rates_in_pp` no             judge rates by `min_move_pp`; else by `min_move`, like levels
  `big_move` (s) 0             report whatever z is when |daily_change| (|change_pp| of rates) reaches this; 0: never
  `gap_scaling` no             use z_gap_adjusted: several days' change is not one day's
  `max_stale_days` 1000        say nothing about older data
  `min_history` 0              say nothing with fewer changes behind the z-score
  `data_error_ratio` (s) 0     `data_error` when jump_ratio or its inverse reaches this; 0: never
  `positive_only` []           series whose value at or below 0 is a `data_error`
  `vix_calm_below` 20, `vix_stressed_from` 30      regime by the VIX level when VIX is given and fresh, else ...
  `vol_calm_below` 0.8, `vol_stressed_from` 1.5    ... by the series' own vol_ratio
  `up_signals`, `down_signals` maps from series id to signal; default: the obvious ones for VIX, DGS10, DXY, WTI

**headlines** (payload: `headlines`)
  `risk_terms`                 map term -> weight; default war 60, attack* 50, missile* 60, coup 60, sanction* 40 ...
  `spill` 1.0                  share of every further term's weight that is added to the strongest
  `escalation_terms`, `deescalation_terms`   maps term -> weight, added / taken off once there is a risk term
  `metaphors` []               phrases that mean nothing ("trade war chest"): blanked before anything is read
  `negation_cues` [], `negation_after` [], `negation_window` 3, `negation_factor` 0   a term with a cue within so
                               many words before (after) it weighs this share
  `sport_cues`, `anniversary_cues`, `hypothetical_cues`, `fiction_cues` []   one of them in the headline multiplies
                               the score by `sport_factor`, `anniversary_factor`, `hypothetical_factor`,
                               `fiction_factor` (default 1: no effect)
  `report_threshold` 1         report scores from here on
  `region_middle_east`, `region_europe`, `region_asia_pacific`, `region_americas`, `region_africa`   term lists
  `global_from` 99             this many different regions named is `global`
  `default_region` global      when no region is named
  `category_conflict`, `category_sanctions`, `category_coup`, `category_terror`, `category_cyber`,
  `category_trade`, `category_diplomacy`   term lists; most hits win; a tie goes to coup, terror, cyber,
                               sanctions, trade, diplomacy, conflict, in this order
  A term may end in `*` (any ending); one with a capital is found only as written (`US` is not "us").

**arbitrage** (payload: `candidates`, the features of agents/arbitrage_finder.py)
  `profit_basis` gross         `net` of fees or `gross`
  `min_profit_pct` 0           an opportunity earns more than this ...
  `min_notional_usd` 0, `min_profit_usd` (any)   ... and is worth at least these
  `max_plausible_profit_pct` 1e9   beyond this it is a wrong price, not a gift
  `max_quote_age_s` 1e9, `max_age_gap_s` 1e9, `max_future_s` 1e9   freshness, simultaneity, clock errors
  `allow_fx` yes, `fx_haircut_bps` 0   pairs across currencies, and what conversion costs on top
  `stablecoin_parity` assume   `assume` a stablecoin without a rate is 1 USD, or `refuse` such pairs
  `stablecoin_haircut_bps` 0   what holding a stablecoin at parity costs on top
  `reject_crossed` no          refuse a venue whose bid is above its own ask
  `blocked_venues` []          venues never used
  `best_per_symbol` no         only the most profitable pair of each symbol: both use the same depth

**review** (payload: agents/reviewer.py)
  `required_<agent>` or `required` []   fields an item must have -> schema
  `allowed_<field>` []         values a field may take -> schema
  `number_fields` []           fields that must be numbers (or null) -> schema
  `min_by_field`, `max_by_field`, `max_abs_by_field`   maps field -> limit -> out_of_range
  `up_signals`, `down_signals` []   a signal whose daily_change (or change_pp) points the other way -> contradiction
  `calm_words` [] with `high_score` 101, `alarm_words` [] with `low_score` -1   words of the rationale against
                               risk_score -> contradiction
  `different_fields` []        pairs `a+b` that must differ (buy_venue+sell_venue) -> contradiction
  `unsupported_numbers_from` 0 this many numbers that the item does not hold -> unsupported; 0: never
  `unsupported_phrases` []     hearsay in the rationale -> unsupported
  `duplicate_keys` []          fields, or `a+b+c`, that identify an item -> duplicate
  `max_age_days` 1e9, `max_quote_age_s` 1e9  -> stale
  `min_rationale_words` 1, `empty_rationales` []  -> missing_rationale
  `cost_spike_ratio` 1e9, `latency_spike_ratio` 1e9, `max_error_rate` 1.1, `error_rate_rise` 1.1, `min_runs` 0
  `severity_by_defect` {}      map defect -> low|med|high; default med
  `high_ratio` 1e9             a spike of at least this ratio is high whatever the map says

**triage** (payload: agents/meta_agent.py)
  `unsafe_terms` []            anywhere in a finding: reject
  `min_evidence_words` 0, `min_change_words` 0   less is no ground to act on: reject
  `respect_protected` no       reject what mentions a protected path (Python rejects it in any case)
  `path_decides` no            an editable `path` decides between prompt and code
  `retire_terms`, `code_terms`, `prompt_terms` []   most hits decide; ties in this order
  `default_action` prompt_change
  `reject_uneditable` no       reject when there is no editable file to aim at (Python rejects it in any case)
  `priority_by_severity` {}    map severity -> P0|P1|P2; default P1
  `urgent_terms` []            one of them makes it P0

**threshold** (any payload with a list of records: what agents without code use)
  `list` series, `id_field` series, `only` []   which list, what names a record, which names count (empty: all)
  `field` daily_change, `above` 0, `below` 1e9   report records whose |field| lies in [above, below)
  `up_signal`, `down_signal`   value of `signal` by the sign of the field
  `risk_per_unit` 0, `max_risk` 100   risk_score = |field| * risk_per_unit, at most max_risk
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from agents.market.analysts import headlines as analyst_headlines
from agents.market.analysts import macro as analyst_macro
from agents.market.analysts import quotes as analyst_arbitrage
from agents.offline.analysts import review as analyst_review
from agents.offline.analysts import threshold as analyst_threshold
from agents.offline.analysts import triage as analyst_triage
from agents.offline.rules import Rules

Analyst = Callable[[Rules, Mapping[str, Any]], dict[str, Any]]

ANALYSTS: dict[str, Analyst] = {
    "macro": analyst_macro.answer,
    "headlines": analyst_headlines.answer,
    "arbitrage": analyst_arbitrage.answer,
    "review": analyst_review.answer,
    "triage": analyst_triage.answer,
    "threshold": analyst_threshold.answer,
}

_BY_TASK = {
    "macro_watcher": "macro",
    "geopolitical_risk": "headlines",
    "arbitrage_finder": "arbitrage",
    "reviewer": "review",
    "meta_agent": "triage",
}
_BY_PAYLOAD = {"series": "macro", "headlines": "headlines", "candidates": "arbitrage", "findings": "triage"}


def register(name: str, analyst: Analyst) -> None:
    """Teach the offline model another task (critiques, proposals): a rule or a task of that name selects it."""
    ANALYSTS[name] = analyst


def choose(rules: Rules, payload: Mapping[str, Any]) -> Analyst | None:
    """The analyst for a question, or None: then the answer is empty."""
    task = str(payload.get("task", ""))
    for name in (rules.word("analyst", ""), task, _BY_TASK.get(task, "")):
        if name in ANALYSTS:
            return ANALYSTS[name]
    return next((ANALYSTS[name] for key, name in _BY_PAYLOAD.items() if key in payload), None)
