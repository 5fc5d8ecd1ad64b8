"""What foreign code tries behind the walls, each as a line of Python that fails where the wall holds.

Not only run by tests: `make torture` counts them. `names` are what the lines may use; the first part of this file is
what they are run in.
"""

from __future__ import annotations

import json
import os
import platform
import socket
from pathlib import Path

import pytest

from meta.patches import confine
from tests.conftest import REPOSITORY

SECRET = "sk-1234567890abcdefghij"

FRAME = """
import contextlib, ctypes, glob, json, os, pathlib, pwd, resource, signal, socket, struct, subprocess, sys
outside, port, pid, home, checkout = sys.argv[1:]
port, pid = int(port), int(pid)
libc = ctypes.CDLL(None, use_errno=True)

def call(number, *args):
    if libc.syscall(number, *args) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

def must(value):
    if not value:
        raise OSError("nothing there")

def filled(path, size):
    with open(path, "wb") as file:
        os.posix_fallocate(file.fileno(), 0, size)

def knock(family, kind, *address):
    with socket.socket(family, kind) as one:
        one.settimeout(2)
        for where in address:
            one.connect(where)

got = {}
for name, line in json.load(open("tries.json")).items():
    try:
        exec(line)
        got[name] = True
    except (OSError, LookupError, MemoryError, ValueError, subprocess.SubprocessError):
        got[name] = False
    for left in filter(os.path.isfile, glob.glob("/tmp/*")):
        os.remove(left)
json.dump(got, open("got", "w"))
"""

X86 = {
    "unshare": "call(272, 0x10000000)",
    "clone into a new user namespace": "call(56, 0x10000000 | 17, 0, 0, 0, 0)",
    "clone3": "call(435, ctypes.create_string_buffer(88), 88)",
    "setns": "call(308, os.open('/proc/self/ns/net', 0), 0)",
    "mount": "call(165, b'x', b'/tmp', b'tmpfs', 0, 0)",
    "umount /usr": "call(166, b'/usr', 2)",
    "make /usr writable again": "call(442, -100, b'/usr', 0x8000, struct.pack('4Q', 0, 1, 0, 0), 32)",
    "chroot": "call(161, b'/tmp')",
    "pivot_root": "call(155, b'/tmp', b'/tmp')",
    "io_uring, which opens sockets past the filter": "call(425, 8, ctypes.create_string_buffer(120))",
    "the keys of the session": "call(250, 0, -3, 1)",
    "bpf": "call(321, 0, ctypes.create_string_buffer(64), 64)",
    "perf_event_open": "call(298, ctypes.create_string_buffer(128), 0, -1, -1, 0)",
    "userfaultfd": "call(323, 0)",
    "memory in a nameless file": "call(319, b'x', 0)",
    "memory that the kernel itself cannot see": "call(447, 0)",
    "shared memory that outlives its owner": "call(29, 0, 200 << 20, 0o1600)",
    "a queue of messages": "call(68, 0, 0o1600)",
    "a queue with a name": "call(240, b'x', 0o102, 0o600, 0)",
    "a semaphore": "call(64, 0, 1, 0o1600)",
    "another kind of machine": "call(272, 0x4000000)",
    "the mounts of another": "call(433, -100, b'/', 0)",
    "open_by_handle_at": "call(304, os.open('/', 0), ctypes.create_string_buffer(16), 0)",
    "ptrace the guard": "call(101, 16, 1, 0, 0)",
    "read the guard's memory": "b = ctypes.create_string_buffer(16); call(310, 1, b, 1, b, 1, 0)",
    "take the guard's open files": "call(438, os.pidfd_open(1), 0, 0)",
}

