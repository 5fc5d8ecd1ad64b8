"""Reads recommendations from the critiques or a file, sorts out which ask for code, and asks the model for a patch.

A recommendation is somebody's text, usually a model's: it is bounded here, aimed at an agent whose code may be
edited, and otherwise only ever shown to the meta agent, which says whether it asks for code and writes the patch: one
recommendation, one file, one unified diff. What comes back is untrusted text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from agents.base import build_agent
from agents.manifest import AgentSpec, Manifest
from agents.model.call import Completion, Model, ask
from agents.model.schema import record, text
from agents.texts.prompt_set import PromptSet
from meta.patches.report import NotTried, Recommended, not_tried
from telemetry.edge.errors import BadInput
from telemetry.edge.files import REPORTS, Repo
from telemetry.edge.frozen import frozen
from telemetry.edge.records import listed, load_json
from telemetry.record.run import instrument_agent_call_async

CRITIQUES = REPORTS / "cross_critiques.json"
MAX_FILE_BYTES = 8_000_000
# Of a change or a reason; a longer one is refused, not cut: half an instruction is another one.
MAX_CHARS = 2_000
MAX_TRIAGED = 50  # findings in one question to the meta agent
PRIORITIES = ("P0", "P1", "P2")
WRITER = "meta_agent"  # whose run this is
MAX_TOKENS = 6_000  # of the answer: room for a diff, none for a rewrite

# Not a file of agents/prompts/: those are tuned by promotions, and this one describes a boundary.
SYSTEM: Final = Path(__file__).with_name("writer.md")

ANSWER: Final = record(
    action=text("patch", "decline"),
    why=text(minLength=1),
    diff=text(description="a unified diff; empty when declined"),
)


@frozen
class Recommendation(Recommended):
    """One as it was read, with what triage goes by."""

    evidence: str = ""
    severity: str = "med"


Sorted = tuple[list[Recommendation], list[NotTried]]


def from_critiques(report: Mapping[str, Any]) -> list[Recommendation]:
    """The recommendations of all critiques, most urgent first; those already rejected are left out."""
    found = []
    for critique in listed(report.get("critiques")):
        issues = [issue for issue in listed(critique.get("issues")) if issue.get("supported", True)]
        evidence = " ".join(str(issue.get("evidence") or issue.get("title") or "") for issue in issues)
        levels = {issue.get("severity") for issue in issues}
        severity = next((level for level in ("high", "med") if level in levels), "low")
        for row in listed(critique.get("recommendations")):
            if row.get("rejected") or row.get("status") == "rejected":
                continue
            about = {"origin": f"critique by {critique.get('critic_agent')}", "severity": severity}
            target = row.get("target_agent") or critique.get("target_agent")
            found.append(_recommendation({**about, "evidence": evidence, **row, "agent": target}))
    return sorted(found, key=lambda one: one.priority)


def read(repo: Repo, path: Path | None) -> list[Recommendation]:
    """Those of a file that a person names, else those of the last critiques; none when there are no critiques."""
    file = repo / (CRITIQUES if path is None else path)
    if path is None and not file.exists():
        return []
    try:
        if file.stat().st_size > MAX_FILE_BYTES:
            raise BadInput(f"{path or CRITIQUES}: more than {MAX_FILE_BYTES:,} bytes")
        value = load_json(file.read_bytes())
    except (OSError, ValueError) as problem:
        raise BadInput(f"{path or CRITIQUES}: cannot be read as JSON ({problem})") from None
    if isinstance(value, dict) and isinstance(value.get("critiques"), list):
        return from_critiques(value)
    rows = listed(value if isinstance(value, list) else [value])
    if path is None or not rows:
        raise BadInput(f"{path or CRITIQUES}: holds neither critiques nor recommendations")
    for number, row in enumerate(rows):
        for name in ("agent", "change"):
            if not isinstance(row.get(name) or (row.get("target_agent") if name == "agent" else None), str):
                raise BadInput(f"{path}: recommendation {number}: {name}: must be a text")
    named = [_recommendation({"origin": "a person", **row}) for row in rows]
    return sorted(named, key=lambda one: one.priority)


def code_of(spec: AgentSpec) -> str:
    """The file that holds an agent's code."""
    return spec.module.replace(".", "/") + ".py"


