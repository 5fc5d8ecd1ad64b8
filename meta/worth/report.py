"""The retirement report as records, and as a reviewer meets it: who should go, why, and what merging changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eval.ledger.report import Form
from telemetry.edge.files import REPORTS
from telemetry.edge.records import INLINE
from telemetry.edge.text import Section, cell, code, details, first_screen, fitting, some, table

if TYPE_CHECKING:
    from agents.domain import Column

BLOCKS = "▁▂▃▄▅▆▇█"
MAX_NAMES = 30  # of agents in one sentence of the body
MAX_ROWS = 150  # of the body's table; those to decide on come first
STATES = {
    "candidate": "candidate",
    "revival": "earns its keep again",
    "probation": "on probation: mean below the floor, not yet certain",
    "active": "active",
    "exempt": "exempt by the manifest",
    "too_few_runs": "too few runs to judge",
    "no_telemetry": "in the manifest, but never ran",
    "retired": "retired",
    "not_in_manifest": "in the telemetry, but not in the manifest",
}


@dataclass(frozen=True, slots=True)
class Measured:
    """What an agent's counted runs come to, beside their number and mean reward."""

    upper_bound: float | None  # None: the mean is not below the floor, so nothing depends on it
    scoring_version: str | None
    other_version_runs: int
    own_failures: int
    total_cost_usd: float | None
    unpriced_runs: int
    useful_runs: int
    cost_per_useful_signal_usd: float | None


@dataclass(frozen=True, slots=True)
class Metrics:
    """An agent's last runs of its latest scoring version."""

    n: int
    rolling_avg_reward: float
    rewards: tuple[float, ...]
    measured: Measured = field(metadata=INLINE)


@dataclass(frozen=True, slots=True)
class Unique:
    """Distinct signals by day, and how many of them no other agent gave the same day."""

    signals: int = 0
    unique_signals: int = 0
    unique_share: float | None = None


@dataclass(frozen=True, slots=True)
class Hits:
    """How often alerts came true, against the base rate of the subjects they speak of."""

    alerts: int
    hit_rate: float
    hit_rate_interval: tuple[float, float] | None
    base_rate: float
    lift: float | None
    lift_interval: tuple[float, float] | None


@dataclass(frozen=True, slots=True)
class Listed:
    """What is said of an agent of the manifest only."""

    execution_sensitive: bool
    hits: Hits | None


@dataclass(frozen=True, slots=True)
class Agent:
    """One row of the report."""

    agent: str
    module: str | None
    state: str
    n: int
    rolling_avg_reward: float | None
    trend: tuple[float, ...]  # rewards as a short curve, oldest first
    measured: Measured | None = field(default=None, metadata=INLINE)  # None: it never ran
    listed: Listed | None = field(default=None, metadata=INLINE)  # None: the manifest does not know it
    unique: Unique | None = field(default=None, metadata=INLINE)
    # What the domain measures of it, by name.
    columns: Mapping[str, Any] | None = field(default=None, metadata=INLINE)


@dataclass(frozen=True, slots=True)
class Rule:
    """Who is a candidate."""

    min_n: int
    reward_floor: float
    window: int
    sources: tuple[str, ...]
    useful_signal: float


@dataclass(frozen=True, slots=True)
class Report:
    """What `meta/reports/retirement_report.json` holds."""

    generated_at: str
    rule: Rule
    candidates: tuple[Agent, ...]
    agents: tuple[Agent, ...]
    disabled: tuple[str, ...]
    offline: bool


def sentence(report: Report) -> str:
    """The finding in one line."""
    names = [row.agent for row in report.candidates]
    if not names:
        return f"No retirement candidate among {len(report.agents)} agents."
    return f"{len(names)} retirement candidate{'s' * (len(names) > 1)}: {', '.join(names)}."


def markdown(report: Report, columns: Sequence[Column] = ()) -> str:
    """The pull request's body; `columns` are those that the domain adds to the table."""
    parts = [Section(_candidate(row, report.rule), 40, code(row.agent)) for row in report.candidates]
    return fitting([_headline(report), *parts, _table(report, columns), _method(report.rule)], str(FORM.path))


def form(columns: Sequence[Column]) -> Form[Report]:
    """The report with the columns of a domain in its table."""
    return Form(
        REPORTS / "retirement_report.json",
        Path(__file__).parents[1] / "retirement_report.schema.json",
        Report,
        partial(markdown, columns=columns),
    )


FORM = form(())


