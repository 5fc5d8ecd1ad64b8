"""What earlier nights have measured: pairs of scores that a comparison goes on from, and the champion's archived evals.

A pair of scores is one `evaluation` row under an id made of what it is (comparison, case, round), so that a row written
twice, by a repeated push or a run that was killed, counts once.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from eval.ab.record import short
from eval.ab.rounds import Archive, Case, Match, Rules
from telemetry import logger
from telemetry.edge.files import EVENTS, SEALED, Repo
from telemetry.edge.frozen import frozen
from telemetry.read.rows import Window, quoted

FIELDS = ("pair", "round", "place", "case_id", "champion_score", "challenger_score", "night", "score")
LEAST_ARCHIVED = 5  # evals of a case; fewer say less than the rounds themselves


@frozen
class Turn:
    """One pair of scores of a comparison."""

    pair: str
    round: int
    place: int  # within its comparison, in the order in which they were weighed
    agent: str
    case_id: str
    champion: float
    challenger: float
    night: str

    @property
    def case(self) -> Case:
        return (self.agent, self.case_id)

    @property
    def identity(self) -> tuple[str, str, str, int]:
        """What makes it this turn: it is on record once."""
        return (self.pair, *self.case, self.round)


def log_turn(turn: Turn) -> None:
    """Put a pair of scores on record."""
    with logger.source("ab_test"):
        logger.log_event(
            turn.agent,
            turn.pair,
            None,
            kind="evaluation",
            event_id="pair-" + hashlib.sha256("/".join(map(str, turn.identity)).encode()).hexdigest()[:24],
            case_id=turn.case_id,
            pair=turn.pair,
            round=turn.round,
            place=turn.place,
            champion_score=turn.champion,
            challenger_score=turn.challenger,
            night=turn.night,
        )


@frozen
class Evidence:
    """Turns by comparison, in their order, and the champion's mean score by agent and case."""

    turns: Mapping[str, Sequence[Turn]] = field(default_factory=dict)
    means: Mapping[Case, float] = field(default_factory=dict)
    logged: frozenset[tuple[str, str, str, int]] = frozenset()  # turns of tonight that are on record already

    def archive(self) -> Archive | None:
        """What is known of the champion, if anything is."""
        return self.means.get if self.means else None


def gathered(
    repo: Repo, pairs: Iterable[str], champions: Mapping[str, tuple[str, str]], night: str
) -> Evidence:
    """What the log holds about these comparisons from before `night`, and about the champions.

    `champions` says by agent which text (the hash of its prompts) and which model that is.
    """
    wanted = sorted(pairs)
    if not wanted or not ((repo / EVENTS).exists() or (repo / SEALED).exists()):
        return Evidence()
    from telemetry.read import store

    con = store.connect(repo, Window(kind="evaluation"), fields=FIELDS)
    names = ", ".join(map(quoted, wanted))
    rows = con.execute(
        "select distinct on (event_id) pair, cast(round as int), cast(place as int), agent, case_id,"
        " cast(champion_score as double), cast(challenger_score as double), night from events"
        f" where source = 'ab_test' and pair in ({names}) order by event_id, ts"
    ).fetchall()
    turns: dict[str, list[Turn]] = defaultdict(list)
    logged = set()
    for turn in (Turn(*row) for row in rows):
        if turn.night == night:  # this night is run again: its trials stand in the journal
            logged.add(turn.identity)
        else:
            turns[turn.pair].append(turn)
    texts = [
        f"(agent = {quoted(agent)} and prompt_hash = {quoted(text)} and (model is null or model = {quoted(model)}))"
        for agent, (text, model) in champions.items()
    ]
    known: list[tuple[Any, ...]] = con.execute(
        "select agent, case_id, avg(cast(score as double)) from events where"
        f" source = 'eval' and ({' or '.join(texts) or 'false'}) and score is not null"
        f" group by all having count(*) >= {LEAST_ARCHIVED}"
    ).fetchall()
    in_order = {pair: sorted(found, key=lambda turn: turn.place) for pair, found in turns.items()}
    return Evidence(in_order, {(agent, case): mean for agent, case, mean in known}, frozenset(logged))


def curve(turns: Iterable[Turn], cases: Mapping[Case, str], rules: Rules) -> list[float]:
    """Odds against "not better" after each pair; `cases` are all that the comparison was announced with, by family.

    The last one is the verdict's, digit by digit, where every round is on record: a model that answers the same
    question always alike is asked once, and its further rounds are weighed without being logged.
    """
    match = Match(list(cases), replace(rules, family=cases.__getitem__))
    found = []
    for turn in turns:
        match.add(turn.case, turn.champion, turn.challenger)
        found.append(short(match.test.e_value))
    return found
