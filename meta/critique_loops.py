"""What do the agents find wrong with each other? Every pair of the manifest, checked, merged, linked to earlier nights.

Writes `meta/reports/cross_critiques.json` and `.md`; both stay as they are when tonight found nothing new.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any

from agents.llm_client import ModelOptions, add_model_flags, model_options
from telemetry.edge import cli
from telemetry.edge.cli import job_summary, set_output
from telemetry.edge.files import Repo, here
from telemetry.edge.frozen import frozen
from telemetry.edge.records import plain

if TYPE_CHECKING:
    from agents.manifest import Manifest
    from agents.model.call import Model
    from meta.critique.report import Report


@frozen
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
    from meta.critique.loops import criticise, pair_of

    prompts, manifest = PromptSet(here()), load_manifest(here())
    pair = pair_of(prompts, manifest, critic_name, target_name, telemetry_summary, target_output)
    model = model or _model(ModelOptions().within(manifest), manifest)
    return dict(plain(asyncio.run(criticise(pair, prompts, manifest, model))))


def run_loops(
    options: Options | None = None, *, model: Model | None = None, repo: Repo | None = None
) -> dict[str, Any]:
    """Every pair of the manifest; writes the report if it says anything new, and returns it."""
    return dict(plain(_loops(options or Options(), model, repo or here())))


def _loops(options: Options, model: Model | None, repo: Repo) -> Report:
    from agents.manifest import load_manifest
    from agents.texts.prompt_set import PromptSet
    from meta.critique import loops

    manifest = load_manifest(repo)
    ask = options.ask.within(manifest)
    model = model or _model(ask, manifest)
    return loops.run(PromptSet(repo), manifest, model, ask.at_once, options.today)


def _model(ask: ModelOptions, manifest: Manifest) -> Model:
    from meta.offline import analysts

    return ask.model((spec.model for spec in manifest.agents), analysts(manifest))


def parser() -> cli.Parser:
    made = cli.Parser(__doc__)
    add_model_flags(made, seed="of the offline model's noise and search")
    return made


@cli.entry(parser)
def main(args: argparse.Namespace, repo: Repo) -> int:
    from eval.ledger.refusals import refusals
    from meta.critique.report import FORM, sentence

    before = FORM.read(repo)
    report = _loops(Options(model_options(args)), None, repo)
    told = cli.found(sentence(report))
    known = {one.sha256 for one in refusals(repo) if one.kind == "critiques"}  # a person has closed it
    issues = [issue for critique in report.critiques for issue in critique.issues]
    # A report of no issues is news only where it takes some away.
    cleared = not issues and before is not None and any(one.issues for one in before.critiques)
    new = any(issue.id not in known for issue in issues)
    set_output("to_tell", "true" if new or cleared else "false")
    job_summary(f"### Cross-agent critiques\n\n{told}")
    for row in report.failed:
        print(f"warning: {row.told} failed ({row.error_kind}): {row.error}", file=sys.stderr)
    cli.tell(args, plain(report), f"{told} Report: {FORM.markdown}")
    return cli.OK


if __name__ == "__main__":
    raise SystemExit(main())
