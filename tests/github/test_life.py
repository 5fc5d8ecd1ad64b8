"""A pull request's life, as GitHub would run it: three mornings, people who say no, tweak, revert and ask."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from meta import audit
from meta.publish.kinds import KINDS
from telemetry.edge.files import Repo
from tests.github.act_night import Night, Ran, toy_tree
from tests.github.hub import BOT
from tests.worlds import proposal_repo as repo
from tests.worlds import world

CHAMPION = KINDS["ab_champion"]
DATA = "telemetry-data"
ECHO = "agents/prompts/gauge_echo.md"
REJECT = "/ratchet reject $(touch $TEST_STORE/pwned) `id`; ${{ github.token }}"


@pytest.fixture
def night(tmp_path: Path) -> Iterator[Night]:
    with Night(tmp_path, "trunk") as night:  # the default branch is whatever the repository says
        yield night


def opened(night: Night, kind: str = "ab_champion") -> dict[str, Any]:
    found = night.hub.open(KINDS[kind].branch)
    assert found is not None
    return found


def on_the_data_branch(night: Night, log: str) -> list[dict[str, Any]]:
    """The lines of a log, from all its segments that workflows pushed; a laptop's are sealed."""
    names = repo.git(night.remote, "ls-tree", "-r", "--name-only", DATA).split()
    names = [name for name in names if name.startswith(f"{log}/") and name.endswith(".jsonl")]
    texts = (repo.git(night.remote, "show", f"{DATA}:{name}") for name in names)
    return [json.loads(line) for text in texts for line in text.splitlines()]


def comment(night: Night, number: int, body: str, by: str = "ann", **more: str) -> Ran:
    """A person comments; GitHub starts the workflow."""
    night.hub.comment(number, body, by)
    happened = {
        "action": "created",
        "comment": {"body": body, "user": {"login": by}},
        "issue": {"number": number, "pull_request": {}},
    }
    return night.run("commands", "issue_comment", happened=happened, **more)


def own_change(night: Night, text: str) -> dict[str, Any]:
    """A person's own pull request that changes a prompt."""
    with night.hub.desk() as desk:
        repo.git(desk, "checkout", "-qB", "my-words")
        for name in (world.PROMPT, "agents/prompts/variants/flood_watch/champion.md"):
            repo.write(desk, name, text)
        repo.git(desk, "commit", "-qam", "my words")
        repo.git(desk, "push", "-qf", "origin", "my-words")
    return night.hub.open("my-words") or night.hub.start("my-words", night.default, "My words", "", "ann")


def reviewed(night: Night, pull: dict[str, Any], fork: bool = False, **more: str) -> Ran:
    head = {**pull["head"], "repo": {"full_name": "owner/repo", "fork": fork}}
    about = {"number": pull["number"], "head": head, "base": pull["base"]}
    happened = {"number": pull["number"], "pull_request": about}
    return night.run("prompt_review", "pull_request", happened=happened, **more)


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
    own_change(night, world.BETTER + "\nBe briefer.\n")
    hostile = reviewed(night, pull, TEST_HOSTILE="review")
    assert hostile.results == {"compare": "success", "comment": "failure"}, hostile.log
    assert night.hub.said(pull["number"]) == [said]


