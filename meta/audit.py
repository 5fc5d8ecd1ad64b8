"""Is every champion and every disabled agent justified? Checks git history against `meta/decisions/`.

A prompt is explained by a decision to promote its text, or by its lineage: where it started, or a hand edit that was
recorded; one that has no variants was never contested. A disabled agent is explained by a decision to disable it. A
decision only counts if what it claims holds in the commit that brought it: the hashes of what changed and of the
report, and a verdict that allows it.
Exit code 1 when something is unexplained. `--log` tells the history of decisions instead.
"""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from telemetry.edge import cli
from telemetry.edge.repo import Repo

if TYPE_CHECKING:
    from eval.ledger.decisions import Decision

REPORTS = {
    "ab_champion": "meta/reports/ab_test_report.json",
    "retirement": "meta/reports/retirement_report.json",
}
MANIFEST = "agents/manifest.yaml"


@dataclass(frozen=True, slots=True)
class Finding:
    """One champion, disabled agent or decision, and what explains it."""

    subject: str
    explained: bool
    why: str


@dataclass(frozen=True, slots=True)
class Recorded:
    """A decision and the commit that brought it; None while it is not committed."""

    path: str
    decision: Decision
    commit: str | None


class History:
    """Files as they were in a commit, or as they are in the tree for commit None."""

    def __init__(self, root: Path) -> None:
        from telemetry.edge.git import GitRefused, git

        self._root = root
        self._git = git
        self._refused = GitRefused
        self.added = dict(self._additions())

    def sha256(self, commit: str | None, path: str) -> str | None:
        """The hash of the file then, or None if it was not there."""
        try:
            data = (
                (self._root / path).read_bytes()
                if commit is None
                else self._git(self._root, "show", f"{commit}:{path}")
            )
        except (self._refused, OSError):
            return None
        return hashlib.sha256(data).hexdigest()

    def parent(self, commit: str | None) -> str:
        """What the commit stands on; the tree stands on HEAD."""
        return "HEAD" if commit is None else f"{commit}^"

    def _additions(self) -> Iterable[tuple[str, str]]:
        """(decision file, the commit that brought it)."""
        try:
            told = self._git(
                self._root, "log", "--diff-filter=A", "--format=%x00%H", "--name-only", "--", "meta/decisions"
            )
        except self._refused:  # no commit yet
            return
        for block in told.decode().split("\0")[1:]:
            commit, *paths = block.split()
            yield from ((path, commit) for path in paths)


def recorded(repo: Repo, history: History) -> list[Recorded]:
    """Every decision of the checkout with the commit that brought it, oldest first."""
    from eval.ledger.decisions import decisions

    return [Recorded(str(path), one, history.added.get(str(path))) for path, one in decisions(repo)]


def faults(record: Recorded, history: History) -> list[str]:
    """What a decision claims that its commit does not bear out; empty if it holds."""
    decision, commit = record.decision, record.commit
    found = []
    report = REPORTS.get(decision.kind)
    if report and decision.report_sha256 != history.sha256(commit, report):
        found.append(f"{report} is not the report it was based on")
    if decision.decision == "promote":
        prompt = f"agents/prompts/{decision.subject}.md"
        if decision.after_sha256 != history.sha256(commit, prompt):
            found.append(f"{prompt} is not the text that was promoted")
        if decision.before_sha256 != history.sha256(history.parent(commit), prompt):
            found.append(f"{prompt} was not the champion that was tested against")
        if decision.verdict.get("verdict") != "promote":
            found.append(f"its verdict is {decision.verdict.get('verdict')!r}, not 'promote'")
    if decision.decision == "disable":
        if decision.after_sha256 != history.sha256(commit, MANIFEST):
            found.append(f"{MANIFEST} is not what it became")
        bound, floor = decision.verdict.get("upper_bound"), decision.verdict.get("reward_floor")
        if bound is None or floor is None or not bound < floor:
            found.append("its verdict does not put the agent below the floor")
    return found


def audit(repo: Repo) -> list[Finding]:
    """Every champion, every disabled agent and every decision, explained or not."""
    from agents.manifest import load_manifest
    from agents.texts.variants import Variants, sha256

    manifest = load_manifest(repo)
    history = History(repo.root)
    records = recorded(repo, history)
    broken = {record.path: faults(record, history) for record in records}
    sound = [record for record in records if not broken[record.path]]
    findings = [
        Finding(record.path, False, "; ".join(broken[record.path]))
        for record in records
        if broken[record.path]
    ]
    for prompt in sorted(manifest.prompts):
        text, texts = (repo / prompt).read_text(encoding="utf-8"), Variants(repo, prompt)
        if not (repo / texts.folder).is_dir():
            findings.append(Finding(prompt, True, "never contested: it has no variants"))
            continue
        origin = texts.origin(sha256(text))
        findings.append(_champion(prompt, sha256(text), sound, asdict(origin) if origin else None))
    for spec in manifest.agents:
        if not spec.enabled:
            findings.append(_disabled(spec.name, sound))
    return findings


