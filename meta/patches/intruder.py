"""What somebody behind the walls would try first: `probe` runs this there, and believes only what it finds.

Called with a folder outside that holds a file `secret` and a socket `door`, a port that is served outside, and the
process id of whoever started it. Writes which walls it got through to `got`: {"network": true, ...}.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def got(*tries: Callable[[], object]) -> bool:
    """Whether one of them works."""
    for one in tries:
        with contextlib.suppress(OSError):
            one()
            return True
    return False


def main(folder: str, port: str, pid: str) -> None:
    unix, out = socket.AF_UNIX, Path(folder)

    def knock(family: int, address: Any, kind: int = socket.SOCK_STREAM) -> None:
        with socket.socket(family, kind) as one:
            one.connect(address)

    found = {
        "network": got(
            lambda: knock(socket.AF_INET, ("127.0.0.1", int(port))),
            lambda: knock(socket.AF_INET, ("192.0.2.1", 9), socket.SOCK_DGRAM),
        ),
        "processes": got(lambda: os.kill(int(pid), 0), lambda: Path("/proc", pid, "environ").read_bytes()),
        "files": got(
            lambda: (out / "secret").read_text(),
            lambda: (out / "planted").write_text("x"),
            lambda: Path("/usr/planted-by-ratchet").write_text("x"),
        ),
        "sockets": got(
            lambda: knock(unix, f"{folder}/door"),
            lambda: socket.socket(unix, socket.SOCK_DGRAM).close(),
            lambda: socket.socketpair(unix, socket.SOCK_DGRAM)[0].close(),
            lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW).close(),
        ),
    }
    Path("got").write_text(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
