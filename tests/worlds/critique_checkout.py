"""A small checkout whose agents criticise each other: outputs, results and telemetry as a night leaves them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agents.manifest import load_manifest
from agents.texts.prompt_set import PromptSet
from eval.grading.suite import split
from telemetry.edge.files import Repo
from tests.worlds import eval_checkout
from tests.worlds.world import TREE, put

TUNE = next(f"alpha-{n:04}" for n in range(99) if split(f"alpha-{n:04}") == "tune")
HOLDOUT = next(f"alpha-{n:04}" for n in range(99) if split(f"alpha-{n:04}") == "holdout")


def make(root: Path) -> None:
    """Two agents; beta criticises alpha and alpha beta; alpha has said something, and failed in tune and holdout."""
    eval_checkout.make(
        root,
        cases=40,
        critique_pairs=[["beta", "alpha"], ["alpha", "beta"]],
        protected_paths=["tests/**", ".github/**", "eval/**"],
    )
    put(root, "agents/prompts/critique.md", (TREE / "agents/prompts/critique.md").read_text())
    loud = [{"id": "h1", "risk_score": 140, "rationale": "so"}]
    put(root, "agents/outputs/alpha.json", output("alpha", loud))
    quiet = [{"id": "h2", "risk_score": 3, "rationale": "calm"}]
    put(root, "agents/outputs/beta.json", output("beta", quiet))
    put(root, "telemetry/summary.json", {"by_agent": {"alpha": {"count": 40, "error_rate": 0.5}}})
    results(root, [wrong(TUNE, "fifth"), wrong(HOLDOUT, "secret-kind")])


def output(agent: str, items: list[Any]) -> dict[str, Any]:
    return {"agent": agent, "run_id": "r", "as_of": "2026-03-02", "input_hash": "x", "output": items}


def wrong(case_id: str, tag: str) -> dict[str, Any]:
    """A failed trial as eval/harness.py writes it."""
    return {
        "id": case_id,
        "split": "tune",
        "ok": False,
        "tags": [tag],
        "reasons": [f"exact 0.risk_score: 3, expected 4 in {case_id}"],
        "output_preview": "[]",
    }


def results(root: Path, rows: list[dict[str, Any]], agent: str = "alpha") -> None:
    hashed = PromptSet(Repo(root)).hash(load_manifest(Repo(root)).agent(agent))
    put(root, f"eval/results/{agent}.json", {"results": rows, "metadata": {"prompt_hash": hashed}})


def issue(title: str, evidence: str = '"risk_score": 140', severity: str = "med") -> dict[str, Any]:
    return {"title": title, "evidence": evidence, "impact": "readers are misled", "severity": severity}


def advice(change: str, priority: str = "P1") -> dict[str, Any]:
    return {"change": change, "why": "it misleads", "priority": priority}


def answer(issues: list[Any], recommendations: list[Any] | None = None) -> dict[str, Any]:
    return {"issues": issues, "recommendations": recommendations or []}
