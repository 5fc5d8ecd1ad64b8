"""Runs agents on their suites and writes graded results to `eval/results/`."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agents.llm_client import ModelOptions, add_model_flags, model_options
from eval.trials.shards import add_shard_flags, journal_file, one_at_a_time
from telemetry.edge import cli
from telemetry.edge.cli import job_summary
from telemetry.edge.errors import BadInput, Stopped
from telemetry.edge.files import MANIFEST, RESULTS, SCRATCH, Repo, here
from telemetry.edge.records import plain
from telemetry.edge.split import cores
from telemetry.edge.text import table

if TYPE_CHECKING:
    from agents.base import BaseAgent
    from agents.manifest import AgentSpec, Manifest
    from agents.model.call import Model
    from agents.texts.prompt_set import PromptSet
    from eval.trials.evaluation import Evaluation, Target
    from eval.trials.results import Summary

SHARDS = RESULTS / "eval_shards"


def run_suite(
    module: str, callable_spec: str, suite_path: str | Path, out_path: str | Path, eval_adapter: str = ""
) -> list[dict[str, Any]]:
    """Grade one callable (`function` or `Class.method`) on one suite: returns the results, and writes `out_path`.

    A callable of the manifest runs as that agent, with its prompts; any other is called with the input of each case.
    A suite that is pinned must be as pinned; one in a folder without a lock file is taken as it is.
    """
    from eval.grading.suite import LOCK, load_suite
    from eval.trials.evaluation import Options, Target, evaluate

    repo = here()
    unlocked = not (repo / suite_path).parent.joinpath(LOCK).exists()
    suite = load_suite(repo, suite_path, allow_unpinned=unlocked)
    spec, ask = known(repo, ModelOptions(), module, callable_spec, str(suite_path), eval_adapter)
    target = Target(spec, suite, Path(out_path))
    options = Options(ask=ask, quiet=True)
    done = evaluate(repo, [target], options, build=build_any)
    if done.skipped:
        raise BadInput(f"{module}.{callable_spec}: {done.skipped[spec.name]}")
    return [dict(row) for row in done.agents[0].results]


def known(
    repo: Repo, ask: ModelOptions, module: str, callable_spec: str, suite_path: str, eval_adapter: str
) -> tuple[AgentSpec, ModelOptions]:
    """The manifest's entry for this callable, if there is one (that suite's own before another's), else a bare one.

    And how the manifest lets a model be asked; as it was where there is no manifest.
    """
    from agents.manifest import AgentSpec, load_manifest

    owner = callable_spec.partition(".")[0]
    if (repo / MANIFEST).exists():
        manifest = load_manifest(repo)
        agents, ask = manifest.agents, ask.within(manifest)
        same = [spec for spec in agents if spec.module == module and spec.callable.partition(".")[0] == owner]
        same.sort(key=lambda spec: spec.eval_suite != suite_path)
        if same:
            return replace(same[0], eval_adapter=eval_adapter or same[0].eval_adapter), ask
    name = module.rpartition(".")[2] if "." in callable_spec else callable_spec
    return AgentSpec(name, module, callable_spec, inputs="", eval_adapter=eval_adapter), ask


def build_any(spec: AgentSpec, prompts: PromptSet, model: Model) -> BaseAgent:
    """Like `build_agent`, but a plain callable may return anything: it is graded, not fed to another agent."""
    from agents.base import AgentError, CallableAgent, build_agent

    class AnyOutput(CallableAgent):
        def checked(self, output: Any) -> Any:
            return output

    try:
        agent = build_agent(spec, prompts, model)
    except AgentError as error:
        raise BadInput(str(error)) from error
    if type(agent) is CallableAgent and spec.output_schema is None:
        return AnyOutput(spec, prompts, model, agent.analyze)
    return agent


def parser() -> cli.Parser:
    made = cli.Parser(__doc__, prog="python -m eval.harness")
    add = made.add_argument
    add("--agent", action="append", default=[], metavar="NAME", help="only this agent (repeatable)")
    halves = "which cases (default: all, that is tune and holdout)"
    add("--split", choices=["all", "tune", "holdout", "fresh"], default="all", help=halves)
    add("--trials", type=cli.whole(1), default=1, metavar="K", help="run every case K times (default: 1)")
    add("--judge-calls", type=cli.whole(0), default=None, metavar="N", help="at most N calls of llm_judge")
    add_shard_flags(made, SHARDS)
    add(
        "--cache",
        action=argparse.BooleanOptionalAction,
        help="reuse answers of the last days to the same question (default: those at temperature 0)",
    )
    add("--resume", action="store_true", help="go on where a stopped run of the same configuration was")
    add("--allow-unpinned", action="store_true", help="take suites that differ from their pin, this once")
    add_model_flags(made, seed="of the offline noise and of the judge's order")
    return made


@cli.entry(parser)
def main(args: argparse.Namespace, repo: Repo) -> int:
    from agents.manifest import load_manifest
    from eval.trials.evaluation import Options, evaluate, merged

    one_at_a_time(args)
    manifest = load_manifest(repo)
    taken = ("split", "trials", "shard", "resume", "judge_calls", "quiet")
    ask = replace(model_options(args).within(manifest), evals=True)
    options = Options(**{name: getattr(args, name) for name in taken}, ask=ask, processes=cores())
    targets = _targets(repo, args, manifest)
    whole = SCRATCH / f"eval-{'+'.join(sorted(set(args.agent))) or 'all'}.jsonl"
    journal = journal_file(whole, SHARDS, options.shard)
    try:
        if args.merge is not None:
            done = merged(repo, targets, options, args.merge)
        else:
            done = evaluate(repo, targets, options, journal_path=repo / journal)
    except KeyboardInterrupt:
        raise Stopped("interrupted; what is done is kept: the same command with --resume goes on") from None
    _tell(done, args)
    again = "the same command goes on" if args.resume else "go on with --resume"
    if done.stopped:
        then = "run them, and merge again" if args.merge is not None else again
        print(f"stopped early: {done.stopped}; {then}", file=sys.stderr)
    elif done.inconclusive:
        print(f"inconclusive: {done.lost}; {again}", file=sys.stderr)
    return cli.STOPPED if done.stopped or done.inconclusive else cli.OK


def _targets(repo: Repo, args: argparse.Namespace, manifest: Manifest) -> list[Target]:
    from eval.grading.suite import Suites
    from eval.trials.evaluation import Target

    chosen = [manifest.agent(name) for name in dict.fromkeys(args.agent)] or list(manifest.enabled())
    suites = Suites(repo, allow_unpinned=args.allow_unpinned)
    targets = []
    for spec in chosen:
        if not spec.eval_suite:
            if args.agent:
                raise BadInput(f"agents/manifest.yaml: agents.{spec.name}.eval_suite: is missing")
            continue
        if not spec.enabled and not args.quiet:
            print(f"{spec.name} is disabled; it is evaluated because it was named", file=sys.stderr)
        targets.append(Target(spec, suites.load(spec.eval_suite), RESULTS / f"{spec.name}.json"))
    if not targets:
        raise BadInput("agents/manifest.yaml: no enabled agent has an eval_suite")
    return targets


def _tell(done: Evaluation, args: argparse.Namespace) -> None:
    from eval.trials.results import unread

    rows = [_line(each.target.spec.name, each.summary) for each in done.agents]
    rates = {each.target.spec.name: each.summary.success_rate for each in done.agents}
    told = [f"{name} {100 * rate:.0f} %" for name, rate in rates.items() if rate is not None]
    told += [f"{name} skipped: {why}" for name, why in done.skipped.items()]
    # The rows of a large suite stand in a file: they are read again only where there is something to be found.
    bad = [each for each in done.agents if "parse" in each.summary.own_errors_by_kind]
    problems = [f"{each.target.spec.name}: {unread(each.results)}" for each in bad]
    cli.found("; ".join([", ".join(told), *problems]))
    asked = (each.metadata["model_asked"] or each.metadata["provider"] for each in done.agents)
    models = sorted({name for one in asked for name in (one if isinstance(one, list) else [one]) if name})
    stopped = f", stopped early: {done.stopped}" if done.stopped else ""
    heading = f"Eval by {', '.join(models) or 'nobody'}{stopped}"
    titles = ["agent", "counted", "passed", "success", "empty", "score", "errors", "p95 ms", "cost"]
    job_summary(f"### {heading}\n\n{table(titles, rows)}")
    widths = [max(map(len, column)) for column in zip(titles, *rows, strict=True)]
    first, *others = widths
    shown = [titles, *rows] if rows else []
    lines = ["  ".join([row[0].ljust(first), *map(str.rjust, row[1:], others)]) for row in shown]
    if done.reused:
        lines.append(f"{done.reused} answers were reused from the cache; --no-cache asks again")
    lines += [*problems, *(f"{name}: skipped: {why}" for name, why in done.skipped.items())]
    if args.shard[1] > 1:
        lines.append(f"shard done; sum up with --merge {SHARDS} once all are there")
    value = {
        "agents": {each.target.spec.name: plain(each.summary) for each in done.agents},
        "inconclusive": done.inconclusive,
        "skipped": dict(done.skipped),
        "stopped": done.stopped or None,
        "reused": done.reused,
        "cost_usd": done.spent_usd,
    }
    cli.tell(args, value, heading, *lines)


def _line(name: str, summary: Summary) -> list[str]:
    def shown(value: float | None, form: str) -> str:
        return "-" if value is None else format(value, form)

    missing = str(summary.errors + summary.not_run)
    return [
        name,
        f"{summary.counted}/{summary.planned}",
        str(summary.passed),
        shown(summary.success_rate, ".1%"),
        shown(summary.empty_rate, ".1%"),
        shown(summary.mean_score, ".3f"),
        f"{missing} (inconclusive)" if summary.inconclusive else missing,
        shown(summary.p95_latency_ms, ".0f"),
        "unknown" if summary.cost_usd is None else f"${summary.cost_usd:.4f}",
    ]


if __name__ == "__main__":
    raise SystemExit(main())
