"""A PostgreSQL server of the test's own, on a socket in a temporary folder; root lets another user run it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

HOMES = [Path("/usr/lib/postgresql")]


def binaries() -> Path | None:
    """The folder of a server's programs, if there is one on this machine."""
    found = sorted((path for home in HOMES for path in home.glob("*/bin/initdb")), reverse=True)
    named = shutil.which("initdb")
    return found[0].parent if found else Path(named).parent if named else None


@dataclass(slots=True)
class Server:
    """A running server."""

    folder: Path
    programs: Path
    process: subprocess.Popen[bytes] | None = None

    @property
    def dsn(self) -> str:
        return f"host={self.folder} user=ratchet dbname=postgres"

    def start(self) -> None:
        data = self.folder / "data"
        options = [
            "-k",
            str(self.folder),
            "-c",
            "listen_addresses=",
            "-c",
            "fsync=off",
            "-c",
            "max_wal_size=4GB",
        ]
        log = (self.folder / "log").open("ab")
        program = str(self.programs / "postgres")
        self.process = subprocess.Popen(
            [program, "-D", str(data), *options], stdout=log, stderr=log, **_user()
        )
        ready = [str(self.programs / "pg_isready"), "-q", "-h", str(self.folder)]
        for _ in range(600):
            if subprocess.run(ready, check=False).returncode == 0:
                return
            time.sleep(0.05)
        raise RuntimeError((self.folder / "log").read_text())

    def kill(self) -> None:
        """As a power cut would: nothing is said goodbye to."""
        if self.process is not None:
            self.process.send_signal(signal.SIGQUIT)
            self.process.wait()
            self.process = None


def _user() -> dict[str, str]:
    return {"user": "nobody"} if os.geteuid() == 0 else {}


@contextmanager
def server() -> Iterator[Server]:
    """Made, started, and gone at the end."""
    programs = binaries()
    assert programs is not None
    with tempfile.TemporaryDirectory(prefix="ratchet-pg-", dir="/tmp") as folder:
        if os.geteuid() == 0:
            shutil.chown(folder, "nobody")
        made = [
            str(programs / "initdb"),
            "-D",
            f"{folder}/data",
            "-U",
            "ratchet",
            "-A",
            "trust",
            "-N",
            "-E",
            "UTF8",
        ]
        subprocess.run([*made, "--locale=C"], check=True, capture_output=True, **_user())
        running = Server(Path(folder), programs)
        running.start()
        try:
            yield running
        finally:
            running.kill()
