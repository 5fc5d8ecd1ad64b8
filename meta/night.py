"""One night: measure, test, critique, propose and flag, in order, and leave every change as a branch to review.

What would be a pull request on GitHub becomes a local branch of the same name with one commit; the checked-out tree
is left as it was (`--apply` works in place instead). A finished step is not repeated the same day, a failing one is
reported while the independent ones go on. `--nights N` simulates N nights on a scratch copy, merging each night's
changes, and draws how the champions' score develops.
Exit codes: 0 done, 1 a step failed, 2 bad input, 3 a step stopped early (budget, outage).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from telemetry.edge import cli
from telemetry.edge.errors import BadInput
from telemetry.edge.files import write_json
from telemetry.edge.github import job_summary
from telemetry.edge.repo import Repo

if TYPE_CHECKING:
    from eval.ledger.provenance import GitState
    from meta.nightly.stage import InPlace

REPLAY_DAYS = 130  # of the sample market, when there is no history yet
STATE = Path(".ratchet/night")
DONE, FAILED, STOPPED, SKIPPED = "done", "failed", "stopped", "skipped"


@dataclass(frozen=True, slots=True)
class Step:
    """One part of the night: the scripts it runs, what it needs, and the kind of change it may propose."""

    name: str
    doing: str  # shown while it runs
    commands: tuple[tuple[str, ...], ...]
    tell: Callable[[Path], str]  # the finding in one line, read from what the scripts wrote
    needs: tuple[str, ...] = ()
    kind: str = ""
    carries: tuple[str, ...] = ()  # files of earlier steps that it reads
    look: str = ""  # where to look if there is no branch
    only_data: bool = False  # writes nothing that git tracks, so it works on the checkout itself


@dataclass(frozen=True, slots=True)
class Result:
    """How a step ended."""

    name: str
    status: str
    told: str
    look: str = ""
    seconds: float = 0.0
    again: bool = False  # found done from an earlier run of this night


def steps(options: Sequence[str], replay: bool) -> tuple[Step, ...]:
    """The night in order; `options` go to every script that calls a model."""
    from meta.nightly import told as tellings

    first = ((("agents.orchestrator", "--replay", str(REPLAY_DAYS), *options),) if replay else ()) + (
        ("agents.orchestrator", *options),
    )
    critiques = "meta/reports/cross_critiques.json"
    return (
        Step("agents", "running the agents", first, tellings.agents, look="agents/outputs/"),
        Step(
            "evals",
            "grading them on their suites",
            (("eval.harness", "--resume", *options),),
            tellings.evals,
            look="eval/results/",
        ),
        Step(
            "A/B",
            "testing challengers against champions",
            (("eval.ab_testing", *options),),
            tellings.ab_test,
            kind="ab_champion",
        ),
        Step(
            "rollup",
            "summing up telemetry",
            (("telemetry.rollup",),),
            tellings.rollup,
            look="telemetry/summary.json",
            only_data=True,
        ),
        Step(
            "critiques",
            "letting agents critique each other",
            (("meta.critique_loops", *options),),
            tellings.critiques,
            needs=("agents",),
            kind="critiques",
        ),
        Step(
            "proposals",
            "writing new challengers",
            (("meta.propose", *options),),
            tellings.proposals,
            needs=("evals",),
            kind="proposals",
            carries=(critiques,),
        ),
        Step(
            "retirement",
            "asking who earns their keep",
            (("meta.retirement",),),
            tellings.retirement,
            needs=("agents",),
            kind="retirement",
        ),
        Step(
            "charts",
            "drawing",
            (("telemetry.plots", "--last-n", "0"),),
            tellings.charts,
            look="telemetry/charts/",
            only_data=True,
        ),
    )


def run_step(step: Step, stage: InPlace) -> Result:
    """Run a step's scripts on the stage and publish what it proposes."""
    start = time.monotonic()
    stage.fresh(*step.carries)
    tree = stage.root if step.only_data else stage.tree
    status, told, branch = DONE, "", None
    for module, *argv in step.commands:
        code, error = call(module, [*argv, "--root", str(tree), "--quiet"])
        if code == cli.STOPPED:
            status, told = STOPPED, error or f"{module} stopped early"
        elif code != cli.OK:
            status, told = FAILED, error or f"{module} ended with exit code {code}"
        if status != DONE:
            break
    if status == DONE:
        told = step.tell(tree)
        if step.kind:
            try:
                branch = stage.publish(step.kind)
            except BadInput as problem:
                status, told = FAILED, str(problem)
    look = f"git show {branch}" if branch else step.look
    return Result(step.name, status, told, look, round(time.monotonic() - start, 1))


