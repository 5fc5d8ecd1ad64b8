"""A bare remote with a data branch, checkouts that share no disk, and what each of them has measured."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from telemetry.branch.remote import BRANCH
from telemetry.edge.files import HISTORY, Repo, working_in
from telemetry.logger import append, encode, log_event, utc_now
from telemetry.read import store

STEPS = ("open", "os.rename", "os.mkdir", "os.rmdir", "os.remove", "subprocess.Popen", "shutil.rmtree")


def git(root: Path, *args: str) -> str:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    command = ["git", *identity, *args]
    return subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout.strip()


def remote(home: Path, branch: str = "main") -> Path:
    """A repository at "GitHub", with one commit on its default branch."""
    git(home, "init", "-q", "--bare", "-b", branch, "remote.git")
    first = clone(home, "first")
    git(first, "commit", "-q", "--allow-empty", "-m", "start")
    git(first, "push", "-q", "origin", f"HEAD:{branch}")
    return home / "remote.git"


def clone(home: Path, name: str) -> Path:
    """Somebody's checkout."""
    git(home, "clone", "-q", "remote.git", name)
    return home / name


def measure(root: Path, *agents: str, **fields: object) -> None:
    """A run on a machine of its own logs one row per agent, and one line of history."""
    with working_in(root):
        for agent in agents:
            log_event(agent, "r", 1.0, cost_usd=0.0, **fields)
        line = {"ts": utc_now(), "run_type": "eval", "summary": {"of": agents}, "metadata": {}}
        append(encode(line), root / HISTORY)


def agents(root: Path) -> list[str]:
    """The agents of all rows that can be read in a checkout, sorted."""
    with store.connect(Repo(root)) as con:
        return sorted(name for (name,) in con.execute("select agent from events").fetchall())


def told(root: Path) -> list[list[str]]:
    """What the lines of history are about, sorted."""
    path = root / HISTORY
    return (
        sorted(json.loads(line)["summary"]["of"] for line in path.read_text().splitlines())
        if path.exists()
        else []
    )


def segments(remote: Path) -> list[str]:
    """What lies on the data branch."""
    return git(remote, "ls-tree", "-r", "--name-only", BRANCH).split()


def killed_at(step: int, work: Callable[[], object]) -> bool:
    """Do the work in a child that is killed (SIGKILL) at its n-th step outwards; whether it came to that."""
    child = os.fork()
    if child == 0:
        left = [step]

        def watch(event: str, args: tuple[object, ...]) -> None:
            writes = event != "open" or (isinstance(args[1], str) and set(args[1]) & set("wax+"))
            if event in STEPS and writes:
                left[0] -= 1
                if left[0] == 0:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(watch)
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return os.WIFSIGNALED(status)
