"""The steps of a night, in order: what each runs, what it needs, how it ended."""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import IO, Any, cast

from agents.run import replay as earlier_days
from meta.nightly.stage import InPlace
from meta.publish import kinds
from telemetry.edge import cli
from telemetry.edge.errors import BadInput
from telemetry.edge.files import CHARTS, OUTPUTS, REPORTS, RESULTS, SUMMARY
from telemetry.edge.frozen import frozen

DONE, FAILED, STOPPED, SKIPPED = "done", "failed", "stopped", "skipped"


@frozen
class Step:
    """One part of the night: the scripts it runs, what it needs, and the kind of change it may propose."""

    name: str
    doing: str  # shown while it runs
    commands: tuple[tuple[str, ...], ...]  # the last one's finding is the step's
    needs: tuple[str, ...] = ()
    kind: str = ""
    carries: tuple[str, ...] = ()  # files of earlier steps that it reads
    look: str = ""  # where to look if there is no branch
    only_data: bool = False  # writes nothing that git tracks, so it works on the checkout itself
    tonight: bool = False  # tells what this night did rather than what its script found
    after: str = ""  # a step behind the last that it reads anything of: then it may begin, beside the others


@frozen
class Result:
    """How a step ended."""

    name: str
    status: str
    told: str
    look: str = ""
    seconds: float = 0.0
    again: bool = False  # found done from an earlier run of this night


def steps(
    options: Sequence[str],
    replay: Sequence[str] = (),
    shadow: bool = False,
    backtest: bool = False,
    models: bool = False,
    harvest: bool = False,
) -> tuple[Step, ...]:
    """The night in order; `options` go to every script that calls a model.

    `replay`: agents that are new here, with earlier days to be judged by. `shadow`: there are disabled agents. They run
    beside the others, and one that recovered is proposed for revival.
    `backtest`: enough cases have come in since a promotion to test it again. `models`: there are others to try.
    `harvest`: runs in the field have shown what a right answer is.
    """

    def asking(module: str, *flags: str) -> tuple[tuple[str, ...], ...]:
        return ((module, *flags, *options),)

    agents = asking("agents.orchestrator")
    if replay:
        agents = asking("agents.orchestrator", *earlier_days.command(replay)) + agents
    critiques = str(REPORTS / "cross_critiques.json")
    charts = (("telemetry.plots", "--last-n", "0"),)
    beside = (
        Step("shadow", "running the disabled agents beside them", asking("agents.orchestrator", "--shadow")),
        Step("revival", "asking who earns their keep again", (("meta.retirement", "--revive"),),
             needs=("shadow",), kind="revival"),
    )  # fmt: skip
    others = Step("models", "trying other models", asking("eval.ab_testing", "--only", "models"),
                  kind="ab_model", look="python -m meta.audit --log")  # fmt: skip
    night: tuple[Step, ...] = (
        Step("agents", "running the agents", agents, look=f"{OUTPUTS}/"),
        Step("evals", "grading them on their suites", asking("eval.harness", "--resume"), look=f"{RESULTS}/"),
        Step("drift", "asking whether champions have become worse", (("eval.drift", "--tell-only"),),
             needs=("evals",), look=str(RESULTS / "drift.json")),
        Step("A/B", "testing challengers against champions", asking("eval.ab_testing", "--only", "prompts"),
             kind="ab_champion", look="python -m meta.audit --log"),
        *((others,) if models else ()),
        Step("rollup", "summing up telemetry", (("telemetry.rollup",),), look=str(SUMMARY), only_data=True,
             tonight=True),
        Step("critiques", "letting agents critique each other", asking("meta.critique_loops"),
             needs=("agents",), kind="critiques"),
        Step("proposals", "writing new challengers", asking("meta.propose"),
             needs=("evals",), kind="proposals", carries=(critiques,)),
        Step("retirement", "asking who earns their keep", (("meta.retirement",),),
             needs=("agents",), kind="retirement"),
        Step("charts", "drawing", charts, look=f"{CHARTS}/", only_data=True,
             after="evals"),  # which keep all cores busy; the steps then keep one
    )  # fmt: skip
    again = Step("back-test", "testing promotions on cases that came in since", asking("eval.backtest"),
                 kind="backtest", look="python -m meta.audit --log")  # fmt: skip
    cases = Step("new cases", "asking what the field has shown", (("eval.harvest",),), kind="new_cases")
    night = (
        *night[:4],
        *([again] if backtest else []),
        *night[4:-1],
        *([cases] if harvest else []),
        night[-1],
    )
    return (night[0], *beside, *night[1:]) if shadow else night


