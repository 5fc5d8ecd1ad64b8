"""A demotion on its way: guarded, a branch of its own, understood by the audit, and a step only where it is due."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agents.manifest import load_manifest
from eval import backtest
from eval.hindsight.session import anything_due
from meta import audit
from meta.nightly.stage import Stage
from meta.nightly.steps import steps
from telemetry.edge import cli
from telemetry.edge.errors import BadInput
from telemetry.edge.files import Repo
from tests.conftest import REPOSITORY
from tests.eval.test_backtest import NEW, OLD, PROMOTED, TODAY, add, promoted
from tests.worlds import ab_world
from tests.worlds import world as base

DECISION = f"meta/decisions/{PROMOTED}-ab_champion-solver.json"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout in which a promotion is about to be taken back."""
    ab_world.make(tmp_path, {"solver": 0.9}, cases=20)
    for schema in ("decision", "backtest_report"):
        path = f"eval/{schema}.schema.json"
        base.put(tmp_path, path, (REPOSITORY / path).read_bytes())
    base.put(tmp_path, ".gitignore", (REPOSITORY / ".gitignore").read_bytes())
    promoted(tmp_path)
    add(tmp_path, 40)
    ab_world.use(monkeypatch, ab_world.Scripted())
    return base.commit(tmp_path)


def back_test(stage: Stage) -> None:
    assert backtest.main(["--root", str(stage.fresh()), "--quiet", "--today", TODAY]) == cli.OK


def test_it_becomes_a_branch_that_the_guard_lets_through_and_the_audit_understands(root: Path) -> None:
    with Stage(root) as stage:
        back_test(stage)
        assert stage.publish("backtest") == "meta/prompt-backtest"
    assert (root / ab_world.PROMPT).read_text() == NEW
    assert base.git(root, "log", "-1", "--format=%s", "meta/prompt-backtest").startswith("Demote solver: -")
    base.git(root, "merge", "-q", "--no-edit", "meta/prompt-backtest")
    assert (root / ab_world.PROMPT).read_text() == OLD
    findings = {finding.subject: finding for finding in audit.audit(Repo(root))}
    assert "restored by meta/decisions/" in findings[ab_world.PROMPT].why
    (demoted,) = [one for one in audit.recorded(Repo(root)) if one.decision.decision == "demote"]
    assert demoted.faults == ()


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"verdict": {"promotion": "meta/decisions/never.json"}}, "takes back no promotion"),
        ({"verdict": {"promotion": "agents/manifest.yaml"}}, "takes back no promotion"),
        ({"after_sha256": "0" * 64}, "takes back no promotion"),
        ({"decision": "promote"}, "no business of this kind"),
    ],
)
def test_the_guard_refuses_one_that_restores_what_no_promotion_replaced(
    root: Path, changed: dict[str, object], told: str
) -> None:
    with Stage(root) as stage:
        back_test(stage)
        (file,) = stage.tree.glob("meta/decisions/*-backtest-*.json")
        row = json.loads(file.read_text())
        file.write_text(json.dumps(row | changed))
        with pytest.raises(BadInput, match=told):
            stage.publish("backtest")


def test_a_night_has_the_step_only_when_something_is_due(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest = load_manifest(Repo(root))
    assert anything_due(Repo(root), manifest)
    assert "back-test" in [step.name for step in steps([], backtest=True)]
    assert "back-test" not in [step.name for step in steps([])]
    (root / DECISION).unlink()
    assert not anything_due(Repo(root), manifest)
