"""Do the settings let automation push its branches and open pull requests? Asks GitHub, changes nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from telemetry.edge.frozen import frozen
from telemetry.edge.text import code

if TYPE_CHECKING:
    from meta.publish.kinds import Kind
    from meta.pulls.hub import Hub

SECRETS: Final = "Settings > Secrets and variables > Actions > Secrets"
VARIABLES: Final = "Settings > Secrets and variables > Actions > Variables"
RULES: Final = "Settings > Rules > Rulesets"
ACTIONS: Final = "Settings > Actions > General"
FEATURES: Final = "Settings > General > Features"
_TICK: Final = "Allow GitHub Actions to create and approve pull requests"
ALLOW: Final = f"{ACTIONS} > Workflow permissions > tick *{_TICK}* > Save"
_PAGES: Final = {
    SECRETS: "settings/secrets/actions",
    VARIABLES: "settings/variables/actions",
    RULES: "settings/rules",
    ACTIONS: "settings/actions",
    FEATURES: "settings#features",
}
OWNERS: Final = ".github/CODEOWNERS"
_LATEST: Final = 100  # pull requests that are looked at for one that a workflow opened
_MAY_NOT_SEE: Final = (403, 404)  # what GitHub answers a token that may not ask

# Rules of a branch that keep a workflow from pushing to it; the data branch is only ever appended to.
_HINDER = {"creation", "update", "required_signatures"}
_HINDER_DATA = _HINDER | {"pull_request", "required_status_checks"}
_HINDER_PULLS = _HINDER | {"non_fast_forward"}


class Level(Enum):
    """How much a finding matters."""

    OK = "ok"
    NOTE = "note"
    BAD = "BAD"


@frozen
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
        return f"**{self.what}**: {code(self.told, None)}" + (f" → {linked(self.do)}" if self.do else "")


def linked(do: str) -> str:
    """Where to click, with a link to that page of the repository that the environment names."""
    server = os.environ.get("GITHUB_SERVER_URL", "https://github.com")
    name = os.environ.get("GITHUB_REPOSITORY")
    page = next((words for words in _PAGES if do.startswith(words)), "")
    return f"[{page}]({server}/{name}/{_PAGES[page]}){do.removeprefix(page)}" if page and name else do


def of_repository(kinds: Sequence[Kind]) -> Iterator[Check]:
    """What the settings of the repository that the environment names allow to runs of these kinds."""
    if not (os.environ.get("GITHUB_REPOSITORY") and os.environ.get("HUB_TOKEN")):
        asked = "not asked; set GITHUB_REPOSITORY=owner/name and HUB_TOKEN for that"
        yield Check(Level.NOTE, "GitHub", asked)
        return
    from meta.pulls.hub import HubRefused, from_environment

    hub = from_environment()
    try:
        about = hub.get("")
    except HubRefused as problem:
        yield Check(Level.BAD, "GitHub", str(problem), "check GITHUB_REPOSITORY and HUB_TOKEN")
        return
    if not about.get("has_issues", True):
        yield Check(Level.NOTE, "issues", "are off: nothing is told in the morning", FEATURES)
    looks = {
        "pull requests": _allowed(hub, os.environ.get("HAS_BOT_TOKEN") == "true"),
        "labels": _labels(hub, kinds),
        "branches": _rules(hub, kinds, str(about["default_branch"])),
        "owners": _owners(hub),
    }
    for what, look in looks.items():
        try:
            yield from look
        except HubRefused as problem:
            if problem.status in _MAY_NOT_SEE:
                yield Check(Level.NOTE, what, f"this token may not see them ({problem.status})")
            else:
                yield Check(Level.BAD, "GitHub", str(problem), "run again later")


def _allowed(hub: Hub, bot: bool) -> Iterator[Check]:
    """Whether a workflow may open pull requests. Only an administrator's token sees the setting; one that was opened
    shows it as well.
    """
    from meta.pulls.hub import WORKFLOW, HubRefused

    if bot:
        yield Check(Level.OK, "pull requests", "are opened with BOT_TOKEN")
        return
    try:
        allowed = hub.get("actions/permissions/workflow")["can_approve_pull_request_reviews"]
    except HubRefused as problem:
        if problem.status not in _MAY_NOT_SEE:
            raise
        pulls = hub.get("pulls", state="all", per_page=_LATEST)
        opened = next((one["number"] for one in pulls if one["user"]["login"] == WORKFLOW), None)
        unseen = "whether workflows may open them cannot be seen with this token, and none has yet"
        opened_one = Check(Level.OK, "pull requests", f"a workflow opened #{opened}")
        yield opened_one if opened else Check(Level.NOTE, "pull requests", unseen, ALLOW)
        return
    may_not = Check(Level.BAD, "pull requests", "workflows may not open them", ALLOW)
    yield Check(Level.OK, "pull requests", "workflows may open them") if allowed else may_not


def _owners(hub: Hub) -> Iterator[Check]:
    """Whether those who have to look at what decides are people that GitHub knows: of others it asks nothing."""
    wrong = [str(row["message"]).splitlines()[0] for row in hub.get("codeowners/errors")["errors"]]
    if wrong:
        told = f"{len(wrong)} lines ask nobody: {wrong[0]}"
        yield Check(Level.NOTE, "owners", told, f"put your own handle or team into {OWNERS}")
    else:
        yield Check(Level.OK, "owners", f"{OWNERS} names people that GitHub knows")


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
                number, above = rule.get("ruleset_id", "?"), rule.get("ruleset_source_type") == "Organization"
                told = f"rule {rule['type']!r} of ruleset {number} keeps workflows from pushing to {branch}"
                where = f"the organization's {RULES}" if above else RULES
                do = f"{where} > {number} > Target branches > Exclude {branch}"
                yield Check(Level.BAD, "branches", told, do)
    if not hindered:
        yield Check(Level.OK, "branches", "no rule keeps workflows from theirs")
    if not any(rule["type"] == "pull_request" for rule in _of_branch(hub, default)):
        told = f"{default} takes pushes without a pull request"
        yield Check(Level.NOTE, "branches", told, f"{RULES} > New")


def _of_branch(hub: Hub, branch: str) -> list[dict[str, Any]]:
    return list(hub.every(f"rules/branches/{quote(branch, safe='')}"))
