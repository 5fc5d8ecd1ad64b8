"""Config and state files broken in every way: whoever reads one says so in a line, or does without. No traceback.

Who reads which file is found out, not listed: every script is run once in a sound checkout and watched. What DuckDB
reads by itself (the log and its sealed days) is told to all that ask it.
"""

from __future__ import annotations

import json
import random
import shutil
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.torture import Clock, Figure, lived
from tests.worlds import children

WANTED = 1000
DEEP = 900
ENDLESS_S = 60  # of computing; a whole night takes five
Spoil = Callable[[Path, random.Random], None]
Command = tuple[str, tuple[str, ...]]
VALUES: tuple[Any, ...] = (
    None, True, 0, -1, 1e308, 10**30, "", "x", "\ud800", "\0", "a" * 5000, [], {}, [[]], {"a": 1}, [None], "2026-99-99",
    "../../etc/passwd", "-1", ["x", 3],
)  # fmt: skip


def _text(content: bytes) -> Spoil:
    return lambda path, _draw: _replace(path, content)


def _replace(path: Path, content: bytes) -> None:
    path.unlink()
    path.write_bytes(content)


def _bytes(change: Callable[[bytes, random.Random], bytes]) -> Spoil:
    return lambda path, draw: _replace(path, change(path.read_bytes(), draw))


def _other(make: Callable[[Path], None]) -> Spoil:
    def spoil(path: Path, _draw: random.Random) -> None:
        path.unlink()
        make(path)

    return spoil


def _flip(data: bytes, draw: random.Random) -> bytes:
    """Some bytes are others."""
    made = bytearray(data)
    for _ in range(draw.randint(1, 8)):
        if made:
            made[draw.randrange(len(made))] = draw.randrange(256)
    return bytes(made)


