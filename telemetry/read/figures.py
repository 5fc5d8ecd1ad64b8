"""Draws the agents: series in, one matplotlib figure out; nothing is read or written here.

Raw runs are faint points, thinned where there are thousands; the rolling mean over all of them is the line to read.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullLocator

from telemetry.edge.frozen import frozen

Array = np.ndarray[Any, Any]

WIDTH, HEIGHT, DPI = 8.6, 4.4, 200  # inches; twice the pixels of an 860-pixel column, sharp on any screen
# Okabe and Ito: told apart with any kind of colour vision. Markers differ too, for print.
COLOURS: Final = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#7F6B00")
MARKERS: Final = ("o", "s", "^", "D", "v", "P", "X")
REST: Final = "#8A8A8A"  # all agents beyond the busiest len(COLOURS)
INK, FAINT, GRID = "#24292F", "#6E7781", "#E1E4E8"
POINTS: Final = 700  # raw points drawn per agent at most
STEPS: Final = 60  # points of a line at most
SMOOTH: Final = 20  # the rolling mean spans a twentieth of an agent's runs, and at least 5


@frozen
class Series:
    """The runs of one agent in order of time, or one in `every` of them; an unknown value is NaN."""

    name: str
    colour: str
    marker: str
    ts: Array
    latency_s: Array
    cost: Array
    reward: Array
    every: int = 1


def rolling_mean(values: Array, span: int) -> Array:
    """The mean of each value and the `span - 1` before it, from the first full span on."""
    total = np.cumsum(np.insert(values, 0, 0.0))
    return np.asarray((total[span:] - total[:-span]) / span)


def reward_over_time(everyone: Sequence[Series]) -> Figure | None:
    return _over_time("Reward over time", "reward per run", [(one, one.reward) for one in everyone])


def cost_over_time(everyone: Sequence[Series]) -> Figure | None:
    figure = _over_time(
        "Cost over time", "cost per run (US cents)", [(one, one.cost * 100) for one in everyone]
    )
    if figure is not None:
        figure.axes[0].set_ylim(bottom=0)
    return figure


def _over_time(title: str, unit: str, everyone: Sequence[tuple[Series, Array]]) -> Figure | None:
    known = [(one, values) for one, values in everyone if np.isfinite(values).any()]
    if not known:
        return None
    drawn = [values[np.isfinite(values)] for _, values in known]
    what = "the lines are rolling means over a twentieth of an agent's runs"
    figure, axes = canvas(title, f"{_runs(everyone[0][0], drawn)}; {what}")
    for (one, values), finite in zip(known, drawn, strict=True):
        ts = one.ts[np.isfinite(values)]
        _points(axes, one, ts, finite)
        span = max(5, len(finite) // SMOOTH)
        if len(finite) >= span:
            line = _last_per_step(ts[span - 1 :], rolling_mean(finite, span), one.ts)
            axes.plot(*line, color="white", linewidth=4.5, solid_joinstyle="round", zorder=3)
            axes.plot(*line, color=one.colour, linewidth=2.2, solid_joinstyle="round", zorder=4)
    _robust_limits(axes, np.concatenate(drawn))
    axes.set_ylabel(unit)
    locator = AutoDateLocator(minticks=4, maxticks=8)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
    axes.set_xlabel("time (UTC)")
    _legend(figure, [one for one, _ in known], linewidth=2.5, marker=False)
    return figure


def _last_per_step(ts: Array, values: Array, whole: Array) -> tuple[Array, Array]:
    """A line of at most STEPS points, each the newest of its stretch of time: nightly batches make no stairs."""
    day = np.timedelta64(1, "D")
    start, step = whole[0], max((whole[-1] - whole[0]) / STEPS, np.timedelta64(1, "ms"))
    if whole[-1] - start > 4 * day:  # whole days, from midnight to midnight
        start, step = start.astype("datetime64[D]"), np.ceil(step / day) * day
    stretch = ((ts - start) / step).astype(int)
    newest = np.append(stretch[1:] != stretch[:-1], True)
    return ts[newest], values[newest]


def _points(axes: Axes, one: Series, x: Array, y: Array, size: int = 7, marker: str = "o") -> None:
    """One faint point a run, at most POINTS of them: few stand alone, many make a cloud."""
    kept, alpha = slice(None, None, -(-len(x) // POINTS)), min(0.8, max(0.17, 4 / len(x) ** 0.5))
    axes.scatter(
        x[kept], y[kept], s=size, color=one.colour, marker=marker, alpha=alpha, linewidths=0, zorder=2
    )


def _robust_limits(axes: Axes, values: Array) -> None:
    """Scale to all but the wildest hundredth, so that one outlier does not flatten the lines."""
    low, high = np.percentile(values, [0.5, 99.5])
    margin = (high - low) * 0.06 or abs(high) * 0.1 or 0.1
    axes.set_ylim(low - margin, high + margin)


def reward_vs_cost(everyone: Sequence[Series]) -> Figure | None:
    both = [(one, np.isfinite(one.cost) & np.isfinite(one.reward)) for one in everyone]
    known = [(one, one.cost[own] * 100, one.reward[own]) for one, own in both if own.any()]
    if not known:
        return None
    unpriced = sum(one.every * int(np.isnan(one.cost).sum()) for one in everyone)
    note = f" ({unpriced:,} more without a known price)" if unpriced else ""
    runs = _runs(known[0][0], [cost for _, cost, _ in known])
    figure, axes = canvas("Reward against cost", f"{runs}{note}; large marks are each agent's mean")
    costs = np.concatenate([cost for _, cost, _ in known])
    free = not costs.any()
    spread = np.random.default_rng(0)
    for column, (one, cost, reward) in enumerate(known):
        if free:  # one vertical line would show nothing: every agent gets a column of its own
            cost = column + spread.uniform(-0.2, 0.2, len(cost))
        _points(axes, one, cost, reward, 11, one.marker)
        style: dict[str, Any] = {"color": one.colour, "marker": one.marker, "edgecolors": "white"}
        axes.scatter([cost.mean()], [reward.mean()], s=130, linewidths=1.6, zorder=4, **style)
    _robust_limits(axes, np.concatenate([reward for *_, reward in known]))
    if free:
        axes.set_xlim(-0.6, len(known) - 0.4)
        axes.set_xticks([])
        axes.set_xlabel("cost per run: nothing, every one of them")
    elif costs.min() > 0 and costs.max() / costs.min() > 30:
        _log_scale(axes)
        axes.set_xlabel("cost per run (US cents, log scale)")
    else:
        axes.set_xlim(0, np.percentile(costs, 99.5) * 1.05 or 1)
        axes.set_xlabel("cost per run (US cents)")
    axes.set_ylabel("reward per run")
    _legend(figure, [one for one, *_ in known])
    return figure


def latency_by_agent(everyone: Sequence[Series]) -> Figure | None:
    known = [one for one in everyone if (one.latency_s > 0).any()]
    if not known:
        return None
    what = "the bar spans p50 to p95, the thin line ends at p99"
    figure, axes = canvas("Latency by agent", f"{_runs(known[0], [one.latency_s for one in known])}; {what}")
    figure.set_size_inches(WIDTH, max(3.0, 1.5 + 0.56 * len(known)))
    spread = np.random.default_rng(0)  # only to keep points of one agent apart
    for row, one in enumerate(reversed(known)):
        values = one.latency_s[one.latency_s > 0]
        p50, p95, p99 = np.percentile(values, [50, 95, 99])
        _points(axes, one, values, row + spread.uniform(-0.3, 0.3, len(values)))
        axes.plot([p95, p99], [row, row], color=one.colour, linewidth=2, zorder=3)
        axes.plot([p50, p95], [row, row], color="white", linewidth=11, solid_capstyle="butt", zorder=3)
        axes.plot([p50, p95], [row, row], color=one.colour, linewidth=8, solid_capstyle="butt", zorder=4)
        axes.plot([p50], [row], marker="|", color=INK, markersize=15, markeredgewidth=2.2, zorder=5)
        for column, value in enumerate((p50, p95, p99)):
            _beside(axes, column, row, _seconds(value), INK)
    for column, heading in enumerate(("p50", "p95", "p99")):
        _beside(axes, column, len(known) - 0.45, heading, FAINT)
    axes.set_yticks(range(len(known)), [one.name for one in reversed(known)])
    _log_scale(axes)
    axes.set_xlabel("latency (seconds, log scale)")
    axes.grid(axis="y", visible=False)
    axes.grid(axis="x", color=GRID, linewidth=0.8)
    axes.set_ylim(-0.6, len(known) - 0.3)
    return figure


def _beside(axes: Axes, column: int, row: float, text: str, colour: str) -> None:
    """A cell of the small table to the right of the axes."""
    place: dict[str, Any] = {"xytext": (52 + 52 * column, 0), "textcoords": "offset points", "ha": "right"}
    where: Any = ("axes fraction", "data")
    style: dict[str, Any] = {"fontsize": 9.5, "color": colour, "annotation_clip": False, "va": "center"}
    axes.annotate(text, (1.0, row), xycoords=where, **place, **style)


def _log_scale(axes: Axes) -> None:
    axes.set_xscale("log")
    low, high = axes.get_xlim()
    wide = high > low * 1000  # more than three decades: 1, 2, 5 would run into each other
    axes.xaxis.set_major_locator(LogLocator(subs=(1,) if wide else (1, 2, 5)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")


def _seconds(value: float) -> str:
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.2g} s" if value < 10 else f"{value:.0f} s"


def _runs(one: Series, values: Sequence[Array]) -> str:
    """How many runs a chart stands on, and whether all of them are drawn."""
    known = [int(np.isfinite(each).sum()) for each in values]
    few = ", a sample of them as points" if max(known) > POINTS else " as points"
    if one.every > 1:
        return f"about {one.every * sum(known):,} runs, one in {one.every} of them looked at{few}"
    return f"{sum(known):,} runs{few}"


def canvas(title: str, subtitle: str) -> tuple[Figure, Axes]:
    """An empty figure in the house style, and its axes."""
    figure = Figure(figsize=(WIDTH, HEIGHT), dpi=DPI, layout="constrained", facecolor="white")
    figure.get_layout_engine().set(w_pad=0.12, h_pad=0.1)  # type: ignore[union-attr, call-arg]
    axes = figure.add_subplot()
    axes.set_title(title, loc="left", fontsize=14, fontweight="bold", color=INK, pad=24)
    where: dict[str, Any] = {"xycoords": "axes fraction", "xytext": (0, 8), "textcoords": "offset points"}
    axes.annotate(subtitle, (0, 1), fontsize=9.5, color=FAINT, **where)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color("#AFB8C1")
    axes.tick_params(colors=INK, labelsize=10, length=0)
    axes.xaxis.label.set(color=INK, size=10)
    axes.yaxis.label.set(color=INK, size=10)
    axes.grid(axis="y", color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    return figure, axes


def _legend(figure: Figure, shown: Sequence[Series], linewidth: float = 0, marker: bool = True) -> None:
    line: dict[str, Any] = {"linewidth": linewidth, "markersize": 8}
    handles = [Line2D([], [], color=one.colour, marker=one.marker if marker else "", **line) for one in shown]
    style: dict[str, Any] = {"fontsize": 9.5, "labelcolor": INK, "handlelength": 1.4, "columnspacing": 1.6}
    place: dict[str, Any] = {"loc": "outside lower center", "ncols": min(len(shown), 5), "frameon": False}
    figure.legend(handles, [one.name for one in shown], **place, **style)


def png(figure: Figure) -> bytes:
    """The figure as bytes without version or time: same data, same bytes."""
    picture = io.BytesIO()
    figure.savefig(picture, format="png", metadata={"Software": None})
    return picture.getvalue()
