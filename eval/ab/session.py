"""One A/B night from plan to outcome: what to compare, run or merge it, report, carry out, remember."""

from __future__ import annotations

import json
import shlex
import sys
from collections import deque
from collections.abc import Mapping
from dataclasses import asdict, field, replace
from pathlib import Path
from typing import Any, Literal

from agents.domain import domain_of
from agents.llm_client import ModelOptions
from agents.manifest import Manifest, load_manifest
from agents.model.call import Model
from agents.texts.variants import Variants
from eval.ab import forecast
from eval.ab import report as ab_report
from eval.ab.body import FORM, MODEL_FORM, body, parts
from eval.ab.carry_out import carry_out, finish_pending, promotion
from eval.ab.memory import Memory, compared, kept
from eval.ab.plan import ONLY_ONE, Plan, make_plan
from eval.ab.record import SCHEMA_VERSION, Report, Settings
from eval.ab.run import Board, finish, merge, run
from eval.ledger.provenance import GitState, history_row, model_identity, replay_metadata, run_url, seen_in
from eval.trials.journal import Journal
from eval.trials.results import unread
from eval.trials.shards import journal_file, read_shards
from telemetry.edge.cli import job_summary, set_output
from telemetry.edge.errors import BadInput
from telemetry.edge.files import RESULTS, SCRATCH, Repo
from telemetry.edge.frozen import frozen
from telemetry.edge.lock import only_one
from telemetry.edge.records import plain
from telemetry.edge.text import cell

ASIDE = SCRATCH / "ab_against.jsonl"
JOURNAL = SCRATCH / "ab_test.jsonl"  # kept after the run: the same night again costs no call
SHARDS = RESULTS / "ab_shards"
NOTHING = "nothing to compare"
AGAINST_ALPHA = 0.1  # of a person's own change: 0.02 of it to "worse", which is what they want to be told


@frozen
class Night:
    """One run as asked for; None means: as the manifest says."""

    prompts: tuple[str, ...] = ()
    models: tuple[str, ...] = ()  # only these are compared, with those that the agents ask now
    # Of these prompts: the models are compared under this text, beside the champion under its own.
    variant: str = ""
    only: Literal["", "prompts", "models"] = ""  # empty: prompts, and the manifest's `challenger_models`
    settings: dict[str, Any] = field(default_factory=dict)
    ask: ModelOptions = field(default_factory=ModelOptions)
    shard: tuple[int, int] = (1, 1)
    merge: Path | None = None
    quiet: bool = False


def run_night(repo: Repo, night: Night) -> Report:
    """Plan, run, decide, carry out. The report; one without tests if there was nothing to compare."""
    part, of = night.shard
    sharded = of > 1
    with only_one(repo, f"ab_test-{part}-of-{of}" if sharded else "ab_test", "A/B run"):
        aside = bool(night.settings.get("against"))  # a question on the side: nothing is carried out
        if not sharded and not aside:
            unfinished = [done for form in (FORM, MODEL_FORM) if (done := finish_pending(repo, form))]
            if unfinished and not night.settings.get("force"):
                _announce(unfinished[-1])
                return unfinished[-1]
        git = GitState(repo)
        manifest = load_manifest(repo)
        board = _measured(repo, night, manifest)
        report = _report(night, manifest, board, git)
        if board.plan.arms and not sharded and not aside:
            texts = {(arm.variant.prompt, arm.variant.sha256): arm.variant.text for arm in board.plan.arms}
            written = list(parts(report))
            for form, told in written:
                won = {t.prompt: texts[t.prompt, arm.sha256] for t, arm in told.winners if t.prompt}
                decided = [promotion(test, arm, told) for test, arm in told.winners]
                remembered = _remembered(repo, report, board) if form is written[-1][0] else None
                carry_out(repo, form, told, decided, won, remembered)
        _announce(report, night.shard)
        return report


def _measured(repo: Repo, night: Night, manifest: Manifest) -> Board:
    """The trials of this night: from the shards, or run here, or in part from the journal."""
    ask = asked(night, manifest)
    if night.merge is not None:
        return _merged(repo, night, manifest, ask)
    model = _model(repo, night, manifest, ask)
    plan = planned(repo, night, manifest, model_identity(model))
    if not plan.arms:
        return Board(plan)
    if not night.quiet:
        print(f"A/B: {forecast.told(plan, ask.max_usd)}", file=sys.stderr)
    with _journal(repo, night, plan) as journal:
        return run(plan, model, journal, ask, night.shard, quiet=night.quiet)


