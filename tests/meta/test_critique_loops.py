"""Promises of meta/critique_loops.py: checked evidence, merged and linked findings, hostile critics kept harmless."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.manifest import Manifest
from agents.model.call import Completion, LLMError, Message, Model
from agents.model.schema import problems
from agents.offline.rules import Analyst, read
from eval.grading.suite import split
from meta import critique_loops
from meta.critique.check import ANSWER, alike, linked, merged, ranked
from meta.critique.report import FORM, Critique, Failed, Issue, Recommendation, Refusal, Report, markdown
from meta.critique_loops import Options, critique, run_loops
from meta.offline import analysts
from meta.publish import contents
from telemetry.edge import cli
from telemetry.edge.errors import Stopped
from telemetry.edge.files import here
from telemetry.edge.records import made
from tests.worlds import eval_checkout
from tests.worlds.critique_checkout import HOLDOUT, TUNE, advice, answer, issue, make, put, results, wrong
from tests.worlds.models import Says
from tests.worlds.world import offline, rows, suite

NOBODY = {"by_agent": {}}
REPORT = FORM.path


@pytest.fixture(autouse=True)
def checkout(root: Path) -> Path:
    make(root)
    return root


def said(*issues: dict[str, Any], advice: Sequence[dict[str, Any]] = ()) -> dict[str, Any]:
    """What becomes of this answer of beta about alpha."""
    output = [{"id": "h1", "risk_score": 140, "rationale": "so"}]
    return critique("beta", "alpha", output, NOBODY, model=Says(answer(list(issues), list(advice))))


def test_a_quotation_that_is_in_the_input_supports_its_issue_and_another_does_not() -> None:
    done = said(issue("impossible score"), issue("invented", '"risk_score": 250'), issue("too short", "a"))
    assert [row["supported"] for row in done["issues"]] == [True, False, False]


def test_unsupported_issues_are_ranked_last_however_severe() -> None:
    done = said(issue("invented", "nowhere to be found", "high"), issue("impossible score", severity="low"))
    (best,) = ranked(linked(merged([made(Critique, done)]), [], "2026-11-16"))
    assert [row.title for row in best.issues] == ["impossible score", "invented"]


@pytest.mark.parametrize(
    "change",
    [
        "Relax tests/test_x.py",
        "Edit .github/workflows/ci.yml",
        "Write ../../etc/passwd",
        "Drop eval/suites/a.jsonl",
    ],
)
def test_a_recommendation_on_a_protected_path_is_refused(change: str) -> None:
    done = said(advice=[advice(change), advice("Cap the score at 100")])
    assert [row["change"] for row in done["recommendations"]] == ["Cap the score at 100"]
    assert "protected path" in done["refused"][0]["reason"]


def test_a_recommendation_of_two_megabytes_is_refused_and_the_others_stay() -> None:
    done = said(advice=[advice("x" * 2_000_000), advice("Cap the score at 100")])
    assert len(done["recommendations"]) == 1
    assert done["refused"][0]["reason"] == "change has 2,000,000 characters, at most 2,000 are read"
    assert len(json.dumps(done)) < 5_000


def test_more_than_a_dozen_issues_are_not_read() -> None:
    done = said(*(issue(f"{'abcdefghijklmnopqrst'[n] * 8} defect") for n in range(20)))
    assert len(done["issues"]) == 12
    assert len(done["refused"]) == 8


def test_hostile_words_reach_the_pull_request_as_harmless_text() -> None:
    bad = "@everyone <script>alert(1)</script> fixes #1 [x](javascript:y)\u202e sk-abcdefghijklmnopqrstuvwxyz0123456789"
    model = Says(answer([issue(bad, bad)], [advice(bad)]))
    report = run_loops(Options(today="2026-11-16"), model=model)
    body = markdown(made(Report, report))
    assert list(contents.check_body(body.encode())) == []
    assert "<script" not in body and "\u202e" not in json.dumps(report, ensure_ascii=False)
    assert "sk-abcdef" not in json.dumps(report)


def test_an_answer_of_the_wrong_shape_fails_its_pair_alone(checkout: Path) -> None:
    report = run_loops(model=Says({"issues": "all is well"}, answer([issue("impossible score")])))
    assert [row["error_kind"] for row in report["failed"]] == ["parse"]
    assert len(report["critiques"]) == 1
    assert (checkout / REPORT).exists()


class Failing(Model):
    """A model that only answers about beta."""

    async def complete(self, messages: Sequence[Message], **_: Any) -> Completion:
        if json.loads(messages[-1]["content"])["agent"] == "alpha":
            raise LLMError("overloaded", "provider")
        return await Says(answer([issue("calm words", '"calm"')])).complete(messages)


def test_a_failed_pair_keeps_its_earlier_findings_and_loses_no_other() -> None:
    first = run_loops(Options(today="2026-11-15"), model=Says(answer([issue("impossible score")])))
    second = run_loops(Options(today="2026-11-16"), model=Failing())
    assert [row["error_kind"] for row in second["failed"]] == ["provider"]
    about = {row["target_agent"]: row for row in second["critiques"]}
    assert about["alpha"] == next(row for row in first["critiques"] if row["target_agent"] == "alpha")
    assert about["beta"]["issues"][0]["title"] == "calm words"


def test_an_outage_of_every_pair_stops_and_writes_nothing(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    class Down(Model):
        async def complete(self, *_: Any, **__: Any) -> Completion:
            raise LLMError("connection refused", "provider")

    with pytest.raises(Stopped, match="connection refused"):
        run_loops(model=Down())
    assert not (checkout / REPORT).exists()


def test_holdout_cases_are_never_shown_whatever_the_results_file_says() -> None:
    model = Says(answer([]))
    run_loops(model=model)
    shown = json.dumps([message for asked in model.asked for message in asked])
    assert TUNE in shown
    assert HOLDOUT not in shown and "secret-kind" not in shown


def test_a_case_of_a_holdout_family_is_not_shown_either(checkout: Path) -> None:
    hidden = next(name for name in ("apple", "pear", "plum", "fig") if split(name) == "holdout")
    suite(checkout, "alpha", ({**eval_checkout.case("alpha", at), "family": hidden} for at in range(40)))
    model = Says(answer([]))
    run_loops(model=model)
    assert TUNE not in json.dumps(model.asked)


def test_results_of_another_prompt_text_are_not_held_against_this_one(checkout: Path) -> None:
    (checkout / "agents/prompts/alpha.md").write_text("# alpha\n\nReport no note.\n")
    model = Says(answer([]))
    run_loops(model=model)
    assert TUNE not in json.dumps(model.asked)


def test_what_two_critics_say_is_merged_and_both_are_named() -> None:
    def by(critic: str, title: str) -> Critique:
        return Critique(critic, "x", (Issue(title, "so", "bad", "med", True),), (), ())

    done = merged(
        [
            by("a", "negated headlines are scored as escalation"),
            by("b", "Negated headline scored as escalation 7"),
        ]
    )
    assert done[0].issues[0].also_by == ("b",)
    assert done[1].issues == ()


def test_the_same_words_about_different_kinds_stay_apart() -> None:
    assert not alike("near-below cases fail", "near-above cases fail")
    assert not alike("Settle near-below cases by a rule", "Settle broken-truce cases by a rule")


def test_a_repeated_finding_keeps_id_date_and_words_of_the_night_that_found_it(checkout: Path) -> None:
    first = run_loops(Options(today="2026-11-14"), model=Says(answer([issue("impossible scores of 140")])))
    again = answer([issue("impossible scores of 141"), issue("slow to answer")])
    second = run_loops(Options(today="2026-11-15"), model=Says(again))
    old, new = next(row for row in second["critiques"] if row["target_agent"] == "alpha")["issues"]
    assert old == first["critiques"][0]["issues"][0]
    assert new["first_seen"] == "2026-11-15"


def test_two_runs_of_a_night_that_find_the_same_name_it_alike(checkout: Path) -> None:
    def names(title: str) -> list[str]:
        (checkout / REPORT).unlink(missing_ok=True)  # another machine: it has not read the other's report
        found = run_loops(model=Says(answer([issue(title), issue("slow to answer")])))["critiques"]
        return [row["id"] for critique in found for row in critique["issues"]]

    first = names("impossible scores of 140")
    assert len(set(first)) == len(first)
    assert names("impossible scores of 141") == first


def test_a_night_without_news_leaves_the_report_as_it_is(checkout: Path) -> None:
    run_loops(Options(today="2026-11-14"), model=Says(answer([issue("impossible score")])))
    before = [(checkout / REPORT).read_bytes(), (checkout / REPORT.with_suffix(".md")).read_bytes()]
    run_loops(Options(today="2026-11-15"), model=Says(answer([issue("impossible score")])))
    assert before == [(checkout / REPORT).read_bytes(), (checkout / REPORT.with_suffix(".md")).read_bytes()]


def test_known_issues_are_one_line_in_the_text_and_new_ones_a_section() -> None:
    report = run_loops(Options(today="2026-11-14"), model=Says(answer([issue("impossible score")])))
    body = markdown(replace(made(Report, report), generated_at="2026-11-15T01:00:00.000Z"))
    assert "### New" not in body
    assert "| `alpha` | impossible score | med | 2026-11-14 | `" in body


def test_the_text_says_when_the_critics_were_the_offline_model_and_else_which(checkout: Path) -> None:
    run_loops(model=offline())
    assert "> Critics asked the **offline model**." in (checkout / FORM.markdown).read_text()
    found = FORM.read(here())
    assert found is not None and found.model.provider == "offline"
    other = replace(found, model=replace(found.model, provider="openai", model="gpt-x"))
    assert "> Critics asked `gpt-x`." in markdown(other)


def test_any_number_of_long_findings_gives_a_text_that_may_be_published() -> None:
    issue = Issue("@" * 200, "#" * 1000, "<" * 500, "high", True, ("b",) * 9, "2026-11-16/a-1", "2026-11-16")
    known = replace(issue, first_seen="2026-11-01")
    advice, refused = Recommendation("x" * 2000, "y" * 1000, "P0"), Refusal("issue", "z" * 200, "w" * 300)
    rows = [Critique("a", f"t{n}", (issue, known) * 6, (advice,) * 12, (refused,) * 24) for n in range(30)]
    failed = tuple(Failed("a", f"t{n}", "timeout", "e" * 300) for n in range(100))
    run_loops(model=offline())
    found = FORM.read(here())
    assert found is not None
    body = markdown(replace(found, generated_at="2026-11-16T01:00", critiques=tuple(rows), failed=failed))
    assert list(contents.check_body(body.encode())) == []
    assert body.startswith("> **180 new issues**, 180 of high severity; 180 of earlier") and "### New" in body


def test_a_report_that_was_tampered_with_is_not_read_back(checkout: Path) -> None:
    put(checkout, str(REPORT), {"critiques": [{"target_agent": "alpha", "issues": ["../"]}]})
    report = run_loops(model=Says(answer([issue("impossible score")])))
    assert report["critiques"][0]["issues"][0]["title"] == "impossible score"


def test_every_call_is_logged_under_its_critic_as_critique() -> None:
    run_loops(model=Says(answer([])))
    logged = [(row["kind"], row["agent"], row["source"]) for row in rows()]
    assert sorted(logged) == [
        ("llm_call", "alpha", "critique"),
        ("llm_call", "beta", "critique"),
        ("run", "alpha", "critique"),
        ("run", "beta", "critique"),
    ]


def test_an_agent_of_which_nothing_is_known_is_not_judged(checkout: Path) -> None:
    for name in ("alpha", "beta"):
        (checkout / f"agents/outputs/{name}.json").unlink()
    put(checkout, "telemetry/summary.json", {"by_agent": {}})
    results(checkout, [])
    model = Says(answer([]))
    report = run_loops(model=model)
    assert model.asked == []
    assert len(report["nothing_to_see"]) == 2


def test_only_new_issues_or_their_end_are_worth_telling(checkout: Path) -> None:
    def told() -> str:
        assert critique_loops.main(["--root", str(checkout), "--quiet"]) == cli.OK
        return cli.outputs()["to_tell"]

    def nothing_known() -> None:
        for name in ("alpha", "beta"):
            (checkout / f"agents/outputs/{name}.json").unlink(missing_ok=True)
        put(checkout, "telemetry/summary.json", {"by_agent": {}})
        results(checkout, [])

    nothing_known()
    assert told() == "false" and not (checkout / REPORT).exists(), "there is nobody to judge"
    results(checkout, [wrong(f"alpha-{n:04}", "fifth") for n in range(99)])
    assert told() == "true" and (checkout / REPORT).exists()
    nothing_known()
    assert told() == "true", "what was reported no longer holds"
    assert told() == "false"


def test_the_offline_critic_finds_kinds_that_fail_and_quotes_them(checkout: Path) -> None:
    tune = [f"alpha-{n:04}" for n in range(99)]
    results(checkout, [wrong(name, "fifth") for name in tune])
    report = run_loops(model=offline())
    assert problems(json.loads(FORM.schema.read_text()), report) == []
    found = report["critiques"][0]["issues"]
    assert "fifth cases fail" in [row["title"] for row in found]
    assert all(row["supported"] for row in found)


def test_the_command_line_writes_both_reports_and_tells_failed_pairs(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert critique_loops.main(["--root", str(checkout), "--seed", "3", "--quiet"]) == cli.OK
    assert capsys.readouterr().out == ""
    assert (checkout / REPORT).exists() and (checkout / REPORT.with_suffix(".md")).exists()
    assert critique_loops.main(["--root", str(checkout), "--offline-noise", "2"]) == cli.BAD_INPUT


def payloads() -> st.SearchStrategy[Mapping[str, Any]]:
    numbers = st.one_of(st.none(), st.floats(-2, 200, allow_nan=False))
    item = st.dictionaries(
        st.sampled_from(["risk_score", "regime", "signal", "rationale"]), st.one_of(numbers, st.text())
    )
    case = st.fixed_dictionaries(
        {"id": st.text(), "tags": st.lists(st.sampled_from("ab")), "reasons": st.lists(st.text(), max_size=2)}
    )
    counts = st.fixed_dictionaries({"failing": st.integers(0, 9), "of": st.integers(0, 9)})
    return st.fixed_dictionaries(
        {
            "items": st.lists(st.fixed_dictionaries({"index": st.just(0), "item": item}), max_size=3),
            "own_output": st.lists(item, max_size=3),
            "failing_cases": st.lists(case, max_size=3),
            "tags": st.dictionaries(st.sampled_from("ab"), counts),
            "telemetry": st.dictionaries(st.sampled_from(["error_rate", "avg_reward", "count"]), numbers),
        }
    )


@pytest.fixture(scope="module")
def critic() -> Analyst:
    return analysts(Manifest((), {}))["critique"]


@given(payloads())
def test_the_offline_critic_answers_any_material_in_the_asked_shape(
    critic: Analyst, material: Mapping[str, Any]
) -> None:
    told = read("```rules\nanalyst: critique\nalarm_score: 70\nmax_error_share: 0.1\nlow_reward: 0.05\n```\n")
    assert problems(ANSWER, critic.answer(told, material)) == []
