"""What do the agents find wrong with each other? Every pair of the manifest, checked, merged, linked to earlier nights.

Writes `meta/reports/cross_critiques.json` and `.md`; both stay as they are when tonight found nothing new.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agents.llm_client import ModelOptions, add_model_flags, model_options
from telemetry.edge import cli
from telemetry.edge.errors import BadInput, Stopped
from telemetry.edge.files import write_atomic, write_json
from telemetry.edge.github import job_summary
from telemetry.edge.repo import REPORTS, Repo, here

if TYPE_CHECKING:
    from agents.manifest import Manifest
    from agents.model.call import Model
    from agents.texts.prompt_set import PromptSet
    from meta.evidence.pairs import Pair

REPORT = REPORTS / "cross_critiques.json"
SCHEMA = Path(__file__).with_name("cross_critiques.schema.json")
PROMPT = "agents/prompts/critique.md"
SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class Options:
    """How to run; the defaults are those of the command line."""

    ask: ModelOptions = field(default_factory=ModelOptions)
    today: str = ""  # of new findings; default: today, UTC


def critique(
    critic_name: str,
    target_name: str,
    target_output: list[Any],
    telemetry_summary: Mapping[str, Any],
    *,
    model: Model | None = None,
) -> dict[str, Any]:
    """One critique, checked; the target's failing tune cases come from the latest results."""
    import asyncio

    from agents.manifest import load_manifest
    from agents.texts.prompt_set import PromptSet
    from meta.evidence.pairs import pair_of

    prompts = PromptSet(here())
    manifest = load_manifest(prompts.repo)
    if model is None:
        model = _model(ModelOptions(), manifest)
    pair = pair_of(prompts, manifest, critic_name, target_name, telemetry_summary, target_output)
    return asyncio.run(_criticise(pair, prompts, manifest, model))


def run_loops(
    options: Options | None = None, *, model: Model | None = None, repo: Repo | None = None
) -> dict[str, Any]:
    """Every pair of the manifest; writes the report if it says anything new, and returns it."""
    import asyncio

    from agents.manifest import load_manifest
    from agents.texts.prompt_set import PromptSet
    from meta.evidence.known import telemetry_summary
    from meta.evidence.pairs import has_something, pair_of

    options = options or Options()
    prompts = PromptSet(repo or here())
    manifest = load_manifest(prompts.repo)
    enabled = {spec.name for spec in manifest.enabled()}
    summary = telemetry_summary(prompts.repo)
    pairs = [
        pair_of(prompts, manifest, critic, target, summary)
        for critic, target in manifest.critique_pairs
        if {critic, target} <= enabled
    ]
    seen = [pair for pair in pairs if has_something(pair)]
    model = model or _model(options.ask, manifest)
    found, failed = (
        asyncio.run(_all(seen, prompts, manifest, model, options.ask.concurrency)) if seen else ([], [])
    )
    if failed and not found:
        raise Stopped(f"every critique failed, last: {failed[-1]['error']}")
    report = _report(
        prompts.repo, found, failed, [pair for pair in pairs if pair not in seen], options, model
    )
    return _written(prompts.repo, report)


def _model(ask: ModelOptions, manifest: Manifest) -> Model:
    from meta.offline import analysts

    return ask.within(manifest.budget).model((spec.model for spec in manifest.agents), analysts(manifest))


