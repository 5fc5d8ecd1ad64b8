"""The sandbox's report: the record, the text of the draft pull request, and the patch left in the tree.

Everything that a model or a confined command said is cut, cleaned and quoted: this text is rendered by GitHub.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from telemetry.edge import markdown
from telemetry.edge.files import write_atomic, write_json
from telemetry.edge.repo import REPORTS, Repo
from telemetry.edge.text import clean, redact

if TYPE_CHECKING:
    from eval.ledger.provenance import GitState
    from meta.patches.recommendations import Recommendation, SetAside
    from meta.patches.trial import Attempt
    from meta.patches.writer import Written

REPORT = REPORTS / "sandbox_report.json"
BODY = REPORT.with_suffix(".md")
SCHEMA = Path(__file__).parents[1] / "sandbox_report.schema.json"
VERSION = 1
TEXT_CHARS, PATCH_CHARS = 2_000, 30_000  # kept of any foreign text, and of a patch
SHOWN_CASES = 20


@dataclass(frozen=True, slots=True)
class Tried:
    """One recommendation, what was written for it, and what became of that."""

    recommendation: Recommendation
    attempt: Attempt
    written: Written | None


@dataclass(frozen=True, slots=True)
class Done:
    """What a run of the sandbox came to."""

    tried: tuple[Tried, ...]
    set_aside: tuple[SetAside, ...]
    stopped: str  # why it ended early, if it did
    suites: Mapping[str, str]  # path -> SHA-256 of those that graded


def write(repo: Repo, done: Done, git_state: GitState, *, time_limit_s: float, seed: int) -> dict[str, Any]:
    """Leave the patch that passed in the tree, with its report and its decision; returns the report."""
    report = made(done, git_state, time_limit_s=time_limit_s, seed=seed)
    _check(report)
    winner = next((one for one in done.tried if one.attempt.verdict == "passed"), None)
    if winner is not None:
        from meta.publish import judge

        root = repo.root.resolve()
        judge.apply_patch(judge.check_patch(winner.attempt.patch.encode(), "sandbox", root), root)
    write_json(repo / REPORT, report)
    write_atomic(repo / BODY, body(report))
    if winner is not None:
        _decide(repo, winner, report)
    return report


def made(done: Done, git_state: GitState, *, time_limit_s: float, seed: int) -> dict[str, Any]:
    """The record as data."""
    from eval.ledger.provenance import Seen, replay_metadata
    from meta.patches import confine

    answers = [one.written for one in done.tried if one.written is not None]
    models = tuple(sorted({answer.model for answer in answers if answer.model}))
    providers = tuple(sorted({answer.provider for answer in answers if answer.provider}))
    seen = Seen((), models, providers, (), ())
    walls = confine.probe()
    return {
        "version": VERSION,
        "patched": any(one.attempt.verdict == "passed" for one in done.tried),
        "stopped": _text(done.stopped) or None,
        "time_limit_s": time_limit_s,
        "walls": {**asdict(walls), "told": walls.told},
        "evals_by": "offline",
        "attempts": [_attempt(one) for one in done.tried],
        "set_aside": [
            {**_recommended(one.recommendation), "reason": _text(one.why)} for one in done.set_aside[:100]
        ],
        "metadata": replay_metadata(git_state, suites=done.suites, prompts={}, seen=seen, seed=seed),
    }


def _attempt(one: Tried) -> dict[str, Any]:
    attempt = one.attempt
    return {
        **_recommended(one.recommendation),
        "verdict": attempt.verdict,
        "reasons": [_text(reason) for reason in attempt.reasons[:10]],
        "said": None if one.written is None else _text(one.written.why),
        "model": None if one.written is None else one.written.model,
        "provider": None if one.written is None else one.written.provider,
        "patch": _clean(attempt.patch)[:PATCH_CHARS],
        "patch_truncated": len(attempt.patch) > PATCH_CHARS,
        "patch_sha256": hashlib.sha256(attempt.patch.encode(errors="replace")).hexdigest()
        if attempt.patch
        else None,
        "files": [_text(change.path)[:200] for change in attempt.changes[:20]],
        "metrics": None if attempt.metrics is None else asdict(attempt.metrics),
        "checks": [{**asdict(check), "said": _clean(check.said)[-TEXT_CHARS:]} for check in attempt.checks],
        "scores": None if attempt.scores is None else _plain(asdict(attempt.scores)),
    }


def _recommended(one: Recommendation) -> dict[str, Any]:
    return {
        "agent": _text(one.agent)[:100],
        "change": _text(one.change),
        "why": _text(one.why),
        "priority": one.priority,
        "origin": _text(one.origin),
    }


def sentence(report: Mapping[str, Any]) -> str:
    """The finding in one line."""
    for row in report["attempts"]:
        if row["verdict"] == "passed":
            return f"A patch for {row['agent']} passed: {_effect(row['scores'])}; it is left in the tree."
    if report["stopped"]:
        return "Stopped early; no patch is left in the tree."
    if not report["attempts"]:
        return "No recommendation asks for code: nothing was tried."
    return f"No patch held: {len(report['attempts'])} tried, each with its reason."


def body(report: Mapping[str, Any]) -> str:
    """The pull request's text: enough to decide in the first block, the rest folded."""
    passed = next((row for row in report["attempts"] if row["verdict"] == "passed"), None)
    parts = [f"**{sentence(report)}**"] if passed is None else list(_passed(passed, report))
    others = [row for row in report["attempts"] if row is not passed]
    if others:
        parts.append("### Tried and not kept\n\n" + "\n".join(map(_refused, others)))
    if report["set_aside"]:
        lines = "\n".join(map(_set_aside, report["set_aside"][:30]))
        parts.append(f"<details><summary>Not tried</summary>\n\n{lines}\n\n</details>")
    seed, limit = report["metadata"]["seed"], report["time_limit_s"]
    parts.append(
        "<details><summary>How this was decided, and how to reproduce it</summary>\n\n"
        "The patch was guarded (only the code of that agent, no protected path, no new way to files, processes or the "
        "network), then linted, evaluated and tested in throw-away worktrees with a clean environment and "
        f"{limit:g} s for each command. Walls: {markdown.cell(report['walls']['told'])}. The evals "
        "ran with the offline model, because patched code gets neither key nor network; what it answered was graded "
        "outside. It is kept if every check passes and the score is not lower, on all and on holdout cases.\n\n"
        f"`python -m meta.sandbox --seed {seed} --time-limit {limit:g}` at commit "
        f"`{str(report['metadata']['git_commit'])[:12]}`\n\n</details>"
    )
    return "\n\n".join(parts) + "\n"


