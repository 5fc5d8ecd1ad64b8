"""A batch as files: what TRL's trainers read, and what others do.

sft         prompt_completion, chat; preference (same messages, clearly different worth) and unpaired beside them
turn-rl     trajectories with a reward per turn and the group they are compared in; bandit rows of the router
grpo        prompt_only with agent and case: GRPO and RLOO ignore a reward column, eval/rl_env.py is their reward
curriculum  prompt_completion with difficulty and stage, the easiest first
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from telemetry.edge.frozen import frozen

if TYPE_CHECKING:
    from telemetry.batches.anonymise import Anonymiser
    from telemetry.batches.points import Point, Turn

SFT, TURNS, GRPO, CURRICULUM = "sft", "turn-rl", "grpo", "curriculum"
GAP: Final = 0.2  # of worth, between the chosen and the rejected answer to the same messages
STAGES: Final = 4  # of a curriculum, as many points in each

Record = dict[str, Any]


@frozen
class Batch:
    """What goes into the files: points of the quality asked for, and others to compare them with."""

    chosen: Sequence[Point]
    others: Sequence[Point]
    texts: Mapping[str, str]  # by name, as they may leave
    by: Anonymiser
    choices: Sequence[Mapping[str, Any]] = ()  # routing decisions with their reward


def _said(batch: Batch, turn: Turn) -> tuple[list[Record], list[Record]]:
    """Question and answer as messages."""
    asked = [{"role": role, "content": batch.texts[name]} for role, name in turn.messages]
    return asked, [{"role": "assistant", "content": batch.texts[turn.output or ""]}]


def _about(batch: Batch, point: Point) -> Record:
    tenant = batch.by.tenant(point.tenant_id)
    about: Record = {"agent": point.agent, "task_type": point.task_type, "quality": point.quality}
    return about | ({"tenant_id": tenant} if tenant else {})


def _tools(turn: Turn) -> Record:
    return {"tools": turn.tools} if turn.tools else {}


def prompt_completion(batch: Batch) -> Iterator[Record]:
    for point in batch.chosen:
        prompt, completion = _said(batch, point.turns[-1])
        yield {"prompt": prompt, "completion": completion, **_tools(point.turns[-1]), **_about(batch, point)}


def chat(batch: Batch) -> Iterator[Record]:
    for point in batch.chosen:
        prompt, completion = _said(batch, point.turns[-1])
        yield {"messages": prompt + completion, **_tools(point.turns[-1])}


def preference(batch: Batch) -> Iterator[Record]:
    """Of the answers to exactly the same messages the best beside the worst, if they differ enough.

    An A/B test asks two prompts, so its answers are to different messages, and no pair.
    """
    for best, worst in pairs(batch.chosen, batch.others):
        prompt, chosen = _said(batch, best.turns[-1])
        _, rejected = _said(batch, worst.turns[-1])
        yield {"prompt": prompt, "chosen": chosen, "rejected": rejected, **_tools(best.turns[-1])}


def pairs(chosen: Sequence[Point], others: Sequence[Point]) -> list[tuple[Point, Point]]:
    """The chosen and the rejected point of each question that has both; graded ones are compared with graded ones."""
    alike: dict[Any, list[Point]] = defaultdict(list)
    for point in (*chosen, *others):
        if point.worth is not None:
            alike[point.agent, point.turns[-1].messages, point.case_id is None].append(point)
    good, found = {point.point_id for point in chosen}, []
    for points in alike.values():
        best, worst = (pick(points, key=_worth) for pick in (max, min))
        if best.point_id in good and _worth(best) - _worth(worst) >= GAP:
            found.append((best, worst))
    return found


def _worth(point: Point) -> float:
    return point.worth if point.worth is not None else 0.0


def unpaired(batch: Batch) -> Iterator[Record]:
    for points, label in ((batch.chosen, True), (batch.others, False)):
        for point in points:
            prompt, completion = _said(batch, point.turns[-1])
            yield {"prompt": prompt, "completion": completion, "label": label, **_tools(point.turns[-1])}


def trajectories(batch: Batch) -> Iterator[Record]:
    """All turns of a run; runs on the same first messages are a group, to be compared with each other."""
    import hashlib

    for point in batch.chosen:
        rewards = [*point.turn_rewards, *[None] * len(point.turns)]
        turns = []
        for turn, reward in zip(point.turns, rewards, strict=False):
            messages, completion = _said(batch, turn)
            noised = batch.by.reward(reward)
            turns.append(
                {"messages": messages, "completion": completion, "turn_reward": noised, **_tools(turn)}
            )
        group = hashlib.sha256(repr((point.agent, point.turns[0].messages)).encode()).hexdigest()[:16]
        about = _about(batch, point)
        yield {"group_id": group, "turns": turns, "reward": batch.by.reward(point.worth), **about}


def prompt_only(batch: Batch) -> Iterator[Record]:
    """Every question once, with the case that grades its answers."""
    seen = set()
    for point in batch.chosen:
        turn = point.turns[-1]
        if point.case_id and (point.agent, turn.messages) not in seen:
            seen.add((point.agent, turn.messages))
            prompt, _ = _said(batch, turn)
            yield {"prompt": prompt, "agent": point.agent, "case_id": point.case_id, **_tools(turn)}


def bandit(batch: Batch) -> Iterator[Record]:
    for one in batch.choices:
        yield {**one, "reward": batch.by.reward(one["reward"])}


def curriculum(batch: Batch) -> Iterator[Record]:
    """Easiest first: how rarely its kind of task is done well, then how long its answer is."""
    tried: dict[Any, list[float]] = defaultdict(list)
    for point in (*batch.chosen, *batch.others):
        tried[point.agent, point.task_type, point.complexity].append(point.quality or 0.0)
    hard = {kind: 1 - sum(found) / len(found) for kind, found in tried.items()}

    def difficulty(point: Point) -> tuple[float, int, str]:
        kind = (point.agent, point.task_type, point.complexity)
        return round(hard[kind], 6), point.tokens_used or 0, point.point_id

    ordered = sorted(batch.chosen, key=difficulty)
    for at, point in enumerate(ordered):
        prompt, completion = _said(batch, point.turns[-1])
        place = {"stage": 1 + at * STAGES // len(ordered), "difficulty": difficulty(point)[0]}
        yield {"prompt": prompt, "completion": completion, **place, **_about(batch, point)}


Format = Callable[[Batch], Iterable[Record]]
FORMATS: Final[Mapping[str, Mapping[str, Format]]] = {
    SFT: {
        "prompt_completion": prompt_completion,
        "chat": chat,
        "preference": preference,
        "unpaired": unpaired,
    },
    TURNS: {"trajectories": trajectories, "bandit": bandit},
    GRPO: {"prompt_only": prompt_only},
    CURRICULUM: {"curriculum": curriculum},
}
TYPES: Final = tuple(FORMATS)
