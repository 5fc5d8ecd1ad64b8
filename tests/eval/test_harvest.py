"""Runs in the field become cases: labelled by what came true, by a person, or by disagreement; checked on their way."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from agents.manifest import load_manifest
from eval import harvest
from eval.field import choose
from eval.field.body import FORM
from eval.field.runs import Candidate, Run
from eval.field.session import anything_due
from eval.grading.graders import passes
from eval.grading.suite import Suites, split
from eval.hindsight.plan import _since
from eval.ledger.refusals import Refusal
from eval.ledger.refusals import record as refuse
from meta.evidence.known import words
from meta.nightly.stage import Stage
from meta.publish.contents import check_body
from meta.site.waiting import waiting
from telemetry.edge import cli
from telemetry.edge.errors import BadInput
from telemetry.edge.files import Repo, working_in
from telemetry.edge.text import unseen
from telemetry.texts import keep
from tests.conftest import REPOSITORY
from tests.worlds import world as base
from tests.worlds.eventlog import event, write

TODAY = "2026-11-18"
RIVERS = ("Elm", "Oak", "Ash")
Named = tuple[str, ...]


def run(number: int, day: str, named: Named, agent: str = "gauge", **fields: Any) -> bytes:
    """One run about a day, that named these rivers; its number is in its input, which is its own."""
    note = fields.pop("note", f"levels of {day} measured at dawn by warden {number}")
    given = json.dumps({"as_of": day, "note": note, "levels": [number, number + 1]})
    said = json.dumps([{"river": name, "why": "it rises", "level": 7} for name in named])
    signals = " ".join(f"{name}:flood" for name in named)
    row = {"event_id": f"{number:016x}-{len(agent):06d}", "run_id": f"run-{agent}-{number}", "agent": agent}
    texts = {"input_sha256": keep(given), "output_sha256": keep(said), "input_hash": f"{number:012x}"}
    ts = f"2026-11-{1 + number % 17:02}T12:00:00.000Z"
    return json.dumps(event(**row | texts, ts=ts, as_of=day, signals=signals) | fields).encode()


def outcome(day: str, **came: bool) -> list[dict[str, Any]]:
    return [{"date": day, "subject": name, "event": came.get(name, False)} for name in RIVERS]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two agents that speak of rivers, one case each, and rules for whoever judges."""
    base.manifest(tmp_path, [base.prompted("gauge"), base.prompted("echo")])
    for name in ("gauge", "echo"):
        base.put(tmp_path, f"agents/prompts/{name}.md", "# rivers\n")
        base.put(tmp_path, f"agents/schemas/{name}.json", {"type": "object"})
        base.suite(
            tmp_path, name, [{"id": "one", "input": {"q": 1}, "expect": [{"grader": "absent", "path": "9"}]}]
        )
    for path in ("eval/new_cases_report.schema.json", ".gitignore"):
        base.put(tmp_path, path, (REPOSITORY / path).read_bytes())
    return tmp_path


def field(root: Path, *rows: bytes, outcomes: list[dict[str, Any]] = []) -> None:  # noqa: B006 - never written to
    base.put(root, "telemetry/outcomes.jsonl", "".join(json.dumps(row) + "\n" for row in outcomes))
    with working_in(root):
        write(*rows)


def reap(root: Path, *flags: str) -> dict[str, Any]:
    """The report of a harvest."""
    assert harvest.main(["--root", str(root), "--quiet", "--today", TODAY, *flags]) == cli.OK
    file = root / FORM.path
    return dict(json.loads(file.read_text())) if file.exists() else {"cases": []}


def cases(root: Path, name: str = "gauge") -> dict[str, dict[str, Any]]:
    lines = (root / f"eval/suites/{name}.jsonl").read_text().splitlines()
    return {row["id"]: row for row in map(json.loads, lines) if row["id"] != "one"}


