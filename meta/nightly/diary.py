"""What a night tells: a line per step and a table at the end for the person who started it, the rest for the record.

On record are its steps so far, so that none is repeated, and one line of history at the end.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agents.llm_client import ModelOptions
from agents.manifest import Manifest
from agents.run.order import watchers
from agents.run.replay import newcomers
from eval.ledger.provenance import GitState, Seen, add_once, history_row, model_identity, replay_metadata
from eval.trials.progress import TERMINAL_EVERY_S
from meta.nightly.stage import NIGHT
from meta.nightly.steps import DONE, Result, Step
from telemetry.edge import cli
from telemetry.edge.files import SITE, Repo, read_again, write_atomic, write_json
from telemetry.edge.frozen import frozen
from telemetry.edge.git import commit_of
from telemetry.edge.records import is_number, load_json
from telemetry.edge.text import cell, code, table
from telemetry.logger import encode
from telemetry.read.rows import Window
from telemetry.read.store import connect

if TYPE_CHECKING:
    from agents.model.budget import Budget

MARKS = {"done": "✓", "failed": "✗", "stopped": "■", "skipped": "–"}


class Diary:
    """What this night has done so far, on disk: one file per day and configuration.

    It holds as long as what the steps worked on is as the last of them left it: `digest` says that.
    """

    def __init__(
        self, root: Path, about: Mapping[str, Any], digest: Callable[[Path], str] = lambda _: ""
    ) -> None:
        text = json.dumps(about, sort_keys=True, default=str)
        key = hashlib.sha256(text.encode()).hexdigest()[:12]
        self._path = root / NIGHT / f"{time.strftime('%Y-%m-%d', time.gmtime())}-{key}.json"
        self._root, self._digest = root, digest
        self.results: dict[str, Result] = {}
        self.since: float | None = None  # when the night began that the history does not tell yet
        self._line = ""  # what the history is being told
        self.killed = False  # whether this goes on with a night that was
        try:
            kept = load_json(self._path.read_bytes())
            self.since, self._line = kept.get("since"), str(kept.get("line") or "")
            if kept["on"] == digest(root):
                self.results = {row["name"]: _result(row) for row in kept["steps"]}
        except FileNotFoundError:
            return
        except (ValueError, TypeError, KeyError, AttributeError) as problem:
            print(f"{self._path.name}: unreadable ({problem}); every step runs again", file=sys.stderr)

    @property
    def done(self) -> set[str]:
        """The steps that are not run again."""
        return {name for name, result in self.results.items() if result.status == DONE}

    def begin(self, now: float, todo: bool) -> float:
        """When this night began: now, or earlier if it was killed since. Without anything to do, none begins."""
        if self._line:  # killed when it was all but told
            self.tell(self._line)
        self.killed = self.since is not None and is_number(self.since) and 0 <= now - self.since < 86_400
        if not self.killed:
            self.since = now if todo else None
            self._keep()
        return self.since or now

    def add(self, result: Result) -> None:
        """Put a step's result on record."""
        self.results[result.name] = replace(result, again=False)
        self._keep()

    def tell(self, line: str) -> None:
        """Tell the history of this night, once, however often it is killed meanwhile; nothing if nothing was done."""
        if line:
            self._line = line
            self._keep()
            add_once(Repo(self._root), line)
        self.since, self._line = None, ""
        self._keep()

    def _keep(self) -> None:
        done = [asdict(row) for row in self.results.values()]
        kept = {"on": self._digest(self._root), "steps": done, "since": self.since, "line": self._line}
        write_json(self._path, kept)


def _result(row: dict[str, Any]) -> Result:
    result = Result(**row)
    if not all(isinstance(text, str) for text in (result.name, result.told, result.look)):
        raise ValueError("a step that tells no text")
    return result


def runs_since(repo: Repo, manifest: Manifest, started: float) -> str:
    """How many runs of its agents this night has made, of whatever kind."""
    since = datetime.fromtimestamp(started, UTC)
    with connect(repo, Window(kind="run", since=since)) as con:
        found = con.execute("select agent, count(*) from events group by agent").fetchall()
    own = {agent: count for agent, count in found if agent in {spec.name for spec in manifest.agents}}
    runs = sum(own.values())
    return f"{runs} run{'s' * (runs != 1)} of {len(own)} agent{'s' * (len(own) != 1)} tonight"


@frozen
class Newcomers:
    """For whom earlier days are replayed; until that is done a mark names them, so that a killed replay goes on."""

    mark: Path
    names: tuple[str, ...]

    @classmethod
    def of(cls, repo: Repo, manifest: Manifest) -> Newcomers:
        """Those that are new here, and those whose replay was begun and not finished."""
        mark = repo / NIGHT / "replay.unfinished"
        begun = mark.read_text("utf-8", "replace").split() if mark.exists() else []
        new = {*begun, *newcomers(repo, manifest)}
        names = tuple(spec.name for spec in watchers(manifest.enabled()) if spec.name in new)
        if names:
            write_atomic(mark, "".join(f"{name}\n" for name in names))
        return cls(mark, names)

    def ended(self, result: Result) -> None:
        """Take the mark away once the agents have come through."""
        if result.name == "agents" and result.status == DONE:
            self.mark.unlink(missing_ok=True)


