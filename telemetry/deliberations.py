"""How agents came to their answers: each run with what it was asked, what it said and why, whoever let it run.

Runs in the field, A/B nights and evals alike: rows of the log and their texts, put together again, so nothing of it is
ever overwritten, and `sync` carries it. `--json` has every word; else one paragraph a run.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from telemetry.edge import cli
from telemetry.edge.files import Repo
from telemetry.edge.frozen import frozen
from telemetry.edge.records import field_value, listed
from telemetry.edge.text import MAX_PREVIEW, MAX_RATIONALE, clean, cut
from telemetry.read.rows import Window, quoted, window_of, with_window_flags

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

SHOWN: Final = 50  # runs, unless more are asked for
_SAID: Final = ("rationale", "why", "evidence")  # fields in which an item says why
_RUN: Final = ("task_id", "input_sha256", "output_sha256", "iterations")
_CALL: Final = ("messages", "output_sha256", "first_output_sha256", "tool_calls", "finish_reason")
_GRADE: Final = ("case_id", "arm", "trial_no", "score", "ok", "turn_data")


@frozen
class Turn:
    """One call of the model, or what is known of it; a text that was not kept is null."""

    messages: tuple[Mapping[str, Any], ...]
    answer: str | None
    first_answer: str | None  # the one that had to be repaired
    tool_calls: tuple[Mapping[str, Any], ...]
    error_kind: str | None


@frozen
class Deliberation:
    """One run."""

    run_id: str
    ts: str
    agent: str
    source: str
    task_id: str | None
    as_of: str | None
    model: str | None
    error_kind: str | None
    given: str | None
    rationale: str
    rationale_truncated: bool
    output: str | None
    turns: tuple[Turn, ...]
    iterations: tuple[Mapping[str, Any], ...]
    graded: Mapping[str, Any] | None  # case, arm, score and turns of a trial


def rationales(output: Any) -> Iterable[str]:
    """Why, in the words of each item."""
    for item in output if isinstance(output, list) else [output]:
        if isinstance(item, dict):
            said = next((item[name] for name in _SAID if item.get(name)), None)
            if isinstance(said, str):
                yield said


def why(output: Any) -> tuple[str, bool]:
    """All of that, and whether it had to be cut."""
    return cut("\n".join(rationales(output)), MAX_RATIONALE)


def deliberations(
    repo: Repo, window: Window, agents: Sequence[str] = (), runs: Sequence[str] = ()
) -> list[Deliberation]:
    """The runs of the window, oldest first; of these agents, or these runs."""
    from telemetry.read.store import connect
    from telemetry.texts import texts_of

    fields = tuple(dict.fromkeys((*_RUN, *_CALL, *_GRADE)))
    with connect(repo, replace(window, kind=None, last_n=0), fields=fields) as con:
        found = _rows(con, "run", ("as_of", *_RUN), _chosen(agents, runs), window.last_n)
        ids = [row["run_id"] for row in found]
        calls = _rows(con, "llm_call", _CALL, _chosen((), ids)) if ids else []
        graded = _rows(con, "evaluation", _GRADE, _chosen((), ids)) if ids else []
    texts = texts_of(_named([*found, *calls]), repo)
    by_run: dict[str, list[Turn]] = {}
    for call in calls:
        by_run.setdefault(call["run_id"], []).append(_turn(call, texts))
    grades = {row["run_id"]: {name: field_value(row[name]) for name in _GRADE} for row in graded}
    return [_one(row, texts, by_run.get(row["run_id"], []), grades.get(row["run_id"])) for row in found]


def _chosen(agents: Sequence[str], runs: Sequence[str]) -> str:
    parts = ["true"]
    for column, names in (("agent", agents), ("run_id", runs)):
        if names:
            parts.append(f"{column} in ({', '.join(map(quoted, names))})")
    return " and ".join(parts)


def _rows(
    con: DuckDBPyConnection, kind: str, fields: Sequence[str], where: str, last_n: int = 0
) -> list[dict[str, Any]]:
    when = "strftime(ts, '%Y-%m-%dT%H:%M:%S.%g') || 'Z'"
    names = ("run_id", "ts", "agent", "source", "model", "error_kind", *fields)
    picked = ", ".join(f"{when} as ts" if name == "ts" else name for name in names)
    newest = f" order by events.ts desc limit {last_n}" if last_n else ""
    sql = f"select {picked} from events where kind = {quoted(kind)} and {where}{newest}"
    rows = [dict(zip(names, row, strict=True)) for row in con.execute(sql).fetchall()]
    return sorted(rows, key=lambda row: str(row["ts"]))


def _named(rows: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    for row in rows:
        for name in ("input_sha256", "output_sha256", "first_output_sha256"):
            if row.get(name):
                yield str(row[name])
        yield from (str(message.get("sha256")) for message in listed(field_value(row.get("messages"))))


def _turn(row: Mapping[str, Any], texts: Mapping[str, str]) -> Turn:
    messages = listed(field_value(row["messages"]))
    return Turn(
        tuple({**message, "text": texts.get(str(message.get("sha256")))} for message in messages),
        texts.get(str(row["output_sha256"])),
        texts.get(str(row["first_output_sha256"])),
        tuple(listed(field_value(row["tool_calls"]))),
        row["error_kind"],
    )


def _one(
    row: Mapping[str, Any], texts: Mapping[str, str], turns: Sequence[Turn], graded: Mapping[str, Any] | None
) -> Deliberation:
    output = texts.get(str(row["output_sha256"]))
    about = {name: row[name] for name in ("run_id", "ts", "agent", "source", "task_id", "as_of", "model")}
    return Deliberation(
        **about,
        error_kind=row["error_kind"],
        given=texts.get(str(row["input_sha256"])),
        rationale=why(field_value(output))[0],
        rationale_truncated=why(field_value(output))[1],
        output=output,
        turns=tuple(turns),
        iterations=tuple(listed(field_value(row["iterations"]))),
        graded=graded,
    )


def told(one: Deliberation) -> str:
    """A run in a paragraph."""
    score = None if one.graded is None else one.graded.get("score")
    facts = [one.ts, one.agent, one.source, one.task_id or "", one.model or "", f"{len(one.turns)} turns"]
    facts += [f"score {score}"] if score is not None else []
    answered = f"answered {cut(one.output or 'nothing that was kept', MAX_PREVIEW)[0]}"
    said = one.rationale or (f"failed: {one.error_kind}" if one.error_kind else answered)
    return "\n".join([f"{one.run_id}  {', '.join(filter(None, facts))}", *clean(said).splitlines(), ""])


def parser() -> cli.Parser:
    """The command line."""
    parse = with_window_flags(cli.Parser(__doc__))
    parse.set_defaults(last_n=SHOWN)
    parse.add_argument(
        "--agent", action="append", default=[], metavar="NAME", help="only this one (may be repeated)"
    )
    parse.add_argument(
        "--run", action="append", default=[], metavar="ID", help="only this run (may be repeated)"
    )
    return parse


@cli.entry(parser)
def main(args: argparse.Namespace, repo: Repo) -> int:
    """Show them."""
    from telemetry.edge.records import plain

    found = deliberations(repo, window_of(args), args.agent, args.run)
    lines = [told(one) for one in found] or ["No such run in the log."]
    cli.tell(args, plain(found), *lines)
    return cli.OK


if __name__ == "__main__":
    raise SystemExit(main())
