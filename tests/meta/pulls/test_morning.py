"""One issue says what waits, edited in place; a webhook hears of it only when something does."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from eval.drift import Drift, Watched
from meta import morning
from meta.publish.kinds import KINDS
from meta.pulls.morning import ORDER, TITLE, Spend
from meta.site.pictures import BADGE, NIGHTS
from telemetry import logger
from telemetry.branch.remote import BRANCH
from telemetry.edge import cli
from telemetry.edge.files import working_in
from telemetry.edge.records import plain
from tests.meta.pulls.place import Place, as_in_a_workflow
from tests.worlds import proposal_repo as repo


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    made = Place(tmp_path)
    as_in_a_workflow(made.hub, monkeypatch)
    yield made
    made.hub.close_down()


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[dict[str, Any]]]:
    """What a webhook was told; its address is Discord's form if the test appends to it."""
    told: list[dict[str, Any]] = []

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            told.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing."""

    server = HTTPServer(("127.0.0.1", 0), Hook)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    monkeypatch.setenv("RATCHET_WEBHOOK", f"http://127.0.0.1:{server.server_port}/services/x")
    yield told
    server.shutdown()
    server.server_close()


def tell(place: Place) -> str:
    """Run it; the body of the one issue."""
    assert morning.main(["--root", str(place.tree), "--quiet"]) == cli.OK
    (issue,) = [one for one in place.hub.issues.values() if "pull_request" not in one]
    assert issue["title"] == TITLE
    return str(issue["body"])


def test_what_waits_stands_in_the_order_of_its_consequences_and_the_issue_is_edited_in_place(
    place: Place,
) -> None:
    for kind in ("critiques", "retirement_disable", "ab_champion"):
        number = place.propose(kind, {})
        place.hub.pulls[number]["body"] = "> [!TIP]\n> **Promote `x`?** Ask @team <b>\nmore"
    place.hub.start("someones-branch", "main", "A person's own", "", "ann")
    first = tell(place)
    waits = first.partition("### Still")[0]
    titles = [KINDS[kind].title for kind in ("ab_champion", "retirement_disable", "critiques")]
    places = [waits.index(title.partition(" (")[0]) for title in titles]
    assert places == sorted(places)
    assert "Promote x?" in waits and "TIP" not in waits
    assert "A person's own" not in waits and "@team" not in waits and "<b>" not in waits
    place.hub.close(next(number for number, one in place.hub.pulls.items() if one["title"] == titles[0]))
    assert titles[0].partition(" (")[0] not in tell(place)
    assert len(place.hub.pinned) == 1


def test_every_kind_that_opens_a_pull_request_has_its_place() -> None:
    assert set(ORDER) == {name for name, kind in KINDS.items() if kind.branch}


def test_it_tells_what_is_tested_spent_drifted_and_failed(place: Place) -> None:
    row = {"prompt": "agents/prompts/macro_watcher.md", "variant": "B", "sha256": "a" * 64, "pair": "p"}
    open_one = {**row, "verdict": "continue", "effect": 0.021, "rounds": 6}
    line = {
        "ts": logger.utc_now(),
        "run_type": "ab_test",
        "summary": {"comparisons": [open_one]},
        "metadata": {},
    }
    repo.write(place.tree, "eval/history.jsonl", json.dumps(line) + "\n")
    fall = Drift(
        "macro_watcher", True, "2026-11-12", "2026-11-14", 40, 0.8, 0.6, 0.85, 0.7, "m", "m", (), alarm=True
    )
    watched = {"macro_watcher": plain(Watched(9, 40, 0.6, (fall,))), "broken": {"drifts": [[]]}}
    found = {"agents": watched, "shutdown": "gpt-x ends on 2027-01-14"}
    repo.write(place.tree, "eval/results/drift.json", json.dumps(found))
    place.hub.runs = [{"name": "Prompt A/B test", "html_url": "https://github.example/run/1"}]
    with working_in(place.tree):
        for cost in (0.25, None):
            logger.log_event(agent="a", run_id="r", kind="llm_call", latency_ms=1.0, cost_usd=cost)
    body = tell(place)
    assert "`macro_watcher` `B aaaaaaa`: +2.1 points after 6 rounds" in body
    assert "$0.25 and 1 call of unknown price for 2 calls" in body
    assert "macro\\_watcher: pass rate fell by 20.0 points since 12 Nov" in body and "gpt-x ends on" in body
    assert "[Prompt A/B test](https://github.example/run/1)" in body


def test_the_webhook_is_silent_when_nothing_waits_and_told_in_its_own_form_when_something_does(
    place: Place, heard: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    tell(place)
    assert heard == []
    number = place.propose()
    place.hub.pulls[number]["title"] = "<!channel> hear"
    tell(place)
    assert heard[0]["text"].startswith("1 waiting for you:") and "<!channel>" not in heard[0]["text"]

    monkeypatch.setenv("RATCHET_WEBHOOK", os.environ["RATCHET_WEBHOOK"].replace("services", "api/webhooks"))
    tell(place)
    assert heard[1]["content"].startswith("1 waiting") and heard[1]["allowed_mentions"] == {"parse": []}


def test_a_dead_webhook_costs_nothing_and_its_address_stays_secret(
    place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    place.propose()
    monkeypatch.setenv("RATCHET_WEBHOOK", "http://127.0.0.1:9/services/secret-part")
    assert "### Waits for you" in tell(place)
    heard = capsys.readouterr()
    assert "did not take the message" in heard.out and "secret-part" not in heard.out + heard.err


def evaluated(day: str, **passed: int) -> str:
    """A line of history: so many of ten cases."""
    agents = {name: {"passed": right, "counted": 10} for name, right in passed.items()}
    line = {"ts": f"{day}T03:00:00.000Z", "run_type": "eval", "summary": {"agents": agents}, "metadata": {}}
    return json.dumps(line) + "\n"


def test_the_badge_and_the_picture_of_the_nights_are_renewed_on_the_data_branch(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SYNC_TOKEN", "own")
    assert "Cases passed" not in tell(place)  # nothing was measured: there is nothing to show
    assert place.hub.tip(BRANCH) == ""
    nights = evaluated("2026-11-16", a=5, b=7) + evaluated("2026-11-17", a=9, b=7)
    repo.write(place.tree, "eval/history.jsonl", nights)
    body = tell(place)
    assert "60% on 2026-11-16, 80% on 2026-11-17." in body
    assert f"![2026-11-16 60%, 2026-11-17 80%](../blob/{BRANCH}/{NIGHTS}?raw=true)" in body
    first = place.hub.tip(BRANCH)
    tell(place)
    assert place.hub.tip(BRANCH) == first  # nothing changed, nothing is pushed
    place.propose()
    tell(place)
    badge = repo.git(place.bare, "show", f"{BRANCH}:{BADGE}")
    assert "last night 2026-11-17, cases passed 80%, waiting for you 1" in badge
    for path in (BADGE, NIGHTS):
        assert ElementTree.fromstring(repo.git(place.bare, "show", f"{BRANCH}:{path}")).tag.endswith("svg")


def test_a_spend_of_nothing_reads_plainly() -> None:
    assert Spend(0, 0.0, 0).told == "$0.00 for 0 calls"
