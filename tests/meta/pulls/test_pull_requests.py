"""A pull request's life: a no is kept, what was overtaken is told, a person's commit stays, a comment is answered."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from eval.ab.memory import Memory
from eval.ab.plan import as_variant
from eval.ledger.refusals import Refusal, refusals
from eval.ledger.remarks import remarks
from meta import pull_requests
from meta.publish.kinds import KINDS
from meta.pulls import commands, hub
from telemetry.edge import cli
from telemetry.edge.errors import Stopped
from tests.meta.pulls.place import BETTER, LIVE, PROMPT, Place, ab_report, as_in_a_workflow, sha
from tests.worlds import proposal_repo as repo

BRANCH = KINDS["ab_champion"].branch


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    made = Place(tmp_path)
    as_in_a_workflow(made.hub, monkeypatch)
    yield made
    made.hub.close_down()


def act(
    place: Place, action: str, *flags: str, kind: str = "ab_champion", code: int = cli.OK
) -> dict[str, str]:
    answer = pull_requests.main([action, "--kind", kind, "--root", str(place.tree), "--quiet", *flags])
    assert answer == code
    return cli.outputs()


def on_record(place: Place) -> list[Refusal]:
    return refusals(place.repo)


def test_closing_one_unmerged_puts_its_text_on_record_with_who_and_why(place: Place) -> None:
    number = place.propose()
    place.hub.comment(number, "Too wordy for my taste.")
    place.hub.comment(number, "You should see my cat.", by="eve")
    place.hub.close(number)
    assert act(place, "read")["open"] == "false"
    (refused,) = on_record(place)
    assert (refused.subject, refused.sha256, refused.champion_sha256) == (PROMPT, sha(BETTER), sha(LIVE))
    assert (refused.by, refused.why) == ("ann", "Too wordy for my taste.")
    act(place, "read")
    assert on_record(place) == [refused]


def test_a_move_to_another_model_that_was_refused_is_not_compared_again(place: Place) -> None:
    here, there = as_variant("gpt-small"), as_variant("qwen3:8b")
    arm = {"sha256": there.sha256, "variant": there.name, "promoted": True, "verdict": "promote"}
    test = {"prompt": "", "model": here.name, "champion_sha256": here.sha256, "arms": [arm]}
    place.hub.close(place.propose("ab_model", {"tests": [test]}))
    act(place, "read", kind="ab_model")
    (refused,) = on_record(place)
    assert (refused.subject, refused.by) == ("qwen3-8b", "ann")
    memory = Memory(place.repo)
    assert memory.refusal(there, here) == refused
    assert memory.refusal(there, as_variant("gpt-large")) is None  # beside another it may be tried


def test_an_open_and_a_merged_one_are_no_refusal(place: Place) -> None:
    number = place.propose(files={PROMPT: BETTER})
    assert act(place, "read")["open"] == "true"
    place.hub.merge(number)
    place.update()
    act(place, "read")
    assert on_record(place) == []


def test_merged_and_reverted_is_a_refusal_once_the_revert_is_in_the_checkout(place: Place) -> None:
    decision = "meta/decisions/2026-11-16-ab_champion-macro_watcher.json"
    text = repo.decision("promote", "ab_champion", "macro_watcher", BETTER)
    number = place.propose(files={PROMPT: BETTER, decision: text})
    place.hub.merge(number, how="squash")
    act(place, "read")  # the checkout is older than the merge: that looks alike
    assert on_record(place) == []
    place.hub.revert(number, why="It cried wolf all day.")
    place.update()
    act(place, "read")
    (refused,) = on_record(place)
    assert (refused.sha256, refused.by, refused.why) == (sha(BETTER), "ann", "It cried wolf all day.")


def test_what_automation_took_back_itself_is_no_refusal(place: Place) -> None:
    place.propose(report=ab_report(champion="another text"))
    act(place, "settle")
    act(place, "read")
    assert on_record(place) == []


def test_an_edited_report_refuses_nothing_and_breaks_nothing(place: Place) -> None:
    for broken in ({"tests": [{}]}, {"tests": 3}, [], {"tests": [{"prompt": 1, "arms": [None]}]}):
        place.hub.close(place.propose(report=broken or [1]))
    act(place, "read")
    assert on_record(place) == []


def handed_over(tmp_path: Path, report: object) -> str:
    folder = tmp_path / "handover"
    repo.write(folder, "report.json", json.dumps(report))
    return str(folder)


def no_schema(place: Place) -> None:
    for schema in filter(None, (kind.schema for kind in KINDS.values())):
        repo.write(place.tree, schema, "{}")


def test_a_lost_retest_closes_it_deletes_the_branch_and_says_why(place: Place, tmp_path: Path) -> None:
    no_schema(place)
    number = place.propose()
    act(place, "settle", "--handover", handed_over(tmp_path, ab_report(verdict="keep")))
    assert place.hub.pulls[number]["state"] == "closed"
    assert place.hub.tip(BRANCH) == ""
    assert "tested again, it lost: -3.1 points on 80 cases" in place.hub.said(number)[0]


def test_a_changed_champion_closes_it_without_any_new_report(place: Place) -> None:
    number = place.propose()
    repo.write(place.tree, PROMPT, "Somebody's own text.\n")
    act(place, "settle")
    assert "what was compared with is no longer live" in place.hub.said(number)[0]


def test_a_run_that_found_nothing_new_leaves_an_open_one_alone(place: Place, tmp_path: Path) -> None:
    no_schema(place)
    number = place.propose()
    act(place, "settle")
    for verdict in ("continue", "inconclusive"):
        act(place, "settle", "--handover", handed_over(tmp_path, ab_report(verdict=verdict)))
    act(place, "settle", "--handover", handed_over(tmp_path, ab_report("another challenger", "keep")))
    assert (place.hub.pulls[number]["state"], place.hub.said(number)) == ("open", [])


def test_a_recovered_agent_takes_its_retirement_back_and_part_of_it_becomes_a_draft(
    place: Place, tmp_path: Path
) -> None:
    no_schema(place)
    both = {"candidates": [{"agent": "a"}, {"agent": "b"}]}
    number = place.propose("retirement", both)
    states = [{"agent": "a", "state": "candidate"}, {"agent": "b", "state": "active"}]
    flags = ("--handover", handed_over(tmp_path, {"agents": states}))
    for _ in range(2):  # told once
        act(place, "settle", *flags, kind="retirement")
    pull = place.hub.pulls[number]
    assert (pull["state"], pull["draft"], len(place.hub.said(number))) == ("open", True, 1)
    states[0]["state"] = "active"
    act(place, "settle", "--handover", handed_over(tmp_path, {"agents": states}), kind="retirement")
    assert pull["state"] == "closed"


def test_a_report_that_breaks_its_schema_takes_nothing_back(place: Place, tmp_path: Path) -> None:
    number = place.propose()
    repo.write(place.tree, KINDS["ab_champion"].schema, json.dumps({"required": ["settings"]}))
    hostile = handed_over(tmp_path, ab_report(verdict="keep"))
    act(place, "settle", "--handover", hostile, code=cli.BAD_INPUT)
    assert place.hub.pulls[number]["state"] == "open"


def test_a_persons_commit_holds_the_branch_and_is_told_once(place: Place) -> None:
    number = place.propose()
    assert act(place, "hold")["hold"] == "false"
    tip = place.commit_by_a_person(BRANCH)
    for _ in range(2):
        assert act(place, "hold")["hold"] == "true"
    (said,) = place.hub.said(number)
    assert tip[:10] in said and "was left as it is" in said


def test_an_overtaken_one_with_a_persons_commit_is_a_draft_and_keeps_its_branch(place: Place) -> None:
    number = place.propose()
    tip = place.commit_by_a_person(BRANCH)
    repo.write(place.tree, PROMPT, "Somebody's own text.\n")
    act(place, "settle")
    pull = place.hub.pulls[number]
    assert (pull["state"], pull["draft"], place.hub.tip(BRANCH)) == ("open", True, tip)


def asked(place: Place, monkeypatch: pytest.MonkeyPatch, number: int, body: str, by: str = "ann") -> str:
    """Comment, run what the workflow runs, and give what was answered."""
    event = {
        "comment": {"body": body, "user": {"login": by}},
        "issue": {"number": number, "pull_request": {}},
        "repository": {"default_branch": "main"},
    }
    monkeypatch.setenv(
        "GITHUB_EVENT_PATH", str(repo.write(place.tree.parent, "event.json", json.dumps(event)))
    )
    place.hub.comment(number, body, by)
    assert pull_requests.main(["answer", "--root", str(place.tree), "--quiet"]) == cli.OK
    return place.hub.said(number)[-1]


def test_reject_closes_records_and_answers_in_one_run(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    number = place.propose()
    said = asked(place, monkeypatch, number, "/ratchet reject It is @team spam\nand more")
    assert "is on record and will not come back" in said and "@team" not in said
    assert (place.hub.pulls[number]["state"], place.hub.tip(BRANCH)) == ("closed", "")
    (refused,) = on_record(place)
    assert (refused.by, refused.why) == ("ann", "It is @team spam")
    act(place, "read")
    assert on_record(place) == [refused]


def test_more_and_allow_cost_start_the_ab_test(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    number = place.propose()
    repo.write(place.tree, "agents/manifest.yaml", repo.MANIFEST + "ab_test: {rounds: 12}\n")
    assert "up to round 12" in asked(place, monkeypatch, number, "/ratchet more")
    assert "in spite of its cost" in asked(place, monkeypatch, number, "/ratchet allow cost")
    started = [(one["workflow"], one["ref"], one["inputs"]) for one in place.hub.dispatched]
    assert started == [
        ("prompt_ab_test.yml", "main", {"trials": "12"}),
        ("prompt_ab_test.yml", "main", {"allow": "cost"}),
    ]


def test_explain_shows_what_both_texts_said_to_a_case(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {arm: {"score": 0.0, "output_preview": f"{arm} says <b>"} for arm in ("champion", "challenger")}
    flip = {"case": "macro-7", "agent": "m", "expected": "calm", "why": "missed", **answers}
    number = place.propose(report=ab_report(newly_right=[flip]))
    said = asked(place, monkeypatch, number, "/ratchet explain macro-7")
    assert "newly right" in said and "champion says &lt;b&gt;" in said
    assert "No case `macro-8` changed sides" in asked(place, monkeypatch, number, "/ratchet explain macro-8")


def test_words_on_a_case_and_corrections_of_a_run_go_on_record(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = place.propose()
    said = asked(place, monkeypatch, number, "/ratchet explain macro-7 the series was revised")
    assert "Your words are kept" in said
    told = asked(
        place, monkeypatch, number, "/ratchet correct 20261118T080825-86d796682e12 VIX,WTI it was a holiday"
    )
    assert "should have named `VIX,WTI`" in told
    found = remarks(place.repo)
    assert [(one.said, one.by, one.values) for one in found["macro-7"]] == [
        ("the series was revised", "ann", None)
    ]
    (correction,) = found["20261118T080825-86d796682e12"]
    assert (correction.said, correction.values) == ("it was a holiday", ["VIX", "WTI"])
    assert "remarks/" in repo.git(place.bare, "ls-tree", "-r", "--name-only", "telemetry-data")


def test_what_is_written_in_a_review_on_a_case_is_kept_with_it(place: Place) -> None:
    number = place.propose("new_cases", {"cases": []})
    place.hub.review(number, '{"id":"field-2026-11-02-0123456789","input":{}}', "Nobody could know that.")
    place.hub.review(number, '{"id":"field-2026-11-03-0123456789","input":{}}', "Buy my book", by="eve")
    for _ in range(2):
        act(place, "read", kind="new_cases")
    found = remarks(place.repo)
    assert {name: [one.said for one in own] for name, own in found.items()} == {
        "field-2026-11-02-0123456789": ["Nobody could know that."]
    }


@pytest.mark.parametrize("by", ["eve", "nobody", "../../admin"])
def test_who_may_not_write_gets_nothing_done(place: Place, monkeypatch: pytest.MonkeyPatch, by: str) -> None:
    number = place.propose()
    said = asked(place, monkeypatch, number, "/ratchet reject because I can", by)
    assert said.startswith("Only people who may write")
    assert (place.hub.pulls[number]["state"], on_record(place)) == ("open", [])


def test_a_pull_request_that_a_person_opened_cannot_be_rejected(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = place.propose()
    place.hub.pulls[number]["head"]["repo"] = {"full_name": "eve/repo"}  # a fork's branch of the same name
    said = asked(place, monkeypatch, number, "/ratchet reject it")
    assert said.startswith("Only an open pull request that automation opened")
    assert place.hub.pulls[number]["state"] == "open"


@pytest.mark.parametrize(
    ("body", "known"),
    [
        ("/ratchet reject too long", commands.Command("reject", "too long")),
        ("/ratchet more \r\nthanks", commands.Command("more", "more")),
        ("/ratchet allow cost", commands.Command("allow", "cost")),
        ("/ratchet explain macro_watcher-0001", commands.Command("explain", "macro_watcher-0001")),
        ("/ratchet reject", None),
        ("/ratchet reject " + "x" * 501, None),
        ("/ratchet allow safety", None),
        ("/ratchet allow cost; rm -rf /", None),
        ("/ratchet explain macro-1 it is old", commands.Command("explain", "macro-1 it is old")),
        ("/ratchet correct run-1 none", commands.Command("correct", "run-1 none")),
        ("/ratchet correct run-1", None),
        ("/ratchet explain $(id)", None),
        ("/ratchet explain ../../etc/passwd", None),
        (" /ratchet more", None),
        ("/ratchet  more", None),
        ("/ratchet more && more", None),
    ],
)
def test_the_grammar_is_strict(body: str, known: commands.Command | None) -> None:
    assert commands.parse(body) == known


def test_an_outage_stops_in_one_line_and_reveals_no_token(
    place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(hub.time, "sleep", lambda _: None)
    place.hub.forbidden = {"GET /repos/owner/repo/pulls"}
    act(place, "read", code=cli.STOPPED)
    told = capsys.readouterr().err
    assert "403 " in told and "own-token" not in told and told.count("\n") == 1
    monkeypatch.setenv("GITHUB_API_URL", "http://127.0.0.1:9")
    with pytest.raises(Stopped, match="GitHub: GET"):
        hub.from_environment().get("pulls")
    monkeypatch.setenv("GITHUB_API_URL", "http://elsewhere.example")
    act(place, "read", code=cli.BAD_INPUT)


@pytest.mark.parametrize("report", ["{}", "[]", "no JSON", '{"tests": [{"prompt": "@team"}]}'])
def test_a_hostile_review_is_no_comment(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, report: str
) -> None:
    schema = Path(__file__).parents[3] / KINDS["ab_champion"].schema
    repo.write(place.tree, KINDS["ab_champion"].schema, schema.read_text())
    number = place.propose()
    event = repo.write(tmp_path, "event.json", json.dumps({"pull_request": {"number": number}}))
    monkeypatch.setenv("GITHUB_EVENT_PATH", str(event))
    repo.write(tmp_path, "review/report.json", report)
    act(place, "review", "--handover", str(tmp_path / "review"), code=cli.BAD_INPUT)
    assert place.hub.said(number) == []
