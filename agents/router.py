"""Routes tasks to agents, and says what another way of routing would have earned.

`run TASK.json` gives a task (or each of a list) to one of the agents that can do it, and runs that one. `evaluate
--policy FILE` estimates from the log what a policy would have earned. `fit` learns a policy on the earlier half of
the log and shows its value on the later. Both are about the choice of agents, or with `--agent` about that one's
`models`. Exit codes: 0 done; 1 the log cannot say (no overlap, too few choices): no number; 2 bad input; 3 nobody
came through.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agents.llm_client import add_model_flags, model_options
from agents.routing import FALLBACK, STRATEGIES
from telemetry.edge import cli
from telemetry.edge.errors import BadInput, Stopped
from telemetry.edge.files import Repo, write_atomic
from telemetry.edge.frozen import frozen
from telemetry.edge.records import plain
from telemetry.read.rows import add_since_flag

if TYPE_CHECKING:
    from agents.manifest import Manifest
    from agents.routing.choice import Decision
    from agents.routing.decide import Router
    from agents.routing.task import Task
    from agents.routing.value import Value
    from agents.run.runner import Result, Runner

POLICY = Path("agents/outputs/routing_policy.json")
TRIES = 3  # agents that `fallback` asks before it gives up


@frozen
class Routed:
    """One task: who was chosen in the end, and what came of it."""

    task: Task
    decision: Decision
    result: Result | None = None  # None: nothing was run


def parser() -> cli.Parser:
    parse = cli.Parser(__doc__)
    add = parse.add_argument
    add("action", choices=["run", "evaluate", "fit"])
    add("task", nargs="?", type=Path, metavar="TASK.json", help="run: one task, or a list of them")
    add("--strategy", choices=STRATEGIES, default=STRATEGIES[0], help="run: (default %(default)s)")
    add("--ucb", action="store_true", help="run: the bandit goes by upper bounds instead of Thompson's draws")
    add(
        "--policy",
        type=Path,
        metavar="FILE",
        help="evaluate it; run: by it, instead of the bandit's own choice",
    )
    add("--dry-run", action="store_true", help="run: show who would be chosen; nothing is run or logged")
    add("--agent", metavar="NAME", help="evaluate, fit: the choice among this agent's models")
    add(
        "--out",
        type=Path,
        default=POLICY,
        metavar="FILE",
        help="fit: where the policy goes (default %(default)s)",
    )
    add_since_flag(parse, "evaluate, fit: only choices from this UTC day or time on")
    add_model_flags(parse)
    return parse


@cli.entry(parser)
def main(args: argparse.Namespace, repo: Repo) -> int:
    if (args.task is not None) != (args.action == "run"):
        raise BadInput("run takes one TASK.json, evaluate and fit take none (see --help)")
    if args.action == "run":
        return _run(repo, args)
    if args.action == "evaluate" and args.policy is None:
        raise BadInput("evaluate: --policy FILE says which policy")
    return _judge(repo, args)


def _run(repo: Repo, args: argparse.Namespace) -> int:
    import asyncio

    from agents.manifest import load_manifest
    from agents.routing.task import load_tasks

    tasks, manifest = load_tasks(args.task), load_manifest(repo)
    router = _router(repo, manifest, args)
    for task in tasks:  # one that nobody can do stops us before the first is run
        router.decide(task, args.strategy)
    if args.dry_run:
        routed = [Routed(task, router.decide(task, args.strategy)) for task in tasks]
    else:
        routed = asyncio.run(_work(repo, manifest, router, tasks, args))
    cli.found(
        f"{len(routed)} tasks routed to {len({one.decision.selected_agent_id for one in routed})} agents"
    )
    cli.tell(args, {"tasks": [_document(one) for one in routed]}, *map(_line, routed))
    failed = [one.result for one in routed if one.result is not None and one.result.output is None]
    if failed and len(failed) == len(routed):
        raise Stopped(f"no task came through; {failed[0].agent}: {failed[0].row.get('error')}")
    return cli.OK


def _router(repo: Repo, manifest: Manifest, args: argparse.Namespace) -> Router:
    import random

    from agents.domain import IMPROVING
    from agents.routing.decide import Router
    from agents.routing.experience import load_experience
    from agents.routing.policy import load_policy

    # Who improves the others reads what they said, no task.
    able = {spec.name: spec.capabilities for spec in manifest.enabled() if spec.inputs not in IMPROVING}
    policy = load_policy(args.policy) if args.policy else None
    return Router(able, load_experience(repo, able), random.SystemRandom().random, args.ucb, policy)


async def _work(
    repo: Repo, manifest: Manifest, router: Router, tasks: Sequence[Task], args: argparse.Namespace
) -> list[Routed]:
    """All tasks, some at a time: a later choice knows what became of earlier ones."""
    import asyncio
    import contextlib

    from agents.domain import domain_of
    from agents.routing.models import open_router
    from agents.run.inputs import Inputs
    from agents.run.runner import Runner
    from agents.texts.prompt_set import PromptSet

    domain = domain_of(repo, manifest.agents)
    asked = model_options(args).within(manifest)
    model = asked.model(manifest.asked_by(manifest.enabled()), domain.analysts)
    pick = open_router(repo, manifest.enabled(), router.chance)
    runner = Runner(PromptSet(repo), model, Inputs(repo, domain, "snapshot"), args.timeout_s, None, pick)
    done: list[Routed | None] = [None] * len(tasks)
    work = iter(enumerate(tasks))

    async def worker() -> None:
        for at, task in work:
            done[at] = await _routed(task, manifest, router, runner, args.strategy)

    async with contextlib.aclosing(model):
        await asyncio.gather(*(worker() for _ in range(min(asked.at_once, len(tasks)))))
    return [one for one in done if one is not None]


async def _routed(task: Task, manifest: Manifest, router: Router, runner: Runner, strategy: str) -> Routed:
    """One task, from the choice to the result; `fallback` goes on to the next agent where one fails."""
    from agents.routing.experience import worth_of
    from agents.routing.log import log_decision
    from agents.run.inputs import packed
    from telemetry.logger import new_run_id

    failed: list[str] = []
    while True:
        decision, run_id = router.decide(task, strategy, without=failed), new_run_id()
        log_decision(decision, task, run_id)
        name = decision.selected_agent_id
        spec = manifest.agent(name)
        router.under_way[name] += 1
        try:
            day = runner.inputs.latest(spec)
            given = await runner.inputs.get(spec, day) if task.input is None else packed(task.input)
            result = await runner.run(spec, given, day, run_id=run_id, about=task.about)
        finally:
            router.under_way[name] -= 1
        if (earned := worth_of(result.row)) is not None:
            router.experience.observe(name, task.task_type, earned)
        failed.append(name)
        left = len(decision.candidate_agents) > 1 and len(failed) < TRIES
        if result.output is not None or strategy != FALLBACK or not left:
            return Routed(task, decision, result)


def _document(one: Routed) -> dict[str, Any]:
    told = {**one.task.about, "decision": plain(one.decision)}
    return told if one.result is None else told | {"result": one.result.document()}


def _line(one: Routed) -> str:
    decision = one.decision
    why = f"{decision.primary_reason}; drawn with {decision.propensity:.2f}"
    chosen = f"{one.task.task_id}: {decision.selected_agent_id} ({why})"
    if one.result is None:
        return chosen
    row, output = one.result.row, one.result.output
    earned = "" if row.get("reward") is None else f", reward {row['reward']:+.3f}"
    ended = (
        f"{len(output)} items{earned}"
        if output is not None
        else f"{one.result.error_kind}: {row.get('error')}"
    )
    return f"{chosen}: {ended}"


def _judge(repo: Repo, args: argparse.Namespace) -> int:
    """Evaluate a given policy on the whole log, or one learned on its earlier half on the later."""
    from agents.routing.log import load_log
    from agents.routing.policy import as_text, learned, load_policy
    from agents.routing.value import NoOverlap, evaluate

    policy = load_policy(args.policy) if args.action == "evaluate" else None
    log = load_log(repo, args.agent, args.since)
    left_out = f"Left out: {log.unknown} whose reward is not known, {log.certain} that were no draw."
    try:
        if policy is None and len(log.reward) < 2:
            raise NoOverlap("no choice was drawn at random and led to a run with a reward")
        policy = policy or learned(log.half(first=True))
        value = evaluate(policy, log if args.action == "evaluate" else log.half(first=False))
    except NoOverlap as problem:
        told = cli.found(f"no value: {problem}")
        cli.tell(args, {"value": None, "why": str(problem)}, f"{told}. {left_out}")
        return cli.FOUND
    result = {"value": plain(value), "unknown": log.unknown, "certain": log.certain}
    lines = [*_told(value), left_out]
    if args.action == "fit":
        write_atomic(repo / args.out, as_text(policy))
        result |= {"policy": str(args.out)}
        lines.append(f"Learned on the {len(log.reward) - value.decisions} choices before these: {args.out}")
    cli.found(f"{value.policy_version}: {value.doubly_robust.value:+.3f}, logged {value.logged:+.3f}")
    cli.tell(args, result, *lines)
    return cli.OK


def _told(value: Value) -> list[str]:
    robust, gain = value.doubly_robust, value.gain
    proven = "better than" if gain.low > 0 else "worse than" if gain.high < 0 else "not told apart from"
    return [
        f"{value.policy_version}: {robust.value:+.4f} a task ({robust.low:+.4f} .. {robust.high:+.4f}, 95 %), "
        f"over {value.decisions} choices, effective sample {value.effective_sample:.0f}",
        f"  IPS {value.ips:+.4f}, self-normalised {value.snips:+.4f}; the log earned {value.logged:+.4f}",
        f"  gain {gain.value:+.4f} ({gain.low:+.4f} .. {gain.high:+.4f}): {proven} what was logged",
    ]


if __name__ == "__main__":
    raise SystemExit(main())
