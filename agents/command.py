"""An agent in any language: a command that reads one JSON object from stdin and writes its answer to stdout.

    stdin    {"agent": NAME, "prompt": its system text or null, "model": NAME or null, "inputs": {...}}
    stdout   [items], or {"items": [...], "usage": {"cost_usd": 0.002, "tokens_in": 120, "tokens_out": 30}}

A challenger's text comes in the same `prompt`, so prompts of commands are tested like all others. The command is no
shell line, runs in the checkout, learns of our environment only what `env:` names, and ends, with whatever it started,
at the agent's time limit. What it spent is unknown unless it says so.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import shlex
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from agents.base import AgentError, BaseAgent, Inputs, Item, in_thread
from agents.model.schema import array, problems
from telemetry.edge.records import load_json
from telemetry.edge.text import cut
from telemetry.record.run import record_model_call

MAX_OUTPUT: Final = 1_000_000  # bytes on stdout: an answer, not a dump
MAX_TOLD: Final = 300  # characters of what it said on stderr, in an error
KEPT: Final = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR")
LOOK_S: Final = 0.05  # how often to see whether it ended and left its pipes to somebody

_COUNT = {"type": ["integer", "null"], "minimum": 0}
ANSWER: Final = {
    "type": "object",
    "required": ["items"],
    "additionalProperties": False,
    "properties": {
        "items": array({}),
        "usage": {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "cost_usd": {"type": ["number", "null"], "minimum": 0},
                "tokens_in": _COUNT,
                "tokens_out": _COUNT,
                "model": {"type": ["string", "null"]},
            },
        },
    },
}


class CommandAgent(BaseAgent):
    """Runs its command once and returns the items that it wrote."""

    all_calls_counted = False  # whom it asks is its own affair

    async def analyze(self, inputs: Inputs) -> list[Item]:
        """The command's items on these inputs."""
        argv = shlex.split(self.spec.command or "")
        system = self.prompts.system(self.spec) if self.spec.prompt else None
        request = {"agent": self.spec.name, "prompt": system, "model": self.spec.model, "inputs": inputs}
        answer = _parsed(
            await _answer(argv, json.dumps(request).encode(), self.prompts.repo.root, self.spec.env)
        )
        if usage := answer.get("usage"):
            paid = "provider" if usage.get("cost_usd") is not None else "unknown"
            record_model_call({**usage, "cost_source": paid, "provider": "command"})
        items: list[Item] = answer["items"]
        return items


def _parsed(said: bytes) -> dict[str, Any]:
    try:
        answer = load_json(said)
    except ValueError:
        shown = cut(said.decode("utf-8", "replace"), MAX_TOLD)[0] or "nothing"
        raise AgentError(f"the command must write JSON to stdout, not {shown!r}") from None
    whole = {"items": answer} if isinstance(answer, list) else answer
    if wrong := problems(ANSWER, whole):
        raise AgentError(f"the command's answer must be a list, or have items: {'; '.join(wrong)}")
    return dict(whole)


async def _answer(argv: Sequence[str], request: bytes, root: Path, passed_on: Sequence[str]) -> bytes:
    """What the command writes; it is over when we are, however that comes about."""
    env = {name: os.environ[name] for name in (*KEPT, *passed_on) if name in os.environ}
    with tempfile.TemporaryFile() as given:  # a file, so that nobody waits for a command that does not read
        given.write(request)
        given.seek(0)
        pipes: Mapping[str, Any] = {"stdin": given, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        try:
            process = subprocess.Popen(argv, cwd=root, env=env, start_new_session=True, **pipes)
        except (OSError, ValueError) as problem:
            raise AgentError(
                f"command {argv[0]!r}: {getattr(problem, 'strerror', None) or problem}"
            ) from None
    try:
        return bytes(await in_thread(lambda: _exchange(process, argv)))
    finally:
        _end(process)


def _exchange(process: subprocess.Popen[bytes], argv: Sequence[str]) -> bytearray:
    """All of its stdout; an error if that is too much, or if it did not end well."""
    said: dict[Any, bytearray] = {process.stdout: bytearray(), process.stderr: bytearray()}
    with process, selectors.DefaultSelector() as ready:
        for pipe in said:
            ready.register(pipe, selectors.EVENT_READ)
        while ready.get_map():
            for key, _ in ready.select(LOOK_S):
                chunk = os.read(key.fd, 65_536)
                said[key.fileobj] += chunk
                if not chunk:
                    ready.unregister(key.fileobj)
            del said[process.stderr][: -4 * MAX_TOLD]
            if len(said[process.stdout]) > MAX_OUTPUT:
                _end(process)
                raise AgentError(f"the command wrote more than {MAX_OUTPUT:,} bytes to stdout")
            if process.poll() is not None:
                _end(process)  # whoever it left behind keeps no pipe open
        code = process.wait()
    if code:
        how = f"exited with {code}" if code > 0 else f"was ended by {signal.Signals(-code).name}"
        last = said[process.stderr].decode("utf-8", "replace").strip().splitlines()[-1:]
        raise AgentError(f"command {argv[0]!r} {how}{': ' if last else ''}{''.join(last)[-MAX_TOLD:]}")
    return said[process.stdout]


def _end(process: subprocess.Popen[bytes]) -> None:
    """End it and all that it started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