async def _all(
    pairs: Sequence[Pair], prompts: PromptSet, manifest: Manifest, model: Model, concurrency: int
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The critiques that came about, and the pairs that failed: one failing pair does not lose the others."""
    import asyncio

    from telemetry.record.run import error_kind

    slots = asyncio.Semaphore(concurrency)

    async def one(pair: Pair) -> dict[str, Any] | Exception:
        async with slots:
            try:
                return await _criticise(pair, prompts, manifest, model)
            except BadInput:
                raise
            except Exception as problem:  # noqa: BLE001 - logged on its row, told in the report
                return problem

    async with aclosing(model):
        done = await asyncio.gather(*(one(pair) for pair in pairs))
    found = [result for result in done if isinstance(result, dict)]
    failed = [
        {
            "critic_agent": pair.critic,
            "target_agent": pair.target,
            "error_kind": error_kind(result),
            "error": f"{type(result).__name__}: {result}"[:300],
        }
        for pair, result in zip(pairs, done, strict=True)
        if isinstance(result, Exception)
    ]
    return found, failed


async def _criticise(pair: Pair, prompts: PromptSet, manifest: Manifest, model: Model) -> dict[str, Any]:
    """Ask the critic, within its time limit, under its name in the log."""
    import asyncio

    from agents.model import call
    from agents.texts.prompt_set import BETWEEN
    from meta.critique import check as critique_check
    from meta.evidence.pairs import payload
    from telemetry import logger
    from telemetry.record.run import instrument_agent_call_async

    spec = manifest.agent(pair.critic)
    given = payload(pair, manifest.agent(pair.target).prompt)
    system = BETWEEN.join(text for text in (prompts.system(spec), prompts.text(PROMPT).strip()) if text)

    async def ask() -> dict[str, Any]:
        async with asyncio.timeout(spec.timeout_s):
            said = await call.ask(model, system, given, critique_check.ANSWER, model=spec.model)
        return critique_check.admitted(pair.critic, pair.target, said.data, given, manifest.protected_paths)

    with logger.source("critique"):
        made: dict[str, Any] = await instrument_agent_call_async(pair.critic, ask, target_agent=pair.target)
    return made


def _report(
    repo: Repo,
    found: Sequence[dict[str, Any]],
    failed: Sequence[dict[str, Any]],
    unseen: Sequence[Pair],
    options: Options,
    model: Model,
) -> dict[str, Any]:
    from datetime import UTC, datetime

    from eval.ledger.provenance import model_identity
    from meta.critique import check as critique_check
    from telemetry import logger

    earlier = _earlier(repo)
    lost = {(row["critic_agent"], row["target_agent"]) for row in failed}
    carried = [
        row for row in earlier["critiques"] if (row["critic_agent"], row["target_agent"]) in lost
    ]  # what a failed pair said before still stands
    today = options.today or datetime.now(UTC).date().isoformat()
    linked = critique_check.linked(critique_check.merged(found), earlier["critiques"], today)
    return {
        "schema_version": SCHEMA_VERSION,
        "generated_at": logger.utc_now(),
        "critiques": critique_check.ranked([*linked, *carried]),
        "failed": list(failed),
        "nothing_to_see": [{"critic_agent": pair.critic, "target_agent": pair.target} for pair in unseen],
        "model": model_identity(model),
    }


def _earlier(repo: Repo) -> dict[str, Any]:
    """The report of an earlier night; an empty one if there is none, or it is not what it should be."""
    from agents.model import schema as schema_check
    from meta.evidence.known import read_json

    report = read_json(repo, REPORT)
    if report is None or schema_check.problems(schema_check.read_schema(SCHEMA), report):
        return {"critiques": []}
    return report


def _written(repo: Repo, report: dict[str, Any]) -> dict[str, Any]:
    """Write JSON and Markdown, unless the report on disk says the same already; then that one stands."""
    from agents.model import schema as schema_check
    from meta.critique.report import markdown

    if wrong := schema_check.problems(schema_check.read_schema(SCHEMA), report):
        raise AssertionError(f"the report breaks its own schema: {'; '.join(wrong)}")
    earlier = _earlier(repo)
    body = repo / REPORT.with_suffix(".md")
    if earlier.get("critiques") == report["critiques"] and "model" in earlier and body.exists():
        return {**earlier, "failed": report["failed"]}
    write_json(repo / REPORT, report)
    write_atomic(body, markdown(report))
    return report


def parser() -> cli.Parser:
    """The command line."""
    made = cli.Parser(__doc__, prog="python -m meta.critique_loops")
    add_model_flags(made, seed="of the offline model's noise and search")
    return made


@cli.entry(parser)
def main(args: argparse.Namespace, repo: Repo) -> int:
    """Run all pairs, tell what came of it."""
    from meta.critique.report import sentence

    report = run_loops(Options(model_options(args)), repo=repo)
    told = cli.found(sentence(report))
    job_summary(f"### Cross-agent critiques\n\n{told}")
    for row in report["failed"]:
        pair = f"{row['critic_agent']} on {row['target_agent']}"
        print(f"warning: {pair} failed ({row['error_kind']}): {row['error']}", file=sys.stderr)
    if args.json:
        print(json.dumps(report, sort_keys=True, ensure_ascii=False))
    elif not args.quiet:
        print(f"{told} Report: {REPORT.with_suffix('.md')}")
    return cli.OK


if __name__ == "__main__":
    raise SystemExit(main())
