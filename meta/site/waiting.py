"""What waits for a person: the open changes, most consequential first.

An open change is a branch of one of the kinds (meta/publish/kinds.yaml), here or on the remote, whose change the
checkout does not have yet. What it would do is read off its files, how sure it is off its report.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import PurePosixPath
from typing import Any

from agents.model.schema import problems, read_schema
from agents.texts.variants import name_of
from eval.ledger.report import Form
from meta.publish.kinds import KINDS, Kind
from telemetry.edge.files import MANIFEST, PROMPTS, SUITES, VARIANTS, Repo
from telemetry.edge.frozen import frozen
from telemetry.edge.git import GitRefused, git
from telemetry.edge.records import is_number, load_json, made

# What a change does once merged, by what it touches; the first that fits, most consequential first.
EFFECTS = (
    (
        "changes a live prompt",
        lambda path: path.startswith(f"{PROMPTS}/") and not path.startswith(f"{VARIANTS}/"),
    ),
    ("changes the manifest", lambda path: path == str(MANIFEST)),
    ("changes code", lambda path: path.endswith(".py")),
    ("adds challengers, nothing goes live", lambda path: path.startswith(f"{VARIANTS}/")),
    ("changes eval cases, nothing goes live", lambda path: path.startswith(f"{SUITES}/")),
)
REPORT_ONLY = "report only"


@frozen
class Gain:
    """What one promotion brings, in points of score as shares of one, with its interval as far as it is known."""

    name: str
    effect: float
    low: float | None
    high: float | None


@frozen
class Change:
    """One open change."""

    kind: str
    branch: str
    headline: str
    since: str  # the day of its commit
    effect: str
    rank: int  # of the effect: 0 first
    draft: bool
    gains: tuple[Gain, ...] = ()  # of what it promotes
    finding: str = ""  # what else its report found, in one line


def waiting(repo: Repo) -> list[Change]:
    """The open changes, most consequential first; none where there is no repository."""
    try:
        tips = _tips(repo)
        found = [
            change
            for kind in {one.branch: one for one in KINDS.values() if one.branch}.values()
            for change in _of(repo, kind, tips)
        ]
    except (GitRefused, OSError):
        return []
    return sorted(found, key=lambda change: (change.rank, change.branch))


def _tips(repo: Repo) -> dict[str, list[str]]:
    """Commit, day and subject of every branch, here and on the remote, by its full name."""
    told = "--format=%(refname)%00%(objectname)%00%(committerdate:short)%00%(subject)"
    lines = git(repo.root, "for-each-ref", told, "refs/heads", "refs/remotes/origin").decode(errors="replace")
    return {name: about for name, *about in (line.split("\0", 3) for line in lines.splitlines())}


def _of(repo: Repo, kind: Kind, tips: Mapping[str, list[str]]) -> Iterator[Change]:
    for ref in (f"refs/heads/{kind.branch}", f"refs/remotes/origin/{kind.branch}"):
        if ref not in tips:
            continue
        commit, since, headline = tips[ref]
        base = git(repo.root, "merge-base", "HEAD", commit).decode().strip()
        listed = git(repo.root, "diff", "--name-only", "--no-renames", base, commit).decode().splitlines()
        behind = (
            git(repo.root, "diff", "--name-only", "--no-renames", "HEAD", commit, "--", *listed)
            if listed
            else b""
        )
        if not behind:  # merged, squashed or rebased: the checkout has it
            continue
        rank, effect = next(
            ((place, told) for place, (told, fits) in enumerate(EFFECTS) if any(map(fits, listed))),
            (len(EFFECTS), REPORT_ONLY),
        )
        report = _report(repo, kind, commit)
        gains = tuple(_gains(report))
        named = ", ".join(gain.name for gain in gains)
        title = f"Promote {named}" if gains else headline.removeprefix("Meta: ").partition(" (")[0]
        found = "" if gains else _finding(kind, report)
        yield Change(kind.name, kind.branch, title, since, effect, rank, kind.draft, gains, found)
        return


def _report(repo: Repo, kind: Kind, commit: str) -> Mapping[str, Any]:
    try:
        value = load_json(git(repo.root, "cat-file", "blob", f"{commit}:{kind.report}.json"))
    except (GitRefused, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _finding(kind: Kind, report: Mapping[str, Any]) -> str:
    """The sentence that its script told, from a report that is one; empty where there is no such sentence."""
    module = import_module(kind.form.partition(":")[0])
    sentence, form = getattr(module, "sentence", None), getattr(module, "FORM", None)
    if sentence is None or not isinstance(form, Form) or problems(read_schema(form.schema), report):
        return ""
    return str(sentence(made(form.record, dict(report))))


def _gains(report: Mapping[str, Any]) -> Iterator[Gain]:
    """What a report promotes; a report is read as far as it is one."""
    for test in report.get("tests") or ():
        for arm in (test.get("arms") or ()) if isinstance(test, dict) else ():
            if isinstance(arm, dict) and arm.get("promoted") and _number(arm.get("effect")) is not None:
                letter = name_of(str(arm.get("variant") or ""), str(arm.get("sha256") or "")).strip()
                name = f"{PurePosixPath(str(test.get('prompt') or test.get('model') or '?')).stem} {letter}".strip()
                yield Gain(
                    name, float(arm["effect"]), _number(arm.get("ci_low")), _number(arm.get("ci_high"))
                )


def _number(value: object) -> float | None:
    return float(value) if is_number(value) else None
