"""The offline judgement on findings: which of them to act on, where and how."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from agents.offline.rules import Rules, flag, found, number, terms, word, words

Row = Mapping[str, Any]
ACTIONS = ("retire_review", "code_patch", "prompt_change")
TERMS = {"retire_review": "retire_terms", "code_patch": "code_terms", "prompt_change": "prompt_terms"}


KEYS: Final = {
    "unsafe_terms": terms("anywhere in a finding: reject", 'expected "reject"'),
    "min_evidence_words": number(0, "less evidence is no ground to act on: reject", 2, whole=True),
    "min_change_words": number(0, "a shorter change says nothing: reject", 2, whole=True),
    "respect_protected": flag("reject what mentions a protected path (Python rejects it in any case)"),
    "path_decides": flag("an editable `path` decides between prompt and code"),
    "retire_terms": terms(
        "most hits of the three decide; a tie goes to retire, ...", 'expected "retire_review"'
    ),
    "code_terms": terms("... code, ...", 'expected "code_patch"'),
    "prompt_terms": terms("... prompt, in this order", 'expected "prompt_change"'),
    "default_action": word(
        "prompt_change", "without any hit", "prompt_change", "code_patch", "retire_review", "reject"
    ),
    "reject_uneditable": flag("reject what has no editable file to aim at (Python rejects it in any case)"),
    "priority_by_severity": words("severity -> priority; else P1", "P0", "P1", "P2"),
    "urgent_terms": terms("one of them makes it P0", 'expected "P0"'),
}


def answer(rules: Rules, payload: Row) -> dict[str, Any]:
    """One proposal per finding."""
    editable = payload.get("editable") or {}
    findings = [row for row in payload.get("findings") or () if isinstance(row, dict)]
    return {"items": [_proposal(rules, row, editable) for row in findings]}


def _proposal(rules: Rules, finding: Row, editable: Row) -> dict[str, Any]:
    agent, path = str(finding.get("target_agent") or ""), str(finding.get("path") or "")
    text = " ".join(str(finding.get(key) or "") for key in ("title", "evidence", "change"))
    action, why = _action(rules, finding, text, editable)
    target = _target(action, agent, path, editable)
    if not target and action != "reject" and rules.flag("reject_uneditable"):
        action, why = "reject", "there is no editable file to aim at"
    return {
        "finding_id": str(finding.get("id")),
        "action": action,
        "target": (target or path or agent)[:300],
        "change": ""
        if action == "reject"
        else str(finding.get("change") or finding.get("title") or "")[:2000],
        "why": why,
        "priority": _priority(rules, finding, text),
    }


def _action(rules: Rules, finding: Row, text: str, editable: Row) -> tuple[str, str]:
    unsafe = found(rules.terms("unsafe_terms"), text)
    if unsafe:
        return "reject", f"the change is unsafe: {unsafe[0]}"
    if finding.get("protected_mentions") and rules.flag("respect_protected"):
        return "reject", f"touches the protected path {finding['protected_mentions'][0]}"
    if len(str(finding.get("evidence") or "").split()) < rules.number("min_evidence_words"):
        return "reject", "there is no evidence to act on"
    if len(str(finding.get("change") or "").split()) < rules.number("min_change_words"):
        return "reject", "it does not say what to change"
    path = finding.get("path")
    if rules.flag("path_decides") and path:
        for action, kind in (("prompt_change", "prompts"), ("code_patch", "code")):
            if path in (editable.get(kind) or ()):
                return action, f"{path} is the file to change"
    counts = {action: len(found(rules.terms(TERMS[action]), text)) for action in ACTIONS}
    best = max(ACTIONS, key=lambda action: counts[action])
    if counts[best]:
        return best, f"the finding speaks of {found(rules.terms(TERMS[best]), text)[0]!r}"
    default = rules.word("default_action")
    return (default if default in (*ACTIONS, "reject") else "prompt_change"), "nothing in it calls for more"


def _target(action: str, agent: str, path: str, editable: Row) -> str:
    """The file or agent to aim at; empty when there is none."""
    if action in ("retire_review", "reject"):
        return agent if action == "retire_review" else path or agent
    files = [str(file) for file in editable.get("prompts" if action == "prompt_change" else "code") or ()]
    if path in files:
        return path
    stem = {"meta_agent": "meta_system"}.get(agent, agent) if action == "prompt_change" else agent
    return next((file for file in files if stem and file.rpartition("/")[2].rpartition(".")[0] == stem), "")


def _priority(rules: Rules, finding: Row, text: str) -> str:
    if found(rules.terms("urgent_terms"), text):
        return "P0"
    priority = rules.words("priority_by_severity").get(str(finding.get("severity")), "P1")
    return priority if priority in ("P0", "P1", "P2") else "P1"
