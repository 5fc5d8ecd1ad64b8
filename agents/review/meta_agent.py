"""Turns findings into proposals: the model proposes, Python lets only admissible proposals through.

Whatever the model says, a proposal that would touch a protected path, leave the repository, or edit a file that
is not editable becomes `reject`, with the reason: a prompt is no safety boundary.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from agents.base import BaseAgent, InputError, Inputs, Item, items_of
from agents.manifest import mentions
from agents.model.schema import listed, record, text

ACTIONS: Final = ("prompt_change", "code_patch", "retire_review", "reject")
PRIORITIES: Final = ("P0", "P1", "P2")

JUDGEMENT: Final = listed(
    record(
        finding_id=text(description="the id of one of the given findings"),
        action=text(*ACTIONS),
        target=text(maxLength=300, description="path to change, or agent name"),
        change=text(maxLength=2000),
        why=text(minLength=1, maxLength=1000),
        priority=text(*PRIORITIES),
    )
)


class MetaAgent(BaseAgent):
    """Turns findings into proposals."""

    async def analyze(self, inputs: Inputs) -> list[Item]:
        """One proposal per finding, in the order of the findings."""
        given = payload(inputs)
        if not given["findings"]:
            return []
        answer = await self.ask(given, JUDGEMENT)
        proposals: dict[str, Item] = {}
        for item in answer["items"]:
            proposals.setdefault(item["finding_id"], item)
        return [admitted(proposals.get(finding["id"]), finding, given) for finding in given["findings"]]


def payload(inputs: Inputs) -> dict[str, Any]:
    """What the model is asked about: findings, each with the protected paths it mentions."""
    protected = _strings(inputs.get("protected_paths"))
    rows = []
    for index, finding in enumerate(items_of(inputs, "findings", "findings inputs")):
        if not isinstance(finding, Mapping) or not finding.get("id"):
            raise InputError(f"findings inputs: findings.{index}: needs an id")
        mentioned = mentions(finding, protected)
        rows.append({**finding, "id": str(finding["id"]), "protected_mentions": mentioned})
    editable = inputs.get("editable") if isinstance(inputs.get("editable"), Mapping) else {}
    return {
        "findings": rows,
        "editable": {kind: _strings((editable or {}).get(kind)) for kind in ("prompts", "code")},
        "protected_paths": protected,
    }


def admitted(proposal: Item | None, finding: Mapping[str, Any], given: Mapping[str, Any]) -> Item:
    """The proposal, or a rejection that says why it cannot be admitted."""
    if proposal is None:
        proposal = {"finding_id": finding["id"], "target": "", "change": "", "priority": "P2"}
        return _rejected(proposal, finding, "no proposal was made for this finding")
    reason = refusal(proposal, finding, given)
    return proposal if reason is None else _rejected(proposal, finding, reason)


def refusal(proposal: Item, finding: Mapping[str, Any], given: Mapping[str, Any]) -> str | None:
    """Why a proposal may not be followed up, or None."""
    action, target = proposal["action"], proposal["target"]
    if action == "reject":
        return None
    mentioned = [*finding["protected_mentions"], *mentions(proposal, given["protected_paths"])]
    if mentioned:
        return f"touches the protected path {mentioned[0]}"
    kind = {"prompt_change": "prompts", "code_patch": "code"}.get(action)
    if kind is not None and target not in given["editable"][kind]:
        return f"{target or 'no target'} is not among the editable {kind}"
    return None


def _rejected(proposal: Item, finding: Mapping[str, Any], reason: str) -> Item:
    target = proposal["target"] or str(finding.get("path") or finding.get("target_agent") or "")
    return {**proposal, "action": "reject", "target": target, "why": reason}


def _strings(value: object) -> list[str]:
    return [entry for entry in value if isinstance(entry, str)] if isinstance(value, list | tuple) else []
