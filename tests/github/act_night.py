"""Runs a workflow of this repository for real: act in host mode against a small GitHub, third-party actions swapped."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agents.texts.variants import Variants
from meta.publish.kinds import KINDS
from meta.pulls.settle import OURS
from telemetry.edge.files import Repo
from tests.github.hub import NAME, Hub
from tests.github.workflow_rules import pins
from tests.worlds import proposal_repo as repo
from tests.worlds import world

ROOT = Path(__file__).parents[2]
ACTION_STANDINS = Path(__file__).parent / "actions"
PYTHON = Path(sys.executable).resolve().parent  # a runner's own python3 has none of our packages


@dataclass(frozen=True, slots=True)
class Ran:
    """What one run of a workflow left behind."""

    results: dict[str, str]  # job -> success or failure; a skipped job is not in it
    summaries: dict[str, str]  # job -> its job summary
    log: str
    requests: dict[str, dict[str, Any]]  # branch -> the pull request as recorded

    @property
    def proposing(self) -> dict[str, str]:
        """The results without the jobs that only plan, measure or record."""
        return {job: result for job, result in self.results.items() if job in ("produce", "publish")}


class Night:
    """A repository with its remote at a small GitHub, in which workflows run."""

    def __init__(self, home: Path, default: str = "main") -> None:
        self.home, self.default = home, default
        self.tree, self.remote, self.store = home / "tree", home / "remote.git", home / "store"
        self.workflows = home / "workflows"
        self.tree.mkdir()
        self.hub = Hub(self.remote, default)

    def __enter__(self) -> Night:
        return self

    def __exit__(self, *_: object) -> None:
        self.hub.close_down()

    def start(self) -> None:
        """Commit the tree, and make that the remote."""
        (self.home / ".config/act").mkdir(parents=True)
        (self.home / ".config/act/actrc").touch()
        self.store.mkdir()
        repo.git(self.tree, "init", "-q", "-b", self.default)
        repo.git(self.tree, "config", "core.compression", "0")  # it is thrown away before that pays
        self._commit("start")
        repo.git(self.home, "clone", "-q", "--bare", str(self.tree), str(self.remote))
        repo.git(self.tree, "remote", "add", "origin", self.hub.remote)
        repo.git(self.home, "clone", "-q", "--shared", "--no-checkout", str(self.remote), str(self.workflows))
        self._take_workflows()

    def commit(self, message: str) -> None:
        """What the tree holds becomes the remote's default branch."""
        self._commit(message)
        repo.git(self.tree, "push", "-q", str(self.remote), self.default)
        repo.git(self.workflows, "fetch", "-q")
        repo.git(self.workflows, "reset", "-q", "--soft", f"origin/{self.default}")
        self._take_workflows()

    def _take_workflows(self) -> None:
        """All that act reads itself; it copies what is there for each job, and a job then checks out its own."""
        repo.git(self.workflows, "checkout", "-q", "HEAD", "--", ".github")

    def _commit(self, message: str) -> None:
        repo.git(self.tree, "add", "-A")
        repo.git(self.tree, "commit", "-q", "--allow-empty", "-m", message)

    def leave(self, branch: str) -> None:
        """A pull request as an earlier night left it: its branch, one commit ahead, and its record."""
        who = ("-c", "user.name=github-actions[bot]", "-c", f"user.email={OURS}")
        repo.git(self.tree, *who, "commit", "-q", "--allow-empty", "-m", "an earlier night's")
        repo.git(self.tree, "push", "-q", "origin", f"HEAD:{branch}")
        repo.git(self.tree, "reset", "-q", "--hard", "HEAD~1")
        self.hub.start(branch, self.default, "An earlier night's", "", "github-actions[bot]")

    def run(
        self,
        workflow: str,
        event: str = "workflow_dispatch",
        inputs: Mapping[str, str] | None = None,
        secrets: Mapping[str, str] | None = None,
        happened: Mapping[str, Any] | None = None,
        variables: Mapping[str, str] | None = None,
        **environment: str,
    ) -> Ran:
        """Run one workflow of the tree to its end; `happened` is the event's payload beyond the repository."""
        payload = self.home / f"event-{workflow}.json"
        about = {"repository": {"full_name": NAME, "default_branch": self.default, "fork": False}}
        asked = {"inputs": dict(inputs or {})} if event == "workflow_dispatch" else {}
        payload.write_text(json.dumps({**about, **asked, **(happened or {})}))
        own = {"GITHUB_TOKEN": "own", **(secrets or {})}
        extra = {
            "TEST_REMOTE": self.hub.remote,
            "TEST_BARE": self.remote,
            "TEST_STORE": self.store,
            "TEST_ARTIFACTS": self.store / "artifacts",
            "TEST_VENV": sys.prefix,
            "TEST_CODE": ROOT,
            "GITHUB_SERVER_URL": self.hub.url,
            "GITHUB_API_URL": self.hub.url,
            "GITHUB_GRAPHQL_URL": f"{self.hub.url}/graphql",
            "GITHUB_REPOSITORY": NAME,
            **environment,
        }
        command = [
            Path(sys.executable).parent / "act",
            *(event, "--workflows", f".github/workflows/{workflow}.yml", "--eventpath", payload),
            *("--platform", "ubuntu-24.04=-self-hosted", "--no-skip-checkout", "--json"),
            *("--cache-server-addr", "127.0.0.1"),  # else it asks for a way to the internet first
            *(word for name, value in extra.items() for word in ("--env", f"{name}={value}")),
            *(word for name, value in own.items() for word in ("--secret", f"{name}={value}")),
            *(word for name, value in (variables or {}).items() for word in ("--var", f"{name}={value}")),
            *_standins(),
        ]
        path = f"{ACTION_STANDINS / 'bin'}:{PYTHON}:{os.environ['PATH']}"
        clean = {"PATH": path, "HOME": str(self.home), "LANG": "C.UTF-8"}
        done = subprocess.run(command, cwd=self.workflows, env=clean, capture_output=True, text=True)
        lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        results = {line["jobID"]: line["jobResult"] for line in lines if "jobResult" in line}
        summaries: dict[str, str] = {}
        for line in lines:
            if line.get("command") == "summary":
                summaries[line["jobID"]] = summaries.get(line["jobID"], "") + line["content"]
        log = "\n".join(str(line.get("msg")) for line in lines) + done.stderr
        assert (done.returncode == 0) == ("failure" not in results.values()), log
        return Ran(results, summaries, log, self._requests())

    def _requests(self) -> dict[str, dict[str, Any]]:
        found = [json.loads(path.read_text()) for path in self.store.glob("pr-*.json")]
        return {request["branch"]: request for request in found}

    def diff(self, branch: str) -> dict[str, str]:
        """The files that a branch on the remote changes against main."""
        names = repo.git(self.remote, "diff", "--name-only", self.default, branch).split()
        return {name: repo.git(self.remote, "show", f"{branch}:{name}") for name in names}

    def branches(self) -> set[str]:
        """The remote's branches."""
        return set(repo.git(self.remote, "for-each-ref", "--format=%(refname:short)", "refs/heads").split())


