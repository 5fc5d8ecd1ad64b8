"""Exports runs as training batches, if enough of them are good, different and allowed to leave.

`--type sft|turn-rl|grpo|curriculum` writes `telemetry/exports/<id>/`: the files of the type, a manifest, and the ledger
of its points, none of which such a batch has held before. `consumed ID --result FILE` records that a batch was trained
on, and what that did to quality. `aggregates --epsilon E` tells runs and mean quality by agent with noise (OpenDP),
while the budget of access.yaml lasts. Noise on single rows (`add_noise_to_rewards`) is off: at epsilon 0.1 its scale
would be 10 on a reward of 0..1, and nothing could be learnt from it. Exit codes: 0 done; 1 less than the minimum (what
is missing is told; `--partial` exports it with a stamp); 2 bad input, or telemetry/access.yaml does not allow it.
"""

from __future__ import annotations

import argparse
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from telemetry.batches.access import ROLE, USUAL_ROLE
from telemetry.batches.formats import TYPES
from telemetry.edge import cli
from telemetry.edge.errors import BadInput
from telemetry.edge.files import Repo
from telemetry.edge.frozen import frozen
from telemetry.edge.records import field_value, load_json
from telemetry.read.agents import named_agents
from telemetry.read.rows import add_since_flag, in_utc

if TYPE_CHECKING:
    from telemetry.batches.access import Rule
    from telemetry.batches.anonymise import Anonymiser
    from telemetry.batches.formats import Batch
    from telemetry.batches.gates import Report
    from telemetry.batches.points import Point


def parser() -> cli.Parser:
    parse = cli.Parser(__doc__)
    add = parse.add_argument
    what = "consumed ID: record that a batch was trained on; aggregates: sums that leave with noise"
    add("action", nargs="*", metavar="consumed ID | aggregates", help=what)
    most = "aggregates: what this release may tell of any one run; smaller is more noise"
    add("--epsilon", type=cli.number(), metavar="E", help=most)
    add("--result", type=Path, metavar="FILE", help="consumed: what came of it, a JSON object")
    add("--type", choices=TYPES, help="what the batch is for")
    add_since_flag(parse, "only runs from this UTC day or time on (default: as far as access.yaml allows)")
    add("--task-types", metavar="A,B", help="only these types of tasks")
    quality = "of what is trained on (default: sft 0.8, turn-rl and grpo 0.7, curriculum 0.6)"
    add("--min-quality", type=cli.number(zero=True, most=1), metavar="Q", help=quality)
    add("--partial", action="store_true", help="export what there is, stamped below_minimum")
    add("--include-offline", action="store_true", help="also answers of the offline model")
    add("--most", type=cli.whole(1), default=100_000, metavar="N", help="points (default %(default)s)")
    add(
        "--role",
        default=os.environ.get(ROLE) or USUAL_ROLE,
        help=f"who asks (default: {ROLE}, else {USUAL_ROLE})",
    )
    add("--approved-by", metavar="NAME", help="who approved it, where access.yaml wants that")
    return parse


@frozen
class Asked:
    """One export as it was asked for."""

    kind: str
    since: datetime
    now: datetime
    min_quality: float
    task_types: frozenset[str]
    include_offline: bool
    most: int
    rule: Rule


@cli.entry(parser)
def main(args: argparse.Namespace, repo: Repo) -> int:
    if args.action == ["aggregates"]:
        return _aggregates(repo, args)
    if args.action:
        return _consumed(repo, args)
    if args.type is None:
        raise BadInput(f"--type: must be one of {', '.join(TYPES)}")
    from telemetry.batches import access
    from telemetry.batches.pick import MINIMA

    now = datetime.now(UTC)
    rule, since, told = _permitted(repo, args, args.type, now)
    types = frozenset(one.strip() for one in (args.task_types or "").split(",") if one.strip())
    quality = MINIMA[args.type].quality if args.min_quality is None else args.min_quality
    asked = Asked(args.type, since, now, quality, types, args.include_offline, args.most, rule)
    code, result, lines = _export(repo, asked, args.partial)
    access.log_access(repo, rule, **told, allowed=True, batch=result.get("id"))
    cli.found(lines[0])
    cli.tell(args, result, *lines)
    return code


def _permitted(
    repo: Repo, args: argparse.Namespace, kind: str, now: datetime
) -> tuple[Rule, datetime, dict[str, Any]]:
    """The rule for what is asked for, from when on, and who asks; a no is on record too."""
    from telemetry.batches import access

    rule = access.load_rule(repo, kind)
    told = {"role": args.role, "type": kind, "approved_by": args.approved_by}
    try:
        return rule, access.allowed(rule, args.role, args.approved_by, args.since, now), told
    except BadInput:
        access.log_access(repo, rule, **told, allowed=False)
        raise