def call(module: str, argv: list[str]) -> tuple[int, str]:
    """Run a script's main in this process: its exit code and its last word on stderr."""
    import contextlib
    import importlib
    import io

    heard = io.StringIO()
    try:
        with contextlib.redirect_stderr(heard), contextlib.redirect_stdout(io.StringIO()):
            code = importlib.import_module(module).main(argv)
    except Exception as problem:  # noqa: BLE001 - one script's bug must not cost the other steps; it is reported
        return cli.FOUND, f"{module}: {type(problem).__name__}: {problem}"
    lines = heard.getvalue().strip().splitlines()
    return code, lines[-1] if lines else ""


def run_night(
    night: Sequence[Step],
    stage: InPlace,
    earlier: Mapping[str, Result],
    on_start: Callable[[Step], None],
    on_end: Callable[[Result], None],
) -> list[Result]:
    """Every step in order; one whose needs failed is skipped, one that is done already is not repeated."""
    results: dict[str, Result] = {}
    for step in night:
        missing = [name for name in step.needs if results[name].status != DONE]
        if step.name in earlier and earlier[step.name].status == DONE:
            result = replace(earlier[step.name], again=True)
        elif missing:
            result = Result(step.name, SKIPPED, f"needs {', '.join(missing)}")
        else:
            on_start(step)
            result = run_step(step, stage)
        results[step.name] = result
        on_end(result)
    return list(results.values())


class Diary:
    """What this night has done so far, on disk: one file per day and configuration."""

    def __init__(self, root: Path, about: Mapping[str, Any]) -> None:
        import hashlib

        text = json.dumps(about, sort_keys=True, default=str)
        key = hashlib.sha256(text.encode()).hexdigest()[:12]
        self._path = root / STATE / f"{time.strftime('%Y-%m-%d', time.gmtime())}-{key}.json"
        try:
            rows = json.loads(self._path.read_text(encoding="utf-8"))
            self.results = {row["name"]: Result(**row) for row in rows}
        except FileNotFoundError:
            self.results = {}
        except (ValueError, TypeError, KeyError) as problem:
            print(f"{self._path.name}: unreadable ({problem}); every step runs again", file=sys.stderr)
            self.results = {}

    def add(self, result: Result) -> None:
        """Put a step's result on record."""
        self.results[result.name] = replace(result, again=False)
        write_json(self._path, [asdict(row) for row in self.results.values()])


def about(root: Path, options: Sequence[str]) -> dict[str, Any]:
    """What makes this night this night: the commit, the endpoint, the options."""
    import os

    from telemetry.edge.git import GitRefused, git

    try:
        head = git(root, "rev-parse", "HEAD").decode().strip()
    except GitRefused:
        head = ""
    named = ("OPENAI_MODEL", "OPENAI_BASE_URL")
    endpoint = {name: os.environ.get(name, "") for name in named} | {
        "key": bool(os.environ.get("OPENAI_API_KEY"))
    }
    return {"head": head, "endpoint": endpoint, "options": list(options)}


def no_history(repo: Repo) -> bool:
    """Whether no agent has ever run here."""
    from telemetry.read import rows, store

    con = store.connect(repo, rows.Window(kind="run"))
    found = con.execute("select 1 from events where source in ('runtime', 'replay') limit 1").fetchone()
    return found is None


