"""Another model as challenger: asked over a real socket, compared under the same prompts, moved to by a branch."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from eval import ab_testing
from eval.ab import guardrails
from eval.ab.plan import as_variant
from eval.ledger.refusals import Refusal, record
from meta import audit
from meta.nightly.stage import Stage
from meta.nightly.steps import DONE, Step, run_step, steps
from telemetry.edge import cli
from telemetry.edge.files import MANIFEST, Repo
from tests.worlds import ab_world as shop
from tests.worlds import world
from tests.worlds.loopback import Loopback, Reply, Request, chat, error

OLD, EQUAL, WORSE, BETTER, DEAR = "old-1", "equal-cheap-1", "worse-cheap-1", "better-dear-1", "equal-dear-1"
SKILL = {OLD: 0.8, EQUAL: 0.8, WORSE: 0.45, BETTER: 0.99, DEAR: 0.8}
COST = {OLD: 0.004, EQUAL: 0.001, WORSE: 0.001, BETTER: 0.009, DEAR: 0.009}
WIDE = ("--goal", "cheaper", "--margin", "0.25", "--trials", "9")  # so that few calls decide, in one night
REPORT = "meta/reports/model_test_report.json"


class Shelf:
    """An endpoint with several models, each as good and as dear as its name says; `unpriced` ones do not say it."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.unpriced: set[str] = set()
        self._times: Counter[str] = Counter()

    def __call__(self, request: Request) -> Reply:
        if request.method == "GET":  # is it about to be shut down?
            return error(404, "no such page")
        body = request.json()
        model, question = body["model"], body["messages"][-1]["content"]
        self.asked[model] += 1
        if model not in SKILL:
            return error(404, f"The model {model} does not exist", code="model_not_found")
        self._times[model + question] += 1
        draw = hashlib.sha256(f"{model} {question} {self._times[model + question]}".encode()).digest()
        right = draw[0] / 256 < SKILL[model]
        cost = {} if model in self.unpriced else {"cost": COST[model]}
        usage = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120, **cost}
        answer = {"items": [{"answer": "right" if right else "wrong"}]}
        return chat(json.dumps(answer), model=f"{model}-2026", usage=usage)


@pytest.fixture
def shelf(root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shelf]:
    shop.make(root, {"solver": 0, "helper": 0}, cases=90)
    monkeypatch.setattr(guardrails, "LATENCY_SLACK_MS", 60_000.0)  # how busy this machine is decides nothing
    shelf = Shelf()
    with Loopback(shelf) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_MODEL", OLD)
        yield shelf


def run(root: Path, *flags: str, code: int = cli.OK) -> dict[str, Any]:
    assert ab_testing.main(["--root", str(root), "--quiet", *flags]) == code
    report: dict[str, Any] = json.loads((root / REPORT).read_text())
    return report


