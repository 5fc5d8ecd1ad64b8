"""What did the script change, and is it worth proposing? Runs one, and packs the change for whoever may publish it.

`produce` runs the script of a kind and packs what it changed; `pack` only packs.
The hand-over is a folder: change.patch (against HEAD, allowed paths only), meta.json.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from pathlib import Path

from meta.publish import kinds
from telemetry.edge import cli
from telemetry.edge.cli import job_summary, set_output
from telemetry.edge.errors import BadInput
from telemetry.edge.files import SCRATCH, Repo
from telemetry.edge.text import code

# What a workflow may pass on, by hand or from its shards; the only form in which it reaches a command line; its help.
OPTIONS = {
    "prompt": (r"[A-Za-z0-9_./-]{1,120}", None, "only this prompt"),
    "model": (r"[A-Za-z0-9][A-Za-z0-9._:/@-]{0,99}", None, "compare this model with those asked now"),
    "goal": (r"better|cheaper", None, "better, or cheaper and not worse"),
    "max_usd": (r"[0-9]{1,6}(\.[0-9]{1,4})?", None, "spend at most this; empty: the manifest's budget"),
    "merge": (r"[A-Za-z0-9_./-]{1,120}", "DIR", "sum up the shards in DIR"),
    "trials": (r"[1-9][0-9]{0,2}", "K", "rounds tonight"),
    "allow": (r"cost", "NAME", "in spite of this guardrail"),
}


def parser() -> cli.Parser:
    flags = cli.Parser(__doc__)
    flags.add_argument("action", choices=["produce", "pack"])
    flags.add_argument("--kind", required=True, help="kind of change: " + kinds.names())
    out = SCRATCH / "handover"
    flags.add_argument("--out", type=Path, default=out, metavar="DIR", help="the hand-over")
    for name, (_, metavar, told) in OPTIONS.items():
        flags.add_argument(_flag(name), default="", metavar=metavar, help=f"produce: {told}")
    return flags


def _flag(option: str) -> str:
    return f"--{option.replace('_', '-')}"


@cli.entry(parser)
def main(args: argparse.Namespace, repo: Repo) -> int:
    form, root = kinds.kind(args.kind), repo.root.resolve()
    from meta.publish import judge  # before the script runs: it may rewrite what packs its change

    exit_code, told = cli.OK, ""
    paths: tuple[str, ...] = ()
    try:
        if args.action == "produce":
            exit_code, told = _produce(form, root, {name: getattr(args, name) for name in OPTIONS})
        if not told:
            paths = judge.pack(form, root, args.out)
            handed = f"Handed over for publishing: {len(paths)} file(s)."
            told = handed if paths else "Nothing to propose: no file changed."
        reported = not paths and exit_code == cli.OK and judge.hand_report(form, root, args.out)
    except BadInput as problem:
        job_summary(f"### {form.title}\n\nNothing is proposed: {code(str(problem), None)}")
        raise
    set_output("propose", "true" if paths else "false")
    set_output("report", "true" if reported else "false")
    listed = "".join(f"\n- `{path}`" for path in paths)
    job_summary(f"### {form.title}\n\n{told}{listed}")
    result = {"kind": form.name, "exit_code": exit_code, "told": told, "paths": list(paths)}
    cli.tell(args, result, told, *paths)
    return exit_code


def _produce(form: kinds.Kind, root: Path, given: Mapping[str, str]) -> tuple[int, str]:
    """Run the script: the job's exit code, and why there is nothing to pack; empty when it is worth it."""
    ended, outputs = _run(form, root, _checked(form, given))
    if ended == cli.STOPPED:
        return cli.OK, "Stopped early (budget or outage). What was done is kept, nothing is proposed."
    if ended != cli.OK:
        told = f"The script failed with exit code {ended}. Nothing is proposed; its log says why."
        return max(ended, cli.FOUND), told
    if not form.worth(outputs):
        return cli.OK, f"Nothing to propose: the script found nothing {form.only_if.replace('_', ' ')}."
    return cli.OK, ""


def _checked(form: kinds.Kind, given: Mapping[str, str]) -> list[str]:
    """The options that were given as flags, each in its plain form and known to the kind."""
    options = {name: value for name, value in given.items() if value}
    for name, value in options.items():
        if name not in form.options:
            raise BadInput(f"{_flag(name)}: {form.name} does not take it")
        if not re.fullmatch(OPTIONS[name][0], value):
            raise BadInput(f"{_flag(name)} {value[:80]!r}: not of the form {OPTIONS[name][0]}")
    return [f"{_flag(name)}={value}" for name, value in options.items()]


def _run(form: kinds.Kind, root: Path, flags: Sequence[str]) -> tuple[int, dict[str, str]]:
    """Run the kind's script, and first what it needs, in the checkout: exit code and step outputs."""
    import subprocess
    import tempfile

    from meta.publish import leavings

    env = {name: value for name, value in os.environ.items() if value or not name.startswith("OPENAI_")}
    with tempfile.TemporaryDirectory() as scratch:
        output = Path(scratch) / "output"
        env["GITHUB_OUTPUT"] = str(output)
        code = cli.OK
        # What a script prints, models may have written: until the token is heard, the runner takes no command.
        token = f"ratchet-{os.urandom(8).hex()}"
        print(f"::stop-commands::{token}", file=sys.stderr, flush=True)
        for command in _chain(form, Repo(root), flags):
            print("+ python -m", *command, file=sys.stderr, flush=True)
            started = time.time()
            code = subprocess.run([sys.executable, "-m", *command], cwd=root, env=env, stdout=2).returncode
            if code != cli.OK:
                if "--replay" in command:  # there is no sample to replay: then there are no days yet
                    continue
                break
            leavings.leave(Repo(root), command, started)
        print(f"::{token}::", file=sys.stderr, flush=True)
        return code, dict(_outputs(output.read_text("utf-8") if output.is_file() else ""))


def _chain(form: kinds.Kind, repo: Repo, flags: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """What to run: what an earlier link of this night has done is taken from it, the rest is done here, once."""
    from meta.publish import leavings

    taken = leavings.take(repo)
    for command in form.before:
        if command[0] in taken and "--shadow" not in command:
            when = taken[command[0]][11:16]
            print(f"= python -m {command[0]}: done at {when} UTC this night", file=sys.stderr, flush=True)
            continue
        if command == ("agents.orchestrator",) and (new := _new_here(repo)):
            from agents.run import replay

            yield (*command, *replay.command(new))
        yield command
    yield (*form.command, *flags)


def _new_here(repo: Repo) -> list[str]:
    from agents.manifest import load_manifest
    from agents.run import replay

    try:
        return replay.newcomers(repo, load_manifest(repo))
    except (BadInput, OSError):  # told by the command itself, which reads the manifest next
        return []


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


if __name__ == "__main__":
    raise SystemExit(main())
