"""Grades the outputs of a stored result again without calling anything, or (`--rerun`) runs it again."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agents.llm_client import add_model_flags, model_options
from telemetry.edge import cli
from telemetry.edge.errors import BadInput
from telemetry.edge.files import Repo
from telemetry.edge.frozen import frozen
from telemetry.edge.records import plain

if TYPE_CHECKING:
    from eval.grading.suite import Suite
    from eval.trials.evaluation import Evaluation

# What a rerun may differ in, beside its scores: told, so that a difference in scores can be explained.
_TOLD = ("git_commit", "prompts", "suites", "model_asked", "model_answered", "provider", "packages")
_CLOSE = 1e-9
# What a stored result has to say.
_FIGURES = {"counted", "passed", "mean_score", "errors"}
_GRADED = {"id", "trial", "score", "ok", "error", "output", "output_kept"}
_SETTING = {"suites", "module", "callable", "eval_adapter", "seed", "offline_noise", "split", "trials"}


@frozen
class Difference:
    """One trial, or one figure, that came out otherwise."""

    what: str
    stored: Any
    now: Any


def regrade(stored: Mapping[str, Any], suite: Suite) -> tuple[list[Difference], int]:
    """Grade the kept outputs again; gives the differences and how many trials could be graded."""
    from eval.grading.graders import Part, grade

    cases = {case.id: case for case in suite.cases}
    differences: list[Difference] = []
    graded = 0
    for row in stored["results"]:
        name = f"{row['id']} trial {row['trial']}"
        if row["score"] is None or row["error"] is not None or not row["output_kept"]:
            continue  # nothing was graded, or it cannot be graded again
        case = cases.get(row["id"])
        if case is None:
            differences.append(Difference(name, "in the suite", "no such case"))
            continue
        judged = {int(at): Part(**part) for at, part in row.get("judged", {}).items()}
        again = grade(case.expect, row["output"], case.threshold, judged)
        graded += 1
        differences += _differ(name, row, {"ok": again.ok, "score": again.score})
    return [*differences, *_totals(stored)], graded


def compare(stored: Sequence[Mapping[str, Any]], now: Sequence[Mapping[str, Any]]) -> list[Difference]:
    """The trials of two runs of the same configuration that came out otherwise."""
    old, new = ({(row["id"], row["trial"]): row for row in rows} for rows in (stored, now))
    differences: list[Difference] = []
    for key in dict.fromkeys([*old, *new]):
        name = f"{key[0]} trial {key[1]}"
        if key not in old or key not in new:
            there = ("run" if key in rows else "not run" for rows in (old, new))
            differences.append(Difference(name, *there))
        else:
            differences += _differ(name, old[key], new[key])
    return differences


def _differ(name: str, stored: Mapping[str, Any], now: Mapping[str, Any]) -> Iterable[Difference]:
    if stored["ok"] != now["ok"] or not _same(stored["score"], now["score"]):
        yield Difference(name, _shown(stored), _shown(now))


def _totals(stored: Mapping[str, Any]) -> Iterable[Difference]:
    """The summary's figures, recomputed from the rows."""
    counted = [row for row in stored["results"] if row["score"] is not None]
    figures = {
        "counted": len(counted),
        "passed": sum(row["ok"] is True for row in counted),
        "mean_score": round(sum(row["score"] for row in counted) / len(counted), 6) if counted else None,
        "errors": len(stored["results"]) - len(counted),
    }
    for name, value in figures.items():
        if not _same(stored["summary"][name], value, 2e-6):
            yield Difference(f"summary {name}", stored["summary"][name], value)


def _same(a: float | None, b: float | None, within: float = _CLOSE) -> bool:
    return a is b or (a is not None and b is not None and abs(a - b) <= within)


def _shown(row: Mapping[str, Any]) -> str:
    if row["score"] is None:
        return "error"
    return f"{'passed' if row['ok'] else 'failed'} ({row['score']:.3f})"


def parser() -> cli.Parser:
    made = cli.Parser(__doc__, prog="python -m eval.replay")
    made.add_argument("result", type=Path, help="a results file, e.g. eval/results/macro_watcher.json")
    made.add_argument("--rerun", action="store_true", help="run the same configuration again and compare")
    # For --rerun; seed and noise are those of the stored run.
    add_model_flags(made, without=["--seed", "--offline-noise"])
    return made


@cli.entry(parser)
def main(args: argparse.Namespace, repo: Repo) -> int:
    from eval.grading.suite import load_suite

    stored = _read(repo, args.result)
    [(suite_path, digest)] = stored["metadata"]["suites"].items()
    suite = load_suite(repo, suite_path, allow_unpinned=True)
    notes, stopped = [], ""
    if suite.sha256 != digest:
        notes.append(f"suite {suite_path} changed since: {digest[:12]} -> {suite.sha256[:12]}")
    if args.rerun:
        done = _rerun(repo, stored["metadata"], suite, args)
        [fresh], stopped = done.agents, done.stopped
        differences, checked = compare(stored["results"], fresh.results), len(fresh.results)
        before, now = stored["metadata"], fresh.metadata
        notes += [
            f"{name} changed: {json.dumps(before.get(name))} -> {json.dumps(now.get(name))}"
            for name in _TOLD
            if before.get(name) != now.get(name)
        ]
        if stopped:
            notes.append(f"stopped early: {stopped}")
    else:
        differences, checked = regrade(stored, suite)
    count, verb = len(differences), "run" if args.rerun else "graded"
    cli.tell(
        args,
        plain({"checked": checked, "differences": differences, "notes": notes}),
        *notes,
        *(f"{each.what}: {each.stored} -> {each.now}" for each in differences),
        f"{checked} trials {verb} again, {count or 'no'} difference{'s' * (count != 1)}",
    )
    if stopped:
        return cli.STOPPED
    return cli.FOUND if differences else cli.OK


def _read(repo: Repo, path: Path) -> dict[str, Any]:
    from eval.ledger.results import read_results

    try:
        (repo / path).stat()
    except OSError as problem:
        raise BadInput(f"{path}: cannot be read ({problem.strerror})") from None
    found = read_results(repo, path) or {}
    rows, summary, metadata = (found.get(name) for name in ("results", "summary", "metadata"))
    told = rows is not None and summary is not None and summary.keys() >= _FIGURES
    whole = metadata is not None and metadata.keys() >= _SETTING and len(metadata["suites"]) == 1
    if not told or not whole or not all(row.keys() >= _GRADED for row in rows or ()):
        raise BadInput(f"{path}: not a results file of eval.harness")
    return found


def _rerun(repo: Repo, metadata: Mapping[str, Any], suite: Suite, args: argparse.Namespace) -> Evaluation:
    """The same agent, split, trials, seed and noise, with the code, prompts and model of now."""
    from eval.harness import build_any, known
    from eval.trials.evaluation import Options, Target, evaluate

    named = (metadata["module"], metadata["callable"], str(suite.path), metadata["eval_adapter"])
    spec, asked = known(repo, model_options(args), *named)
    asked = replace(asked, seed=metadata["seed"], offline_noise=metadata["offline_noise"])
    options = Options(metadata["split"], metadata["trials"], ask=asked, quiet=args.quiet)
    target = Target(spec, suite, args.result.with_name(f"{args.result.stem}.rerun.json"))
    return evaluate(repo, [target], options, build=build_any)


if __name__ == "__main__":
    raise SystemExit(main())