def arms(report: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {arm["model"]: arm for test in report["tests"] for arm in test["arms"]}


def test_a_better_model_is_moved_to_and_its_price_needs_a_persons_word(root: Path, shelf: Shelf) -> None:
    report = run(root, "--model", BETTER)
    (test,) = report["tests"]
    assert (test["model"], test["prompt"], test["agents"]) == (OLD, "", ["solver", "helper"])
    arm = arms(report)[BETTER]
    assert arm["verdict"] == "blocked" and "better, but cost per case" in arm["reason"]
    before = (root / MANIFEST).read_text()
    assert run(root, "--model", BETTER, "--allow", "cost")["promoted"] == [OLD]
    after = yaml.safe_load((root / MANIFEST).read_text())
    assert after.pop("defaults") == {"model": BETTER} and after == yaml.safe_load(before)
    (decision,) = (json.loads(path.read_text()) for path in (root / "meta/decisions").glob("*.json"))
    verdict = decision["verdict"]
    assert (decision["kind"], verdict["model_before"], verdict["model"]) == ("ab_model", OLD, BETTER)
    assert "Move from `old-1` to `better-dear-1`?" in (root / REPORT).with_suffix(".md").read_text()


def test_a_cheaper_model_is_taken_if_it_is_not_worse_and_dropped_if_it_is(root: Path, shelf: Shelf) -> None:
    found = arms(run(root, "--model", EQUAL, "--model", WORSE, *WIDE))
    assert found[EQUAL]["verdict"] == "promote" and found[EQUAL]["promoted"]
    assert "not worse by more than 25 points" in found[EQUAL]["reason"]
    assert found[WORSE]["verdict"] == "keep"


def test_a_dearer_model_is_not_cheaper_and_one_round_shows_it(root: Path, shelf: Shelf) -> None:
    arm = arms(run(root, "--model", DEAR, "--goal", "cheaper"))[DEAR]
    assert arm["verdict"] == "keep" and arm["reason"] == "not cheaper: $0.004 -> $0.009 a case"
    assert arm["rounds"] == 1


def test_an_unknown_cost_is_never_cheaper_and_settles_nothing(
    root: Path, shelf: Shelf, capsys: pytest.CaptureFixture[str]
) -> None:
    shelf.unpriced = {EQUAL}
    arm = arms(run(root, "--model", EQUAL, "--goal", "cheaper"))[EQUAL]
    assert arm["verdict"] == "inconclusive" and "what it costs is not known" in arm["reason"]
    assert shelf.asked[EQUAL] < 2 * arm["cases_available"]  # one round, not all of them
    assert (
        ab_testing.main(["--root", str(root), "--model", EQUAL, "--goal", "cheaper", "--dry-run"]) == cli.OK
    )
    assert "against equal-cheap-1 on" in capsys.readouterr().out


def test_a_model_that_does_not_answer_costs_the_others_nothing(root: Path, shelf: Shelf) -> None:
    found = arms(run(root, "--model", "gone-1", "--model", WORSE, *WIDE, code=cli.STOPPED))
    assert found["gone-1"]["verdict"] == "inconclusive" and found[WORSE]["verdict"] == "keep"
    shelf.asked.clear()
    run(root, "--model", "gone-1", "--trials", "9", code=cli.STOPPED)
    assert max(shelf.asked.values()) < 120, "given up after 32 calls of each agent, what was in flight beside"


def test_a_model_that_lost_is_not_asked_again_for_that_champion(
    root: Path, shelf: Shelf, capsys: pytest.CaptureFixture[str]
) -> None:
    run(root, "--model", WORSE, *WIDE)
    ask = ["--root", str(root), "--model", WORSE, *WIDE, "--dry-run"]
    assert ab_testing.main(ask) == cli.OK
    assert f"{WORSE}: not run, already decided: it lost" in capsys.readouterr().out
    world.change(root, "helper", model=BETTER)  # another champion: the question is open, for that agent
    assert ab_testing.main(ask) == cli.OK
    told = capsys.readouterr().out
    assert f"{BETTER} against {WORSE} on" in told and f"{OLD} against {WORSE} on" in told
    assert ab_testing.main([*ask, "--goal", "better"]) == cli.OK  # and so is another question
    assert "not run" not in capsys.readouterr().out


def test_a_model_that_a_person_refused_is_not_asked_beside_the_same_champion(
    root: Path, shelf: Shelf, capsys: pytest.CaptureFixture[str]
) -> None:
    beside = {"sha256": as_variant(EQUAL).sha256, "champion_sha256": as_variant(OLD).sha256}
    no = Refusal("ab_model", EQUAL, **beside, reference="#7", by="ann", why="its terms")
    record(Repo(root), [no])
    ask = ["--root", str(root), "--model", EQUAL, "--dry-run"]
    assert ab_testing.main(ask) == cli.OK
    assert "not run, refused by ann" in capsys.readouterr().out
    world.change(root, "helper", model=WORSE)
    assert ab_testing.main(ask) == cli.OK
    assert f"{WORSE} against {EQUAL} on" in capsys.readouterr().out


def test_a_question_about_one_prompt_moves_its_agents_alone(root: Path, shelf: Shelf) -> None:
    run(root, "--model", EQUAL, "--prompt", shop.OTHER, *WIDE)
    manifest = yaml.safe_load((root / MANIFEST).read_text())
    assert {agent["name"]: agent.get("model") for agent in manifest["agents"]} == {
        "solver": None,
        "helper": EQUAL,
    }
    assert "defaults" not in manifest


def test_the_plan_says_what_a_smaller_margin_takes(
    root: Path, shelf: Shelf, capsys: pytest.CaptureFixture[str]
) -> None:
    for agent in ("solver", "helper"):
        summary = {"cost_usd": 0.4, "counted": 100, "tokens_in": 10_000, "tokens_out": 2_000}
        world.put(root, f"eval/results/{agent}.json", {"summary": summary})
    ask = ["--root", str(root), "--model", "gpt-4.1-nano", "--goal", "cheaper", "--dry-run"]
    assert ab_testing.main(ask) == cli.OK
    told = capsys.readouterr().out
    assert "old-1 against gpt-4.1-nano on" in told and shelf.asked.total() == 0
    assert "margin 5 points: about" in told and "margin 2 points: about" in told
    assert "(--rounds 15 is the limit), about $" in told and told.count("$") >= 5


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--model", "a b"], "not a model name"),
        (["--margin", "0"], "--margin 0.0: must lie between 0 and 0.5"),
        (["--model", OLD], "nothing to compare"),
        (["--model", EQUAL, "--variant", "B"], "--variant B: needs --model and --prompt"),
    ],
)
def test_bad_input_is_told_in_one_line(
    root: Path, shelf: Shelf, capsys: pytest.CaptureFixture[str], flags: list[str], said: str
) -> None:
    ab_testing.main(["--root", str(root), *flags])
    out, err = capsys.readouterr()
    assert said in out + err and shelf.asked.total() == 0


