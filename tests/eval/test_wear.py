"""Wear of a holdout: verdicts are counted, until fresh cases come in."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from eval import harness
from eval.ab.memory import TELLING, worn
from eval.grading import suite as suites
from eval.ledger.provenance import Line, history
from telemetry.edge import cli
from telemetry.edge.files import Repo
from tests.worlds import eval_checkout, world

MINE, OTHER = "eval/suites/mine.jsonl", "eval/suites/other.jsonl"
VERDICTS = st.sampled_from(["promote", "keep", "blocked", "continue", "inconclusive"])


def compared(*verdicts: str, suite: str = MINE, **more: Any) -> Line:
    found = [{"prompt": "p.md", "verdict": verdict, **more} for verdict in verdicts]
    return Line("ab_test", "2026-11-01", {"comparisons": found}, {"suites": {suite: "x"}})


def measured(holdout: int, sha256: str = "x") -> Line:
    about = {"suites": {MINE: sha256}, "holdout_cases": {MINE: holdout}}
    return Line("eval", "2026-11-01", {}, about)


@given(nights=st.lists(st.lists(VERDICTS, max_size=4), max_size=8))
def test_every_verdict_counts_and_nothing_else_does(nights: list[list[str]]) -> None:
    rows = [row for night in nights for row in (measured(40), compared(*night))]
    assert worn(rows, MINE) == sum(verdict in TELLING for night in nights for verdict in night)
    assert worn(rows, OTHER) == 0


def test_fresh_cases_end_the_wear_and_other_edits_do_not() -> None:
    before = [measured(40), compared("keep", "promote")]
    assert worn([*before, measured(40, "mended"), compared("keep")], MINE) == 3
    assert worn([*before, measured(38, "fewer"), compared("keep")], MINE) == 3
    assert worn([*before, measured(43, "more"), compared("keep")], MINE) == 1
    assert worn([*before, measured(38, "fewer"), measured(39, "more")], MINE) == 0


def test_a_comparison_wears_the_suites_it_names() -> None:
    both = {"suites": {MINE: "x", OTHER: "y"}}
    shared = replace(compared("keep"), metadata=both)
    assert (worn([shared], MINE), worn([shared], OTHER)) == (1, 1)
    named = replace(compared("keep", suites=[OTHER]), metadata=both)
    assert (worn([named], MINE), worn([named], OTHER)) == (0, 1)


def test_the_harness_leaves_in_the_history_what_tells_fresh_cases(root: Path) -> None:
    eval_checkout.make(root, agents=("alpha",), cases=20)
    world.put(root, "agents/prompts/alpha.md", "```rules\nanalyst: threshold\nlist: notes\n```\n")
    path, repo = "eval/suites/alpha.jsonl", Repo(root)
    assert harness.main(["--quiet"]) == cli.OK
    with (root / "eval/history.jsonl").open("a") as file:
        file.write('{"torn": ')  # by a killed run
    suite = suites.load_suite(repo, path)
    [row] = history(repo)
    assert row.metadata["holdout_cases"] == {path: len(suite.part("holdout"))}
    world.suite(root, "alpha", (eval_checkout.case("alpha", number) for number in range(60)))
    assert harness.main(["--quiet"]) == cli.OK
    first, *later = history(repo)
    assert worn([first, compared("keep", suite=path)], path) == 1
    assert worn([first, compared("keep", suite=path), *later], path) == 0