TRIES = {
    "a secret in the environment": "must([v for k, v in os.environ.items() if 'KEY' in k or 'sk-' in v])",
    "a secret in our environment": "pathlib.Path(f'/proc/{pid}/environ').read_bytes()",
    "a secret in the guard's environment": "pathlib.Path('/proc/1/environ').read_bytes()",
    "the guard's root": "os.listdir('/proc/1/root')",
    "the guard's open files": "os.listdir('/proc/1/fd')",
    "another process": "must([p for p in os.listdir('/proc') if p.isdecimal() and int(p) not in (1, os.getpid())])",
    "kill us": "os.kill(pid, 0)",
    "kill the guard": "os.kill(1, signal.SIGKILL)\nmust(not os.path.exists('/proc/1'))",
    "a file outside": "open(outside + '/secret').read()",
    "write outside": "open(outside + '/planted', 'w')",
    "a home": "must([f for f in ('.ssh', '.bashrc', '.profile', '.cache') if os.path.exists(f'{home}/{f}')])",
    "the checkout": "must(set(os.listdir(checkout)) - {'.venv'})",
    "its history": "must(os.listdir(checkout + '/.git'))",
    "write to programs": "open('/usr/planted', 'w')",
    "write to the interpreter": "open(sys.prefix + '/planted', 'w')",
    "passwords": "open('/etc/shadow').read()",
    "something in /run": "must(os.listdir('/run') + glob.glob('/var/run/*'))",
    "something in /tmp": "must([n for n in os.listdir('/tmp') if not sys.prefix.startswith(f'/tmp/{n}')])",
    "a kernel setting": "open('/proc/sys/kernel/hostname', 'w').write('x')",
    "sysrq": "open('/proc/sysrq-trigger', 'w').write('b')",
    "kernel memory": "open('/dev/mem', 'rb')",
    "kernel log": "open('/dev/kmsg', 'rb')",
    "a disk": "must(glob.glob('/dev/[svx]d*') + glob.glob('/dev/nvme*'))",
    "a terminal": "open('/dev/tty')",
    "make a device": "os.mknod('/tmp/disk', 0o60600, os.makedev(8, 0)); open('/tmp/disk', 'rb')",
    "a socket by its path": "knock(socket.AF_UNIX, socket.SOCK_STREAM, outside + '/door')",
    "an abstract socket": "knock(socket.AF_UNIX, socket.SOCK_STREAM, f'\\0ratchet-door-{pid}')",
    "a local datagram socket": "socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)",
    "a pair of datagram sockets": "socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0]",
    "netlink": "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)",
    "raw packets": "socket.socket(socket.AF_PACKET, socket.SOCK_RAW)",
    "the host of a virtual machine": "socket.socket(40, socket.SOCK_STREAM)",
    "the kernel's ciphers": "socket.socket(38, socket.SOCK_SEQPACKET)",
    "our loopback": "knock(socket.AF_INET, socket.SOCK_STREAM, ('127.0.0.1', port))",
    "the network": "knock(socket.AF_INET, socket.SOCK_STREAM, ('192.0.2.1', 80))",
    "the network by datagrams": "knock(socket.AF_INET, socket.SOCK_DGRAM, ('192.0.2.1', 53))",
    "the cloud's metadata": "knock(socket.AF_INET, socket.SOCK_STREAM, ('169.254.169.254', 80))",
    "names": "socket.getaddrinfo('example.com', 80)",
    "become root": "os.setuid(0); must(open('/proc/self/status').read().count('CapEff:\\t0000000000000000') == 0)",
    "sudo": "subprocess.run(['sudo', '-n', 'true'], check=True)",
    "supplementary groups": "os.setgroups([0])",
    "more files than allowed": "resource.setrlimit(resource.RLIMIT_NOFILE, (99999, 99999))",
    "more processes than allowed": "resource.setrlimit(resource.RLIMIT_NPROC, (99999, 99999))",
    "a larger file than allowed": "resource.setrlimit(resource.RLIMIT_FSIZE, (-1, -1))",
    "a capability": "must(any(int(l.split()[1], 16) for l in open('/proc/self/status') if l.startswith('Cap')))",
    "fill the disk": "for n in range(9): filled(f'/tmp/{n}', 200 << 20)",
    "fill it with names": "must(os.statvfs('/tmp').f_files == 0 or os.statvfs('/tmp').f_files > 1_000_000)",
    "one large file": "filled('/tmp/large', 300 << 20)",
    "memory": "b = bytearray(5 << 30)",
}  # fmt: skip

ALL = {**TRIES, **(X86 if platform.machine() == "x86_64" else {})}


def tried(home: Path) -> dict[str, bool]:
    """What an intruder got through, of all that was tried at once; `home` is a folder outside the walls."""
    outside, tree = home / "outside", home / "tree"
    for folder in (outside, tree):
        folder.mkdir()
    (outside / "secret").write_text(SECRET)
    (tree / "tries.json").write_text(json.dumps(ALL))
    with (
        pytest.MonkeyPatch.context() as patch,
        socket.create_server(("127.0.0.1", 0)) as port,
        socket.socket(socket.AF_UNIX) as door,
        socket.socket(socket.AF_UNIX) as hidden,
    ):
        patch.setenv("OPENAI_API_KEY", SECRET)
        door.bind(str(outside / "door"))
        hidden.bind(f"\0ratchet-door-{os.getpid()}")
        for one in (door, hidden):
            one.listen()
        about = [outside, port.getsockname()[1], os.getpid(), Path.home(), REPOSITORY]
        command = [confine.PYTHON, "-I", "-c", FRAME, *map(str, about)]
        ran = confine.run(command, tree, 120, ["got"])
    assert ran.outcome == confine.OK, ran.tail
    assert not (outside / "planted").exists()
    found: dict[str, bool] = json.loads(ran.returned["got"])
    return found
