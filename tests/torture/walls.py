"""Who is behind the walls gets nothing, and no patch that reaches for more than plain computing, or cheats, passes."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from meta.patches import confine
from tests.conftest import REPOSITORY
from tests.torture import Clock, Figure
from tests.worlds import hostile_code, intrusions

PROBES = 37  # 22 that once found 7 holes, and 15 more; there are more by now
PATCHES = 250
# Whole patches through the real sandbox: hostile files, forged results, answers read or known by heart.
SANDBOX = "tests/meta/test_sandbox.py"


def run(clock: Clock) -> list[Figure]:
    """Every intrusion once, every hostile line once, and the cheats."""
    figures = [_probes()]
    ways = {line: hostile_code.refusals(line) for line in hostile_code.HOSTILE}
    through = [line for line, why in ways.items() if not why or why[0].startswith("is not Python")]
    figures.append(
        Figure("hostile patches refused", len(ways) - len(through), len(ways), PATCHES, tuple(through))
    )
    return [*figures, _cheats()]


def _probes() -> Figure:
    if not confine.probe().complete:
        return Figure("probes behind walls held", 0, 0, PROBES, (confine.probe().told,))
    with tempfile.TemporaryDirectory(prefix="ratchet-walls-") as folder:
        got = intrusions.tried(Path(folder))
    through = tuple(name for name, there in got.items() if there)
    return Figure("probes behind walls held", len(got) - len(through), len(got), PROBES, through)


def _cheats() -> Figure:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", SANDBOX, "-p", "no:cacheprovider", "--tb=line"],
        cwd=REPOSITORY, capture_output=True, text=True,
    )  # fmt: skip
    counted = {word: int(count) for count, word in re.findall(r"(\d+) (passed|failed|error)", done.stdout)}
    failed = tuple(line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR")))
    held = counted.get("passed", 0)
    return Figure("tests of patches that cheat or break", held, held + len(failed), 60, failed)
