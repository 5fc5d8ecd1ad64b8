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
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from meta import marginal
from telemetry import script
from telemetry.intervals import mean_lower_bound, mean_upper_bound
from telemetry.logger import INFRASTRUCTURE

if TYPE_CHECKING:
    from agents.manifest import AgentSpec, Manifest

REPORT = Path("meta/reports/retirement_report.json")
COUNTED = ("runtime", "replay", "shadow")  # evals and A/B trials say nothing about worth in production
WINDOW = 200  # runs
MIN_N = 100
REWARD_FLOOR = 0.05
USEFUL_SIGNAL = 0.2  # signal strength from which a run was of use to somebody
SPARK_POINTS = 40
SORT_MEMORY = "1GB"  # for ranking a million runs; the reading view alone is content with far less

Event = Mapping[str, Any]


def load_events(sources: Sequence[str] = COUNTED, window: int = WINDOW) -> list[dict[str, Any]]:
    """The last `window` counted runs of each agent that say something about it, oldest first."""
    from telemetry import rows, store

    infrastructure = ", ".join(f"'{kind}'" for kind in sorted(INFRASTRUCTURE))
    chosen = ", ".join(f"'{source}'" for source in sources)
    plain = "agent, reward, scoring_version, cost_usd, error_kind, signal_strength, signals, profit_pct"
    con = store.connect(rows.Window(kind="run"))
    con.execute(f"set memory_limit = '{SORT_MEMORY}'")
    found = con.execute(
        f"""
        select {plain}, day from (
            select {plain}, coalesce(as_of, strftime(ts, '%Y-%m-%d')) as day,
                row_number() over (partition by agent order by ts desc) as k
            from events
            where source in ({chosen}) and (error_kind is null or error_kind not in ({infrastructure}))
        ) ranked where k <= {int(window)} order by agent, k desc
        """
    )
    names = [*plain.split(", "), "day"]
    return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


def rolling_metrics(events: Iterable[Event], window: int = WINDOW) -> dict[str, dict[str, Any]]:
    """Per agent, over its last `window` runs of its latest scoring version: reward, bounds, cost, usefulness.

    A run that failed by the agent's own fault found nothing: its reward is 0. Infrastructure failures are skipped.
    """
    by_agent: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        if event.get("error_kind") not in INFRASTRUCTURE:
            by_agent[str(event["agent"])].append(event)
    return {agent: _metrics(rows, window) for agent, rows in by_agent.items()}


def _metrics(rows: Sequence[Event], window: int) -> dict[str, Any]:
    versions = [row.get("scoring_version") for row in rows if row.get("scoring_version")]
    current = versions[-1] if versions else None
    own = [row for row in rows if row.get("scoring_version") in (current, None)][-window:]
    rewards = [float(row["reward"]) if row.get("reward") is not None else 0.0 for row in own]
    costs = [row.get("cost_usd") for row in own]
    known = [float(cost) for cost in costs if cost is not None]
    useful = sum((row.get("signal_strength") or 0.0) >= USEFUL_SIGNAL for row in own)
    return {
        "n": len(own),
        "rolling_avg_reward": sum(rewards) / len(rewards),
        "upper_bound": mean_upper_bound(rewards),
        "scoring_version": current,
        "other_version_runs": len(rows) - len(own) if len(rows) <= window else 0,
        "own_failures": sum(row.get("error_kind") is not None for row in own),
        "total_cost_usd": sum(known) if known else None,
        "unpriced_runs": len(costs) - len(known),
        "useful_runs": useful,
        "cost_per_useful_signal_usd": sum(known) / useful if useful and len(known) == len(costs) else None,
        "rewards": rewards,
    }


