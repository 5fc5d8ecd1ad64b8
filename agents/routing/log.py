"""The log of choices: one `routing` event at each assignment; read back, each with the reward of the run it led to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from agents.routing import BANDIT
from agents.routing.choice import Decision
from agents.routing.experience import AT, WORTH_SQL, filled
from agents.routing.task import Task
from telemetry.edge.frozen import frozen
from telemetry.edge.records import field_value, is_number, listed, plain
from telemetry.logger import FIELD, log_event

if TYPE_CHECKING:
    from datetime import datetime

    from telemetry.edge.files import Repo

    Array = Any


def log_decision(decision: Decision, task: Task, run_id: str) -> None:
    """Written before the run starts: what was drawn is on record whatever becomes of it."""
    agent = decision.selected_agent_id.partition(AT)[0]
    log_event(agent, run_id, None, kind="routing", **task.about, **plain(decision))


@frozen
class Log:
    """Choices with a known reward, oldest first; by row and candidate where two dimensions are named."""

    arms: Sequence[str]
    types: Sequence[str]
    ts: Sequence[str]
    type_of: Array  # row -> index into types
    candidates: Array  # row x candidate -> index into arms, -1 beyond the last
    probability: Array  # row x candidate: with what each was drawn
    chosen: Array  # row -> index into arms
    reward: Array
    unknown: int = (
        0  # choices left out: unreadable, or of a run without reward, broken by others, or never ended
    )
    certain: int = 0  # and those that were no draw, so that nothing can be learned of the others

    def half(self, first: bool) -> Log:
        """The earlier half, or the later."""
        middle = len(self.reward) // 2
        part = slice(0, middle) if first else slice(middle, None)
        rows = [getattr(self, name)[part] for name in _BY_ROW]
        return Log(self.arms, self.types, *rows)


_BY_ROW: Final = ("ts", "type_of", "candidates", "probability", "chosen", "reward")

JOINED_SQL: Final = f"""
with {WORTH_SQL},
choices as (
    select run_id, ts, event_id, task_type, selected_agent_id, candidate_agents, routing_strategy
    from events where kind = 'routing' and {{whose}}
)
select c.ts, coalesce(c.task_type, {{untyped}}), selected_agent_id, candidate_agents, routing_strategy, worth
from choices c left join runs using (run_id)
order by c.ts, c.event_id
"""


def load_log(repo: Repo, agent: str | None = None, since: datetime | None = None) -> Log:
    """The choices among agents; or, with `agent`, those among the models of that one."""
    from telemetry.read.rows import Window, quoted
    from telemetry.read.store import connect

    split = f"position({quoted(AT)} in selected_agent_id)"
    whose = f"{split} = 0" if agent is None else f"{split} > 0 and agent = {quoted(agent)}"
    names = ("task_type", "selected_agent_id", "candidate_agents", "routing_strategy")
    with connect(repo, Window(since=since, among=FIELD), fields=names) as con:
        return _packed(con.execute(filled(JOINED_SQL, whose=whose)).fetchall())


def _offered(text: str | None, chosen: str) -> list[tuple[str, float]]:
    """Who could have been drawn, and with what probability; nothing where a row of another program does not say."""
    found: list[Any] = [(one.get("agent_id"), one.get("probability")) for one in listed(field_value(text))]
    sound = all(isinstance(name, str) and is_number(share) and 0 <= share <= 1 for name, share in found)
    return found if sound and any(name == chosen and share for name, share in found) else []


def _packed(rows: Sequence[tuple[Any, ...]]) -> Log:
    import numpy as np

    drawn = [row for row in rows if row[4] == BANDIT]
    told = [(row, _offered(row[3], row[2])) for row in drawn if row[5] is not None]
    known = [row for row, offer in told if offer]
    offered = [offer for _, offer in told if offer]
    arms = sorted({arm for one in offered for arm, _ in one} | {row[2] for row in known})
    types = sorted({row[1] for row in known})
    arm_at, type_at = ({name: at for at, name in enumerate(one)} for one in (arms, types))
    width = max(map(len, offered), default=0)
    candidates = np.full((len(known), width), -1)
    probability = np.zeros((len(known), width))
    for at, one in enumerate(offered):
        candidates[at, : len(one)] = [arm_at[arm] for arm, _ in one]
        probability[at, : len(one)] = [share for _, share in one]
    return Log(
        arms,
        types,
        [row[0].isoformat(timespec="milliseconds") + "Z" for row in known],
        np.array([type_at[row[1]] for row in known], dtype=int),
        candidates,
        probability,
        np.array([arm_at[row[2]] for row in known], dtype=int),
        np.array([row[5] for row in known], dtype=float),
        len(drawn) - len(known),
        len(rows) - len(drawn),
    )
