"""Charts as inline SVG, drawn when the page is built: no script, no style attribute, colours by class. Pure.

Every chart comes wide and narrow (330 px), so that its text keeps its size on a phone; CSS shows one of them. It has a
title and a description for people who do not see it. Whatever may hold words goes through `escape` on its way in; the
rest of a drawing is numbers, put together as plain text: that is several times faster than letting Markup do it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TypeVar

from markupsafe import Markup, escape

from telemetry.edge.frozen import frozen

T = TypeVar("T")
WIDTHS = {"wide": 680, "narrow": 330}
HEIGHT = 220
FEW = 60  # points up to which each has a dot of its own
MOST = 100  # points of a line
Ends = tuple[float, float]
MARGIN = {"left": 52, "right": 14, "top": 12, "bottom": 26}


@frozen
class Point:
    """One value at a place; `label` names the place on the axis, `note` marks it (a merge, a name)."""

    x: float
    y: float
    label: str = ""
    note: str = ""
    kind: str = ""  # a class of its own


@frozen
class Scale:
    """A range of values laid over a range of pixels."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        return round(self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start), 1)


def line(
    title: str,
    about: str,
    points: Sequence[Point],
    *,
    low: float,
    high: float,
    unit: str = "%",
    alone: bool = False,
) -> Markup:
    """Values in their order, places with a note marked; `alone`, as a file of its own."""
    if not points:
        return Markup("")
    points = thinned(points, lambda point: bool(point.note))
    dotted = points if len(points) <= FEW else [point for point in points if point.note]

    def inner(width: int) -> str:
        x, y = _scales(width, points[0].x, points[-1].x, low, high)
        parts = [_grid(width, y, unit), f'<path class="line" d="{_path(points, x, y)}"/>']
        for point in dotted:
            kind = point.kind or ("marked" if point.note else "")
            told = f"{point.label}: {_shown(point.y, unit)}" + (f", {point.note}" if point.note else "")
            parts.append(_dot(x(point.x), y(point.y), 5 if point.note else 3, kind, told))
        return "".join([*parts, _ends(width, [point.label for point in points])])

    return _alone(title, about, inner) if alone else _both(title, about, inner)


def _path(points: Sequence[Point], x: Scale, y: Scale) -> str:
    """A line through the points; written out, because a large site has hundreds of thousands of them."""
    wide, high = (x.end - x.start) / (x.high - x.low), (y.end - y.start) / (y.high - y.low)
    left, top = x.start - x.low * wide, y.start - y.low * high
    return "M" + "L".join([f"{left + one.x * wide:.1f},{top + one.y * high:.1f}" for one in points])


