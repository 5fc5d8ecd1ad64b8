"""A full disk, wherever it is met: exit 3 and one line, also in a journal; and with room again, all goes on.

The checkout stands on a small file system in memory that only the child sees, filled but for a few bytes. Where the
platform grants none (no user namespaces), no file may grow beyond a size instead.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import tempfile
from collections.abc import Callable, Collection
from pathlib import Path

from tests.torture import Clock, Figure, lived
from tests.worlds import children

SIZE = 24 << 20
LEFT = (0, 4_096, 20_480, 98_304)  # bytes free when a script starts
ALONE = 0x20000  # CLONE_NEWNS
MINE = 0x10000000  # CLONE_NEWUSER
READS = ("meta.outcome",)  # writes nothing at all


def mounted(place: Path) -> bool:
    """Put an empty file system in memory there, for this process alone; whether that can be had."""
    libc = ctypes.CDLL(None, use_errno=True)
    user, group, root = os.geteuid(), os.getegid(), os.geteuid() == 0
    if libc.unshare(ALONE if root else ALONE | MINE):
        return False
    if not root:
        for name, text in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
            Path("/proc/self", name).write_text(text)
    private = libc.mount(None, b"/", None, ctypes.c_ulong(0x4000 | 1 << 18), None)
    return not private and not libc.mount(
        None, bytes(place), b"tmpfs", ctypes.c_ulong(0), f"size={SIZE}".encode()
    )


def filled(place: Path, left: int) -> None:
    """Leave so many bytes, in whole pages."""
    with (place / "ballast").open("wb", buffering=0) as ballast:
        free = os.statvfs(place)
        os.posix_fallocate(ballast.fileno(), 0, free.f_bavail * free.f_frsize - left)


def on_a_full_disk(
    template: Path, place: Path, left: int, command: tuple[str, tuple[str, ...]]
) -> Callable[[], int]:
    """The work of a child: a script in a copy of the checkout that has no room."""

    def work() -> int:
        assert mounted(place)
        shutil.copytree(template.parent, place, symlinks=True, dirs_exist_ok=True)
        filled(place, left)
        return lived.call(place / template.name, *command)

    return work


def wrong(ended: children.Ended, script: str) -> str:
    """What is not as it should be: stopped with one line, or done because there was room."""
    lines = ended.said.strip().splitlines()
    full = [text for text in lines if "No space left" in text]
    if ended.traceback:
        return ended.traceback
    if full and (ended.code != 3 or not full[-1].startswith("stopped early: ")):
        return f"exit {ended.code}: {full[-1][:200]}"
    if len(full) > 1 and script != "meta.night":  # whose steps have a line each
        return f"{len(full)} lines: {full[0][:200]}"
    if ended.code not in (0, 1, 2, 3) or (ended.code == 3 and not lines[-1].startswith("stopped early: ")):
        return f"exit {ended.code}: {lines[-1:]}"
    return ""


def run(clock: Clock, some: Collection[str] = lived.SCRIPTS, whole: bool = True) -> list[Figure]:
    """These scripts with so much room, and so little."""
    lived.loaded()
    commands = [command for command in lived.commands(some) if command[0] not in READS]
    every = [(command, left) for left in (LEFT if whole else LEFT[:1]) for command in commands]
    tried, faults, stopped = 0, list[str](), 0
    with tempfile.TemporaryDirectory(prefix="ratchet-full-") as folder:
        (place := Path(folder) / "disk").mkdir()
        for command, left in every:
            if clock.over:
                break
            tried += 1
            ended = children.run(on_a_full_disk(lived.template(whole), place, left, command))
            stopped += ended.code == 3
            if why := wrong(ended, command[0]):
                faults.append(f"{' '.join((command[0], *command[1]))}, {left} bytes left: {why}")
    what = f"scripts on a full disk ({stopped} stopped)"
    return [Figure(what, tried - len(faults), tried, len(every), tuple(faults))]
