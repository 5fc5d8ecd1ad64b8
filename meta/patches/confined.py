"""The last step before a confined command starts: inside its namespaces, it puts up what only they allow.

Not a script of its own: meta/patches/confine.py runs `main` by path in an isolated interpreter, with the words
`[--files] [--network] --writable DIR ... -- COMMAND`. It stands on the standard library alone, because it must not
import anything from the tree that it confines.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import resource
import socket
import struct
import sys

FILE_BYTES = 256 << 20  # of one written file, the log of the command among them
DATA_BYTES = 4 << 30  # of memory for one process

_PR_SET_NO_NEW_PRIVS, _PR_CAPBSET_DROP = 38, 24
_SIOCSIFFLAGS, _IFF_UP_RUNNING = 0x8914, 0x41
_MS_BIND, _MS_REC = 0x1000, 0x4000
_SYS_MOUNT_SETATTR, _AT_FDCWD, _AT_RECURSIVE, _RDONLY = 442, -100, 0x8000, 1

_libc = ctypes.CDLL(None, use_errno=True)


def loopback_up() -> None:
    """A new network namespace has a loopback device that is down; tests may serve themselves over it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", _IFF_UP_RUNNING))


def read_only_but(writable: list[str]) -> None:
    """Every mounted file system becomes read-only in this mount namespace, but for these folders."""
    for folder in writable:
        _must(_libc.mount(folder.encode(), folder.encode(), None, _MS_BIND | _MS_REC, None))
    _set_read_only("/", True, _AT_RECURSIVE)
    for folder in writable:
        _set_read_only(folder, False, 0)


def _set_read_only(path: str, on: bool, flags: int) -> None:
    attr = struct.pack("4Q", _RDONLY if on else 0, 0 if on else _RDONLY, 0, 0)
    _must(_libc.syscall(_SYS_MOUNT_SETATTR, _AT_FDCWD, path.encode(), flags, attr, len(attr)))


def without_privileges() -> None:
    """No capability survives the start of the command, and none can be won (sudo): walls stay where they are."""
    for capability in range(64):
        _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)  # beyond the last one it fails, which is fine
    _must(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))


def limits() -> None:
    """No core files, no file and no process without bounds; soft, so that a test may play with them itself."""
    wanted = {resource.RLIMIT_CORE: 0, resource.RLIMIT_FSIZE: FILE_BYTES, resource.RLIMIT_DATA: DATA_BYTES}
    for what, most in wanted.items():
        _, hard = resource.getrlimit(what)
        resource.setrlimit(what, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def _must(code: int) -> None:
    if code:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def main(argv: list[str]) -> None:
    """Confine this process and become the command."""
    split = argv.index("--")
    flags, command = argv[:split], argv[split + 1 :]
    here = os.getcwd()  # noqa: PTH109
    if "--network" in flags:
        loopback_up()
    if "--files" in flags:
        read_only_but([flags[at + 1] for at, flag in enumerate(flags) if flag == "--writable"])
    os.chdir(here)  # the folder as it is mounted now
    limits()
    if sys.platform == "linux":
        without_privileges()
    os.execvp(command[0], command)