def _aggregates(repo: Repo, args: argparse.Namespace) -> int:
    """Tell of all agents in the manifest: whether one had any run is no secret that a name could give away."""
    from telemetry.batches import access, sums
    from telemetry.batches.points import load_points

    if args.epsilon is None:
        raise BadInput("aggregates: needs --epsilon, such as 0.2")
    rule, since, told = _permitted(repo, args, "aggregates", datetime.now(UTC))
    qualities: dict[str, list[float]] = {name: [] for name in named_agents(repo)}
    for point in load_points(repo, since):
        if point.agent in qualities and point.quality is not None:
            qualities[point.agent].append(point.quality)
    found, left = sums.release(repo, qualities, args.epsilon, rule.epsilon_budget)
    access.log_access(repo, rule, **told, allowed=True, epsilon=args.epsilon)
    lines = [f"{name}: {one.runs:,} runs, mean quality {one.mean_quality}" for name, one in found.items()]
    result = {
        "epsilon": args.epsilon,
        "left": left,
        "agents": {name: asdict(one) for name, one in found.items()},
    }
    cli.tell(
        args, result, *lines, f"epsilon {args.epsilon:g} spent, {left:g} of {rule.epsilon_budget:g} left"
    )
    return cli.OK


def _export(repo: Repo, asked: Asked, partial: bool) -> tuple[int, dict[str, Any], list[str]]:
    """Choose, check and write; exit code, result, and lines for a person."""
    from telemetry.batches import formats, ledger, pick
    from telemetry.batches.gates import Report

    report = Report()
    batch, there = _gathered(repo, asked, report)
    lacking = pick.missing(asked.kind, batch.chosen, there)
    refused = [f"  kept back by {row['gate']} ({row['level']}): {row['points']:,}" for row in report.rows()]
    if not batch.chosen or (lacking and not partial):
        short = ", ".join(lacking) or "any point"
        said = f"no batch: {len(batch.chosen):,} points for {asked.kind}; it takes {short}"
        hint = ["  --partial exports them, stamped below_minimum"] if batch.chosen else []
        gates = report.rows()
        return (
            cli.FOUND,
            {"id": None, "points": len(batch.chosen), "missing": lacking, "gates": gates},
            [said, *refused, *hint],
        )
    files = {name: make(batch) for name, make in formats.FORMATS[asked.kind].items()}
    # The others leave too, as what is not to be done, where a format has a place for that.
    beside = batch.others if asked.kind == formats.SFT else ()
    points = [
        (one.point_id, ready) for part, ready in ((batch.chosen, True), (beside, False)) for one in part
    ]
    name = ledger.batch_id(asked.kind, f"{asked.now:%Y%m%d}", (one for one, _ in points))
    manifest = ledger.write_batch(
        repo, name, files, points, _manifest(repo, asked, batch.chosen, report, lacking)
    )
    stamp = " (below_minimum)" if lacking else ""
    wrote = [f"  {file}: {about['rows']:,} rows" for file, about in manifest["files"].items()]
    return cli.OK, manifest, [f"{name}: {len(batch.chosen):,} points{stamp}", *wrote, *refused]


def _gathered(repo: Repo, asked: Asked, report: Report) -> tuple[Batch, set[str]]:
    """What may leave of what was asked for, the chosen points and the others; and the task types there were."""
    from telemetry.batches import gates, ledger, pick
    from telemetry.batches.access import ANONYMOUS
    from telemetry.batches.anonymise import Anonymiser, Options
    from telemetry.batches.formats import TURNS, Batch
    from telemetry.batches.holdout import unseen_inputs
    from telemetry.batches.points import OFFLINE, load_points
    from telemetry.texts import texts_of

    points = [
        point
        for point in load_points(repo, asked.since)
        if (asked.include_offline or point.provider != OFFLINE)
        and (not asked.task_types or point.task_type in asked.task_types)
        and pick.usable(asked.kind, point)
    ]
    before = ledger.exported(repo, asked.kind)
    for point in points:
        if point.point_id in before:
            report.note(gates.LEDGER, gates.WARNING, "an earlier batch held it", point)
    points = [point for point in points if point.point_id not in before]
    names = {
        name
        for point in points
        for turn in point.turns
        for _, name in (*turn.messages, ("", turn.output))
        if name
    }
    raw = texts_of(names, repo)
    versions = gates.newest_versions(points)
    known = gates.Known(
        frozenset(named_agents(repo)), unseen_inputs(repo), raw, versions, f"{in_utc(asked.now)}Z"
    )
    kept = gates.passing(points, known, report)
    anonymous = asked.rule.fields == ANONYMOUS
    options = asked.rule.anonymize if anonymous else Options(replace_tenant_ids=False)
    by = Anonymiser(options, {point.tenant_id for point in kept if point.tenant_id})
    texts = {name: by.text(text) if anonymous else text for name, text in raw.items()}
    # What was not changed held nothing.
    changed = {name: text for name, text in texts.items() if not anonymous or text is not raw[name]}
    kept = _private(kept, changed, by, report, anonymous)
    good = [point for point in kept if point.quality is not None and point.quality >= asked.min_quality]
    chosen = pick.picked(good, asked.now, asked.most)
    others = [point for point in kept if point.quality is not None and point.quality < asked.min_quality]
    choices = _choices(repo, asked) if asked.kind == TURNS else []
    return Batch(chosen, others, texts, by, choices), {point.task_type for point in kept}


