"""Which agents no longer earn their keep, and which retired ones do again?

An agent is judged by days, not by runs: by what came true of what it said where that is known, else by what it claimed
and by its suite. It is a candidate when it has run on enough days and the evidence against it is overwhelming however
often one looks (meta/worth/evidence.py): a low mean alone is not evidence. Failures of the endpoint or of a data source
are not held against it, runs under different scoring versions are never averaged. By default this only reports;
`--disable` switches candidates off in the manifest, `--revive` recovered ones on again (never one that is
`execution_sensitive`), and the decision is recorded.

    active -> probation (mean below the floor) -> candidate (certainly below the floor) -> retired (enabled: false)
    active -> loud (many outcomes, and no better than the base rate)
    retired -> revival (its shadow runs are clearly above the floor) -> active
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agents.sources.outcomes import OUTCOMES, load_outcomes
from meta.worth.assessment import MIN_N, REWARD_FLOOR, Graded, Grades, assess, rolling_metrics
from meta.worth.evidence import CONVINCED
from meta.worth.record import Agent, Report, Rule
from telemetry.edge import cli
from telemetry.edge.cli import job_summary, set_output
from telemetry.edge.errors import BadInput
from telemetry.edge.files import MANIFEST, Repo, here, write_atomic
from telemetry.edge.records import made, plain
from telemetry.logger import FIELD, SOURCES
from telemetry.read.field import USEFUL_SIGNAL, WINDOW

if TYPE_CHECKING:
    from agents.manifest import Manifest

__all__ = ["assess", "load_events", "main", "retire_candidates", "rolling_metrics", "switch", "write_report"]

EVIDENCE = ("basis", "settled_reward", "settled_share", "pass_rate", "empty_pass_rate", "odds", "lower_bound",
            "upper_bound", "longest_silence", "scoring_version")  # fmt: skip
LIMITS = ("min_n", "reward_floor", "window")  # set by the manifest, or on the command line


def load_events(
    sources: Sequence[str] = FIELD, window: int = WINDOW, *, repo: Repo | None = None
) -> list[dict[str, Any]]:
    """What each agent's last `window` days say about it, oldest first; see `telemetry.read.field`."""
    from telemetry.read import days, field, rows, store

    repo, runs = repo or here(), rows.Window(kind="run")
    now = store.snapshot(repo)
    sums = days.kept(repo, now.sealed, runs) if tuple(sources) == FIELD else None
    only = sums is not None
    with store.connect(repo, runs, memory=4, once=field.ASKED, now=now, live_only=only) as con:
        if sums is None:
            return field.load(con, sources, window)
        sealed = f"(select * from ({store.sealed_sql(now.sealed)}) where {runs.condition()})"
        return days.field_rows(con, sums, sealed, "events", days.repeating(con, sums, "events"), window)


def grades_of(repo: Repo) -> Grades:
    """How agents did when their suite was last run, by name."""
    from eval.ledger.results import stored

    def graded(agent: str) -> Graded | None:
        found = stored(repo, agent).get("summary", {})
        passed, counted, empty = (found.get(name) for name in ("passed", "counted", "empty_rate"))
        if not counted or passed is None or empty is None:
            return None
        return Graded(passed, counted, empty)

    return graded


def retire_candidates(
    manifest_path: str | Path = "agents/manifest.yaml", min_n: int = MIN_N, reward_floor: float = REWARD_FLOOR
) -> list[dict[str, Any]]:
    """The agents of that manifest's checkout that no longer earn their keep."""
    from agents.manifest import load_manifest

    repo = Repo((here() / manifest_path).resolve().parent.parent)
    manifest, grades = load_manifest(repo), grades_of(repo)
    events, outcomes = load_events(repo=repo), load_outcomes(repo, None, manifest.outcomes)
    rows = assess(manifest, events, outcomes, min_n=min_n, reward_floor=reward_floor, grades=grades)
    return [plain(row) for row in rows if row.state == "candidate"]


def write_report(report: Mapping[str, Any], path: Path | None = None) -> None:
    """The report as JSON, and beside it as the body of the pull request."""
    from meta.worth.report import of_domain

    ours = of_domain(here())
    where = ours if path is None else replace(ours, path=path.absolute())
    where.write(here(), made(Report, report))


def switch(repo: Repo, names: Sequence[str], *, enabled: bool) -> str:
    """The manifest's text with `enabled` of these agents set; comments, order and the rest stay as they are."""
    from agents.manifest.edit import edited

    def flip(tree: Any) -> None:
        for agent in tree["agents"]:
            if agent["name"] in names:
                agent["enabled"] = enabled

    return edited((repo / MANIFEST).read_text(encoding="utf-8"), flip)


def _decide(repo: Repo, rows: Sequence[Agent], rule: Rule, report: Path, *, enabled: bool) -> None:
    """One decision per agent, with the hashes that an audit compares; the manifest itself is changed last."""
    from eval.ledger.decisions import Decision, write_decision
    from eval.ledger.provenance import GitState, packages

    manifest = repo / MANIFEST
    after = switch(repo, [row.agent for row in rows], enabled=enabled)
    commit, dirty = GitState(repo).read()
    for row in rows:
        measured = plain(row.measured) if row.measured else {}
        write_decision(
            repo,
            Decision(
                decision="revive" if enabled else "disable",
                kind="revival" if enabled else "retirement",
                subject=row.agent,
                date=time.strftime("%Y-%m-%d", time.gmtime()),
                before_sha256=_sha256(manifest.read_bytes()),
                after_sha256=_sha256(after.encode()),
                report_sha256=_sha256((repo / report).read_bytes()),
                verdict={
                    "n": row.n,
                    "rolling_avg_reward": row.rolling_avg_reward,
                    **{name: measured.get(name) for name in EVIDENCE},
                    "unique_share": row.unique and row.unique.unique_share,
                    **{name: getattr(rule, name) for name in (*LIMITS, "convinced")},
                },
                metadata={"git_commit": commit, "git_dirty": dirty, "packages": packages()},
            ),
        )
    write_atomic(manifest, after)


