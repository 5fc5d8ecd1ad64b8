"""The shipped example of a domain: agents that watch markets, their sources, sample, signals and offline analysts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from agents.domain import Column, Domain, InputKind, Signals, Source, Starter
from agents.market import arbitrage_finder, macro_watcher
from agents.market.analysts import ANALYSTS
from agents.market.snapshot import CHECKS, SAMPLE, Snapshot
from telemetry.edge.errors import BadInput
from telemetry.read.intervals import wilson


def open_source(mode: str, root: Path) -> Source:
    """The committed sample (`snapshot`) or the world (`live`)."""
    if mode == "snapshot":
        return Snapshot(root / SAMPLE)
    if mode == "live":
        from agents.market.live import Live

        return Live.from_env(root)
    raise BadInput(f"--source-mode {mode}: allowed are snapshot, live")


def _starters() -> Mapping[str, Starter]:
    """What a new agent starts from; only who makes one pays for loading it."""
    from agents.market.starters import STARTERS

    return STARTERS


OPPORTUNITY_PCT: Final = 0.1  # net profit from which an opportunity counts, in percent
TRADING_DAYS_PER_WEEK: Final = 5

Row = Mapping[Any, Any]


def signal_key(item: Row) -> str:
    """`VIX:risk_off`, `europe:conflict` or `BTC:alpha>beta`."""
    if item.get("buy_venue"):
        return f"{item.get('symbol')}:{item['buy_venue']}>{item.get('sell_venue')}"
    subject = item.get("series") or item.get("region")
    what = item.get("signal") or item.get("category")
    return f"{subject}:{what}" if subject and what else ""


def best_profit(items: Sequence[Row]) -> dict[str, float | None]:
    """The best net profit among an output's opportunities, in percent."""
    found = [item.get("profit_pct") for item in items]
    numbers = [float(value) for value in found if isinstance(value, int | float) and value == value]
    return {"profit_pct": max(numbers, default=None)}


def came_true(outcome: Row) -> tuple[str, bool] | None:
    """Of what the market did next: the series or region, and whether it was an event."""
    if "event" not in outcome:
        return None
    return str(outcome.get("series") or outcome.get("region")), bool(outcome["event"])


def opportunities(runs: Sequence[Row], outcomes: Sequence[Row]) -> dict[str, Any] | None:
    """On how many days an arbitrage agent finds something worth taking; None for agents of another trade."""
    best: dict[str, float] = {}
    for run in runs:
        if (profit := run.get("profit_pct")) is not None:
            best[run["day"]] = max(float(profit), best.get(run["day"], float(profit)))
    if not best:
        return None
    worth = [profit for profit in best.values() if profit >= OPPORTUNITY_PCT]
    return {
        "threshold_pct": OPPORTUNITY_PCT,
        "per_week": len(worth) / len({run["day"] for run in runs}) * TRADING_DAYS_PER_WEEK,
        "mean_profit_pct": sum(best.values()) / len(best),
    }


def fills(runs: Sequence[Row], outcomes: Sequence[Row]) -> dict[str, Any] | None:
    """Of the opportunities an agent named, how many could really be taken."""
    filled = {(row["date"], signal_key(row)): bool(row["filled"]) for row in outcomes if "filled" in row}
    named = {(run["day"], key) for run in runs for key in str(run.get("signals") or "").split()}
    named &= filled.keys()
    if not named:
        return None
    done, of = sum(filled[one] for one in named), len(named)
    return {"named": of, "fill_rate": done / of, "fill_rate_interval": list(wilson(done, of) or ())}


# How strong a signal is: as scoring version 1.0 has it (telemetry/reward.py), whose fields are those of our outputs.
SIGNALS: Final = Signals(key=signal_key, figures=best_profit)
COLUMNS: Final = (
    Column("opportunities", "opportunities/week", opportunities, lambda found: f"{found['per_week']:.1f}"),
    Column("fills", "fill rate", fills, lambda found: f"{100 * found['fill_rate']:.0f} %"),
)

DOMAIN: Final = Domain(
    inputs={
        "macro": InputKind(CHECKS["macro"], macro_watcher.payload),
        "headlines": InputKind(CHECKS["headlines"]),
        "quotes": InputKind(CHECKS["quotes"], arbitrage_finder.payload),
    },
    open_source=open_source,
    signals=SIGNALS,
    came_true=came_true,
    columns=COLUMNS,
    analysts=ANALYSTS,
    starters=_starters,
    agents=("macro_watcher", "geopolitical_risk", "arbitrage_finder", "vix_echo"),
    paths=(
        "agents/market",
        "agents/sample",
        "agents/sample_market.py",
        "eval/build_suites.py",
        "eval/cases",
        "telemetry/outcomes.jsonl",
    ),
)
