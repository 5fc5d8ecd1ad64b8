"""Rows in the documented event format, for tests and benchmarks of what reads them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import orjson

from telemetry import logger
from telemetry.edge.files import here

AGENTS = ("macro_watcher", "geopolitical_risk", "arbitrage_finder", "reviewer", "meta_agent")
START = datetime(2026, 10, 1, tzinfo=UTC)
_numbers = count()


def event(**fields: Any) -> dict[str, Any]:
    """One run, whole, with an id that no other has; any field can be given."""
    row: dict[str, Any] = {
        "event_id": f"0123456789abcdef-{next(_numbers):06x}",
        "schema_version": 1,
        "ts": "2026-10-01T12:00:00.000Z",
        "kind": "run",
        "agent": "macro_watcher",
        "run_id": "20261001T120000-0123456789ab",
        "source": "runtime",
        "latency_ms": 820.5,
        "cost_usd": 0.0012,
        "tokens_in": 900,
        "tokens_out": 200,
        "error": None,
        "reward": 0.4,
        "tokens_thinking": None,
        "cost_source": "price_list",
        "price_list_version": "2026-10-01",
        "error_kind": None,
        "signal_strength": 0.7,
        "scoring_version": "1.0",
        "model": "gpt-5-mini",
        "provider": "openai",
        "prompt_hash": "9f86d081884c",
    }
    return row | fields


def events(many: int, days: float = 30, seed: int = 0) -> Iterator[dict[str, Any]]:
    """Many runs spread evenly over some days, priced or not, failing now and then, each with an id of its own."""
    rng = random.Random(seed)
    for number in range(many):
        when = START + timedelta(days=days * number / many)
        priced, failed = rng.random() < 0.9, rng.random() < 0.03
        tokens_in, tokens_out = rng.randint(300, 2000), rng.randint(50, 600)
        yield event(
            event_id=f"{seed:016x}-{number:06x}",
            ts=when.strftime("%Y-%m-%dT%H:%M:%S.") + f"{when.microsecond // 1000:03d}Z",
            agent=rng.choice(AGENTS),
            run_id=f"{when:%Y%m%dT%H%M%S}-{rng.randbytes(6).hex()}",
            source="runtime" if rng.random() < 0.7 else "eval",
            latency_ms=round(rng.lognormvariate(6.5, 0.6), 3),
            cost_usd=(tokens_in * 0.25 + tokens_out * 2) / 1e6 if priced else None,
            cost_source="price_list" if priced else "unknown",
            tokens_in=tokens_in,
            tokens_out=tokens_out,
            error="TimeoutError: no answer after 60 s" if failed else None,
            error_kind="timeout" if failed else None,
            signal_strength=round(rng.random(), 2),
            reward=rng.gauss(0.3, 0.2),
        )


def day(number: int) -> str:
    """That day of a year that is long over."""
    return (START.date() - timedelta(days=400 - number)).isoformat()


def line(**fields: Any) -> bytes:
    return orjson.dumps(event(**fields))


def log_path() -> Path:
    return here() / logger.LOG_PATH


def write(*lines: bytes, end: bytes = b"\n") -> None:
    """Make these lines the live log."""
    log_path().parent.mkdir(parents=True, exist_ok=True)
    log_path().write_bytes(b"\n".join(lines) + (end if lines else b""))


def write_events(count: int, days: float = 30, seed: int = 0) -> list[dict[str, Any]]:
    """Make a generated log the live log, and give its rows."""
    rows = list(events(count, days, seed))
    write(*(orjson.dumps(row) for row in rows))
    return rows
