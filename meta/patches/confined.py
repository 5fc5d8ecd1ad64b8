"""The inside of the walls: puts them up around one command, watches over it, and hands out what it may return.

Not a script of its own: meta/patches/confine.py runs `main` by path in an isolated interpreter. It stands on the
standard library alone, because it must not import anything from the tree that it confines.

Three processes: the first enters new namespaces; the second, the first process in them, builds a root file system in
memory that holds nothing but programs and a copy of the tree, and stays as the guard; the third gives up its rights and
becomes the command. When the guard ends, the kernel ends everything that was ever started below it.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import resource
import shutil
import signal
import socket
import stat
import struct
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

# Hard limits. Of one process, where nothing else is said; the rest for all together.
FILE_BYTES = 256 << 20  # of one written file, the log of the command among them
DATA_BYTES = 4 << 30
OPEN_FILES = 4096
PROCESSES = 512
MEMORY_BYTES = 8 << 30
# Of the machine's memory, which nobody may take: what the kernel keeps for us counts for no process.
SPARE = 0.02
DISK_BYTES = 1 << 30  # a full test run writes about a third of it
DISK_FILES = 400_000
RETURNED_BYTES = 64 << 20
TICK_S = 0.05  # how often the guard looks
HEARD = (signal.SIGCHLD, signal.SIGTERM)  # and what it hears meanwhile

NOBODY = 65534
TREE, HOME = "/tree", "/home/nobody"
PROGRAMS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
# Of /etc.
SETTINGS = (
    *("passwd", "group", "nsswitch.conf", "hosts", "localtime", "timezone", "mime.types", "fonts"),
    *("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives", "ssl", "pki", "ca-certificates"),
)
DEVICES = ("null", "zero", "full", "random", "urandom")

_CLONE = {"user": 0x10000000, "mount": 0x20000, "net": 0x40000000, "pid": 0x20000000, "ipc": 0x8000000}
_SET_DUMPABLE, _SET_PDEATHSIG, _SET_SECCOMP, _CAPBSET_DROP = 4, 1, 22, 24
_SET_CHILD_SUBREAPER, _SET_NO_NEW_PRIVS = 36, 38
_SIOCSIFFLAGS, _IFF_UP_RUNNING = 0x8914, 0x41
_MS_BIND, _MS_REC, _MS_PRIVATE, _MNT_DETACH = 0x1000, 0x4000, 1 << 18, 2
_NOSUID_NODEV = 2 | 4
_SYS_MOUNT_SETATTR, _AT_RECURSIVE, _AT_FDCWD, _RDONLY_NOSUID = 442, 0x8000, -100, 1 | 2

_libc = ctypes.CDLL(None, use_errno=True)


# What is called by number, because libc does not name it or the filter has to: x86-64, then ARM64.
_AT = {"x86_64": 0, "aarch64": 1}.get(os.uname().machine)
_NUMBERS = {
    "socket": (41, 198), "socketpair": (53, 199), "clone": (56, 220),
    # Refused, whoever asks: other name spaces, mounts, other processes, keys, and the kernel itself.
    "unshare": (272, 97), "setns": (308, 268), "mount": (165, 40), "umount2": (166, 39), "chroot": (161, 51),
    "pivot_root": (155, 41),
    "fsopen": (430, 430), "fsmount": (432, 432), "move_mount": (429, 429), "open_tree": (428, 428),
    "mount_setattr": (442, 442), "ptrace": (101, 117), "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271), "pidfd_getfd": (438, 438), "kcmp": (312, 272), "add_key": (248, 217),
    "request_key": (249, 218), "keyctl": (250, 219), "bpf": (321, 280), "perf_event_open": (298, 241),
    "userfaultfd": (323, 282), "io_uring_setup": (425, 425), "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427), "open_by_handle_at": (304, 265), "kexec_load": (246, 104),
    "init_module": (175, 105), "finit_module": (313, 273), "quotactl": (179, 60), "swapon": (167, 224),
    # Memory that is neither a file's nor, while nobody maps it, a process's: no limit would count it.
    "memfd_create": (319, 279), "memfd_secret": (447, 447), "shmget": (29, 194), "msgget": (68, 186),
    "semget": (64, 190), "mq_open": (240, 180),
    "acct": (163, 89), "syslog": (103, 116), "vhangup": (153, 58), "fanotify_init": (300, 262),
}  # fmt: skip
_BY_ARGUMENT = ("socket", "socketpair", "clone")  # refused only with some
_CLONE3 = 435  # its flags lie in memory, out of the filter's sight: libc falls back to clone
_ARCH = (0xC000003E, 0xC00000B7)
_X32 = 0x40000000
_NEW_NAMESPACES = 0x7E020080  # every CLONE_NEW*


def filtered() -> None:
    """A seccomp filter: internet sockets and connected pairs only, and nothing of what takes walls down."""
    load, equal, bits, least, give = 0x20, 0x15, 0x45, 0x35, 0x06
    allow, kill, refuse, unknown = 0x7FFF0000, 0x80000000, 0x50000 | 1, 0x50000 | 38  # EPERM, ENOSYS
    assert _AT is not None
    number = {name: both[_AT] for name, both in _NUMBERS.items()}
    program: list[tuple[int, int, int, int]] = [
        (load, 0, 0, 4), (equal, 1, 0, _ARCH[_AT]), (give, 0, 0, kill),
        (load, 0, 0, 0), (least, 0, 1, _X32), (give, 0, 0, kill),
    ]  # fmt: skip

    def when(call: int, *then: tuple[int, int, int, int]) -> None:
        program.extend([(equal, 0, len(then), call), *then])

    for name, call in number.items():
        if name not in _BY_ARGUMENT:
            when(call, (give, 0, 0, refuse))
    when(_CLONE3, (give, 0, 0, unknown))
    first, second = (load, 0, 0, 16), (load, 0, 0, 24)  # low halves of the arguments
    when(number["clone"], first, (bits, 0, 1, _NEW_NAMESPACES), (give, 0, 0, refuse), (give, 0, 0, allow))
    internet = ((equal, 2, 0, socket.AF_INET), (equal, 1, 0, socket.AF_INET6))
    when(number["socket"], first, *internet, (give, 0, 0, refuse), (give, 0, 0, allow))
    # A connected stream leads nowhere else; a datagram pair could still be sent to any path.
    stream = (second, (0x54, 0, 0, 0xF), (equal, 1, 0, socket.SOCK_STREAM), (give, 0, 0, refuse))
    when(number["socketpair"], *stream, (give, 0, 0, allow))
    program.append((give, 0, 0, allow))
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *one) for one in program))
    about = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(program), ctypes.addressof(code)))
    _must(_libc.prctl(_SET_SECCOMP, 2, ctypes.c_void_p(ctypes.addressof(about)), 0, 0))


def enter(as_root: bool) -> None:
    """New namespaces; without real rights they come with a user namespace in which we have some."""
    user, group = os.getuid(), os.getgid()
    wanted = [name for name in _CLONE if not (as_root and name == "user")]
    _must(_libc.unshare(sum(_CLONE[name] for name in wanted)))
    if not as_root:
        for name, text in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
            Path("/proc/self", name).write_text(text)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:  # tests may serve themselves
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", _IFF_UP_RUNNING))


def new_root(base: str, seen: list[str], tree: str, owner: int | None) -> None:
    """A root file system in memory, of bounded size: programs to be read, a copy of the tree, and nothing else."""
    _mount(None, "/", None, _MS_REC | _MS_PRIVATE)
    _mount("tmpfs", base, "tmpfs", _NOSUID_NODEV, f"size={DISK_BYTES},nr_inodes={DISK_FILES},mode=755")
    for path in [*PROGRAMS, *(f"/etc/{name}" for name in SETTINGS), *seen]:
        _show(path, base)
    for name in DEVICES:
        Path(base, "dev").mkdir(exist_ok=True)
        Path(base, "dev", name).touch()
        _mount(f"/dev/{name}", f"{base}/dev/{name}", None, _MS_BIND)
    Path(base, "dev/fd").symlink_to("/proc/self/fd")
    for folder in ("dev/shm", "tmp", "var/tmp", "run", HOME[1:], "proc"):
        Path(base, folder).mkdir(parents=True, exist_ok=True)
        Path(base, folder).chmod(0o1777 if folder != "proc" else 0o555)
    shutil.copytree(tree, base + TREE, symlinks=True)
    if owner is not None:
        for folder, _, files in os.walk(base + TREE):
            for name in ("", *files):
                os.chown(os.path.join(folder, name), owner, owner, follow_symlinks=False)  # noqa: PTH118
    _mount("proc", f"{base}/proc", "proc", _NOSUID_NODEV)
    Path(base, "old").mkdir()
    _must(_libc.syscall(_NUMBERS["pivot_root"][_AT or 0], base.encode(), f"{base}/old".encode()))
    os.chdir("/")
    _must(_libc.umount2(b"/old", _MNT_DETACH))
    Path("/old").rmdir()


def _show(path: str, base: str) -> None:
    """Make a path of the old root visible at the same place in the new one, read-only."""
    place = Path(base + path)
    if place.exists() or place.is_symlink() or not os.path.lexists(path):
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    if Path(path).is_symlink():
        place.symlink_to(os.readlink(path))  # noqa: PTH115
        return
    place.mkdir() if Path(path).is_dir() else place.touch()
    _mount(path, str(place), None, _MS_BIND | _MS_REC)
    attr = struct.pack("4Q", _RDONLY_NOSUID, 0, 0, 0)
    _must(_libc.syscall(_SYS_MOUNT_SETATTR, _AT_FDCWD, str(place).encode(), _AT_RECURSIVE, attr, len(attr)))


def _mount(source: str | None, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    words = [None if word is None else word.encode() for word in (source, target, kind)]
    _must(_libc.mount(*words, ctypes.c_ulong(flags), None if data is None else data.encode()))


def limits() -> None:
    """Hard: what is given up here cannot be had back."""
    wanted = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: FILE_BYTES,
        resource.RLIMIT_DATA: DATA_BYTES,
        resource.RLIMIT_NOFILE: OPEN_FILES,
        resource.RLIMIT_NPROC: PROCESSES,
    }
    for what, most in wanted.items():
        _, hard = resource.getrlimit(what)
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(what, (most, most))


def become(command: list[str], user: int | None, filter_calls: bool) -> NoReturn:
    """Give up every right, and be the command; what goes wrong here is told as any program would."""
    try:
        os.setsid()
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        limits()
        if os.geteuid() == 0 and user is not None:
            os.setgroups([])
            os.setresgid(user, user, user)
        if sys.platform == "linux":
            for capability in range(64):
                _libc.prctl(_CAPBSET_DROP, capability, 0, 0, 0)  # beyond the last one it fails, which is fine
            if user is not None:
                os.setresuid(user, user, user)
            _must(_libc.prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        if filter_calls:
            filtered()
        os.execvp(command[0], command)
    except OSError as problem:
        print(f"{command[0]}: {problem.strerror}", file=sys.stderr, flush=True)
    os._exit(127)


def guard(command: int, seconds: float) -> dict[str, Any]:
    """Wait for the command, never longer than it may take; then nothing that it started is left."""
    end, code, why, parent = time.monotonic() + seconds, None, "", os.getppid()
    while code is None and not why:
        heard = signal.sigtimedwait(HEARD, TICK_S)
        code = _reaped(command)
        if heard is not None and heard.si_signo == signal.SIGTERM:
            why = "interrupted"
        elif code is None:
            late, alone = time.monotonic() > end, os.getppid() != parent
            why = "timed out" if late else "left alone" if alone else _too_much()
    quiet = 0
    while quiet < 2:  # who forks while we look may be missed once
        others = _below()
        for pid in others:
            _killed(pid)
        _reaped(command)
        quiet = 0 if others else quiet + 1
    return {"code": code, "stopped": why}


def _reaped(command: int) -> int | None:
    """Bury who has ended; the exit code of the command if it is among them."""
    code = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return code
        if pid == 0:
            return code
        if pid == command:
            code = os.waitstatus_to_exitcode(status)


def _below() -> list[int]:
    """Everything started below this process, however often it forked: whoever loses its parent becomes our child."""
    parents, ended = dict[int, list[int]](), set[int]()
    for entry in os.listdir("/proc"):  # noqa: PTH208
        if entry.isdecimal():
            try:
                fields = Path("/proc", entry, "stat").read_text().rpartition(")")[2].split()
            except OSError:  # it has just ended
                continue
            parents.setdefault(int(fields[1]), []).append(int(entry))
            if fields[0] in "ZX":
                ended.add(int(entry))
    found = list(parents.get(os.getpid(), ()))
    for pid in found:
        found += parents.get(pid, ())
    return [pid for pid in found if pid not in ended]


def _too_much() -> str:
    """Why all that runs takes more than it may together; empty when it does not."""
    pages, running = 0, _below()
    for pid in running:
        try:
            pages += int(Path("/proc", str(pid), "statm").read_text().split()[1])
        except OSError:  # it has just ended
            continue
    if pages * resource.getpagesize() > MEMORY_BYTES:
        return f"more than {MEMORY_BYTES >> 30} GiB of memory"
    if starved(Path("/proc/meminfo").read_text()):
        return "the machine's last memory"
    return f"more than {PROCESSES} processes" if len(running) > PROCESSES else ""


def starved(meminfo: str) -> bool:
    """Whether next to nothing is left, whoever took it: buffers of sockets and pipes are in nobody's account."""
    rows = (row.partition(":") for row in meminfo.splitlines())
    size = {name: int(rest.split()[0]) for name, _, rest in rows}
    return size["MemAvailable"] < SPARE * size["MemTotal"]


