"""What every script shares on the command line: flags, exit codes, how a result is told, also to GitHub."""

from __future__ import annotations

import argparse
import errno
import functools
import math
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from telemetry.edge.errors import BadInput, Stopped
from telemetry.edge.files import Repo, here, working_in

OK = 0  # done, also when there was nothing to do
FOUND = 1  # a check found something
BAD_INPUT = 2  # one line on stderr names the file and the field; nothing was written
STOPPED = 3  # budget or outage; partial rows are saved

_finding = ""
OURS = ("telemetry", "agents", "eval", "meta")


class Parser(argparse.ArgumentParser):
    """An argument parser that refuses in one line and knows the common flags."""

    def __init__(self, description: str | None, prog: str | None = None) -> None:
        # The program goes by the module that builds the parser, however it was started.
        module = Path(sys._getframe(1).f_code.co_filename)
        name = prog or f"python -m {module.parent.name}.{module.stem}"
        super().__init__(prog=name, description=description, allow_abbrev=False)
        self.add_argument("--root", type=Path, default=None, metavar="DIR", help="work on another checkout")
        self.add_argument("--json", action="store_true", help="machine-readable result on stdout")
        self.add_argument("--quiet", action="store_true", help="print errors only")

    def error(self, message: str) -> None:  # type: ignore[override]
        self.exit(BAD_INPUT, f"{self.prog}: {message} (see --help)\n")


def whole(least: int) -> Callable[[str], int]:
    """The `type=` of a flag that takes a whole number of at least `least`."""

    def convert(text: str) -> int:
        try:
            value = int(text) if text.isascii() else least - 1
        except ValueError:
            value = least - 1
        if value < least:
            raise argparse.ArgumentTypeError(f"{text}: must be a whole number >= {least}")
        return value

    return convert


def number(*, zero: bool = False, most: float = math.inf) -> Callable[[str], float]:
    """The `type=` of a flag that takes a finite number > 0, or with `zero` >= 0, of at most `most`."""
    least = ">= 0" if zero else "> 0"
    allowed = least if most == math.inf else f"{least} and <= {most:g}"

    def convert(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not (math.isfinite(value) and 0 <= value <= most) or (value == 0 and not zero):
            raise argparse.ArgumentTypeError(f"{text}: must be a number {allowed}")
        return value

    return convert


Body = Callable[[argparse.Namespace, Repo], int]


def entry(parser: Callable[[], Parser]) -> Callable[[Body], Callable[..., int]]:
    """Turn `main(args, repo) -> int` into `main(argv=None) -> int` with the common flags and exit codes."""

    def decorate(body: Body) -> Callable[..., int]:
        @functools.wraps(body)
        def main(argv: Sequence[str] | None = None) -> int:
            try:
                args = parser().parse_args(argv)
            except SystemExit as stop:  # argparse has printed its one line, or the help
                return int(stop.code or 0)
            root = args.root if args.root is not None else here().root
            found("")
            try:
                if not root.is_dir():
                    raise BadInput(f"--root {root}: no such directory")
                with working_in(root) as repo:
                    return body(args, repo)
            except BadInput as problem:
                print(f"error: {_one_line(problem)}", file=sys.stderr)
                return BAD_INPUT
            except ModuleNotFoundError as problem:
                package = str(problem.name).partition(".")[0]
                if package in OURS:  # a bug, not a matter of setting up
                    raise
                print(f"error: {package} is not installed here: run make, or activate .venv", file=sys.stderr)
                return BAD_INPUT
            except Stopped as stop_early:
                print(f"stopped early: {_one_line(stop_early)}", file=sys.stderr)
                return STOPPED
            except BrokenPipeError:  # the reader of our output has gone, e.g. `| head`
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
                return OK
            except KeyboardInterrupt:
                print("stopped early: interrupted", file=sys.stderr)
                return STOPPED
            except OSError as problem:
                code, told = _file_trouble(problem)
                print(told, file=sys.stderr)
                return code

        return main

    return decorate


def _file_trouble(problem: OSError) -> tuple[int, str]:
    """Exit code and line for a file that cannot be read or written; trouble of another sort is a bug and goes on."""
    path = problem.filename2 or problem.filename
    if problem.errno in (errno.ENOSPC, errno.EDQUOT):
        return STOPPED, f"stopped early: {f'{path}: ' if path else ''}{problem.strerror}"
    if path is None or problem.strerror is None:
        raise problem
    return BAD_INPUT, f"error: {path}: {problem.strerror}"


def _one_line(problem: Exception) -> str:
    return " ".join(str(problem).split())


def found(sentence: str) -> str:
    """What the script found, in one line: kept for whoever runs it as one step of many."""
    global _finding
    _finding = sentence
    return sentence


def finding() -> str:
    """What the script that ran last has found."""
    return _finding


def tell(args: argparse.Namespace, value: object, *lines: str) -> None:
    """The result on stdout: `value` under --json, else the lines, nothing under --quiet."""
    if args.json:
        import json

        print(json.dumps(value, indent=2, sort_keys=True, allow_nan=False))
    elif not args.quiet:
        print("\n".join(lines))


MAX_SUMMARY = 900_000  # characters; GitHub drops a summary over 1 MiB whole


def job_summary(markdown: str) -> None:
    """Add to the job summary."""
    target = os.environ.get("GITHUB_STEP_SUMMARY")
    if target:
        with Path(target).open("a", encoding="utf-8") as file:
            file.write(markdown[:MAX_SUMMARY].rstrip() + "\n\n")


def set_output(name: str, value: str) -> None:
    """Set a step output. The delimiter is random: values may be hostile."""
    target = os.environ.get("GITHUB_OUTPUT")
    if target:
        fence = f"ratchet-{os.urandom(8).hex()}"
        with Path(target).open("a", encoding="utf-8") as file:
            file.write(f"{name}<<{fence}\n{value}\n{fence}\n")
