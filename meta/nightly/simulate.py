"""Simulates many nights on a scratch copy and draws the champions' score.

Each night tests the waiting challengers, promotes what is better, and proposes new ones; every change is merged, as if
a person had agreed to all of it. The score is the mean over agents of the share of *holdout* cases their champion
passes: cases that no proposal has ever seen. One seed is one story; the band is what all of them tell.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

from meta.nightly.stage import IDENTITY, InPlace
from meta.nightly.steps import FAILED, call, run_step, steps
from telemetry.edge import cli
from telemetry.edge.errors import Stopped
from telemetry.edge.files import Repo, write_atomic, write_json
from telemetry.edge.frozen import frozen
from telemetry.edge.git import git

CURVE = Path("telemetry/charts/nights.json")
PICTURE = Path("telemetry/charts/nights.png")
# What changes prompts; the world stands still meanwhile.
SIMULATED = ("evals", "A/B", "critiques", "proposals")


@frozen
class Point:
    """The champions' pass rates after so many nights."""

    night: int
    agents: Mapping[str, float]

    @property
    def mean(self) -> float:
        """Every agent counting equally."""
        return fmean(self.agents.values())


def simulate(repo: Repo, args: argparse.Namespace, options: Sequence[str]) -> int:
    """Run the nights of every seed, save curve and picture in the checkout, and tell how far it went."""
    root = repo.root.resolve()
    seeds = [args.seed + number for number in range(args.seeds)]
    runs = [_run(root, args, options, seed) for seed in seeds]
    curve, best = [over_seeds(points) for points in zip(*runs, strict=True)], best_known(repo)
    value = {
        "seeds": seeds,
        "provider": "offline",
        "best_known": best,
        "means": {str(seed): [point.mean for point in run] for seed, run in zip(seeds, runs, strict=True)},
        "nights": curve,
    }
    write_json(root / CURVE, value)
    write_atomic(root / PICTURE, draw(curve, best))
    cli.tell(args, {**value, "picture": str(PICTURE)}, told(curve, best), f"Picture: {PICTURE}")
    return cli.OK


def told(curve: Sequence[Mapping[str, Any]], best: float | None) -> str:
    """How far it went, from the lowest seed to the highest."""
    first, last = curve[0]["mean"], curve[-1]
    spread = f"{100 * last['low']:.1f} .. {100 * last['high']:.1f}"
    said = f"{100 * first:.1f} % -> {100 * last['mean']:.1f} % ({spread}) in {len(curve) - 1} nights"
    if best is None or best <= first:
        return said
    ways = " .. ".join(f"{(last[end] - first) / (best - first):.0%}" for end in ("low", "high"))
    return f"{said}, {ways} of the way to the best known prompts ({100 * best:.1f} %)"


def over_seeds(points: Sequence[Point]) -> dict[str, Any]:
    """The same night of all seeds."""
    means = [point.mean for point in points]
    agents = {name: fmean(point.agents[name] for point in points) for name in points[0].agents}
    span = {"mean": fmean(means), "low": min(means), "high": max(means)}
    return {"night": points[0].night, **span, "agents": agents}


def best_known(repo: Repo) -> float | None:
    """What the best known prompts pass of the holdout cases; None unless every agent that is graded has one."""
    from agents.manifest import load_manifest
    from eval.scores_table import scores

    found = scores(repo)
    graded = [spec.name for spec in load_manifest(repo).enabled() if spec.eval_suite]
    known = [found[name]["best"]["holdout"] for name in graded if name in found]
    return fmean(known) if known and len(known) == len(graded) else None


def _run(root: Path, args: argparse.Namespace, options: Sequence[str], seed: int) -> list[Point]:
    """The nights of one seed."""
    run: list[Point] = []
    with tempfile.TemporaryDirectory(prefix="ratchet-nights-") as scratch:
        copy = Path(scratch) / "copy"
        git(root, "clone", "--quiet", "--no-hardlinks", str(root), str(copy))
        for night in range(args.nights + 1):
            run.append(Point(night, holdout_scores(copy, Path(scratch))))
            _say(args, f"seed {seed}, after {night} nights: {100 * run[-1].mean:.1f} % of holdout cases")
            if night < args.nights:
                _one_night(copy, args, [*options, "--seed", str(seed + night)], night)
                git(copy, "add", "--all")
                git(copy, *IDENTITY, "commit", "--quiet", "--allow-empty", "-m", f"Night {night + 1}")
    return run


