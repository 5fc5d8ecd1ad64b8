"""The committed suites: rebuilt byte for byte, pinned, large enough, labelled without asking an agent."""

from __future__ import annotations

import ast
import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from eval import build_suites
from eval import suites as script
from eval.cases import headlines
from eval.field.record import TAG
from eval.grading import suite as suites
from telemetry.edge import cli
from telemetry.edge.files import SUITES, here, working_in

HERE = Path(__file__).parents[2]
LEAST = {
    "macro_watcher": 240,
    "geopolitical_risk": 240,
    "arbitrage_finder": 240,
    "reviewer": 120,
    "meta_agent": 120,
    "vix_echo": 60,
}
LARGEST = 1_500_000  # bytes: a suite is reviewed in a pull request
BUILDERS = [file for file in sorted((HERE / "eval/cases").glob("*.py")) if file.stem != "__init__"]


def test_a_rebuild_gives_the_committed_bytes_and_keeps_what_came_from_the_field(tmp_path: Path) -> None:
    committed = {f"{name}.jsonl": (HERE / SUITES / f"{name}.jsonl").read_bytes() for name in LEAST}
    case = {
        "id": "field-1",
        "tags": [TAG, "outcome"],
        "input": {},
        "expect": [{"grader": "exact", "path": "0.id", "value": "x"}],
        "split": "fresh",
        "since": "2026-11-18",
    }
    more = suites.encoded(case)
    (tmp_path / SUITES).mkdir(parents=True)
    for name, lines in committed.items():
        (tmp_path / SUITES / name).write_bytes(lines + more)
    with working_in(tmp_path):
        assert build_suites.main(["--quiet"]) == cli.OK
    for name, lines in committed.items():
        assert (tmp_path / SUITES / name).read_bytes() == lines + more, name


def test_the_committed_suites_are_as_pinned_and_valid() -> None:
    with working_in(HERE):
        assert script.main(["check", "--quiet"]) == cli.OK


@pytest.mark.parametrize(("name", "least"), LEAST.items())
def test_a_suite_is_large_enough_in_both_halves_and_small_enough_to_read(name: str, least: int) -> None:
    with working_in(HERE):
        suite = suites.load_suite(here(), SUITES / f"{name}.jsonl")
    assert len(suite.cases) >= least
    assert all(len(suite.part(half)) >= 0.4 * len(suite.cases) for half in ("tune", "holdout"))
    assert (HERE / suite.path).stat().st_size < LARGEST


@pytest.mark.parametrize("name", LEAST)
def test_no_two_cases_ask_the_same(name: str) -> None:
    """A case on both sides of the split would let a proposal learn the holdout by heart."""
    with working_in(HERE):
        suite = suites.load_suite(here(), SUITES / f"{name}.jsonl")
    seen = Counter(str(case.input) for case in suite.cases)
    assert seen.most_common(1)[0][1] == 1


def sides(name: str, templates: Callable[[Any], Iterable[str]]) -> dict[str, set[str]]:
    """On which sides of the split each template is found, worked out from the inputs alone."""
    with working_in(HERE):
        suite = suites.load_suite(here(), SUITES / f"{name}.jsonl")
    found = defaultdict[str, set[str]](set)
    for case in suite.cases:
        for template in templates(case.input):
            found[template].add(case.split)
    return found


def test_no_wording_stands_on_both_sides_of_the_split() -> None:
    places = [place for region in headlines.GIVEN["places"].values() for place in region]
    anywhere = re.compile(rf"\b({'|'.join(places)})\b")
    news = sides(
        "geopolitical_risk", lambda given: [anywhere.sub("_", row["text"]) for row in given["headlines"]]
    )
    found = sides(
        "meta_agent", lambda given: [f"{row['title']} {row['change']}" for row in given["findings"]]
    )
    assert len(news) > 100 and len(found) > 50
    assert [words for words, where in {**news, **found}.items() if len(where) > 1] == []


@pytest.mark.parametrize("name", LEAST)
def test_every_side_has_families_of_its_own(name: str) -> None:
    with working_in(HERE):
        suite = suites.load_suite(here(), SUITES / f"{name}.jsonl")
    tune, holdout = ({case.family for case in suite.part(half)} for half in suites.HALVES)
    assert not tune & holdout
    assert min(len(tune), len(holdout)) >= 4
    assert len(tune | holdout) < 0.6 * len(suite.cases), "a case is of a family that has others"


@pytest.mark.parametrize("file", BUILDERS, ids=lambda file: file.stem)
def test_a_builder_asks_no_agent(file: Path) -> None:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    imported = {
        name.split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in (
            [node.module or ""] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names]
        )
    }
    assert not imported & {"agents", "meta", "telemetry"}
    assert "Labelling rule" in (ast.get_docstring(tree) or "")


def test_every_builder_is_looked_at() -> None:
    assert len(BUILDERS) >= 5


def test_the_hard_ones_are_there() -> None:
    tags = Counter[str]()
    with working_in(HERE):
        for name in LEAST:
            tags.update(
                tag for case in suites.load_suite(here(), SUITES / f"{name}.jsonl").cases for tag in case.tags
            )
    wanted = (
        "near-above", "near-below", "holiday", "unit", "stale", "negated", "metaphor", "trade", "unharmed", "history",
        "sport", "fees-eat-it", "thin", "crossed-mirage", "forbidden", "unsafe", "clean",
    )  # fmt: skip
    assert {tag: tags[tag] for tag in wanted if tags[tag] < 4} == {}


def test_a_rebuild_keeps_the_common_promises(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    there = root / "there"
    there.mkdir()
    given = ["vix_echo", "--root", str(there)]
    assert build_suites.main([*given, "--quiet"]) == cli.OK
    assert capsys.readouterr() == ("", "")
    assert build_suites.main(given) == cli.OK
    assert capsys.readouterr().out.strip()
    assert build_suites.main([*given, "--json", "--quiet"]) == cli.OK
    told = capsys.readouterr()
    assert isinstance(json.loads(told.out), dict) and not told.err
    assert not [path for path in root.rglob("*") if path.is_file() and there not in path.parents]
    assert build_suites.main(["vix_echo", "--root", str(root / "nowhere")]) == cli.BAD_INPUT
    assert capsys.readouterr().err.count("\n") == 1
