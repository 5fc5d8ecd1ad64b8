"""Does the tree survive what the loop does to it? `make test` and the audit, in scratch clones that lived through it.

Each scenario is a clone of HEAD in which nights were run on the offline model and their branches merged, reverted,
followed by `--disable`, or the example removed. A clone has a `.venv` of its own: this one's packages, its own code.
What passed is deleted, what failed is left for a look. Slow: about three minutes a scenario. Exit code 1 when one
failed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
import venv
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
FOREIGN = (
    "OPENAI_",
    "GITHUB_",
    "RATCHET_",
    "TELEMETRY_",
    "GIT_",
    "PYTHON",
    "MAKE",
    "MFLAGS",
    "VIRTUAL_ENV",
    "PYTEST_",
)
QUICK = ("-m", "not slow", "--ignore=tests/telemetry", "--ignore=tests/github")  # what reads the tree most
PROMOTION = "meta/prompt-ab-champion"
SHOWN = 40  # last lines of what failed
STAGES = ("lived", "audit", "tests")  # what was done to the clone, then what was found


class Failed(Exception):
    """A command, or what it left, is not as it should be; the message is everything it said."""


@dataclass(frozen=True, slots=True)
class Clone:
    """A scratch checkout, and how to work in it."""

    root: Path

    @classmethod
    def of(cls, repository: Path, root: Path) -> Clone:
        """HEAD of the repository, with an environment in which its own code is what is imported."""
        subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", str(repository), str(root)], check=True)
        clone = cls(root)
        clone.run("git", "remote", "remove", "origin")
        clone.run("git", "checkout", "--quiet", "-B", "main")
        clone.run("git", "config", "user.name", "After merge")
        clone.run("git", "config", "user.email", "after-merge@localhost")
        clone._environment()
        return clone

    def overlay(self, repository: Path) -> None:
        """Take over what is not committed there yet, as a commit here."""
        listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(listed, cwd=repository, check=True, capture_output=True, text=True).stdout
        for name in filter(None, names.split("\0")):
            if (repository / name).is_file():
                (self.root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(repository / name, self.root / name)
            else:
                (self.root / name).unlink(missing_ok=True)
        if self.run("git", "status", "--porcelain"):
            self.commit("As it is now")

    def _environment(self) -> None:
        """A .venv with this one's packages on its path, but for the editable install: that would lead back here."""
        made = self.root / ".venv"
        venv.create(made, symlinks=True)
        packages = Path(sysconfig.get_path("purelib", vars={"base": str(made), "platbase": str(made)}))
        known = [
            path for path in sys.path if path.endswith("site-packages")
        ]  # of a clone in a clone: more than one
        (packages / "after_merge.pth").write_text("\n".join([str(self.root), *known, ""]))
        for tool in Path(sys.executable).parent.iterdir():
            here = made / "bin" / tool.name
            if here.exists() or tool.name.startswith(("activate", "Activate")):
                continue
            data = tool.read_bytes()
            if data.startswith(b"#!"):
                here.write_bytes(b"#!" + bytes(made / "bin/python") + b"\n" + data.partition(b"\n")[2])
                here.chmod(0o755)
            else:
                shutil.copy(tool, here)  # a link would lead out of the walls of the sandbox
        (made / ".develop").touch()  # make has nothing left to set up

    def run(self, *command: str) -> str:
        """Run a command in the clone; what it printed, or `Failed`."""
        path = f"{self.root / '.venv/bin'}{os.pathsep}{os.environ['PATH']}"
        kept = {name: value for name, value in os.environ.items() if not name.upper().startswith(FOREIGN)}
        done = subprocess.run(
            command,
            cwd=self.root,
            env=kept | {"PATH": path},
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
        )
        if done.returncode:
            raise Failed(
                f"$ {' '.join(command)}  (exit code {done.returncode})\n{done.stdout}{done.stderr}".strip()
            )
        return done.stdout

    def python(self, *command: str) -> str:
        return self.run("python", "-m", *command)

    def commit(self, message: str) -> None:
        self.run("git", "add", "--all")
        self.run("git", "commit", "--quiet", "--message", message)

    def night(self, number: int = 1) -> list[str]:
        """Run a night; the branches it left, the promotion first."""
        self.python("meta.night", "--quiet", "--again", "--seed", str(number))
        found = self.run("git", "branch", "--list", "--format=%(refname:short)", "meta/*").split()
        return sorted(found, key=lambda name: name != PROMOTION)


Merge = Callable[[Clone, str], None]


def by_merge(clone: Clone, branch: str) -> None:
    clone.run("git", "merge", "--quiet", "--no-ff", "--no-edit", branch)


def by_squash(clone: Clone, branch: str) -> None:
    clone.run("git", "merge", "--quiet", "--squash", branch)
    clone.run("git", "commit", "--quiet", "--no-edit")


def by_rebase(clone: Clone, branch: str) -> None:
    clone.run("git", "rebase", "--quiet", "main", branch)
    clone.run("git", "checkout", "--quiet", "main")
    clone.run("git", "merge", "--quiet", "--ff-only", branch)