def parser() -> cli.Parser:
    """The command line."""
    parse = cli.Parser(__doc__)
    parse.add_argument("--apply", action="store_true", help="work in place, leave the changes in the tree")
    parse.add_argument(
        "--nights", type=cli.whole(1), default=0, metavar="N", help="simulate N nights on a scratch copy"
    )
    parse.add_argument("--seed", type=int, default=0, help="of the A/B order and the offline noise")
    parse.add_argument(
        "--offline-noise",
        type=cli.number(zero=True, most=1),
        default=0.0,
        metavar="P",
        help="share of offline answers that err",
    )
    parse.add_argument(
        "--max-usd", type=cli.number(), metavar="USD", help="budget of each step (default: manifest)"
    )
    parse.add_argument("--again", action="store_true", help="repeat the steps that are done already")
    return parse


@cli.entry(parser)
def main(args: argparse.Namespace, repo: Repo) -> int:
    """Run the night, or simulate many."""
    options = ["--seed", str(args.seed)]
    if args.offline_noise:
        options += ["--offline-noise", str(args.offline_noise)]
    if args.max_usd is not None:
        options += ["--max-usd", str(args.max_usd)]
    if args.nights:
        from meta.nightly.simulate import simulate

        return simulate(repo, args, options)
    from agents.manifest import load_manifest
    from eval.ledger.provenance import GitState
    from meta.nightly import display
    from meta.nightly.stage import InPlace, Stage

    repo = Repo(repo.root.resolve())
    root = repo.root
    load_manifest(repo)  # a broken one stops us here, in one line
    shown = display.Display(quiet=args.quiet or args.json)
    started = time.time()
    git_state = GitState(repo)
    diary = Diary(root, about(root, [*options, *(["--apply"] if args.apply else [])]))
    if args.again:
        diary.results.clear()
    stage = InPlace(root) if args.apply else Stage(root)
    with stage:
        night = steps(options, no_history(repo))
        shown.begin(len(night))

        def on_end(result: Result) -> None:
            diary.add(result)
            shown.end(result)

        results = run_night(night, stage, diary.results, shown.start, on_end)
    spent = display.spent_since(repo, started)
    if spent["calls"]:
        _remember(repo, results, spent, git_state, args.seed)
    if args.json:
        print(json.dumps({"steps": [asdict(result) for result in results], "spent": spent}))
    shown.finish(results, spent, applied=args.apply)
    job_summary(display.markdown(results, spent))
    if any(result.status == FAILED for result in results):
        return cli.FOUND
    return cli.STOPPED if any(result.status == STOPPED for result in results) else cli.OK


def _remember(
    repo: Repo, results: Sequence[Result], spent: Mapping[str, Any], git_state: GitState, seed: int
) -> None:
    """One line of history about the night as a whole, beside those of its evals and its A/B test."""
    from agents.llm_client import ModelOptions
    from agents.manifest import load_manifest
    from agents.texts.prompt_set import PromptSet
    from eval.grading.suite import load_suite
    from eval.ledger.history import append_history
    from eval.ledger.provenance import Seen, model_identity, replay_metadata

    manifest, prompts = load_manifest(repo), PromptSet(repo)
    suites = (spec.eval_suite for spec in manifest.enabled() if spec.eval_suite)
    asked = model_identity(ModelOptions().model())["model"]
    metadata = replay_metadata(
        git_state,
        suites={path: load_suite(repo, path, allow_unpinned=True).sha256 for path in suites},
        prompts={path: prompts.sha256(path) for path in manifest.prompts},
        seen=Seen((asked,) if asked else (), (), (spent["provider"],), (), ()),
        seed=seed,
    )
    steps = {result.name: {"status": result.status, "told": result.told} for result in results}
    append_history(repo, "night", {"steps": steps, "spend": dict(spent)}, metadata)


if __name__ == "__main__":
    raise SystemExit(main())
