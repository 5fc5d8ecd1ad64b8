"""Kill anything in mid-run, start it again: same verdicts and totals, no row lost or twice, no lock that needs a hand.

A subject is a script in a small checkout. It is run once undisturbed; then, in copies of that checkout, it is killed
(SIGKILL) just before a step outwards that is drawn, several times in a row, and run to its end. What it leaves must be
what the undisturbed run left: `found` says what of it counts. Another script that must bear this is one more subject.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from telemetry.edge.files import Repo
from telemetry.read import parquet, store
from telemetry.read.rows import parse
from tests.torture import Clock, Figure, lived, shipped
from tests.worlds import children, data_branch, night_checkout, world
from tests.worlds.eventlog import events, line

KILLS = 30  # of each subject
IN_A_ROW = 3  # kills of one checkout, before it may come to its end
TRIES = 3  # until a script that was killed has to be done
NOISE = ("--offline-noise", "0.1", "--seed", "3")  # so that rounds differ, and all of them have to be played


@dataclass(frozen=True, slots=True)
class Subject:
    """A script that may be killed: how its world is made, how it is called, and what must come out."""

    make: Callable[[Path], Path]
    script: str
    words: tuple[str, ...]
    found: Callable[[Path], Any]
    fresh: Callable[[], None] = lambda: None  # makes what lies outside of the checkout as it was
    inside: Callable[[], None] = lambda: None  # done in the process that is killed, before it begins


def logged(root: Path) -> list[dict[str, Any]]:
    """The rows of the live log; a torn line is none."""
    rows = []
    log = root / "telemetry/events.jsonl"
    for text in log.read_bytes().splitlines() if log.exists() else ():
        try:
            rows.append(json.loads(text))
        except ValueError:
            continue
    return rows


def graded(root: Path, source: str) -> dict[str, int]:
    """How often every grade stands in the log: each once, or it was written twice."""
    fields = ("agent", "arm", "case_id", "trial_no", "pair", "round", "place", "ok", "score")
    rows = (row for row in logged(root) if row["kind"] == "evaluation" and row["source"] == source)
    return dict(Counter(json.dumps([row.get(name) for name in fields]) for row in rows))


def replayed(root: Path) -> dict[str, int]:
    """How often every day of every agent was replayed."""
    rows = (row for row in logged(root) if row["kind"] == "run" and row["source"] == "replay")
    return dict(Counter(f"{row['agent']} {row['as_of']} {row['reward'] is None}" for row in rows))


def told(root: Path) -> dict[str, int]:
    """The lines of history by kind."""
    file = root / "eval/history.jsonl"
    lines = file.read_text().splitlines() if file.exists() else []
    return dict(Counter(json.loads(text)["run_type"] for text in lines))


def _night_world(home: Path) -> Path:
    root = night_checkout.make(home / "ratchet", 60)
    world.git(home, "init", "-q", "--bare", "remote.git")
    world.git(root, "remote", "add", "origin", lived.REMOTE)
    return root


def _of_harness(root: Path) -> Any:
    results = {}
    for agent in ("watcher", "idler"):
        rows = json.loads((root / f"eval/results/{agent}.json").read_bytes())["results"]
        results[agent] = sorted((row["id"], row["trial"], row["score"]) for row in rows)
    return (
        results,
        graded(root, "eval"),
        told(root),
        sorted(one.name for one in (root / ".ratchet").glob("eval*")),
    )


def _of_ab(root: Path) -> Any:
    report = json.loads((root / "meta/reports/ab_test_report.json").read_bytes())
    arms = [(test["prompt"], arm["variant"], arm["verdict"], arm["cases_used"], arm["e_value"])
            for test in report["tests"] for arm in test["arms"]]  # fmt: skip
    decided = sorted(file.name for file in (root / "meta/decisions").glob("*"))
    live = (root / night_checkout.PROMPT).read_text()
    return report["promoted"], arms, decided, live, graded(root, "ab_test"), told(root)


def _of_night(root: Path) -> Any:
    branches = world.git(root, "branch", "--list", "--format=%(refname:short)", "meta/*").split()
    texts = {
        name: world.git(root, "diff", "main", name, "--", "agents", ":!*lineage.json") for name in branches
    }
    lines = told(root)
    # A search for proposals that was killed has spent what it spent: that one and the next are both on record.
    assert lines.pop("proposals", 0) >= 1
    return texts, replayed(root), graded(root, "eval"), graded(root, "ab_test"), lines


def _of_replay(root: Path) -> Any:
    return replayed(root)


def _of_log(root: Path) -> Any:
    """Every row of log and sealed days, as it is read, and how many lines are broken."""
    now = store.snapshot(Repo(root))
    live = [row for row in map(parse, now.log or ()) if row]
    rows = {
        row["event_id"]: {name: value for name, value in row.items() if value is not None}
        for row in (*live, *parquet.events(now.sealed))
    }
    with store.connect(Repo(root)) as con:
        counted = con.execute("select count(*), count(*) filter (where malformed) from lines").fetchone()
    told = hashlib.sha256(json.dumps(rows, sort_keys=True).encode()).hexdigest()
    return told, len(rows), counted, (root / store.STAGING).exists()


def _of_rollup(root: Path) -> Any:
    summary = json.loads((root / "telemetry/summary.json").read_bytes())
    return {name: value for name, value in summary.items() if name != "generated_at"}


def _one_thread() -> None:
    """DuckDB's threads add up in any order, and the last digit of a sum tells."""
    os.cpu_count = lambda: 1


