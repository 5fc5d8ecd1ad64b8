"""A pull request's life, as GitHub would run it: three mornings, people who say no, tweak, revert and ask."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from meta import audit
from meta.publish.kinds import KINDS
from telemetry.edge.files import Repo
from tests.github.act_night import Night, Ran, small_tree, toy_tree
from tests.github.hub import BOT
from tests.github.test_act import BETTER, PROMOTE, script
from tests.worlds import proposal_repo as repo
from tests.worlds import world

CHAMPION = KINDS["ab_champion"]
DATA = "telemetry-data"


@pytest.fixture
def night(tmp_path: Path) -> Iterator[Night]:
    with Night(tmp_path, "trunk") as night:  # the default branch is whatever the repository says
        yield night


def opened(night: Night, kind: str = "ab_champion") -> dict[str, Any]:
    found = night.hub.open(KINDS[kind].branch)
    assert found is not None
    return found


def on_the_data_branch(night: Night, log: str) -> list[dict[str, Any]]:
    """The lines of a log, from all its segments."""
    names = repo.git(night.remote, "ls-tree", "-r", "--name-only", DATA).split()
    texts = (repo.git(night.remote, "show", f"{DATA}:{name}") for name in names if name.startswith(f"{log}/"))
    return [json.loads(line) for text in texts for line in text.splitlines()]


def stub_report(verdict: str) -> str:
    """The script of an A/B night writes a report that a claim can be read from."""
    arm = {
        "sha256": repo._sha256(BETTER),
        "variant": "B",
        "promoted": verdict == "promote",
        "verdict": verdict,
    }
    arm |= {"effect": -0.02, "cases_used": 70}
    test = {"prompt": "agents/prompts/macro_watcher.md", "arms": [arm]}
    test |= {"champion_sha256": repo._sha256(repo.FILES["agents/prompts/macro_watcher.md"])}
    return f"put('{CHAMPION.report}.json', {json.dumps({'tests': [test]})!r})\n"


def decided(report: str) -> str:
    """The promotion of these tests, with a decision that stands on that report."""
    fresh = (
        "import hashlib, json\n"
        f"report = pathlib.Path('{CHAMPION.report}.json').read_bytes()\n"
        "path = pathlib.Path('meta/decisions/2026-11-16-ab_champion-macro_watcher.json')\n"
        "row = json.loads(path.read_text())\n"
        "row['report_sha256'] = hashlib.sha256(report).hexdigest()\n"
        "path.write_text(json.dumps(row))\n"
    )
    return report + PROMOTE + fresh


def logged(source: str) -> str:
    """A script that measures something."""
    row = f"agent='macro_watcher', run_id='r', latency_ms=1.0, source='{source}'"
    return f"from telemetry import logger\nlogger.log_event({row})\n"


def comment(night: Night, number: int, body: str, by: str = "ann") -> Ran:
    """A person comments; GitHub starts the workflow."""
    night.hub.comment(number, body, by)
    happened = {
        "action": "created",
        "comment": {"body": body, "user": {"login": by}},
        "issue": {"number": number, "pull_request": {}},
    }
    return night.run("commands", "issue_comment", happened=happened)


def test_three_mornings_of_a_pull_request_that_a_person_tweaks_and_refuses_and_that_is_overtaken(
    night: Night,
) -> None:
    small_tree(night.tree)
    script(night, "ab_champion", decided(stub_report("promote")) + logged("ab_test"))
    script(night, "critiques", logged("critique") + "output('to_tell=true\\n')\n")
    night.start()
    with ThreadPoolExecutor(2) as both:  # two runs at once lose no data
        runs = [
            both.submit(night.run, name, "schedule", TEST_ARTIFACTS=str(night.store / name))
            for name in ("prompt_ab_test", "cross_critiques")
        ]
        results = [run.result() for run in runs]
    for ran in results:
        assert ran.results["record"] == ran.results["publish"] == "success", ran.log
    assert {row["source"] for row in on_the_data_branch(night, "events")} == {"ab_test", "critique"}

    number = opened(night)["number"]
    with night.hub.desk() as desk:
        repo.git(desk, "checkout", "-q", CHAMPION.branch)
        repo.write(desk, "agents/prompts/macro_watcher.md", "My own words.\n")
        repo.git(desk, "commit", "-qam", "my tweak")
        repo.git(desk, "push", "-q", "origin", CHAMPION.branch)
    tip = night.hub.tip(CHAMPION.branch)
    again = night.run("prompt_ab_test", "schedule")
    assert again.results["publish"] == "success", again.log
    assert night.hub.tip(CHAMPION.branch) == tip
    assert "was left as it is" in again.summaries["publish"]
    assert "was left as it is" in night.hub.said(number)[0]

    answered = comment(night, number, "/ratchet reject $(touch $TEST_STORE/pwned) `id`; ${{ github.token }}")
    assert answered.results == {"answer": "success"}, answered.log
    assert not (night.store / "pwned").exists()
    assert night.hub.pulls[number]["state"] == "closed"
    assert "will not come back" in night.hub.said(number)[-1]
    (refused,) = on_the_data_branch(night, "rejections")
    assert (refused["by"], refused["sha256"]) == ("ann", repo._sha256(BETTER))
    assert comment(night, number, "Thanks!").results == {}

    night.run("prompt_ab_test", "schedule")  # a stub heeds no refusal: it is opened anew
    number = opened(night)["number"]
    repo.write(night.tree, CHAMPION.schema, "{}")
    script(night, "ab_champion", stub_report("keep") + "output('promoted=false\\n')\n")
    night.commit("the retest loses")
    lost = night.run("prompt_ab_test", "schedule")
    assert lost.proposing == {"produce": "success", "publish": "success"}, lost.log
    assert night.hub.pulls[number]["state"] == "closed"
    assert "it lost: -2.0 points on 70 cases" in lost.summaries["publish"]
    assert CHAMPION.branch not in night.branches()


def own_change(night: Night, text: str) -> dict[str, Any]:
    """A person's own pull request that changes a prompt."""
    with night.hub.desk() as desk:
        repo.git(desk, "checkout", "-qB", "my-words")
        for name in (world.PROMPT, "agents/prompts/variants/flood_watch/champion.md"):
            repo.write(desk, name, text)
        repo.git(desk, "commit", "-qam", "my words")
        repo.git(desk, "push", "-qf", "origin", "my-words")
    return night.hub.open("my-words") or night.hub.start("my-words", night.default, "My words", "", "ann")


