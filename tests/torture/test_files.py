"""What a file of state says by mistake, whoever reads it lives with: a value of any kind in any place of it."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from eval.ab.memory import Memory, paid
from eval.hindsight.plan import _tested
from eval.ledger.provenance import history
from eval.ledger.wear import worn
from meta.evidence.told import kept
from meta.proposals.searches import earlier
from meta.pulls import morning
from meta.site.build import _missed
from meta.site.facts import Facts
from meta.site.pictures import by_night
from telemetry.edge.files import HISTORY, Repo
from tests.torture.corrupt import changed
from tests.worlds import world

TRIES = 300
NOW = datetime(2026, 11, 18, tzinfo=UTC)
SUITE = "eval/suites/watcher.jsonl"
COMPARED = {
    "prompt": "agents/prompts/watcher.md", "suites": [SUITE], "pair": "74ff0fc6831a766c", "variant": "B",
    "sha256": "8" * 64, "model_asked": "m", "model_answered": "m", "verdict": "keep", "promoted": False, "effect": 0.4,
    "ci_low": 0.2, "ci_high": 0.6, "e_value": 20.0, "rounds": 2, "cases_used": 39, "cases_available": 39,
    "guardrails": {"cases used": True}, "spend": {"calls": 39, "cost_usd": 0.1}, "bill": {"calls": 78, "cost_usd": 0.2},
}  # fmt: skip
ABOUT = {"suites": {SUITE: "4" * 64}, "prompts": {}, "holdout_cases": {SUITE: 39}, "model_asked": "m",
         "model_answered": "m", "provider": "offline", "model": {"model": "m"}, "journal": "x"}  # fmt: skip
LINES: Mapping[str, Any] = {
    "eval": {"agents": {"watcher": {"counted": 80, "passed": 40, "cost_usd": 0.0}}},
    "ab_test": {"night": "2026-11-18 0", "comparisons": [COMPARED]},
    "proposals": {"searches": [{"prompt": "p.md", "base_sha256": "1", "calls": 3, "cost_usd": 0.0, "sha256": "f"}]},
    "backtest": {"tests": [{"pair": "x", "cases_used": 40}]},
    "night": {"steps": {"evals": {"status": "failed", "told": "no"}}},
}  # fmt: skip


def spoiled(value: Any) -> Iterable[Any]:
    """The value, with something else somewhere in it each time."""
    for number in range(TRIES):
        yield changed(json.loads(json.dumps(value)), random.Random(number))


def pages(repo: Repo) -> None:
    manifest: Any = SimpleNamespace(agents=[SimpleNamespace(name="watcher", prompt="p.md")])
    facts = Facts(repo, NOW, manifest, lines=list(history(repo)))
    _missed(facts)
    told = [(one.stem, one.challenger, one.verdict, one.number("effect")) for one in facts.comparisons]
    assert all(isinstance(part, list | dict) for part in (told, facts.nights, facts.scores))


READERS: Mapping[str, Callable[[Repo], object]] = {
    "memory": Memory,
    "bills": lambda repo: paid(history(repo), ""),
    "wear": lambda repo: worn(history(repo), SUITE),
    "searches": lambda repo: earlier(repo, {"model": "m"}),
    "nights": lambda repo: by_night(history(repo, "eval")),
    "morning": morning.testing,
    "log": lambda repo: list(kept(repo)),
    "backtests": _tested,
    "pages": pages,
}


@pytest.mark.parametrize("run_type", LINES)
@pytest.mark.parametrize("reader", READERS)
def test_a_line_of_history_that_says_nonsense_is_no_line(reader: str, run_type: str, tmp_path: Path) -> None:
    row = {
        "ts": "2026-11-18T00:00:00.000Z",
        "run_type": run_type,
        "summary": LINES[run_type],
        "metadata": ABOUT,
    }
    world.put(tmp_path, str(HISTORY), json.dumps(row) + "\n")
    assert len(list(history(Repo(tmp_path)))) == 1
    for value in spoiled(row):
        world.put(tmp_path, str(HISTORY), json.dumps(value) + "\n")
        READERS[reader](Repo(tmp_path))