def thinned(values: Sequence[T], marked: Callable[[T], bool]) -> Sequence[T]:
    """What can be told apart at this size: every n-th value, counted from the last, and all that are marked."""
    step = -(-len(values) // MOST)
    last = len(values) - 1
    return [value for place, value in enumerate(values) if (last - place) % step == 0 or marked(value)]


def scatter(title: str, about: str, points: Sequence[Point], *, across: str, up: str) -> Markup:
    """Named points; those of kind `front` are joined by a step line."""
    if len({point.x for point in points}) < 2:  # nothing to tell apart
        return Markup("")
    left, right = _padded([point.x for point in points])
    low, high = _padded([point.y for point in points])

    def inner(width: int) -> str:
        x, y = _scales(width, left, right, low, high)
        front = sorted((point for point in points if point.kind == "front"), key=lambda point: point.x)
        steps = "".join(f"H{x(point.x)}V{y(point.y)}" for point in front[1:])
        parts = [_rule(width, y(value), f"{value:+.2f}") for value in (low, (low + high) / 2, high)]
        if front:
            path = f"M{x(front[0].x)},{y(front[0].y)}{steps}H{width - MARGIN['right']}"
            parts.append(f'<path class="front" d="{path}"/>')
        named = {id(point) for point in (points if len(points) <= 12 else front)}
        for point in points:
            at = x(point.x), y(point.y)
            parts.append(_dot(*at, 4, point.kind, f"{point.label}: {point.note}"))
            if id(point) in named:
                anchor, shift = ("end", -7) if at[0] > width / 2 else ("start", 7)
                parts.append(_text(at[0] + shift, at[1] + 4, point.label, anchor, "name"))
        parts.append(_ends(width, [f"{across} {left:.3g}", f"{right:.3g}"]))
        parts.append(_text(width - MARGIN["right"], MARGIN["top"] - 2, up, "end"))
        return "".join(parts)

    return _both(title, about, inner)


def odds(title: str, about: str, values: Sequence[float], needed: float) -> Markup:
    """Odds after each case on a logarithmic scale, with what a promotion needs."""
    if len(values) < 2:
        return Markup("")
    places = [max(-3.0, math.log10(value)) if value > 0 else -3.0 for value in values]
    goal = math.log10(needed)
    low, high = math.floor(min(0.0, *places)), math.ceil(max(goal, *places))
    points = [Point(*one) for one in thinned(list(enumerate(places, 1)), lambda one: False)]

    def inner(width: int) -> str:
        x, y = _scales(width, 1, len(values), low, high)
        parts = [
            *(_rule(width, y(power), _to_one(10.0**power)) for power in range(low, high + 1)),
            f'<path class="goal" d="M{MARGIN["left"]},{y(goal)}H{width - MARGIN["right"]}"/>',
            _text(MARGIN["left"] + 4, y(goal) + 14, f"proven: {_to_one(needed)}"),
            f'<path class="line" d="{_path(points, x, y)}"/>',
            _dot(x(len(values)), y(places[-1]), 4),
            _ends(width, ["case 1", f"case {len(values)}"]),
        ]
        return "".join(parts)

    return _both(title, about, inner)


def _to_one(value: float) -> str:
    return f"{value:,.0f}:1" if value >= 1 else f"1:{1 / value:,.0f}"


def spark(title: str, values: Sequence[float], floor: float | None = None) -> Markup:
    """A curve as high as a line of text, with the floor where there is one; in halves of a pixel, as whole numbers."""
    if len(values) < 2:
        return Markup("")
    shown = [*values, *([] if floor is None else [floor])]
    low, high = _padded(shown)
    x, y = Scale(0, len(values) - 1, 2, 178), Scale(low, high, 42, 6)
    path = "M" + " ".join(f"{x(place):.0f},{y(value):.0f}" for place, value in enumerate(values))
    base = "" if floor is None else f'<path class="goal" d="M0,{y(floor):.0f}H180"/>'
    return _small("spark", 180, 48, title, f'{base}<path class="line" d="{path}"/>')


def span(
    title: str, low: float, value: float, high: float, mark: float | None, ends: Ends = (0, 1)
) -> Markup:
    """A value between two ends with its interval, and another one to compare it with."""
    x = Scale(*ends, 5, 95)  # a dot at either end is a whole one
    other = "" if mark is None else f'<path class="goal" d="M{x(mark)},2V16"/>'
    reach = f'<path class="rule" d="M2,9H98"/>{other}<path class="reach" d="M{x(low)},9H{x(high)}"/>'
    return _small("span", 100, 18, title, reach + _dot(x(value), 9, 4))


def gain(title: str, low: float | None, value: float, high: float | None) -> Markup:
    """A difference with its interval beside zero; nothing where the interval is not known."""
    if low is None or high is None:
        return Markup("")
    return span(title, low, value, high, 0.0, _padded([low, 0.0, high]))


def _scales(width: int, left: float, right: float, low: float, high: float) -> tuple[Scale, Scale]:
    right = right if right > left else left + 1
    x = Scale(left, right, MARGIN["left"], width - MARGIN["right"])
    return x, Scale(low, high if high > low else low + 1, HEIGHT - MARGIN["bottom"], MARGIN["top"])


def _padded(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    pad = (high - low) * 0.06 or abs(high) * 0.1 or 1.0
    return low - pad, high + pad


@lru_cache(maxsize=200)  # a thousand agents share a few dozen grids
def _grid(width: int, y: Scale, unit: str) -> str:
    step = next(
        size for size in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, math.inf) if (y.high - y.low) / size <= 5
    )
    places = [
        step * part for part in range(math.ceil(y.low / step - 1e-9), math.floor(y.high / step + 1e-9) + 1)
    ]
    return "".join(_rule(width, y(place), _shown(place, unit)) for place in places)


def _rule(width: int, at: float, label: str) -> str:
    rule = f'<path class="rule" d="M{MARGIN["left"]},{at}H{width - MARGIN["right"]}"/>'
    return rule + _text(MARGIN["left"] - 6, at + 4, label, "end")


def _ends(width: int, labels: Sequence[str]) -> str:
    """What the axis is called where it begins and ends."""
    first = _text(MARGIN["left"], HEIGHT - 8, labels[0])
    last = _text(width - MARGIN["right"], HEIGHT - 8, labels[-1], "end") if len(labels) > 1 else ""
    return first + last


def _text(x: float, y: float, words: str, anchor: str = "start", kind: str = "axis") -> str:
    return f'<text class="{kind}" x="{x}" y="{y}" text-anchor="{anchor}">{escape(words)}</text>'


def _dot(x: float, y: float, radius: int, kind: str = "", told: str = "") -> str:
    end = f"><title>{escape(told)}</title></circle>" if told else "/>"
    name = f"dot {kind}".strip()
    return f'<circle class="{name}" cx="{x}" cy="{y}" r="{radius}"{end}'


def _shown(value: float, unit: str) -> str:
    return f"{100 * value:.0f} %" if unit == "%" else f"{value:.3g}{unit}"


def _both(title: str, about: str, inner: Callable[[int], str]) -> Markup:
    told = f"<title>{escape(title)}</title><desc>{escape(about)}</desc>"
    return Markup("").join(
        Markup(
            f'<svg class="chart {name}" viewBox="0 0 {width} {HEIGHT}" role="img">{told}{inner(width)}</svg>'
        )
        for name, width in WIDTHS.items()
    )


def _small(kind: str, width: int, height: int, title: str, inner: str) -> Markup:
    """What stands within a line."""
    told = f"<title>{escape(title)}</title>"
    return Markup(f'<svg class="{kind}" viewBox="0 0 {width} {height}" role="img">{told}{inner}</svg>')


# Without a page around it there is no theme either: these can be read on white and on black.
_ALONE = (
    "<style>path{fill:none}.line{stroke:#3b82f6;stroke-width:2}.rule{stroke:#8b949e;stroke-opacity:.35}"
    ".dot{fill:#3b82f6}.dot.marked{fill:#2da44e}text{fill:#7d8590;font:12px system-ui,sans-serif}</style>"
)


def _alone(title: str, about: str, inner: Callable[[int], str]) -> Markup:
    width = WIDTHS["wide"]
    size = f'width="{width}" height="{HEIGHT}" viewBox="0 0 {width} {HEIGHT}"'
    told = f"<title>{escape(title)}</title><desc>{escape(about)}</desc>"
    return Markup(
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">{told}{_ALONE}{inner(width)}</svg>\n'
    )


def badge(parts: Sequence[tuple[str, str, str]]) -> Markup:
    """What a README shows in one line, as a file of its own: label, value and the value's colour, side by side."""
    boxes, at = [], 0
    for label, value, colour in parts:
        for text, fill in ((label, "#3d444d"), (value, colour)):
            wide = round(len(text) * 6.8) + 12
            boxes.append(
                Markup('<rect x="{}" width="{}" height="20" fill="{}"/><text x="{}" y="14">{}</text>').format(
                    at, wide, fill, at + wide / 2, text
                )
            )
            at += wide
        at += 4
    told = ", ".join(f"{label} {value}" for label, value, _ in parts)
    return Markup(
        '<svg xmlns="http://www.w3.org/2000/svg" width="{}" height="20" role="img" aria-label="{}"><title>{}</title>'
        '<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11" text-anchor="middle">{}</g></svg>\n'
    ).format(at - 4, told, told, Markup("").join(boxes))
