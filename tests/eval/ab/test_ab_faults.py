"""What goes wrong at night: outage, budget, kills, broken variants, a second run. The tree never suffers."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from agents.model.call import LLMError
from eval import ab_testing
from eval.ab import carry_out as ab_outcome
from eval.ab.body import FORM
from eval.ledger.decisions import decisions
from telemetry.edge import cli
from telemetry.edge.files import here
from telemetry.edge.lock import only_one
from tests.worlds import ab_world as world
from tests.worlds import children

REPORTS = {"meta/reports/ab_test_report.json", "meta/reports/ab_test_report.md"}


def changed(before: dict[str, bytes], root: Path) -> set[str]:
    after = world.tree(root)
    return {path for path in {*before, *after} if before.get(path) != after.get(path)}


def test_an_endpoint_that_dies_is_inconclusive_and_the_rerun_goes_on(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.make(root)
    world.challenger(root, "B", "skill: 0.8\n")
    before = world.tree(root)
    model = world.use(monkeypatch, world.Scripted(dies_after=200))  # of 690
    report = world.run(root, code=cli.STOPPED)
    (arm,) = report["tests"][0]["arms"]
    assert arm["verdict"] == "inconclusive" and report["promoted"] == []
    assert report["status"] == "stopped" and "outage" in report["stop_reason"]
    assert model.calls < 300  # it gave up soon
    assert changed(before, root) == REPORTS
    assert arm["losses"] + arm["wins"] + arm["ties"] == arm["cases_used"]  # an outage is never a loss

    world.use(monkeypatch, world.Scripted())
    resumed = world.run(root)
    assert resumed["spend"]["trials_resumed"] > 150
    rows = map(json.loads, (root / "telemetry/events.jsonl").read_text().splitlines())
    graded = [row for row in rows if row["kind"] == "evaluation" and row.get("ok") is not None]
    assert len(graded) == len({(row["arm"], row["case_id"], row["trial_no"]) for row in graded})  # none twice


def test_a_challenger_decided_before_the_outage_still_waits_for_the_rerun(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.make(root, {"solver": 0.6, "helper": 0.6})
    world.challenger(root, "B", "skill: 1.0\n")
    world.challenger(root, "B", "skill: 0.65\n", world.OTHER)
    world.use(monkeypatch, world.Scripted(dies_after=600))
    report = world.run(root, code=cli.STOPPED)
    assert report["promoted"] == []
    assert {arm["verdict"] for test in report["tests"] for arm in test["arms"]} == {"inconclusive"}
    world.use(monkeypatch, world.Scripted())
    assert world.PROMPT in world.run(root)["promoted"]


def test_a_spent_budget_stops_and_the_rerun_reaches_the_same_verdict(
    root: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    world.make(root)
    world.challenger(root, "B", "skill: 0.9\n")
    before = world.tree(root)
    model = world.use(monkeypatch, world.Scripted())
    report = world.run(root, "--max-calls", "90", code=cli.STOPPED)
    assert "budget" in report["stop_reason"] and model.calls == 90
    assert changed(before, root) == REPORTS
    resumed = world.run(root)
    whole = tmp_path / "whole"
    world.make(whole)
    world.challenger(whole, "B", "skill: 0.9\n")
    assert world.verdicts(resumed) == world.verdicts(world.run(whole))
    assert resumed["promoted"] == [world.PROMPT]


def test_many_failed_calls_are_inconclusive_even_without_an_outage(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Flaky(world.Scripted):
        async def complete(self, messages: object, **options: object) -> object:  # type: ignore[override]
            number = self.calls
            answer = await super().complete(messages, **options)  # type: ignore[arg-type]
            if number % 5 == 0:
                raise LLMError("reset by peer", "provider")
            return answer

    world.make(root)
    world.challenger(root, "B", "skill: 1.0\n")
    world.use(monkeypatch, Flaky())
    report = world.run(root, "--trials", "1", code=cli.STOPPED)
    (arm,) = report["tests"][0]["arms"]
    assert arm["verdict"] == "inconclusive" and "calls failed" in arm["reason"]


def test_a_challenger_that_breaks_the_schema_loses(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world.make(root)
    world.challenger(root, "B", "skill: 1.0\nbreak: 1\n")
    world.challenger(root, "C", "skill: 1.0\nbreak: 0.05\n")
    world.use(monkeypatch, world.Scripted())
    report = world.run(root)
    arms = {arm["variant"]: arm for arm in report["tests"][0]["arms"]}
    assert arms["B"]["verdict"] == "keep" and arms["B"]["effect"] < -0.5
    assert arms["C"]["effect"] > 0.1 and "schema-valid answers" in arms["C"]["reason"]  # better, but blocked
    assert report["promoted"] == []


def test_an_unreadable_variant_is_named_and_the_rest_goes_on(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    world.make(root, {"solver": 0.6, "helper": 0.6})
    world.challenger(root, "B", "skill: 1.0\n")
    world.challenger(root, "C", "x").write_bytes(b"\xff\xfe\x00")
    world.challenger(root, "B", "skill: 1.0\n", world.OTHER)
    world.write(root, "agents/prompts/variants/helper/champion.md", "edited by hand\n")
    world.use(monkeypatch, world.Scripted())
    report = world.run(root)
    assert report["promoted"] == [world.PROMPT]
    problems = " | ".join(report["problems"])
    assert "C.md: not UTF-8" in problems and "helper/champion.md: differs from the live prompt" in problems
    assert [skip["variant"] for skip in report["tests"][0]["skipped"]] == ["C"]
    assert "warning:" in capsys.readouterr().err


def test_a_night_with_nothing_but_broken_variants_fails(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    world.make(root)
    world.challenger(root, "B", "x").write_bytes(b"\xff")
    before = world.tree(root)
    world.use(monkeypatch, world.Scripted())
    assert ab_testing.main(["--root", str(root)]) == cli.BAD_INPUT
    assert "error: agents/prompts/solver.md: unreadable: " in capsys.readouterr().err
    assert world.tree(root) == before


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (["--prompt", "agents/prompts/../../x.md"], "not a prompt"),
        (["--prompt", "../../x"], "not a prompt"),
        (["--prompt", "/etc/passwd"], "outside"),
        (["--prompt", "agents/prompts/none.md"], "affects no agent"),
        (["--prompt", "agents/prompts/helper.md"], "differs from the live prompt"),
        (["--alpha", "0"], "--alpha"),
        (["--min-effect", "-1"], "--min-effect"),
        (["--trials", "0"], "--trials"),
        (["--shard", "3/2"], "--shard"),
        (["--merge", "nowhere"], "--merge"),
        (["--shard", "1/2", "--merge", "x"], "one at a time"),
        (["--prompt-price-per-mtok", "1"], "give both or neither"),
    ],
)
def test_bad_input_is_one_line_and_writes_nothing(
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    flags: list[str],
    complaint: str,
) -> None:
    world.make(root, {"solver": 0.6, "helper": 0.6})
    world.challenger(root, "B", "skill: 1.0\n")
    world.write(root, "agents/prompts/variants/helper/champion.md", "edited by hand\n")
    model = world.use(monkeypatch, world.Scripted())
    before = world.tree(root)
    assert ab_testing.main(["--root", str(root), *flags]) == cli.BAD_INPUT
    errors = capsys.readouterr().err
    assert complaint in errors and errors.count("\n") == 1
    assert model.calls == 0 and world.tree(root) == before


def test_a_second_run_in_the_same_checkout_says_so_and_stops(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    world.make(root)
    world.challenger(root, "B", "skill: 1.0\n")
    model = world.use(monkeypatch, world.Scripted())
    with only_one(here(), "ab_test", "A/B run"):
        assert ab_testing.main(["--root", str(root)]) == cli.STOPPED
    assert (
        f"another A/B run is at work in this checkout (process {os.getpid()}, since "
        in capsys.readouterr().err
    )
    assert model.calls == 0
    world.run(root)


@pytest.mark.parametrize("writes", range(1, 8))
def test_killed_while_carrying_out_a_promotion_the_next_run_completes_it(
    root: Path, monkeypatch: pytest.MonkeyPatch, writes: int
) -> None:
    """Seven places: before the record, while staging, and between the moves into place."""
    world.make(root, cases=90)
    world.challenger(root, "B", "skill: 1.0\n")
    world.use(monkeypatch, world.Scripted())
    before = world.tree(root)

    def night() -> None:
        real, count = Path.replace, 0

        def replace(self: Path, target: Path) -> Path:
            nonlocal count
            count += 1
            if count == writes:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(self, target)

        Path.replace = replace  # type: ignore[method-assign,assignment]
        ab_testing.main(["--root", str(root)])

    assert children.run(night).killed
    assert changed(before, root) <= REPORTS  # nothing is moved into place before all is staged
    report = world.run(root)
    assert report["promoted"] == [world.PROMPT]
    assert (root / world.PROMPT).read_text() == "skill: 1.0\n"
    assert (root / "agents/prompts/variants/solver/champion.md").read_text() == "skill: 1.0\n"
    assert len(list(decisions(here()))) == 1
    stray = [path for path in world.tree(root) if path.endswith(".tmp")]
    assert stray == [] and not (root / ab_outcome.pending(FORM)).exists()


def test_a_record_about_a_prompt_that_was_edited_since_is_void(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.make(root, cases=90)
    world.challenger(root, "B", "skill: 1.0\n")
    world.use(monkeypatch, world.Scripted())
    monkeypatch.setattr(
        ab_outcome, "_apply", lambda repo, form, todo: None
    )  # killed just after the record was made
    world.run(root)
    monkeypatch.undo()
    world.use(monkeypatch, world.Scripted())
    for path in (world.PROMPT, "agents/prompts/variants/solver/champion.md"):
        world.write(root, path, "edited by hand, skill: 0.99\n")
    assert world.run(root)["promoted"] == []
    assert (root / world.PROMPT).read_text().startswith("edited by hand")
