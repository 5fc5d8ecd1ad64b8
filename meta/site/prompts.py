"""What stands on the pages of prompts and of comparisons: lineage, texts side by side, evidence case by case."""

from __future__ import annotations

import difflib
from typing import Any

from eval.ab.sequential import LOWER_SHARE
from meta.site import draw
from meta.site.facts import Facts
from meta.site.recorded import Comparison, Texts


def test_page(facts: Facts, test: Comparison) -> dict[str, Any]:
    curve = facts.evidence(test)
    needed = 1 / (facts.manifest.ab_test.alpha * LOWER_SHARE)
    about = f"{len(curve)} cases; at the end {curve[-1]:.6g} to 1" if curve else ""
    return {
        "test": test,
        "curve": draw.odds(f"Evidence for {test.stem} {test.challenger}", about, curve, needed),
        "weighed": len(curve),
        "agrees": bool(curve) and curve[-1] == test.number("e_value"),
    }


def told(facts: Facts, texts: Texts) -> dict[str, Comparison]:
    """By hash of a text: the newest comparison that it was the challenger of."""
    found: dict[str, Comparison] = {}
    for one in facts.comparisons:
        if one.row.get("prompt") == texts.prompt:
            found.setdefault(str(one.row.get("sha256")), one)
    return found


def prompt_page(facts: Facts, texts: Texts) -> dict[str, Any]:
    order = [row.sha256 for row in texts.lineage if row.sha256 in texts.by_hash]
    order += [digest for digest in texts.by_hash if digest not in order]
    diffs = []
    for place, left in enumerate(order):
        for right in order[place + 1 :]:
            diffs.append(
                (
                    texts.by_hash[left][0],
                    texts.by_hash[right][0],
                    side_by_side(texts.by_hash[left][1], texts.by_hash[right][1]),
                )
            )
    return {
        "texts": texts,
        "told": told(facts, texts),
        "tree": _tree(texts),
        "diffs": diffs[-20:],
        "agents": facts.manifest.prompts[texts.prompt],
    }


def _tree(texts: Texts) -> list[tuple[int, Any]]:
    """(depth, origin) in the order of a tree: every text below the one it was made from."""
    children: dict[str | None, list[Any]] = {}
    known = {row.sha256 for row in texts.lineage}
    for row in texts.lineage:
        parent = row.parent_sha256 if row.parent_sha256 in known and row.parent_sha256 != row.sha256 else None
        children.setdefault(parent, []).append(row)
    out: list[tuple[int, Any]] = []
    seen: set[tuple[str, str]] = set()

    def walk(parent: str | None, depth: int) -> None:
        for row in children.get(parent, ()):
            if (row.variant, row.sha256) not in seen:
                seen.add((row.variant, row.sha256))
                out.append((depth, row))
                walk(row.sha256, depth + 1)

    walk(None, 0)
    return out


def side_by_side(left: str, right: str, around: int = 2) -> list[tuple[str, str, str]]:
    """(kind, left line, right line): what changed, with a little around it; `gap` rows stand for what was left out."""
    a, b = left.splitlines(), right.splitlines()
    rows: list[tuple[str, str, str]] = []
    for group in difflib.SequenceMatcher(None, a, b, autojunk=False).get_grouped_opcodes(around):
        if rows:
            rows.append(("gap", "⋯", "⋯"))
        for kind, i, j, k, m in group:
            old, new = a[i:j], b[k:m]
            for at in range(max(len(old), len(new))):
                rows.append((kind, old[at] if at < len(old) else "", new[at] if at < len(new) else ""))
    return rows
