"""What the offline model knows about markets."""

from __future__ import annotations

from typing import Final

from agents.market.analysts import headlines, macro, quotes
from agents.offline.analysts import threshold
from agents.offline.rules import Analyst, word

# An agent without code most often watches one series.
_SERIES: Final = {
    "list": word("series", "the list of records in the payload", tuned=False),
    "id_field": word("series", "what names a record", tuned=False),
    "field": word(
        "daily_change", "report records by this number", "daily_change", "z_score", "change_pp", "value"
    ),
}

ANALYSTS: Final = {
    "macro": Analyst(macro.answer, macro.KEYS, ("macro_watcher",), "series", ("series", "series", "series")),
    "headlines": Analyst(
        headlines.answer,
        headlines.KEYS,
        ("geopolitical_risk",),
        "headlines",
        ("headlines", "id", "headline_id"),
    ),
    "arbitrage": Analyst(
        quotes.answer, quotes.KEYS, ("arbitrage_finder",), "candidates", ("candidates", "id", "candidate_id")
    ),
    "threshold": Analyst(threshold.answer, threshold.KEYS | _SERIES),
}
