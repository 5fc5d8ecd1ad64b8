"""Tells which texts of a prompt are still in the race, what to start a new one from, and which letters are free.

A challenger *waits* until it was tested against the present champion. One that lost stays lost: its letter goes to the
next challenger, or its file becomes a copy of the champion's text, which competes with nobody. So nights do not carry
dead weight, and no file is ever deleted. What it said stands in git history and, by its hash, in the lineage.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from agents.texts.variants import Variant, Variants
from eval.ab.memory import Memory
from telemetry.edge.files import Repo

ORIGINAL = "A"  # where the prompt started: kept for reference


@dataclass(frozen=True, slots=True)
class Contenders:
    """The texts of one prompt."""

    texts: Variants
    champion: Variant
    base: Variant  # what a new challenger should beat: the champion, or the winner that waits to be merged
    waiting: tuple[Variant, ...]
    lost: tuple[Variant, ...]  # without the original
    tried: Mapping[str, str]  # hash -> what became of it


def contenders(repo: Repo, prompt: str, memory: Memory) -> Contenders:
    """Sort the texts of a prompt by what is known about them."""
    texts = Variants(repo, prompt)
    champion = texts.champion()
    others, _ = texts.challengers()
    told = {sha: f"it lost: {why}" for (path, sha), why in memory.rejected.items() if path == prompt}
    former = [(sha, why) for (path, sha), why in memory.dethroned.items() if path == prompt]
    told |= {sha: f"a former champion ({why})" for sha, why in former}
    new = [one for one in others if one.sha256 not in told]
    winner = next((one for one in new if one.sha256 == memory.winners.get(prompt)), None)
    there = {champion.sha256: "the champion's", **{one.sha256: f"challenger {one.name}" for one in others}}
    return Contenders(
        texts,
        champion,
        winner or champion,
        tuple(one for one in new if one is not winner and one.name != ORIGINAL),
        tuple(one for one in others if one.sha256 in told and one.name != ORIGINAL),
        {**told, **there},
    )


def keep(found: Contenders, text: str, *, author: str, reason: str) -> Variant:
    """Write a new challenger: under the letter of one that lost, else under the next free one."""
    found.texts.ensure()
    name = found.lost[0].name if found.lost else None
    return found.texts.add(text, source="proposal", author=author, reason=reason, name=name)


def clear(found: Contenders, taken: str | None) -> list[str]:
    """Let the files of challengers that lost hold the champion's text; `taken` is in use again. Their names."""
    cleared = [one.name for one in found.lost if one.name != taken]
    for name in cleared:
        found.texts.restart(name)
    return cleared
