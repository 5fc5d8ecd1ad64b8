"""Says a change in one line, the subject of its commit, from the decisions that it brings.

Such as "Promote reviewer: +8.3 points (95 % CI 3.1..13.4), n=112".
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from meta.publish.contents import Decision
from meta.publish.kinds import Kind

_VERBS = {"promote": "Promote", "disable": "Disable", "revive": "Revive"}


def headline(kind: Kind, decisions: Sequence[Decision]) -> str:
    """One line per decision that changes something, else the kind's title. Numbers and checked names only."""
    lines = [_line(one) for one in decisions if one.get("decision") in _VERBS]
    if len(lines) < 2:
        return lines[0] if lines else kind.title
    return "\n".join([kind.title, "", *lines])


def _line(decision: Decision) -> str:
    subject = re.sub(r"[^\w-]", "", str(decision.get("subject", "")))[:64]
    said = f"{_VERBS[str(decision['decision'])]} {subject}"
    verdict = decision.get("verdict")
    found = verdict if isinstance(verdict, dict) else {}
    effect, low, high = (found.get(name) for name in ("effect", "ci_low", "ci_high"))
    if isinstance(effect, int | float) and isinstance(low, int | float) and isinstance(high, int | float):
        said += f": {100 * effect:+.1f} points (95 % CI {100 * low:.1f}..{100 * high:.1f})"
        if isinstance(found.get("cases_used"), int):
            said += f", n={found['cases_used']}"
    return said
