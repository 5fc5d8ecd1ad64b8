"""Tells which texts of a prompt are still in the race, and what to start a new one from.

A challenger *waits* until it was tested against the present champion. One that lost stays lost: its file becomes a copy
of the champion's text, which competes with nobody, so that nights carry no dead weight and no file is ever deleted.
What it said stands in git history; the lineage remembers it by letter and hash, and no other text gets its letter.
"""

from __future__ import annotations

from collections.abc import Mapping

from agents.texts.variants import Variant, Variants
from eval.ab.memory import Memory
from meta.proposals.report import Proposed
from telemetry.edge.files import Repo
from telemetry.edge.frozen import frozen

ORIGINAL = "A"  # where the prompt started: kept for reference


@frozen
class Contenders:
    """The texts of one prompt."""

    texts: Variants
    champion: Variant
    base: Variant  # what a new challenger should beat: the champion, or the winner that waits to be merged
    waiting: tuple[Variant, ...]
    lost: tuple[Variant, ...]  # without the original; copies of a text that is out of the race, too
    tried: Mapping[str, str]  # hash -> what became of it

    @property
    def unmerged(self) -> str:
        """The winner that a new challenger is built on while nobody has merged it; empty: on the champion."""
        return "" if self.base.sha256 == self.champion.sha256 else self.base.called


def contenders(repo: Repo, prompt: str, memory: Memory) -> Contenders:
    """Sort the texts of a prompt by what is known about them."""
    texts = Variants(repo, prompt)
    champion = texts.champion()
    others, _ = texts.challengers()
    told = {sha: f"it {why}" for (path, sha), why in memory.rejected.items() if path == prompt}
    former = [(sha, why) for (path, sha), why in memory.dethroned.items() if path == prompt]
    told |= {sha: f"a former champion ({why})" for sha, why in former}
    told |= {
        sha: one.told
        for (path, sha), one in memory.refused.items()
        if path == prompt and one.stands_beside(champion.sha256)
    }
    new = [one for one in others if one.sha256 not in told]
    winner = next((one for one in new if one.sha256 == memory.winners.get(prompt)), None)
    there = {champion.sha256: "the champion's", **{one.sha256: f"challenger {one.called}" for one in others}}
    return Contenders(
        texts,
        champion,
        winner or champion,
        tuple(one for one in new if one is not winner and one.name != ORIGINAL),
        tuple(one for one in texts.every()[0] if one.sha256 in told and one.name != ORIGINAL),
        {**told, **there},
    )


def keep(found: Contenders, text: str, row: Proposed) -> Variant:
    """Write a new challenger with its lineage."""
    found.texts.ensure()
    return found.texts.add(
        text,
        source="proposal",
        author=row.author,
        reason=row.reason,
        parent=row.parent_sha256,
        calls=row.calls,
        cost_usd=row.cost_usd,
        practice=round(row.tune.points / 100, 4),
    )


def clear(found: Contenders) -> list[Variant]:
    """Let the files of challengers that lost hold the champion's text, and tell which they were.

    A file that was cleared before an earlier champion fell holds that one's text: it follows, and is no news.
    """
    own = {(row.variant, row.sha256) for row in found.texts.lineage()}
    for one in found.lost:
        found.texts.restart(one.name)
    return [one for one in found.lost if (one.name, one.sha256) in own]
