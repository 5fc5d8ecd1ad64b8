"""The order in which agents run: those that read the domain's inputs at once; then who reviews them; then who proposes.

A reviewer runs once per reviewed agent, over this run's outputs, or the latest ones on disk when it runs alone.
The meta agent runs once, over everything the reviewers found.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field, replace
from pathlib import Path
from typing import Any, Final

from agents.domain import IMPROVING
from agents.manifest import AgentSpec, Manifest
from agents.run.inputs import packed
from agents.run.runner import Result, Runner
from telemetry.edge.files import OUTPUTS, Repo, write_json
from telemetry.edge.frozen import frozen
from telemetry.edge.records import load_json

WRITERS: Final = 4  # 200 files: 0.2 s instead of 1.2 s on a busy disk; more brings nothing


async def run_waves(
    manifest: Manifest, chosen: Sequence[AgentSpec], runner: Runner, day: str | None
) -> list[Result]:
    """Run the chosen agents, wave by wave; the results in that order."""
    repo = runner.prompts.repo
    reviewers = [spec for spec in chosen if spec.inputs == "outputs"]
    # Before the first call: telemetry that cannot be read stops us here.
    lately = standings(repo) if reviewers else {}
    results = list(await asyncio.gather(*(runner.watch(spec, day) for spec in watchers(chosen))))
    if reviewers:
        reviewed = results or _on_disk(repo, watchers(manifest.enabled()))
        pairs = [(target, lately.get(target.agent, Standing())) for target in reviewed]
        results += await asyncio.gather(
            *(
                _review(spec, target, runner, standing)
                for spec in reviewers
                for target, standing in pairs
                if _worth_a_review(target, standing)
            )
        )
    if proposers := [spec for spec in chosen if spec.inputs == "findings"]:
        names = {spec.name for spec in manifest.agents if spec.inputs == "outputs"}
        reviews = [result for result in results if result.agent in names] if reviewers else []
        reviews = reviews or _on_disk(repo, (spec for spec in manifest.agents if spec.name in names))
        given = packed(_findings(manifest, reviews))
        as_of = next((result.as_of for result in results if result.as_of), None)
        results += await asyncio.gather(*(runner.run(spec, given, as_of) for spec in proposers))
    return results


def watchers(specs: Iterable[AgentSpec]) -> list[AgentSpec]:
    """The agents that read the domain's inputs."""
    return [spec for spec in specs if spec.inputs not in IMPROVING]


def _worth_a_review(target: Result, standing: Standing) -> bool:
    """An agent that said something; or one that said nothing, but has been failing of late."""
    return bool(target.output) or (target.output == [] and bool(standing.telemetry.get("error_rate")))


async def _review(spec: AgentSpec, target: Result, runner: Runner, standing: Standing) -> Result:
    payload = {"agent": target.agent, "as_of": target.as_of, "outputs": target.output}
    lately = {"telemetry": standing.telemetry, "baseline": standing.baseline}
    result = await runner.run(spec, packed(payload | lately), target.as_of, target.agent)
    if result.output is None:
        return result
    return replace(result, output=[{"target_agent": target.agent, **item} for item in result.output])


def _findings(manifest: Manifest, reviews: Iterable[Result]) -> dict[str, Any]:
    found = [item for review in reviews for item in review.output or ()]
    told = ("target_agent", "title", "evidence", "severity")
    modules = [spec.module for spec in manifest.agents if spec.sandbox_editable]
    return {
        "findings": [
            {"id": f"f{number}", **{name: item.get(name) for name in told}, "change": item.get("impact")}
            for number, item in enumerate(found, 1)
        ],
        "editable": {
            "prompts": sorted(manifest.prompts),
            "code": sorted(f"{module.replace('.', '/')}.py" for module in modules),
        },
        "protected_paths": list(manifest.protected_paths),
    }


