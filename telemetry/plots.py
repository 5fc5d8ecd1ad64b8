"""Draws the agents over time: rows to four pictures in `telemetry/charts/`, made for a README's width."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, Final

from telemetry.edge import cli
from telemetry.edge.files import CHARTS, Repo, write_atomic
from telemetry.logger import FIELD
from telemetry.read.rows import Window, quoted, window_of, with_window_flags

if TYPE_CHECKING:
    from telemetry.read.figures import Series

# By function of telemetry.read.figures: the picture, and why it may be missing.
PICTURES: Final = {
    "reward_vs_cost": (
        "reward_vs_cost_scatter.png",
        "no run in the field has both a reward and a known cost",
    ),
    "reward_over_time": ("reward_over_time.png", "no run in the field has a reward"),
    "cost_over_time": ("cost_over_time.png", "no run has a known cost"),
    "latency_by_agent": ("latency_by_agent.png", "no run has a latency"),
}
NO_RUNS: Final = "no runs logged yet"
# Numbers for names, in their order: numpy takes longer to tell names apart than the engine to read them.
_OWNERS_SQL: Final = """
create temp table owners as
select
    agent, row_number() over (order by agent) - 1 as owner, count(*) as runs,
    arg_max(version, row(ts, event_id)) filter (where reward is not null) as newest
from drawn group by agent
"""
# Never two scoring versions in one mean: each agent's newest is drawn.
_DRAWN_SQL: Final = """
select owner, ts, latency, cost_usd, case when version = newest then reward end as reward
from drawn join owners using (agent) order by ts, event_id
"""
ASKED: Final = (
    *("event_id", "agent", "source", "ts", "as_of"),
    *("latency_ms", "cost_usd", "reward", "scoring_version"),
)


def plot(repo: Repo, window: Window) -> dict[str, str | None]:
    """Draw every chart there is data for; gives, by chart, None if drawn, else why not."""
    from telemetry.read import figures

    everyone = load(repo, window)
    done: dict[str, str | None] = {}
    for draw, (name, missing) in PICTURES.items():
        figure, path = getattr(figures, draw)(everyone), repo / CHARTS / name
        if figure is None:
            path.unlink(missing_ok=True)  # an old picture would pass for a current one
            done[name] = missing if everyone else NO_RUNS
        else:
            write_atomic(path, figures.png(figure))
            done[name] = None
    return done


def load(repo: Repo, window: Window) -> list[Series]:
    """Runs by agent, busiest first; agents beyond the palette are one grey series.

    Of many sealed days some runs stand for all, and the charts say so. A replayed run stands on the day it was run
    as of. Evals and A/B trials are exercises: they are drawn only when asked for, or when there is nothing else, and
    without a reward: they have pass rates.
    """
    import numpy as np

    from telemetry.read import days, store
    from telemetry.read.figures import COLOURS, MARKERS, REST, Series

    now = store.snapshot(repo)
    sums = days.kept(repo, now.sealed, window)
    every = 1 if sums is None else days.SAMPLE
    with store.connect(repo, window, once=ASKED, now=now, live_only=sums is not None) as con:
        runs = f"select {', '.join(ASKED)} from events"
        if sums is not None:
            kept = f"select {', '.join(ASKED)} from {sums.table('sample')} where {window.condition()}"
            runs = f"{runs} where hash(event_id) % {every} = 0 union all {kept}"
        production = f"source in ({', '.join(map(quoted, FIELD))})"
        real = con.execute(f"select 1 from ({runs}) where {production} limit 1").fetchone()
        con.execute(
            "create temp table drawn as select agent, event_id, coalesce(try_cast(as_of as timestamp), ts) as ts,"
            f" latency_ms / 1000 as latency, cost_usd, case when {production} then reward end as reward,"
            f" coalesce(scoring_version, '') as version from ({runs})"
            f" where {production if real and window.source is None else 'true'}"
        )
        con.execute(_OWNERS_SQL)
        names, counts = con.execute("select agent, runs from owners order by owner").fetchnumpy().values()
        found = con.execute(_DRAWN_SQL).fetchnumpy()
    if not len(names):
        return []
    ts, owner = found["ts"].astype("datetime64[ms]"), found["owner"]
    values = [_floats(found[name]) for name in ("latency", "cost_usd", "reward")]

    def series(name: str, colour: str, marker: str, own: Any) -> Series:
        latency, cost, earned = (value[own] for value in values)
        return Series(name, colour, marker, ts[own], latency, cost, earned, every)

    # By name: an agent keeps its colour from night to night.
    shown = sorted(np.argsort(-counts, kind="stable")[: len(COLOURS)])
    palette = zip(shown, COLOURS, MARKERS, strict=False)
    everyone = [series(_label(str(names[at])), colour, marker, owner == at) for at, colour, marker in palette]
    if len(names) > len(shown):
        everyone.append(series(f"{len(names) - len(shown)} others", REST, ".", ~np.isin(owner, shown)))
    return everyone


def _label(name: str) -> str:
    """The name as a chart can show it: short, and `$` not taken for a formula."""
    return (name if len(name) <= 24 else name[:23] + "…").replace("$", r"\$")


def _floats(column: Any) -> Any:
    import numpy as np

    return np.ma.filled(np.ma.asarray(column, dtype=float), np.nan).copy()


def parser() -> cli.Parser:
    return with_window_flags(
        cli.Parser("Draw reward, cost and latency of the agents to telemetry/charts/*.png.")
    )


@cli.entry(parser)
def main(args: argparse.Namespace, repo: Repo) -> int:
    done = plot(repo, window_of(args))
    cli.found(f"{list(done.values()).count(None)} charts")
    lines = [f"{CHARTS / name}" + (f" not drawn: {why}." if why else "") for name, why in done.items()]
    if set(done.values()) == {NO_RUNS}:
        lines = [f"No charts drawn: {NO_RUNS}."]
    cli.tell(args, {str(CHARTS / name): why or "drawn" for name, why in done.items()}, *lines)
    return cli.OK


if __name__ == "__main__":
    raise SystemExit(main())
