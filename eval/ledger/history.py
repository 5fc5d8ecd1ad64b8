"""How the scores developed: one line per run in `eval/history.jsonl`, and only if a model was really called."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from telemetry import logger
from telemetry.edge.files import HISTORY, Repo

if TYPE_CHECKING:
    from eval.trials.trial import Trial

RunType = Literal["eval", "ab_test", "night"]


def really_called(trials: Iterable[Trial]) -> bool:
    """Whether some trial of this run (not of the journal it resumed) was answered by a model."""
    return any(not trial.resumed and trial.counted and trial.turns for trial in trials)


def append_history(
    repo: Repo, run_type: RunType, summary: Mapping[str, Any], metadata: Mapping[str, Any]
) -> None:
    """Add one line: when, what kind of run, its figures, and what it was measured with."""
    row = {"ts": logger.utc_now(), "run_type": run_type, "summary": summary, "metadata": metadata}
    logger.append(logger.encode(row), repo / HISTORY)