def _shown(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """What the report keeps of an agent's metrics: the rewards as a short curve."""
    return {name: value for name, value in metrics.items() if name != "rewards"} | {
        "trend": _trend(metrics["rewards"])
    }


def _trend(rewards: Sequence[float]) -> list[float]:
    """The rewards as at most SPARK_POINTS averages, oldest first."""
    size = max(1, -(-len(rewards) // SPARK_POINTS))
    chunks = [rewards[i : i + size] for i in range(0, len(rewards), size)]
    return [round(sum(chunk) / len(chunk), 4) for chunk in chunks]


def state(spec: AgentSpec, metrics: Mapping[str, Any] | None, min_n: int, floor: float) -> str:
    """Where an agent stands between active and retired."""
    if metrics is None:
        return "no_telemetry" if spec.enabled else "retired"
    if not spec.enabled:
        recovered = metrics["n"] >= min_n and mean_lower_bound(metrics["rewards"]) > floor
        return "revival" if recovered else "retired"
    if metrics["n"] < min_n:
        return "too_few_runs"
    if metrics["upper_bound"] < floor:
        return "candidate"
    return "probation" if metrics["rolling_avg_reward"] < floor else "active"


def assess(
    manifest: Manifest,
    events: Sequence[Event],
    outcomes: Sequence[Mapping[str, Any]] = (),
    *,
    min_n: int = MIN_N,
    reward_floor: float = REWARD_FLOOR,
    window: int = WINDOW,
) -> list[dict[str, Any]]:
    """One row per agent of the manifest and per unknown name in the telemetry, candidates first."""
    metrics = rolling_metrics(events, window)
    unique = marginal.unique_shares(events)
    by_agent: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        by_agent[str(event["agent"])].append(event)
    rows = []
    for spec in manifest.agents:
        measured = metrics.get(spec.name)
        where = state(spec, measured, min_n, reward_floor)
        if where == "candidate" and spec.name in manifest.retirement.exempt:
            where = "exempt"
        rows.append(
            {
                "agent": spec.name,
                "module": spec.module,
                "state": where,
                "execution_sensitive": spec.execution_sensitive,
                **_shown(measured or {"n": 0, "rolling_avg_reward": None, "rewards": []}),
                **unique.get(spec.name, {"signals": 0, "unique_signals": 0, "unique_share": None}),
                "opportunities": marginal.opportunities(by_agent[spec.name]),
                "hits": marginal.hits(by_agent[spec.name], outcomes),
                "fills": marginal.fills(by_agent[spec.name], outcomes),
            }
        )
    known = {spec.name for spec in manifest.agents}
    rows += [
        {"agent": name, "module": None, "state": "not_in_manifest", **_shown(metrics[name])}
        for name in sorted(metrics.keys() - known)
    ]
    order = ("candidate", "revival", "probation")
    return sorted(
        rows, key=lambda row: (order.index(row["state"]) if row["state"] in order else 9, row["agent"])
    )


def retire_candidates(
    manifest_path: str | Path = "agents/manifest.yaml", min_n: int = MIN_N, reward_floor: float = REWARD_FLOOR
) -> list[dict[str, Any]]:
    """The agents of that manifest's checkout that no longer earn their keep."""
    from agents.manifest import load_manifest

    root = (script.root() / manifest_path).resolve().parent.parent
    with script.using_root(root):
        manifest = load_manifest()
        rows = assess(
            manifest, load_events(), marginal.load_outcomes(), min_n=min_n, reward_floor=reward_floor
        )
    return [row for row in rows if row["state"] == "candidate"]


def write_report(report: Mapping[str, Any], path: Path | None = None) -> None:
    """The report as JSON, and beside it as the body of the pull request."""
    from meta.retirement_report import markdown

    target = script.root() / REPORT if path is None else path
    script.write_json(target, report)
    script.write_atomic(target.with_suffix(".md"), markdown(report))


def disable(names: Sequence[str], *, enabled: bool = False) -> None:
    """Set `enabled` of these agents in the manifest; comments, order and everything else stay as they are."""
    from io import StringIO

    from ruamel.yaml import YAML

    from agents.manifest import MANIFEST

    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = 4096
    yaml.indent(mapping=2, sequence=4, offset=2)
    path = script.root() / MANIFEST
    data = yaml.load(path.read_text(encoding="utf-8"))
    for agent in data["agents"]:
        if agent["name"] in names:
            agent["enabled"] = enabled
    out = StringIO()
    yaml.dump(data, out)
    script.write_atomic(path, out.getvalue())


def _record(rows: Sequence[Mapping[str, Any]], limits: Mapping[str, Any], before: str) -> None:
    """One decision per agent switched off, with the hashes of manifest and report that an audit compares."""
    import hashlib
    import time

    from eval.decisions import Decision, write_decision
    from eval.metadata import GitState, packages

    commit, dirty = GitState().read()
    report = hashlib.sha256((script.root() / REPORT).read_bytes()).hexdigest()
    kept = ("n", "rolling_avg_reward", "upper_bound", "scoring_version", "unique_share")
    for row in rows:
        write_decision(
            Decision(
                decision="disable",
                kind="retirement",
                subject=row["agent"],
                date=time.strftime("%Y-%m-%d", time.gmtime()),
                before_sha256=before,
                after_sha256=_manifest_hash(),
                report_sha256=report,
                verdict={name: row.get(name) for name in kept} | dict(limits),
                metadata={"git_commit": commit, "git_dirty": dirty, "packages": packages()},
            )
        )


def _manifest_hash() -> str:
    import hashlib

    from agents.manifest import MANIFEST

    return hashlib.sha256((script.root() / MANIFEST).read_bytes()).hexdigest()


def parser() -> script.Parser:
    """The command line."""
    parse = script.Parser(__doc__)
    parse.add_argument("--min-n", type=int, help=f"runs an agent needs (default: manifest, else {MIN_N})")
    parse.add_argument("--reward-floor", type=float, help=f"default: manifest, else {REWARD_FLOOR}")
    parse.add_argument("--window", type=int, help=f"runs looked at (default: manifest, else {WINDOW})")
    parse.add_argument("--source", action="append", help=f"rows that count (default: {', '.join(COUNTED)})")
    parse.add_argument("--outcomes", type=Path, help=f"what happened next (default: {marginal.OUTCOMES})")
    parse.add_argument("--disable", action="store_true", help="switch candidates off in the manifest")
    return parse


@script.entry(parser)
def main(args: argparse.Namespace) -> int:
    """Assess every agent and write the report."""
    import time

    from agents.manifest import load_manifest
    from telemetry.logger import SOURCES

    for source in args.source or ():
        if source not in SOURCES:
            raise script.BadInput(f"--source {source}: allowed are {', '.join(SOURCES)}")
    if args.outcomes is not None and not args.outcomes.exists():
        raise script.BadInput(f"--outcomes {args.outcomes}: no such file")
    manifest = load_manifest()
    rule = manifest.retirement
    limits: dict[str, Any] = {
        "min_n": rule.min_n if args.min_n is None else args.min_n,
        "reward_floor": rule.reward_floor if args.reward_floor is None else args.reward_floor,
        "window": rule.window if args.window is None else args.window,
    }
    sources = tuple(args.source or COUNTED)
    events = load_events(sources, limits["window"])
    rows = assess(manifest, events, marginal.load_outcomes(args.outcomes), **limits)
    candidates = [row for row in rows if row["state"] == "candidate"]
    doomed = [row["agent"] for row in candidates if not row["execution_sensitive"]]
    report = {
        "generated_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "rule": limits | {"sources": list(sources), "useful_signal": USEFUL_SIGNAL},
        "candidates": candidates,
        "agents": rows,
        "disabled": doomed if args.disable else [],
        "offline": _is_offline(),
    }
    if args.disable and doomed:
        before = _manifest_hash()
        disable(doomed)
        write_report(report)
        _record([row for row in candidates if row["agent"] in doomed], limits, before)
    else:
        write_report(report)
    _tell(report, args)
    return script.OK


def _is_offline() -> bool:
    """Whether the offline model produced any of the telemetry: the report says so."""
    from telemetry import rows, store

    con = store.connect(rows.Window(kind="run", last_n=2000))
    return bool(con.execute("select 1 from events where provider = 'offline' limit 1").fetchone())


def _tell(report: Mapping[str, Any], args: argparse.Namespace) -> None:
    from meta.retirement_report import markdown, sentence

    script.set_output("candidates", str(len(report["candidates"])))
    to_decide = [row for row in report["agents"] if row["state"] in ("candidate", "revival")]
    script.set_output("to_decide", str(len(to_decide)))
    script.job_summary(markdown(report))
    if args.json:
        import json

        print(json.dumps(report, sort_keys=True))
    elif not args.quiet:
        print(sentence(report))
        print(f"Report: {REPORT.with_suffix('.md')}")


if __name__ == "__main__":
    raise SystemExit(main())
