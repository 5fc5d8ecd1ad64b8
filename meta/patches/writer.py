"""Asks the model for a patch: one recommendation, one file, one unified diff. What comes back is untrusted text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from agents.model.call import Completion, Model, ask
from agents.model.schema import record, text
from meta.patches.recommendations import Recommendation
from telemetry.edge.frozen import frozen
from telemetry.record.run import instrument_agent_call_async

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
class Written:
    """What the model answered."""

    diff: str = ""  # empty: declined
    why: str | None = None
    model: str | None = None
    provider: str | None = None


async def write_patch(
    model: Model, recommendation: Recommendation, path: str, source: str, refused: Sequence[str] = ()
) -> Written:
    """One answer; a failed call raises `LLMError`."""
    question = {
        "task": "patch",
        "agent": recommendation.agent,
        "recommendation": {"change": recommendation.change, "why": recommendation.why},
        "path": path,
        "source": source,
        "refused": list(refused),
    }

    async def asked() -> Completion:
        return await ask(model, SYSTEM.read_text("utf-8"), question, ANSWER, max_tokens=MAX_TOKENS)

    done = await instrument_agent_call_async(WRITER, asked, all_calls_counted=True, task="patch")
    diff = _plain(done.data["diff"]) if done.data["action"] == "patch" else ""
    return Written(diff, done.data["why"], done.model_answered or done.model_asked, done.provider)


def _plain(diff: str) -> str:
    """Without the fence that models like to put around a diff; a last line without its end gets one."""
    lines = diff.strip("\n").split("\n")
    if lines[0].startswith("```"):
        lines = lines[1:-1] if lines[-1].strip() == "```" else lines[1:]
    return "\n".join(lines) + "\n" if any(lines) else ""