def _passed(row: Mapping[str, Any], report: Mapping[str, Any]) -> Iterator[str]:
    metrics, scores, file = row["metrics"], row["scores"], row["files"][0]
    lines = row["patch"].splitlines()
    added = sum(line.startswith("+") and not line.startswith("+++") for line in lines)
    deleted = sum(line.startswith("-") and not line.startswith("---") for line in lines)
    yield (
        f"> **Merge this patch to `{row['agent']}`?** {_effect(scores)}; guard, lint and tests passed.\n"
        f"> **If you merge:** `{file}` changes by +{added} -{deleted} lines. "
        "**To undo:** revert this commit; nothing else changes.\n"
        f"> Written by {markdown.code(str(row['model']))} ({markdown.cell(str(row['provider']))}), "
        f"recommended by {markdown.cell(row['origin'] or 'unknown')}. A draft: read the code before you merge."
    )
    yield (
        f"**What was recommended** ({row['priority']})\n\n{markdown.quote(row['change'], 1500)}\n>\n"
        f"{markdown.quote(row['why'], 1500)}"
    )
    yield f"**What the writer says**\n\n{markdown.quote(row['said'] or '', 1000)}"
    yield "**The patch**\n\n" + markdown.fenced(row["patch"], "diff", 20_000)
    yield "| cases | n | before | after | difference |\n|---|---|---|---|---|\n" + "\n".join(
        _score_rows(scores)
    )
    yield "| check | outcome | seconds |\n|---|---|---|\n" + "\n".join(
        f"| {check['name']} | {check['outcome']} | {check['seconds']:g} |" for check in row["checks"]
    )
    yield (
        "| minimal diff | |\n|---|---|\n"
        f"| syntax kept (`ast_similarity`) | {metrics['ast_similarity']:.3f} |\n"
        f"| files (`file_touch_count`) | {metrics['file_touch_count']} |\n"
        f"| lines changed (`line_change_ratio`) | {metrics['line_change_ratio']:.3f} |\n"
        f"| scaffolding (`scaffolding_penalty`) | {metrics['scaffolding_penalty']:.3f} |\n"
        f"| `reward_multiplier` | **{metrics['reward_multiplier']:.3f}** |"
    )
    for name, title in (("newly_right", "newly right"), ("newly_wrong", "newly wrong")):
        if scores[name]:
            cases = ", ".join(markdown.code(case) for case in scores[name][:SHOWN_CASES])
            more = f" and {len(scores[name]) - SHOWN_CASES} more" if len(scores[name]) > SHOWN_CASES else ""
            yield f"<details><summary>{len(scores[name])} cases {title}</summary>\n\n{cases}{more}\n\n</details>"


