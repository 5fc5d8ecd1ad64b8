"""What does the harness cost over a bare aiohttp loop? 400 cases x 2 prompts, graded, logged and written.

The endpoint answers after 50 ms, in a process of its own; each side is a fresh process, its start-up counts. The bare
side posts the same questions through aiohttp and a semaphore and keeps the parsed answers. The client side asks
them through our client, priced and logged: what the harness uses beyond that is its own.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from eval import harness
from tests.bench import REPOSITORY, Row, endpoint, used
from tests.worlds import eval_checkout
from tests.worlds.loopback import Loopback, Reply, Request

CASES, CONCURRENCY, LATENCY_MS = 400, 16, 50
AGENTS = ("alpha", "beta")  # the same job under two prompts
CALLS = CASES * len(AGENTS)
ROUNDS = 5  # side by side, alternating: a noisy neighbour hits all
MAX_RATIO, MAX_CPU_MS, MAX_MIB, MAX_OWN_CPU_MS, MAX_OFFLINE_S = 1.12, 1.5, 130, 0.4, 5.0
ANSWER = json.dumps({"items": [{"id": "h1", "risk_score": 50, "rationale": "the text says risk 50"}]})

SERVED = ("--latency-ms", str(LATENCY_MS), "--content", ANSWER)

_QUESTIONS = """
import asyncio, json, sys
from pathlib import Path

def questions(root):
    for agent in AGENTS:
        system = Path(root, f"agents/prompts/{agent}.md").read_text().strip()
        for line in Path(root, f"eval/suites/{agent}.jsonl").read_text().splitlines():
            user = json.dumps({"task": agent, **json.loads(line)["input"]})
            yield [{"role": "system", "content": system}, {"role": "user", "content": user}]
"""

_BARE = """
async def main():
    import aiohttp
    session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
    slots, told = asyncio.Semaphore(int(sys.argv[3])), {"Authorization": "Bearer none"}
    async def call(messages):
        body = {"model": "gpt-4.1-mini", "messages": messages, "temperature": 0.2, "max_tokens": 1800}
        async with slots:
            async with session.post(
                sys.argv[1] + "/chat/completions", json=body | {"response_format": FORMAT}, headers=told
            ) as response:
                return json.loads((await response.json())["choices"][0]["message"]["content"])
    answers = await asyncio.gather(*map(call, questions(sys.argv[2])))
    assert answers and all(answer["items"] for answer in answers)
    await session.close()

asyncio.run(main())
"""

_CLIENT = """
from agents.model.endpoint import OpenAIModel
from agents.model.settings import ModelSettings
from telemetry.edge.files import working_in

async def main():
    model = OpenAIModel(
        api_key="none", base_url=sys.argv[1], model="gpt-4.1-mini", given=ModelSettings(concurrency=CONCURRENCY)
    )
    answers = await asyncio.gather(*(model.complete(asked, schema=SCHEMA) for asked in questions(sys.argv[2])))
    assert len(answers) == CALLS

with working_in(Path(sys.argv[2])):
    asyncio.run(main())
