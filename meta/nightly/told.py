"""What did a step of the night find? One line each, read from the files its script wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def agents(root: Path) -> str:
    """How many agents spoke, and who failed."""
    outputs = [_read(path) for path in sorted((root / "agents/outputs").glob("*.json"))]
    failed = [
        str(output.get("agent")) for output in outputs if _deep(output, "run", "error") or output.get("error")
    ]
    items = sum(len(output.get("output") or ()) for output in outputs)
    trouble = f"; failed: {', '.join(failed)}" if failed else ""
    return f"{len(outputs)} agents ran, {items} signals and findings{trouble}"


def evals(root: Path) -> str:
    """The success rate of each agent's champion."""
    rates = {}
    for path in sorted((root / "eval/results").glob("*.json")):
        rate = _deep(_read(path), "summary", "success_rate")
        if isinstance(rate, int | float):
            rates[path.stem] = rate
    return ", ".join(f"{name} {100 * rate:.0f} %" for name, rate in rates.items()) or "no suite was run"


def ab_test(root: Path) -> str:
    """What was promoted and what was kept out."""
    report = _read(root / "meta/reports/ab_test_report.json")
    told = []
    for test in report.get("tests", ()):
        name = Path(str(test.get("prompt"))).stem
        for arm in test.get("arms", ()):
            told.append(f"{arm.get('verdict')} {name} {arm.get('variant')}{_points(arm)}")
    return "; ".join(told) or "no challenger to test"


def rollup(root: Path) -> str:
    """How much telemetry there is."""
    summary = _read(root / "telemetry/summary.json")
    runs = sum(row.get("count", 0) for row in summary.get("by_agent", {}).values())
    return f"{runs} runs summed up"


def critiques(root: Path) -> str:
    """How many issues were found."""
    found = _read(root / "meta/reports/cross_critiques.json").get("critiques", [])
    issues = [issue for critique in found for issue in critique.get("issues", ())]
    high = sum(issue.get("severity") == "high" for issue in issues)
    return f"{len(issues)} issues in {len(found)} critiques, {high} of high severity"


def proposals(root: Path) -> str:
    """What is to be tested next."""
    report = _read(root / ".ratchet/proposals.json")  # the report itself stands until there is something new
    names = [
        f"{Path(str(row.get('prompt'))).stem} {row.get('variant')}"
        for row in report.get("proposals", ())
        if row.get("variant")
    ]
    return f"new challengers: {', '.join(names)}" if names else "no new challenger"


def retirement(root: Path) -> str:
    """Who no longer earns their keep."""
    report = _read(root / "meta/reports/retirement_report.json")
    names = [row["agent"] for row in report.get("candidates", ())]
    return f"candidates: {', '.join(names)}" if names else "everyone earns their keep"


def charts(root: Path) -> str:
    """How many pictures there are."""
    return f"{len(list((root / 'telemetry/charts').glob('*.png')))} charts"


def _points(arm: dict[str, Any]) -> str:
    effect = arm.get("effect")
    mean = effect.get("mean") if isinstance(effect, dict) else effect
    return f" ({100 * mean:+.1f} points)" if isinstance(mean, int | float) else ""


def _deep(value: Any, *keys: str) -> Any:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _read(path: Path) -> dict[str, Any]:
    """The JSON object in a file; a step that wrote none told nothing."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    return value if isinstance(value, dict) else {}
