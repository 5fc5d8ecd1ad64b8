"""Do the settings let automation push its branches and open pull requests? Asks GitHub, changes nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from telemetry.edge.text import code

if TYPE_CHECKING:
    from meta.publish.kinds import Kind
    from meta.pulls.hub import Hub

SECRETS: Final = "Settings > Secrets and variables > Actions > Secrets"
VARIABLES: Final = "Settings > Secrets and variables > Actions > Variables"
RULES: Final = "Settings > Rules > Rulesets"
ALLOW: Final = "Allow GitHub Actions to create and approve pull requests"

# Rules of a branch that keep a workflow from pushing to it; the data branch is only ever appended to.
_HINDER_DATA = frozenset(
    {"pull_request", "creation", "update", "required_signatures", "required_status_checks"}
)
_HINDER_PULLS = frozenset({"creation", "update", "non_fast_forward", "required_signatures"})


class Level(Enum):
    """How much a finding matters."""

    OK = "ok"
    NOTE = "note"
    BAD = "BAD"


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at; `do` is where to click, for what is bad."""

    level: Level
    what: str
    told: str
    do: str = ""

    def __str__(self) -> str:
        return f"{self.level.value:4}  {self.what}: {self.told}" + (f" -> {self.do}" if self.do else "")

    @property
    def markdown(self) -> str:
        """The same for a job summary."""
        return f"**{self.what}**: {code(self.told, None)}" + (f" → {self.do}" if self.do else "")


def of_repository(kinds: Sequence[Kind]) -> Iterator[Check]:
    """What the settings of the repository that the environment names allow to runs of these kinds."""
    if not (os.environ.get("GITHUB_REPOSITORY") and os.environ.get("HUB_TOKEN")):
        yield Check(
            Level.NOTE, "GitHub", "not asked; set GITHUB_REPOSITORY=owner/name and HUB_TOKEN for that"
        )
        return
    from meta.pulls.hub import HubRefused, from_environment

    hub = from_environment()
    try:
        about = hub.get("")
        yield from _allowed(hub, os.environ.get("HAS_BOT_TOKEN") == "true")
        if not about.get("has_issues", True):
            yield Check(
                Level.NOTE, "issues", "are off: nothing is told in the morning", "Settings > Features"
            )
        yield from _labels(hub, kinds)
        yield from _rules(hub, kinds, str(about["default_branch"]))
    except HubRefused as problem:
        yield Check(Level.BAD, "GitHub", str(problem), "check GITHUB_REPOSITORY and HUB_TOKEN")


def _allowed(hub: Hub, bot: bool) -> Iterator[Check]:
    """Whether a workflow may open pull requests; only an administrator's token may see that."""
    from meta.pulls.hub import HubRefused

    if bot:
        yield Check(Level.OK, "pull requests", "are opened with BOT_TOKEN")
        return
    try:
        allowed = hub.get("actions/permissions/workflow")["can_approve_pull_request_reviews"]
    except HubRefused as problem:
        if problem.status not in (403, 404):
            raise
        where = f"Settings > Actions > General: {ALLOW}"
        yield Check(Level.NOTE, "pull requests", f"this token may not see whether they are allowed ({where})")
        return
    if allowed:
        yield Check(Level.OK, "pull requests", "workflows may open them")
    else:
        where = f"Settings > Actions > General > Workflow permissions > tick *{ALLOW}* > Save"
        yield Check(Level.BAD, "pull requests", "workflows may not open them", where)


def _labels(hub: Hub, kinds: Sequence[Kind]) -> Iterator[Check]:
    there = {str(row["name"]) for row in hub.every("labels")}
    missing = sorted({label for kind in kinds for label in kind.labels} - there)
    told = f"{', '.join(missing)} will be made with the first pull request" if missing else "all there"
    yield Check(Level.OK, "labels", told)


def _rules(hub: Hub, kinds: Sequence[Kind], default: str) -> Iterator[Check]:
    """Whether a ruleset or a protection keeps automation from its own branches, or lets anybody merge unread."""
    from telemetry.branch.remote import BRANCH

    branches = {BRANCH: _HINDER_DATA} | {kind.branch: _HINDER_PULLS for kind in kinds if kind.branch}
    hindered = False
    for branch, hinder in branches.items():
        for rule in _of_branch(hub, branch):
            if rule["type"] in hinder:
                hindered = True
                number = rule.get("ruleset_id", "?")
                told = f"rule {rule['type']!r} of ruleset {number} keeps workflows from pushing to {branch}"
                yield Check(
                    Level.BAD, "branches", told, f"{RULES} > {number} > Target branches > Exclude {branch}"
                )
    if not hindered:
        yield Check(Level.OK, "branches", "no rule keeps workflows from theirs")
    if not any(rule["type"] == "pull_request" for rule in _of_branch(hub, default)):
        advice = f"{default} takes pushes without a pull request; to ask for one: {RULES} > New"
        yield Check(Level.NOTE, "branches", advice)


def _of_branch(hub: Hub, branch: str) -> list[dict[str, Any]]:
    from urllib.parse import quote

    return list(hub.every(f"rules/branches/{quote(branch, safe='')}"))
