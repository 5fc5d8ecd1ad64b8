"""What every script shares on the command line: flags, exit codes, how a result is told, also to GitHub."""

from __future__ import annotations

import argparse
import errno
import functools
import gc
import math
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO, TypeVar

from telemetry.edge.errors import NO_ROOM, BadInput, Stopped, engine_said, of_engine, unwritten
from telemetry.edge.files import SEALED, Repo, checkout_around, here, working_in
from telemetry.edge.text import cell, logged

OK = 0  # done, also when there was nothing to do
FOUND = 1  # a check found something
BAD_INPUT = 2  # one line on stderr names the file and the field; nothing was written
STOPPED = 3  # budget or outage; partial rows are saved

_finding = ""
_outputs: dict[str, str] = {}
_running, _terminated = 0, False  # scripts within scripts, and whether SIGTERM came
_notes: dict[str, Callable[[], str]] = {}
N = TypeVar("N", int, float)
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


def _taking(convert: Callable[[str], N], fits: Callable[[N], bool], allowed: str) -> Callable[[str], N]:
    """The `type=` of a flag that takes what fits."""

    def checked(text: str) -> N:
        try:
            value = convert(text)
        except ValueError:
            value = None
        if value is None or not fits(value):
            raise argparse.ArgumentTypeError(f"{text}: must be a {allowed}")
        return value

    return checked


def whole(least: int) -> Callable[[str], int]:
    """The `type=` of a flag that takes a whole number of at least `least`."""
    return _taking(
        lambda text: int(text.encode("ascii")), lambda value: value >= least, f"whole number >= {least}"
    )


def number(*, zero: bool = False, most: float = math.inf) -> Callable[[str], float]:
    """The `type=` of a flag that takes a finite number > 0, or with `zero` >= 0, of at most `most`."""
    least = ">= 0" if zero else "> 0"
    allowed = least if most == math.inf else f"{least} and <= {most:g}"

    def fits(value: float) -> bool:
        return math.isfinite(value) and value <= most and (value > 0 or (zero and value == 0))

    return _taking(float, fits, f"number {allowed}")


# Allocations between two collections. By default, 700, the collector walks the 100,000 objects of what was imported
# again and again and finds nothing: 0.15 ms per trial, and 50 ms of every start.
PATIENT = (20_000, 20, 100)

Body = Callable[[argparse.Namespace, Repo], int]


def entry(parser: Callable[[], Parser]) -> Callable[[Body], Callable[..., int]]:
    """Turn `main(args, repo) -> int` into `main(argv=None) -> int` with the common flags and exit codes."""

    def decorate(body: Body) -> Callable[..., int]:
        @functools.wraps(body)
        def main(argv: Sequence[str] | None = None) -> int:
            gc.set_threshold(*PATIENT)
            try:
                args = parser().parse_args(argv)
            except SystemExit as stop:  # argparse has printed its one line, or the help
                return int(stop.code or 0)
            root = args.root if args.root is not None else checkout_around(here().root)
            found("")
            _outputs.clear()
            try:
                if not root.is_dir():
                    raise BadInput(f"--root {root}: no such directory")
                with working_in(root) as repo, _importing_from(root), _terminable(), _all_written():
                    return body(args, repo)
            except BrokenPipeError:  # the reader of our output has gone, e.g. `| head`
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
                return OK
            except _mendable() as problem:
                # A step of a longer script: all of it was asked to end.
                if _running and _interrupted(problem):
                    raise KeyboardInterrupt from problem
                code, told = _ending(problem)
                print(logged(told), file=sys.stderr)
                return code

        return main

    return decorate


@contextmanager
def _importing_from(root: Path) -> Iterator[None]:
    """Let code that the manifest names be found in the checkout, wherever the script was started; ours comes first."""
    folder = str(root.resolve())
    if folder in sys.path:
        yield
        return
    sys.path.append(folder)
    try:
        yield
    finally:
        sys.path.remove(folder)


@contextmanager
def _terminable() -> Iterator[None]:
    """Let SIGTERM end a script as Ctrl-C does: through every `finally`, so that nothing temporary is left."""
    global _running, _terminated
    if _running or threading.current_thread() is not threading.main_thread():
        _running += 1
        try:
            yield
        finally:
            _running -= 1
        return

    def end(number: int, frame: object) -> None:
        global _terminated
        _terminated = True
        raise KeyboardInterrupt

    _running, _terminated = 1, False
    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        _running = 0
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _all_written() -> Iterator[None]:
    """A row without room is no reason to lose the result; but with a row missing a script is not done."""
    before, unwritten.scripts = unwritten.count, unwritten.scripts + 1
    try:
        yield
    finally:
        unwritten.scripts -= 1
    if unwritten.count > before:
        raise unwritten.last


def _mendable() -> tuple[type[BaseException], ...]:
    """What a person can mend; DuckDB's own kind only where it is at work."""
    kinds = (BadInput, Stopped, ModuleNotFoundError, KeyboardInterrupt, OSError, MemoryError)
    return (*kinds, *of_engine()) if "duckdb" in sys.modules else kinds


