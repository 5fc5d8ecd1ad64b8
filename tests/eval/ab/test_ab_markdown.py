"""The pull-request body: decidable on the first screen, inert whatever models wrote, never too long."""

from __future__ import annotations

import copy
import json
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from agents.texts.variants import Origin
from eval.ab.body import FORM, VERDICTS
from eval.ab.body import body as body_of
from eval.ab.figures import bounds, ruler, said
from eval.ab.record import Report
from meta.publish.contents import _outside_code, check_body
from telemetry.edge.records import made
from tests.worlds import ab_world as world

HOSTILE = "@everyone </details><script>alert(1)</script> [x](https://evil.example) #1 fixes #2 `|` \u202e"


def body(report: dict[str, Any]) -> str:
    return body_of(made(Report, report))


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    root = tmp_path_factory.mktemp("night")
    with pytest.MonkeyPatch.context() as patch:
        world.make(root)
        world.use(patch, world.Scripted(says=HOSTILE))
        world.challenger(root, "B", f"skill: 0.9\n```\n{HOSTILE.replace(chr(0x202E), '')}\n")
        world.challenger(root, "C", "skill: 0.7\nC\n")
        found = world.run(root)
    assert found["promoted"]
    return found


def test_the_first_screen_is_enough_to_decide(report: dict[str, Any]) -> None:
    (test,) = report["tests"]
    arm = next(arm for arm in test["arms"] if arm["promoted"])
    screen = body(report).split("\n\n")[0]
    assert all(line.startswith(">") for line in screen.splitlines())
    assert f"**Promote `solver` B {arm['sha256'][:7]}?**" in screen
    assert f"**{100 * arm['effect']:+.1f} points**" in screen
    assert f"{100 * arm['ci_low']:+.1f} .. {100 * arm['ci_high']:+.1f}" in screen
    assert f"on {arm['cases_available']} unseen cases" in screen
    assert "If you merge:" in screen and "To undo:" in screen
    opened = body(report).split("<details>")[0]
    low, high = arm["family_low"], arm["family_high"]
    assert f"{bounds(low, high)} across {arm['families']} families" in opened
    calls, gained = arm["bill"]["calls"], 100 * arm["effect"]
    assert f"**What it took:** {calls:,} calls and $" in opened
    assert f"{1000 * gained / calls:+.2f} points per 1,000 calls" in opened and " per dollar." in opened
    for promise in ("unseen cases right | 7", "cost, p95 per case", "Model `scripted-1`", "spend $"):
        assert promise in opened


def test_a_reader_is_told_which_cases_a_model_has_graded(report: dict[str, Any]) -> None:
    judged = copy.deepcopy(report)
    arm = next(arm for arm in judged["tests"][0]["arms"] if arm["promoted"])
    assert arm["judged"] == 0 and "Judged by a model" not in body(judged)
    arm["judged"] = 3
    assert f"**Judged by a model:** 3 of {arm['cases_available']} cases" in body(judged).split("<details>")[0]


@pytest.mark.parametrize(("practice", "told"), [(0.4, True), (0.05, False), (None, False)])
def test_a_text_that_helps_only_with_kinds_it_has_seen_is_told_as_such(
    report: dict[str, Any], practice: float | None, told: bool
) -> None:
    lost = copy.deepcopy(report)
    arm = next(arm for arm in lost["tests"][0]["arms"] if not arm["promoted"])
    arm |= {"effect": 0.002, "ci_low": -0.06, "ci_high": 0.08}
    origin = Origin("C", arm["sha256"], None, "proposal", "writer-1", "2026-11-18", practice=practice)
    arm["lineage"] = asdict(origin)
    shown = body(lost)
    assert ("on its practice cases it gained" in shown) is (practice is not None)
    assert ("it helps mostly with kinds of cases it has seen" in shown) is told


@pytest.mark.parametrize(
    ("low", "value", "high"), [(0.07, 0.13, 0.22), (-0.2, -0.1, 0.1), (0, 0, 0), (-1, 1, 1)]
)
def test_an_interval_can_be_seen_in_an_e_mail(low: float, value: float, high: float) -> None:
    drawn = ruler(low, value, high)
    assert len(drawn) == 36
    assert drawn.index("0") >= 0
    if low > 0:
        assert drawn.index("0") < drawn.index("├") < drawn.index("●") < drawn.index("┤")


def test_what_a_change_does_to_several_agents_is_drawn_on_one_scale(report: dict[str, Any]) -> None:
    several = copy.deepcopy(report)
    arm = next(arm for arm in several["tests"][0]["arms"] if arm["promoted"])
    (own,) = arm["agents"].values()
    arm["agents"] |= {"other_agent": own | {"difference": -0.054, "ci_low": -0.11, "ci_high": 0.02}}
    assert "xychart" not in body(report)  # one agent's figures stand on the first screen
    shown = body(several)
    chart = next(part for part in re.findall("```mermaid\n(.*?)```", shown, re.DOTALL))
    assert f"bar [{100 * own['difference']:.1f}, -5.4]" in chart and '["solver", "other_agent"]' in chart
    least, most = map(int, re.findall(r'"points" (-?\d+) --> (\d+)', chart)[0])
    assert least <= -11 and most >= 100 * own["ci_high"]
    rulers = re.findall(r"^(?:solver|other_agent) +(\S+) [-+]", shown, re.MULTILINE)
    assert len(rulers) == 2 and len({one.index("0") for one in rulers}) == 1


