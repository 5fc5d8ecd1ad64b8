"""A small checkout that has lived: a night is over, everything that a script reads or remembers lies there.

The scripts that are run in it stand here too, each with arguments that let it do its work.
"""

from __future__ import annotations

import atexit
import functools
import importlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from eval.ab import carry_out
from tests.worlds import children, night_checkout, world
from tests.worlds.eventlog import line

CASES = 80  # of each suite
REMOTE = "../remote.git"  # from the checkout, so that both can be copied
PENDING = ".ratchet/ab_test_report.pending.json"  # lies beside the checkout: while it is there, it is all that counts
# What a script remembers of itself, which Python does not see it open.
KEPT = {"eval.harness": (".ratchet/eval-all.jsonl",), "eval.ab_testing": (".ratchet/ab_test.jsonl", PENDING)}
GIVEN: dict[str, Any] = {  # what people hand to a script
    "task.json": {"task_id": "t1", "task_type": "flood", "requirements": {"capabilities": []}},
    "answers.jsonl": '{"agent": "watcher", "case_id": "watcher-0002", "completion": "{\\"items\\": []}"}\n',
    "labelled.csv": "text,label\n" + "".join(f"question {n},{'yes' if n % 3 else 'no'}\n" for n in range(40)),
    "bill.csv": "date,model,amount_usd\n2026-01-01,offline,0.5\n",
}
OUTCOMES = [{"date": "2026-01-01", "subject": "gauge", "event": True}]

SCRIPTS: dict[str, tuple[str, ...]] = {
    "agents.orchestrator": (),
    "agents.router": ("run", "given/task.json"),
    "eval.harness": ("--resume",),
    "eval.ab_testing": (),
    "eval.backtest": (),
    "eval.drift": (),
    "eval.harvest": (),
    "eval.replay": ("eval/results/watcher.json",),
    "eval.rl_env": ("given/answers.jsonl",),
    "eval.scaffold": ("newcomer", "--from", "given/labelled.csv", "--input", "text", "--expected", "label"),
    "eval.scores_table": (),
    "eval.suites": ("check",),
    "meta.audit": (),
    "meta.critique_loops": (),
    "meta.dashboard": (),
    "meta.guard": ("check", "--kind", "ab_champion", ".ratchet/night/handover-ab_champion"),
    "meta.handover": ("pack", "--kind", "retirement"),
    "meta.morning": ("--dry-run",),
    "meta.night": (),
    "meta.outcome": ("--kind", "ab_champion"),
    "meta.preflight": (),
    "meta.prompt_variant_manager": ("list",),
    "meta.propose": (),
    "meta.pull_requests": ("reject", "--kind", "ab_champion", "--why", "no"),
    "meta.record": ("--kind", "ab_champion", "--started", "2026-01-01T00:00:00Z", ".ratchet/data"),
    "meta.retirement": (),
    "meta.sandbox": (),
    "telemetry.deliberations": (),
    "telemetry.feedback": (),
    "telemetry.health": (),
    "telemetry.plots": (),
    "telemetry.pricing": ("reconcile", "given/bill.csv"),
    "telemetry.retention": ("seal",),
    "telemetry.rl_export": ("--type", "sft", "--partial", "--include-offline"),
    "telemetry.rollup": (),
    "telemetry.summarize": (),
    "telemetry.sync": ("push",),
    "telemetry.texts": ("0123456789abcdef",),
}
ELSEWHERE = {  # why a script is not tried here
    "agents.sample_market": "builds the example",
    "eval.build_suites": "builds the example",
    "telemetry.otel": "needs a collector",
    "telemetry.ship": "needs a database: shipped.py",
}
MORE = {  # the same scripts asked for something else
    "agents.router": (("fit",),),
    "telemetry.sync": (("pull",), ("pack",), ("compact",)),
    "eval.suites": (("list",), ("pin",), ("settle",)),
    "meta.prompt_variant_manager": (("ensure",),),
    "meta.retirement": (("--disable",),),
}


def commands(some: Collection[str] = SCRIPTS) -> Iterator[tuple[str, tuple[str, ...]]]:
    """These scripts with their arguments."""
    for name in some:
        for words in (SCRIPTS[name], *MORE.get(name, ())):
            yield name, words


