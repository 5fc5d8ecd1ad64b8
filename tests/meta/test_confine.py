"""What a confined command cannot do."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from meta import sandbox
from meta.patches import confine, confined
from meta.patches.confine import Walls
from telemetry.edge import cli
from telemetry.edge.files import here
from tests.worlds.intrusions import ALL, SECRET, tried

# One worker, in which an intruder tries everything once.
pytestmark = pytest.mark.outside


def python(code: str, folder: Path, limit: float = 60.0, *returns: str) -> confine.Ran:
    return confine.run([sys.executable, "-I", "-c", code], folder, limit, returns)


def needs_walls() -> None:
    if not confine.probe().complete:
        pytest.skip(f"this platform: {confine.probe().told}")


@pytest.fixture(scope="module")
def got(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bool]:
    """What an intruder got through, of all that was tried at once."""
    needs_walls()
    return tried(tmp_path_factory.mktemp("intruder"))


@pytest.mark.parametrize("name", ALL)
def test_an_intruder_does_not_get(got: dict[str, bool], name: str) -> None:
    assert got[name] is False


def test_it_may_serve_itself_and_its_own_processes(root: Path) -> None:
    code = (
        "import asyncio, multiprocessing, socket, subprocess, tempfile\n"
        "server = socket.create_server(('127.0.0.1', 0))\n"
        "socket.create_connection(server.getsockname()).close()\n"
        "asyncio.run(asyncio.sleep(0))\n"
        "multiprocessing.Pool(1).map(abs, [1])\n"
        "open(tempfile.mktemp(), 'w').write(subprocess.check_output(['echo', 'hello'], text=True))\n"
        "print('works')"
    )
    assert "works" in python(code, root).tail


def test_it_works_on_a_copy_of_which_only_what_was_asked_for_comes_back(root: Path) -> None:
    (root / "given").write_text("given")
    code = "open('a', 'w').write(open('given').read()); open('b', 'w'); import os; os.remove('given')"
    ran = python(code, root, 30, "a", "missing")
    assert ran.returned == {"a": b"given"}
    assert [path.name for path in root.iterdir() if path.is_file()] == ["given"]


@pytest.mark.parametrize("walls", [None, Walls(sockets=True), Walls()], ids=["walls", "filter", "none"])
def test_nothing_comes_back_through_a_link(
    root: Path, tmp_path_factory: pytest.TempPathFactory, walls: Walls | None
) -> None:
    secret = tmp_path_factory.mktemp("outside") / "secret"
    secret.write_text(SECRET)
    links = f"import os; os.symlink({str(secret)!r}, 'a'); os.symlink({str(secret.parent)!r}, 'b')"
    ran = confine.run([sys.executable, "-c", links], root, 30, ["a", "b/secret", "../secret"], walls=walls)
    assert ran.outcome == confine.OK and ran.returned == {}


FORKS = """
import os, sys, time
for depth in range(3):
    if os.fork():
        time.sleep(60 if depth == 0 and {waits} else 0); os._exit(0)
    os.setsid()