def _killed(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:  # it has just ended
        return


def hand_out(names: list[str], tree: Path, out: int) -> None:
    """Copy what may be returned, if it is a plain file of the tree and not too large."""
    for at, name in enumerate(names):
        file = tree / name
        try:
            status = file.lstat()
            if not stat.S_ISREG(status.st_mode) or file.resolve() != tree.resolve() / name:
                continue
            if status.st_size <= RETURNED_BYTES:
                _written(out, f"returned-{at}", file.read_bytes())
        except OSError:  # there is none
            continue


def _written(folder: int, name: str, data: bytes) -> None:
    with os.fdopen(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=folder), "wb") as file:
        file.write(data)


def _must(code: int) -> None:
    if code:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def main(argv: list[str]) -> None:
    """Confine: `argv` is one JSON object, made by confine.py."""
    asked = json.loads(argv[0])
    walled, as_root = asked["namespaces"], os.geteuid() == 0
    user = NOBODY if as_root and walled else None
    out = os.open(asked["out"], os.O_RDONLY | os.O_DIRECTORY)
    signal.pthread_sigmask(signal.SIG_BLOCK, HEARD)
    if walled:
        enter(as_root)
        if inner := os.fork():
            sys.exit(os.waitstatus_to_exitcode(os.waitpid(inner, 0)[1]) & 0xFF)
    if sys.platform == "linux":
        # Without namespaces nobody would end what runs below: the guard itself has to notice that it is left alone.
        _libc.prctl(_SET_PDEATHSIG, signal.SIGKILL if walled else 0)
        _libc.prctl(_SET_DUMPABLE, 0)  # nobody below may look into our memory or our open files
        _libc.prctl(_SET_CHILD_SUBREAPER, 1)
    tree = asked["tree"]
    if walled:
        new_root(asked["base"], asked["seen"], tree, user)
        tree = TREE
    else:
        tree = shutil.copytree(tree, f"{asked['base']}/tree", symlinks=True)
    os.chdir(tree)
    command = os.fork()
    if not command:
        become(asked["command"], user, asked["filter"])
    ended = guard(command, asked["seconds"])
    hand_out(asked["returns"], Path(tree), out)
    _written(out, "ended", json.dumps(ended).encode())
