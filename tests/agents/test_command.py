"""Agents that are a command or a plain function: their prompt reaches them, and their trouble is named and bounded."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from agents import orchestrator
from agents.base import AgentError, BaseAgent, build_agent
from agents.manifest import load_manifest
from agents.offline.model import OfflineModel
from agents.texts.prompt_set import PromptSet
from telemetry.edge import cli
from telemetry.edge.files import Repo
from tests.worlds import world

PROMPT = "agents/prompts/triage.md"
START = "import json, os, sys, time, subprocess\nrequest = json.load(sys.stdin)\n"


def agent(root: Path, body: str, prompts: dict[str, str] | None = None, **fields: Any) -> BaseAgent:
    """The agent whose command is that Python script."""
    world.put(root, "triage.py", START + body)
    world.put(root, PROMPT, "Be quick.\n")
    world.suite(root, "triage", [{"id": "one", "input": {}, "expect": [{"grader": "absent"}]}])
    world.put(root, "agents/inputs/tickets.json", {"items": [{"id": "T-1"}]})
    entry = {
        "name": "triage",
        "command": f"{sys.executable} triage.py",
        "inputs": "tickets",
        "prompt": PROMPT,
        "eval_suite": "eval/suites/triage.jsonl",
    }
    world.manifest(root, [entry | fields])
    spec = load_manifest(Repo(root)).agent("triage")
    return build_agent(spec, PromptSet(Repo(root), prompts or {}), OfflineModel())


def trouble(root: Path, body: str, **fields: Any) -> str:
    with pytest.raises(AgentError) as caught:
        agent(root, body, **fields).run({})
    return str(caught.value)


def test_a_command_is_given_inputs_and_prompt_and_answers_with_items(root: Path) -> None:
    body = "print(json.dumps([{k: request[k] for k in ('agent', 'prompt')} | request['inputs']['items'][0]]))"
    made = agent(root, body)
    given = {"items": [{"id": "T-1"}]}
    assert made.run(given) == [{"agent": "triage", "prompt": "Be quick.", "id": "T-1"}]
    challenged = agent(root, body, {PROMPT: "Be kind."})
    assert challenged.run(given)[0]["prompt"] == "Be kind."


def test_it_runs_as_an_agent_of_the_manifest(root: Path) -> None:
    agent(root, "print(json.dumps([{'id': request['inputs']['items'][0]['id'], 'here': os.getcwd()}]))")
    assert orchestrator.main(["--quiet"]) == cli.OK
    (row,) = world.rows(root)
    assert (row["cost_usd"], row["cost_source"], row["error"]) == (None, "unknown", None)
    assert str(root.resolve()) in (root / "agents/outputs/triage.json").read_text()


def test_what_it_says_it_spent_stands_on_its_row(root: Path) -> None:
    usage = {"cost_usd": 0.25, "tokens_in": 7, "tokens_out": 3, "model": "mine"}
    agent(root, f"print(json.dumps({{'items': [], 'usage': {usage}}}))").run({})
    (row,) = world.rows(root)
    assert {name: row[name] for name in usage} == usage
    assert row["cost_source"] == "provider"


def test_it_learns_only_what_env_names(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("TICKET_URL", "http://localhost")
    body = "print(json.dumps([{'env': sorted(os.environ)}]))"
    (found,) = agent(root, body, env=["TICKET_URL"]).run({})
    assert "TICKET_URL" in found["env"] and "PATH" in found["env"]
    assert "OPENAI_API_KEY" not in found["env"]


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("sys.exit('no such\\nticket')", "exited with 1: ticket"),
        ("os.kill(os.getpid(), 11)", "was ended by SIGSEGV"),
        ("print('hello')", "the command must write JSON to stdout, not 'hello\\n'"),
        ("pass", "the command must write JSON to stdout, not 'nothing'"),
        ("print('{}')", 'must be a list, or have items: answer: "items" is a required property'),
        ("print('[1]')", "the output does not match an item: 0: 1 is not of type"),
        ("print('x' * 2_000_000)", "the command wrote more than 1,000,000 bytes to stdout"),
    ],
)
def test_its_trouble_is_named(root: Path, body: str, told: str) -> None:
    assert told in trouble(root, body)


def test_a_command_that_is_not_there_is_named(root: Path) -> None:
    assert (
        trouble(root, "", command="nonesuch-triage") == "command 'nonesuch-triage': No such file or directory"
    )


def test_at_the_time_limit_it_ends_with_whatever_it_started(root: Path) -> None:
    child = "import os, time; open('child', 'w').write(str(os.getpid())); time.sleep(60)"
    body = f"subprocess.Popen([sys.executable, '-c', {child!r}])\ntime.sleep(60)"
    with pytest.raises(TimeoutError):
        agent(root, body, timeout_s=3).run({})
    assert _gone(int((root / "child").read_text()))


def test_what_it_leaves_behind_neither_holds_us_up_nor_lives_on(root: Path) -> None:
    child = "import time; time.sleep(60)"
    body = f"left = subprocess.Popen([sys.executable, '-c', {child!r}])\nprint(json.dumps([{{'pid': left.pid}}]))"
    (found,) = agent(root, body, timeout_s=30).run({})
    assert _gone(found["pid"])


def _gone(pid: int) -> bool:
    for _ in range(200):
        try:
            os.kill(pid, 0)
            if Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
                return True
        except (ProcessLookupError, FileNotFoundError):
            return True
        time.sleep(0.05)
    return False


def test_a_function_that_takes_a_prompt_is_given_it(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(root))
    world.put(root, "plain_triage.py", "def triage(inputs, prompt):\n    return [{'told': prompt}]\n")
    world.put(root, PROMPT, "Be quick.\n")
    world.suite(root, "triage", [{"id": "one", "input": {}, "expect": [{"grader": "absent"}]}])
    world.manifest(
        root, [world.prompted("triage", module="plain_triage", callable="triage", output_schema=None)]
    )
    world.change(root, "triage", output_schema=None)
    spec = load_manifest(Repo(root)).agent("triage")
    for text in ("Be quick.", "Be kind."):
        made = build_agent(spec, PromptSet(Repo(root), {PROMPT: text}), OfflineModel())
        assert made.run({}) == [{"told": text}]


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"module": "agents.prompted", "callable": "PromptedAgent.run"}, "command: not beside module and callable"),
        ({"command": "node 'triage"}, "command: must be a command such as `node triage.js` (No closing quotation)"),
        ({"command": None}, "agents.triage.output_schema: missing, an agent without code needs one"),
        ({"command": None, "env": ["A"]}, "agents.triage.env: only beside command"),
        ({"command": None, "module": "agents.prompted"}, "agents.triage.module: only beside callable"),
        ({"commnd": "x"}, "agents.triage.commnd: unknown field (did you mean command? "),
    ],
)  # fmt: skip
def test_a_mistake_in_the_manifest_is_told(
    root: Path, capsys: pytest.CaptureFixture[str], fields: dict[str, Any], told: str
) -> None:
    agent(root, "")
    world.change(root, "triage", **fields)
    assert orchestrator.main([]) == cli.BAD_INPUT
    assert told in capsys.readouterr().err
