"""How a night looks to the person who started it: one line per step while it runs, a short table at the end."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from telemetry.edge.files import Repo
from telemetry.edge.text import cell, code, table
from telemetry.read.rows import Window
from telemetry.read.store import connect

if TYPE_CHECKING:
    from meta.nightly.steps import Result, Step

MARKS = {"done": "✓", "failed": "✗", "stopped": "■", "skipped": "–"}


class Display:
    """Progress on stderr, the table on stdout."""

    def __init__(self, quiet: bool, total: int) -> None:
        self._quiet, self._total = quiet, total
        self._live = sys.stderr.isatty()
        self._number = 0

    def start(self, step: Step) -> None:
        """A step begins."""
        line = f"[{self._number + 1}/{self._total}] {step.name}: {step.doing} ..."
        self._write(line, end="" if self._live else "\n")

    def end(self, result: Result) -> None:
        """A step has ended."""
        self._number += 1
        took = "already done today" if result.again else f"{result.seconds:.1f} s"
        clear = "\r\x1b[2K" if self._live else ""
        said = f"{MARKS[result.status]} {result.name}: {result.told} ({took})"
        self._write(f"{clear}[{self._number}/{self._total}] {said}")

    def finish(self, results: Sequence[Result], spent: Mapping[str, Any], *, applied: bool) -> None:
        """What happened, and where to look."""
        if self._quiet:
            return
        from rich.console import Console
        from rich.table import Column, Table

        shown = Table(
            "", Column("step", no_wrap=True), Column("what happened", ratio=1), box=None, pad_edge=False
        )
        shown.add_column("where to look", no_wrap=True)
        for result in results:
            shown.add_row(MARKS[result.status], result.name, result.told, result.look)
        console = Console(highlight=False)
        console.print("", shown, "", money(spent), sep="\n")
        if applied:
            console.print("The changes are in the tree, uncommitted: git status, git diff.")
        elif any(result.look.startswith("git show ") for result in results):
            how = "read it with the command above, merge it if you agree."
            console.print(f"Each branch is one proposed change: {how}")

    def _write(self, text: str, end: str = "\n") -> None:
        if not self._quiet:
            print(text, end=end, file=sys.stderr, flush=True)


def spent_since(repo: Repo, started: float) -> dict[str, Any]:
    """Calls, cost and provider of all model calls since then, from their rows."""
    since = datetime.fromtimestamp(started, UTC)
    con = connect(repo, Window(kind="llm_call", since=since))
    row = con.execute(
        "select count(*), sum(cost_usd), count(*) filter (where cost_usd is null), max(provider) from events"
    ).fetchone()
    calls, usd, unpriced, provider = row or (0, None, 0, None)
    return {"calls": calls, "usd": usd, "unpriced_calls": unpriced, "provider": provider}


def money(spent: Mapping[str, Any]) -> str:
    """The spend in one line."""
    if not spent["calls"]:
        return "No model was called: everything was done already."
    unpriced = f", {spent['unpriced_calls']} calls of unknown price" if spent["unpriced_calls"] else ""
    offline = " (offline model: no key was set, no money was spent)" if spent["provider"] == "offline" else ""
    return f"{spent['calls']} model calls, ${spent['usd'] or 0:.4f}{unpriced}{offline}."


def markdown(results: Sequence[Result], spent: Mapping[str, Any]) -> str:
    """The same for the job summary."""
    rows = [(MARKS[one.status], one.name, cell(one.told, 300), code(one.look or "-")) for one in results]
    shown = table(("", "step", "what happened", "where to look"), rows)
    return f"### One night\n\n{shown}\n\n{money(spent)}"
