"""Sends rows as OpenTelemetry: GenAI spans, evaluation events and metrics, over OTLP/HTTP as JSON.

`OTEL_EXPORTER_OTLP_ENDPOINT` says where to (Langfuse, Phoenix, MLflow, any collector), `OTEL_EXPORTER_OTLP_HEADERS`
what to show there, as for every OpenTelemetry program. A run is a span, the model calls made in it are its children, a
grade is an event on it. Texts stay here. Rows are sent once: what was accepted is remembered, what was not is sent by
the next run (exit 3 when the endpoint is away); the same row always has the same ids.
"""

from __future__ import annotations

import argparse
import hashlib
import os
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from telemetry.edge import cli
from telemetry.edge.errors import BadInput, Stopped
from telemetry.edge.files import SCRATCH, Repo, write_json
from telemetry.edge.frozen import frozen
from telemetry.edge.text import redact, remember
from telemetry.read.rows import Window, add_since_flag, is_instant

ENDPOINT, HEADERS, SERVICE = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_HEADERS", "OTEL_SERVICE_NAME"
SENT: Final = SCRATCH / "otel.json"  # the last moment that was sent, and which of its rows
ROWS: Final = 500  # in one request
TIMEOUT_S: Final = 30

# The conventions that these names are of; every name that leaves stands in this table.
CONVENTIONS: Final = "https://opentelemetry.io/schemas/1.41.0"
ATTRIBUTES: Final = {
    "agent": "gen_ai.agent.name",
    "provider": "gen_ai.provider.name",
    "model_asked": "gen_ai.request.model",
    "model_answered": "gen_ai.response.model",
    "temperature": "gen_ai.request.temperature",
    "tokens_in": "gen_ai.usage.input_tokens",
    "tokens_out": "gen_ai.usage.output_tokens",
    "tokens_cached": "gen_ai.usage.cache_read.input_tokens",
    "request_id": "gen_ai.response.id",
    "error_kind": "error.type",
    # What the conventions have no name for.
    "run_id": "ratchet.run_id",
    "source": "ratchet.source",
    "cost_usd": "ratchet.cost_usd",
    "reward": "ratchet.reward",
    "task_type": "ratchet.task_type",
    "prompt_hash": "ratchet.prompt_hash",
}
OPERATION, FINISH = "gen_ai.operation.name", "gen_ai.response.finish_reasons"
EVALUATION: Final = "gen_ai.evaluation.result"
EVALUATION_NAME, SCORE, LABEL = (
    "gen_ai.evaluation.name",
    "gen_ai.evaluation.score.value",
    "gen_ai.evaluation.score.label",
)
DURATION, TOKENS, TOKEN_TYPE = (
    "gen_ai.client.operation.duration",
    "gen_ai.client.token.usage",
    "gen_ai.token.type",
)
BOUNDS: Final = {  # as the conventions advise: seconds, and tokens
    DURATION: [0.01 * 2**step for step in range(14)],
    TOKENS: [float(4**step) for step in range(14)],
}
CHAT, INVOKE = "chat", "invoke_agent"
_FIELDS: Final = (
    *("model_asked", "model_answered", "temperature", "request_id", "finish_reason", "task_type"),
    *("case_id", "ok", "score"),
)
_NUMBERS: Final = ("temperature", "score")  # of those fields, which are read as text

Row = Mapping[str, Any]
Json = dict[str, Any]


@frozen
class Target:
    """Where rows go."""

    url: str
    headers: Mapping[str, str]
    service: str

    def post(self, signal: str, body: Json) -> None:
        """One request; an endpoint that is away or busy stops us, one that refuses is a mistake to mend."""
        import urllib.error
        import urllib.request

        import orjson

        headers = {"Content-Type": "application/json", **self.headers}
        request = urllib.request.Request(
            f"{self.url}/v1/{signal}", orjson.dumps(body), headers, method="POST"
        )
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
                answer.read(1 << 16)
        except urllib.error.HTTPError as problem:
            said = f"{ENDPOINT}: /v1/{signal} was answered with {problem.code}"
            if problem.code in (408, 429) or problem.code >= 500:
                raise Stopped(f"{said}; the next run sends what is missing") from None
            raise BadInput(said) from None
        except OSError as problem:
            why = redact(str(getattr(problem, "reason", problem)))
            raise Stopped(f"{ENDPOINT}: {why}; the next run sends what is missing") from None


