"""The retirement report as a reviewer meets it: who should go, why, and what merging changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agents.domain import Column
from telemetry.edge.markdown import cell

BLOCKS = "▁▂▃▄▅▆▇█"
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


def sentence(report: Mapping[str, Any]) -> str:
    """The finding in one line."""
    names = [row["agent"] for row in report["candidates"]]
    if not names:
        return f"No retirement candidate among {len(report['agents'])} agents."
    return f"{len(names)} retirement candidate{'s' * (len(names) > 1)}: {', '.join(names)}."


def markdown(report: Mapping[str, Any], columns: Sequence[Column] = ()) -> str:
    """The pull request's body; `columns` are those that the domain adds to the table."""
    rule = report["rule"]
    parts = [_headline(report)]
    if report["candidates"]:
        parts.append("\n\n".join(_candidate(row, rule) for row in report["candidates"]))
    parts.append(_table(report["agents"], columns))
    parts.append(
        "<details><summary>How this was decided, and how to reproduce it</summary>\n\n"
        f"An agent is a candidate when it has at least {rule['min_n']} counted runs and the upper 95 % bound of its "
        f"mean reward over the last {rule['window']} runs lies below {rule['reward_floor']:g}. Counted sources: "
        f"{', '.join(rule['sources'])}. Failures of the endpoint or of a data source are left out; a run the agent "
        "broke itself counts as reward 0. The bound holds for any distribution of rewards (by betting), so an agent "
        "exactly at the floor is flagged in at most 5 % of windows.\n\n"
        f"`python -m meta.retirement --min-n {rule['min_n']} --reward-floor {rule['reward_floor']:g} "
        f"--window {rule['window']}`\n\n</details>"
    )
    return "\n\n".join(parts) + "\n"


def _headline(report: Mapping[str, Any]) -> str:
    names = ", ".join(f"`{row['agent']}`" for row in report["candidates"])
    disabled = ", ".join(f"`{name}`" for name in report["disabled"])
    lines = []
    if not report["candidates"]:
        lines.append(f"**{sentence(report)}** Nothing to decide.")
    elif disabled:
        lines.append(f"**Retire {disabled}?** Below the reward floor with 95 % confidence.")
        lines.append(
            f"**If you merge:** {disabled} stops running (`enabled: false` in `agents/manifest.yaml`)."
        )
        lines.append("**To undo:** revert this commit; nothing else changes.")
    else:
        lines.append(f"**Retirement candidates: {names}.** Below the reward floor with 95 % confidence.")
        lines.append(
            "**If you merge:** only this report changes. To retire: run the workflow with `mode: disable`."
        )
    revived = ", ".join(f"`{row['agent']}`" for row in report["agents"] if row["state"] == "revival")
    if revived:
        lines.append(f"**Worth reviving:** {revived}: its shadow runs are clearly above the floor.")
    if report["offline"]:
        lines.append(
            "Measured on the **offline model** (`provider: offline`): it shows the mechanism, not the world."
        )
    return "\n".join(f"> {line}" for line in lines)


def _candidate(row: Mapping[str, Any], rule: Mapping[str, Any]) -> str:
    lines = [
        f"### `{row['agent']}`",
        "",
        f"`{spark(row['trend'])}` reward over its last {row['n']} runs: mean **{row['rolling_avg_reward']:+.3f}**, "
        f"upper 95 % bound **{row['upper_bound']:+.3f}**, floor {rule['reward_floor']:+.3f}.",
    ]
    if row.get("unique_share") is not None:
        lines.append(
            f"- {row['unique_signals']} of its {row['signals']} signals were given by no other agent the same day "
            f"(**{_pct(row['unique_share'])}** unique)."
        )
    if row.get("hits"):
        hit = row["hits"]
        low, high = hit["hit_rate_interval"]
        lift = f", lift {hit['lift']:.1f}x" if hit["lift"] is not None else ""
        lines.append(
            f"- {_pct(hit['hit_rate'])} of its {hit['alerts']} alerts came true ({_pct(low)} .. {_pct(high)}), "
            f"base rate {_pct(hit['base_rate'])}{lift}."
        )
    lines.append(f"- Useful runs: {row['useful_runs']} of {row['n']}; cost per useful signal: {_cost(row)}.")
    if row["execution_sensitive"]:
        lines.append("- `execution_sensitive`: never switched off automatically.")
    return "\n".join(lines)


def _table(rows: Sequence[Mapping[str, Any]], columns: Sequence[Column]) -> str:
    titles = ["agent", "state", "runs", "mean reward", "upper bound", "unique signals", "hit rate (base)"]
    titles += [*(column.title for column in columns), "cost per useful signal"]
    lines = [f"| {' | '.join(titles)} |", f"|---|---|{'---:|' * (len(titles) - 2)}"]
    for row in rows:
        hit = row.get("hits")
        cells = [
            cell(row["agent"], 60),
            STATES[row["state"]],
            str(row["n"]),
            _signed(row["rolling_avg_reward"]),
            _signed(row.get("upper_bound")),
            _pct(row.get("unique_share")),
            f"{_pct(hit['hit_rate'])} ({_pct(hit['base_rate'])})" if hit else "–",
            *(column.shown(row[column.name]) if row.get(column.name) else "–" for column in columns),
            _cost(row),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def spark(values: Sequence[float]) -> str:
    """A line chart one character high, zero-based so that two of them can be compared."""
    top = max([*values, 0.1])
    return "".join(BLOCKS[max(0, min(7, int(value / top * 7.999)))] for value in values)


def _pct(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.0f} %"


def _signed(value: float | None) -> str:
    return "–" if value is None else f"{value:+.3f}"


def _cost(row: Mapping[str, Any]) -> str:
    cost = row.get("cost_per_useful_signal_usd")
    if cost is not None:
        return f"${cost:.4f}"
    return "unknown" if row.get("unpriced_runs") else "–"
