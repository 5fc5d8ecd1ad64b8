"""The tasks that the offline model knows in any domain: reviewing, triage, judging, a threshold, labels, fields."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from agents.offline.reading import classify, extract
from agents.offline.review import review
from agents.offline.rules import Analyst, Rules, found, tables

ACTIONS = ("retire_review", "code_patch", "prompt_change")
TERMS = {"retire_review": "retire_terms", "code_patch": "code_terms", "prompt_change": "prompt_terms"}
_WORD = re.compile(r"\w{4,}")  # shorter ones carry no meaning of their own

Row = Mapping[str, Any]


def judge(rules: Rules, payload: Row) -> dict[str, Any]:
    """The answer that holds more words of the rubric is the better one; as many are a tie."""
    asked = set(_WORD.findall(str(payload.get("rubric", "")).lower()))
    answers = [str(payload.get(name, "")).lower() for name in ("answer_1", "answer_2")]
    held = [asked.intersection(_WORD.findall(answer)) for answer in answers]
    first, second = map(len, held)
    verdict = "tie" if first == second else "1" if first > second else "2"
    shown = ", ".join(sorted(held[0] ^ held[1])) or "none"
    return {"verdict": verdict, "reason": f"of the rubric's words only one answer holds: {shown}"}


def threshold(rules: Rules, payload: Row) -> dict[str, Any]:
    """One item per record whose field is large enough; the schema decides which of its parts are kept."""
    names, only = rules.word("id_field"), rules.terms("only")
    field = rules.word("field")
    items = []
    for row in payload.get(rules.word("list")) or ():
        value = row.get(field) if isinstance(row, dict) else None
        if not isinstance(value, int | float) or isinstance(value, bool):
            continue
        name, counts = str(row.get(names)), rules.number("above") <= abs(value) < rules.number("below")
        if counts and (not only or name in only):
            items.append(_crossing(rules, name, names, field, float(value)))
    return {"items": items}


def _crossing(rules: Rules, name: str, names: str, field: str, value: float) -> dict[str, Any]:
    by_size = rules.number("risk") + abs(value) * rules.number("risk_per_unit")
    risk = min(rules.number("max_risk"), by_size)
    return {
        names: name,
        field: value,
        "value": value,
        "signal": rules.word("up_signal") if value > 0 else rules.word("down_signal"),
        "risk_score": round(min(100.0, max(0.0, risk)), 1),
        "rationale": f"{name}: {field} is {value:+.4g}",
    }


def triage(rules: Rules, payload: Row) -> dict[str, Any]:
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
    change = "" if action == "reject" else str(finding.get("change") or finding.get("title") or "")
    return {
        "finding_id": str(finding.get("id")),
        "action": action,
        "target": (target or path or agent)[:300],
        "change": change[:2000],
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


KEYS: Final = tables(Path(__file__).with_suffix(".yaml"))
GENERIC: Final[Mapping[str, Analyst]] = {
    "review": Analyst(review, KEYS["review"], tasks=("reviewer",), subject=("items", "index", "item")),
    "triage": Analyst(triage, KEYS["triage"], tasks=("meta_agent",), payload="findings"),
    "judge": Analyst(judge),
    "threshold": Analyst(threshold, KEYS["threshold"]),
    "classify": Analyst(classify, KEYS["classify"]),
    "extract": Analyst(extract, KEYS["extract"]),
}
