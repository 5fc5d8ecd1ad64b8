"""What does the client cost over a bare SDK loop? 800 calls, 16 at a time, a 50 ms endpoint, all logged.

The endpoint is a process of its own. Each side is a fresh process and its start-up counts: the bare side imports
the SDK, parses the JSON and keeps it; ours also checks the schema, prices, and logs every call.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.bench import Row

CALLS, CONCURRENCY, LATENCY_MS = 800, 16, 50
ROUNDS = 5  # side by side, alternating: a noisy neighbour hits both
MAX_RATIO, MAX_CPU_MS = 1.05, 2.5
ROOT = Path(__file__).resolve().parents[2]

_BARE = """
import asyncio, json, sys

async def main():
    from openai import AsyncOpenAI
    client, slots = AsyncOpenAI(api_key="none", base_url=sys.argv[1]), asyncio.Semaphore(CONCURRENCY)
    async def call():
        async with slots:
            got = await client.chat.completions.create(
                model="gpt-4.1-mini", messages=MESSAGES, temperature=0.2, max_tokens=1800, response_format=FORMAT
            )
            return json.loads(got.choices[0].message.content)
    answers = await asyncio.gather(*(call() for _ in range(CALLS)))
    assert all(answer["signal"] == "risk_off" for answer in answers)

asyncio.run(main())
"""

_OURS = """
import asyncio, sys
from pathlib import Path
from agents.model.endpoint import OpenAIModel
from agents.model.settings import ModelSettings
from telemetry.edge.files import working_in

async def main():
    model = OpenAIModel(
        api_key="none", base_url=sys.argv[1], model="gpt-4.1-mini", given=ModelSettings(concurrency=CONCURRENCY)
    )
    answers = await asyncio.gather(*(model.complete(MESSAGES, schema=SCHEMA) for _ in range(CALLS)))
    assert all(answer.data["signal"] == "risk_off" for answer in answers)
    assert all(answer.cost_usd > 0 for answer in answers)

with working_in(Path(sys.argv[2])):
    asyncio.run(main())
"""

SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "required": ["signal", "value", "rationale"],
    "properties": {
        "signal": {"enum": ["risk_off", "risk_on"]},
        "value": {"type": "number"},
        "rationale": {"type": "string"},
    },
}
MESSAGES = [
    {"role": "system", "content": "You are a careful market analyst. Answer in JSON. " * 20},
    {
        "role": "user",
        "content": json.dumps({"task": "macro_watcher", "series": [{"id": "VIX", "value": 31.2}]}),
    },
]
FORMAT = {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA, "strict": True}}
_GIVEN = f"{CALLS=}\n{CONCURRENCY=}\n{SCHEMA=}\n{MESSAGES=}\n{FORMAT=}\n"


@contextmanager
def endpoint() -> Iterator[str]:
    """A chat endpoint in a process of its own."""
    command = [sys.executable, "-m", "tests.worlds.loopback", "--latency-ms", str(LATENCY_MS)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        yield server.stdout.readline().strip()
        server.stdin.close()


def timed(program: str, *arguments: str) -> tuple[float, float]:
    """Wall and CPU seconds of a fresh process."""
    start = time.perf_counter()
    child = subprocess.Popen([sys.executable, "-c", _GIVEN + program, *arguments], cwd=ROOT)
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    wall = time.perf_counter() - start
    if child.returncode:
        raise RuntimeError(f"a side of the client benchmark failed with {child.returncode}")
    return wall, used.ru_utime + used.ru_stime


def main() -> list[Row]:
    """Both sides in turn; the median of the ratios, and our CPU per call."""
    bare, ours = [], []
    with endpoint() as url, tempfile.TemporaryDirectory() as scratch:
        for _ in range(ROUNDS):
            bare.append(timed(_BARE, url))
            ours.append(timed(_OURS, url, scratch))
        logged = len(Path(scratch, "telemetry/events.jsonl").read_bytes().splitlines())
    assert logged == CALLS * ROUNDS, f"{logged} rows for {CALLS * ROUNDS} calls"
    ratio = statistics.median(our[0] / plain[0] for our, plain in zip(ours, bare, strict=True))
    wall, plain_wall = (statistics.median(side[0] for side in sides) for sides in (ours, bare))
    # Whatever else the machine does can only add to CPU time: the least disturbed round is the cost.
    cpu, plain_cpu = (min(side[1] for side in sides) / CALLS * 1e3 for sides in (ours, bare))
    what = f"{CALLS} calls, {CONCURRENCY} at a time, {LATENCY_MS} ms, logged"
    return [
        Row(
            f"{what}: wall, start-up included",
            f"{wall:.2f} s",
            f"{plain_wall:.2f} s bare AsyncOpenAI",
            f"{ratio:.2f}",
            f"<= {MAX_RATIO:.2f}",
            ratio <= MAX_RATIO,
        ),
        Row(
            f"{what}: CPU per call, start-up included",
            f"{cpu:.2f} ms",
            f"{plain_cpu:.2f} ms bare",
            f"{cpu / plain_cpu:.2f}",
            f"<= {MAX_CPU_MS} ms",
            cpu <= MAX_CPU_MS,
        ),
    ]