def reviewed(night: Night, pull: dict[str, Any], fork: bool = False) -> Ran:
    head = {**pull["head"], "repo": {"full_name": "owner/repo", "fork": fork}}
    about = {"number": pull["number"], "head": head, "base": pull["base"]}
    return night.run(
        "prompt_review", "pull_request", happened={"number": pull["number"], "pull_request": about}
    )


def test_ones_own_change_of_a_prompt_is_compared_in_one_comment_and_fails_only_when_proven_worse(
    night: Night,
) -> None:
    toy_tree(night.tree)
    for name in (world.PROMPT, "agents/prompts/variants/flood_watch/champion.md"):
        repo.write(night.tree, name, world.BETTER)
    night.start()
    pull = own_change(night, world.TEXT.replace("above: 0.3 ", "above: 0.9 "))
    worse = reviewed(night, pull)
    assert worse.results == {"compare": "failure", "comment": "success"}, worse.log
    (said,) = night.hub.said(pull["number"])
    assert "clearly worse" in said and "offline model" in said
    own_change(night, world.BETTER + "\nBe brief.\n")
    same = reviewed(night, pull)
    assert same.results == {"compare": "success", "comment": "success"}, same.log
    (said,) = night.hub.said(pull["number"])
    assert "no clear difference" in said
    fork = reviewed(night, pull, fork=True)
    assert fork.results == {"compare": "success"}, fork.log
    assert "offline model" in fork.summaries["compare"]


