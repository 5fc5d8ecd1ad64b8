"""One harvest from rows to suites: read, choose, write the cases, settle what is old enough, report."""

from __future__ import annotations

import functools
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from agents.domain import load_domain
from agents.manifest import AgentSpec, Manifest, load_manifest
from agents.sources.outcomes import happened, load_outcomes
from eval.field import DAYS, MOST, choose
from eval.field.body import FORM
from eval.field.record import SCHEMA_VERSION, Harvested, Report, shown
from eval.field.runs import Candidate, Run, corrected, disagreeing, known_right, load_runs, subject_field
from eval.grading.graders import passes
from eval.grading.suite import Suites, encoded, pin, settle, settled_line
from eval.ledger.provenance import GitState
from eval.ledger.refusals import refusals
from eval.ledger.remarks import remarks
from telemetry import logger
from telemetry.batches import personal
from telemetry.edge.errors import BadInput
from telemetry.edge.files import Repo, read_again, write_atomic
from telemetry.edge.frozen import frozen
from telemetry.edge.records import load_json
from telemetry.edge.text import spelt_out
from telemetry.texts import texts_of

KIND: Final = "new_cases"


@frozen
class Asked:
    """A harvest as asked for."""

    most: int = MOST
    days: int = DAYS
    today: date = field(default_factory=lambda: datetime.now(UTC).date())


@frozen
class Made:
    """A case, and the line that tells of it."""

    line: bytes
    told: Harvested


def harvest(repo: Repo, asked: Asked, *, dry_run: bool = False) -> Report:
    """Add what is worth it to the suites, settle what is old enough, and write the report."""
    git, manifest = GitState(repo), load_manifest(repo)
    suites = _suites(repo, manifest, check=not dry_run)  # before the first is written
    left_out: Counter[str] = Counter()
    made = list(_made(repo, manifest, suites, asked, left_out))
    settled = {} if dry_run else settle(repo, map(Path, sorted(suites.loaded)), asked.today)
    if not dry_run:
        for path in sorted({one.told.suite for one in made}):
            new = b"".join(one.line for one in made if one.told.suite == path)
            before = read_again(repo / path)
            write_atomic(repo / path, before + (b"" if before.endswith(b"\n") else b"\n") + new)
            pin(repo, [Path(path)])
    commit, dirty = git.read()
    report = Report(
        schema_version=SCHEMA_VERSION,
        generated_at=logger.utc_now(),
        since=asked.today.isoformat(),
        days=asked.days,
        cases=tuple(one.told for one in made),
        settled={str(path): count for path, count in settled.items()},
        left_out=dict(sorted(left_out.items())),
        command=f"python -m eval.harvest --most {asked.most} --days {asked.days} --today {asked.today}",
        metadata={"git_commit": commit, "git_dirty": dirty},
    )
    if not dry_run and (report.cases or report.settled):
        FORM.write(repo, report)
    return report


def anything_due(repo: Repo, manifest: Manifest, today: date | None = None) -> bool:
    """Whether a week has passed since the last merged report, and there is anything; trouble is the run's to tell."""
    asked = Asked(today=today) if today else Asked()
    last = FORM.read(repo)
    if last and last.since > str(asked.today - timedelta(days=6)):
        return False
    try:
        suites = _suites(repo, manifest, check=False)
        first = next(_made(repo, manifest, suites, asked, Counter()), None)
        return first is not None or any(_due(repo, path, asked.today) for path in suites.loaded)
    except BadInput:
        return True


def _suites(repo: Repo, manifest: Manifest, *, check: bool) -> Suites:
    """Every agent's suite."""
    suites = Suites(repo)
    for spec in manifest.agents:
        if spec.eval_suite:
            suites.load(spec.eval_suite, check=check)
    return suites


def _due(repo: Repo, path: str, today: date) -> bool:
    lines = read_again(repo / path).splitlines(keepends=True)
    return any(settled_line(line, today) != line for line in lines)


