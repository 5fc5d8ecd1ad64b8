"""Proposes for one prompt after the other, and writes what came of it: challengers, lineage and report, or nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import aclosing
from dataclasses import replace
from multiprocessing import get_context

from agents.texts.variants import prompt_file
from eval.ledger.provenance import model_identity
from eval.ledger.report import Asked
from meta.evidence.known import tune_results
from meta.proposals import contenders, searches
from meta.proposals.draft import Draft, Drafter
from meta.proposals.report import FORM, SCHEMA_VERSION, Cleared, LeftOut, Report
from telemetry import logger
from telemetry.edge.errors import BadInput, Stopped
from telemetry.edge.records import made
from telemetry.edge.split import cores
from telemetry.logger import INFRASTRUCTURE
from telemetry.record.run import error_kind


def run(drafter: Drafter) -> Report:
    """Propose for the prompts asked for, and write it down if there is anything new."""
    prompts = _prompts(drafter)
    drafts = _side_by_side(drafter, prompts) or asyncio.run(_all(drafter, prompts))
    proposals, cleared = [], []
    for draft in drafts:
        if (found := draft.contenders) is None:
            continue
        if draft.row is not None:
            kept = contenders.keep(found, draft.text, draft.row)
            proposals.append(replace(draft.row, variant=kept.name))
        cleared += [Cleared(draft.prompt, one.name, one.sha256) for one in contenders.clear(found)]
    identity = model_identity(drafter.model)
    searches.remember(drafter.repo, [draft.search for draft in drafts if draft.search], identity)
    report = Report(
        SCHEMA_VERSION,
        logger.utc_now(),
        tuple(proposals),
        tuple(cleared),
        tuple(LeftOut(draft.prompt, draft.skipped) for draft in drafts if draft.skipped),
        tuple(LeftOut(draft.prompt, why[:300]) for draft in drafts for why in draft.refused[:10]),
        made(Asked, identity),
    )
    if proposals or cleared:
        FORM.write(drafter.repo, report)
    return report


def _side_by_side(drafter: Drafter, prompts: Sequence[str]) -> list[Draft]:
    """The same by all cores, where a search is nothing but arithmetic, and a process may be split; else nothing."""
    at_once = cores(len(prompts)) if drafter.free and drafter.options.max_prompts is None else 1
    if at_once < 2:
        return []
    # A split process has all that is loaded here. A drafter would not go through a pipe, the drafts that come back do.
    with ProcessPoolExecutor(at_once, get_context("fork"), _split.append, (drafter,)) as pool:
        return [draft for drafts in pool.map(_one, prompts) for draft in drafts]


_split: list[Drafter] = []  # in a process that was split off: what it works with


def _one(prompt: str) -> list[Draft]:
    return asyncio.run(_all(_split[-1], [prompt]))


async def _all(drafter: Drafter, prompts: Sequence[str]) -> list[Draft]:
    """One prompt after the other; a broken one does not cost the others theirs, unless it was asked for."""
    drafts: list[Draft] = []
    most = drafter.options.max_prompts
    async with aclosing(drafter.model):
        for prompt in prompts:
            if most is not None and sum(draft.row is not None for draft in drafts) >= most:
                break
            try:
                drafts.append(await drafter.draft(prompt))
            except BadInput as problem:
                if drafter.options.prompts:
                    raise
                drafts.append(Draft(prompt, skipped=str(problem)[:300]))
            except Stopped:
                raise
            except Exception as problem:  # one answer that cannot be used is no reason to stop
                if error_kind(problem) == "budget":
                    raise Stopped(str(problem)) from problem
                whose = "outage" if error_kind(problem) in INFRASTRUCTURE else "the answer cannot be used"
                told = f"{whose}: {type(problem).__name__}: {problem}"[:300]
                drafts.append(Draft(prompt, skipped=told, search=drafter.meter.search(prompt)))
    return drafts


def _prompts(drafter: Drafter) -> list[str]:
    """Those asked for; else every agent's own prompt, the one with the most failing tune cases first."""
    repo, manifest = drafter.repo, drafter.manifest
    if drafter.options.prompts:
        named = [str(prompt_file(repo, path)) for path in dict.fromkeys(drafter.options.prompts)]
        for path in named:
            if path not in manifest.prompts:
                raise BadInput(f"{path}: affects no agent of agents/manifest.yaml")
        return named
    specs = [spec for spec in manifest.enabled() if spec.prompt and spec.eval_suite]
    specs.sort(key=lambda spec: -len(tune_results(repo, spec).failures))
    return list(dict.fromkeys(str(spec.prompt) for spec in specs))