def aimed(given: Sequence[Recommendation], manifest: Manifest) -> Sorted:
    """Those for agents whose code may be edited, each once, and why the others are not tried."""
    specs = {spec.name: spec for spec in manifest.agents}
    fit: dict[tuple[str, str], Recommendation] = {}
    aside = []
    for one in given:
        spec, longest = specs.get(one.agent), max(len(one.change), len(one.why))
        if spec is None:
            aside.append(not_tried(one, "names no agent of the manifest"))
        elif not spec.sandbox_editable:
            aside.append(not_tried(one, f"the code of {one.agent} is not sandbox_editable"))
        elif not spec.eval_suite:
            aside.append(not_tried(one, f"{one.agent} has no eval suite, so nothing would measure a patch"))
        elif longest > MAX_CHARS:
            aside.append(not_tried(one, f"has {longest:,} characters, at most {MAX_CHARS:,} are taken"))
        else:
            fit.setdefault((one.agent, " ".join(one.change.split())), one)
    return list(fit.values()), aside


async def triaged(repo: Repo, given: Sequence[Recommendation], manifest: Manifest, model: Model) -> Sorted:
    """Those that the meta agent finds to need code; a wording or a threshold belongs into the prompt."""
    asked, late = given[:MAX_TRIAGED], given[MAX_TRIAGED:]
    aside = [not_tried(one, f"comes after the first {MAX_TRIAGED}") for one in late]
    code = {spec.name: code_of(spec) for spec in manifest.agents if spec.sandbox_editable}
    inputs = {
        "findings": [_finding(number, one, code[one.agent]) for number, one in enumerate(asked)],
        "editable": {
            "prompts": [spec.prompt for spec in manifest.agents if spec.prompt],
            "code": sorted(set(code.values())),
        },
        "protected_paths": list(manifest.protected_paths),
    }
    chosen = []
    proposals = await build_agent(manifest.agent("meta_agent"), PromptSet(repo), model).arun(inputs)
    for one, proposal in zip(asked, proposals, strict=True):
        if proposal["action"] == "code_patch":
            chosen.append(one)
        else:
            aside.append(not_tried(one, f"the meta agent says {proposal['action']}: {proposal['why'][:300]}"))
    return chosen, aside


def _finding(number: int, one: Recommendation, code: str) -> dict[str, Any]:
    row = {
        "id": f"r{number}",
        "target_agent": one.agent,
        "title": one.why[:200],
        "evidence": one.evidence or one.why,
        "severity": one.severity,
        "change": one.change,
    }
    named = code in one.change or code.rpartition("/")[2] in one.change
    return {**row, "path": code} if named else row


def _recommendation(row: Mapping[str, Any]) -> Recommendation:
    priority = str(row.get("priority"))
    return Recommendation(
        agent=str(row.get("agent") or row.get("target_agent") or ""),
        change=str(row.get("change") or ""),
        why=str(row.get("why") or ""),
        priority=priority if priority in PRIORITIES else "P1",
        origin=str(row.get("origin") or "")[:200],
        evidence=str(row.get("evidence") or "")[:MAX_CHARS],
        severity=str(row.get("severity") or "med")[:10],
    )


@frozen
class Written:
    diff: str = ""  # empty: declined
    why: str | None = None
    model: str | None = None
    provider: str | None = None


async def write_patch(
    model: Model, one: Recommendation, path: str, source: str, refused: Sequence[str]
) -> Written:
    """One answer; a failed call raises `LLMError`."""
    wanted = {"change": one.change, "why": one.why}
    about = {"agent": one.agent, "recommendation": wanted, "path": path, "source": source}
    question = {"task": "patch", **about, "refused": list(refused)}

    async def asked() -> Completion:
        return await ask(model, SYSTEM.read_text("utf-8"), question, ANSWER, max_tokens=MAX_TOKENS)

    done = await instrument_agent_call_async(WRITER, asked, all_calls_counted=True, task="patch")
    diff = _unfenced(done.data["diff"]) if done.data["action"] == "patch" else ""
    return Written(diff, done.data["why"], done.model_answered or done.model_asked, done.provider)


def _unfenced(diff: str) -> str:
    """Without the fence that models like to put around a diff; a last line without its end gets one."""
    lines = diff.strip("\n").split("\n")
    if lines[0].startswith("```"):
        lines = lines[1:-1] if lines[-1].strip() == "```" else lines[1:]
    return "\n".join(lines) + "\n" if any(lines) else ""
