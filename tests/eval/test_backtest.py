"""Promotions are tested again on cases that came in since, and taken back when they are no better there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agents.texts.variants import Variants, sha256
from eval import backtest
from eval.ab.figures import ruler
from eval.hindsight.body import FORM
from eval.ledger.decisions import Decision, decisions, write_decision
from eval.trials.pool import Breaker
from telemetry.edge import cli
from telemetry.edge.files import Repo
from tests.worlds import ab_world
from tests.worlds import world as base

PROMOTED, TODAY = "2026-11-01", "2026-11-18"
OLD, NEW = "# solver\nskill: 0.9\n", "# solver\nskill: 0.5\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    ab_world.make(tmp_path, {"solver": 0.9}, cases=20)
    return tmp_path


def promoted(root: Path, old: str = OLD, new: str = NEW, day: str = PROMOTED) -> Path:
    """What an A/B night leaves behind when it promotes: here, wrongly."""
    base.put(root, ab_world.PROMPT, old)
    texts = Variants(Repo(root), ab_world.PROMPT)
    texts.ensure()
    texts.save_champion(new)
    verdict = {"prompt": ab_world.PROMPT, "variant": "B", "verdict": "promote", "effect": 0.1}
    ends = (sha256(old), sha256(new), None)
    return write_decision(Repo(root), Decision("promote", "ab_champion", "solver", day, *ends, verdict, {}))


def add(root: Path, count: int, **fields: Any) -> None:
    """So many cases more, by default fresh ones."""
    file = root / "eval/suites/solver.jsonl"
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    fields = fields or {"split": "fresh", "since": "2026-11-10"}
    rows += [
        {"id": f"new-{len(rows) + n}", "input": {"q": len(rows) + n}, "expect": [ab_world.RIGHT]} | fields
        for n in range(count)
    ]
    base.suite(root, "solver", rows)


def run(root: Path, *flags: str, code: int = cli.OK) -> dict[str, Any]:
    file = root / FORM.path
    file.unlink(missing_ok=True)
    assert backtest.main(["--root", str(root), "--quiet", "--today", TODAY, *flags]) == code
    return dict(json.loads(file.read_text())) if file.exists() else {"tests": []}


def test_a_promotion_that_is_no_better_on_new_cases_is_taken_back(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    promotion = promoted(root)
    add(root, 40)
    ab_world.use(monkeypatch, ab_world.Scripted())
    (test,) = run(root)["tests"]
    assert (test["verdict"], test["cases_used"], test["promised"]) == ("demote", 40, 0.1)
    assert test["effect"] < -0.2 and test["ci_high"] < 0
    for path in (ab_world.PROMPT, "agents/prompts/variants/solver/champion.md"):
        assert (root / path).read_text() == OLD
    (_, decision) = [one for _, one in decisions(Repo(root))]
    assert (decision.decision, decision.kind, decision.subject) == ("demote", "backtest", "solver")
    assert (decision.before_sha256, decision.after_sha256) == (sha256(NEW), sha256(OLD))
    assert decision.verdict["promotion"] == str(promotion)
    body = (root / FORM.markdown).read_text()
    assert body.startswith("> [!WARNING]\n> **Demote `solver` B ")
    assert "cases that came in since it was promoted" in body
    drawn = ruler(test["ci_low"], test["effect"], test["ci_high"])  # for where no chart is
    assert f"> `{drawn}`\n" in body
    assert body.rstrip().splitlines()[-1].startswith("**Your turn:**")
    assert run(root)["tests"] == []  # what was taken back is no promotion any more


def test_one_that_is_still_better_stands_and_is_left_alone_until_half_as_many_more_came_in(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    promoted(root, NEW, OLD)
    add(root, 40)
    model = ab_world.use(monkeypatch, ab_world.Scripted())
    assert [test["verdict"] for test in run(root)["tests"]] == ["stands"]
    assert (root / ab_world.PROMPT).read_text() == OLD
    calls = model.calls
    assert calls == 2 * 3 * 40
    add(root, 19)
    assert run(root)["tests"] == [] and model.calls == calls
    add(root, 1)
    assert [test["cases_used"] for test in run(root)["tests"]] == [60]


def test_too_few_new_cases_cost_no_call(root: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    promoted(root)
    add(root, 29)
    model = ab_world.use(monkeypatch, ab_world.Scripted())
    assert run(root)["tests"] == [] and model.calls == 0
    assert backtest.main(["--root", str(root), "--today", TODAY, "--dry-run"]) == cli.OK
    assert "29 cases have come in since 2026-11-01, 30 are needed" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("fields", "counts"),
    [
        ({"since": "2026-11-02"}, True),  # added by hand, into one of the halves
        ({"since": "2026-11-01"}, False),  # the day it was decided
        ({"since": "2026-10-31", "split": "fresh"}, False),
        ({"tags": ["undated"]}, False),  # and no history that could tell
    ],
)
def test_only_cases_from_after_the_promotion_count(
    root: Path, monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any], counts: bool
) -> None:
    promoted(root)
    add(root, 30, **fields)
    ab_world.use(monkeypatch, ab_world.Scripted())
    assert bool(run(root)["tests"]) == counts


def test_git_knows_when_an_undated_case_was_added_and_what_text_was_replaced(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def commit(day: str) -> None:
        for name in ("GIT_COMMITTER_DATE", "GIT_AUTHOR_DATE"):
            monkeypatch.setenv(name, f"{day}T12:00:00Z")
        base.commit(root, day)

    base.put(root, ab_world.PROMPT, OLD)
    commit("2026-10-30")
    promoted(root)
    for name in ("A", "B"):  # the letters may stand for other texts by now
        base.put(root, f"agents/prompts/variants/solver/{name}.md", "skill: 0.1\n")
    commit("2026-11-01")
    add(root, 30, tags=["undated"])
    commit("2026-11-05")
    ab_world.use(monkeypatch, ab_world.Scripted())
    (test,) = run(root)["tests"]
    assert (test["verdict"], test["cases_used"]) == ("demote", 30)
    assert (root / ab_world.PROMPT).read_text() == OLD


@pytest.mark.parametrize(
    ("day", "live", "why"),
    [("2026-08-19", NEW, ""), (PROMOTED, "edited by hand\n", "no longer live")],
)
def test_old_promotions_and_texts_that_are_gone_are_left_alone(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any, day: str, live: str, why: str
) -> None:
    promoted(root, day=day)
    for path in (ab_world.PROMPT, "agents/prompts/variants/solver/champion.md"):
        base.put(root, path, live)
    add(root, 40)
    model = ab_world.use(monkeypatch, ab_world.Scripted())
    assert run(root)["tests"] == [] and model.calls == 0
    backtest.main(["--root", str(root), "--today", TODAY, "--dry-run"])
    assert why in capsys.readouterr().out


def test_an_outage_decides_nothing_and_the_next_run_goes_on(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    promoted(root)
    add(root, 40)
    monkeypatch.setattr(Breaker.__init__, "__defaults__", (4,))
    ab_world.use(monkeypatch, ab_world.Scripted(dies_after=100))
    (test,) = run(root, code=cli.STOPPED)["tests"]
    assert test["verdict"] == "inconclusive"
    assert (root / ab_world.PROMPT).read_text() == NEW
    model = ab_world.use(monkeypatch, ab_world.Scripted())
    assert [test["verdict"] for test in run(root)["tests"]] == ["demote"]
    assert 140 <= model.calls < 2 * 3 * 40


class Killed(BaseException):
    """Nothing is tidied up, as when a process dies."""


def test_killed_while_taking_it_back_the_next_run_completes_it(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    promoted(root)
    add(root, 40)
    ab_world.use(monkeypatch, ab_world.Scripted())
    moved: list[Path] = []
    real = Path.replace

    def replace(self: Path, target: Path) -> None:
        if target.name == "champion.md":
            raise Killed
        moved.append(target)
        real(self, target)

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(Path, "replace", replace)
        run(root)
    assert moved and (root / ab_world.PROMPT).read_text() == NEW
    run(root)
    for path in (ab_world.PROMPT, "agents/prompts/variants/solver/champion.md"):
        assert (root / path).read_text() == OLD
    assert [one.decision for _, one in decisions(Repo(root))] == ["promote", "demote"]


def test_fresh_cases_neither_take_part_in_a_promotion_nor_undo_what_was_compared(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ab_world.make(root, cases=120)
    ab_world.challenger(root, "B", "skill: 0.72\n")
    add(root, 5)
    model = ab_world.use(monkeypatch, ab_world.Scripted())
    ab_world.run(root)
    asked = {row["case_id"] for row in base.rows(root, "evaluation")}
    assert asked and not any(case.startswith("new-") for case in asked)
    (before,) = json.loads((root / "meta/reports/ab_test_report.json").read_text())["tests"][0]["arms"]
    add(root, 5)
    calls = model.calls
    (after,) = ab_world.run(root)["tests"][0]["arms"] or [before]
    assert after["pair"] == before["pair"]
    assert model.calls <= 2 * calls
