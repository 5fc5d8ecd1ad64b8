"""How worn the holdout of a suite is: how many verdicts it has given since it last got fresh cases. Pure.

Every verdict tells a little about the cases behind it, and whoever proposes next builds on it: after enough of them the
champion fits these cases, not the task. Only new cases undo that.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from eval.ledger.provenance import Line

TELLING: Final = frozenset({"promote", "keep", "blocked"})  # undecided and inconclusive verdicts tell nothing


def worn(history: Iterable[Line], suite: str) -> int:
    """Verdicts since the suite's holdout last grew, from the lines of `eval/history.jsonl`, oldest first.

    A row says in `metadata.holdout_cases` how many cases the holdout of each suite had; a change that adds none, or one
    of which that is not known, does not count as fresh. A comparison may name its own `suites`; else it wears all that
    its run was measured with.
    """
    verdicts, size = 0, None
    for line in history:
        metadata = line.metadata
        measured = metadata.get("suites") or {}
        if suite not in measured:
            continue
        known = (metadata.get("holdout_cases") or {}).get(suite)
        if known is not None:
            verdicts = 0 if size is not None and known > size else verdicts
            size = known
        if line.run_type == "ab_test":
            verdicts += sum(
                one.get("verdict") in TELLING and suite in (one.get("suites") or measured)
                for one in line.listed("comparisons")
            )
    return verdicts