def _standins() -> Iterator[str]:
    for name, versions in pins(path.read_text() for path in (ROOT / ".github").rglob("*.yml")).items():
        for commit in (version.split()[0] for version in versions):
            yield "--local-repository"
            yield f"{name}@{commit}={ACTION_STANDINS / Path(name).name}"


# A stand-in script writes no report that a schema would let pass.
_SCHEMAS = {Path(form.schema).name for form in KINDS.values() if form.schema}


def small_tree(tree: Path) -> None:
    """The workflows, the engine they run, and the small example repository in its place."""
    _engine(tree)
    for schema in tree.rglob("*.schema.json"):
        if schema.name in _SCHEMAS:
            schema.unlink()
    for name, text in repo.FILES.items():
        if not name.startswith((".git", "meta/__init__")):
            repo.write(tree, name, text)
    repo.write(tree, "meta/preflight.py", "")  # there is nothing to look at here


def _engine(tree: Path) -> None:
    """The workflows, and the engine as it stands."""
    world.engine(tree)
    shutil.copytree(ROOT / ".github", tree / ".github")
    for name in ("Makefile", "pyproject.toml", "requirements.txt"):
        shutil.copy(ROOT / name, tree / name)


def toy_tree(tree: Path) -> None:
    """The workflows, the engine as it stands, and the rivers: flood_watch has a better challenger, and open code."""
    _engine(tree)
    for name in ("__init__.py", "worlds/__init__.py", "worlds/toy/__init__.py"):
        repo.write(tree, f"tests/{name}", (ROOT / "tests" / name).read_text())
    world.toy(tree)
    repo.write(tree, "agents/flood_watch.py", (ROOT / "tests/worlds/toy/flood_watch.py").read_text())
    world.change(tree, "flood_watch", module="agents.flood_watch", sandbox_editable=True)
    variants = Variants(Repo(tree), world.PROMPT)
    variants.ensure()
    variants.add(world.BETTER, source="hand", author="a person", name="B")
