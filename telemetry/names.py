"""The vocabulary of rows: the words that an event may use, and what they mean."""

from __future__ import annotations

from typing import Final

SCHEMA_VERSION: Final = 1
SCORING_VERSION: Final = "1.0"  # of telemetry.reward: every rewarded row carries it
KINDS: Final = ("run", "llm_call", "routing", "evaluation")
SOURCES: Final = ("runtime", "replay", "eval", "ab_test", "critique", "shadow")
FIELD: Final = ("runtime", "replay", "shadow")  # sources of real work; the others are exercises
ERROR_KINDS: Final = ("timeout", "rate_limit", "provider", "parse", "budget", "source", "agent")
# What the endpoint, the budget or a data source did: never held against an agent or an arm.
INFRASTRUCTURE: Final = frozenset({"timeout", "rate_limit", "provider", "budget", "source"})
