"""Runs in the field, and what is known about the right answer to each: a person's word, what came true, other answers.

What an agent speaks of are the subjects of its signals; the field of its output that holds them is found by looking at
what it said. So nothing here knows a trade.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

from agents.manifest import AgentSpec
from eval.field.record import Reason
from eval.ledger.remarks import Remark
from telemetry.edge.files import Repo
from telemetry.edge.frozen import frozen
from telemetry.edge.records import listed, load_json
from telemetry.logger import FIELD
from telemetry.read.field import subjects
from telemetry.read.rows import Window

_SQL: Final = """
select run_id, agent, coalesce(as_of, strftime(ts, '%Y-%m-%d')) as day, model, prompt_hash, signals, input_hash,
    input_sha256, output_sha256
from events where kind = 'run' and error_kind is null and input_sha256 is not null order by ts, event_id
"""


@frozen
class Run:
    """One run that came through."""

    run_id: str
    agent: str
    day: str
    model: str | None
    prompt_hash: str | None
    signals: str | None
    input_hash: str
    input_sha256: str
    output_sha256: str | None

    @property
    def named(self) -> frozenset[str]:
        """What its answer speaks of."""
        return frozenset(subjects({"signals": self.signals}))


@frozen
class Candidate:
    """A run that may become a case; `right` is what a right answer names."""

    run: Run
    reason: Reason
    why: str
    right: tuple[str, ...]
    wrong: tuple[str, ...]  # what it does not name; of anything else nobody knows
    came_true: tuple[str, ...] = ()
    note: str = ""

    @property
    def by_answer(self) -> bool:
        """Whether it was picked because of what the live text said: then it speaks against that text, always."""
        return self.reason != "outcome"


def load_runs(repo: Repo, since: datetime) -> list[Run]:
    """Every run in the field since then, oldest first."""
    from telemetry.read.store import connect

    window = Window(since=since, kind="run", among=FIELD)
    with connect(repo, window, fields=["input_sha256", "output_sha256"]) as con:
        return [Run(*row) for row in con.execute(_SQL).fetchall()]


def subject_field(spec: AgentSpec, runs: Iterable[Run], text: Callable[[str], str | None]) -> str:
    """The field of the output's items that holds what they are about; empty if no answer has shown it yet."""
    if spec.signal and spec.signal.subject:
        return spec.signal.subject
    for run in reversed([run for run in runs if run.named]):
        try:
            items = load_json((text(run.output_sha256) if run.output_sha256 else None) or "[]")
        except ValueError:
            continue
        rows = listed(items)
        names = {str(name) for row in rows for name in row}
        found = [
            name for name in sorted(names) if run.named == {str(row[name]) for row in rows if name in row}
        ]
        if found:
            return found[0]
    return ""


def known_right(runs: Sequence[Run], happened: Mapping[tuple[str, str], bool]) -> list[Candidate]:
    """Runs of one agent on days of which everything that they claim is known.

    What the agent never speaks of is nobody's expectation; what a run claims and nobody knows yet leaves it open.
    """
    spoken = frozenset[str]().union(*(run.named for run in runs))
    found = []
    for run in runs:
        known = {one: happened[run.day, one] for one in sorted(spoken) if (run.day, one) in happened}
        if known and run.named <= known.keys():
            right, wrong = (tuple(one for one, came in known.items() if came is it) for it in (True, False))
            told = tuple(f"{one}: {'happened' if came else 'did not happen'}" for one, came in known.items())
            found.append(Candidate(run, "outcome", "what came true is known", right, wrong, told))
    return found


def corrected(runs: Iterable[Run], remarks: Mapping[str, Sequence[Remark]]) -> list[Candidate]:
    """Runs that a person corrected: the last word counts, all words are kept."""
    found = []
    for run in runs:
        own = remarks.get(run.run_id, ())
        said = [one for one in own if one.values is not None]
        if said:
            why = f"corrected by {said[-1].by or 'somebody'} on {said[-1].ts[:10]}"
            words = " / ".join(one.told for one in own if one.said)
            right = said[-1].values or []
            wrong = tuple(sorted(run.named.difference(right)))
            found.append(Candidate(run, "corrected", why, tuple(right), wrong, note=words))
    return found


def disagreeing(runs: Sequence[Run], right: Mapping[str, Candidate]) -> list[Candidate]:
    """Runs on one input that named different things: other rounds, other models, or agents who speak of the same.

    The label is what came true where that is known (`right`, by run), else what most of them named.
    """
    by_input: dict[str, list[Run]] = {}
    spoken: dict[str, set[str]] = {}
    for run in runs:
        by_input.setdefault(run.input_hash, []).append(run)
        spoken.setdefault(run.agent, set()).update(run.named)
    found = []
    for together in by_input.values():
        latest = {run.agent: run for run in together}
        for agent, run in latest.items():
            own = [other for other in together if other.agent == agent]
            why = _how([run for run in own if run.prompt_hash == own[-1].prompt_hash])
            others = {} if why else _contradicting(run, latest, spoken)
            if not why and not others:
                continue
            told = [
                f"{name} named {_listed(named)} on the same input" for name, named in sorted(others.items())
            ]
            known = right.get(run.run_id) or _majority(own, others.values(), spoken[agent])
            found.append(replace(known, run=run, reason="disagreement", why=why or "; ".join(told)))
    return found


def _majority(own: Sequence[Run], others: Iterable[frozenset[str]], spoken: set[str]) -> Candidate:
    """What most runs of an agent named; what else was named is wrong, as far as the agent speaks of it."""
    most = Counter(run.named for run in own).most_common(1)[0][0]
    named = most.union(*(run.named for run in own), *others) & spoken
    return Candidate(own[-1], "disagreement", "", tuple(sorted(most)), tuple(sorted(named - most)))


def _how(own: Sequence[Run]) -> str:
    """What differed between runs of one agent under one prompt, if anything did."""
    if len({run.named for run in own}) < 2:
        return ""
    answers = Counter(_listed(run.named) for run in own)
    counted = ", ".join(f"{count} x {named}" for named, count in answers.most_common())
    return f"{'models' if len({run.model for run in own}) > 1 else 'rounds'} differ: {counted}"


def _contradicting(
    run: Run, latest: Mapping[str, Run], spoken: Mapping[str, set[str]]
) -> dict[str, frozenset[str]]:
    """Other agents who named another part of what both of them speak of."""
    found = {}
    for name, other in latest.items():
        common = spoken[run.agent] & spoken[name]
        if name != run.agent and run.named & common != other.named & common:
            found[name] = other.named
    return found


def _listed(named: Iterable[str]) -> str:
    return ", ".join(sorted(named)) or "nothing"