def nights(clone: Clone, count: int, merge: Merge) -> None:
    """So many nights, every branch merged in the morning and deleted."""
    for number in range(1, count + 1):
        for branch in clone.night(number):
            merge(clone, branch)
            clone.run("git", "branch", "--quiet", "-D", branch)


def one_night(clone: Clone) -> None:
    nights(clone, 1, by_merge)


def three_merged(clone: Clone) -> None:
    nights(clone, 3, by_merge)


def three_squashed(clone: Clone) -> None:
    nights(clone, 3, by_squash)


def three_rebased(clone: Clone) -> None:
    nights(clone, 3, by_rebase)


def reverted(clone: Clone) -> None:
    """A promotion is merged, then everything else of its night, then it is taken back."""
    branches = clone.night()
    if PROMOTION not in branches:
        raise Failed("the night promoted nothing: there is nothing to revert")
    by_merge(clone, PROMOTION)
    promotion = clone.run("git", "rev-parse", "HEAD").strip()
    for branch in branches[1:]:
        by_merge(clone, branch)
    clone.run("git", "revert", "--no-edit", "--mainline", "1", promotion)


def disabled(clone: Clone) -> None:
    one_night(clone)
    before = clone.run("git", "rev-parse", "HEAD:agents/manifest.yaml")
    clone.python("meta.retirement", "--disable")
    clone.commit("Disable what does not earn its keep")
    if clone.run("git", "rev-parse", "HEAD:agents/manifest.yaml") == before:
        raise Failed("--disable switched nobody off")


def cleared(clone: Clone) -> None:
    """The example is removed, a new agent takes its place, and a night runs on what is left."""
    clone.python("eval.scaffold", "--clear-example", "--yes")
    clone.commit("Remove the example")
    clone.python("eval.scaffold", "port_watch")
    clone.commit("Add port_watch")
    clone.python("agents.orchestrator", "--agent", "port_watch")
    one_night(clone)


def cleared_later(clone: Clone) -> None:
    """The same in a tree that has decisions and reports about the example, and telemetry of its agents."""
    one_night(clone)
    cleared(clone)


SCENARIOS: dict[str, Callable[[Clone], None]] = {
    "one-night": one_night,
    "three-merged": three_merged,
    "three-squashed": three_squashed,
    "three-rebased": three_rebased,
    "reverted": reverted,
    "disabled": disabled,
    "cleared": cleared,
    "cleared-later": cleared_later,
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a scenario ended."""

    name: str
    told: Mapping[str, str]  # by stage
    seconds: float
    left: Path | None  # the clone, if something failed


def tested(clone: Clone, quick: bool) -> None:
    if not quick:
        clone.run("make", "test")
        return
    clone.run("make", "lint")
    clone.python("pytest", "-n", "auto", *QUICK)


def tried(name: str, scratch: Path, quick: bool) -> Outcome:
    """Play one scenario, then audit and test what it left."""
    start = time.monotonic()
    clone = Clone.of(REPOSITORY, scratch / name)
    plays: list[Callable[[], object]] = [
        lambda: SCENARIOS[name](clone),
        lambda: clone.python("meta.audit"),
        lambda: tested(clone, quick),
    ]
    told: dict[str, str] = {}
    for stage, play in zip(STAGES, plays, strict=True):
        try:
            play()
            told[stage] = "ok"
        except Failed as problem:
            told[stage] = "FAILED"
            log = scratch / f"{name}-{stage}.log"
            log.write_text(f"{problem}\n")
            print(
                *str(problem).splitlines()[-SHOWN:],
                f"all of it: {log}",
                sep="\n",
                file=sys.stderr,
                flush=True,
            )
        print(f"{name}: {stage} {told[stage]}", flush=True)
        if told["lived"] != "ok":
            break
    good = list(told.values()) == ["ok"] * len(STAGES)
    if good:
        shutil.rmtree(clone.root)
    return Outcome(name, told, time.monotonic() - start, None if good else clone.root)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.after_merge", description=__doc__)
    parser.add_argument(
        "--only", action="append", choices=SCENARIOS, metavar="NAME", help="this scenario (repeatable)"
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="lint, and without the slow tests and those of telemetry and workflows",
    )
    args = parser.parse_args()
    scratch = Path(tempfile.mkdtemp(prefix="ratchet-after-merge-"))
    outcomes = [tried(name, scratch, args.quick) for name in args.only or SCENARIOS]
    print(f"\n{'scenario':<16}{''.join(f'{stage:<8}' for stage in STAGES)}seconds")
    for one in outcomes:
        cells = "".join(f"{one.told.get(stage, '-'):<8}" for stage in STAGES)
        print(f"{one.name:<16}{cells}{one.seconds:>7.0f}  {one.left or ''}")
    if any(one.left for one in outcomes):
        return 1
    shutil.rmtree(scratch)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