def _log_world(home: Path) -> Path:
    root = home / "ratchet"
    lines = [line(**row) for row in events(4000, days=6)]
    lines[100:100] = [b"{broken", b"\xff\xfe"]
    world.put(root, "telemetry/events.jsonl", b"\n".join(lines) + b"\n")
    return root


def _sealed_world(home: Path) -> Path:
    root = _log_world(home)
    assert children.run(lambda: lived.call(root, "telemetry.retention", ("seal",))).code == 0
    return root


def _sync_world(home: Path) -> Path:
    """Somebody has pushed three days, and this machine has rows of its own."""
    data_branch.remote(home)
    other, root = data_branch.clone(home, "other"), data_branch.clone(home, "ratchet")
    world.git(root, "remote", "set-url", "origin", lived.REMOTE)
    for day in ("2026-11-01", "2026-11-02", "2026-11-03"):
        data_branch.measure(other, *(f"{day}-{n}" for n in range(20)), ts=f"{day}T00:00:00.000Z")
        assert children.run(lambda: lived.call(other, "telemetry.sync", ("push",))).code == 0
    data_branch.measure(root, "own-1", "own-2")
    return root


def _of_pull(root: Path) -> Any:
    return data_branch.agents(root), data_branch.told(root)


def _of_push(root: Path) -> Any:
    """What somebody who starts afresh finds on the branch, segment by segment."""
    late = data_branch.clone(root.parent, "late")
    assert children.run(lambda: lived.call(late, "telemetry.sync", ("pull",))).code == 0
    return data_branch.agents(late), data_branch.told(late), data_branch.agents(root)


SUBJECTS: dict[str, Subject] = {
    "A/B": Subject(_night_world, "eval.ab_testing", NOISE, _of_ab),
    "harness": Subject(_night_world, "eval.harness", ("--resume", *NOISE), _of_harness),
    "orchestrator": Subject(_night_world, "agents.orchestrator", ("--replay", "40"), _of_replay),
    "seal": Subject(_log_world, "telemetry.retention", ("seal",), _of_log),
    "rollup": Subject(_log_world, "telemetry.rollup", (), _of_rollup, inside=_one_thread),
    "sync pull": Subject(_sync_world, "telemetry.sync", ("pull",), _of_pull),
    "sync push": Subject(_sync_world, "telemetry.sync", ("push",), _of_push),
    "ship": Subject(
        _sealed_world, "telemetry.ship", (), shipped.found, fresh=shipped.emptied, inside=shipped.named
    ),
    # The slowest comes last: it gets what time the others left.
    "night": Subject(_night_world, "meta.night", (), _of_night),
}


def killed(name: str, clock: Clock, wanted: int, seed: int = 1) -> tuple[int, list[str]]:
    """Kill one subject that often; how many kills there were, and what was wrong after which."""
    subject, draw, kills, faults = SUBJECTS[name], random.Random(f"{name} {seed}"), 0, list[str]()
    with tempfile.TemporaryDirectory(prefix="ratchet-kills-") as folder:
        home = Path(folder)
        (home / "made").mkdir()
        template = subject.make(home / "made")

        def work(root: Path) -> Callable[[], int]:
            def script() -> int:
                subject.inside()
                return lived.call(root, subject.script, subject.words)

            return script

        subject.fresh()
        with lived.copy(template, home / "whole") as root:
            steps = children.steps(work(root))
            expected = subject.found(root)
        while kills < wanted and not clock.over:
            subject.fresh()
            with lived.copy(template, home / "life") as root:
                at: list[int] = []
                ended = children.Ended(None, "")
                while ended.killed and len(at) < IN_A_ROW and kills < wanted:
                    # The end is where files change hands: a third of the kills.
                    step = draw.randint(max(1, steps - 30) if draw.random() < 0.34 else 1, steps)
                    ended = children.run(work(root), at_step=step)
                    kills += ended.killed
                    at += [step] if ended.killed else []
                said = _to_its_end(work(root)) if ended.code != 0 else ""
                if said or (left := subject.found(root)) != expected:
                    faults.append(
                        f"{name}: killed at steps {at} of {steps}: {said or _differs(expected, left)}"
                    )
    return kills, faults


def _to_its_end(work: Callable[[], int]) -> str:
    """Run it until it is done; what it said if it never was."""
    for _ in range(TRIES):
        ended = children.run(work)
        if ended.code == 0:
            return ""
    return f"exit {ended.code}: {ended.said.strip()[-300:]}"


def _differs(expected: Any, left: Any) -> str:
    """The first difference, short enough to be read."""
    if isinstance(expected, tuple | list) and isinstance(left, tuple | list) and len(expected) == len(left):
        return next(
            f"[{n}] {_differs(a, b)}" for n, (a, b) in enumerate(zip(expected, left, strict=True)) if a != b
        )
    if isinstance(expected, dict) and isinstance(left, dict):
        other = [name for name in {**expected, **left} if expected.get(name) != left.get(name)]
        return "; ".join(
            f"{name}: {expected.get(name)!r:.150} -> {left.get(name)!r:.150}" for name in other[:2]
        )
    return f"{expected!r:.200} -> {left!r:.200}"


def run(clock: Clock, wanted: int = KILLS) -> Iterator[Figure]:
    """Every subject in turn, each with its share of the time."""
    lived.loaded()
    for at, name in enumerate(SUBJECTS):
        kills, faults = killed(name, clock.share(len(SUBJECTS) - at), wanted)
        yield Figure(f"kills in mid-run: {name}", kills - len(faults), kills, wanted, tuple(faults))
