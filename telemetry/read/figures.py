"""How is a picture of the agents drawn? Series in, one matplotlib figure out; nothing is read or written here.

Raw runs are faint points, thinned where there are thousands; the rolling mean over all of them is the line to read.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    Array = np.ndarray[Any, Any]

WIDTH, HEIGHT, DPI = 8.6, 4.4, 200  # inches; twice the pixels of an 860-pixel column, sharp on any screen
# Okabe and Ito: told apart with any kind of colour vision. Markers differ too, for print.
COLOURS: Final = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#7F6B00")
MARKERS: Final = ("o", "s", "^", "D", "v", "P", "X")
REST: Final = "#8A8A8A"  # all agents beyond the busiest len(COLOURS)
INK, FAINT = "#24292F", "#6E7781"
POINTS: Final = 700  # raw points drawn per agent at most
STEPS: Final = 60  # points of a line at most
SMOOTH: Final = 20  # the rolling mean spans a twentieth of an agent's runs, and at least 5


@dataclass(frozen=True, slots=True)
class Series:
    """The runs of one agent in order of time; an unknown value is NaN."""

    name: str
    colour: str
    marker: str
    ts: Array
    latency_s: Array
    cost: Array
    reward: Array


def rolling_mean(values: Array, span: int) -> Array:
    """The mean of each value and the `span - 1` before it, from the first full span on."""
    import numpy as np

    total = np.cumsum(np.insert(values, 0, 0.0))
    return np.asarray((total[span:] - total[:-span]) / span)


def reward_over_time(everyone: Sequence[Series]) -> Figure | None:
    return _over_time(everyone, "Reward over time", "reward per run", lambda one: one.reward)


def cost_over_time(everyone: Sequence[Series]) -> Figure | None:
    figure = _over_time(everyone, "Cost over time", "cost per run (US cents)", lambda one: one.cost * 100)
    if figure is not None:
        figure.axes[0].set_ylim(bottom=0)
    return figure


def _over_time(
    everyone: Sequence[Series], title: str, unit: str, value: Callable[[Series], Array]
) -> Figure | None:
    import numpy as np
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    known = [(one, value(one)) for one in everyone]
    if not any(np.isfinite(values).any() for _, values in known):
        return None
    figure, axes = canvas(
        title,
        f"{_runs([values for _, values in known])}; the lines are rolling means over a twentieth of an agent's runs",
    )
    for one, values in known:
        ts, values = one.ts[np.isfinite(values)], values[np.isfinite(values)]
        if not len(values):
            continue
        kept = slice(None, None, -(-len(values) // POINTS))
        axes.scatter(
            ts[kept], values[kept], s=7, color=one.colour, alpha=_alpha(len(values)), linewidths=0, zorder=2
        )
        span = max(5, len(values) // SMOOTH)
        if len(values) >= span:
            line = _last_per_step(ts[span - 1 :], rolling_mean(values, span), one.ts)
            axes.plot(*line, color="white", linewidth=4.5, solid_joinstyle="round", zorder=3)
            axes.plot(*line, color=one.colour, linewidth=2.2, solid_joinstyle="round", zorder=4)
    _robust_limits(axes, np.concatenate([values[np.isfinite(values)] for _, values in known]))
    axes.set_ylabel(unit)
    locator = AutoDateLocator(minticks=4, maxticks=8)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
    axes.set_xlabel("time (UTC)")
    _legend(figure, axes, [one for one, values in known if np.isfinite(values).any()], lines=True)
    return figure


def _last_per_step(ts: Array, values: Array, whole: Array) -> tuple[Array, Array]:
    """A line of at most STEPS points, each the newest of its stretch of time: nightly batches make no stairs."""
    import numpy as np

    day = np.timedelta64(1, "D")
    start, step = whole[0], max((whole[-1] - whole[0]) / STEPS, np.timedelta64(1, "ms"))
    if whole[-1] - start > 4 * day:  # whole days, from midnight to midnight
        start, step = start.astype("datetime64[D]"), np.ceil(step / day) * day
    stretch = ((ts - start) / step).astype(int)
    newest = np.append(stretch[1:] != stretch[:-1], True)
    return ts[newest], values[newest]


def _alpha(points: int) -> float:
    """Few points stand alone, many make a cloud."""
    return float(min(0.8, max(0.17, 4 / points**0.5)))


def _robust_limits(axes: Axes, values: Array) -> None:
    """Scale to all but the wildest hundredth, so that one outlier does not flatten the lines."""
    import numpy as np

    low, high = np.percentile(values, [0.5, 99.5])
    margin = (high - low) * 0.06 or abs(high) * 0.1 or 0.1
    axes.set_ylim(low - margin, high + margin)


def reward_vs_cost(everyone: Sequence[Series]) -> Figure | None:
    import numpy as np

    known = [(one, np.isfinite(one.cost) & np.isfinite(one.reward)) for one in everyone]
    if not any(both.any() for _, both in known):
        return None
    unpriced = sum(int(np.isnan(one.cost).sum()) for one in everyone)
    note = f" ({unpriced:,} more without a known price)" if unpriced else ""
    figure, axes = canvas(
        "Reward against cost",
        f"{_runs([one.cost[both] for one, both in known])}{note}; large marks are each agent's mean",
    )
    costs = np.concatenate([one.cost[both] for one, both in known]) * 100
    free = not costs.any()
    spread = np.random.default_rng(0)
    for column, (one, both) in enumerate(known):
        if not both.any():
            continue
        cost, reward = one.cost[both] * 100, one.reward[both]
        if free:  # one vertical line would show nothing: every agent gets a column of its own
            cost = column + spread.uniform(-0.2, 0.2, len(cost))
        kept = slice(None, None, -(-len(cost) // POINTS))
        axes.scatter(
            cost[kept],
            reward[kept],
            s=11,
            color=one.colour,
            marker=one.marker,
            alpha=_alpha(len(cost)),
            linewidths=0,
            zorder=2,
        )
        axes.scatter(
            [cost.mean()], [reward.mean()], s=130, color=one.colour, marker=one.marker, edgecolors="white",
            linewidths=1.6, zorder=4,
        )  # fmt: skip
    _robust_limits(axes, np.concatenate([one.reward[both] for one, both in known]))
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
    _legend(figure, axes, [one for one, both in known if both.any()])
    return figure


def latency_by_agent(everyone: Sequence[Series]) -> Figure | None:
    import numpy as np

    known = [one for one in everyone if (one.latency_s > 0).any()]
    if not known:
        return None
    figure, axes = canvas(
        "Latency by agent",
        f"{_runs([one.latency_s for one in known])}; the bar spans p50 to p95, the thin line ends at p99",
    )
    figure.set_size_inches(WIDTH, max(3.0, 1.5 + 0.56 * len(known)))
    spread = np.random.default_rng(0)  # only to keep points of one agent apart
    for row, one in enumerate(reversed(known)):
        values = one.latency_s[one.latency_s > 0]
        p50, p95, p99 = np.percentile(values, [50, 95, 99])
        kept = values[:: -(-len(values) // POINTS)]
        axes.scatter(
            kept,
            row + spread.uniform(-0.3, 0.3, len(kept)),
            s=7,
            color=one.colour,
            alpha=_alpha(len(values)),
            linewidths=0,
            zorder=2,
        )
        axes.plot([p95, p99], [row, row], color=one.colour, linewidth=2, zorder=3)
        axes.plot([p50, p95], [row, row], color="white", linewidth=11, solid_capstyle="butt", zorder=3)
        axes.plot([p50, p95], [row, row], color=one.colour, linewidth=8, solid_capstyle="butt", zorder=4)
        axes.plot(
            [p50], [row], marker="|", color=INK, markersize=15, markeredgewidth=2.2, zorder=5, label=one.name
        )
        for column, value in enumerate((p50, p95, p99)):
            _beside(axes, column, row, _seconds(value), INK)
    for column, heading in enumerate(("p50", "p95", "p99")):
        _beside(axes, column, len(known) - 0.45, heading, FAINT)
    axes.set_yticks(range(len(known)), [one.name for one in reversed(known)])
    _log_scale(axes)
    axes.set_xlabel("latency (seconds, log scale)")
    axes.grid(axis="y", visible=False)
    axes.grid(axis="x", color="#E1E4E8", linewidth=0.8)
    axes.set_ylim(-0.6, len(known) - 0.3)
    return figure


def _beside(axes: Axes, column: int, row: float, text: str, colour: str) -> None:
    """A cell of the small table to the right of the axes."""
    axes.annotate(
        text, (1.0, row), xycoords=("axes fraction", "data"), xytext=(52 + 52 * column, 0),
        textcoords="offset points", ha="right", va="center", fontsize=9.5, color=colour, annotation_clip=False,
    )  # fmt: skip


def _log_scale(axes: Axes) -> None:
    from matplotlib.ticker import LogLocator, NullLocator

    axes.set_xscale("log")
    low, high = axes.get_xlim()
    wide = high > low * 1000  # more than three decades: 1, 2, 5 would run into each other
    axes.xaxis.set_major_locator(LogLocator(subs=(1,) if wide else (1, 2, 5)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")


def _seconds(value: float) -> str:
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.2g} s" if value < 10 else f"{value:.0f} s"


def _runs(values: Sequence[Array]) -> str:
    """How many runs a chart stands on, and whether all of them are drawn."""
    import numpy as np

    known = [int(np.isfinite(each).sum()) for each in values]
    return f"{sum(known):,} runs" + (", a sample of them as points" if max(known) > POINTS else " as points")


def canvas(title: str, subtitle: str) -> tuple[Figure, Axes]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, HEIGHT), dpi=DPI, layout="constrained", facecolor="white")
    figure.get_layout_engine().set(w_pad=0.12, h_pad=0.1)  # type: ignore[union-attr, call-arg]
    axes = figure.add_subplot()
    axes.set_title(title, loc="left", fontsize=14, fontweight="bold", color=INK, pad=24)
    axes.annotate(
        subtitle,
        (0, 1),
        xycoords="axes fraction",
        xytext=(0, 8),
        textcoords="offset points",
        fontsize=9.5,
        color=FAINT,
    )
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color("#AFB8C1")
    axes.tick_params(colors=INK, labelsize=10, length=0)
    axes.xaxis.label.set(color=INK, size=10)
    axes.yaxis.label.set(color=INK, size=10)
    axes.grid(axis="y", color="#E1E4E8", linewidth=0.8)
    axes.set_axisbelow(True)
    return figure, axes


def _legend(figure: Figure, axes: Axes, shown: Sequence[Series], lines: bool = False) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D(
            [],
            [],
            color=one.colour,
            linewidth=2.5 if lines else 0,
            marker="" if lines else one.marker,
            markersize=8,
        )
        for one in shown
    ]
    columns = min(len(shown), 5)
    figure.legend(
        handles, [one.name for one in shown], loc="outside lower center", ncols=columns, frameon=False,
        fontsize=9.5, labelcolor=INK, handlelength=1.4, columnspacing=1.6,
    )  # fmt: skip


def png(figure: Figure) -> bytes:
    picture = io.BytesIO()
    figure.savefig(
        picture, format="png", metadata={"Software": None}
    )  # no version, no time: same data, same bytes
    return picture.getvalue()
