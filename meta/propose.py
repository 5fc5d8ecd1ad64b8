"""Which challenger could beat each champion? Asks the model for changes, screens them on tune cases, keeps the best.

Nothing goes live: a challenger competes in the next A/B test, on cases that no proposal has seen. A challenger that
lost gives its letter to the next one. Writes variants, lineage and `meta/reports/proposals.{json,md}`, or nothing.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agents.llm_client import ModelOptions, add_model_flags, model_options
from telemetry.edge import cli
from telemetry.edge.errors import BadInput, Stopped
from telemetry.edge.files import write_atomic, write_json
from telemetry.edge.github import job_summary, set_output
from telemetry.edge.repo import Repo, here

if TYPE_CHECKING:
    from agents.manifest import Manifest
    from agents.model.call import Model
    from meta.proposals.draft import Draft, Drafter

REPORT = Path("meta/reports/proposals.json")
SCHEMA = Path(__file__).with_name("proposals.schema.json")
SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class Options:
    """How to run; the defaults are those of the command line."""

    prompts: tuple[str, ...] = ()
    candidates: int = 3
    screen_cases: int = 24
    max_prompts: int | None = None
    ask: ModelOptions = field(default_factory=ModelOptions)


def propose(
    options: Options | None = None, *, model: Model | None = None, repo: Repo | None = None
) -> dict[str, Any]:
    """Propose for the prompts asked for; writes what came of it, and returns the report."""
    import asyncio

    from agents.manifest import load_manifest
    from meta.offline import analysts
    from meta.proposals.draft import Drafter

    options = options or Options()
    repo = repo or here()
    manifest = load_manifest(repo)
    ask = options.ask.within(manifest.budget)
    model = model or ask.model([spec.model for spec in manifest.agents], analysts(manifest))
    drafter = Drafter(
        repo,
        manifest,
        model,
        options.candidates,
        options.screen_cases,
        ask.seed,
        ask.concurrency,
        bool(options.prompts),
    )
    prompts = _prompts(repo, options, manifest)
    drafts = asyncio.run(_all(drafter, prompts, options, model))
    return _written(repo, drafts, model)


async def _all(drafter: Drafter, prompts: Sequence[str], options: Options, model: Model) -> list[Draft]:
    """One prompt after the other; a broken one does not cost the others theirs, unless it was asked for."""
    from meta.proposals.draft import Draft
    from telemetry.names import INFRASTRUCTURE
    from telemetry.record.run import error_kind

    drafts: list[Draft] = []
    async with aclosing(model):
        for prompt in prompts:
            if (
                options.max_prompts is not None
                and sum(bool(draft.text) for draft in drafts) >= options.max_prompts
            ):
                break
            try:
                drafts.append(await drafter.draft(prompt))
            except BadInput as problem:
                if options.prompts:
                    raise
                drafts.append(Draft(prompt, skipped=str(problem)[:300]))
            except Stopped:
                raise
            except Exception as problem:  # one answer that cannot be used is no reason to stop
                if error_kind(problem) == "budget":
                    raise Stopped(str(problem)) from problem
                whose = "outage" if error_kind(problem) in INFRASTRUCTURE else "the answer cannot be used"
                drafts.append(Draft(prompt, skipped=f"{whose}: {type(problem).__name__}: {problem}"[:300]))
    return drafts


def _prompts(repo: Repo, options: Options, manifest: Manifest) -> list[str]:
    """Those asked for; else every agent's own prompt, the one with the most failing tune cases first."""
    from agents.texts.variants import prompt_file
    from meta.evidence.known import tune_results

    if options.prompts:
        named = [str(prompt_file(repo, path)) for path in dict.fromkeys(options.prompts)]
        for path in named:
            if path not in manifest.prompts:
                raise BadInput(f"{path}: affects no agent of agents/manifest.yaml")
        return named
    specs = [spec for spec in manifest.enabled() if spec.prompt and spec.eval_suite]
    specs.sort(key=lambda spec: -len(tune_results(repo, spec).failures))
    return list(dict.fromkeys(str(spec.prompt) for spec in specs))


def _written(repo: Repo, drafts: Sequence[Draft], model: Model) -> dict[str, Any]:
    """Write challengers and report; nothing at all if there is nothing new."""
    from agents.model import schema as schema_check
    from eval.ledger.provenance import model_identity
    from meta.proposals import contenders
    from meta.proposals.report import markdown
    from telemetry import logger

    proposals, cleared = [], []
    for draft in drafts:
        if draft.contenders is None:
            continue
        taken = None
        if draft.text:
            kept = contenders.keep(draft.contenders, draft.text, author=draft.author, reason=draft.reason)
            proposals.append({**draft.row(), "variant": kept.name, "sha256": kept.sha256})
            taken = kept.name
        names = contenders.clear(draft.contenders, taken)
        cleared += [{"prompt": draft.prompt, "variant": name} for name in names]
    report = {
        "schema_version": SCHEMA_VERSION,
        "generated_at": logger.utc_now(),
        "proposals": proposals,
        "cleared": cleared,
        "skipped": [{"prompt": draft.prompt, "reason": draft.skipped} for draft in drafts if draft.skipped],
        "refused": [
            {"prompt": draft.prompt, "reason": why[:300]} for draft in drafts for why in draft.refused[:10]
        ],
        "model": model_identity(model),
    }
    if wrong := schema_check.problems(schema_check.read_schema(SCHEMA), report):
        raise AssertionError(f"the report breaks its own schema: {'; '.join(wrong)}")
    if proposals or cleared:
        write_json(repo / REPORT, report)
        write_atomic(repo / REPORT.with_suffix(".md"), markdown(report))
    return report


def parser() -> cli.Parser:
    """The command line."""
    made = cli.Parser(__doc__, prog="python -m meta.propose")
    add = made.add_argument
    add("--prompt", action="append", default=[], metavar="FILE", help="only this prompt (repeatable)")
    add(
        "--candidates",
        type=cli.whole(1),
        default=3,
        metavar="N",
        help="ask for N proposals (default: 3; offline: many)",
    )
    add(
        "--screen-cases",
        type=cli.whole(1),
        default=24,
        metavar="N",
        help="try them on N tune cases (offline: on all)",
    )
    add("--max-prompts", type=cli.whole(1), metavar="N", help="at most N new challengers")
    add_model_flags(made, seed="of the search, of the cases tried, and of the offline noise")
    return made


@cli.entry(parser)
def main(args: argparse.Namespace, repo: Repo) -> int:
    """Propose, and tell what came of it."""
    from meta.proposals.report import sentence

    report = propose(
        Options(
            prompts=tuple(args.prompt),
            candidates=args.candidates,
            screen_cases=args.screen_cases,
            max_prompts=args.max_prompts,
            ask=model_options(args),
        ),
        repo=repo,
    )
    set_output("proposed", str(len(report["proposals"])))
    told = cli.found(sentence(report))
    job_summary(f"### New challengers\n\n{told}")
    if args.json:
        print(json.dumps(report, sort_keys=True, ensure_ascii=False))
    elif not args.quiet:
        print(told)
        for row in report["skipped"]:
            print(f"  {row['prompt']}: {row['reason']}", file=sys.stderr)
    return cli.OK


if __name__ == "__main__":
    raise SystemExit(main())
