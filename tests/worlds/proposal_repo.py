"""A small git checkout laid out like this repository, for tests of guard, hand-over and workflows."""

from __future__ import annotations

import hashlib
import json
import subprocess
from pathlib import Path

from tests.worlds import world
from tests.worlds.world import git
from tests.worlds.world import put as write

MANIFEST = """\
# a comment that must survive
protected_paths: ["agents/llm_client.py", "eval/**", "meta/**", "agents/prompts/fixed*", "agents/manifest.yaml"]
agents:
  - name: macro_watcher
    module: agents.market.macro_watcher
    enabled: true
    sandbox_editable: true
  - name: arbitrage_finder
    module: agents.market.arbitrage_finder
    enabled: true
    execution_sensitive: true
"""

FILES = {
    "agents/manifest.yaml": MANIFEST,
    "agents/market/macro_watcher.py": "import math\n\n\ndef run(x: float) -> float:\n    return math.sqrt(x)\n",
    "agents/arbitrage_finder.py": "import os\n\nHOME = os.sep\n",
    "agents/prompts/macro_watcher.md": "Watch the macro series.\n",
    "agents/prompts/variants/macro_watcher/champion.md": "Watch the macro series.\n",
    "agents/prompts/variants/macro_watcher/B.md": "Watch them better.\n",
    "meta/reports/ab_test_report.md": "old\n",
    "meta/decisions/2026-01-01-ab_champion-x.json": "{}\n",
    "agents/__init__.py": "",
    "eval/__init__.py": "",
    "meta/__init__.py": "",
    "eval/suites/macro.jsonl": "{}\n",
    "tests/test_x.py": "def test_x() -> None: ...\n",
    ".github/workflows/ci.yml": "on: push\n",
    ".gitignore": ".ratchet/\n__pycache__/\ntelemetry/events.jsonl*\n",
}


REPORT = "{}\n"  # the JSON record that comes with every proposal here


def decision(act: str, kind: str, subject: str, text: str = "") -> str:
    """A decision file that explains a change and stands on REPORT."""
    row = {"decision": act, "kind": kind, "subject": subject, "date": "2026-11-16"}
    hashes = {"before_sha256": None, "after_sha256": _sha256(text), "report_sha256": _sha256(REPORT)}
    return json.dumps({**row, **hashes, "verdict": {}, "metadata": {}}) + "\n"


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def make(root: Path) -> Path:
    """A checkout with one commit."""
    root.mkdir(parents=True, exist_ok=True)
    for name, text in FILES.items():
        write(root, name, text)
    return world.commit(root)


def take_patch(root: Path) -> bytes:
    """What the tree changes, as a patch; the tree is as it was afterwards."""
    git(root, "add", "-A")
    done = subprocess.run(
        ["git", "diff", "--cached", "--binary", "-M", "HEAD"], cwd=root, capture_output=True, check=True
    )
    git(root, "reset", "-q", "--hard", "HEAD")
    return done.stdout
