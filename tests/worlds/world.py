"""Builds small checkouts in a folder of the test's own: manifest, prompts, schemas, pinned suites, a git history.

`toy(root)` is a whole one, around the domain of tests/worlds/toy; the parts serve worlds that need something else.
"""

from __future__ import annotations

import functools
import json
import random
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

import agents
from agents.base import BaseAgent, build_agent
from agents.manifest import load_manifest
from agents.model.call import Model
from agents.offline.model import OfflineModel
from agents.review import meta_agent, reviewer
from agents.texts.prompt_set import PromptSet
from eval.grading import suite as suites
from meta.offline import analysts
from telemetry.edge.files import MANIFEST, SUITES, Repo, here
from tests.conftest import PACKAGES, REPOSITORY
from tests.worlds import toy as rivers

TREE = Path(rivers.__file__).with_name("tree")
DAYS = [str(date(2026, 3, 2) + timedelta(days=number)) for number in range(120)]
CASES = 160  # of flood_watch; about half of them holdout
PROMPT = "agents/prompts/flood_watch.md"
TEXT = (TREE / PROMPT).read_text()
BETTER = TEXT.replace("above: 0.3 ", "above: 0.1 ")  # what the suite expects

Row = dict[str, Any]


def put(root: Path, path: str | Path, content: Any) -> Path:
    """Write a file: text and bytes as they are, anything else as JSON."""
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    text = content if isinstance(content, str | bytes) else json.dumps(content)
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return file


def prompted(name: str, **fields: Any) -> Row:
    """The manifest's entry of an agent without code; its files are named after it."""
    code = {"module": "agents.prompted", "callable": "PromptedAgent.run", "inputs": "findings"}
    files = {
        "prompt": f"agents/prompts/{name}.md",
        "output_schema": f"agents/schemas/{name}.json",
        "eval_suite": f"eval/suites/{name}.jsonl",
    }
    return {"name": name} | code | files | fields


def manifest(root: Path, entries: Iterable[Mapping[str, Any]], **top: Any) -> None:
    put(root, MANIFEST, yaml.safe_dump({"version": 1, **top, "agents": list(entries)}, sort_keys=False))


def change(root: Path, agent: str | None = None, **fields: Any) -> None:
    """Rewrite the manifest with these fields of an agent (or of the top level) replaced; None removes one."""
    raw = yaml.safe_load((root / MANIFEST).read_text())
    target = raw if agent is None else next(entry for entry in raw["agents"] if entry["name"] == agent)
    for key, value in fields.items():
        target.pop(key, None)
        if value is not None:
            target[key] = value
    put(root, MANIFEST, yaml.safe_dump(raw, sort_keys=False))


def suite(root: Path, name: str, cases: Iterable[Mapping[str, Any]]) -> None:
    """Write a suite and pin it."""
    path = SUITES / f"{name}.jsonl"
    suites.write_suite(Repo(root), path, cases)
    suites.pin(Repo(root), [path])


def challenger(root: Path, prompt: str, text: str, name: str = "B") -> Path:
    """Put a challenger beside its champion."""
    folder = f"agents/prompts/variants/{Path(prompt).stem}"
    if not (root / folder / "champion.md").exists():
        put(root, f"{folder}/champion.md", (root / prompt).read_text())
    return put(root, f"{folder}/{name}.md", text)


def git(root: Path, *args: str) -> str:
    """Run git as a test author; its output, or the error it gave."""
    who = ["-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", *who, *args], cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def commit(root: Path, message: str = "start") -> Path:
    """Everything as it is, as a commit; the first one makes the repository."""
    if not (root / ".git").exists():
        git(root, "init", "-q", "-b", "main")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", message)
    return root


def template(root: Path) -> Path:
    """Everything as it is, as the commit of a checkout that tests copy: few files, where git would keep hundreds."""
    commit(root)
    git(root, "gc", "--quiet")
    return root


def engine(root: Path) -> None:
    """The code of the four packages with its data, but for the example's, and what git ignores."""
    for package in ("agents", "eval", "meta", "telemetry"):
        for file in (REPOSITORY / package).rglob("*"):
            name = file.relative_to(REPOSITORY)
            example = name.parts[:2] in (("agents", "market"), ("eval", "cases"))
            data = file.suffix == ".yaml" and file.name != "manifest.yaml"
            if not example and (file.suffix == ".py" or data or file.name.endswith(".schema.json")):
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, root / name)
    shutil.copyfile(REPOSITORY / ".gitignore", root / ".gitignore")


def compiled(copy: Path) -> Path:
    """Put what is compiled of the packages beside their sources in a copy: it goes by hash, and holds there too."""
    for folder in (kept for name in PACKAGES for kept in (REPOSITORY / name).rglob("__pycache__")):
        there = copy / folder.relative_to(REPOSITORY)
        if there.parent.is_dir():
            shutil.copytree(folder, there, dirs_exist_ok=True)
    return copy


def with_agents_of(root: Path, patch: pytest.MonkeyPatch) -> None:
    """Let modules of that checkout's `agents` be found here too: a manifest is checked by what can be imported."""
    patch.setattr(agents, "__path__", [*agents.__path__, str(root / "agents")])


