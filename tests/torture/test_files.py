"""What a file of state says by mistake, whoever reads it lives with: a value of any kind in any place of it."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agents import router
from agents.routing import BANDIT
from eval import replay
from eval.ab.evidence import gathered
from eval.ab.forecast import _cost_of_a_case
from eval.ab.memory import Memory, paid, worn
from eval.field.runs import load_runs
from eval.hindsight.plan import _tested
from eval.ledger.decisions import decisions
from eval.ledger.nights import champions
from eval.ledger.provenance import history
from eval.ledger.results import stored
from meta.audit import State, _faults
from meta.evidence.known import tune_results
from meta.evidence.told import kept
from meta.proposals.searches import earlier
from meta.pulls import morning
from meta.retirement import grades_of
from meta.site import agents
from meta.site.build import _environment, _missed
from meta.site.facts import Facts
from meta.site.pictures import by_night
from meta.site.recorded import kinds_that_fail
from telemetry import deliberations, feedback, health, rl_export, rollup
from telemetry.batches.access import USUAL_ROLE, allowed, load_rule
from telemetry.batches.ledger import exported
from telemetry.batches.sums import spent
from telemetry.edge import cli
from telemetry.edge.errors import BadInput
from telemetry.edge.files import HISTORY, Repo
from telemetry.otel import _waiting
from telemetry.read.store import committed_but_staged
from telemetry.tiers.ages import ages
from tests.torture.corrupt import changed
from tests.worlds import world
from tests.worlds.eventlog import event

TRIES = 80
SLOW_TRIES = 15  # where each draws pages, or opens the log
NOW = datetime(2026, 11, 18, tzinfo=UTC)
SUITE = "eval/suites/watcher.jsonl"
COMPARED = {
    "prompt": "agents/prompts/watcher.md", "suites": [SUITE], "pair": "74ff0fc6831a766c", "variant": "B",
    "sha256": "8" * 64, "model_asked": "m", "model_answered": "m", "verdict": "keep", "promoted": False, "effect": 0.4,
    "ci_low": 0.2, "ci_high": 0.6, "e_value": 20.0, "rounds": 2, "cases_used": 39, "cases_available": 39,
    "guardrails": {"cases used": True}, "spend": {"calls": 39, "cost_usd": 0.1}, "bill": {"calls": 78, "cost_usd": 0.2},
}  # fmt: skip
ABOUT = {"suites": {SUITE: "4" * 64}, "prompts": {}, "holdout_cases": {SUITE: 39}, "model_asked": "m",
         "model_answered": "m", "provider": "offline", "model": {"model": "m"}, "journal": "x"}  # fmt: skip
LINES: Mapping[str, Any] = {
    "eval": {"agents": {"watcher": {"counted": 80, "passed": 40, "cost_usd": 0.0}}},
    "ab_test": {"night": "2026-11-18 0", "comparisons": [COMPARED]},
    "proposals": {"searches": [{"prompt": "p.md", "base_sha256": "1", "calls": 3, "cost_usd": 0.0, "sha256": "f"}]},
    "backtest": {"tests": [{"pair": "x", "cases_used": 40}]},
    "night": {"steps": {"evals": {"status": "failed", "told": "no"}}},
}  # fmt: skip


def spoiled(value: Any, tries: int = TRIES) -> Iterable[Any]:
    """The value, with something else somewhere in it each time."""
    for number in range(tries):
        yield changed(json.loads(json.dumps(value)), random.Random(number))


def pages(repo: Repo) -> None:
    manifest: Any = SimpleNamespace(agents=[SimpleNamespace(name="watcher", prompt="p.md")])
    facts = Facts(repo, NOW, manifest, lines=list(history(repo)))
    _missed(facts)
    told = [(one.stem, one.challenger, one.verdict, one.number("effect")) for one in facts.comparisons]
    assert all(isinstance(part, list | dict) for part in (told, facts.nights, facts.scores))


READERS: Mapping[str, Callable[[Repo], object]] = {
    "memory": Memory,
    "bills": lambda repo: paid(history(repo), ""),
    "wear": lambda repo: worn(history(repo), SUITE),
    "searches": lambda repo: earlier(repo, {"model": "m"}),
    "nights": lambda repo: by_night(history(repo, "eval")),
    "morning": morning.testing,
    "log": lambda repo: list(kept(repo)),
    "backtests": _tested,
    "pages": pages,
}


@pytest.mark.parametrize("run_type", LINES)
@pytest.mark.parametrize("reader", READERS)
def test_a_line_of_history_that_says_nonsense_is_no_line(reader: str, run_type: str, tmp_path: Path) -> None:
    row = {
        "ts": "2026-11-18T00:00:00.000Z",
        "run_type": run_type,
        "summary": LINES[run_type],
        "metadata": ABOUT,
    }
    world.put(tmp_path, str(HISTORY), json.dumps(row) + "\n")
    assert len(list(history(Repo(tmp_path)))) == 1
    for value in spoiled(row):
        world.put(tmp_path, str(HISTORY), json.dumps(value) + "\n")
        READERS[reader](Repo(tmp_path))


HASH = "8" * 64
SAID = {  # what rows say beyond their columns
    "run": {"input_sha256": HASH, "output_sha256": HASH, "iterations": [{"n": 1}], "task_type": "x", "success": True,
            "quality_score": 0.5, "tokens_used": 3, "signals": {"a": 0.1}, "as_of": "2026-10-01"},
    "llm_call": {"messages": [{"role": "user", "sha256": HASH}], "output_sha256": HASH, "tools": [{"name": "x"}],
                 "tool_calls": [{"name": "x"}], "attempts": 1},
    "evaluation": {"case_id": "one", "split": "tune", "overall_score": 0.5, "ok": True, "score": 0.5, "arm": "champion",
                   "trial_no": 0, "turn_data": [{"turn_reward": 0.5}], "pair": "74ff0fc6831a766c", "round": 1},
    "routing": {"task_type": "x", "selected_agent_id": "one", "routing_strategy": BANDIT,
                "candidate_agents": [{"agent_id": "one", "probability": 1.0}], "propensity": 0.5, "requirements": {}},
}  # fmt: skip


@pytest.fixture(scope="module")
def logged(tmp_path_factory: pytest.TempPathFactory) -> Repo:
    """A checkout whose log is of another program, which says anything."""
    root, rows = tmp_path_factory.mktemp("logged"), list[bytes]()
    for kind, said in SAID.items():
        for number, value in enumerate(spoiled(said)):
            fields = value if isinstance(value, dict) else {}
            names = {
                "kind": kind,
                "source": "eval" if kind == "evaluation" else "runtime",
                "run_id": f"run-{number}",
                "agent": "one",
            }
            rows.append(json.dumps(event(**{**fields, **names, "event_id": f"{kind}-{number}"})).encode())
    sound = [row for row in rows if b"\\ud800" not in row]
    world.put(root, "telemetry/events.jsonl", b"\n".join(sound) + b"\n")
    world.manifest(root, [])
    return Repo(root)


COMMANDS = (
    (deliberations, ()),
    (feedback, ()),
    (health, ()),
    (rl_export, ("--type", "sft", "--partial", "--include-offline")),
    (rl_export, ("--type", "turn-rl", "--partial", "--include-offline")),
    (rollup, ()),
    (router, ("fit",)),
)


@pytest.mark.parametrize(("script", "words"), COMMANDS)
def test_a_row_may_say_anything_beyond_its_columns(logged: Repo, script: Any, words: tuple[str, ...]) -> None:
    assert script.main(["--root", str(logged.root), "--json", *words]) in (cli.OK, cli.FOUND, cli.BAD_INPUT)


@pytest.mark.parametrize(
    "read",
    [
        lambda repo: load_runs(repo, datetime(2026, 1, 1, tzinfo=UTC)),
        lambda repo: gathered(repo, ["74ff0fc6831a766c"], {}, night=""),
        lambda repo: list(champions(repo, datetime(2026, 1, 1, tzinfo=UTC))),
    ],
)
def test_so_may_rows_that_decide(logged: Repo, read: Callable[[Repo], Any]) -> None:
    assert read(logged) is not None


FILES: Mapping[str, tuple[Any, Callable[[Repo], object]]] = {
    "telemetry/exports/sft-20260101-0123456789ab/manifest.json": (
        {"type": "sft"},
        lambda repo: exported(repo, "sft"),
    ),
    "telemetry/exports/sft-20260101-0123456789ac/ledger.jsonl": (
        {"point_id": "x"},
        lambda repo: exported(repo, "sft"),
    ),
    "telemetry/exports/privacy.jsonl": ({"epsilon": 0.5}, spent),
    "telemetry/retention.yaml": ({"hot": 7, "warm": 90}, lambda repo: ages(repo).first("gone", NOW.date())),
    "telemetry/access.yaml": (
        {"defaults": {"time_range": 30, "allowed_roles": ["x"], "anonymize": {"replace_tenant_ids": True}}},
        lambda repo: allowed(load_rule(repo, "sft"), USUAL_ROLE, None, None, NOW),
    ),
    "telemetry/sealed/staging/commit.json": (
        {
            "first": {"offset": 0, "line": "x"},
            "files": {"dt=2026-01-01-0.parquet": "dt=2026-01-01/2026-01-02-0a-0.parquet"},
        },
        lambda repo: committed_but_staged(repo, None),
    ),
    ".ratchet/otel.json": (
        {"ts": "2026-01-01T00:00:00.000Z", "ids": ["x"]},
        lambda repo: list(_waiting(repo, None)),
    ),
}


@pytest.mark.parametrize("path", FILES)
def test_a_file_of_state_is_as_it_was_written_or_says_that_it_is_not(path: str, tmp_path: Path) -> None:
    sound, read = FILES[path]
    world.put(tmp_path, "telemetry/exports/sft-20260101-0123456789ac/manifest.json", {"type": "sft"})
    world.put(tmp_path, path, json.dumps(sound) + "\n")
    with suppress(BadInput, FileNotFoundError):
        read(Repo(tmp_path))
    for value in spoiled(sound, SLOW_TRIES if path.endswith("otel.json") else TRIES):
        world.put(tmp_path, path, json.dumps(value) + "\n")
        with suppress(BadInput, OSError):
            read(Repo(tmp_path))


CASE = {"id": "one-0001", "input": {}, "expect": [{"grader": "exact", "path": "", "value": 1}]}
ROW = {
    "id": "one-0001", "trial": 0, "split": "tune", "family": "one", "tags": ["x"], "reasons": ["no"], "ok": False,
    "score": 0.5, "error": None, "error_kind": None, "output": 2, "output_kept": True, "output_preview": "2",
    "judged": {"0": {"grader": "llm_judge", "path": "", "score": 0.5, "weight": 1.0, "reason": "x"}},
}  # fmt: skip
RATES = {"counted": 1, "passed": 0}
RESULT = {
    "results": [ROW],
    "summary": {**RATES, "mean_score": 0.5, "errors": 0, "empty_rate": 0.1, "by_tag": {"x": RATES}, "cost_usd": 0.1,
                "by_split": {"tune": RATES}, "own_errors_by_kind": {}, "tokens_in": 3, "tokens_out": 4},
    "metadata": {"suites": {SUITE: "4" * 64}, "module": "m", "callable": "c", "eval_adapter": "", "seed": 0,
                 "offline_noise": 0.0, "split": "all", "trials": 1, "prompt_hash": "9f86d081884c"},
}  # fmt: skip
SPEC: Any = SimpleNamespace(name="watcher", eval_suite=SUITE)


def result_pages(repo: Repo) -> None:
    manifest: Any = SimpleNamespace(agents=[SPEC], retirement=SimpleNamespace(reward_floor=0.0))
    facts = Facts(repo, NOW, manifest)
    found = {"watcher": facts.result("watcher")}
    row: Any = SimpleNamespace(agent="watcher", trend=())
    agents.agent_row(facts, row, found)
    kinds_that_fail(found.items())
    for _, template, show in agents.case_pages(facts, "watcher", found["watcher"]):
        _environment(facts).get_template(template).render(show(), path="cases/watcher.html", up="../")


@pytest.mark.parametrize(
    "read",
    [
        lambda repo: tune_results(repo, SPEC),
        lambda repo: grades_of(repo)("watcher"),
        lambda repo: _cost_of_a_case(repo, "offline", "watcher", "m", None),
        result_pages,
        lambda repo: replay.main(["eval/results/watcher.json", "--root", str(repo.root), "--quiet"]),
    ],
)
def test_results_that_say_nonsense_are_none(read: Callable[[Repo], object], tmp_path: Path) -> None:
    world.suite(tmp_path, "watcher", [CASE])
    assert stored(Repo(tmp_path), "watcher") == {}
    for value in (RESULT, *spoiled(RESULT, SLOW_TRIES if read is result_pages else TRIES)):
        world.put(tmp_path, "eval/results/watcher.json", json.dumps(value))
        read(Repo(tmp_path))


DECISION = {
    "decision": "promote", "kind": "ab_model", "subject": "m", "date": "2026-11-18", "before_sha256": HASH,
    "after_sha256": HASH, "report_sha256": HASH, "metadata": {},
    "verdict": {"agents": ["one"], "model": "m", "model_before": "n", "prompt": "agents/prompts/one.md", "effect": 0.1,
                "pair": "x", "reward_floor": 0.1, "lower_bound": 0.2, "upper_bound": 0.3, "odds": 9, "convinced": 3},
}  # fmt: skip


@pytest.mark.parametrize("act", ["promote", "demote", "disable", "revive"])
def test_a_decision_is_refused_by_its_name_or_can_be_audited(act: str, tmp_path: Path) -> None:
    repo, decision = (
        Repo(tmp_path),
        {**DECISION, "decision": act, "kind": "retirement" if act[0] in "dr" else "ab_model"},
    )
    for value in (decision, *spoiled(decision)):
        world.put(tmp_path, "meta/decisions/2026-11-18-x.json", json.dumps(value))
        with suppress(BadInput):
            Memory(repo)
            assert [
                list(_faults(path, one, (), State(repo, lambda _: None, None)))
                for path, one in decisions(repo)
            ]
