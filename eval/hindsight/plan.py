"""Which promotions are tested again, against which text, on which cases: those that came in after the promotion.

A promotion is worth testing while its text is live, for 90 days, once enough cases have come in, and again when there
are half as many more: looking every night until it fails would demote everything in the end.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from agents.manifest import Manifest
from agents.texts.prompt_set import PromptSet
from agents.texts.variants import CHAMPION, Variant, Variants
from eval.ab.memory import pair_of
from eval.ab.plan import Unit
from eval.grading.suite import BY_ANSWER, Case, Suites
from eval.hindsight.record import Settings, Waiting
from eval.ledger.decisions import Decision, decisions
from eval.ledger.provenance import history
from eval.ledger.refusals import refusals
from telemetry.edge.errors import BadInput
from telemetry.edge.files import Repo
from telemetry.edge.frozen import frozen
from telemetry.edge.git import GitRefused, blobs, git
from telemetry.edge.records import load_json

AGAIN = 1.5  # times as many cases as it was last tested on
VERSIONS = 500  # of a prompt's history, searched for the text that was replaced


@frozen
class Promotion:
    """One promotion to test again; `now` and `then` are the two texts, in memory."""

    prompt: str
    path: str  # of the decision
    decision: Decision
    live: Variant
    replaced: Variant
    pair: str
    units: tuple[Unit, ...]
    now: PromptSet
    then: PromptSet


@frozen
class Plan:
    """A whole back-test."""

    promotions: tuple[Promotion, ...]
    waiting: tuple[Waiting, ...]
    suites: Mapping[str, str]
    settings: Settings


def make_plan(
    repo: Repo,
    manifest: Manifest,
    settings: Settings,
    model: Mapping[str, Any],
    today: date,
    *,
    prompts: Sequence[str] = (),
    force: bool = False,
) -> Plan:
    """What is due, and what waits for what; `force`: also what was tested on these cases before."""
    for prompt in prompts:
        if prompt not in manifest.prompts:
            raise BadInput(f"{prompt}: affects no agent of agents/manifest.yaml")
    now, suites = PromptSet(repo), Suites(repo)
    seen = {} if force else _tested(repo)
    no_to = [] if force else [one for one in refusals(repo) if one.kind == "backtest"]
    refused = {(one.subject, one.sha256, one.champion_sha256): one for one in no_to}

    def looked_at(prompt: str, path: str, decision: Decision) -> Promotion | str:
        """What there is to test again; or why it waits."""
        texts = Variants(repo, prompt)
        champion = texts.champion()
        if champion.sha256 != decision.after_sha256:
            return "its text is no longer live"
        replaced = _text(texts, str(decision.before_sha256))
        if replaced is None:
            return "the text it replaced is in none of the variants, nor in this checkout's history"
        if no := refused.get((prompt, replaced.sha256, champion.sha256)):
            return no.told
        units = []
        for spec in manifest.enabled():
            if spec.name in manifest.prompts[prompt] and spec.eval_suite:
                suite = suites.load(spec.eval_suite)
                known = _ids_on(repo, suite.path, decision.date)
                units += [Unit(spec, case) for case in suite.cases if _since(case, decision.date, known)]
        pair = pair_of(champion.sha256, replaced.sha256, (), model)
        needed = max(settings.least, AGAIN * seen.get(pair, 0))
        if len(units) < needed:
            return f"{len(units)} cases have come in since {decision.date}, {needed:.0f} are needed"
        live = Variant(prompt, str(decision.verdict.get("variant") or CHAMPION), champion.text)
        then = now.with_overrides({prompt: replaced.text})
        return Promotion(prompt, path, decision, live, replaced, pair, tuple(units), now, then)

    found = {
        (prompt, path): looked_at(prompt, path, decision)
        for prompt, (path, decision) in sorted(_standing(repo, settings, today).items())
        if prompt in manifest.prompts and (not prompts or prompt in prompts)
    }
    due = tuple(one for one in found.values() if isinstance(one, Promotion))
    waiting = tuple(Waiting(*of, why) for of, why in found.items() if isinstance(why, str))
    hashes = {path: suite.sha256 for path, suite in sorted(suites.loaded.items())}
    return Plan(due, waiting, hashes, settings)


def _standing(repo: Repo, settings: Settings, today: date) -> dict[str, tuple[str, Decision]]:
    """By prompt, the last promotion of a text, unless it was taken back or is too long ago."""
    oldest = str(today - timedelta(days=settings.days))
    last: dict[str, tuple[str, Decision]] = {}
    for path, one in decisions(repo):
        prompt = str(one.verdict.get("prompt", ""))
        if one.decision == "demote":
            last.pop(prompt, None)
        elif prompt and one.decision == "promote" and one.before_sha256 not in (None, one.after_sha256):
            last[prompt] = (str(path), one)
    return {prompt: found for prompt, found in last.items() if found[1].date >= oldest}


def _tested(repo: Repo) -> dict[str, int]:
    """By pair of texts and model, on how many cases it was tested last."""
    rows = (row for line in history(repo, "backtest") for row in line.listed("tests"))
    return {str(row.get("pair")): int(row.get("cases_used") or 0) for row in rows}


def _text(texts: Variants, sha256: str) -> Variant | None:
    """The text of that hash: from the variants, else from the history of the prompt."""
    for variant in texts.every()[0]:
        if variant.sha256 == sha256:
            return variant
    for text in _versions(texts.repo.root, str(texts.live)):
        if hashlib.sha256(text).hexdigest() == sha256:
            return Variant(texts.prompt, "earlier", text.decode())
    return None


def _versions(root: Path, path: str) -> Iterator[bytes]:
    """A file as it stood in each commit that changed it, the newest first."""
    try:
        commits = git(root, "log", f"-n{VERSIONS}", "--format=%H", "--", path).decode().split()
    except GitRefused:  # no repository, or no commit
        return
    names = [f"{commit}{before}:{path}" for commit in commits for before in ("", "^")]
    yield from filter(None, blobs(root, names))


def _ids_on(repo: Repo, suite: Path, day: str) -> set[str] | None:
    """The ids that a suite held at the end of that day, by git; None if that cannot be told."""
    try:
        found = git(repo.root, "rev-list", "-1", f"--before={day}T23:59:59Z", "HEAD").decode().strip()
    except GitRefused:
        return None
    if not found:
        return None
    [data] = blobs(repo.root, [f"{found}:{suite}"])
    try:
        return {str(load_json(line)["id"]) for line in (data or b"").splitlines()}
    except (ValueError, KeyError, TypeError):  # a commit may hold anything
        return None


def _since(case: Case, day: str, known: set[str] | None) -> bool:
    """Whether a case came in after that day: as it says, else as git says; unknown is no.

    One that was picked because of what the live text said would speak against it: it is no test.
    """
    if BY_ANSWER & set(case.tags):
        return False
    if case.since:
        return case.since > day
    return known is not None and case.id not in known
