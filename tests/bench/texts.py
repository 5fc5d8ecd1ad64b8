"""What does it cost to keep every word? One task tracked with its texts, and a call once it is sealed.

A task is one run with one model call: three kilobytes of system text that it shares with the others, a kilobyte of
input and half one of answer that are its own. Sealed is what five nights of evals leave, one answer in ten another
each night, with a replay of the sample: the shipped example, offline. Hashes on the rows count as well as the words.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from agents.model.call import Completion, log_call
from telemetry import retention
from telemetry.edge.files import Repo, working_in
from telemetry.read import parquet, sealed_texts
from telemetry.record.run import instrument_agent_call_async
from telemetry.texts import SWITCH
from tests.bench import Row

TASKS, TURNS, NIGHTS, DAYS = 1_000, 5, 5, 130
MAX_MS, MAX_BYTES = 0.2, 150
ROOT = Path(__file__).resolve().parents[2]
SYSTEM = " ".join(f"Rule {number}: weigh what is said against what is known." for number in range(60))


def main() -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="ratchet-bench-") as scratch:
        return [_task(Path(scratch)), _sealed(Path(scratch) / "example")]


def _task(root: Path) -> Row:
    kept, hashed = [], []
    for turn in range(TURNS):
        for switch, seconds in (("1", kept), ("0", hashed)):
            os.environ[SWITCH] = switch
            with working_in(root / f"{switch}-{turn}"):
                seconds.append(asyncio.run(_tasks(turn)))
    del os.environ[SWITCH]
    ours, without = min(kept) / TASKS * 1e3, min(hashed) / TASKS * 1e3
    return Row(
        "one task tracked with its texts", f"{ours:.3f} ms", f"{without:.3f} ms (hashes alone)",
        f"{ours / without:.1f}x", f"<= {MAX_MS:g} ms", ours <= MAX_MS,
    )  # fmt: skip


async def _tasks(turn: int) -> float:
    start = time.process_time()
    for number in range(TASKS):
        user, answer = f"{turn}/{number} " * 100, f"so {turn}/{number} " * 40
        messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": user}]
        call = Completion(
            answer, answer, "m", "m", "p", 900, 200, 0, 0, 0.001, "price_list", messages=messages
        )

        async def one(call: Completion = call) -> list[object]:
            log_call(call)
            return [{"risk_score": 50}]

        await instrument_agent_call_async("macro_watcher", one)
    return time.process_time() - start


def _sealed(root: Path) -> Row:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True)
    for name in listed.stdout.split("\0")[:-1]:
        if name.startswith(("agents/", "eval/")) and (ROOT / name).exists():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, root / name)
    for night in range(NIGHTS):
        _run("eval.harness", root, "--offline-noise", "0.1", "--seed", str(night))
    _run("agents.orchestrator", root, "--replay", str(DAYS))
    raw = sum((root / "telemetry" / name).stat().st_size for name in ("events.jsonl", "texts.jsonl"))
    with_hashes = retention.seal(Repo(root), datetime.now(UTC).date() + timedelta(days=1)).bytes_sealed
    files = sorted((root / "telemetry/sealed").glob("dt=*/*.parquet"))
    calls, words = 0, sum(path.stat().st_size for path in sealed_texts.files(Repo(root)))
    plain = root / "plain.jsonl"
    with plain.open("wb") as lines:
        for event in parquet.events(files):
            calls += event["kind"] == "llm_call"
            for name in ("messages", "output_sha256", "input_sha256"):
                event.pop(name, None)
            event["ts"] = str(event["ts"])
            lines.write(parquet.columns(event) or b"")
    with parquet.opened() as con:
        parquet.write(con, plain, root / "plain.parquet", sum(1 for _ in plain.open("rb")))
    hashes = with_hashes - (root / "plain.parquet").stat().st_size
    each = (words + hashes) / calls
    return Row(
        f"words and hashes of a call, sealed ({calls:,} calls)", f"{each:.0f} bytes", f"{raw / calls:.0f} (not sealed)",
        f"{raw / calls / each:.0f}x", f"<= {MAX_BYTES} bytes", each <= MAX_BYTES,
    )  # fmt: skip


def _run(module: str, root: Path, *flags: str) -> None:
    subprocess.run(
        [sys.executable, "-m", module, "--root", str(root), "--quiet", *flags], cwd=ROOT, check=True
    )