def _sha256(data: bytes) -> str:
    import hashlib

    return hashlib.sha256(data).hexdigest()


def parser() -> cli.Parser:
    parse = cli.Parser(__doc__)
    parse.add_argument("--min-n", type=int, help=f"days an agent needs (default: manifest, else {MIN_N})")
    parse.add_argument("--reward-floor", type=float, help=f"default: manifest, else {REWARD_FLOOR}")
    parse.add_argument("--window", type=int, help=f"days looked at (default: manifest, else {WINDOW})")
    parse.add_argument("--source", action="append", help=f"rows that count (default: {', '.join(FIELD)})")
    parse.add_argument("--outcomes", type=Path, help=f"what happened next (default: {OUTCOMES})")
    act = parse.add_mutually_exclusive_group()
    act.add_argument("--disable", action="store_true", help="switch candidates off in the manifest")
    revive = "switch recovered agents on again, in a report of its own"
    act.add_argument("--revive", action="store_true", help=revive)
    return parse


@cli.entry(parser)
def main(args: argparse.Namespace, repo: Repo) -> int:
    from agents.manifest import load_manifest
    from meta.worth.report import FORM, REVIVAL, of_domain, sentence

    for source in args.source or ():
        if source not in SOURCES:
            raise BadInput(f"--source {source}: allowed are {', '.join(SOURCES)}")
    if args.outcomes is not None and not args.outcomes.exists():
        raise BadInput(f"--outcomes {args.outcomes}: no such file")
    for flag in ("min_n", "window"):
        if (given := getattr(args, flag)) is not None and given < 1:
            raise BadInput(f"--{flag.replace('_', '-')} {given}: must be at least 1")
    manifest = load_manifest(repo)
    usual: dict[str, Any] = {name: getattr(manifest.retirement, name) for name in LIMITS}
    limits = usual | {name: given for name in LIMITS if (given := getattr(args, name)) is not None}
    sources = tuple(args.source or FIELD)
    rule = Rule(**limits, sources=sources, useful_signal=USEFUL_SIGNAL, convinced=CONVINCED)
    events = load_events(rule.sources, rule.window, repo=repo)
    outcomes = load_outcomes(repo, args.outcomes, manifest.outcomes)
    rows = assess(manifest, events, outcomes, **limits, grades=grades_of(repo))
    asked = _not_refused(repo, manifest, args, rows)
    states = ("candidate", "loud", "revival")
    found = {state: [row for row in asked if row.state == state] for state in states}
    doomed = _ours_to_switch(found["candidate"]) if args.disable else []
    recovered = _ours_to_switch(found["revival"]) if args.revive else []
    report = Report(
        generated_at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        rule=rule,
        candidates=tuple(row for row in rows if row.state == "candidate"),
        agents=tuple(rows),
        disabled=tuple(row.agent for row in doomed),
        revived=tuple(row.agent for row in recovered),
        offline=any(event["provider"] == "offline" for event in events),
    )
    set_output("candidates", str(len(report.candidates)))
    set_output("to_decide", str(sum(map(len, found.values()))))
    set_output("revived", str(len(recovered)))
    if args.revive and not recovered:  # nothing is proposed, so there is nothing to report on
        cli.tell(args, plain(report), cli.found("No retired agent earns its keep again."))
        return cli.OK
    target = of_domain(repo, REVIVAL if args.revive else FORM)
    target.write(repo, report)
    if doomed or recovered:
        _decide(repo, doomed or recovered, rule, target.path, enabled=args.revive)
    job_summary((repo / target.markdown).read_text(encoding="utf-8"))
    cli.tell(args, plain(report), cli.found(sentence(report)), f"Report: {target.markdown}")
    return cli.OK


def _not_refused(repo: Repo, manifest: Manifest, args: argparse.Namespace, rows: list[Agent]) -> list[Agent]:
    """Those that no person has said no to, of this kind of pull request, since their prompt is what it is."""
    from agents.texts.prompt_set import PromptSet
    from eval.ledger.refusals import refusals

    kind = "revival" if args.revive else "retirement_disable" if args.disable else "retirement"
    prompts = PromptSet(repo)
    live = {spec.name: prompts.sha256(spec.prompt) if spec.prompt else "" for spec in manifest.agents}
    said = (one for one in refusals(repo) if one.kind == kind)
    no = {one.subject for one in said if one.stands_beside(live.get(one.subject, ""))}
    return [row for row in rows if row.agent not in no]


def _ours_to_switch(rows: Sequence[Agent]) -> list[Agent]:
    """Somebody relies on what is sensitive in execution: a person does that."""
    return [row for row in rows if row.listed and not row.listed.execution_sensitive]


if __name__ == "__main__":
    raise SystemExit(main())
