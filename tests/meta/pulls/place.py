"""A checkout whose pull requests live at the small GitHub: what automation proposed, and what people did with it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from meta.publish.kinds import KINDS
from meta.pulls.settle import OURS
from telemetry.edge.files import Repo
from tests.github.hub import BOT, NAME, Hub
from tests.worlds import proposal_repo as repo

PROMPT = "agents/prompts/macro_watcher.md"
LIVE = repo.FILES[PROMPT]
BETTER = "Watch the macro series closely.\n"


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def ab_report(
    text: str = BETTER, verdict: str = "promote", champion: str = LIVE, **more: Any
) -> dict[str, Any]:
    """As much of a report as a claim needs."""
    arm = {"sha256": sha(text), "variant": "B", "promoted": verdict == "promote", "verdict": verdict}
    arm |= {"effect": -0.031, "cases_used": 80, "newly_right": [], "newly_wrong": [], **more}
    return {"tests": [{"prompt": PROMPT, "champion_sha256": sha(champion), "arms": [arm]}]}


class Place:
    """The checkout `tree`, and GitHub."""

    def __init__(self, home: Path) -> None:
        self.tree, self.bare = home / "tree", home / "remote.git"
        repo.make(self.tree)
        (self.tree / "meta/decisions/2026-01-01-ab_champion-x.json").unlink()
        repo.git(self.tree, "commit", "-qam", "no decision yet")
        repo.git(home, "clone", "-q", "--bare", str(self.tree), str(self.bare))
        repo.git(self.tree, "remote", "add", "origin", str(self.bare))
        self.hub = Hub(self.bare)

    @property
    def repo(self) -> Repo:
        return Repo(self.tree)

    def propose(
        self, kind: str = "ab_champion", report: Any = None, files: Mapping[str, str] | None = None
    ) -> int:
        """What a night opened, or opened anew; its number."""
        form, name, mail = KINDS[kind], BOT, OURS
        with self.hub.desk() as desk:
            repo.git(desk, "checkout", "-q", "-B", form.branch)
            repo.write(desk, f"{form.report}.json", json.dumps(report or ab_report()))
            for path, text in (files or {}).items():
                repo.write(desk, path, text)
            repo.git(desk, "add", "-A")
            who = ("-c", f"user.name={name}", "-c", f"user.email={mail}")
            repo.git(desk, *who, "-c", "core.hooksPath=", "commit", "-q", "-m", "Propose")
            repo.git(desk, *who, "commit", "-q", "--amend", "--no-edit", "--reset-author")
            repo.git(desk, "push", "-q", "--force", "origin", form.branch)
        known = self.hub.open(form.branch)
        opened = known or self.hub.start(form.branch, "main", form.title, "", BOT)
        return int(opened["number"])

    def update(self) -> None:
        """The checkout follows the default branch."""
        repo.git(self.tree, "pull", "-q", "origin", self.hub.default)

    def commit_by_a_person(self, branch: str) -> str:
        """One more commit on the branch; where it stands then."""
        with self.hub.desk() as desk:
            repo.git(desk, "checkout", "-q", branch)
            repo.write(desk, "agents/prompts/macro_watcher.md", "My own words.\n")
            repo.git(desk, "commit", "-qam", "my tweak")
            repo.git(desk, "push", "-q", "origin", branch)
        return self.hub.tip(branch)


def as_in_a_workflow(hub: Hub, patch: pytest.MonkeyPatch) -> None:
    """What GitHub sets for a step that was given a token."""
    for name, value in (("GITHUB_REPOSITORY", NAME), ("GITHUB_API_URL", hub.url), ("HUB_TOKEN", "own-token")):
        patch.setenv(name, value)
    patch.setenv("GITHUB_GRAPHQL_URL", f"{hub.url}/graphql")