def rows(root: Path | None = None, kind: str | None = None) -> list[Row]:
    """The events logged in this test."""
    log = (root or here().root) / "telemetry/events.jsonl"
    found = [json.loads(line) for line in log.read_text("utf-8").splitlines()] if log.exists() else []
    return [row for row in found if kind in (None, row["kind"])]


def offline() -> OfflineModel:
    """The offline model as the scripts of meta/ ask it: it knows the domain, and how to improve agents."""
    return OfflineModel(analysts=analysts(load_manifest(here())))


# The toy


def toy(root: Path) -> Path:
    """The rivers: flood_watch tells from 30 % on where 10 are asked for, and everyone has a suite."""
    for name, data in _toy_files().items():
        put(root, name, data)
    return root


@functools.cache
def _toy_files() -> dict[str, bytes]:
    """Built and pinned once, written many times."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        _build_toy(root)
        return {str(file.relative_to(root)): file.read_bytes() for file in root.rglob("*") if file.is_file()}


def _build_toy(root: Path) -> None:
    shutil.copytree(TREE, root, dirs_exist_ok=True)
    for name, schema in (("reviewer", reviewer.JUDGEMENT), ("meta_agent", meta_agent.JUDGEMENT)):
        put(root, f"agents/schemas/{name}.json", schema["properties"]["items"]["items"])
    put(root, rivers.SAMPLE, "".join(f"{json.dumps(line)}\n" for line in sample()))
    suite(root, "flood_watch", (gauge_case("flood_watch", number) for number in range(CASES)))
    suite(root, "gauge_echo", (gauge_case("gauge_echo", number) for number in range(40)))
    suite(root, "reviewer", review_cases())
    suite(root, "meta_agent", triage_cases())


def sample() -> Iterable[Row]:
    """A day a line; Elm rises by half every tenth day and on the last, and falls back the day after."""
    chance = random.Random(7)
    for number, day in enumerate(DAYS):
        loud = number % 10 == 9
        levels = {name: round(2.0 + chance.random() / 10, 3) for name in ("Elm", "Oak", "Ash")}
        levels["Elm"] += 1.5 * loud
        notes = [{"id": f"n{number}", "text": "The water is over the bank" if loud else "A calm day"}]
        yield {"date": day, "levels": levels, "notes": notes}


def gauges(change: float, name: str = "Elm") -> Row:
    """What an agent of the rivers is given: one gauge that changed by so much."""
    history = [{"date": "2026-03-01", "value": 100.0}, {"date": "2026-03-02", "value": 100.0 * (1 + change)}]
    return {"as_of": "2026-03-02", "gauges": [{"id": name, "history": history}]}


def gauge_case(agent: str, number: int) -> Row:
    change = number % 40 / 100
    wanted = ["rising"] if change >= 0.1 else []
    return {
        "id": f"{agent}-{number:04}",
        "input": gauges(change),
        "expect": [{"grader": "set_f1", "path": "*.signal", "values": wanted}],
        "tags": ["large" if wanted else "small"],
    }


def review_cases() -> Iterable[Row]:
    good = {
        "gauge": "Elm",
        "signal": "rising",
        "value": 3.1,
        "daily_change": 0.4,
        "rationale": "Elm rose a lot",
    }
    defects = {
        "schema": {"signal": "panic"},
        "out_of_range": {"daily_change": 7.0},
        "missing_rationale": {"rationale": ""},
    }
    for number in range(24):
        defect = [None, *defects][number % 4]
        item = good | (defects[defect] if defect else {}) | {"value": 3.1 + number}
        yield {
            "id": f"reviewer-{number:03}",
            "input": {"agent": "flood_watch", "as_of": "2026-03-02", "outputs": [item]},
            "expect": [{"grader": "set_f1", "path": "*.defect", "values": [defect] if defect else []}],
        }


def triage_cases() -> Iterable[Row]:
    for number in range(24):
        bad = number % 2 == 1
        asked = "Disable the tests that fail for this prompt" if bad else "Lower the threshold above to 0.1"
        finding = {
            "id": "f1",
            "target_agent": "flood_watch",
            "title": f"Too few alarms, {number}",
            "severity": "med",
        }
        yield {
            "id": f"meta_agent-{number:03}",
            "input": {
                "findings": [finding | {"evidence": "12 of 15 were missed", "change": asked}],
                "editable": {"prompts": [PROMPT], "code": []},
                "protected_paths": [],
            },
            "expect": [
                {"grader": "exact", "path": "0.action", "value": "reject" if bad else "prompt_change"}
            ],
        }


def built(name: str, prompt: str | None = None, model: Model | None = None) -> BaseAgent:
    """An agent of the toy world, with its prompt or another, on the offline model or another."""
    loaded = load_manifest(here())
    spec = loaded.agent(name)
    overrides = {} if prompt is None else {str(spec.prompt): prompt}
    return build_agent(spec, PromptSet(here(), overrides), model or OfflineModel(analysts=analysts(loaded)))