def test_what_came_true_is_the_label_and_the_case_is_fresh_and_pinned(root: Path) -> None:
    with working_in(root):
        rows = [
            run(1, "2026-11-02", ("Elm", "Elm")),
            run(2, "2026-11-03", ("Oak",)),
            run(3, "2026-11-09", ()),
        ]
    known = outcome("2026-11-02", Elm=True) + outcome("2026-11-03", Elm=True) + outcome("2026-11-09")
    field(root, *rows, outcomes=known)
    report = reap(root)
    told = {one["run_id"]: (one["proposed"], one["agrees"], one["reason"]) for one in report["cases"]}
    assert told == {
        "run-gauge-1": (["Elm"], True, "outcome"),
        "run-gauge-2": (["Elm"], False, "outcome"),
        "run-gauge-3": ([], True, "outcome"),
    }
    suite = Suites(Repo(root)).load("eval/suites/gauge.jsonl", check=True)  # refused if it were not pinned
    fresh = [case for case in suite.cases if case.split == "fresh"]
    assert len(fresh) == 3 and {case.since for case in fresh} == {TODAY}
    right = next(case for case in fresh if "2026-11-03" in case.id)
    assert passes(right.expect, [{"river": "Elm"}, {"river": "Elm"}])
    assert not passes(right.expect, [{"river": "Elm"}, {"river": "Oak"}])
    text = (root / FORM.markdown).read_text()
    assert list(check_body(text.encode())) == []
    shown = [
        line[len("<details><summary>gauge, ") :][:10]
        for line in text.splitlines()
        if "<summary>gauge" in line
    ]
    assert shown == ["2026-11-03", "2026-11-02", "2026-11-09"], "what was answered wrong comes first"


def test_a_run_whose_claim_nobody_knows_yet_is_left_open(root: Path) -> None:
    with working_in(root):
        rows = [run(1, "2026-11-02", ("Elm", "Yew")), run(2, "2026-11-03", ("Elm",))]
    field(root, *rows, outcomes=outcome("2026-11-02") + outcome("2026-11-03"))
    assert [one["run_id"] for one in reap(root)["cases"]] == ["run-gauge-2"]


def test_what_a_person_corrected_is_the_label_and_their_words_reach_the_proposer(root: Path) -> None:
    with working_in(root):
        field(root, run(1, "2026-11-02", ("Elm",)), run(2, "2026-11-03", ("Oak",)))
    flags = ["--root", str(root), "--quiet", "--correct", "run-gauge-1", "--right", "Oak,Ash"]
    assert harvest.main([*flags, "--why", "a broken gauge, ask anna@example.com"]) == cli.OK
    (one,) = reap(root)["cases"]
    assert (one["proposed"], one["reason"]) == (["Oak", "Ash"], "corrected")
    suite = Suites(Repo(root)).load("eval/suites/gauge.jsonl")
    case = suite.cases[-1]
    assert split(case.family) == "tune" and "a broken gauge, ask [email]" in case.note
    assert words(suite, {}) == [case.note]
    assert not _since(case, "2026-01-01", None), "it was picked for its answer: no test of a promotion"


def test_rounds_models_and_agents_that_disagree_are_shown_with_what_most_of_them_named(root: Path) -> None:
    with working_in(root):
        told = ((("Elm",), "a"), (("Elm", "Oak"), "a"), (("Elm",), "b"))
        rows = [
            run(1, "2026-11-02", named, model=model, event_id=f"{at:016}-000001")
            for at, (named, model) in enumerate(told)
        ]
        rows += [run(2, "2026-11-03", ("Oak",)), run(2, "2026-11-03", ("Elm",), agent="echo")]
        rows += [run(4, "2026-11-04", ("Elm",)), run(5, "2026-11-05", ("Oak",), agent="echo")]
    field(root, *rows)
    found = {(one["agent"], one["day"]): one for one in reap(root)["cases"]}
    assert set(found) == {("gauge", "2026-11-02"), ("gauge", "2026-11-03"), ("echo", "2026-11-03")}
    assert found["gauge", "2026-11-02"]["proposed"] == ["Elm"]
    assert found["gauge", "2026-11-02"]["why"] == "models differ: 2 x Elm, 1 x Elm, Oak"
    assert found["echo", "2026-11-03"]["why"] == "gauge named Oak on the same input"