"""

_SCHEMA = {
    "type": "object",
    "required": ["items"],
    "additionalProperties": False,
    "properties": {"items": {"type": "array", "items": eval_checkout.SCHEMA}},
}
_FORMAT = {"type": "json_schema", "json_schema": {"name": "answer", "schema": _SCHEMA, "strict": True}}
_GIVEN = f"{AGENTS=}\n{CALLS=}\n{CONCURRENCY=}\nSCHEMA={_SCHEMA!r}\nFORMAT={_FORMAT!r}\n" + _QUESTIONS


def main() -> list[Row]:
    """All figures of the harness."""
    return [
        *against_the_bare_loop(),
        many_in_flight(),
        first_request(),
        killed_and_resumed(),
        all_suites_offline(),
        *a_large_suite_offline(),
    ]


def against_the_bare_loop() -> list[Row]:
    """Wall time, CPU and memory of the same 800 questions asked three ways in turn."""
    bare, client, ours = [], [], []
    with endpoint(*SERVED) as url, tempfile.TemporaryDirectory() as scratch:
        eval_checkout.make(Path(scratch), AGENTS, CASES)
        for _ in range(ROUNDS):
            bare.append(used("-c", _GIVEN + _BARE, url, scratch, str(CONCURRENCY)))
            client.append(used("-c", _GIVEN + _CLIENT, url, scratch))
            ours.append(used("-m", "eval.harness", "--root", scratch, "--quiet", url=url))
            for agent in AGENTS:
                summary = json.loads(Path(scratch, f"eval/results/{agent}.json").read_text())["summary"]
                assert summary["counted"] == CASES, summary
    ratio = statistics.median(mine.wall_s / plain.wall_s for mine, plain in zip(ours, bare, strict=True))
    # CPU time only ever grows by what else runs on the machine: the least of the rounds is nearest the truth.
    cpu = [min(each.cpu_s for each in side) / CALLS * 1e3 for side in (ours, client)]
    own_ms = cpu[0] - cpu[1]
    peak = max(each.peak_mib for each in ours)
    what = f"{CASES} cases x {len(AGENTS)} prompts, {CONCURRENCY} at a time, {LATENCY_MS} ms"
    return [
        Row(
            f"{what}: graded, logged, written; wall, start-up included",
            f"{statistics.median(each.wall_s for each in ours):.2f} s",
            f"{statistics.median(each.wall_s for each in bare):.2f} s bare aiohttp",
            f"{ratio:.2f}",
            f"<= {MAX_RATIO:.2f}",
            ratio <= MAX_RATIO,
        ),
        Row(
            f"{what}: CPU per case beyond the client's own",
            f"{own_ms:.2f} ms ({cpu[0]:.2f} in all)",
            f"{cpu[1]:.2f} ms client alone",
            f"{cpu[0] / cpu[1]:.2f}",
            f"<= {MAX_OWN_CPU_MS} ms",
            own_ms <= MAX_OWN_CPU_MS,
        ),
        Row(
            f"{what}: CPU per case, start-up included",
            f"{cpu[0]:.2f} ms",
            f"{min(each.cpu_s for each in bare) / CALLS * 1e3:.2f} ms bare aiohttp",
            "",
            f"<= {MAX_CPU_MS} ms",
            cpu[0] <= MAX_CPU_MS,
        ),
        Row(
            f"{what}: peak memory",
            f"{peak:.0f} MiB",
            f"{max(each.peak_mib for each in bare):.0f} MiB bare aiohttp",
            "",
            f"<= {MAX_MIB} MiB",
            peak <= MAX_MIB,
        ),
    ]


def many_in_flight(cases: int = 4_000, at_once: int = 64, rounds: int = 2) -> Row:
    """Eight thousand calls, sixty-four at a time."""
    bare, ours = [], []
    with endpoint(*SERVED) as url, tempfile.TemporaryDirectory() as scratch:
        eval_checkout.make(Path(scratch), AGENTS, cases)
        flags = ("--root", scratch, "--quiet", "--concurrency", str(at_once), "--max-calls", "100000")
        for _ in range(rounds):
            bare.append(used("-c", _GIVEN + _BARE, url, scratch, str(at_once)))
            ours.append(used("-m", "eval.harness", *flags, url=url))
    ratio = min(mine.wall_s / plain.wall_s for mine, plain in zip(ours, bare, strict=True))
    peak = max(each.peak_mib for each in ours)
    return Row(
        f"{cases * len(AGENTS):,} cases, {at_once} at a time, {LATENCY_MS} ms: wall and memory",
        f"{min(each.wall_s for each in ours):.2f} s, {peak:.0f} MiB",
        f"{min(each.wall_s for each in bare):.2f} s bare aiohttp",
        f"{ratio:.2f}",
        "<= 1.35, <= 120 MiB",
        ratio <= 1.35 and peak <= 120,
    )


def first_request() -> Row:
    """From the start of the process until its first request arrives."""
    arrived: list[float] = []

    def answer(request: Request) -> Reply:
        arrived.append(time.perf_counter())
        return eval_checkout.answer(request)

    took = []
    with Loopback(answer) as server, tempfile.TemporaryDirectory() as scratch:
        eval_checkout.make(Path(scratch), AGENTS, 20)
        for _ in range(ROUNDS):
            arrived.clear()
            started = used("-m", "eval.harness", "--root", scratch, "--quiet", url=server.url).start
            took.append(arrived[0] - started)
    return Row("first request after start", f"{min(took):.2f} s", "", "", "<= 0.3 s", min(took) <= 0.3)


def a_large_suite_offline(cases: int = 100_000) -> list[Row]:
    """A hundred thousand cases of one agent, pinned and graded: their time and their memory."""
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        eval_checkout.make(root, AGENTS[:1], cases)
        rules = "```rules\nanalyst: threshold\nlist: notes\n```"
        (root / f"agents/prompts/{AGENTS[0]}.md").write_text(f"# {AGENTS[0]}\n\n{rules}\n")
        pinned = used("-m", "eval.suites", "pin", AGENTS[0], "--root", scratch, "--quiet")
        graded = used("-m", "eval.harness", "--root", scratch, "--quiet")
        assert (root / harness.RESULTS / f"{AGENTS[0]}_rows.jsonl").exists()
    return [
        Row(
            f"{cases:,} cases {what}",
            f"{found.wall_s:.1f} s ({found.cpu_s:.1f} s CPU), {found.peak_mib:.0f} MiB",
            "",
            "",
            f"<= {seconds} s, <= 200 MiB",
            found.wall_s <= seconds and found.peak_mib <= 200,
        )
        for what, found, seconds in (("pinned", pinned, 5), ("graded offline", graded, 45))
    ]


def killed_and_resumed() -> Row:
    """SIGKILL at half, then `--resume`: calls made twice, and whether the totals are those of a whole run."""

    def answer(request: Request) -> Reply:
        return eval_checkout.answer(request, delay_s=LATENCY_MS / 1000)

    with Loopback(answer) as server, tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        eval_checkout.make(root, AGENTS, CASES)
        command = [sys.executable, "-m", "eval.harness", "--root", scratch, "--quiet"]
        environment = dict(os.environ) | {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "none"}
        victim = subprocess.Popen(command, cwd=REPOSITORY, env=environment)
        while len(server.requests) < CALLS // 2 and victim.poll() is None:
            time.sleep(0.005)
        victim.send_signal(signal.SIGKILL)
        victim.wait()
        used("-m", "eval.harness", "--root", scratch, "--quiet", "--resume", url=server.url)
        repeated = len(server.requests) - CALLS
        resumed = _totals(root)
        used("-m", "eval.harness", "--root", scratch, "--quiet", url=server.url)
        same = resumed == _totals(root)
    return Row(
        "SIGKILL at half, then --resume: calls repeated, totals",
        f"{repeated} calls, totals {'identical' if same else 'DIFFER'}",
        f"{CALLS} calls uninterrupted",
        "",
        f"<= {2 * CONCURRENCY} calls, identical",  # as many may be in flight, and as many being graded
        repeated <= 2 * CONCURRENCY and same,
    )


def all_suites_offline() -> Row:
    """Every shipped suite with the offline model, start-up included."""
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        for folder in ("agents/prompts", "agents/schemas", "eval/suites"):
            shutil.copytree(REPOSITORY / folder, root / folder)
        shutil.copy(REPOSITORY / "agents/manifest.yaml", root / "agents/manifest.yaml")
        took = statistics.median(
            used("-m", "eval.harness", "--root", scratch, "--quiet").wall_s for _ in range(3)
        )
        files = list((root / harness.RESULTS).glob("*.json"))
        cases = sum(json.loads(path.read_text())["summary"]["counted"] for path in files)
    return Row(
        f"all suites offline ({cases} cases), start-up included",
        f"{took:.2f} s",
        "",
        "",
        f"<= {MAX_OFFLINE_S:g} s",
        took <= MAX_OFFLINE_S,
    )


def _totals(root: Path) -> dict[str, Any]:
    """The summaries, less what a clock decides."""
    totals = {}
    for agent in AGENTS:
        summary = json.loads((root / harness.RESULTS / f"{agent}.json").read_text())["summary"]
        totals[agent] = {name: value for name, value in summary.items() if not name.endswith("latency_ms")}
    return totals