def _shuffled(data: bytes, draw: random.Random) -> bytes:
    lines = data.splitlines(keepends=True)
    draw.shuffle(lines)
    return b"".join(lines)


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every container of a value with every key of it."""
    for key in (
        list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    ):
        yield value, key
        yield from _places(value[key])


def changed(value: Any, draw: random.Random) -> Any:
    """One field is gone, of another type, or there is one too many."""
    if not (places := list(_places(value))):
        return draw.choice(VALUES)
    for _ in range(draw.choice((1, 1, 1, 3))):
        # Near the top more often: that is where a reader looks first.
        inside, key = places[min(draw.randrange(len(places)), draw.randrange(len(places)))]
        if isinstance(inside, dict) and key in inside and draw.random() < 0.3:
            del inside[key]
        elif isinstance(inside, dict) or key < len(inside):
            inside[key] = draw.choice(VALUES)
    return value


def _field(data: bytes, draw: random.Random) -> bytes:
    """The same document with a wrong field; of many lines, one such line."""
    try:
        return json.dumps(changed(json.loads(data), draw)).encode()
    except ValueError:
        lines = data.splitlines()
    try:
        at = draw.randrange(len(lines))
        lines[at] = json.dumps(changed(json.loads(lines[at]), draw)).encode()
        return b"\n".join(lines) + b"\n"
    except (ValueError, IndexError):
        pass_on = data
    try:
        return yaml.safe_dump(changed(yaml.safe_load(pass_on), draw)).encode()
    except (yaml.YAMLError, UnicodeError):
        return _flip(pass_on, draw)


_BOMB = b"a: &a [x,x,x,x,x,x,x,x,x]\n" + b"".join(
    b"%c: &%c [%s]\n" % (98 + n, 98 + n, b",".join([b"*%c" % (97 + n)] * 9)) for n in range(9)
)

KINDS: dict[str, Spoil] = {
    "a wrong field": _bytes(_field),
    "another wrong field": _bytes(_field),
    "a third wrong field": _bytes(_field),
    "a fourth wrong field": _bytes(_field),
    "some other bytes": _bytes(_flip),
    "empty": _text(b""),
    "one line feed": _text(b"\n"),
    "a list": _text(b"[]"),
    "an object": _text(b"{}\n"),
    "null": _text(b"null\n"),
    "a number": _text(b"3\n"),
    "a text": _text(b'"x"\n'),
    "not a number": _text(b"NaN\n"),
    "a list of lists": _text(b"[[1], [2]]"),
    "a list of nothing": _text(b"[null, null]"),
    "900 levels of lists": _text(b"[" * DEEP + b"]" * DEEP),
    "900 levels of objects": _text(b'{"a":' * DEEP + b"1" + b"}" * DEEP),
    "100,000 open brackets": _text(b"[" * 100_000),
    "half of it": _bytes(lambda data, _: data[: len(data) // 2]),
    "all but the last byte": _bytes(lambda data, _: data[:-1]),
    "cut anywhere": _bytes(lambda data, draw: data[: draw.randrange(len(data) + 1)]),
    "twice": _bytes(lambda data, _: data + data),
    "zeros": _bytes(lambda data, _: bytes(len(data))),
    "zeros at the end": _bytes(lambda data, _: data + bytes(512)),
    "a mark of byte order": _bytes(lambda data, _: b"\xef\xbb\xbf" + data),
    "UTF-16": _bytes(lambda data, _: data.decode(errors="replace").encode("utf-16")),
    "no UTF-8": _bytes(lambda data, _: b"\xff\xfe" + data),
    "Windows line ends": _bytes(lambda data, _: data.replace(b"\n", b"\r\n")),
    "a conflict of git": _bytes(
        lambda data, _: b"<<<<<<< HEAD\n" + data + b"\n=======\n" + data + b"\n>>>>>>> other\n"
    ),
    "lines in another order": _bytes(_shuffled),
    "random bytes": _bytes(lambda data, draw: draw.randbytes(200)),
    "half a character": _text(b'{"a": "\\ud800", "version": "\\udfff"}'),
    "a long number": _text(b"9" * 5000),
    "a tag of YAML": _text(b"!!python/object/apply:os.system ['true']\n"),
    "a bomb of aliases": _text(_BOMB),
    "a page of HTML": _text(b"<!doctype html><title>502 Bad Gateway</title>\n"),
    "a pointer of Git LFS": _text(b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"),
    "a folder": _other(lambda path: path.mkdir()),
    "a link to nothing": _other(lambda path: path.symlink_to("nowhere")),
    "a link to itself": _other(lambda path: path.symlink_to(path.name)),
    "a link to a folder": _other(lambda path: path.symlink_to("/")),
    "gone": _other(lambda path: None),
}

# What DuckDB, sqlite and git read past Python's eyes.
SEALED = ("telemetry/events.jsonl", "telemetry/sealed/")
ASKS = ("telemetry.rollup", "telemetry.summarize", "telemetry.plots", "telemetry.retention", "meta.retirement",
        "telemetry.sync", "meta.critique_loops", "meta.morning", "meta.dashboard")  # fmt: skip


def readers(template: Path, home: Path, some: Collection[str]) -> dict[str, list[Command]]:
    """Who of these reads which file of the checkout."""
    found: dict[str, list[Command]] = {}
    for command in lived.commands(some):
        with lived.copy(template, home / "watched") as root:
            seen = home / "seen"
            children.run(lambda root=root, seen=seen, command=command: _watched(root, seen, command))  # type: ignore[misc]
            for name in sorted(set(seen.read_text().splitlines())):
                ours = not name.startswith((".git/", "readings/"))
                # A night runs the other scripts: beyond them it reads what it remembers itself.
                if ours and (template / name).is_file() and ("night" in name or command[0] != "meta.night"):
                    found.setdefault(name, []).append(command)
    for script, names in lived.KEPT.items():
        found |= {name: [(script, lived.SCRIPTS[script])] for name in names if script in some}
    for file in template.rglob("*"):
        name = str(file.relative_to(template))
        if file.is_file() and name.startswith(SEALED):
            found[name] = [command for command in lived.commands(some) if command[0] in ASKS]
    return dict(sorted(found.items()))


def _watched(root: Path, seen: Path, command: Command) -> int:
    log = seen.open("w", buffering=1)

    def watch(event: str, args: tuple[object, ...]) -> None:
        if event == "open" and isinstance(args[0], str | Path):
            path = str(root / args[0])
            if path.startswith(f"{root}/"):
                log.write(f"{path[len(str(root)) + 1 :]}\n")

    sys.addaudithook(watch)
    return lived.call(root, *command)


def trials(found: dict[str, list[Command]], seed: int) -> Iterator[tuple[int, str, str, Command]]:
    """File, kind of damage and reader, every file as often as any other; the kinds and readers take turns."""
    draw = random.Random(seed)
    files, kinds = list(found), list(KINDS)
    order = [(name, kind) for name in files for kind in kinds]
    draw.shuffle(order)
    for number in range(10**9):
        name, kind = order[number % len(order)]
        yield number, name, kind, found[name][(number // len(order) + draw.randrange(99)) % len(found[name])]


def run(
    clock: Clock,
    wanted: int = WANTED,
    seed: int = 1,
    some: Collection[str] = lived.SCRIPTS,
    whole: bool = True,
) -> list[Figure]:
    """Break a file, run a script that reads it, look for a traceback; the figure of the table."""
    lived.loaded()
    faults: list[str] = []
    with tempfile.TemporaryDirectory(prefix="ratchet-torture-") as folder:
        home, template, done = Path(folder), lived.template(whole), 0
        for number, name, kind, command in trials(readers(template, home, some), seed):
            if done == wanted or clock.over:
                break
            done += 1
            with lived.copy(template, home / "trial") as root:
                if name == lived.PENDING:
                    shutil.copyfile(root.parent / Path(name).name, root / name)
                KINDS[kind](root / name, random.Random(number))
                ended = children.run(
                    lambda root=root, command=command: lived.call(root, *command), cpu_s=ENDLESS_S
                )  # type: ignore[misc]
            if ended.traceback or ended.code not in (0, 1, 2, 3):
                faults.append(f"{' '.join((command[0], *command[1]))}: {name}: {kind} ({number}): "
                              f"{ended.traceback or ('endless' if ended.killed else ended.code)}")  # fmt: skip
    return [Figure("corrupted config and state files", done - len(faults), done, wanted, tuple(faults))]