def test_without_an_endpoint_there_is_only_one_model(
    root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.make(root, cases=90)
    assert ab_testing.main(["--root", str(root), "--model", EQUAL]) == cli.BAD_INPUT
    assert "needs an endpoint (OPENAI_API_KEY or OPENAI_BASE_URL)" in capsys.readouterr().err
    world.change(root, challenger_models=[EQUAL])
    assert ab_testing.main(["--root", str(root)]) == cli.OK
    assert "the offline model answers alike under every name" in capsys.readouterr().out


def publish(root: Path, *flags: str) -> list[str]:
    """Run and publish as a night does, and merge the branch; the paths that it changed outside `meta/`."""
    step = Step("models", "", (("eval.ab_testing", *flags),), kind="ab_model")
    with Stage(root) as stage:
        result = run_step(step, stage)
    assert (result.status, result.look) == (DONE, "git show meta/model-champion"), result.told
    changed = world.git(root, "diff", "--name-only", "HEAD", "meta/model-champion").split()
    world.git(root, "merge", "--squash", "meta/model-champion")
    world.git(root, "commit", "-m", "merged")
    return [path for path in changed if not path.startswith("meta/")]


def commit(root: Path) -> None:
    world.put(root, ".gitignore", ".ratchet/\ntelemetry/events.jsonl\neval/results/\neval/history.jsonl\n")
    for schema in ("ab_test_report", "decision"):
        path = f"eval/{schema}.schema.json"
        world.put(root, path, (world.REPOSITORY / path).read_text())
    world.commit(root)


def test_a_model_may_come_with_a_text_of_its_own(root: Path, shelf: Shelf) -> None:
    world.challenger(root, shop.OTHER, "# helper\nA text for the new model.\n")
    commit(root)
    flags = ("--model", EQUAL, "--prompt", shop.OTHER, "--variant", "B", *WIDE)
    variants = "agents/prompts/variants/helper"
    assert publish(root, *flags) == [str(MANIFEST), shop.OTHER, f"{variants}/champion.md"]
    assert (root / shop.OTHER).read_text() == "# helper\nA text for the new model.\n"
    assert [agent.get("model") for agent in yaml.safe_load((root / MANIFEST).read_text())["agents"]] == [
        None,
        EQUAL,
    ]
    assert all(finding.explained for finding in audit.audit(Repo(root)))
    body = (root / REPORT).with_suffix(".md").read_text()
    assert f"and `{shop.OTHER}` its new text" in body and "+A text for the new model." in body


def test_a_night_with_another_model_ends_as_a_branch_that_merges_and_an_audit_that_holds(
    root: Path, shelf: Shelf, capsys: pytest.CaptureFixture[str]
) -> None:
    ab_test = {**shop.LIMITS, "goal": "cheaper", "margin": 0.25, "trials": 9}
    world.change(root, ab_test=ab_test, challenger_models=[EQUAL], protected_paths=["agents/manifest.yaml"])
    commit(root)
    (step,) = (one for one in steps((), models=True) if one.name == "models")
    with Stage(root) as stage:
        result = run_step(step, stage)
    assert result.status == DONE, result.told
    assert result.look == "git show meta/model-champion"
    head = world.git(root, "log", "-1", "--format=%s", "meta/model-champion")
    assert head.startswith("Move to equal-cheap-1: ")
    changed = world.git(root, "diff", "--name-only", "HEAD", "meta/model-champion").split()
    assert [path for path in changed if not path.startswith("meta/")] == [str(MANIFEST)]
    world.git(root, "merge", "--squash", "meta/model-champion")
    world.git(root, "commit", "-m", "merged")
    assert audit.main(["--root", str(root)]) == cli.OK
    told = capsys.readouterr().out
    assert "solver: asks equal-cheap-1 by meta/decisions/" in " ".join(told.split())
    assert audit.main(["--root", str(root), "--log"]) == cli.OK
    assert "move solver, helper from old-1 to equal-cheap-1" in capsys.readouterr().out
    calls = shelf.asked.total()
    with Stage(root) as stage:
        assert run_step(step, stage).look != "git show meta/model-champion"
    assert shelf.asked.total() == calls  # nothing is left to be asked

    manifest = (root / MANIFEST).read_text()
    world.put(root, MANIFEST, manifest.replace(EQUAL, OLD, 1))  # a person goes back
    world.git(root, "commit", "-a", "-m", "by hand")
    assert all(finding.explained for finding in audit.audit(Repo(root)))