def _headline(report: Report) -> str:
    disabled = _named(report.disabled)
    revived = _named(row.agent for row in report.agents if row.state == "revival")
    if not report.candidates:
        told = [f"**{sentence(report)}** Nothing to decide."]
    elif disabled:
        told = [
            f"**Retire {disabled}?** Below the reward floor with 95 % confidence.",
            f"**If you merge:** {disabled} stops running (`enabled: false` in `agents/manifest.yaml`).",
            "**To undo:** revert this commit; nothing else changes.",
        ]
    else:
        names = _named(row.agent for row in report.candidates)
        told = [
            f"**Retirement candidates: {names}.** Below the reward floor with 95 % confidence.",
            "**If you merge:** only this report changes. To retire: run the workflow with `mode: disable`.",
        ]
    return first_screen(
        *told,
        revived and f"**Worth reviving:** {revived}: its shadow runs are clearly above the floor.",
        "Measured on the **offline model** (`provider: offline`): it shows the mechanism, not the world."
        if report.offline
        else "",
    )


def _candidate(row: Agent, rule: Rule) -> str:
    measured, listed, unique = row.measured, row.listed, row.unique
    lines = [f"### {code(row.agent)}", ""]
    if measured is not None:
        lines.append(
            f"`{spark(row.trend)}` reward over its last {row.n} runs: mean **{_signed(row.rolling_avg_reward)}**, "
            f"upper 95 % bound **{_signed(measured.upper_bound)}**, floor {rule.reward_floor:+.3f}."
        )
    if unique is not None and unique.unique_share is not None:
        lines.append(
            f"- {unique.unique_signals} of its {unique.signals} signals were given by no other agent the same day "
            f"(**{_pct(unique.unique_share)}** unique)."
        )
    if listed is not None and (hit := listed.hits):
        low, high = hit.hit_rate_interval or (None, None)
        lift = f", lift {hit.lift:.1f}x" if hit.lift is not None else ""
        lines.append(
            f"- {_pct(hit.hit_rate)} of its {hit.alerts} alerts came true ({_pct(low)} .. {_pct(high)}), "
            f"base rate {_pct(hit.base_rate)}{lift}."
        )
    if measured is not None:
        useful = f"{measured.useful_runs} of {row.n}"
        lines.append(f"- Useful runs: {useful}; cost per useful signal: {_cost(row)}.")
    if listed is not None and listed.execution_sensitive:
        lines.append("- `execution_sensitive`: never switched off automatically.")
    return "\n".join(lines)


def _table(report: Report, columns: Sequence[Column]) -> Section:
    titles = ["agent", "state", "runs", "mean reward", "upper bound", "unique signals", "hit rate (base)"]
    titles += [*(column.title for column in columns), "cost per useful signal"]
    rows = [_cells(row, columns) for row in report.agents[:MAX_ROWS]]
    more = len(report.agents) - len(rows)
    told = f"\n\n_And {more} more agents, all in `{FORM.path}`._" if more else ""
    return Section(table(titles, rows, right=len(titles) - 2) + told, 60, "the table of all agents")


def _cells(row: Agent, columns: Sequence[Column]) -> list[str]:
    hit = row.listed.hits if row.listed else None
    found = row.columns or {}
    return [
        cell(row.agent, 60),
        STATES[row.state],
        str(row.n),
        _signed(row.rolling_avg_reward),
        _signed(row.measured.upper_bound if row.measured else None),
        _pct(row.unique.unique_share if row.unique else None),
        f"{_pct(hit.hit_rate)} ({_pct(hit.base_rate)})" if hit else "–",
        *(column.shown(found[column.name]) if found.get(column.name) else "–" for column in columns),
        _cost(row),
    ]


def _method(rule: Rule) -> str:
    return details(
        "How this was decided, and how to reproduce it",
        f"An agent is a candidate when it has at least {rule.min_n} counted runs and the upper 95 % bound of its "
        f"mean reward over the last {rule.window} runs lies below {rule.reward_floor:g}. Counted sources: "
        f"{', '.join(rule.sources)}. Failures of the endpoint or of a data source are left out; a run the agent "
        "broke itself counts as reward 0. The bound holds for any distribution of rewards (by betting), so an agent "
        "exactly at the floor is flagged in at most 5 % of windows.\n\n"
        f"`python -m meta.retirement --min-n {rule.min_n} --reward-floor {rule.reward_floor:g} "
        f"--window {rule.window}`",
    )


def spark(values: Sequence[float]) -> str:
    """A line chart one character high, zero-based so that two of them can be compared."""
    top = max([*values, 0.1])
    return "".join(BLOCKS[max(0, min(7, int(value / top * 7.999)))] for value in values)


def _named(agents: Iterable[str]) -> str:
    return some([code(name) for name in agents], MAX_NAMES)


def _pct(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.0f} %"


def _signed(value: float | None) -> str:
    return "–" if value is None else f"{value:+.3f}"


def _cost(row: Agent) -> str:
    if row.measured is None:
        return "–"
    if (cost := row.measured.cost_per_useful_signal_usd) is not None:
        return f"${cost:.4f}"
    return "unknown" if row.measured.unpriced_runs else "–"
