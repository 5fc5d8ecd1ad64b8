"""Asks a model for changes of a prompt, under the meta agent's name, and takes only what has the asked shape."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from agents.manifest import AgentSpec, Manifest
from agents.model import call
from agents.model.call import Completion, Model
from agents.model.schema import array, record, text
from agents.texts.prompt_set import BETWEEN, PromptSet
from meta.evidence.known import Finding
from meta.proposals.edits import Edit
from meta.proposals.search import Proposal
from telemetry import logger
from telemetry.edge.frozen import frozen
from telemetry.edge.records import plain
from telemetry.edge.text import clean, redact
from telemetry.record.run import instrument_agent_call_async

PROMPT = "agents/prompts/propose.md"
NOBODY = "proposer"  # who is named on the row when the manifest has no agent for it
MAX_REASON = 500  # characters
MAX_EDITS = 40
MAX_LIST = 12  # entries of a list in a case that are shown: a price history says no more with ninety
MAX_STRING = 400
TOKENS = 6000  # of an answer: it may hold a whole prompt

ANSWER: Final = record(
    proposals=array(
        record(
            reason=text(),
            answers=array(text()),
            edits=array(record(search=text(), replace=text())),
            text=text(description="a whole new prompt, or empty"),
        )
    )
)


@frozen
class Question:
    """What the proposer is told; case ids are left out, nobody needs them to find a pattern."""

    prompt_path: str
    prompt: str
    agents: Sequence[str]
    failing_cases: Sequence[Mapping[str, Any]]
    passing_cases: Sequence[Mapping[str, Any]]
    critiques: Sequence[Finding]
    lineage: Sequence[Mapping[str, Any]]
    refused: Sequence[str]  # by people, with their reasons, the latest last
    remarks: Sequence[str]  # of people, on cases that may be seen, the latest last
    want: int
    seed: int
    task: str = "propose"


async def ask(
    model: Model, manifest: Manifest, prompts: PromptSet, question: Question
) -> tuple[list[Proposal], str]:
    """The proposals, and who made them."""
    spec = proposer(manifest)
    name, own, asking = (spec.name, prompts.system(spec), spec.asking) if spec else (NOBODY, "", {})
    system = BETWEEN.join(part for part in (own, prompts.text(PROMPT).strip()) if part)

    async def once() -> Completion:
        return await call.ask(model, system, plain(question), ANSWER, **{"max_tokens": TOKENS} | asking)

    with logger.source("critique"):
        done: Completion = await instrument_agent_call_async(name, once, prompt_path=question.prompt_path)
    known = {row.id for row in question.critiques}
    found = [_proposal(row, known) for row in done.data["proposals"][: question.want]]
    return found, f"{done.provider}/{done.model_answered or done.model_asked}"


def proposer(manifest: Manifest) -> AgentSpec | None:
    """The agent that turns findings into proposals."""
    return next((spec for spec in manifest.enabled() if spec.inputs == "findings" and spec.prompt), None)


def _proposal(row: Mapping[str, Any], known: Iterable[str]) -> Proposal:
    reason = redact(clean(row["reason"][: 2 * MAX_REASON])).strip()[:MAX_REASON] or "no reason given"
    edits = tuple(Edit(edit["search"], edit["replace"]) for edit in row["edits"][:MAX_EDITS])
    return Proposal(reason, edits, row["text"], tuple(name for name in row["answers"] if name in known))


def shortened(value: Any) -> Any:
    """A case with long lists and strings cut."""
    if isinstance(value, str):
        return value if len(value) <= MAX_STRING else value[:MAX_STRING] + "…"
    if isinstance(value, Mapping):
        return {name: shortened(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [shortened(part) for part in value[:MAX_LIST]]
    return value