os.environ.clear()
sys.stdin.close(); sys.stdout.close()
time.sleep(0.9)
open({late!r}, "w")
"""


@pytest.mark.parametrize("waits", [True, False], ids=["at the time limit", "when it ends"])
@pytest.mark.parametrize("walls", [None, Walls(sockets=True)], ids=["walls", "no namespaces"])
def test_nothing_survives_by_forking_twice(
    root: Path, tmp_path_factory: pytest.TempPathFactory, walls: Walls | None, waits: bool
) -> None:
    late = tmp_path_factory.mktemp("outside") / "late"
    code = FORKS.format(waits=waits, late=str(late))
    ran = confine.run([sys.executable, "-c", code], root, 0.6 if waits else 30.0, walls=walls)
    assert ran.outcome == (confine.TIMED_OUT if waits else confine.OK)
    time.sleep(1.0)
    assert not late.exists()


def test_many_processes_are_too_many(root: Path) -> None:
    needs_walls()
    code = "import os, time\nfor n in range(2000):\n    if not os.fork(): time.sleep(60); os._exit(0)"
    ran = python(code, root)
    assert ran.outcome == confine.FAILED
    assert "Resource temporarily unavailable" in ran.tail or "more than 512 processes" in ran.tail


RUNNER = """
import sys; from pathlib import Path; from meta.patches import confine
confine.run([sys.executable, '-c', {code!r}], Path({tree!r}), 60)
"""


@pytest.mark.parametrize("walls", ["", "confine.probe = lambda: confine.Walls()\n"], ids=["walls", "none"])
def test_it_does_not_outlive_whoever_holds_it_to_its_limit(
    root: Path, tmp_path_factory: pytest.TempPathFactory, walls: str
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    code = f"print('started', flush=True); import time; time.sleep(1); open({str(outside / 'late')!r}, 'w')"
    runner = RUNNER.format(code=code, tree=str(root)).replace("confine\n", "confine\n" + walls, 1)
    env = {**os.environ, "TMPDIR": str(outside)}
    process = subprocess.Popen([sys.executable, "-c", runner], env=env)
    while not any("started" in log.read_text() for log in outside.glob("ratchet-confined-*/said")):
        assert process.poll() is None
        time.sleep(0.02)
    process.kill()
    process.wait()
    time.sleep(1.3)
    assert not (outside / "late").exists()


def test_a_flood_of_output_is_cut_to_its_end(root: Path) -> None:
    ran = python("for n in range(200_000): print('line', n)", root)
    assert ran.outcome == confine.OK and len(ran.tail) <= confine.TAIL_CHARS
    assert ran.tail.endswith("line 199999\n")


def test_a_program_that_does_not_exist_is_a_failure_that_says_so(root: Path) -> None:
    ran = confine.run(["no-such-program"], root, 30)
    assert ran.outcome == confine.FAILED and "no-such-program: No such file" in ran.tail


def test_without_walls_it_still_runs_clean_and_says_what_is_missing(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    ran = confine.run(["env"], root, 30, walls=Walls())
    assert ran.outcome == confine.OK and SECRET not in ran.tail and "PATH=" in ran.tail
    assert f"HOME={Path.home()}\n" not in ran.tail
    assert "no walls" in Walls().told and "not held: no network" in Walls().told
    assert "not held" not in Walls(True, True, True, True).told


def test_probe_believes_only_what_an_intruder_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Walls that are asked for and do not stand are not reported as held."""
    needs_walls()
    real = confine.run
    monkeypatch.setattr(
        confine, "run", lambda *words, walls=None, **more: real(*words, walls=Walls(sockets=True), **more)
    )
    assert confine._tried(Walls(True, True, True, True)) == Walls(sockets=True)


def test_without_walls_and_with_a_key_nothing_is_run(
    toy: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(confine, "probe", lambda: Walls(network=True))
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    assert sandbox.main(["--root", str(here().root), "--quiet"]) == cli.BAD_INPUT
    said = capsys.readouterr().err
    assert "OPENAI_API_KEY: unset it, or run where walls hold" in said and SECRET not in said
    assert said.count("\n") == 1


@pytest.mark.parametrize("walls", ["", "confine.probe = lambda: confine.Walls()\n"], ids=["walls", "none"])
def test_a_sigterm_leaves_no_process_and_no_file(
    root: Path, tmp_path_factory: pytest.TempPathFactory, walls: str
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    mark = f"mark-{os.urandom(8).hex()}"
    code = f"print('started', flush=True); import time; time.sleep(60); {mark!r}"
    runner = (
        RUNNER.format(code=code, tree=str(root)).replace(
            "\nconfine.run", f"\n{walls}def main(args, repo): confine.run"
        )
        + "from telemetry.edge import cli\nsys.exit(cli.entry(lambda: cli.Parser(''))(main)([]))"
    )
    env = {**os.environ, "TMPDIR": str(outside)}
    process = subprocess.Popen([sys.executable, "-c", runner], env=env, stderr=subprocess.PIPE, text=True)
    while not any("started" in log.read_text() for log in outside.glob("ratchet-confined-*/said")):
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=30)
    assert (process.returncode, said) == (cli.STOPPED, "stopped early: interrupted\n")
    assert list(outside.iterdir()) == []
    assert not [name for name in Path("/proc").glob("[0-9]*/cmdline") if mark in _text(name)]


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:  # it has just ended
        return ""


def test_an_interpreter_named_by_a_roundabout_way_stands_behind_the_walls(root: Path) -> None:
    needs_walls()
    about = os.path.relpath(sys.executable, root)
    code = "from meta.patches import confine; print(confine.probe().complete)"
    done = subprocess.run([about, "-c", code], capture_output=True, text=True, cwd=root)
    assert done.stdout == "True\n"


@pytest.mark.parametrize(("available", "expected"), [(19, True), (20, False), (1000, False)])
def test_memory_that_is_in_nobodys_account_runs_out_before_the_machine_does(
    available: int, expected: bool
) -> None:
    told = f"MemTotal:        1000 kB\nMemFree:            1 kB\nMemAvailable:    {available} kB\n"
    assert confined.starved(told) is expected
