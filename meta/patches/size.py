"""Measures how small a change is for what it does: pure figures over the files before and after.

A model that is asked for one changed line likes to bring a helper, a comment and three guards along. All figures are
shares in 0..1 but the count of files; `reward_multiplier` folds them into one factor in 0.1..1.0.
"""

from __future__ import annotations

import ast
import difflib
import re
from collections import Counter
from collections.abc import Sequence

from telemetry.edge.frozen import frozen

LEAST = 0.1  # a patch that passed is worth something, however it was written
FILE_COST = 0.25  # each further file makes a change this much heavier to review
RATIO_WEIGHT, SCAFFOLDING_WEIGHT = 0.5, 0.5  # a file rewritten whole, or all scaffolding, halves the reward

_SCAFFOLDING = re.compile(
    r"\s*(#|\"\"\"|'''|$|pass\b|\.\.\.\s*$|print\(|log(ger|ging)?\.|import\b|from\s+\S+\s+import\b|(async\s+)?def\b"
    r"|class\b|@|try:|except\b|finally:|assert\b|if\s+__name__)|.*\b(TODO|FIXME|XXX)\b"
)


Texts = Sequence[tuple[str, str]]  # of Python files, before and after; an empty one is no file


@frozen
class Metrics:
    """What goes into the `evaluation` event of a patch."""

    ast_similarity: float
    file_touch_count: int
    line_change_ratio: float
    scaffolding_penalty: float
    reward_multiplier: float


def measure(files: Texts) -> Metrics:
    similarity, ratio, penalty = ast_similarity(files), line_change_ratio(files), scaffolding_penalty(files)
    count = file_touch_count(files)
    factor = reward_multiplier(similarity, count, ratio, penalty)
    return Metrics(similarity, count, ratio, penalty, factor)


def ast_similarity(files: Texts) -> float:
    """Share of syntax subtrees that both sides hold (Dice); 1.0 when only comments or layout changed."""
    before = sum((_subtrees(text) for text, _ in files), Counter[str]())
    after = sum((_subtrees(text) for _, text in files), Counter[str]())
    total = before.total() + after.total()
    return round(2 * (before & after).total() / total, 6) if total else 1.0


def file_touch_count(files: Texts) -> int:
    """Files whose text differs."""
    return sum(before != after for before, after in files)


def line_change_ratio(files: Texts) -> float:
    """Lines added and deleted over the lines there were, at most 1."""
    changed = sum(len(_edits(*file)) for file in files)
    lines = sum(len(before.splitlines()) for before, _ in files)
    return round(min(1.0, changed / max(1, lines)), 6)


def scaffolding_penalty(files: Texts) -> float:
    """Share of the added lines that stand around the change: comments, imports, headers, logging, guards."""
    added = [line[1:] for file in files for line in _edits(*file) if line[0] == "+"]
    around = sum(_SCAFFOLDING.match(line) is not None for line in added)
    return round(around / len(added), 6) if added else 0.0


def reward_multiplier(similarity: float, files: int, ratio: float, penalty: float) -> float:
    """From 1.0 (next to nothing changed) down to 0.1; never better for more of anything."""
    spread = 1 / (1 + FILE_COST * max(0, files - 1))
    factor = similarity * (1 - RATIO_WEIGHT * ratio) * (1 - SCAFFOLDING_WEIGHT * penalty) * spread
    return round(min(1.0, max(LEAST, factor)), 6)


def _subtrees(source: str) -> Counter[str]:
    """Every syntax node with all that hangs on it; one that does not parse has none."""
    try:
        tree = ast.parse(source)
        return Counter(ast.dump(node) for node in ast.walk(tree) if not isinstance(node, ast.Module))
    except (SyntaxError, ValueError, RecursionError):
        return Counter()


def _edits(before: str, after: str) -> list[str]:
    """Every line that differs, after a `+` or `-`."""
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), n=0, lineterm="")
    return [line for line in list(lines)[2:] if line[0] in "+-"]
