"""How long does it take to export a large batch, and how well is what identifies a person found?"""

from __future__ import annotations

import resource
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import orjson

from telemetry import rl_export
from telemetry.batches import personal
from telemetry.edge.files import EVENTS, TEXTS, working_in
from telemetry.texts import line_of, name_of
from tests.bench import Row
from tests.worlds import eventlog, labelled, runs

POINTS = 100_000
SAID = (
    "Headline {at}: ministers meet in region {region}, the index moved by {move} %; write to desk{at}@example.org. "
    * 6
)


def main() -> list[Row]:
    return [_export(), *_found()]


def write(root: Path, points: int) -> None:
    """As many runs of the last days, each with a question of its own."""
    runs.checkout(root)
    start = datetime.now(UTC) - timedelta(days=20)
    system = "You watch the news of a region and say what changed. " * 40
    with (root / EVENTS).open("wb") as events, (root / TEXTS).open("wb") as texts:
        texts.write(line_of(eventlog.event()["ts"], system))
        for at in range(points):
            when = start + timedelta(seconds=at * 15)
            ts = when.strftime("%Y-%m-%dT%H:%M:%S.000Z")
            asked = SAID.format(at=at, region=at % 17, move=at % 7)
            answer = f'{{"items": [{{"region": "r{at % 17}", "score": {at % 100}}}]}}'
            texts.write(line_of(ts, asked) + line_of(ts, answer))
            messages = [
                {"role": "system", "sha256": name_of(system)},
                {"role": "user", "sha256": name_of(asked)},
            ]
            about = {"ts": ts, "agent": f"agent_{at % 12}", "run_id": f"r{at}", "task_type": f"type_{at % 9}"}
            call = {
                "event_id": f"c{at}",
                "kind": "llm_call",
                "messages": messages,
                "output_sha256": name_of(answer),
            }
            scored = {"quality_score": 0.6 + at % 40 / 100, "success": True, "tokens_used": 1100}
            rows = (eventlog.event(**about, **call), eventlog.event(**about, event_id=f"e{at}", **scored))
            events.write(b"".join(orjson.dumps(row) + b"\n" for row in rows))


def _export() -> Row:
    with tempfile.TemporaryDirectory() as folder, working_in(Path(folder)):
        (Path(folder) / "telemetry").mkdir()
        write(Path(folder), POINTS)
        start, cpu = time.perf_counter(), time.process_time()
        code = rl_export.main(["--type", "sft", "--min-quality", "0", "--quiet"])
        took, used = time.perf_counter() - start, time.process_time() - cpu
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return Row(
        f"{POINTS:,} runs exported (sft), every question another text",
        f"{took:.1f} s",
        f"{used:.1f} s of CPU, {memory:.0f} MB",
        "",
        "<= 30 s",
        code == 0 and min(took, used) <= 30,
    )


def _found() -> list[Row]:
    scores = labelled.scored(lambda text: [(one.kind, one.start, one.end) for one in personal.find(text)])
    return [
        Row(
            f"personal data: {kind}",
            f"precision {precision:.2f}, recall {recall:.2f}",
            f"{there} in {len(labelled.texts())} labelled texts",
            "",
            "recall >= 0.95",
            recall >= 0.95,
        )
        for kind, (precision, recall, there) in scores.items()
    ]
