"""With what exactly something was measured: the replay metadata in every result, report and decision.

Enough to run the same thing again: the code (commit, dirty flag), the suites and prompts (hashes), the model (asked and
answered, provider, temperature, seed), the prices and the packages.
"""

from __future__ import annotations

import functools
import platform
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import metadata as installed
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from agents.base import start
from telemetry import logger
from telemetry.edge.files import Repo
from telemetry.edge.git import GitRefused, git
from telemetry.logger import SCORING_VERSION

if TYPE_CHECKING:
    from eval.trials.trial import Trial

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


@dataclass(frozen=True, slots=True)
class Seen:
    """What the trials of a run say about the model that answered them."""

    models_asked: tuple[str, ...]
    models_answered: tuple[str, ...]
    providers: tuple[str, ...]
    temperatures: tuple[float, ...]
    price_list_versions: tuple[str, ...]


def seen_in(trials: Iterable[Trial]) -> Seen:
    """Each distinct value once, sorted."""
    found: tuple[set[Any], ...] = (set(), set(), set(), set(), set())
    for trial in trials:
        temperatures = [turn.get("temperature") for turn in trial.turns]
        singles = ([trial.model], [trial.model_answered], [trial.provider])
        for values, into in zip((*singles, temperatures, [trial.price_list_version]), found, strict=True):
            into.update(value for value in values if value is not None)
    return Seen(*(tuple(sorted(values)) for values in found))


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
        "model_asked": _one_or_list(seen.models_asked),
        "model_answered": _one_or_list(seen.models_answered),
        "provider": _one_or_list(seen.providers),
        "temperature": _one_or_list(seen.temperatures),
        "price_list_version": _one_or_list(seen.price_list_versions),
        "seed": seed,
        "packages": dict(packages()),
        **more,
    }


def model_identity(model: object) -> dict[str, str | None]:
    """What a model is before it answered anything: for the key of a journal, and of a decision."""
    inner = getattr(model, "inner", model)  # a cap around a model is not another model
    provider = getattr(inner, "provider", None) or type(inner).__name__
    return {
        "provider": str(provider),
        "model": getattr(inner, "model", None),
        "base_url": getattr(inner, "base_url", None),
    }


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


def _one_or_list(values: tuple[Any, ...]) -> Any:
    if not values:
        return None
    return values[0] if len(values) == 1 else list(values)