def _merged(repo: Repo, night: Night, manifest: Manifest, ask: ModelOptions) -> Board:
    """What the shards ran, and the fresh pass over what they prove, which none of them could know to be needed."""
    shards = read_shards(repo, night.merge or SHARDS)
    board = merge(planned(repo, night, manifest, shards.model), shards)
    if board.plan.deterministic:  # asking again would tell nothing
        deque(board.finish(), maxlen=0)
    elif board.proven and not board.stopped:
        spent = ab_report.spend_of(shards.trials, ask.max_usd)
        ask = replace(
            ask,
            max_usd=None if ask.max_usd is None else max(0.0, ask.max_usd - (spent.cost_usd or 0.0)),
            max_calls=None if ask.max_calls is None else max(0, ask.max_calls - spent.calls),
        )
        model = _model(repo, night, manifest, ask)
        if (here := model_identity(model)) != shards.model:
            there = shards.model["model"]
            raise BadInput(f"--merge: the shards asked {there}, here it would be {here['model']}")
        with _journal(repo, night, board.plan) as journal:
            finish(board, model, journal, ask, quiet=night.quiet)
    return board


def _model(repo: Repo, night: Night, manifest: Manifest, ask: ModelOptions) -> Model:
    models = [*(spec.model for spec in manifest.enabled()), *challengers(night, manifest)]
    return ask.model(models, domain_of(repo, manifest.agents).analysts)


def _journal(repo: Repo, night: Night, plan: Plan) -> Journal:
    path = journal_file(ASIDE if plan.settings.against else JOURNAL, SHARDS, night.shard)
    return Journal(repo / path, plan.about, resume=not plan.settings.force)


def planned(repo: Repo, night: Night, manifest: Manifest, model: Mapping[str, Any]) -> Plan:
    """What is compared this night; `model` names who answers."""
    models = challengers(night, manifest)
    if night.models and model.get("provider") == "offline":
        needs = "OPENAI_API_KEY or OPENAI_BASE_URL"
        raise BadInput(f"--model {night.models[0]}: needs an endpoint ({needs}); {ONLY_ONE}")
    texts = not night.models and night.only != "models"
    settings = settings_of(night, manifest)
    if night.variant and not (night.models and night.prompts):
        raise BadInput(f"--variant {night.variant}: needs --model and --prompt, whose text it is")
    about = (repo, manifest, night.prompts, settings, model)
    return make_plan(*about, models=models, texts=texts, variant=night.variant)


def challengers(night: Night, manifest: Manifest) -> tuple[str, ...]:
    """The models to be tried: those that were asked for, else the manifest's; none beside a question about a prompt."""
    about_prompts = night.only == "prompts" or night.prompts or night.settings.get("against")
    listed = () if about_prompts and night.only != "models" else manifest.challenger_models
    return night.models or tuple(one.name for one in listed if one.name)


def settings_of(night: Night, manifest: Manifest) -> Settings:
    """What the manifest says, unless told otherwise."""
    given = {name: value for name, value in night.settings.items() if value is not None}
    given |= {"seed": night.ask.seed, "offline_noise": night.ask.offline_noise}
    if given.get("against"):
        given.setdefault("alpha", AGAINST_ALPHA)
    settings = replace(Settings(**asdict(manifest.ab_test)), **given)
    if not 0 < settings.alpha <= 0.5:
        raise BadInput(f"--alpha {settings.alpha}: must lie between 0 and 0.5")
    if not 0 <= settings.min_effect < 1:
        raise BadInput(f"--min-effect {settings.min_effect}: must lie in 0..1")
    if not 0 < settings.margin <= 0.5:
        raise BadInput(f"--margin {settings.margin}: must lie between 0 and 0.5 (0.05 is 5 points)")
    return settings


