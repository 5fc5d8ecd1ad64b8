"""What did the script change, and is it worth proposing? Runs one, and packs the change for whoever may publish it.

`produce` runs the script of a kind and packs what it changed; `pack` only packs.
The hand-over is a folder: change.patch (against HEAD, allowed paths only), body.md, meta.json.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from meta.publish import kinds
from telemetry.edge import cli
from telemetry.edge.errors import BadInput
from telemetry.edge.files import write_atomic, write_json
from telemetry.edge.github import job_summary, set_output
from telemetry.edge.repo import Repo

META = "meta.json"

# What a person may pass by hand, and the only form in which it reaches a command line.
OPTIONS = {
    "prompt": re.compile(r"[A-Za-z0-9_./-]{1,120}"),
    "max_usd": re.compile(r"[0-9]{1,6}(\.[0-9]{1,4})?"),
}


def pack(kind: str, root: Path, folder: Path) -> list[str]:
    """Write the hand-over of what differs from HEAD; the paths in it, none when there is nothing to propose."""
    from meta import guard
    from meta.publish import boundaries as rules
    from telemetry.edge.git import git

    form = kinds.kind(kind)
    globs = rules.allowed(form, guard.manifest(root))
    paths = [path for path in changed(root) if any(rules.matches(path, glob) for glob in globs)]
    if not paths:
        return []
    with tempfile.TemporaryDirectory() as scratch:
        env = {"GIT_INDEX_FILE": f"{scratch}/index"}
        git(root, "read-tree", "HEAD", env=env)
        listed = "\0".join(paths).encode(errors="surrogateescape")
        add = ("--literal-pathspecs", "add", "--all", "--pathspec-from-file=-", "--pathspec-file-nul")
        git(root, *add, stdin=listed, env=env)
        patch = git(root, "diff", "--cached", "--binary", "--full-index", "--no-renames", "HEAD", env=env)
    body = root / f"{form.report}.md"
    if not body.is_file():
        raise BadInput(f"{form.report}.md: missing, so the pull request has no text")
    write_atomic(folder / guard.PATCH, patch)
    write_atomic(folder / guard.BODY, body.read_bytes())
    base = git(root, "rev-parse", "HEAD").decode().strip()
    about = {"branch": form.branch, "title": form.title, "labels": form.labels, "draft": form.draft}
    write_json(folder / META, {"kind": kind, "base_sha": base, **about})
    return paths


def changed(root: Path) -> list[str]:
    """Every path that differs from HEAD, new files too; what .gitignore names is data, not a change."""
    from telemetry.edge.git import git

    status = git(root, "status", "--porcelain", "-z", "--no-renames", "--untracked-files=all")
    return sorted(line[3:] for line in status.decode(errors="surrogateescape").split("\0")[:-1])


def run_script(form: kinds.Kind, root: Path, options: Mapping[str, str]) -> tuple[int, dict[str, str]]:
    """Run the kind's script, and first what it needs, in the checkout: exit code and step outputs."""
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in options.items() if value]
    env = {name: value for name, value in os.environ.items() if value or not name.startswith("OPENAI_")}
    with tempfile.TemporaryDirectory() as scratch:
        env["GITHUB_OUTPUT"] = f"{scratch}/output"
        output = Path(env["GITHUB_OUTPUT"])
        code = cli.OK
        for command in (*form.before, (*form.command, *flags)):
            print("+ python -m", *command, file=sys.stderr, flush=True)
            done = subprocess.run([sys.executable, "-m", *command], cwd=root, env=env, stdout=2)
            code = done.returncode
            if code != cli.OK:
                break
        return code, _outputs(output.read_text("utf-8") if output.is_file() else "")


def _outputs(text: str) -> dict[str, str]:
    """Step outputs as GitHub reads them: `name=value` lines and `name<<fence` blocks."""
    found: dict[str, str] = {}
    lines = iter(text.splitlines())
    for line in lines:
        if "<<" in line and "=" not in line.partition("<<")[0]:
            name, _, fence = line.partition("<<")
            found[name] = "\n".join(_until(lines, fence))
        elif "=" in line:
            name, _, value = line.partition("=")
            found[name] = value
    return found


def _until(lines: Iterator[str], fence: str) -> Iterator[str]:
    for line in lines:
        if line == fence:
            return
        yield line


def checked_options(form: kinds.Kind, given: Mapping[str, str]) -> dict[str, str]:
    """The options that were given, each in its plain form and known to the kind."""
    for name, value in given.items():
        if value and name not in form.options:
            raise BadInput(f"--{name.replace('_', '-')}: {form.name} does not take it")
        if value and not OPTIONS[name].fullmatch(value):
            raise BadInput(
                f"--{name.replace('_', '-')} {value[:80]!r}: not of the form {OPTIONS[name].pattern}"
            )
    return {name: value for name, value in given.items() if value}


def produce(
    form: kinds.Kind, root: Path, folder: Path, given: Mapping[str, str]
) -> tuple[int, str, list[str]]:
    """Run, then pack when it is worth it: exit code, what happened in a sentence, the paths proposed."""
    code, outputs = run_script(form, root, checked_options(form, given))
    if code == cli.STOPPED:
        return cli.OK, "Stopped early (budget or outage). What was done is kept, nothing is proposed.", []
    if code != cli.OK:
        return (
            max(code, cli.FOUND),
            f"The script failed with exit code {code}. Nothing is proposed; its log says why.",
            [],
        )
    if form.only_if and outputs.get(form.only_if, "") in ("", "0", "false"):
        return (
            cli.OK,
            f"Nothing to propose: the script found nothing {form.only_if.replace('_', ' ')}.",
            [],
        )
    paths = pack(form.name, root, folder)
    if not paths:
        return cli.OK, "Nothing to propose: no file changed.", []
    return cli.OK, f"Handed over for publishing: {len(paths)} file(s).", paths


def parser() -> cli.Parser:
    """The command line."""
    flags = cli.Parser(__doc__)
    flags.add_argument("action", choices=["produce", "pack"])
    flags.add_argument("--kind", required=True, help="kind of change: " + ", ".join(sorted(kinds.KINDS)))
    flags.add_argument(
        "--out", type=Path, default=Path(".ratchet/handover"), metavar="DIR", help="the hand-over"
    )
    flags.add_argument("--prompt", default="", help="produce: only this prompt")
    flags.add_argument(
        "--max-usd", default="", help="produce: spend at most this; empty: the manifest's budget"
    )
    return flags


@cli.entry(parser)
def main(args: argparse.Namespace, repo: Repo) -> int:
    """Run and pack, and say what happened where a person looks: the log and the job summary."""
    form, root = kinds.kind(args.kind), repo.root.resolve()
    code, told, paths = cli.OK, "", []
    try:
        if args.action == "pack":
            paths = pack(form.name, root, args.out)
            told = f"Packed {len(paths)} file(s)." if paths else "Nothing to propose: no file changed."
        else:
            code, told, paths = produce(
                form, root, args.out, {"prompt": args.prompt, "max_usd": args.max_usd}
            )
    except BadInput as problem:
        job_summary(f"### {form.title}\n\nNothing is proposed: `{str(problem).replace('`', chr(39))}`")
        raise
    set_output("propose", "true" if paths else "false")
    listed = "".join(f"\n- `{path}`" for path in paths)
    job_summary(f"### {form.title}\n\n{told}{listed}")
    if args.json:
        print(json.dumps({"kind": form.name, "exit_code": code, "told": told, "paths": paths}))
    elif not args.quiet:
        print("\n".join([told, *paths]))
    return code


if __name__ == "__main__":
    raise SystemExit(main())
