"""A checkout of its own for tests that add or remove agents: an example domain, its agent, and one of the user's."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

from eval.grading import suite
from telemetry.edge.files import SUITES, Repo
from telemetry.edge.git import git

_NUMBERS = itertools.count()  # a domain is imported once: each world has a package of its own

_DOMAIN = """
from agents.domain import Analyst, Domain, Files, InputKind

def judge(rules, payload):
    return {"items": []}

DOMAIN = Domain(
    inputs={"orders": InputKind(lambda payload: None)},
    open_source=lambda mode, root: Files(root),
    analysts={"counting": Analyst(judge)},
    agents=("seller",),
    paths=("PACKAGE", "agents/stock.json"),
)
"""
_AGENT = """
  - name: {name}
    module: agents.prompted
    callable: PromptedAgent.run
    inputs: {inputs}
    prompt: agents/prompts/{name}.md
    output_schema: agents/schemas/{name}.json
    eval_suite: eval/suites/{name}.jsonl
"""
_SCHEMA = {"type": "object", "properties": {"id": {"type": "string"}}}
_CASE = {"id": "one", "input": {"items": []}, "expect": [{"grader": "absent", "path": ""}]}


class ToyShop:
    """`seller` is the example's, `keeper` the user's; everything is committed."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root, self.repo = root, Repo(root)
        self.package = f"toy_shop_{next(_NUMBERS)}"
        monkeypatch.syspath_prepend(str(root))
        self.write(f"{self.package}/__init__.py", _DOMAIN.replace("PACKAGE", self.package))
        self.write("agents/stock.json", "{}")
        self.write(".gitignore", "__pycache__/\n")
        self.write(
            "agents/manifest.yaml",
            f"""# Who works here.
version: 1

# What they are about.
domain: {self.package}

# Nobody touches these.
protected_paths:
  - Makefile
  - {self.package}/** # the example's
  - agents/stock.json

retirement:
  exempt: [seller, keeper] # both are family

critique_pairs: # [critic, target]
  - [seller, keeper]
  - [keeper, "*"]

agents:
  # The one that ships with it.""",
        )
        self.add_agent("seller", "orders")
        self.write("agents/manifest.yaml", self.read("agents/manifest.yaml") + "\n  # My own.")
        self.add_agent("keeper", "outputs")
        git(root, "init", "--quiet", "--initial-branch=main")
        git(root, "config", "user.name", "Toy")
        git(root, "config", "user.email", "toy@localhost")
        self.commit()

    def add_agent(self, name: str, inputs: str) -> None:
        """An agent without code, at the end of the manifest, with one pinned case."""
        self.write(f"agents/prompts/{name}.md", f"# {name}\n\n```rules\nanalyst: counting\n```\n")
        self.write(f"agents/schemas/{name}.json", json.dumps(_SCHEMA))
        suite.write_suite(self.repo, SUITES / f"{name}.jsonl", [_CASE])
        suite.pin(self.repo, [SUITES / f"{name}.jsonl"])
        entry = _AGENT.format(name=name, inputs=inputs)
        self.write("agents/manifest.yaml", self.read("agents/manifest.yaml") + entry)

    def write(self, path: str, text: str) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text, "utf-8")

    def read(self, path: str) -> str:
        return (self.root / path).read_text("utf-8")

    def commit(self) -> None:
        git(self.root, "add", "--all")
        git(self.root, "commit", "--quiet", "--message", "As it is")

    def files(self) -> dict[str, bytes]:
        """Everything but git's own."""
        found = (path for path in self.root.rglob("*") if path.is_file())
        return {
            str(path.relative_to(self.root)): path.read_bytes()
            for path in found
            if not {".git", "__pycache__"} & set(path.parts)
        }
