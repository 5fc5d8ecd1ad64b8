"""Before anything is spent: what would stop a run is told with the page to open and what to click, and exit code 2."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from meta import preflight
from meta.publish.kinds import KINDS
from meta.pulls import settings
from telemetry.edge import cli
from tests.github.hub import BOT, Hub
from tests.meta.pulls.place import as_in_a_workflow
from tests.worlds import world
from tests.worlds.loopback import Loopback, Reply, as_json, error


@pytest.fixture
def hub(toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    world.git(tmp_path, "init", "-q", "--bare", "remote.git")
    made = Hub(tmp_path / "remote.git")
    nothing = world.git(made.bare, "hash-object", "-t", "tree", "-w", "/dev/null").strip()
    world.git(
        made.bare, "update-ref", "refs/heads/main", world.git(made.bare, "commit-tree", nothing).strip()
    )
    as_in_a_workflow(made, monkeypatch)
    yield made
    made.close_down()


def looked(capsys: pytest.CaptureFixture[str], code: int, *flags: str) -> dict[str, list[str]]:
    """What preflight says, by level."""
    assert preflight.main([*flags, "--json"]) == code
    found: dict[str, list[str]] = {"ok": [], "note": [], "BAD": []}
    for row in json.loads(capsys.readouterr().out):
        found[row["level"]].append(f"{row['what']}: {row['told']} -> {row['do']}")
    return found


def at(server: Loopback, monkeypatch: pytest.MonkeyPatch, model: str = "gpt-4.1-mini") -> None:
    for name, value in (("API_KEY", "sk-1"), ("BASE_URL", server.url), ("MODEL", model)):
        monkeypatch.setenv(f"OPENAI_{name}", value)


def test_a_fresh_repository_without_a_key_is_fine(hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    found = looked(capsys, cli.OK)
    assert not found["BAD"]
    assert any("offline model" in line for line in found["ok"])
    assert any("will be made with the first pull request" in line for line in found["ok"])
    assert any("takes pushes without a pull request" in line for line in found["note"])


def test_each_setting_of_github_that_stops_a_run_names_its_page(
    hub: Hub, capsys: pytest.CaptureFixture[str]
) -> None:
    hub.may_open = False
    hub.rules = {
        "telemetry-data": ["pull_request"],
        KINDS["proposals"].branch: ["non_fast_forward", "deletion"],
    }
    pulls, data, proposals = looked(capsys, cli.BAD_INPUT)["BAD"]
    assert "Settings > Actions > General > Workflow permissions > tick" in pulls
    assert "Settings > Rules > Rulesets > 42 > Target branches > Exclude telemetry-data" in data
    assert "Exclude meta/prompt-proposals" in proposals
    hub.may_open = True
    assert (
        len(looked(capsys, cli.BAD_INPUT, "--kind=ab_champion")["BAD"]) == 1
    )  # the data branch is everyone's


def test_what_the_token_may_not_see_is_unknown_until_a_pull_request_shows_it(
    hub: Hub, capsys: pytest.CaptureFixture[str]
) -> None:
    hub.may_open, hub.forbidden = False, {"actions/permissions", "/labels", "/rules/"}
    notes = looked(capsys, cli.OK)["note"]
    (unseen,) = [line for line in notes if "cannot be seen with this token" in line]
    assert "Workflow permissions > tick *Allow GitHub Actions" in unseen
    assert {"labels", "branches"} <= {line.partition(":")[0] for line in notes}
    hub.start("mine", "main", "A person's", "", "ann")
    assert any("cannot be seen" in line for line in looked(capsys, cli.OK)["note"])
    number = hub.start(KINDS["proposals"].branch, "main", "A workflow's", "", BOT)["number"]
    found = looked(capsys, cli.OK)
    assert any(f"a workflow opened #{number}" in line for line in found["ok"])
    assert not any("cannot be seen" in line for line in found["note"])


def test_owners_that_github_does_not_know_are_told(hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    hub.unknown_owners = ["@ratchet-owners"]
    (told,) = [line for line in looked(capsys, cli.OK)["note"] if line.startswith("owners")]
    assert "Unknown owner: @ratchet-owners" in told and "into .github/CODEOWNERS" in told


def test_a_page_of_the_settings_is_a_link_where_the_repository_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("GITHUB_SERVER_URL", raising=False)
    monkeypatch.setenv("GITHUB_REPOSITORY", "owner/repo")
    page = "https://github.com/owner/repo/settings/variables/actions"
    assert (
        settings.linked(f"{settings.VARIABLES} > X > Delete")
        == f"[{settings.VARIABLES}]({page}) > X > Delete"
    )
    assert settings.linked("edit agents/manifest.yaml") == "edit agents/manifest.yaml"


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        (error(401, "Incorrect API key"), "refused the key (401) -> Settings > Secrets and variables"),
        (
            error(404, "The model 'gpt-4.1-mini' does not exist"),
            "knows no gpt-4.1-mini -> Settings > Secrets",
        ),
        (Reply(fault="reset"), "no answer from"),
        (error(503, "overloaded"), "out of order (503)"),
    ],
)
def test_a_key_or_a_model_that_is_not_taken_is_told_before_it_is_asked(
    toy: Path, reply: Reply, told: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with Loopback([reply]) as server:
        at(server, monkeypatch)
        (bad,) = looked(capsys, cli.BAD_INPUT)["BAD"]
        assert told in bad
        assert {request.method for request in server.requests} == {"GET"}


def test_an_endpoint_that_lists_no_models_may_well_have_this_one(
    toy: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with Loopback([as_json({"detail": "Not Found"}, 404)]) as server:
        at(server, monkeypatch)
        assert any("does not say" in line for line in looked(capsys, cli.OK)["ok"])


def test_price_shutdown_and_the_months_budget_are_looked_at(
    toy: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (toy / "agents/manifest.yaml").read_text()
    (toy / "agents/manifest.yaml").write_text(text + "budget: {max_usd: 1, month: 5}\n")
    with Loopback([as_json({"id": "mine", "shutdown_date": "2026-01-14"})]) as server:
        at(server, monkeypatch, "mine")
        found = looked(capsys, cli.BAD_INPUT)
        assert "no price is known for model 'mine'" in found["BAD"][0]
        assert "shut down on 2026-01-14" in found["note"][0]
        at(server, monkeypatch)
        monkeypatch.setattr("agents.llm_client.spent_this_month", lambda: 5.0)
        assert "month 5 reached" in looked(capsys, cli.BAD_INPUT)["BAD"][0]


def test_a_suite_that_is_not_the_pinned_one_and_a_pause_are_told(
    toy: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    suite = toy / "eval/suites/flood_watch.jsonl"
    suite.write_bytes(suite.read_bytes().replace(b"rising", b"falling"))
    monkeypatch.setenv("RATCHET_PAUSE", "holidays")
    pause, suites = looked(capsys, cli.BAD_INPUT)["BAD"]
    assert "Variables > RATCHET_PAUSE > Delete" in pause
    assert "flood_watch" in suites and "python -m eval.suites pin" in suites
