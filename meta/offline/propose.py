"""How the offline model proposes: it names single changes of the `rules` block that might mend the failing cases.

The search behind it (rule_moves.py) is told the prompt and the cases, as any model is. Which of its ideas are good is
found out by whoever asked, on the tune cases.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Any, Final

from agents.offline.rules import Analyst, Answer, Rules, number
from meta.offline import rule_text
from meta.offline.rule_moves import Move, moves
from meta.proposals.edits import EditError, applied

Row = Mapping[str, Any]

KEYS: Final = {
    "max_terms": number(20, "how many terms are mined from failing cases ...", 20, whole=True),
    "term_words": number(1, "... of at most so many words ...", 1, whole=True),
    "min_failing": number(1, "... that stand in at least so many of them", 1, whole=True),
}


def knowing(analysts: Mapping[str, Analyst]) -> Answer:
    """The judgement of one who knows which rules these analysts take."""

    def answer(rules: Rules, payload: Row) -> dict[str, Any]:
        """As many proposals as are wanted, each a single idea."""
        return _proposals(rules, payload, analysts)

    return answer


def _proposals(rules: Rules, payload: Row, analysts: Mapping[str, Analyst]) -> dict[str, Any]:
    prompt = str(payload.get("prompt") or "")
    values = rule_text.read(prompt)
    ideas = moves(
        values,
        analysts,
        [case for case in payload.get("failing_cases") or () if isinstance(case, dict)],
        [case for case in payload.get("passing_cases") or () if isinstance(case, dict)],
        max_terms=int(rules.number("max_terms")),
        term_words=int(rules.number("term_words")),
        min_failing=int(rules.number("min_failing")),
        draw=random.Random(f"propose {payload.get('seed')}"),
    )
    found: list[dict[str, Any]] = []
    for idea in ideas:
        if len(found) >= int(payload.get("want") or 1):
            break
        edits = list(_edits(prompt, idea))
        if edits:
            found.append({"reason": idea.told[:500], "answers": [], "edits": edits, "text": ""})
    return {"proposals": found}


def _edits(prompt: str, idea: Move) -> Iterator[dict[str, str]]:
    """The move as edits; nothing where the text cannot be edited that way."""
    text = prompt
    made = []
    try:
        for key, value in idea.values:
            edit = rule_text.drop(text, key) if value is None else rule_text.set_value(text, key, value)
            text = applied(text, [edit])
            made.append({"search": edit.search, "replace": edit.replace})
    except EditError:
        return
    yield from made
