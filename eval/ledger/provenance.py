"""With what exactly something was measured: the replay metadata in every result, report and decision.

Enough to run the same thing again: the code (commit, dirty flag), the suites and prompts (hashes), the model (asked and
answered, provider, temperature, seed), the prices and the packages. And how the scores developed with it: one line per
run in `eval/history.jsonl`, only if a model was really called.
"""

from __future__ import annotations

import functools
import os
import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from importlib import metadata as installed
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from agents.model.schema import checker, read_schema
from agents.model.threads import start
from telemetry import logger
from telemetry.edge.files import HISTORY, Repo
from telemetry.edge.frozen import frozen
from telemetry.edge.git import GitRefused, git
from telemetry.edge.records import load_json, plain
from telemetry.logger import SCORING_VERSION

if TYPE_CHECKING:
    from eval.trials.trial import Trial

RunType = Literal["eval", "ab_test", "backtest", "proposals", "night"]
Records = Literal["comparisons", "searches", "tests"]
SCHEMA = Path(__file__).parents[1] / "history.schema.json"

# What a score may depend on.
PACKAGES = ("genai-prices", "jsonschema-rs", "numpy", "openai", "orjson", "pyyaml")


class GitState:
    """The commit of a checkout and whether it has changes; asked in the background, waited for when read."""

    def __init__(self, repo: Repo) -> None:
        self._answer = start(lambda: _state(repo.root), "git")

    def read(self) -> tuple[str | None, bool | None]:
        """(commit, dirty); None outside a git checkout."""
        return self._answer.result()


def _state(root: Path) -> tuple[str | None, bool | None]:
    try:
        told = git(root, "status", "--porcelain=v2", "--branch", "--untracked-files=no").decode().splitlines()
    except (GitRefused, OSError):  # no checkout, or no git on this machine
        return None, None
    [commit] = [line.split()[2] for line in told if line.startswith("# branch.oid")]
    return (None, None) if commit == "(initial)" else (commit, any(line[0] != "#" for line in told))


@frozen
class Seen:
    """What the trials of a run say about the model that answered them."""

    model_asked: tuple[str, ...]
    model_answered: tuple[str, ...]
    provider: tuple[str, ...]
    temperature: tuple[float, ...]
    price_list_version: tuple[str, ...]


def seen_in(trials: Sequence[Trial]) -> Seen:
    """Each distinct value once, sorted."""
    temperatures = (turn.get("temperature") for trial in trials for turn in trial.turns)
    return Seen(
        _distinct(trial.model for trial in trials),
        _distinct(trial.model_answered for trial in trials),
        _distinct(trial.provider for trial in trials),
        _distinct(temperatures),
        _distinct(trial.price_list_version for trial in trials),
    )


def _distinct(values: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(sorted({value for value in values if value is not None}))


def replay_metadata(
    git: GitState,
    *,
    suites: Mapping[str, str],
    prompts: Mapping[str, str],
    seen: Seen,
    seed: int,
    **more: Any,
) -> dict[str, Any]:
    """The metadata block; `suites` and `prompts` map a path to the SHA-256 of its content, `more` is kept as it is."""
    commit, dirty = git.read()
    return {
        "generated_at": logger.utc_now(),
        "git_commit": commit,
        "git_dirty": dirty,
        "scoring_version": SCORING_VERSION,
        "suites": dict(suites),
        "prompts": dict(prompts),
        **{name: one_or_list(getattr(seen, name)) for name in Seen.__dataclass_fields__},
        "seed": seed,
        "packages": dict(packages()),
        **more,
    }


def run_url() -> dict[str, str]:
    """Where this run's log is, if GitHub runs it."""
    parts = ("SERVER_URL", "REPOSITORY", "RUN_ID")
    server, name, run = (os.environ.get(f"GITHUB_{part}", "") for part in parts)
    if not (server and name and run.isdigit()):
        return {}
    return {"run_id": run, "run_url": f"{server}/{name}/actions/runs/{run}"}


def append_history(
    repo: Repo, run_type: RunType, summary: Mapping[str, Any], metadata: Mapping[str, Any]
) -> None:
    """Add one line: when, what kind of run, its figures, and what it was measured with."""
    logger.append(logger.encode(history_row(run_type, summary, metadata)), repo / HISTORY)


def history_row(run_type: RunType, summary: Mapping[str, Any], metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Such a line, for whoever writes it together with something else."""
    return {
        "ts": logger.utc_now(),
        "run_type": run_type,
        "summary": plain(summary),
        "metadata": plain(metadata),
    }


def add_once(repo: Repo, line: str) -> None:
    """Add a line that a killed run may have added already; a line is known by its text."""
    file = repo / HISTORY
    if not file.exists() or line.encode() not in file.read_bytes():
        logger.append(line.encode(), file)


@frozen
class Line:
    """One line of history, as far as it can be read."""

    run_type: str
    ts: str  # of its end, in UTC; at least its day
    summary: Mapping[str, Any]
    metadata: Mapping[str, Any]

    @property
    def date(self) -> str:
        return self.ts[:10]

    def listed(self, name: Records) -> Sequence[Mapping[str, Any]]:
        """The records of the summary under that name."""
        return self.summary.get(name) or []


def history(repo: Repo, run_type: RunType | None = None) -> Iterator[Line]:
    """The lines of that kind, or all, oldest first; a torn or foreign one is no line."""
    file = repo / HISTORY
    found: list[Line] = []
    word, sound = (run_type or "").encode(), checker(read_schema(SCHEMA))
    for text in file.read_bytes().splitlines() if file.exists() else ():
        if word not in text:  # not of that kind, and need not be parsed to know it
            continue
        try:
            row = load_json(text)
            if sound(row) and run_type in (None, row["run_type"]):
                date.fromisoformat(row["ts"][:10])
                about = row.get("metadata") or {}
                found.append(Line(row["run_type"], row["ts"], row["summary"], about))
        except ValueError:
            continue
    found.sort(key=lambda line: line.ts)  # lines of other machines come in when they are pulled
    yield from found


def model_identity(model: object) -> dict[str, str | None]:
    """What a model is before it answered anything: for the key of a journal, and of a decision."""
    inner = getattr(model, "inner", model)  # a cap around a model is not another model
    named = {name: getattr(inner, name, None) for name in ("provider", "model", "base_url")}
    return {**named, "provider": str(named["provider"] or type(inner).__name__)}


@functools.cache
def packages() -> Mapping[str, str]:
    """Versions of Python and of the packages a score may depend on."""
    versions = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            versions[name] = installed.version(name)
        except installed.PackageNotFoundError:
            versions[name] = "missing"
    return MappingProxyType(versions)


def one_or_list(values: tuple[Any, ...]) -> Any:
    """The one value there is, all of several, None of none."""
    return list(values) if len(values) > 1 else next(iter(values), None)