def _interrupted(problem: BaseException) -> bool:
    """Whether somebody asked for the end, also where a script said so in words of its own."""
    return _terminated or KeyboardInterrupt in (type(problem), type(problem.__context__))


def _ending(problem: BaseException) -> tuple[int, str]:
    """Exit code and line for what a person can mend; trouble of another sort is a bug and goes on."""
    if isinstance(problem, MemoryError) or type(problem).__name__ == "OutOfMemoryException":
        asked = "ask for less (--last-n, --since), or allow more, e.g. TELEMETRY_MEMORY=4GB"
        return STOPPED, f"stopped early: not enough memory: {asked}"
    if isinstance(problem, KeyboardInterrupt):
        return STOPPED, "stopped early: interrupted"
    if isinstance(problem, ModuleNotFoundError):
        package = str(problem.name).partition(".")[0]
        if package in OURS:
            raise problem
        return BAD_INPUT, f"error: {package} is not installed here: run make, or activate .venv"
    if isinstance(problem, UnicodeDecodeError) or type(problem).__module__.endswith("duckdb"):
        return _of_duckdb(problem)
    if isinstance(problem, OSError):
        path = problem.filename2 or problem.filename
        if problem.errno in NO_ROOM:
            return STOPPED, f"stopped early: {f'{path}: ' if path else ''}{problem.strerror}"
        if path is None or problem.strerror is None:
            raise problem
        return BAD_INPUT, f"error: {path}: {problem.strerror}"
    line = " ".join(str(problem).split())
    return (
        (STOPPED, f"stopped early: {line}") if isinstance(problem, Stopped) else (BAD_INPUT, f"error: {line}")
    )


_OUR_SQL = ("ParserException", "SyntaxException", "BinderException", "CatalogException")


def _of_duckdb(problem: BaseException) -> tuple[int, str]:
    """Files that it cannot read or write are a person's to mend; SQL that it does not understand is ours."""
    said = engine_said(problem)
    foreign = isinstance(problem, UnicodeDecodeError) and not re.match(r"[A-Z][A-Za-z ]+ Error: ", said)
    if foreign or type(problem).__name__ in _OUR_SQL:
        raise problem
    line = " ".join(said.split("\n")[0].split())
    if os.strerror(errno.ENOSPC) in said:
        return STOPPED, f"stopped early: {os.strerror(errno.ENOSPC)}"
    return BAD_INPUT, f"error: {SEALED}: cannot be read: {line}"


def found(sentence: str) -> str:
    """What the script found, in one line: kept for whoever runs it as one step of many."""
    global _finding
    _finding = sentence
    return sentence


def finding() -> str:
    """What the script that ran last has found."""
    return _finding


def wrapped(text: str, hang: str = "", stream: TextIO | None = None) -> str:
    """A line that fits the terminal, wrapped between words at 80 to 120 columns; a pipe gets the line as it is."""
    import shutil
    from textwrap import fill

    if not (stream or sys.stdout).isatty():
        return text
    width = max(80, min(120, shutil.get_terminal_size((80, 24)).columns))
    if len(text) <= width:
        return text
    return fill(text, width, subsequent_indent=hang, break_on_hyphens=False, break_long_words=False)


def tell(args: argparse.Namespace, value: object, *lines: str) -> None:
    """The result on stdout: `value` under --json, else the lines, nothing under --quiet."""
    if args.json:
        import json

        print(json.dumps(value, indent=2, sort_keys=True, allow_nan=False))
    elif not args.quiet:
        each = "\n".join(lines).split("\n")
        print(
            logged("\n".join(wrapped(line, f"{' ' * (len(line) - len(line.lstrip()))}  ") for line in each))
        )


MAX_SUMMARY = 900_000  # characters; GitHub drops a summary over 1 MiB whole


def job_summary(markdown: str) -> None:
    """Add to the job summary; it ends with what every summary has to say."""
    target = os.environ.get("GITHUB_STEP_SUMMARY")
    if target:
        parts = [markdown[:MAX_SUMMARY].rstrip(), *(f"**{cell(line)}**" for line in notes())]
        with Path(target).open("a", encoding="utf-8") as file:
            file.write("\n\n".join(parts) + "\n\n")


def note(name: str, line: Callable[[], str]) -> None:
    """Let every summary of this process end with a line: worked out when one is written, left out if empty."""
    _notes[name] = line


def notes() -> list[str]:
    """Those lines, as they are now."""
    return [line for line in (make() for make in _notes.values()) if line]


def set_output(name: str, value: str) -> None:
    """Set a step output. The delimiter is random: values may be hostile."""
    _outputs[name] = value
    target = os.environ.get("GITHUB_OUTPUT")
    if target:
        fence = f"ratchet-{os.urandom(8).hex()}"
        with Path(target).open("a", encoding="utf-8") as file:
            file.write(f"{name}<<{fence}\n{value}\n{fence}\n")


def outputs() -> dict[str, str]:
    """The step outputs of the script that ran last."""
    return dict(_outputs)
