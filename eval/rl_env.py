"""The graders as a reward for trainers: what the answer of a model in training is worth, by the case it answers.

`reward` is a reward function of TRL's GRPO and RLOO trainers, for batches of `telemetry.rl_export --type grpo`: their
columns `agent` and `case_id` say which case grades a completion. The completion goes through the agent's own code, as
if its model had said it, and is graded as in an eval. Nothing is logged, no model is asked, only *tune* cases grade:
a model trained on a holdout could not be judged any more. `taskset` is the same as the taskset of a `verifiers`
environment (`pip install -e '.[verifiers]'`). As a script it grades a file of answers, one JSON object a
line with `agent`, `case_id` and `completion`.
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from telemetry.edge import cli
from telemetry.edge.errors import BadInput
from telemetry.edge.files import Repo, here
from telemetry.edge.frozen import frozen
from telemetry.edge.records import load_json

if TYPE_CHECKING:
    from agents.base import BaseAgent
    from agents.model.call import Completion, Message
    from eval.grading.suite import Case

Said = str | Sequence[Mapping[str, Any]]  # a completion: text, or messages whose last one is the answer


class _Speaker:
    """A model that has one thing to say."""

    def __init__(self) -> None:
        self.text, self.asked = "", 0
        self.heard: Sequence[Message] = ()  # what it was asked last

    async def complete(self, messages: Sequence[Message], **options: Any) -> Completion:
        from agents.model.answer import Unusable, contract, parse
        from agents.model.call import AnswerError, Completion

        self.asked += 1
        self.heard = messages
        try:
            data = parse(self.text, contract(options.get("schema")))
        except Unusable as problem:
            raise AnswerError(str(problem)) from None
        return Completion(data, self.text, "in training", "in training", "training")

    async def aclose(self) -> None:
        return


@frozen
class Environment:
    """The agents of a checkout, and the tune cases that grade them."""

    agents: Mapping[str, BaseAgent]
    cases: Mapping[tuple[str, str], Case]  # (agent, case id)
    speaker: _Speaker

    async def grade(self, agent: str, case_id: str, completion: Said) -> float | None:
        """The score in 0..1 of an answer; 0 for one that cannot be read, None where the graders cannot say."""
        from agents.base import AgentError
        from agents.model.call import AnswerError, using_model
        from eval.grading.graders import grade

        case = self.cases.get((agent, case_id))
        if case is None:
            raise BadInput(f"{agent}/{case_id}: no tune case of that agent")
        if any(one["grader"] == "llm_judge" for one in case.expect):
            return None  # it takes a judge, and a judge costs money at every step
        self.speaker.text, self.speaker.asked = _text(completion), 0
        known = self.agents[agent]
        try:
            with using_model(self.speaker):
                output = known.checked(await known._analyzed(case.input))
        except (AnswerError, AgentError):
            return 0.0
        if self.speaker.asked != 1:
            return None  # asked never, or more than once: the completion is not what decided
        return grade(case.expect, output, case.threshold).score

    async def question(self, agent: str, case_id: str) -> Sequence[Message]:
        """The messages that the agent asks its model with; none where it asks nothing before it knows."""
        self.speaker.heard = ()
        await self.grade(agent, case_id, "")
        return self.speaker.heard


def _text(completion: Said) -> str:
    return completion if isinstance(completion, str) else str(completion[-1].get("content") or "")


def open_environment(repo: Repo) -> Environment:
    """That of a checkout; agents whose code cannot be loaded have no cases."""
    from agents.base import build_agent
    from agents.manifest import load_manifest
    from agents.texts.prompt_set import PromptSet
    from eval.grading.suite import Suites

    manifest, prompts, suites, speaker = load_manifest(repo), PromptSet(repo), Suites(repo), _Speaker()
    specs = [
        spec for spec in manifest.agents if spec.eval_suite and not spec.eval_adapter and not spec.command
    ]
    found = {spec.name: build_agent(spec, prompts, speaker) for spec in specs}
    tune = {
        (spec.name, case.id): case for spec in specs for case in suites.load(spec.eval_suite).part("tune")
    }
    return Environment(found, tune, speaker)


@functools.lru_cache(maxsize=4)
def _shared(root: Path) -> Environment:
    return open_environment(Repo(root))


def reward(
    completions: Sequence[Said], agent: Sequence[str], case_id: Sequence[str], **_: Any
) -> list[float | None]:
    """A reward function for TRL: the columns of a grpo batch come as lists, one entry per completion."""
    import asyncio

    known = _shared(here().root.resolve())
    rows = list(zip(agent, case_id, completions, strict=True))

    async def all_of_them() -> list[float | None]:
        return [await known.grade(*row) for row in rows]

    return asyncio.run(all_of_them())


def taskset(root: str = "", agents: Sequence[str] = ()) -> Any:
    """The tune cases of a checkout, or of some of its agents, as a `verifiers.v1.Taskset`.

    Each task asks what the agent would ask its model; its reward is the grade, 0 where the graders cannot say.
    """
    import asyncio

    import verifiers.v1 as vf

    known = _shared(Path(root).resolve() if root else here().root.resolve())

    class CaseData(vf.TaskData):  # type: ignore[misc]
        agent: str
        case_id: str

    class CaseTask(vf.Task[CaseData]):  # type: ignore[misc]
        @vf.reward(weight=1.0)  # type: ignore[untyped-decorator]
        async def graded(self, trace: Any) -> float:
            return await known.grade(self.data.agent, self.data.case_id, trace.last_reply) or 0.0

    class Cases(vf.Taskset[CaseTask, vf.TasksetConfig]):  # type: ignore[misc]
        def load(self) -> list[CaseTask]:
            asked = [one for one in known.cases if not agents or one[0] in agents]
            return [
                CaseTask(CaseData(**row), self.config.task) for row in asyncio.run(_questions(known, asked))
            ]

    return Cases(vf.TasksetConfig(id="ratchet"))


async def _questions(known: Environment, asked: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
    """What the model is asked in each case, as rows; a case in which it is asked nothing has none."""
    rows = []
    for agent, case_id in asked:
        said = {one["role"]: one["content"] for one in await known.question(agent, case_id)}
        if said:
            text = {"system_prompt": said.get("system"), "prompt": said["user"]}
            rows.append({"id": f"{agent}/{case_id}", "agent": agent, "case_id": case_id, **text})
    return rows


def parser() -> cli.Parser:
    parse = cli.Parser(__doc__)
    parse.add_argument("file", type=Path, metavar="ANSWERS.jsonl")
    return parse


def _name(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("a name is a text")
    return value


@cli.entry(parser)
def main(args: argparse.Namespace, repo: Repo) -> int:
    rows = []
    for number, line in enumerate(args.file.read_bytes().splitlines(), 1):
        try:
            row = load_json(line)
            rows.append((_text(row["completion"]), _name(row["agent"]), _name(row["case_id"])))
        except (ValueError, LookupError, TypeError, AttributeError):
            raise BadInput(
                f"{args.file}:{number}: must be an object with agent, case_id and completion"
            ) from None
    scores = reward(*zip(*rows, strict=True)) if rows else []
    known = [score for score in scores if score is not None]
    mean = sum(known) / len(known) if known else None
    told = "nothing was graded" if mean is None else f"mean reward {mean:.3f} of {len(known)} answers"
    cli.tell(args, {"rewards": scores, "mean": mean}, cli.found(told))
    return cli.OK


if __name__ == "__main__":
    raise SystemExit(main())