def test_a_night_whose_links_repeat_nothing_then_its_promotion_merged_then_reverted(
    night: Night, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy_tree(night.tree)
    world.with_agents_of(night.tree, monkeypatch)
    night.start()
    ran = night.run("nightly", secrets={"BOT_TOKEN": "bot"})
    assert "failure" not in ran.results.values(), ran.log
    runs = [row for row in on_the_data_branch(night, "events") if row["kind"] == "run"]
    fresh = [row["agent"] for row in runs if row["source"] == "runtime"]
    assert (fresh.count("flood_watch"), fresh.count("meta_agent")) == (1, 1)
    assert sum(row["source"] == "replay" for row in runs) > 100
    orchestrated = "= python -m agents.orchestrator: done at"
    assert ran.log.count(orchestrated) == 2  # by the critiques, by the proposals
    assert ran.log.count("= python -m meta.critique_loops: done at") == 1
    for kind in ("critiques", "proposals"):
        report_alone_is_told(night, ran, kind)
    assert promoted(night, ran)
    (issue,) = [one for one in night.hub.issues.values() if "pull_request" not in one]
    assert "Promote" in issue["body"] and issue["user"]["login"] == BOT

    patch = night.run("sandbox_patch")  # the offline critics ask for rules, never for code
    assert patch.proposing == {"produce": "success"}, patch.log
    assert "the script found nothing patched" in patch.summaries["produce"]

    night.hub.merge(opened(night, "critiques")["number"])
    number = opened(night)["number"]
    night.hub.merge(number, how="squash")
    repo.git(night.tree, "pull", "-q", "origin", night.default)
    (finding,) = [one for one in audit.audit(Repo(night.tree)) if one.subject == world.PROMPT]
    assert finding.explained and "by meta/decisions/" in finding.why
    second = night.run("prompt_ab_test", "schedule")
    assert second.proposing == {"produce": "success"}, second.log
    assert "Nothing to propose" in second.summaries["produce"]
    assert (
        "record" not in second.results
    )  # what lost is remembered through the data branch: no call, no new row

    night.hub.revert(number, why="Too many calls at night.")
    third = night.run("prompt_ab_test", "schedule")
    assert third.proposing == {"produce": "success"}, third.log
    assert "B: not run, refused by ann" in third.log
    (refused,) = on_the_data_branch(night, "rejections")
    assert (refused["by"], refused["why"]) == ("ann", "Too many calls at night.")
    assert "Newly on record" in third.summaries["produce"]


def report_alone_is_told(night: Night, ran: Ran, kind: str) -> None:
    """The pull request of a kind that changes nothing live: its report, and new challengers at most."""
    form = KINDS[kind]
    changed = night.diff(form.branch)
    assert ran.requests[form.branch]["body"] == changed.pop(f"{form.report}.md")
    assert json.loads(changed.pop(f"{form.report}.json"))[kind]
    assert all(name.startswith("agents/prompts/variants/") for name in changed)
    assert bool(changed) == (kind == "proposals")


def promoted(night: Night, ran: Ran) -> bool:
    """The pull request that promotes: its words, and exactly the files that a promotion changes."""
    request, changed = ran.requests[CHAMPION.branch], night.diff(CHAMPION.branch)
    assert request["body"].startswith("> [!TIP]\n> **Promote `flood_watch` B ")
    assert request["commit-message"].startswith("Promote flood_watch: +")
    decision = changed.pop(next(name for name in changed if name.startswith("meta/decisions/")))
    assert json.loads(decision)["decision"] == "promote"
    champion = "agents/prompts/variants/flood_watch/champion.md"
    assert changed.pop(world.PROMPT) == changed.pop(champion) == world.BETTER
    return sorted(changed) == [f"{CHAMPION.report}.json", f"{CHAMPION.report}.md"]