def _made(
    repo: Repo, manifest: Manifest, suites: Suites, asked: Asked, left_out: Counter[str]
) -> Iterator[Made]:
    specs = {spec.name: spec for spec in manifest.agents}
    since = datetime.combine(asked.today - timedelta(days=asked.days), datetime.min.time(), UTC)
    runs = [run for run in load_runs(repo, since) if run.agent in specs]
    judged = {name for name, spec in specs.items() if spec.enabled and spec.eval_suite}
    left_out["nobody"] = sum(run.agent not in judged for run in runs)
    runs = [run for run in runs if run.agent in judged]
    refused = {one.subject for one in refusals(repo) if one.kind == KIND}
    wanted = {name for run in runs for name in (run.input_sha256, run.output_sha256) if name}
    text = texts_of(wanted, repo).get  # all read at once

    @functools.cache
    def subject(name: str) -> str:
        return subject_field(specs[name], [run for run in runs if run.agent == name], text)

    @functools.cache
    def known(path: str) -> choose.Known:
        return choose.Known((case.input, case.expect) for case in suites.loaded[path].cases)

    ids = {path: {case.id for case in suite.cases} for path, suite in suites.loaded.items()}
    taken = 0
    for one in choose.in_order(_candidates(repo, manifest, runs)):
        spec = specs[one.run.agent]
        name = choose.case_id(one.run)
        if name in ids[spec.eval_suite]:
            left_out["known"] += 1
        elif f"{spec.name}/{name}" in refused:
            left_out["refused"] += 1
        elif taken >= asked.most:
            left_out["later"] += 1
        else:
            why, made = _case(one, spec, subject(spec.name), text, known(spec.eval_suite), asked.today)
            if made is None:
                left_out[why] += 1
                continue
            ids[spec.eval_suite].add(name)
            taken += 1
            yield made


def _candidates(repo: Repo, manifest: Manifest, runs: list[Run]) -> Iterator[Candidate]:
    """Everything that might become a case; of repeated runs on one input the last one speaks."""
    domain = load_domain(manifest.agents[0].domain if manifest.agents else None)
    came = happened(load_outcomes(repo, None, manifest.outcomes), domain.came_true)
    yield from corrected(runs, remarks(repo))
    right: dict[str, Candidate] = {}
    for agent in dict.fromkeys(run.agent for run in runs):
        latest = {run.input_sha256: run for run in runs if run.agent == agent}
        right |= {one.run.run_id: one for one in known_right(list(latest.values()), came)}
    yield from right.values()
    yield from disagreeing(runs, right)


def _case(
    one: Candidate,
    spec: AgentSpec,
    subject: str,
    text: Callable[[str], str | None],
    known: choose.Known,
    today: date,
) -> tuple[str, Made | None]:
    """The case of a run; or why there is none."""
    given, answer = text(one.run.input_sha256), text(one.run.output_sha256 or "") or ""
    if given is None:
        return "no_text", None
    if len(given) > choose.MAX_INPUT:
        return "too_large", None
    clean, removed = choose.without_personal(json.loads(given))
    expect = choose.label(one, subject)
    if known.alike(clean, expect):
        return "alike", None
    known.add(clean, expect)
    note = spelt_out(personal.without(one.note)[:2000])
    line = encoded(choose.as_case(one, clean, expect, today, note))
    told = Harvested(
        id=choose.case_id(one.run),
        suite=spec.eval_suite,
        sha256=hashlib.sha256(line).hexdigest(),
        agent=spec.name,
        day=one.run.day,
        run_id=one.run.run_id,
        reason=one.reason,
        why=spelt_out(one.why),
        input=shown(clean),
        answer=shown(_parsed(personal.without(answer))),
        named=tuple(map(spelt_out, sorted(one.run.named))),
        came_true=tuple(map(spelt_out, one.came_true)),
        proposed=tuple(map(spelt_out, one.right)),
        expect=shown(expect),
        agrees=passes(expect, _parsed(answer)),
        removed=removed,
        note=note,
    )
    return "", Made(line, told)


def _parsed(text: str) -> Any:
    try:
        return load_json(text)
    except ValueError:
        return text
