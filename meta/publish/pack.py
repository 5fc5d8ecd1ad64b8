"""Runs the script of a kind, and packs what it changed for whoever may publish it.

The hand-over is a folder: change.patch (against HEAD, allowed paths only), body.md, meta.json.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from agents.manifest import matches
from meta.publish import boundaries, judge
from meta.publish.changes import written
from meta.publish.kinds import Kind
from telemetry.edge import cli
from telemetry.edge.errors import BadInput
from telemetry.edge.files import write_atomic, write_json
from telemetry.edge.git import git

META = "meta.json"

# What a workflow may pass on, by hand or from its shards, and the only form in which it reaches a command line.
OPTIONS = {
    "prompt": re.compile(r"[A-Za-z0-9_./-]{1,120}"),
    "max_usd": re.compile(r"[0-9]{1,6}(\.[0-9]{1,4})?"),
    "merge": re.compile(r"[A-Za-z0-9_./-]{1,120}"),
}


@dataclass(frozen=True, slots=True)
class Produced:
    """What came of it: the job's exit code, a sentence, the paths proposed."""

    code: int
    told: str
    paths: tuple[str, ...] = ()


def pack(form: Kind, root: Path, folder: Path) -> tuple[str, ...]:
    """Write the hand-over of what differs from HEAD; the paths in it, none when there is nothing to propose."""
    globs = boundaries.allowed(form, judge.Head(root).manifest())
    paths = tuple(path for path in changed(root) if any(matches(path, glob) for glob in globs))
    if not paths:
        return ()
    with tempfile.TemporaryDirectory() as scratch:
        env = {"GIT_INDEX_FILE": f"{scratch}/index"}
        git(root, "read-tree", "HEAD", env=env)
        listed = "\0".join(paths).encode(errors="surrogateescape")
        add = ("--literal-pathspecs", "add", "--all", "--pathspec-from-file=-", "--pathspec-file-nul")
        git(root, *add, stdin=listed, env=env)
        patch = written(root, env)
    body = root / f"{form.report}.md"
    if not body.is_file():
        raise BadInput(f"{form.report}.md: missing, so the pull request has no text")
    write_atomic(folder / judge.PATCH, patch)
    write_atomic(folder / judge.BODY, body.read_bytes())
    base = git(root, "rev-parse", "HEAD").decode().strip()
    about = {"branch": form.branch, "title": form.title, "labels": form.labels, "draft": form.draft}
    write_json(folder / META, {"kind": form.name, "base_sha": base, **about})
    return paths


def changed(root: Path) -> list[str]:
    """Every path that differs from HEAD, new files too; what .gitignore names is data, not a change."""
    status = git(root, "status", "--porcelain", "-z", "--no-renames", "--untracked-files=all")
    return sorted(line[3:] for line in status.decode(errors="surrogateescape").split("\0")[:-1])


def produce(form: Kind, root: Path, folder: Path, given: Mapping[str, str]) -> Produced:
    """Run, then pack when it is worth it."""
    code, outputs = _run(form, root, checked_options(form, given))
    if code == cli.STOPPED:
        return Produced(
            cli.OK, "Stopped early (budget or outage). What was done is kept, nothing is proposed."
        )
    if code != cli.OK:
        told = f"The script failed with exit code {code}. Nothing is proposed; its log says why."
        return Produced(max(code, cli.FOUND), told)
    if form.only_if and outputs.get(form.only_if, "") in ("", "0", "false"):
        found = form.only_if.replace("_", " ")
        return Produced(cli.OK, f"Nothing to propose: the script found nothing {found}.")
    return packed(form, root, folder)


def packed(form: Kind, root: Path, folder: Path) -> Produced:
    """Pack, and say so."""
    paths = pack(form, root, folder)
    told = (
        f"Handed over for publishing: {len(paths)} file(s)."
        if paths
        else "Nothing to propose: no file changed."
    )
    return Produced(cli.OK, told, paths)


def checked_options(form: Kind, given: Mapping[str, str]) -> dict[str, str]:
    """The options that were given, each in its plain form and known to the kind."""
    options = {name: value for name, value in given.items() if value}
    for name, value in options.items():
        flag = f"--{name.replace('_', '-')}"
        if name not in form.options:
            raise BadInput(f"{flag}: {form.name} does not take it")
        if not OPTIONS[name].fullmatch(value):
            raise BadInput(f"{flag} {value[:80]!r}: not of the form {OPTIONS[name].pattern}")
    return options


def _run(form: Kind, root: Path, options: Mapping[str, str]) -> tuple[int, dict[str, str]]:
    """Run the kind's script, and first what it needs, in the checkout: exit code and step outputs."""
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
    env = {name: value for name, value in os.environ.items() if value or not name.startswith("OPENAI_")}
    with tempfile.TemporaryDirectory() as scratch:
        output = Path(scratch) / "output"
        env["GITHUB_OUTPUT"] = str(output)
        code = cli.OK
        for command in (*form.before, (*form.command, *flags)):
            print("+ python -m", *command, file=sys.stderr, flush=True)
            code = subprocess.run([sys.executable, "-m", *command], cwd=root, env=env, stdout=2).returncode
            if code != cli.OK:
                break
        return code, dict(_outputs(output.read_text("utf-8") if output.is_file() else ""))


def _outputs(text: str) -> Iterator[tuple[str, str]]:
    """Step outputs as GitHub reads them: `name=value` lines and `name<<fence` blocks."""
    lines = iter(text.splitlines())
    for line in lines:
        name, fenced, fence = line.partition("<<")
        if fenced and "=" not in name:
            yield name, "\n".join(takewhile(fence.__ne__, lines))
        elif "=" in line:
            name, _, value = line.partition("=")
            yield name, value