def _refused(row: Mapping[str, Any]) -> str:
    why = "; ".join(markdown.cell(reason, 400) for reason in row["reasons"]) or "no reason given"
    return (
        f"- {markdown.code(row['agent'])} **{row['verdict']}**: {markdown.cell(row['change'], 200)} -- {why}"
    )


def _set_aside(row: Mapping[str, Any]) -> str:
    change, why = markdown.cell(row["change"], 160), markdown.cell(row["reason"], 300)
    return f"- {markdown.code(row['agent'])}: {change} -- {why}"


def _score_rows(scores: Mapping[str, Any]) -> Iterator[str]:
    yield _score_row("all", scores["cases"], scores["before"], scores["after"])
    if scores["holdout_before"] is not None:
        yield _score_row("holdout", scores["holdout"], scores["holdout_before"], scores["holdout_after"])


def _score_row(name: str, count: int, before: float, after: float) -> str:
    return f"| {name} | {count} | {100 * before:.1f} % | {100 * after:.1f} % | **{100 * (after - before):+.2f}** |"


def _effect(scores: Mapping[str, Any]) -> str:
    unseen = scores["holdout_before"] is not None
    before, after = (
        (scores["holdout_before"], scores["holdout_after"]) if unseen else (scores["before"], scores["after"])
    )
    where = f"{scores['holdout']} unseen cases" if unseen else f"{scores['cases']} cases"
    if after == before:
        return f"no difference on {where}"
    return f"{100 * (after - before):+.2f} points on {where}"


def _decide(repo: Repo, winner: Tried, report: Mapping[str, Any]) -> None:
    from eval.ledger.decisions import Decision, write_decision

    [change] = winner.attempt.changes
    row = next(row for row in report["attempts"] if row["verdict"] == "passed")
    scores = row["scores"]
    write_decision(
        repo,
        Decision(
            decision="propose",
            kind="sandbox",
            subject=winner.recommendation.agent,
            date=report["metadata"]["generated_at"][:10],
            before_sha256=_sha256(change.before),
            after_sha256=_sha256(change.after),
            report_sha256=_sha256((repo / REPORT).read_bytes()),
            verdict={
                "verdict": row["verdict"],
                "effect": round(scores["after"] - scores["before"], 6),
                "cases_used": scores["cases"],
                **row["metrics"],
            },
            metadata=report["metadata"],
        ),
    )


def _check(report: Mapping[str, Any]) -> None:
    from agents.model import schema as schema_check

    problems = schema_check.problems(schema_check.read_schema(SCHEMA), report)
    if problems:
        raise AssertionError(f"{REPORT}: {'; '.join(problems)}")


def _sha256(data: bytes | None) -> str | None:
    return None if data is None else hashlib.sha256(data).hexdigest()


def _clean(text: str) -> str:
    return redact(clean(text))


def _text(text: str) -> str:
    return _clean(text)[:TEXT_CHARS]


def _plain(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in row.items()}
