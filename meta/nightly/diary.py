"""What a night puts on record: its steps so far, so that none is repeated, and one line of history at the end."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from agents.llm_client import ModelOptions
from agents.manifest import Manifest
from agents.texts.prompt_set import PromptSet
from eval.grading.suite import Suites
from eval.ledger.provenance import GitState, Seen, append_history, model_identity, replay_metadata
from meta.nightly.stage import NIGHT
from meta.nightly.steps import Result
from telemetry.edge.files import Repo, write_json
from telemetry.edge.git import commit_of
from telemetry.read.rows import Window
from telemetry.read.store import connect


class Diary:
    """What this night has done so far, on disk: one file per day and configuration."""

    def __init__(self, root: Path, about: Mapping[str, Any]) -> None:
        text = json.dumps(about, sort_keys=True, default=str)
        key = hashlib.sha256(text.encode()).hexdigest()[:12]
        self._path = root / NIGHT / f"{time.strftime('%Y-%m-%d', time.gmtime())}-{key}.json"
        self.results: dict[str, Result] = {}
        try:
            rows = json.loads(self._path.read_text(encoding="utf-8"))
            self.results = {row["name"]: Result(**row) for row in rows}
        except FileNotFoundError:
            return
        except (ValueError, TypeError, KeyError) as problem:
            print(f"{self._path.name}: unreadable ({problem}); every step runs again", file=sys.stderr)

    def add(self, result: Result) -> None:
        """Put a step's result on record."""
        self.results[result.name] = replace(result, again=False)
        write_json(self._path, [asdict(row) for row in self.results.values()])


def no_history(repo: Repo) -> bool:
    """Whether no agent has ever run here."""
    con = connect(repo, Window(kind="run"))
    return not con.execute("select 1 from events where source in ('runtime', 'replay') limit 1").fetchone()


def about(root: Path, options: Sequence[str]) -> dict[str, Any]:
    """What makes this night this night: the commit, the endpoint, the options."""
    endpoint: dict[str, Any] = {
        name: os.environ.get(name, "") for name in ("OPENAI_MODEL", "OPENAI_BASE_URL")
    }
    endpoint["key"] = bool(os.environ.get("OPENAI_API_KEY"))
    return {"head": commit_of(root) or "", "endpoint": endpoint, "options": list(options)}


def remember(
    repo: Repo,
    manifest: Manifest,
    results: Sequence[Result],
    spent: Mapping[str, Any],
    git_state: GitState,
    seed: int,
) -> None:
    """One line of history about the night as a whole, beside those of its evals and its A/B test."""
    prompts, suites = PromptSet(repo), Suites(repo, allow_unpinned=True)
    graded = (spec.eval_suite for spec in manifest.enabled() if spec.eval_suite)
    asked = model_identity(ModelOptions().model())["model"]
    metadata = replay_metadata(
        git_state,
        suites={path: suites.load(path).sha256 for path in graded},
        prompts={path: prompts.sha256(path) for path in manifest.prompts},
        seen=Seen((asked,) if asked else (), (), (spent["provider"],), (), ()),
        seed=seed,
    )
    steps = {result.name: {"status": result.status, "told": result.told} for result in results}
    append_history(repo, "night", {"steps": steps, "spend": dict(spent)}, metadata)