def asked(night: Night, manifest: Manifest) -> ModelOptions:
    """How the model is asked, within the manifest's budget; a shard may use its part of what the whole run may."""
    ask, of = night.ask.within(manifest), night.shard[1]
    if of == 1:
        return ask
    return replace(
        ask,
        max_usd=None if ask.max_usd is None else ask.max_usd / of,
        max_calls=None if ask.max_calls is None else max(1, ask.max_calls // of),
    )


def _report(night: Night, manifest: Manifest, board: Board, git: GitState) -> Report:
    plan = board.plan
    origins = {
        row.sha256: row
        for test in plan.tests
        if test.arms and test.prompt
        for row in Variants(plan.control.repo, test.prompt).lineage()
    }
    tests = ab_report.found(board, origins)
    taken = board.taken if night.shard[1] == 1 else list(board.finished.values())
    metadata = replay_metadata(
        git,
        suites=plan.about["suites"],
        holdout_cases=plan.holdout_cases,
        prompts=plan.about["prompts"],
        seen=seen_in(taken),
        seed=plan.settings.seed,
        run_type="ab_test",
        **run_url(),
    )
    return Report(
        schema_version=SCHEMA_VERSION,
        generated_at=metadata["generated_at"],
        status="stopped" if board.stopped else "complete",
        stop_reason=board.stopped,
        promoted=tuple(test.changes for test in tests if test.promoted),
        settings=plan.settings,
        spend=ab_report.spend_of(taken, asked(night, manifest).max_usd),
        command=_command(plan),
        problems=(*plan.problems, *filter(None, [unread(taken)])),
        tests=tests,
        metadata=metadata,
    )


def _command(plan: Plan) -> str:
    """What to type to get the same run again."""
    settings = plan.settings
    models = dict.fromkeys(arm.model for arm in plan.arms if arm.model)
    texts = dict.fromkeys(test.prompt for test in plan.tests if test.arms and test.prompt)
    both = dict.fromkeys(
        arm.variant.name for test in plan.tests if test.prompt for arm in test.arms if arm.model
    )
    said: list[tuple[str, object]] = [("--prompt", one) for one in texts]
    said += [("--model", one) for one in models if both or not texts]
    said += [("--variant", one) for one in both]
    if any(test.margin for test in plan.tests):
        said += [("--goal", settings.goal), ("--margin", f"{settings.margin:g}")]
    said += [("--trials", settings.trials), ("--rounds", settings.rounds), ("--alpha", f"{settings.alpha:g}")]
    said += [("--min-effect", f"{settings.min_effect:g}"), ("--seed", settings.seed)]
    said += [("--split", settings.split)] if settings.split != "holdout" else []
    said += [("--allow", word) for word in settings.allow]
    said += [("--against", settings.against)] if settings.against else []
    said += [("--offline-noise", f"{settings.offline_noise:g}")] if settings.offline_noise else []
    words = (str(word) for flag in said for word in flag)
    return shlex.join(["python", "-m", "eval.ab_testing", *words, "--force"])


def _remembered(repo: Repo, report: Report, board: Board) -> dict[str, Any] | None:
    """One line of history for every set of comparisons, once, if anything was measured for it."""
    ran = board.finished.values()
    if not any(trial.counted for trial in ran):
        return None
    found = compared(report)
    if all(trial.resumed for trial in ran):
        known = {one.pair for one in Memory(repo).history}
        if known.issuperset(one.pair for one in found):
            return None
    answered = report.metadata.get("model_answered")
    taken = {trial.identity for trial in board.taken}
    rows = [{**kept(test, arm), "models": answered} for test, arm in report.arms]
    # What ran beyond that, in flight or on shards, was paid too.
    beyond = [trial for identity, trial in board.finished.items() if identity not in taken]
    spend = {**plain(report.spend), "trials_beyond": len(beyond), "beyond_usd": ab_report.total_cost(beyond)}
    summary = {"night": board.plan.night, "comparisons": rows, "promoted": report.promoted, "spend": spend}
    return history_row("ab_test", summary, report.metadata)


def _announce(report: Report, shard: tuple[int, int] = (1, 1)) -> None:
    """To GitHub: the step outputs and the job summary."""
    prompts, models = (
        [test.changes for test, _ in report.winners if bool(test.model) is it] for it in (False, True)
    )
    set_output("promoted", "true" if prompts else "false")
    set_output("prompts", json.dumps(prompts))
    set_output("moved", "true" if models else "false")
    problems = "".join(f"\n- {cell(problem, 300)}" for problem in report.problems)
    if shard[1] > 1:
        job_summary(f"### A/B test, shard {shard[0]} of {shard[1]}\n\n{report.spend.trials} trials.")
    elif report.tests:
        job_summary(body(report))
    else:
        job_summary(
            f"### A/B test\n\n{NOTHING.capitalize()}: no prompt and no model has a new challenger.\n{problems}"
        )
