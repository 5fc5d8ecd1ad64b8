"""What does it look like over time? Rows to four pictures in `telemetry/charts/`, made for a README's width."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from typing import Any, Final

from telemetry import rollup
from telemetry.edge import cli
from telemetry.edge.files import write_atomic
from telemetry.edge.repo import CHARTS, Repo
from telemetry.names import FIELD
from telemetry.read import figures, store
from telemetry.read.figures import COLOURS, MARKERS, REST, Series
from telemetry.read.rows import Window, quoted


def plot(repo: Repo, window: Window) -> dict[str, str | None]:
    """Draw every chart there is data for; gives, by chart, None if drawn, else why not."""
    everyone = load(repo, window)
    directory = repo / CHARTS
    done: dict[str, str | None] = {}
    for name, draw in DRAWINGS.items():
        figure = draw(everyone)
        if figure is None:
            (directory / name).unlink(missing_ok=True)  # an old picture would pass for a current one
            done[name] = MISSING[name] if everyone else "no runs logged yet"
        else:
            write_atomic(directory / name, figures.png(figure))
            done[name] = None
    return done


def load(repo: Repo, window: Window) -> list[Series]:
    """Runs by agent, busiest first; agents beyond the palette are one grey series.

    A replayed run stands on the day it was run as of. Evals and A/B trials are exercises: they are drawn only when
    asked for, or when there is nothing else.
    """
    import numpy as np

    with store.connect(repo, window) as con:
        production = f"source in ({', '.join(map(quoted, FIELD))})"
        real = con.execute(f"select 1 from events where {production} limit 1").fetchone()
        found = con.execute(
            "select agent, coalesce(try_cast(as_of as timestamp), ts) as ts, latency_ms / 1000 as latency, cost_usd,"
            " reward, scoring_version from events"
            f" where {production if real and window.source is None else 'true'} order by 2, event_id"
        ).fetchnumpy()
    agents = np.asarray(found["agent"], dtype=str)
    if not len(agents):
        return []
    ts = found["ts"].astype("datetime64[ms]")
    reward = _floats(found["reward"])
    version = np.asarray(np.ma.filled(found["scoring_version"], ""), dtype=str)
    reward[version != version[~np.isnan(reward)][-1:]] = np.nan  # never two scoring versions in one mean
    values = (_floats(found["latency"]), _floats(found["cost_usd"]), reward)
    names, counts = np.unique(agents, return_counts=True)
    names = names[np.argsort(-counts, kind="stable")]
    shown = sorted(names[: len(COLOURS)])  # by name: an agent keeps its colour from night to night
    series = []
    for name, colour, marker in zip(shown, COLOURS, MARKERS, strict=False):
        own = agents == name
        series.append(Series(_label(str(name)), colour, marker, ts[own], *(value[own] for value in values)))
    if len(names) > len(shown):
        own = ~np.isin(agents, shown)
        label = f"{len(names) - len(shown)} others"
        series.append(Series(label, REST, ".", ts[own], *(value[own] for value in values)))
    return series


def _label(name: str) -> str:
    """The name as a chart can show it: short, and `$` not taken for a formula."""
    return (name if len(name) <= 24 else name[:23] + "…").replace("$", r"\$")


def _floats(column: Any) -> Any:
    import numpy as np

    return np.ma.filled(np.ma.asarray(column, dtype=float), np.nan).copy()


DRAWINGS: Final[dict[str, Callable[[Sequence[Series]], Any]]] = {
    "reward_vs_cost_scatter.png": figures.reward_vs_cost,
    "reward_over_time.png": figures.reward_over_time,
    "cost_over_time.png": figures.cost_over_time,
    "latency_by_agent.png": figures.latency_by_agent,
}
MISSING: Final = {
    "reward_vs_cost_scatter.png": "no run has both a reward and a known cost",
    "reward_over_time.png": "no run has a reward",
    "cost_over_time.png": "no run has a known cost",
    "latency_by_agent.png": "no run has a latency",
}


def parser() -> cli.Parser:
    parser = cli.Parser("Draw reward, cost and latency of the agents to telemetry/charts/*.png.")
    rollup.add_window_flags(parser)
    return parser


@cli.entry(parser)
def main(args: argparse.Namespace, repo: Repo) -> int:
    done = plot(repo, Window(args.last_n, args.since, args.source, kind="run"))
    cli.found(f"{list(done.values()).count(None)} charts")
    if args.json:
        print(json.dumps({str(CHARTS / name): why or "drawn" for name, why in done.items()}, indent=2))
    elif not args.quiet:
        if set(done.values()) == {"no runs logged yet"}:
            print("No charts drawn: no runs logged yet.")
        else:
            for name, why in done.items():
                print(f"{CHARTS / name}" if why is None else f"{CHARTS / name} not drawn: {why}.")
    return cli.OK


if __name__ == "__main__":
    raise SystemExit(main())