@pytest.mark.parametrize(
    ("preview", "shown"),
    [
        ("[]", "nothing"),
        ('[{"id": "h1", "score": 4}]', "id: h1, score: 4"),
        ('[{"id": "h1", "wh', "id: h1, wh"),
    ],
)
def test_an_answer_reads_in_plain_words(preview: str, shown: str) -> None:
    assert said(preview, 100) == shown


def test_figures_and_a_short_diff_stand_open_and_the_rest_is_folded(report: dict[str, Any]) -> None:
    short = copy.deepcopy(report)
    arm = next(arm for arm in short["tests"][0]["arms"] if arm["promoted"])
    arm["diff"] = "--- champion\n+++ B\n-above: 3\n+above: 2"
    opened = body(short).split("<details>")[0]
    for row in (
        "| unseen cases right |",
        "| mean score |",
        "| cost, p95 per case |",
        "| guardrails |  | 8 of 8 |",
    ):
        assert row in opened
    assert "+above: 2" in opened and "**For example** `" in opened
    assert "| guardrail | limit |" not in opened
    arm["guardrails"][0]["passed"] = False
    assert "| guardrail | limit |" in body(short).split("<details>")[0]


def test_what_is_folded_is_named_as_it_is(report: dict[str, Any]) -> None:
    named = copy.deepcopy(report)
    named["tests"][0]["prompt"] = "agents/prompts/two_words.md"
    summaries = re.findall("<summary>(.*?)</summary>", body(named))
    assert any("two_words B" in one for one in summaries)
    assert not any("\\" in one for one in summaries)


def test_everything_a_reviewer_may_ask_is_there(report: dict[str, Any]) -> None:
    text = body(report)
    for part in (
        "| guardrail | limit |",
        "```diff",
        "What solver C",
        "newly right cases",
        "python -m eval.ab_testing --prompt",
    ):
        assert part in text
    arm = report["tests"][0]["arms"][1]
    assert (
        f"- solver C {arm['sha256'][:7]}: {VERDICTS[arm['verdict']]}, {100 * arm['effect']:+.1f} points"
        in text
    )


def test_what_models_wrote_stays_text(report: dict[str, Any]) -> None:
    text = body(report)
    assert list(check_body(text.encode())) == []
    assert "\u202e" not in text
    plain = "\n".join(_outside_code(text))
    assert plain.count("<details>") == plain.count("</details>") > 2


def test_a_body_too_long_for_github_loses_whole_sections_and_says_so(report: dict[str, Any]) -> None:
    long = copy.deepcopy(report)
    for arm in long["tests"][0]["arms"]:
        arm["diff"] = "\n".join(f"+ line {n} of a very long prompt" for n in range(2000))
        arm["newly_right"] = (arm["newly_right"] or arm["newly_wrong"])[:1] * 500
    long["tests"] = [dict(long["tests"][0], prompt=f"agents/prompts/p{n}.md") for n in range(12)]
    text = body(long)
    assert len(text) < 60_000 and "Left out to fit" in text
    plain = "\n".join(_outside_code(text))
    assert plain.count("<details>") == plain.count("</details>") > 2
    assert "**Promote `p11` B " in text
    assert list(check_body(text.encode())) == []


def test_a_night_without_promotion_says_so(report: dict[str, Any]) -> None:
    quiet = copy.deepcopy(report)
    quiet["promoted"] = []
    for test in quiet["tests"]:
        test["promoted"] = False
        for arm in test["arms"]:
            arm["promoted"] = False
    assert body(quiet).startswith("> **Nothing to promote.** 2 challenger(s) compared")
    quiet["stop_reason"] = "budget reached @all"
    assert "stopped early: budget reached @&#8203;all" in body(quiet)


def test_a_bound_just_above_zero_is_not_shown_as_zero() -> None:
    assert bounds(0.000131, 0.4007) == "+0.01 .. +40.1"
    assert bounds(-0.0004, 0.0) == "-0.04 .. +0.0"


def test_a_run_on_github_is_linked(report: dict[str, Any]) -> None:
    linked = copy.deepcopy(report)
    linked["metadata"] |= {"run_id": "1234", "run_url": "https://github.example/o/r/actions/runs/1234"}
    assert "run [#1234](https://github.example/o/r/actions/runs/1234)" in body(linked)


def test_the_report_is_held_to_its_schema(report: dict[str, Any], repository: Path) -> None:
    FORM.files(made(Report, report))
    broken = copy.deepcopy(report)
    broken["tests"][0]["arms"][0]["verdict"] = "maybe"
    broken["tests"][0]["winner"] = "C"
    with pytest.raises(AssertionError, match=r"(?s)maybe.*winner|winner.*maybe"):
        FORM.files(made(Report, broken))
    assert json.loads((repository / "eval/ab_test_report.schema.json").read_text())["title"]