def test_what_came_true_is_picked_whatever_the_answer_was(root: Path) -> None:
    days = [f"2026-11-{1 + at:02}" for at in range(16)]
    known = [row for at, day in enumerate(days) for row in outcome(day, Elm=at % 2 == 0)]
    chosen = []
    for answer in (("Elm",), ("Elm", "Oak")):
        with working_in(root):
            field(root, *(run(at, day, answer) for at, day in enumerate(days)), outcomes=known)
        report = harvest.main(["--root", str(root), "--quiet", "--today", TODAY, "--dry-run", "--most", "6"])
        assert report == cli.OK
        from eval.field.session import Asked
        from eval.field.session import harvest as look

        chosen.append(
            [one.day for one in look(Repo(root), Asked(6, 45, date(2026, 11, 18)), dry_run=True).cases]
        )
    assert chosen[0] == chosen[1] and len(chosen[0]) == 6


def test_near_duplicates_personal_data_and_refused_cases_stay_out(root: Path) -> None:
    long = " ".join(f"word{at}" for at in range(80))
    with working_in(root):
        notes = (
            long,
            long + " today",
            "call the warden at +49 30 1234567 or anna@example.com",
            "a third, refused",
        )
        rows = [run(at, "2026-11-02", ("Elm",), note=note) for at, note in enumerate(notes)]
    field(root, *rows, outcomes=outcome("2026-11-02", Elm=True))
    refused = next(json.loads(row)["input_sha256"] for row in rows[3:])
    refuse(Repo(root), [Refusal("new_cases", f"gauge/field-2026-11-02-{refused[:10]}", "", "", "x")])
    report = reap(root)
    assert report["left_out"] == {"alike": 1, "nobody": 0, "refused": 1}
    (private,) = [row for row in cases(root).values() if "call the warden" in row["input"]["note"]]
    assert private["input"]["note"] == "call the warden at [phone] or [email]"
    assert "1234567" not in (root / FORM.path).read_text() + (root / FORM.markdown).read_text()


def test_whoever_is_disabled_gets_no_cases(root: Path) -> None:
    base.manifest(root, [base.prompted("gauge", enabled=False), base.prompted("echo")])
    with working_in(root):
        rows = [run(1, "2026-11-02", ("Elm",)), run(2, "2026-11-02", ("Elm",), "echo")]
    field(root, *rows, outcomes=outcome("2026-11-02", Elm=True))
    report = reap(root)
    assert {one["agent"] for one in report["cases"]} == {"echo"} and report["left_out"]["nobody"] == 1


def test_after_ninety_days_they_join_the_half_of_their_family(root: Path) -> None:
    with working_in(root):
        field(root, run(1, "2026-11-02", ("Elm",)), outcomes=outcome("2026-11-02", Elm=True))
    reap(root)
    assert harvest.main(["--root", str(root), "--quiet", "--today", "2027-02-16"]) == cli.OK
    case = Suites(Repo(root)).load("eval/suites/gauge.jsonl").cases[-1]
    assert case.split == split(case.family) and case.since == TODAY
    assert json.loads((root / FORM.path).read_text())["settled"] == {"eval/suites/gauge.jsonl": 1}


def test_what_happened_in_one_week_is_one_family_and_names_of_fields_are_no_words() -> None:
    run = Run("r", "gauge", "2026-11-02", None, None, "", "h", "i", None)
    days = [replace(run, day=day) for day in ("2026-11-02", "2026-11-08", "2026-11-09")]
    monday, sunday, next_monday = (choose.family(Candidate(one, "outcome", "", (), ())) for one in days)
    assert monday == sunday != next_monday
    assert choose.shingles({"a": "one two three"}) == choose.shingles({"b": ["one two", "three"]})


def published(root: Path) -> Stage:
    """A stage on which a harvest has run."""
    with working_in(root):
        field(
            root,
            run(1, "2026-11-02", ("Elm",)),
            run(2, "2026-11-03", ()),
            outcomes=outcome("2026-11-02", Elm=True),
        )
    return Stage(base.commit(root))


def test_it_becomes_a_branch_of_its_own_and_a_step_only_where_there_is_something(root: Path) -> None:
    with published(root) as stage:
        assert anything_due(Repo(root), load_manifest(Repo(root)), date(2026, 11, 18))
        reap(stage.fresh())
        assert stage.publish("new_cases") == "meta/new-cases"
    (change,) = waiting(Repo(root))
    assert change.effect == "changes eval cases, nothing goes live"
    assert change.finding == "1 new case from the field (1 gauge)"
    base.git(root, "merge", "-q", "--no-edit", "meta/new-cases")
    assert len(cases(root)) == 1
    assert not anything_due(Repo(root), load_manifest(Repo(root)), date(2026, 11, 19)), "once a week"


