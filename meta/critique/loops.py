"""Asks each critic of the manifest about its colleague, and makes one report of what they say."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from agents.manifest import Manifest
from agents.model import call
from agents.model.call import Model
from agents.review import reviewer
from agents.texts.prompt_set import BETWEEN, PromptSet
from eval.ledger.provenance import model_identity
from eval.ledger.report import Asked
from meta.critique import check
from meta.critique.report import FORM, SCHEMA_VERSION, Critique, Failed, Pairing, Report
from meta.evidence.known import figures, latest_output, telemetry_summary, tune_results
from telemetry import logger
from telemetry.edge.errors import BadInput, Stopped
from telemetry.edge.frozen import frozen
from telemetry.edge.records import made
from telemetry.record.run import error_kind, instrument_agent_call_async

PROMPT = "agents/prompts/critique.md"
FIGURES = ("count", "error_rate", "errors_by_kind", "avg_cost_usd", "avg_reward", "unpriced_runs")


@frozen
class Pair:
    """Who looks at whom, and at what."""

    critic: str
    target: str
    shown: Mapping[str, Any]  # to the critic
    has_something: bool  # to look at


def pair_of(
    prompts: PromptSet,
    manifest: Manifest,
    critic: str,
    target: str,
    summary: Mapping[str, Any],
    output: list[Any] | None = None,
) -> Pair:
    """Gather what is known about the target; `output` instead of its latest one."""
    repo, spec, as_of = prompts.repo, manifest.agent(target), None
    if output is None:
        output, as_of = latest_output(repo, target)
    own, own_day = latest_output(repo, critic)
    tune = tune_results(repo, spec, prompts.hash(spec) if spec.prompt else None)
    view, telemetry = own or [] if own_day == as_of else [], figures(summary, target, FIGURES)
    about = {"agent": target, "as_of": as_of, "outputs": output or [], "telemetry": telemetry}
    shown = {
        "task": "critique",
        "critic": critic,
        **reviewer.payload({**about, "failing_cases": tune.shown()}),
        "telemetry": telemetry,
        "tags": {tag: {"failing": wrong, "of": of} for tag, (wrong, of) in tune.tags.items()},
        "own_output": view[: reviewer.MAX_ITEMS],
        "prompt": spec.prompt,
    }
    return Pair(critic, target, shown, bool(output or telemetry or tune.failures))


def run(prompts: PromptSet, manifest: Manifest, model: Model, concurrency: int, today: str = "") -> Report:
    """Every pair of the manifest; writes the report if it says anything new."""
    repo = prompts.repo
    enabled = {spec.name for spec in manifest.enabled()}
    summary = telemetry_summary(repo)
    pairs = [
        pair_of(prompts, manifest, critic, target, summary)
        for critic, target in manifest.critique_pairs
        if {critic, target} <= enabled
    ]
    seen = [pair for pair in pairs if pair.has_something]
    done = asyncio.run(_all(seen, prompts, manifest, model, concurrency))
    found = [result for result in done if isinstance(result, Critique)]
    failed = [result for result in done if isinstance(result, Failed)]
    if failed and not found:
        raise Stopped(f"every critique failed, last: {failed[-1].error}")
    earlier = FORM.read(repo)
    before = earlier.critiques if earlier else ()
    lost = {row.told for row in failed}
    carried = [row for row in before if row.told in lost]  # it still stands
    today = today or datetime.now(UTC).date().isoformat()
    report = Report(
        SCHEMA_VERSION,
        logger.utc_now(),
        check.ranked([*check.linked(check.merged(found), before, today), *carried]),
        tuple(failed),
        tuple(Pairing(pair.critic, pair.target) for pair in pairs if pair not in seen),
        made(Asked, model_identity(model)),
    )
    if report.critiques == before and (earlier is None or (repo / FORM.markdown).exists()):
        return replace(earlier or report, failed=report.failed)  # nothing new: what is on disk stands
    FORM.write(repo, report)
    return report


async def _all(
    pairs: Sequence[Pair], prompts: PromptSet, manifest: Manifest, model: Model, concurrency: int
) -> list[Critique | Failed]:
    """What came of each pair: one that fails does not lose the others."""
    slots = asyncio.Semaphore(concurrency)

    async def one(pair: Pair) -> Critique | Failed:
        async with slots:
            try:
                return await criticise(pair, prompts, manifest, model)
            except BadInput:
                raise
            except Exception as problem:  # noqa: BLE001 - logged on its row, told in the report
                told = f"{type(problem).__name__}: {problem}"[:300]
                return Failed(pair.critic, pair.target, error_kind(problem), told)

    async with aclosing(model):
        return await asyncio.gather(*map(one, pairs))


async def criticise(pair: Pair, prompts: PromptSet, manifest: Manifest, model: Model) -> Critique:
    """Ask the critic, within its time limit, under its name in the log."""
    spec = manifest.agent(pair.critic)
    system = BETWEEN.join(text for text in (prompts.system(spec), prompts.text(PROMPT).strip()) if text)

    async def ask() -> Critique:
        async with call.own_work(spec.timeout_s):
            said = await call.ask(model, system, pair.shown, check.ANSWER, **spec.asking)
        return check.admitted(pair.critic, pair.target, said.data, pair.shown, manifest.protected_paths)

    with logger.source("critique"):
        done: Critique = await instrument_agent_call_async(pair.critic, ask, target_agent=pair.target)
    return done