def _champion(
    prompt: str, sha256: str, sound: Iterable[Recorded], origin: Mapping[str, Any] | None
) -> Finding:
    for record in reversed(list(sound)):
        if record.decision.decision == "promote" and record.decision.after_sha256 == sha256:
            return Finding(prompt, True, f"promoted by {record.path}")
    if origin and origin["source"] in ("live", "shipped", "hand"):
        kind = "hand edit" if origin["source"] == "hand" else "the text it started with"
        return Finding(prompt, True, f"{kind}, recorded {origin['date']}")
    return Finding(
        prompt,
        False,
        "neither a decision nor its lineage explains this text; if it was edited by hand, record it: "
        f"python -m meta.prompt_variant_manager ensure {prompt} --take live",
    )


def _disabled(agent: str, sound: Iterable[Recorded]) -> Finding:
    for record in reversed(list(sound)):
        if record.decision.decision == "disable" and record.decision.subject == agent:
            return Finding(agent, True, f"disabled by {record.path}")
    return Finding(agent, False, f"{MANIFEST} has enabled: false, but no decision says so")


def log(repo: Repo, history: History) -> list[dict[str, Any]]:
    """The decisions as rows: when, what, effect, evidence, commit."""
    rows = []
    for record in recorded(repo, history):
        decision, verdict = record.decision, record.decision.verdict
        rows.append(
            {
                "when": decision.date,
                "what": f"{decision.decision} {decision.subject}",
                "effect": _effect(verdict),
                "evidence": _evidence(verdict),
                "commit": record.commit[:10] if record.commit else "not committed",
                "holds": not faults(record, history),
            }
        )
    return rows


def _effect(verdict: Mapping[str, Any]) -> str:
    effect, low, high = (verdict.get(name) for name in ("effect", "ci_low", "ci_high"))
    if isinstance(effect, int | float):
        interval = (
            f" ({100 * low:+.1f} .. {100 * high:+.1f})"
            if isinstance(low, int | float) and isinstance(high, int | float)
            else ""
        )
        return f"{100 * effect:+.1f} points{interval}"
    reward = verdict.get("rolling_avg_reward")
    return f"mean reward {reward:+.3f}" if isinstance(reward, int | float) else ""


def _evidence(verdict: Mapping[str, Any]) -> str:
    if isinstance(verdict.get("e_value"), int | float):
        return f"{verdict['e_value']:.0f}:1 on {verdict.get('cases_used')} cases"
    if isinstance(verdict.get("upper_bound"), int | float):
        return f"upper bound {verdict['upper_bound']:+.3f} on {verdict.get('n')} runs"
    return ""


def parser() -> cli.Parser:
    """The command line."""
    parse = cli.Parser(__doc__)
    parse.add_argument("--log", action="store_true", help="print the history of decisions as a table")
    return parse


@cli.entry(parser)
def main(args: argparse.Namespace, repo: Repo) -> int:
    """Audit the checkout, or tell its history."""
    import json

    repo = Repo(repo.root.resolve())
    if args.log:
        rows = log(repo, History(repo.root))
        print(json.dumps(rows)) if args.json else _print_log(rows)
        return cli.OK
    findings = audit(repo)
    unexplained = [finding for finding in findings if not finding.explained]
    if args.json:
        print(json.dumps([asdict(finding) for finding in findings]))
    elif not args.quiet:
        for finding in findings:
            print(f"{'ok ' if finding.explained else 'BAD'}  {finding.subject}: {finding.why}")
        print(f"{len(findings) - len(unexplained)} explained, {len(unexplained)} unexplained.")
    return cli.FOUND if unexplained else cli.OK


def _print_log(rows: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    if not rows:
        print("No decision yet: meta/decisions/ is empty.")
        return
    table = Table(box=None, header_style="bold")
    for name in rows[0]:
        table.add_column(name)
    for row in rows:
        table.add_row(
            *("yes" if value is True else "NO" if value is False else str(value) for value in row.values())
        )
    Console().print(table)


if __name__ == "__main__":
    raise SystemExit(main())