def about(root: Path, options: Sequence[str]) -> dict[str, Any]:
    """What makes this night this night: the commit, the endpoint, the options."""
    endpoint: dict[str, Any] = {
        name: os.environ.get(name, "") for name in ("OPENAI_MODEL", "OPENAI_BASE_URL")
    }
    endpoint["key"] = bool(os.environ.get("OPENAI_API_KEY"))
    return {"head": commit_of(root) or "", "endpoint": endpoint, "options": list(options)}


def line_of(
    repo: Repo,
    manifest: Manifest,
    results: Sequence[Result],
    spent: Mapping[str, Any],
    git_state: GitState,
    seed: int,
) -> str:
    """One line of history about the night as a whole, beside those of its evals and its A/B test."""
    graded = (spec.eval_suite for spec in manifest.enabled() if spec.eval_suite)
    asked = model_identity(ModelOptions().model())["model"]
    metadata = replay_metadata(
        git_state,
        suites={path: _sha256(repo, path) for path in graded},
        prompts={path: _sha256(repo, path) for path in manifest.prompts},
        seen=Seen((asked,) if asked else (), (), (spent["provider"],), (), ()),
        seed=seed,
    )
    steps = {result.name: {"status": result.status, "told": result.told} for result in results}
    return encode(history_row("night", {"steps": steps, "spend": dict(spent)}, metadata)).decode()


def _sha256(repo: Repo, path: str) -> str:
    """Of the file as it is: one that cannot be loaded may be what failed tonight, and that has to be told."""
    return hashlib.sha256(read_again(repo / path)).hexdigest()


class Display:
    """Progress on stderr, the table on stdout."""

    def __init__(self, quiet: bool, total: int) -> None:
        self._quiet, self._total = quiet, total
        self._out = sys.stderr  # while a step runs, what it says goes elsewhere
        self._live = self._out.isatty()
        self._number = 0
        self._doing, self._counts = "", False  # of the step: its line, and whether it tells how far it is
        self._answers = self._answers_before = 0
        self._shown = 0.0

    def say(self, line: str) -> None:
        """A line of its own, if there is one."""
        if line:
            self._write(line)

    def start(self, step: Step) -> None:
        """A step begins."""
        self._doing, self._counts = f"{step.name}: {step.doing} ...", False
        self._answers_before = self._answers
        line = f"[{self._number + 1}/{self._total}] {self._doing}"
        self._write(line, end="" if self._live else "\n")

    def hear(self, line: str) -> None:
        """How far a step is; a terminal shows it in the step's own line."""
        self._counts = True
        self._show(line)

    def answered(self, budget: Budget) -> None:
        """One more answer of a paid model: shown where the step does not tell how far it is."""
        self._answers, now = budget.settled, time.monotonic()
        if not self._counts and now - self._shown >= TERMINAL_EVERY_S:
            self._shown = now
            count = self._answers - self._answers_before
            self._show(f"{self._doing} {count} answer{'s' * (count != 1)}, ${budget.spent_usd:.4f} tonight")

    def _show(self, line: str) -> None:
        if self._live:
            columns = shutil.get_terminal_size((80, 24)).columns
            self._write(f"\r\x1b[2K{f'[{self._number + 1}/{self._total}] {line}'[: columns - 1]}", end="")

    def end(self, result: Result) -> None:
        """A step has ended."""
        self._number += 1
        took = "already done today" if result.again else f"{result.seconds:.1f} s"
        clear = "\r\x1b[2K" if self._live else ""
        told = f"{MARKS[result.status]} {result.name}: {result.told} ({took})"
        said = cli.wrapped(f"[{self._number}/{self._total}] {told}", " " * 8, self._out)
        self._write(f"{clear}{said}")

    def finish(
        self, results: Sequence[Result], spent: Mapping[str, Any], *, applied: bool, note: str = ""
    ) -> None:
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
        console.print("", shown, "", money(spent), *cli.notes(), *filter(None, [note]), sep="\n")
        if applied:
            console.print("The changes are in the tree, uncommitted: git status, git diff.")
        elif any(result.look.startswith("git show ") for result in results):
            how = "read it with the command above, merge it if you agree."
            console.print(f"Each branch is one proposed change: {how}")
        console.print(f"All of it as pages: {SITE}/index.html (make site opens them)")

    def _write(self, text: str, end: str = "\n") -> None:
        if not self._quiet:
            print(text, end=end, file=self._out, flush=True)


def spent_since(repo: Repo, started: float) -> dict[str, Any]:
    """Calls, cost and provider of all model calls since then, from their rows."""
    since = datetime.fromtimestamp(started, UTC)
    con = connect(repo, Window(kind="llm_call", since=since), fields=["attempts"])
    row = con.execute(
        "select sum(coalesce(try_cast(attempts as bigint), 1)), sum(cost_usd),"  # a repair is a call, too
        " count(*) filter (where cost_usd is null), max(provider) from events"
    ).fetchone()
    calls, usd, unpriced, provider = row or (0, None, 0, None)
    return {"calls": int(calls or 0), "usd": usd, "unpriced_calls": unpriced, "provider": provider}


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
