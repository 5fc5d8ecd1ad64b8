"""Simulates many nights on a scratch copy and draws the champions' score.

Each night tests the waiting challengers, promotes what is better, and proposes new ones; every change is merged, as if
a person had agreed to all of it. The score is the mean over agents of the share of *holdout* cases their champion
passes: cases that no proposal has ever seen.
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
from typing import Any

from meta.nightly.stage import IDENTITY, InPlace
from meta.nightly.steps import FAILED, call, run_step, steps
from telemetry.edge import cli
from telemetry.edge.errors import Stopped
from telemetry.edge.files import Repo, write_atomic, write_json
from telemetry.edge.git import git

CURVE = Path("telemetry/charts/nights.json")
PICTURE = Path("telemetry/charts/nights.png")
SIMULATED = (
    "evals",
    "A/B",
    "critiques",
    "proposals",
)  # what changes prompts; the world stands still meanwhile


def simulate(repo: Repo, args: argparse.Namespace, options: Sequence[str]) -> int:
    """Run the nights, save curve and picture in the checkout, and tell how far it went."""
    root = repo.root.resolve()
    curve: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="ratchet-nights-") as scratch:
        copy = Path(scratch) / "copy"
        git(root, "clone", "--quiet", "--no-hardlinks", str(root), str(copy))
        for night in range(args.nights + 1):
            scores = holdout_scores(copy, Path(scratch))
            mean = sum(scores.values()) / len(scores)
            curve.append({"night": night, "mean": mean, "agents": scores})
            _say(args, f"after {night} nights: {100 * mean:.1f} % of holdout cases")
            if night < args.nights:
                _one_night(copy, args, [*options, "--seed", str(args.seed + night)], night)
                git(copy, "add", "--all")
                git(copy, *IDENTITY, "commit", "--quiet", "--allow-empty", "-m", f"Night {night + 1}")
    write_json(root / CURVE, {"seed": args.seed, "provider": "offline", "nights": curve})
    draw(curve, root / PICTURE)
    first, last = 100 * curve[0]["mean"], 100 * curve[-1]["mean"]
    told = f"{first:.1f} % -> {last:.1f} % ({last - first:+.1f} points) in {args.nights} nights"
    cli.tell(args, {"curve": curve, "picture": str(PICTURE)}, told, f"Picture: {PICTURE}")
    return cli.OK


def _one_night(copy: Path, args: argparse.Namespace, options: Sequence[str], night: int) -> None:
    stage = InPlace(copy)
    today = datetime.now(UTC).date() + timedelta(
        days=night
    )  # a prompt that rests is due again some nights later
    for step in steps(options, replay=False):
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


def draw(curve: Sequence[Mapping[str, Any]], path: Path) -> None:
    """The mean as a bold line, each agent as a thin one with its name at the end."""
    from matplotlib.ticker import MaxNLocator

    from telemetry.read import figures

    nights = [point["night"] for point in curve]
    means = [100 * point["mean"] for point in curve]
    figure, axes = figures.canvas(
        f"Champions improve by pull request: {means[0]:.0f} % to {means[-1]:.0f} %",
        "share of unseen cases passed by the live prompts; black is the mean over agents; every proposal merged",
    )
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
        told, weight = f"{name} {ends[name]:.0f}", "bold" if name == "all agents" else "normal"
        axes.annotate(told, (nights[-1], place), color=colours[name], fontweight=weight, **beside)
    axes.set_xlabel("nights")
    axes.set_ylabel("holdout cases passed, %")
    axes.set_xlim(0, max(1, nights[-1]))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    write_atomic(path, figures.png(figure))


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