def _private(
    points: Sequence[Point], texts: Mapping[str, str], by: Anonymiser, report: Report, strict: bool
) -> list[Point]:
    """The points in whose texts nothing personal is left; where all fields may leave, that is only counted."""
    from telemetry.batches import gates

    left = {name: found for name, text in texts.items() if (found := by.leftover(text))}
    if not left:
        return list(points)
    kept = []
    for point in points:
        names = [name for turn in point.turns for _, name in (*turn.messages, ("", turn.output or ""))]
        reason = next((left[name] for name in names if name in left), None)
        if reason:
            report.note(gates.PRIVACY, gates.ERROR if strict else gates.WARNING, reason, point)
        if not (reason and strict):
            kept.append(point)
    return kept


_CHOICES = """
select c.task_type, c.complexity, c.requirements, c.selected_agent_id, try_cast(c.propensity as double), r.reward
from events c join events r using (run_id)
where c.kind = 'routing' and r.kind = 'run' and r.reward is not null and try_cast(c.propensity as double) > 0
order by c.ts, c.event_id
"""


def _choices(repo: Repo, asked: Asked) -> list[dict[str, Any]]:
    """Routing decisions as a bandit's rows: context, action, propensity, reward."""
    from telemetry.logger import FIELD
    from telemetry.read.rows import Window
    from telemetry.read.store import connect

    fields = ("task_type", "complexity", "requirements", "selected_agent_id", "propensity")
    with connect(repo, Window(since=asked.since, among=FIELD), fields=fields) as con:
        rows = con.execute(_CHOICES).fetchall()
    return [
        {
            "context": {
                "task_type": kind,
                "complexity": complexity,
                "requirements": field_value(wanted or "{}"),
            },
            "action": action,
            "propensity": propensity,
            "reward": reward,
        }
        for kind, complexity, wanted, action, propensity, reward in rows
        if not asked.task_types or kind in asked.task_types
    ]


def _manifest(
    repo: Repo, asked: Asked, chosen: Sequence[Point], report: Report, lacking: Sequence[str]
) -> dict[str, Any]:
    import statistics

    from telemetry.edge.git import commit_of

    quality = sorted(point.quality for point in chosen if point.quality is not None)
    return {
        "type": asked.kind,
        "total_points": len(chosen),
        "below_minimum": list(lacking),
        "task_type_distribution": dict(Counter(point.task_type for point in chosen).most_common()),
        "agent_distribution": dict(Counter(point.agent for point in chosen).most_common()),
        "quality_stats": {
            "mean": round(statistics.fmean(quality), 6),
            "median": round(statistics.median(quality), 6),
            "min": quality[0],
            "max": quality[-1],
        },
        "time_range": {"from": min(one.ts for one in chosen), "to": max(one.ts for one in chosen)},
        "policy": {
            "min_quality": asked.min_quality,
            "since": f"{in_utc(asked.since)}Z",
            "task_types": sorted(asked.task_types),
            "include_offline": asked.include_offline,
            "access": asdict(asked.rule),
        },
        "epsilon": None,  # rows leave, not noised sums: no guarantee of differential privacy is given
        "commit": commit_of(repo.root),
        "gates": report.rows(),
        "exported_at": f"{in_utc(asked.now)}Z",
    }


def _consumed(repo: Repo, args: argparse.Namespace) -> int:
    from telemetry.batches.ledger import consume

    if len(args.action) != 2 or args.action[0] != "consumed" or args.result is None:
        raise BadInput("consumed ID --result FILE: what came of training on that batch (see --help)")
    try:
        result = load_json(args.result.read_bytes())
    except ValueError as problem:
        raise BadInput(f"{args.result}: not JSON: {problem}") from None
    for name in ("quality_before", "quality_after"):
        value = result.get(name) if isinstance(result, dict) else None
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
            raise BadInput(f"{args.result}: {name}: must be a number in 0..1")
    record = consume(repo, args.action[1], result, f"{in_utc(datetime.now(UTC))}Z")
    gain = result["quality_after"] - result["quality_before"]
    cli.tell(args, record, f"{args.action[1]}: trained on, quality {gain:+.3f}")
    return cli.OK


if __name__ == "__main__":
    raise SystemExit(main())