def run_step(step: Step, stage: InPlace, tonight: Callable[[], str] | None = None) -> Result:
    """Run a step's scripts on the stage and publish what it proposes."""
    start = time.monotonic()
    tree = stage.root if step.only_data else stage.fresh(*step.carries)
    status, told, branch = DONE, "", None
    for module, *argv in step.commands:
        code, told = call(module, [*argv, "--root", str(tree)])
        if code != cli.OK:
            status = STOPPED if code == cli.STOPPED else FAILED
            break
    if step.kind and status == DONE and kinds.kind(step.kind).worth(cli.outputs()):
        try:
            branch = stage.publish(step.kind)
        except BadInput as problem:
            status, told = FAILED, str(problem)
    if step.tonight and tonight and status == DONE:
        told = tonight()
    if stage.keeps(branch):
        told += f"; {branch} holds a commit of yours and was left as it is"
    look = f"git show {branch}" if branch else step.look
    return Result(step.name, status, told, look, round(time.monotonic() - start, 1))


def call(module: str, argv: list[str]) -> tuple[int, str]:
    """Run a script's main in this process: its exit code, and what it found or why it did not come through."""
    heard = io.StringIO()
    try:
        with contextlib.redirect_stderr(heard), contextlib.redirect_stdout(io.StringIO()):
            code = importlib.import_module(module).main([*argv, "--quiet"])
    except Exception as problem:  # noqa: BLE001 - one script's bug must not cost the other steps; it is reported
        return cli.FOUND, f"{module}: {type(problem).__name__}: {problem}"
    if code == cli.OK:
        return code, cli.finding().removesuffix(".")
    ending = "stopped early" if code == cli.STOPPED else f"ended with exit code {code}"
    return code, (heard.getvalue().strip().splitlines() or [f"{module} {ending}"])[-1]


# The night's own way to modules, then the step and where it works.
_RUN = "import pickle, sys; sys.path[:] = pickle.load(sys.stdin.buffer); from meta.nightly import steps; steps.beside()"


class Beside:
    """A step in a process of its own, while the night goes on."""

    def __init__(self, step: Step, stage: InPlace) -> None:
        # A new program: one that is split off would have the locks of this one's threads, but not the threads.
        command = [sys.executable, "-c", _RUN]
        pipes: Mapping[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        # In a session of its own: who interrupts the night means its steps, and the night ends this one.
        self._process = subprocess.Popen(command, start_new_session=True, **pipes)
        asked = pickle.dumps(sys.path) + pickle.dumps((step, InPlace(stage.root)))
        with contextlib.suppress(BrokenPipeError), cast(IO[bytes], self._process.stdin) as given:
            given.write(asked)

    def result(self) -> Result | None:
        """How it ended, once it has; None if it was killed."""
        told = cast(IO[bytes], self._process.stdout).read()
        ended: Result | None = pickle.loads(told) if self._process.wait() == 0 else None
        return ended

    def end(self) -> None:
        """Leave nothing behind of one that nobody waits for."""
        self._process.kill()
        self._process.wait()
        cast(IO[bytes], self._process.stdout).close()


def beside() -> None:
    """What such a process does."""
    result = run_step(*pickle.load(sys.stdin.buffer))
    pickle.dump(result, sys.stdout.buffer)


def run_night(
    night: Sequence[Step],
    stage: InPlace,
    earlier: Mapping[str, Result],
    on_start: Callable[[Step], None],
    on_end: Callable[[Result], None],
    tonight: Callable[[], str] | None = None,
) -> list[Result]:
    """Every step in order; one whose needs failed is skipped, one that is done already is not repeated."""
    done = {name: replace(ended, again=True) for name, ended in earlier.items() if ended.status == DONE}
    results: dict[str, Result] = {}
    begun: dict[str, Beside] = {}
    with contextlib.ExitStack() as ends:
        for step in night:
            missing = [name for name in step.needs if results[name].status != DONE]
            if step.name in done:
                result = done[step.name]
            elif missing:
                result = Result(step.name, SKIPPED, f"needs {', '.join(missing)}")
            else:
                on_start(step)
                ended = begun[step.name].result() if step.name in begun else None
                result = ended or run_step(step, stage, tonight)
            results[step.name] = result
            on_end(result)
            if result.status == DONE and (os.cpu_count() or 1) > 1:
                for later in night:
                    if later.after == step.name and later.name not in done:
                        begun[later.name] = Beside(later, stage)
                        ends.callback(begun[later.name].end)
    return list(results.values())