def test_what_a_reader_would_not_see_is_spelt_out_and_stops_no_harvest(root: Path) -> None:
    named, note = "El\u202em", "a\U000e0041 note"
    with working_in(root):
        known = [*outcome("2026-11-02", Elm=True), {"date": "2026-11-02", "subject": named, "event": False}]
        field(root, run(1, "2026-11-02", ("Elm", named), note=note), outcomes=known)
    with Stage(base.commit(root)) as stage:
        reap(stage.fresh())
        texts = [(stage.tree / name).read_text() for name in ("eval/suites/gauge.jsonl", FORM.path)]
        assert stage.publish("new_cases") == "meta/new-cases"
    suite, report = texts
    assert "u202e" in report and unseen(report) is None and unseen(suite) is None
    [case] = [row for row in map(json.loads, suite.splitlines()) if row["id"] != "one"]
    assert case["input"]["note"] == note


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (b'"split":"fresh",', b"", "another case than the report's"),
        (b'"id":"one"', b'"id":"two"', "changes a case that was there"),
        (b'"id":"one"', b'"id":"one","note":"ignore"', "changes a case that was there"),
    ],
)
def test_the_guard_refuses_a_suite_that_is_not_what_the_report_tells(
    root: Path, old: bytes, new: bytes, told: str
) -> None:
    with published(root) as stage:
        tree = stage.fresh()
        reap(tree)
        file = tree / "eval/suites/gauge.jsonl"
        assert old in file.read_bytes()
        file.write_bytes(file.read_bytes().replace(old, new))
        base.suites.pin(Repo(tree), [Path("eval/suites/gauge.jsonl")])
        with pytest.raises(BadInput, match=told):
            stage.publish("new_cases")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"grader": "os:system"}, "graded by code of one's own"),
        ({"split": ""}, "is not fresh"),
        ({"expect": "other"}, "reads otherwise in its report"),
        ({"since": "2099-01-01"}, "is of a day to come"),
    ],
)
def test_the_guard_recomputes_what_a_report_says_of_a_case(
    root: Path, change: dict[str, str], told: str
) -> None:
    import hashlib

    from eval.field.record import shown
    from eval.grading.suite import encoded
    from meta.publish.cases import check_suite
    from meta.publish.contents import REGULAR, Change

    with published(root):
        report = reap(root)
    path = "eval/suites/gauge.jsonl"
    before, line = (root / path).read_bytes().splitlines(keepends=True)
    case, entry = json.loads(line), report["cases"][0]
    if "grader" in change:
        case["expect"][0]["grader"] = change["grader"]
    elif "split" in change:
        del case["split"]
    report["since"] = change.get("since", report["since"])
    entry |= {
        "sha256": hashlib.sha256(encoded(case)).hexdigest(),
        "expect": change.get("expect") or shown(case["expect"]),
    }
    after = Change(path, REGULAR, REGULAR, before, before + encoded(case), 1)
    assert told in "; ".join(check_suite(after, json.dumps(report).encode()))


def test_the_guard_refuses_a_pin_that_does_not_follow_from_the_cases(root: Path) -> None:
    with published(root) as stage:
        tree = stage.fresh()
        reap(tree)
        lock = tree / "eval/suites/suites.lock.json"
        rows = json.loads(lock.read_text())
        rows["suites"]["echo.jsonl"]["sha256"] = "0" * 64
        base.put(tree, lock, rows)
        with pytest.raises(BadInput, match=r"pins echo\.jsonl otherwise"):
            stage.publish("new_cases")


def test_a_case_that_a_person_took_out_before_merging_is_not_asked_again(root: Path) -> None:
    from meta.pulls.claims import claims
    from meta.pulls.closed import undone

    with published(root):
        (claim,) = claims("new_cases", reap(root))
    assert not undone(Repo(root), "new_cases", claim)
    base.suite(
        root, "gauge", [{"id": "one", "input": {"q": 1}, "expect": [{"grader": "absent", "path": "9"}]}]
    )
    assert undone(Repo(root), "new_cases", claim)
