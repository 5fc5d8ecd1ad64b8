"""What a confined command cannot do."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from meta.patches import confine

SECRET = "sk-1234567890abcdefghij"


def python(code: str, folder: Path, limit: float = 30.0) -> confine.Ran:
    return confine.run([sys.executable, "-I", "-c", code], folder, limit)


def needs(wall: str) -> None:
    if not getattr(confine.probe(), wall):
        pytest.skip(f"this platform grants no wall around {wall}")


def test_it_finds_no_secret_in_its_environment(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "GITHUB_TOKEN", "BOT_TOKEN", "AWS_SECRET_ACCESS_KEY", "PYTHONPATH"):
        monkeypatch.setenv(name, SECRET)
    ran = confine.run(["env"], root, 30)
    assert ran.outcome == confine.OK
    assert SECRET not in ran.tail and "PATH=" in ran.tail
    assert f"HOME={Path.home()}\n" not in ran.tail


def test_it_finds_none_in_the_environment_of_its_parents_either(root: Path) -> None:
    needs("processes")
    code = "from pathlib import Path\nprint([int(p.name) for p in Path('/proc').iterdir() if p.name.isdecimal()])"
    seen = python(code, root).tail
    assert str(os.getpid()) not in seen.strip("[]\n").split(", ")
    assert len(seen.split(",")) <= 3


def test_it_is_stopped_at_the_time_limit_with_all_that_it_started(root: Path) -> None:
    started = time.monotonic()
    code = (
        "import subprocess, sys\n"
        "subprocess.Popen([sys.executable, '-c', \"import time; time.sleep(2); open('late', 'w')\"])\n"
        "while True: pass"
    )
    ran = python(code, root, 1.0)
    assert (ran.outcome, ran.code) == (confine.TIMED_OUT, None)
    assert time.monotonic() - started < 20
    time.sleep(1.5)
    assert not (root / "late").exists(), "a child outlived the command"


def test_it_does_not_outlive_whoever_holds_it_to_its_limit(root: Path) -> None:
    code = "open('started', 'w'); import time; time.sleep(2); open('late', 'w')"
    runner = (
        "import sys; from pathlib import Path; from meta.patches import confine\n"
        f"confine.run([sys.executable, '-c', {code!r}], Path({str(root)!r}), 60)"
    )
    process = subprocess.Popen([sys.executable, "-c", runner])
    while not (root / "started").exists():
        assert process.poll() is None
        time.sleep(0.02)
    process.kill()
    process.wait()
    time.sleep(2.5)
    assert not (root / "late").exists()


def test_it_reaches_no_network_but_itself(root: Path) -> None:
    needs("network")
    code = (
        "import socket\n"
        "server = socket.create_server(('127.0.0.1', 0))\n"
        "socket.create_connection(server.getsockname()).close()\n"
        "try: socket.create_connection(('192.0.2.1', 80), 2)\n"
        "except OSError as e: print('loopback works,', e.strerror)"
    )
    assert "loopback works, Network is unreachable" in python(code, root).tail


def test_it_writes_nothing_outside_its_folder(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    needs("files")
    outside = tmp_path_factory.mktemp("outside")
    assert python("open('inside', 'w')", root).outcome == confine.OK
    assert "Read-only file system" in python(f"open({str(outside / 'x')!r}, 'w')", root).tail
    assert (root / "inside").exists() and not (outside / "x").exists()


def test_it_has_no_privileges_to_take_the_walls_down(root: Path) -> None:
    status = python("print(open('/proc/self/status').read())", root).tail
    assert "NoNewPrivs:\t1" in status
    if confine.probe().files:
        assert "CapEff:\t0000000000000000" in status and "CapBnd:\t0000000000000000" in status


def test_a_flood_of_output_is_cut_to_its_end(root: Path) -> None:
    ran = python("for n in range(200_000): print('line', n)", root)
    assert ran.outcome == confine.OK and len(ran.tail) <= confine.TAIL_CHARS
    assert ran.tail.endswith("line 199999\n")


def test_a_program_that_does_not_exist_is_a_failure_that_says_so(root: Path) -> None:
    ran = confine.run(["no-such-program"], root, 30)
    assert ran.outcome == confine.FAILED and "No such file" in ran.tail


def test_without_walls_it_still_runs_clean_and_the_report_says_what_is_missing(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    ran = confine.run(["env"], root, 30, walls=confine.Walls())
    assert ran.outcome == confine.OK and SECRET not in ran.tail
    assert "no namespaces" in confine.Walls().told and "not held: no network" in confine.Walls().told
    assert "not held" not in confine.Walls(True, True, True).told
