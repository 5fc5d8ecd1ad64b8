"""How the offline model proposes: it names single changes of the `rules` block that might mend the failing cases.

The search behind it (rule_moves.py) is told the prompt and the cases, as any model is. Which of its ideas are good is
found out by whoever asked, on the tune cases.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import asdict
from itertools import islice
from typing import Any

from agents.offline.rules import Analyst, Answer, Rules, read
from meta.offline import rule_text
from meta.offline.rule_moves import Move, moves
from meta.offline.term_mining import mine
from meta.proposals.edits import EditError, applied

Row = Mapping[str, Any]


def knowing(analysts: Mapping[str, Analyst]) -> Answer:
    """The judgement of one who knows which rules these analysts take."""

    def answer(rules: Rules, payload: Row) -> dict[str, Any]:
        """As many proposals as are wanted, each a single idea."""
        prompt = str(payload.get("prompt") or "")
        failing, passing = (
            [case for case in payload.get(name) or () if isinstance(case, dict)]
            for name in ("failing_cases", "passing_cases")
        )
        most, words, least = (int(rules.number(name)) for name in ("max_terms", "term_words", "min_failing"))
        mined = mine(failing, passing, words=words, least=least)[:most]
        draw = random.Random(f"propose {payload.get('seed')}")
        ideas = moves(read(prompt).values, analysts, failing, mined, draw)
        proposals = (
            {"reason": idea.told[:500], "answers": [], "edits": edits, "text": ""}
            for idea in ideas
            if (edits := _edits(prompt, idea))
        )
        return {"proposals": list(islice(proposals, int(payload.get("want") or 1)))}

    return answer


def _edits(text: str, idea: Move) -> list[dict[str, str]]:
    """The move as edits; none where the text cannot be edited that way."""
    made = []
    try:
        for key, value in idea.values:
            made.append(edit := rule_text.set_value(text, key, value))
            text = applied(text, [edit])
    except EditError:
        return []
    return [asdict(edit) for edit in made]
