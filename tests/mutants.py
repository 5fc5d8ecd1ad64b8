"""Would the tests notice? Small faults are put into the modules that decide, and the tests of their rooms must fail.

Each mutant is one operator, constant, condition or call changed, in a scratch copy of the tree; its tests stop at the
first failure. A survivor is printed with its place: a test is missing there, or the fault changes nothing that anybody
can see. Exit code 1 when one survived. Slow: the tests of a room start anew for every mutant.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
GUARD = ("tests/meta/test_guard.py", "tests/meta/test_contents.py", "tests/meta/test_reach.py")
HANDED_OVER = (
    "tests/meta/test_agreement.py",
    "tests/meta/test_handover.py",
    "tests/meta/pulls/test_hostile_handovers.py",
)
# Module: its tests, the quickest first.
MODULES = {
    "eval/ab/sequential.py": ("tests/eval/ab/test_sequential.py", "tests/eval/ab/test_rounds.py"),
    "eval/ab/guardrails.py": ("tests/eval/ab/test_guardrails.py", "tests/eval/ab/test_ab_markdown.py"),
    "eval/grading/graders.py": (
        "tests/eval/test_graders.py", "tests/eval/test_rubric.py", "tests/eval/test_judge.py",
        "tests/eval/test_own_graders.py", "tests/eval/test_imports.py", "tests/eval/test_suites.py",
    ),
    "meta/guard.py": (*GUARD, *HANDED_OVER),
    "meta/publish/judge.py": (*GUARD, *HANDED_OVER),
    "meta/publish/contents.py": (*GUARD, "tests/meta/test_demotion.py"),
    "meta/publish/boundaries.py": GUARD,
    "eval/ledger/decisions.py": (
        "tests/eval/test_decisions.py", "tests/meta/test_audit.py", "tests/eval/test_backtest.py",
    ),
    "telemetry/reward.py": (
        "tests/telemetry/test_reward.py", "tests/telemetry/test_signals.py", "tests/telemetry/test_outcome.py",
        "tests/meta/test_worth.py",
    ),
}  # fmt: skip
TIMEOUT_S = 300  # a mutant that hangs is noticed

SWAPPED: dict[type[ast.AST], type[ast.AST]] = {}
for one, other in (
    (ast.Lt, ast.LtE), (ast.Gt, ast.GtE), (ast.Eq, ast.NotEq), (ast.In, ast.NotIn), (ast.Is, ast.IsNot),
    (ast.And, ast.Or), (ast.Add, ast.Sub), (ast.Mult, ast.Div),
):  # fmt: skip
    SWAPPED |= {one: other, other: one}
CALLS = {"min": "max", "max": "min", "any": "all", "all": "any"}


@dataclass(frozen=True, slots=True)
class Mutant:
    """One fault: where it stands, what was there, what is there now, and the module with it."""

    module: str
    line: int
    before: str
    after: str
    source: str

    def __str__(self) -> str:
        return f"{self.module}:{self.line}: {self.before}  ->  {self.after}"


def mutants(module: str, source: str) -> Iterator[Mutant]:
    """Every fault that one module can have."""
    lines = [line.encode() for line in source.splitlines(keepends=True)]
    for node in _code(ast.parse(source)):
        for fault in _faults(node):
            first, last = node.lineno - 1, (node.end_lineno or 0) - 1
            head, tail = lines[first][: node.col_offset], lines[last][node.end_col_offset :]
            changed = [*lines[:first], head, f"({ast.unparse(fault)})".encode(), tail, *lines[last + 1 :]]
            yield Mutant(
                module, node.lineno, ast.unparse(node), ast.unparse(fault), b"".join(changed).decode()
            )


def _code(node: ast.AST) -> Iterator[ast.expr]:
    """The expressions that run: no annotations, no decorators."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "type_comment"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.JoinedStr):  # parts of it do not know their place before Python 3.12
                continue
            if isinstance(child, ast.expr):
                yield child
            if isinstance(child, ast.AST):
                yield from _code(child)


def _faults(node: ast.expr) -> Iterator[ast.expr]:
    """What could stand there instead."""
    match node:
        case ast.Compare(ops=ops) if type(ops[0]) in SWAPPED:
            yield ast.Compare(node.left, [SWAPPED[type(ops[0])](), *ops[1:]], node.comparators)
        case ast.BoolOp():
            yield ast.BoolOp(SWAPPED[type(node.op)](), node.values)
        case ast.BinOp() if type(node.op) in SWAPPED:
            yield ast.BinOp(node.left, SWAPPED[type(node.op)](), node.right)
        case ast.UnaryOp(op=ast.Not() | ast.USub()):
            yield node.operand
        case ast.IfExp():
            yield ast.IfExp(node.test, node.orelse, node.body)
        case ast.Call(func=ast.Name(id=name)) if name in CALLS:
            yield ast.Call(ast.Name(CALLS[name]), node.args, node.keywords)
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int(value) | float(value)):
            yield ast.Constant(value + 1)


def survives(mutant: Mutant, copied: Path) -> bool:
    """Do all tests of its room pass with the fault in the copy?"""
    place = copied / mutant.module
    kept = place.read_text()
    command = ["-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *MODULES[mutant.module]]
    try:
        place.write_text(mutant.source)
        environment = os.environ | {"PYTHONPATH": str(copied), "PYTHONDONTWRITEBYTECODE": "1"}
        ran = subprocess.run(
            [sys.executable, *command], cwd=copied, env=environment, capture_output=True, timeout=TIMEOUT_S
        )
    except subprocess.TimeoutExpired:
        return False
    finally:
        place.write_text(kept)
    return ran.returncode == 0


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__.splitlines()[0])
    parser.add_argument("modules", nargs="*", help=f"default: {', '.join(MODULES)}")
    parser.add_argument(
        "--each", type=int, default=13, help="mutants of a module, drawn at random (default: 13)"
    )
    parser.add_argument("--seed", type=int, default=0, help="draws others (default: 0)")
    arguments = parser.parse_args(argv)
    draw = random.Random(arguments.seed)
    tried, alive = Counter[str](), Counter[str]()
    with tempfile.TemporaryDirectory() as folder:
        copied = Path(folder) / "copy"
        shutil.copytree(REPOSITORY, copied, ignore=shutil.ignore_patterns(".*cache", ".venv", "__pycache__"))
        for module in arguments.modules or MODULES:
            source = (REPOSITORY / module).read_text()
            every = list(mutants(module, source))
            if not survives(Mutant(module, 0, "", "", source), copied):
                raise SystemExit(f"the tests of {module} fail without any fault")
            chosen = draw.sample(every, min(arguments.each, len(every)))
            for mutant in sorted(chosen, key=lambda one: one.line):
                tried[module] += 1
                if survives(mutant, copied):
                    alive[module] += 1
                    print(f"survived: {mutant}", flush=True)
            print(
                f"{module}: {alive[module]} of {tried[module]} survived ({len(every)} possible)", flush=True
            )
    print(f"all: {alive.total()} of {tried.total()} survived")
    return int(bool(alive))


if __name__ == "__main__":
    sys.exit(main())
