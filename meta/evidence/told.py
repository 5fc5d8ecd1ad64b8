"""A verdict as a person reads it in the log: what it was about, its effect, its evidence. Unknown is left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any, Final

from agents.texts.variants import name_of
from eval.ab.figures import odds, points
from eval.ledger.provenance import history
from telemetry.edge.files import Repo

# What became of the challenger of a comparison that left the champion in place; one that goes on is not decided yet.
KEPT: Final = {"keep": "lost", "blocked": "was better, but blocked"}


def kept(repo: Repo) -> Iterator[dict[str, Any]]:
    """The comparisons that left a champion in place, as rows of the log: no commit brought them."""
    for line in history(repo, "ab_test"):
        for row in line.listed("comparisons"):
            if row.get("verdict") in KEPT and not row.get("promoted"):
                yield {
                    "when": line.date,
                    "what": f"{_stem(row)}: champion stays, {challenger(row) or 'challenger'} {KEPT[row['verdict']]}",
                    "effect": effect(row),
                    "evidence": evidence(row),
                    "commit": "",
                    "holds": None,
                }


def challenger(verdict: Mapping[str, Any], sha256: str | None = None) -> str:
    """A model by its name, a text by letter and hash, as far as it was recorded."""
    if model := verdict.get("model"):
        return str(model)
    return name_of(str(verdict.get("variant") or ""), sha256 or str(verdict.get("sha256") or "")).strip()


def effect(verdict: Mapping[str, Any]) -> str:
    """By how much, with its interval."""
    found = (verdict.get(name) for name in ("effect", "ci_low", "ci_high"))
    change, low, high = (points(one) if isinstance(one, int | float) else "" for one in found)
    if change:
        return f"{change} points ({low} .. {high})" if low and high else f"{change} points"
    reward = verdict.get("rolling_avg_reward")
    return f"mean reward {reward:+.3f}" if isinstance(reward, int | float) else ""


def evidence(verdict: Mapping[str, Any]) -> str:
    """How sure, and on how much."""
    if isinstance(verdict.get("e_value"), int | float):
        return f"{odds(verdict['e_value'])} on {verdict.get('cases_used')} cases"
    if isinstance(verdict.get("odds"), int | float):
        return f"{verdict['odds']:,.0f}:1 on {verdict.get('n')} days"
    if isinstance(verdict.get("upper_bound"), int | float):
        return f"upper bound {verdict['upper_bound']:+.3f} on {verdict.get('n')} runs"
    return ""


def _stem(row: Mapping[str, Any]) -> str:
    return str(row.get("champion_model") or PurePosixPath(str(row.get("prompt") or "?")).stem)
