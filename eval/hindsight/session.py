"""One back-test from plan to outcome: what is due, run it, report, carry out, remember."""

from __future__ import annotations

import shlex
from dataclasses import field
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from agents.domain import domain_of
from agents.llm_client import ModelOptions
from agents.manifest import Manifest, load_manifest
from agents.texts.variants import prompt_file
from eval.ab.carry_out import carry_out, finish_pending, pending
from eval.ab.report import spend_of
from eval.ab.rounds import PASSES
from eval.hindsight.body import FORM
from eval.hindsight.plan import Plan, make_plan
from eval.hindsight.record import SCHEMA_VERSION, Report, Settings, Tested
from eval.hindsight.run import Played, run, tested
from eval.ledger.decisions import Decision
from eval.ledger.provenance import (
    GitState,
    history,
    history_row,
    model_identity,
    replay_metadata,
    run_url,
    seen_in,
)
from eval.trials.journal import Journal
from telemetry.edge.errors import BadInput
from telemetry.edge.files import SCRATCH, Repo
from telemetry.edge.frozen import frozen
from telemetry.edge.lock import only_one
from telemetry.edge.records import plain
from telemetry.logger import SCORING_VERSION

JOURNAL = SCRATCH / "backtest.jsonl"  # kept after the run: the same again costs no call

# What a decision keeps of the test, and what a line of history does; the rest is in the report.
_KEPT = (
    *("prompt", "promotion", "pair", "verdict", "reason", "effect", "ci_low", "ci_high", "promised"),
    *("wins", "ties", "losses", "cases_used", "cases_available"),
)


@frozen
class Asked:
    """One run as asked for."""

    prompts: tuple[str, ...] = ()
    ask: ModelOptions = field(default_factory=ModelOptions)
    force: bool = False
    quiet: bool = False
    today: date | None = None


def planned(repo: Repo, asked: Asked, manifest: Manifest | None = None, model: Any = None) -> Plan:
    """What is due; reads little where nothing was promoted."""
    manifest = manifest or load_manifest(repo)
    settings = Settings(asked.ask.seed, asked.ask.offline_noise, manifest.ab_test.min_cases)
    identity = model_identity(model or asked.ask.within(manifest).model())
    prompts = [str(prompt_file(repo, path)) for path in asked.prompts]
    today = asked.today or datetime.now(UTC).date()
    return make_plan(repo, manifest, settings, identity, today, prompts=prompts, force=asked.force)


def anything_due(repo: Repo, manifest: Manifest) -> bool:
    """Whether a run has anything to do, or to complain about: the complaint is its own."""
    try:
        return (repo / pending(FORM)).exists() or bool(planned(repo, Asked(), manifest).promotions)
    except BadInput:
        return True


def run_backtest(repo: Repo, asked: Asked) -> Report | None:
    """Plan, run, decide, carry out. The report; None if nothing was due."""
    with only_one(repo, "backtest", "back-test"):
        if (unfinished := finish_pending(repo, FORM)) is not None and not asked.force:
            return unfinished
        git, manifest = GitState(repo), load_manifest(repo)
        ask = asked.ask.within(manifest)
        analysts = domain_of(repo, manifest.agents).analysts
        model = ask.model([spec.model for spec in manifest.enabled()], analysts)
        plan = planned(repo, asked, manifest, model)
        if not plan.promotions:
            return None
        identity = model_identity(model)
        about = {
            **identity,
            "run": "backtest",
            "tests": {
                one.pair: [one.prompt, *sorted(unit.case.hash for unit in one.units)]
                for one in plan.promotions
            },
            "prompts": {path: plan.promotions[0].now.sha256(path) for path in sorted(manifest.prompts)},
            "settings": plain(plan.settings),
            "scoring_version": SCORING_VERSION,
        }
        # The same question to the same clockwork is asked once.
        times = 1 if identity["provider"] == "offline" and not ask.offline_noise else PASSES
        with Journal(repo / JOURNAL, about, resume=not asked.force) as journal:
            played = run(plan, model, journal, ask, times, quiet=asked.quiet)
        report = _report(plan, played, ask, git, about["prompts"])
        texts = {one.prompt: one.replaced.text for one in plan.promotions}
        fallen = {one.prompt: texts[one.prompt] for one in report.fallen}
        decided = [_decision(one, report) for one in report.fallen]
        carry_out(repo, FORM, report, decided, fallen, _remembered(repo, report, played))
        return report


def _report(plan: Plan, played: Played, ask: ModelOptions, git: GitState, prompts: dict[str, str]) -> Report:
    tests = tuple(tested(one, played, plan.settings.least) for one in plan.promotions)
    metadata = replay_metadata(
        git,
        suites=plan.suites,
        prompts=prompts,
        seen=seen_in(played.trials),
        seed=plan.settings.seed,
        run_type="backtest",
        **run_url(),
    )
    return Report(
        schema_version=SCHEMA_VERSION,
        generated_at=metadata["generated_at"],
        status="stopped" if played.stopped else "complete",
        stop_reason=played.stopped,
        demoted=tuple(one.prompt for one in tests if one.verdict == "demote"),
        settings=plan.settings,
        spend=spend_of(played.trials, ask.max_usd),
        command=_command(plan),
        tests=tests,
        waiting=plan.waiting,
        metadata=metadata,
    )


def _command(plan: Plan) -> str:
    """What to type to get the same run again."""
    words = ["python", "-m", "eval.backtest", "--seed", str(plan.settings.seed)]
    if plan.settings.offline_noise:
        words += ["--offline-noise", f"{plan.settings.offline_noise:g}"]
    for one in plan.promotions:
        words += ["--prompt", one.prompt]
    return shlex.join([*words, "--force"])


def _decision(one: Tested, report: Report) -> Decision:
    return Decision(
        decision="demote",
        kind="backtest",
        subject=Path(one.prompt).stem,
        date=report.generated_at[:10],
        before_sha256=one.live_sha256,
        after_sha256=one.replaced_sha256,
        report_sha256=None,
        verdict={"variant": one.live, **_kept(one)},
        metadata=report.metadata,
    )


def _kept(one: Tested) -> dict[str, Any]:
    return {name: getattr(one, name) for name in _KEPT}


def _remembered(repo: Repo, report: Report, played: Played) -> dict[str, Any] | None:
    """One line of history, once, if anything was measured: the same cases are not asked again tomorrow."""
    ran = [trial for trial in played.trials if trial.counted]
    told = plain([_kept(one) for one in report.tests if one.verdict != "inconclusive"])
    again = all(trial.resumed for trial in ran)
    if not ran or (again and any(line.listed("tests") == told for line in history(repo, "backtest"))):
        return None
    summary = {"tests": told, "demoted": report.demoted, "spend": plain(report.spend)}
    return history_row("backtest", summary, report.metadata)