def target_from_env() -> Target:
    """What the environment names."""
    url = os.environ.get(ENDPOINT, "").strip().rstrip("/")
    if urlsplit(url).scheme not in ("http", "https"):
        raise BadInput(f"{ENDPOINT}: must say where to, like http://localhost:4318")
    headers = {}
    for pair in filter(None, os.environ.get(HEADERS, "").split(",")):
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise BadInput(f"{HEADERS}: must be name=value, parted by commas")
        headers[name.strip()] = unquote(value.strip())
        remember(headers[name.strip()])
    return Target(url, headers, os.environ.get(SERVICE, "").strip() or "ratchet")


def send(repo: Repo, target: Target, since: datetime | None = None) -> int:
    """Send the rows that were not sent yet, or all of them since a moment; how many."""
    count = 0
    for batch in _batches(_waiting(repo, since)):
        for signal, body in bodies(batch, target.service).items():
            target.post(signal, body)
        count += len(batch)
        last = batch[-1]["ts"]
        ids = [row["event_id"] for row in batch if row["ts"] == last]
        before = _sent(repo)
        ids += before["ids"] if before.get("ts") == last else []
        write_json(repo / SENT, {"ts": last, "ids": sorted(set(ids))})
    return count


def _sent(repo: Repo) -> Json:
    import orjson

    try:
        found: Json = orjson.loads((repo / SENT).read_bytes())
        return found if isinstance(found.get("ids"), list) and is_instant(found.get("ts")) else {}
    except (OSError, ValueError, AttributeError):
        return {}  # none was sent, or nobody knows: the ids are the same when they are sent again


def _waiting(repo: Repo, since: datetime | None) -> Iterator[Row]:
    from telemetry.read.store import connect

    sent = {} if since else _sent(repo)
    start = since or (datetime.fromisoformat(sent["ts"]) if sent else None)
    with connect(repo, Window(since=start), fields=_FIELDS) as con:
        found = con.execute(
            "select * replace (strftime(ts, '%Y-%m-%dT%H:%M:%S.%g') || 'Z' as ts) from events"
            " where kind in ('run', 'llm_call', 'evaluation') order by ts, event_id"
        )
        names = [column[0] for column in found.description or ()]
        while rows := found.fetchmany(ROWS):
            for row in rows:
                event = dict(zip(names, row, strict=True))
                if event["event_id"] not in sent.get("ids", ()):
                    yield event | {name: float(event[name]) for name in _NUMBERS if event[name] is not None}


def _batches(rows: Iterable[Row]) -> Iterator[list[Row]]:
    from itertools import islice

    going = iter(rows)
    while batch := list(islice(going, ROWS)):
        yield batch


def bodies(rows: Sequence[Row], service: str) -> dict[str, Json]:
    """What is posted to which signal, for some rows; a signal with nothing to say is left out."""
    resource = {"attributes": _attributes({"service.name": service})}

    def wrapped(outer: str, inner: str, key: str, found: list[Json]) -> Json:
        scope = {"scope": {"name": "ratchet"}, "schemaUrl": CONVENTIONS, key: found}
        return {outer: [{"resource": resource, "schemaUrl": CONVENTIONS, inner: [scope]}]}

    spans = [_span(row) for row in rows if row["kind"] in ("run", "llm_call")]
    grades = [_grade(row) for row in rows if row["kind"] == "evaluation"]
    metrics = _metrics([row for row in rows if row["kind"] == "llm_call"])
    made = {
        "traces": wrapped("resourceSpans", "scopeSpans", "spans", spans) if spans else None,
        "logs": wrapped("resourceLogs", "scopeLogs", "logRecords", grades) if grades else None,
        "metrics": wrapped("resourceMetrics", "scopeMetrics", "metrics", metrics) if metrics else None,
    }
    return {signal: body for signal, body in made.items() if body}


def _id(text: str, size: int) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:size]


def _place(row: Row) -> Json:
    """The trace and the span of the run that a row belongs to."""
    return {"traceId": _id(row["run_id"], 32), "spanId": _id(f"run {row['run_id']}", 16)}


