"""How does the offline model propose? It names single changes of the `rules` block that might mend the failing cases.

The search behind it (meta/rule_moves.py) is told the prompt and the cases, as any model is. Which of its ideas are good
is found out by whoever asked, on the tune cases. Keys of its own rules, with their naive defaults:
  `max_terms` 20, `term_words` 1, `min_failing` 1   how many terms are mined, of how many words, from how many cases
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Any

from agents.offline import analysts
from agents.offline.rules import Rules
from meta.offline import rule_text
from meta.offline.rule_moves import Move, moves

Row = Mapping[str, Any]


def answer(rules: Rules, payload: Row) -> dict[str, Any]:
    """As many proposals as are wanted, each a single idea."""
    prompt = str(payload.get("prompt") or "")
    values = rule_text.read(prompt)
    ideas = moves(
        values,
        [case for case in payload.get("failing_cases") or () if isinstance(case, dict)],
        [case for case in payload.get("passing_cases") or () if isinstance(case, dict)],
        max_terms=int(rules.number("max_terms", 20)),
        term_words=int(rules.number("term_words", 1)),
        min_failing=int(rules.number("min_failing", 1)),
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
            text = rule_text.applied(text, [edit])
            made.append({"search": edit.search, "replace": edit.replace})
    except rule_text.EditError:
        return
    yield from made


analysts.register("propose", answer)
