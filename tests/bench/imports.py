"""A promptfoo config of a thousand tests becomes a pinned suite, start-up included."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import yaml

from tests.bench import Row
from tests.worlds import tickets, world

TESTS = 1000
TARGET_S = 2.0


def main() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        tickets.make(root)
        given = {"prompts": ["Add: {{question}}"], "tests": [_test(number) for number in range(TESTS)]}
        config = world.put(root, "promptfooconfig.yaml", yaml.safe_dump(given, sort_keys=False))
        start = time.perf_counter()
        list(yaml.load(config.read_text(), Loader=yaml.CSafeLoader))
        parsed = time.perf_counter() - start
        took = []
        for number in range(3):
            command = ["-m", "eval.scaffold", f"import_{number}", "--from", str(config), "--root", folder]
            start = time.perf_counter()
            subprocess.run([sys.executable, *command, "--quiet"], check=True)
            took.append(time.perf_counter() - start)
    best = min(took)
    return [
        Row(
            f"import of a promptfoo config of {TESTS:,} tests, start-up included",
            f"{best:.2f} s",
            f"{parsed:.2f} s (its YAML alone)",
            f"{best / parsed:.1f}x",
            f"<= {TARGET_S:g} s",
            best <= TARGET_S,
        )
    ]


def _test(number: int) -> dict[str, Any]:
    return {
        "description": f"Question number {number}",
        "vars": {"question": f"What is {number} plus {number}, in words?", "expected": str(2 * number)},
        "assert": [
            {"type": "contains", "value": "{{expected}}"},
            {"type": "llm-rubric", "value": "polite"},
            {"type": "not-contains", "value": "sorry"},
            {"type": "regex", "value": r"\d+"},
        ],
    }