def _one_night(copy: Path, args: argparse.Namespace, options: Sequence[str], night: int) -> None:
    stage = InPlace(copy)
    # A prompt that rests is due again some nights later.
    today = datetime.now(UTC).date() + timedelta(days=night)
    for step in steps(options):
        if step.name not in SIMULATED:
            continue
        if step.name == "proposals":
            step = replace(step, commands=tuple((*one, "--today", str(today)) for one in step.commands))
        result = run_step(step, stage)
        _say(args, f"  {step.name}: {result.told}")
        if result.status == FAILED:
            raise Stopped(f"{step.name}: {result.told}")


def holdout_scores(copy: Path, scratch: Path) -> dict[str, float]:
    """The champions' pass rates on holdout, without noise and without leaving a result the proposals could read."""
    kept = scratch / "results"
    results = copy / "eval/results"
    if results.exists():
        results.rename(kept)
    code, error = call("eval.harness", ["--split", "holdout", "--root", str(copy)])
    if code != cli.OK:
        raise Stopped(f"measuring the champions: {error}")
    found = {path.stem: json.loads(path.read_bytes()) for path in sorted(results.glob("*.json"))}
    shutil.rmtree(results)
    if kept.exists():
        kept.rename(results)
    return {agent: float(result["summary"]["success_rate"]) for agent, result in found.items()}


def draw(curve: Sequence[Mapping[str, Any]], best: float | None = None) -> bytes:
    """The mean as a bold line in its band over the seeds, each agent as a thin line with its name at the end."""
    from matplotlib.ticker import MaxNLocator

    from telemetry.read import figures

    nights = [point["night"] for point in curve]
    means = [100 * point["mean"] for point in curve]
    figure, axes = figures.canvas(
        f"Champions improve by pull request: {means[0]:.0f} % to {means[-1]:.0f} %",
        "unseen cases passed by the live prompts; black: mean over agents, grey: from the lowest seed to the highest",
    )
    if best is not None:
        axes.axhline(100 * best, color=figures.FAINT, linewidth=1, linestyle=(0, (4, 3)))
        above = (nights[-1] / 2, 100 * best + 0.6)
        axes.annotate(f"best known prompts {100 * best:.0f}", above, color=figures.FAINT, fontsize=9)
    low, high = ([100 * point[end] for point in curve] for end in ("low", "high"))
    axes.fill_between(nights, low, high, step="post", color=figures.INK, alpha=0.18, linewidth=0)
    lines = {agent: [100 * point["agents"][agent] for point in curve] for agent in curve[0]["agents"]}
    ends = {"all agents": means[-1]} | {agent: scores[-1] for agent, scores in lines.items()}
    places = _apart(ends, least=(max(map(max, lines.values())) - min(map(min, lines.values()))) / 18)
    colours = {"all agents": figures.INK} | dict(zip(lines, figures.COLOURS, strict=False))
    step = partial(axes.plot, nights, drawstyle="steps-post")
    for agent, scores in lines.items():
        step(scores, color=colours[agent], linewidth=1.4, alpha=0.85)
    step(means, color=figures.INK, linewidth=3, marker="o", markersize=4.5)
    beside: dict[str, Any] = {"xytext": (8, 0), "textcoords": "offset points", "annotation_clip": False}
    beside |= {"va": "center", "fontsize": 9}
    for name, place in places.items():
        label, weight = f"{name} {ends[name]:.0f}", "bold" if name == "all agents" else "normal"
        axes.annotate(label, (nights[-1], place), color=colours[name], fontweight=weight, **beside)
    axes.set_xlabel("nights")
    axes.set_ylabel("holdout cases passed, %")
    axes.set_xlim(0, max(1, nights[-1]))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    return figures.png(figure)


def _apart(places: Mapping[str, float], least: float) -> dict[str, float]:
    """The places in the same order, moved up where they would touch."""
    moved: dict[str, float] = {}
    floor = float("-inf")
    for name, place in sorted(places.items(), key=lambda item: item[1]):
        floor = moved[name] = max(place, floor + least)
    return moved


def _say(args: argparse.Namespace, text: str) -> None:
    if not args.quiet:
        print(text, file=sys.stderr, flush=True)