def test_three_mornings_with_everything_that_people_do_to_pull_requests(
    night: Night, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy_tree(night.tree)
    deaf = (night.tree / ECHO).read_text().replace("above: 0.18", "above: 9")
    repo.write(night.tree, ECHO, deaf)  # it finds nothing in 120 days of sample
    world.with_agents_of(night.tree, monkeypatch)
    night.start()
    first = night.run("nightly", secrets={"BOT_TOKEN": "bot"})
    the_links_repeated_nothing(night, first)
    for kind in ("critiques", "proposals"):
        report_alone_is_told(night, first, kind)
    assert promoted(night, first)
    promotion, disabled = opened(night)["number"], KINDS["retirement_disable"]
    inputs = asked_for(night, promotion, "/ratchet more", "up to round 15")
    before = night.hub.tip(CHAMPION.branch)
    tweak = tweaked(night)

    # The second morning, all at once: a run meets a person's commit, another an agent that earns nothing, a comment.
    proposals, retirement = opened(night, "proposals")["number"], partial(night.run, "agent_retirement")
    tested, weekly, answered = at_once(night, inputs, retirement, partial(comment, night, proposals, REJECT))
    refused_by_command(night, proposals, answered)
    assert night.hub.tip(CHAMPION.branch) == tweak
    assert "was left as it is" in tested.summaries["publish"]
    assert "was left as it is" in night.hub.said(promotion)[-1]
    report = opened(night, "retirement")
    assert "Retirement candidates: `gauge_echo`" in weekly.requests[report["head"]["ref"]]["body"]
    ran = night.run("agent_retirement", inputs={"mode": "disable"})
    assert ran.proposing == {"produce": "success", "publish": "success"}, ran.log
    request = ran.requests[disabled.branch]
    assert (request["draft"], request["commit-message"]) == ("always-true", "Disable gauge_echo")
    assert night.hub.tip(report["head"]["ref"]) == report["head"]["sha"]  # the weekly report stays as it is

    inputs = asked_for(night, promotion, "/ratchet allow cost", "in spite of its cost")
    explained(night, promotion)
    repo.git(night.remote, "update-ref", f"refs/heads/{CHAMPION.branch}", before)  # they think better of it
    night.hub.merge(promotion, how="squash")
    for kind in ("critiques", "retirement_disable"):
        night.hub.merge(opened(night, kind)["number"])

    # The third: what was merged is justified and asked no more, what it overtook is taken back.
    repo.git(night.tree, "pull", "-q", "origin", night.default)
    found = {one.subject: one for one in audit.audit(Repo(night.tree))}
    assert all(one.explained for one in found.values())
    assert all("by meta/decisions/" in found[name].why for name in (world.PROMPT, "gauge_echo"))
    tested, weekly = at_once(night, inputs, retirement)
    assert "Nothing to propose" in tested.summaries["produce"]
    assert "record" not in tested.results  # remembered through the data branch: no call, no new row
    assert "gauge_echo is retired now" in night.hub.said(report["number"])[-1].replace("\\", "")
    assert night.hub.pulls[report["number"]]["state"] == "closed"
    assert report["head"]["ref"] not in night.branches()
    from_a_fork(night)

    night.hub.revert(promotion, why="Too many calls at night.")
    last = night.run("prompt_ab_test", "schedule")
    assert last.proposing == {"produce": "success"}, last.log
    assert "B: not run, refused by ann" in last.log
    refused = {(row["by"], row["why"]) for row in on_the_data_branch(night, "rejections")}
    assert len(refused) == 2 and ("ann", "Too many calls at night.") in refused
    assert "Newly on record" in last.summaries["produce"]


def the_links_repeated_nothing(night: Night, ran: Ran) -> None:
    """Each agent ran once, each link took what the one before it had left, and the one issue tells of it."""
    assert "failure" not in ran.results.values(), ran.log
    runs = [row for row in on_the_data_branch(night, "events") if row["kind"] == "run"]
    fresh = [row["agent"] for row in runs if row["source"] == "runtime"]
    assert (fresh.count("flood_watch"), fresh.count("meta_agent")) == (1, 1)
    assert sum(row["source"] == "replay" for row in runs) > 100
    orchestrated = "= python -m agents.orchestrator: done at"
    assert ran.log.count(orchestrated) == 2  # by the critiques, by the proposals
    assert ran.log.count("= python -m meta.critique_loops: done at") == 1
    (issue,) = [one for one in night.hub.issues.values() if "pull_request" not in one]
    assert "Promote flood\\_watch B" in issue["body"] and issue["user"]["login"] == BOT


def at_once(night: Night, tested: Mapping[str, str], *others: Callable[[], Ran]) -> list[Ran]:
    """The A/B test with these inputs and what happens meanwhile: all come through, and none loses another's data."""

    def run(number: int, one: Callable[..., Ran]) -> Ran:
        return one(TEST_ARTIFACTS=str(night.store / f"artifacts-{number}"))

    rows = kept(night)
    first = partial(night.run, "prompt_ab_test", inputs=tested)
    with ThreadPoolExecutor(len(others) + 1) as all_of_them:
        done = list(all_of_them.map(run, count(), [first, *others]))
    for ran in done:
        assert "failure" not in ran.results.values(), ran.log
    told = [ran.summaries.get("record", "") for ran in done]
    recorded = sum(int(number) for text in told for number in re.findall(r"(\d+) rows recorded", text))
    assert kept(night) == rows + recorded
    return done


def kept(night: Night) -> int:
    return sum(len(on_the_data_branch(night, log)) for log in ("events", "history"))


def tweaked(night: Night) -> str:
    """A person commits to the branch of the promotion; where it stands then."""
    with night.hub.desk() as desk:
        repo.git(desk, "checkout", "-q", CHAMPION.branch)
        repo.write(desk, world.PROMPT, "My own words.\n")
        repo.git(desk, "commit", "-qam", "my tweak")
        repo.git(desk, "push", "-q", "origin", CHAMPION.branch)
    return night.hub.tip(CHAMPION.branch)


def refused_by_command(night: Night, number: int, answered: Ran) -> None:
    """What was rejected is closed and on record, and its reason was run by nobody."""
    assert answered.results == {"answer": "success"}, answered.log
    assert not (night.store / "pwned").exists()
    assert night.hub.pulls[number]["state"] == "closed"
    assert "will not come back" in night.hub.said(number)[-1]
    (refused,) = on_the_data_branch(night, "rejections")
    assert (refused["by"], refused["subject"]) == ("ann", world.PROMPT)
    assert comment(night, number, "Thanks!").results == {}


def asked_for(night: Night, number: int, words: str, told: str) -> dict[str, str]:
    """A command that starts the A/B test is answered in the same run; the inputs that it starts it with."""
    answered = comment(night, number, words)
    assert answered.results == {"answer": "success"}, answered.log
    assert told in night.hub.said(number)[-1]
    started = night.hub.dispatched.pop()
    assert (started["workflow"], started["ref"]) == ("prompt_ab_test.yml", night.default)
    return dict(started["inputs"])


def explained(night: Night, number: int) -> None:
    """`explain` shows what both texts said to a case of the report on the branch."""
    report = json.loads(night.diff(CHAMPION.branch)[f"{CHAMPION.report}.json"])
    case = report["tests"][0]["arms"][0]["newly_right"][0]["case"]
    answered = comment(night, number, f"/ratchet explain {case}")
    assert answered.results == {"answer": "success"}, answered.log
    said = night.hub.said(number)[-1]
    assert case in said and "newly right" in said and "champion said" in said


def from_a_fork(night: Night) -> None:
    """A stranger's prompt is compared without a secret, and told in the summary alone."""
    pull = own_change(night, world.BETTER + "\nBe brief.\n")
    compared = reviewed(night, pull, fork=True)
    assert compared.results == {"compare": "success"}, compared.log
    assert "offline model" in compared.summaries["compare"] and not night.hub.said(pull["number"])


def report_alone_is_told(night: Night, ran: Ran, kind: str) -> None:
    """The pull request of a kind that changes nothing live: its report, and new challengers at most."""
    form, request = KINDS[kind], ran.requests[KINDS[kind].branch]
    changed = night.diff(form.branch)
    asked_in_its_form(night, request, kind)
    assert request["body"] == changed.pop(f"{form.report}.md")
    assert json.loads(changed.pop(f"{form.report}.json"))[kind]
    assert all(name.startswith("agents/prompts/variants/") for name in changed)
    assert bool(changed) == (kind == "proposals")


def asked_in_its_form(night: Night, request: Mapping[str, Any], kind: str) -> None:
    form = KINDS[kind]
    assert (request["title"], request["base"], request["delete-branch"]) == (
        form.title,
        night.default,
        "true",
    )
    assert (request["operation"], request["labels"]) == ("created", ",".join(form.labels))
    assert request["draft"] == ("always-true" if form.draft else "false")


def promoted(night: Night, ran: Ran) -> bool:
    """The pull request that promotes: its words, and exactly the files that a promotion changes."""
    request, changed = ran.requests[CHAMPION.branch], night.diff(CHAMPION.branch)
    asked_in_its_form(night, request, "ab_champion")
    assert request["body"].startswith("> [!TIP]\n> **Promote `flood_watch` B ")
    assert request["commit-message"].startswith("Promote flood_watch: +")
    decision = changed.pop(next(name for name in changed if name.startswith("meta/decisions/")))
    assert json.loads(decision)["decision"] == "promote"
    champion = "agents/prompts/variants/flood_watch/champion.md"
    assert changed.pop(world.PROMPT) == changed.pop(champion) == world.BETTER
    return sorted(changed) == [f"{CHAMPION.report}.json", f"{CHAMPION.report}.md"]