def loaded() -> None:
    """Import what the scripts import, so that a child that is forked has it at hand."""
    for name in (*SCRIPTS, "duckdb", "numpy", "matplotlib.pyplot", "jsonschema_rs", "rich.console", "jinja2"):
        importlib.import_module(name)


def script(name: str) -> Callable[[list[str]], int]:
    """The `main` of a script, in an environment without a key and without GitHub."""
    for variable in [one for one in os.environ if one.startswith(("OPENAI_", "GITHUB_", "RATCHET_"))]:
        del os.environ[variable]
    main: Callable[[list[str]], int] = importlib.import_module(name).main
    return main


def call(root: Path, name: str, words: tuple[str, ...]) -> int:
    """Run a script as its command line would; the words are read relative to the checkout."""
    os.chdir(root)
    return script(name)(["--root", str(root), "--quiet", *words])


@functools.cache
def template(whole: bool = True) -> Path:
    """One such checkout for whoever copies it."""
    home = Path(tempfile.mkdtemp(prefix="ratchet-lived-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    return make(home, whole)


def make(home: Path, whole: bool = True) -> Path:
    """The checkout, with a remote beside it; built by the real scripts, without a night if not `whole`."""
    root = night_checkout.make(home / "ratchet", CASES)
    world.git(home, "clone", "-q", "--bare", str(root), "remote.git")
    world.git(root, "remote", "add", "origin", REMOTE)
    for name, what in GIVEN.items():
        world.put(root, f"given/{name}", what)
    world.put(root, "telemetry/outcomes.jsonl", "".join(f"{json.dumps(row)}\n" for row in OUTCOMES))
    for name, words in (
        *((("meta.night", ()),) if whole else (("agents.orchestrator", ()), ("eval.harness", ()))),
        ("eval.ab_testing", ()),
        ("meta.critique_loops", ()),
        ("meta.propose", ()),
        ("meta.retirement", ()),
        *((("meta.pull_requests", ("reject", "--kind", "proposals", "--why", "no")),) if whole else ()),
        ("meta.dashboard", ()),
    ):
        _must(root, name, words)
    log = root / "telemetry/events.jsonl"
    log.write_bytes(b"".join(line(event_id=f"old-{n}", ts="2026-01-01T00:00:00.000Z", agent="watcher") + b"\n"
                             for n in range(20)) + log.read_bytes())  # fmt: skip
    for name, words in (
        ("telemetry.sync", ("push",)),
        ("telemetry.sync", ("pack",)),
        ("telemetry.rollup", ()),
    ):
        _must(root, name, words)
    _unfinished(root)
    shutil.rmtree(root / "site", ignore_errors=True)
    world.git(root, "gc", "--quiet")
    return root


def _unfinished(root: Path) -> None:
    """What lies there only while something runs: the journal of a harness, a promotion about to be carried out."""
    children.run(lambda: call(root, "eval.harness", ()), at_step=12)

    def decides() -> int:
        carry_out._apply = lambda *_: None  # type: ignore[assignment]
        for path in ("meta/decisions", "meta/reports"):
            shutil.rmtree(root / path)
        world.git(root, "checkout", "-q", "--", "agents/prompts")
        return call(root, "eval.ab_testing", ())

    kept = {path: (root / path).read_bytes() for path in _files(root, "meta")}
    assert children.run(decides).code == 0
    for path, data in kept.items():
        world.put(root, path, data)
    (root / PENDING).rename(root.parent / Path(PENDING).name)
    assert all((root / name).is_file() for names in KEPT.values() for name in names if name != PENDING)


def _files(root: Path, below: str) -> list[str]:
    return [str(file.relative_to(root)) for file in (root / below).rglob("*") if file.is_file()]


def _must(root: Path, name: str, words: tuple[str, ...]) -> None:
    ended = children.run(lambda: call(root, name, words))
    assert ended.code == 0, f"{name}: {ended}"


@contextmanager
def copy(template: Path, place: Path) -> Iterator[Path]:
    """A checkout of one's own, with its remote, for as long as the block lasts."""
    shutil.copytree(template.parent, place, symlinks=True)
    try:
        yield place / template.name
    finally:
        shutil.rmtree(place, ignore_errors=True)