def _on_disk(repo: Repo, specs: Iterable[AgentSpec]) -> list[Result]:
    """The latest outputs of these agents, as far as there are any."""
    results = []
    for spec in specs:
        try:
            document = load_json((repo / OUTPUTS / f"{spec.name}.json").read_bytes())
            about = (str(document["run_id"]), document["as_of"], document["input_hash"], document["output"])
            results.append(Result(spec.name, *about, document))
        except (OSError, ValueError, KeyError, TypeError):
            continue  # no output yet, or not one of ours: nothing to review
    return results


def write_outputs(results: Iterable[Result], root: Path) -> None:
    """`agents/outputs/<agent>.json`, each replaced whole; several runs of a reviewer share one file."""
    by_agent: dict[str, list[Result]] = {}
    for result in results:
        by_agent.setdefault(result.agent, []).append(result)

    def write(agent: str) -> None:
        write_json(root / OUTPUTS / f"{agent}.json", _joint(by_agent[agent]))

    with ThreadPoolExecutor(WRITERS) as pool:  # a write waits for the disk; a crowd need not queue for it
        list(pool.map(write, by_agent))


def _joint(runs: Sequence[Result]) -> dict[str, Any]:
    document = runs[-1].document()
    if len(runs) > 1:
        good = [run.output for run in runs if run.output is not None]
        document["output"] = [item for output in good for item in output] if good else None
        document["runs"] = [
            {"target_agent": run.target, **{key: run.document()[key] for key in _RUN_KEYS}} for run in runs
        ]
    return document


_RUN_KEYS: Final = ("run_id", "as_of", "input_hash", "latency_ms", "cost_usd", "error", "error_kind")


RECENT: Final = 20  # runs that count as lately: the reviewer asks for as many before it speaks of a spike
BEFORE: Final = 200  # runs before those that make the baseline, as far as there are so many
NEWEST: Final = 20_000  # runs looked at: enough for RECENT + BEFORE of some ninety agents

FIGURES: Final = ("count", "error_rate", "p95_latency_ms", "avg_cost_usd", "avg_reward")
FIGURES_SQL: Final = """
select
    agent,
    age <= {recent} as lately,
    count(*) as count,
    count(coalesce(error, error_kind)) * 1e0 / count(*) as error_rate,
    percentile_cont(0.95) within group (order by latency_ms) as p95_latency_ms,
    avg(cost_usd) as avg_cost_usd,
    case when count(distinct scoring_version) = 1 then avg(reward) end as avg_reward
from (
    select *, row_number() over (partition by agent order by ts desc, event_id desc) as age
    from events
    where error_kind is null or error_kind not in ({foreign})
) as numbered
where age <= {recent} + {before}
group by agent, age <= {recent}
"""


@frozen
class Standing:
    """An agent's figures over its last runs, and over those before; empty where there are none."""

    telemetry: Mapping[str, Any] = field(default_factory=dict)
    baseline: Mapping[str, Any] = field(default_factory=dict)


def standings(repo: Repo) -> dict[str, Standing]:
    """By agent, from the log and the sealed days as they are now."""
    from telemetry.logger import INFRASTRUCTURE
    from telemetry.read import store
    from telemetry.read.rows import Window, quoted

    foreign = ", ".join(map(quoted, sorted(INFRASTRUCTURE)))
    sql = FIGURES_SQL.format(recent=RECENT, before=BEFORE, foreign=foreign)
    found: dict[tuple[str, bool], dict[str, Any]] = {}
    with store.connect(repo, Window(last_n=NEWEST, source="runtime", kind="run")) as con:
        for agent, lately, *figures in con.execute(sql).fetchall():
            # Rounded, fit to be quoted as evidence.
            rounded = [round(one, 6) if isinstance(one, float) else one for one in figures]
            found[agent, lately] = dict(zip(FIGURES, rounded, strict=True))
    return {
        agent: Standing(found.get((agent, True), {}), found.get((agent, False), {})) for agent, _ in found
    }
