"""Isolation for every test: a root of its own, no key, no GitHub, no proxy."""

from __future__ import annotations

import os
import py_compile
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import MAGIC_NUMBER, cache_from_source, source_hash
from pathlib import Path
from typing import Any

import pytest

sys.dont_write_bytecode = (
    False  # what pytest compiles is kept until the tests begin, whatever the environment says
)
from hypothesis import HealthCheck, settings  # noqa: E402

from telemetry.edge.files import working_in  # noqa: E402

REPOSITORY = Path(__file__).resolve().parent.parent
PACKAGES = ("telemetry", "agents", "eval", "meta")
CHECKED_HASH = (3).to_bytes(4, "little")  # the flags of a compiled file that is compared with its source
ONE_WORLD = ("tests/meta/face/", "tests/torture/")  # folders whose files share a lived checkout
LONGEST_FIRST = (
    "tests/github/",
    "tests/torture/",
    "tests/market/",
    "tests/meta/",
    "tests/telemetry/",
    "tests/eval/",
)
_FOREIGN = ("OPENAI_", "GITHUB_", "RATCHET_", "TELEMETRY_", "OTEL_", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")

# A script that a test rewrites within a second is run as it is now.
os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
os.environ["GIT_TEMPLATE_DIR"] = ""  # no sample hooks in the hundreds of small repositories


def _memory() -> str | None:
    """A file system in memory with room for every world, if this machine has one that may run what stands there."""
    try:
        about = os.statvfs("/dev/shm")
    except (AttributeError, OSError):
        return None
    roomy = about.f_bavail * about.f_frsize >= 4 * 2**30
    usable = os.access("/dev/shm", os.W_OK) and not about.f_flag & (os.ST_NOEXEC | os.ST_RDONLY)
    return "/dev/shm" if roomy and usable else None


if (
    memory := _memory()
):  # half of the system's time otherwise goes into small files that nobody will read again
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", memory)

# A busy machine is no reason to fail: nothing here is timed. Nor is bad luck, on somebody else's change: examples are
# the same every time, and `pytest --hypothesis-profile=anew` looks for others.
settings.register_profile("anew", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("untimed", settings.get_profile("anew"), derandomize=True)
settings.load_profile("untimed")


# What people and the loop change: a test of the engine that stood on it would break when a proposal is merged.
CONTENT = tuple(
    f"{REPOSITORY}/{path}"
    for path in (
        "agents/manifest.yaml", "agents/prompts/", "agents/schemas/", "agents/sample/", "agents/market/",
        "eval/suites/", "eval/baselines/", "eval/cases/", "meta/decisions/", "meta/reports/",
        "telemetry/outcomes.jsonl",
    )
)  # fmt: skip
_watched: list[str] = []  # the test of the engine that runs now


def _no_content(event: str, args: tuple[object, ...]) -> None:
    """Refuse to open, or to link to, what is no source file of the engine."""
    if _watched and event in ("open", "os.symlink") and isinstance(args[0], str):
        path = args[0] if args[0].startswith("/") else str(Path.cwd() / args[0])
        if path.startswith(CONTENT) and not path.endswith((".py", ".pyc")):
            raise AssertionError(f"{_watched[-1]} reads {path}: build a small world instead (tests/worlds)")


sys.addaudithook(_no_content)


def pytest_configure(config: pytest.Config) -> None:
    """Compile the packages once, so that not every process that a test starts has to.

    By the hash of their text, not by their time: what is compiled here holds in every copy of the tree as well.
    """
    if hasattr(config, "workerinput"):
        return
    for source in (file for name in PACKAGES for file in (REPOSITORY / name).rglob("*.py")):
        kept = Path(cache_from_source(source))
        wanted = MAGIC_NUMBER + CHECKED_HASH + source_hash(source.read_bytes())
        if not kept.exists() or kept.read_bytes()[:16] != wanted:
            with suppress(OSError):  # a tree that may not be written to
                by_hash = py_compile.PycInvalidationMode.CHECKED_HASH
                py_compile.compile(str(source), invalidation_mode=by_hash, quiet=2)


def pytest_collection_finish() -> None:
    sys.dont_write_bytecode = True


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Half as many again as there are cores: many tests wait for a process or a time limit (260 s instead of 304)."""
    return max(1, (os.cpu_count() or 1) * 3 // 2)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give a worker whole files, or it would build the worlds that their tests share once more."""
    from xdist.scheduler import LoadScopeScheduling

    class ByWorld(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            return next((folder for folder in ONE_WORLD if file.startswith(folder)), file)

    config.option.loadscopereorder = False  # by the number of tests: the long stories are one test each
    return ByWorld(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes long, so that no worker is left with it when the others are done."""
    last = len(LONGEST_FIRST)
    items.sort(
        key=lambda item: next(
            (n for n, path in enumerate(LONGEST_FIRST) if item.nodeid.startswith(path)), last
        )
    )


def pytest_itemcollected(item: pytest.Item) -> None:
    """No browser starts behind walls."""
    if "browser" in getattr(item, "fixturenames", ()):
        item.add_marker("outside")


def pytest_runtest_logstart(nodeid: str) -> None:
    """Tests of the engine stand on worlds of their own; those of the example are in tests/market."""
    _watched[:] = [] if nodeid.startswith("tests/market/") else [nodeid]


def pytest_runtest_logfinish() -> None:
    _watched.clear()


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty checkout; whatever the test logs or writes lands there."""
    for name in list(os.environ):
        if name.upper().startswith(_FOREIGN):
            monkeypatch.delenv(name)
    (tmp_path / "telemetry").mkdir()
    with working_in(tmp_path):
        yield tmp_path


@pytest.fixture
def toy(root: Path) -> Path:
    """That checkout filled: the rivers, their agents, prompts and suites."""
    from tests.worlds import world

    return world.toy(root)


@pytest.fixture
def repository() -> Path:
    """The real checkout: source files of the engine, never what people or the loop change."""
    return REPOSITORY
