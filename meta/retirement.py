"""Which agents no longer earn their keep, and which retired ones do again?

An agent is a candidate when it has run often enough and the upper 95 % bound of its rolling reward lies below the
floor: a low mean alone is not evidence. Failures of the endpoint or of a data source are not held against it, runs
under different scoring versions are never averaged. By default this only reports; `--disable` switches candidates
off in the manifest (never one that is `execution_sensitive`) and records the decision.

    active -> probation (mean below the floor) -> candidate (bound below the floor) -> retired (enabled: false)
    retired -> revival (its shadow runs are clearly above the floor) -> active
"""

from __future__ import annotations

import argparse
import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from eval.ledger.report import Form
from meta.worth import assessment
from meta.worth.assessment import MIN_N, REWARD_FLOOR, USEFUL_SIGNAL, WINDOW, assess, rolling_metrics
from meta.worth.report import FORM, Agent, Report, Rule, form, sentence
from telemetry.edge import cli
from telemetry.edge.cli import job_summary, set_output
from telemetry.edge.errors import BadInput
from telemetry.edge.files import MANIFEST, Repo, here, write_atomic
from telemetry.edge.records import made, plain
from telemetry.logger import FIELD, INFRASTRUCTURE, SOURCES

__all__ = ["assess", "load_events", "main", "retire_candidates", "rolling_metrics", "switch", "write_report"]

LIMITS = ("min_n", "reward_floor", "window")  # set by the manifest, or on the command line
SORT_MEMORY = "1GB"  # for ranking a million runs; the reading view alone is content with far less


def load_events(
    sources: Sequence[str] = FIELD, window: int = WINDOW, *, repo: Repo | None = None
) -> list[dict[str, Any]]:
    """The last `window` counted runs of each agent that say something about it, oldest first."""
    from telemetry.read import rows, store

    infrastructure = ", ".join(f"'{kind}'" for kind in sorted(INFRASTRUCTURE))
    chosen = ", ".join(f"'{source}'" for source in sources)
    columns = (
        "agent, reward, scoring_version, cost_usd, error_kind, signal_strength, signals, profit_pct, provider"
    )
    with store.connect(repo or here(), rows.Window(kind="run")) as con:
        con.execute(f"set memory_limit = '{SORT_MEMORY}'")
        found = con.execute(
            f"""
            select {columns}, coalesce(as_of, strftime(ts, '%Y-%m-%d')) as day from (
                select {columns}, ts, as_of, row_number() over (partition by agent order by ts desc) as k
                from events
                where source in ({chosen}) and (error_kind is null or error_kind not in ({infrastructure}))
            ) ranked where k <= {int(window)} order by agent, k desc
            """
        ).fetchall()
    names = [*columns.split(", "), "day"]
    return [dict(zip(names, row, strict=True)) for row in found]


def retire_candidates(
    manifest_path: str | Path = "agents/manifest.yaml", min_n: int = MIN_N, reward_floor: float = REWARD_FLOOR
) -> list[dict[str, Any]]:
    """The agents of that manifest's checkout that no longer earn their keep."""
    from agents.manifest import load_manifest

    repo = Repo((here() / manifest_path).resolve().parent.parent)
    events, outcomes = load_events(repo=repo), assessment.load_outcomes(repo)
    rows = assess(load_manifest(repo), events, outcomes, min_n=min_n, reward_floor=reward_floor)
    return [plain(row) for row in rows if row.state == "candidate"]


def write_report(report: Mapping[str, Any], path: Path | None = None) -> None:
    """The report as JSON, and beside it as the body of the pull request."""
    ours = _form(here())
    where = ours if path is None else replace(ours, path=path.absolute())
    where.write(here(), made(Report, report))


def _form(repo: Repo) -> Form[Report]:
    from agents.domain import load_domain
    from agents.manifest import load_manifest

    return form(load_domain(load_manifest(repo).domain).columns)