def _span(row: Row) -> Json:
    end = _nanoseconds(row["ts"])
    start = end - int((row["latency_ms"] or 0.0) * 1e6)
    call, place = row["kind"] == "llm_call", _place(row)
    named = row["model_asked"] if call else row["agent"]
    said: Json = {ATTRIBUTES[name]: row.get(name) for name in ATTRIBUTES} | {
        OPERATION: CHAT if call else INVOKE
    }
    if row.get("finish_reason"):
        said[FINISH] = [row["finish_reason"]]
    span = {
        **place,
        "name": f"{CHAT if call else INVOKE} {named}",
        "kind": 3 if call else 1,  # client, internal
        "startTimeUnixNano": str(start),
        "endTimeUnixNano": str(end),
        "attributes": _attributes(said),
        "status": {"code": 2, "message": row["error"]} if row["error"] else {},
    }
    inside = {"parentSpanId": place["spanId"], "spanId": _id(row["event_id"], 16)}
    return span | inside if call else span


def _grade(row: Row) -> Json:
    label = {"true": "pass", "false": "fail"}.get(row["ok"] or "")
    said = {EVALUATION_NAME: row["case_id"], SCORE: row.get("score"), LABEL: label}
    said |= {ATTRIBUTES[name]: row.get(name) for name in ("agent", "run_id", "source", "error_kind")}
    return {
        **_place(row),
        "timeUnixNano": str(_nanoseconds(row["ts"])),
        "eventName": EVALUATION,
        "attributes": _attributes(said),
    }


def _metrics(calls: Sequence[Row]) -> list[Json]:
    """Histograms of what these calls took, as changes since the rows before them."""
    values: dict[str, dict[tuple[tuple[str, Any], ...], list[float]]] = {DURATION: {}, TOKENS: {}}
    for row in calls:
        about = {OPERATION: CHAT} | {ATTRIBUTES[name]: row.get(name) for name in ("provider", "model_asked")}
        if row["latency_ms"] is not None:
            values[DURATION].setdefault(tuple(about.items()), []).append(row["latency_ms"] / 1000)
        for name, kind in (("tokens_in", "input"), ("tokens_out", "output")):
            if row[name] is not None:
                key = (*about.items(), (TOKEN_TYPE, kind))
                values[TOKENS].setdefault(key, []).append(float(row[name]))
    if not calls:
        return []
    times = {
        "startTimeUnixNano": str(_nanoseconds(calls[0]["ts"])),
        "timeUnixNano": str(_nanoseconds(calls[-1]["ts"])),
    }
    return [
        {
            "name": name,
            "unit": "s" if name == DURATION else "{token}",
            "histogram": {
                "aggregationTemporality": 1,  # delta
                "dataPoints": [
                    {**times, "attributes": _attributes(dict(key)), **_histogram(found, BOUNDS[name])}
                    for key, found in groups.items()
                ],
            },
        }
        for name, groups in values.items()
        if groups
    ]


def _histogram(values: Sequence[float], bounds: Sequence[float]) -> Json:
    counts = [0] * (len(bounds) + 1)
    for value in values:
        counts[bisect_left(bounds, value)] += 1
    told: Json = {"count": str(len(values)), "sum": sum(values), "min": min(values), "max": max(values)}
    return told | {"bucketCounts": list(map(str, counts)), "explicitBounds": list(bounds)}


def _attributes(said: Mapping[str, Any]) -> list[Json]:
    """As OTLP has them; what is not known is left out."""
    return [{"key": name, "value": _value(value)} for name, value in said.items() if value is not None]


def _value(value: Any) -> Json:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, list):
        return {"arrayValue": {"values": [_value(one) for one in value]}}
    return {"stringValue": str(value)}


def _nanoseconds(ts: str) -> int:
    moment = datetime.fromisoformat(ts).astimezone(UTC)
    return (int(moment.timestamp()) * 1000 + moment.microsecond // 1000) * 1_000_000


def parser() -> cli.Parser:
    parse = cli.Parser(__doc__)
    add_since_flag(parse, "send all rows from this UTC day or time on, also those that were sent")
    return parse


@cli.entry(parser)
def main(args: argparse.Namespace, repo: Repo) -> int:
    count = send(repo, target_from_env(), args.since)
    cli.tell(args, {"rows": count}, cli.found(f"{count:,} rows sent"))
    return cli.OK


if __name__ == "__main__":
    raise SystemExit(main())
