"""One bad line stops nothing: counted, skipped, and every good row is still there, whoever reads."""

from __future__ import annotations

import json
from pathlib import Path

import orjson
import pytest

from meta import retirement
from telemetry import plots, retention, rollup, summarize
from telemetry.edge import cli
from tests.worlds.broken_lines import BROKEN
from tests.worlds.eventlog import events

LARGE = {name for name in BROKEN if "MB" in name or "million" in name or "200,000" in name}
GOOD = [orjson.dumps(one) for one in events(60, days=2)]


def count(root: Path) -> tuple[int, int]:
    assert rollup.main(["--last-n", "0", "--quiet", "--root", str(root)]) == cli.OK
    summary = json.loads((root / "telemetry/summary.json").read_text())
    return summary["count"], summary["malformed_lines"]


def logged(root: Path, lines: list[bytes]) -> None:
    (root / "telemetry/events.jsonl").write_bytes(b"\n".join([*GOOD[:30], *lines, *GOOD[30:]]) + b"\n")


def test_every_reader_and_the_sealer_come_through_all_kinds_at_once(toy: Path) -> None:
    lines = [make() for name, make in BROKEN.items() if name not in LARGE]
    logged(toy, lines)
    before = count(toy)
    assert before[0] >= len(GOOD) and before[1] > len(lines) / 2
    for script, argv in (
        (summarize, []),
        (plots, ["--last-n", "0"]),
        (retirement, []),
        (retention, ["seal"]),
    ):
        assert script.main([*argv, "--quiet", "--root", str(toy)]) == cli.OK, script.__name__  # type: ignore[attr-defined]
    assert (toy / "telemetry/sealed").is_dir() and count(toy) == before


@pytest.mark.parametrize("name", ["50 MB", "40 MB without a quote"])
def test_a_line_that_no_engine_takes_is_one_malformed_line(toy: Path, name: str) -> None:
    logged(toy, [BROKEN[name]()])
    assert count(toy) == (60, 1)
    assert retention.main(["seal", "--quiet", "--root", str(toy)]) == cli.OK
    assert count(toy) == (60, 1)