def switch(repo: Repo, names: Sequence[str], *, enabled: bool) -> str:
    """The manifest's text with `enabled` of these agents set; comments, order and the rest stay as they are."""
    from agents.manifest.edit import edited

    def flip(tree: Any) -> None:
        for agent in tree["agents"]:
            if agent["name"] in names:
                agent["enabled"] = enabled

    return edited((repo / MANIFEST).read_text(encoding="utf-8"), flip)


def _disable(repo: Repo, rows: Sequence[Agent], rule: Rule) -> None:
    """One decision per agent, with the hashes that an audit compares; the manifest itself is changed last."""
    from eval.ledger.decisions import Decision, write_decision
    from eval.ledger.provenance import GitState, packages

    manifest = repo / MANIFEST
    after = switch(repo, [row.agent for row in rows], enabled=False)
    commit, dirty = GitState(repo).read()
    for row in rows:
        write_decision(
            repo,
            Decision(
                decision="disable",
                kind="retirement",
                subject=row.agent,
                date=time.strftime("%Y-%m-%d", time.gmtime()),
                before_sha256=_sha256(manifest.read_bytes()),
                after_sha256=_sha256(after.encode()),
                report_sha256=_sha256((repo / FORM.path).read_bytes()),
                verdict={
                    "n": row.n,
                    "rolling_avg_reward": row.rolling_avg_reward,
                    "upper_bound": row.measured and row.measured.upper_bound,
                    "scoring_version": row.measured and row.measured.scoring_version,
                    "unique_share": row.unique and row.unique.unique_share,
                    **{name: getattr(rule, name) for name in LIMITS},
                },
                metadata={"git_commit": commit, "git_dirty": dirty, "packages": packages()},
            ),
        )
    write_atomic(manifest, after)


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def parser() -> cli.Parser:
    """The command line."""
    parse = cli.Parser(__doc__)
    parse.add_argument("--min-n", type=int, help=f"runs an agent needs (default: manifest, else {MIN_N})")
    parse.add_argument("--reward-floor", type=float, help=f"default: manifest, else {REWARD_FLOOR}")
    parse.add_argument("--window", type=int, help=f"runs looked at (default: manifest, else {WINDOW})")
    parse.add_argument("--source", action="append", help=f"rows that count (default: {', '.join(FIELD)})")
    parse.add_argument("--outcomes", type=Path, help=f"what happened next (default: {assessment.OUTCOMES})")
    parse.add_argument("--disable", action="store_true", help="switch candidates off in the manifest")
    return parse


@cli.entry(parser)
def main(args: argparse.Namespace, repo: Repo) -> int:
    """Assess every agent and write the report."""
    from agents.manifest import load_manifest

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
    rule = Rule(**limits, sources=tuple(args.source or FIELD), useful_signal=USEFUL_SIGNAL)
    events = load_events(rule.sources, rule.window, repo=repo)
    rows = assess(manifest, events, assessment.load_outcomes(repo, args.outcomes), **limits)
    candidates = [row for row in rows if row.state == "candidate"]
    doomed = [row for row in candidates if row.listed and not row.listed.execution_sensitive]
    report = Report(
        generated_at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        rule=rule,
        candidates=tuple(candidates),
        agents=tuple(rows),
        disabled=tuple(row.agent for row in doomed) if args.disable else (),
        offline=any(event["provider"] == "offline" for event in events),
    )
    _form(repo).write(repo, report)
    if args.disable and doomed:
        _disable(repo, doomed, rule)
    set_output("candidates", str(len(candidates)))
    set_output("to_decide", str(sum(row.state in ("candidate", "revival") for row in rows)))
    job_summary((repo / FORM.markdown).read_text(encoding="utf-8"))
    cli.tell(args, plain(report), cli.found(sentence(report)), f"Report: {FORM.markdown}")
    return cli.OK


if __name__ == "__main__":
    raise SystemExit(main())
