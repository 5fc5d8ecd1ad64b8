"""Is every champion and every disabled agent justified? Checks git history against `meta/decisions/`.

A prompt is explained by a decision to promote its text, or to demote the one after it, or by its lineage: where it
started, or a hand edit that was recorded; one that has no variants was never contested. A disabled agent is explained
by a decision to disable it. Anybody may name a model in the manifest; where a decision moved an agent to it, that is
told. A decision only counts if what it claims holds in a commit that brought it, whether merged, squashed or rebased:
the hashes of what changed and of the report, and a verdict that allows it. Where one commit brings several nights of
a kind, squashed together, each has to lead to the next, and the report is that of one of them. One that was reverted is
no decision any more. Exit code 1 when something is unexplained, 2 for a shallow history: it cannot be audited. `--log`
tells the history of decisions instead, and of comparisons that kept the champion (`eval/history.jsonl`).
"""

from __future__ import annotations

import argparse
import hashlib
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from telemetry.edge import cli
from telemetry.edge.errors import BadInput
from telemetry.edge.files import DECISIONS, MANIFEST, PROMPTS, REPORTS, Repo
from telemetry.edge.frozen import frozen

if TYPE_CHECKING:
    from agents.texts.variants import Origin
    from eval.ledger.decisions import Decision
    from telemetry.edge.git import Objects


_REPORTS = {
    "ab_champion": REPORTS / "ab_test_report.json",
    "ab_model": REPORTS / "model_test_report.json",
    "backtest": REPORTS / "backtest_report.json",
    "retirement": REPORTS / "retirement_report.json",
    "revival": REPORTS / "revival_report.json",
}


@frozen
class Finding:
    """One champion, disabled agent or decision, and what explains it."""

    subject: str
    explained: bool
    why: str


@frozen
class Recorded:
    """A decision, the commit that brought it (None while it is not committed), and what that does not bear out."""

    path: str
    decision: Decision
    commit: str | None
    faults: tuple[str, ...]


@frozen
class State:
    """The checkout as a commit left it, or the tree as it is for commit None."""

    repo: Repo
    objects: Objects
    commit: str | None

    def read(self, path: str | Path) -> bytes | None:
        """The file, None if it was not there."""
        if self.commit is not None:
            return self.objects(f"{self.commit}:{path}")
        return (self.repo / path).read_bytes() if (self.repo / path).is_file() else None

    def sha256(self, path: str | Path) -> str | None:
        """The hash of the file, None if it was not there."""
        data = self.read(path)
        return None if data is None else hashlib.sha256(data).hexdigest()

    def before(self) -> State:
        """What it stands on; the tree stands on HEAD."""
        return replace(self, commit="HEAD" if self.commit is None else f"{self.commit}^")

    def manifest(self) -> dict[str, Any]:
        """The manifest as plain data, as far as it is one: a commit may hold anything."""
        from telemetry.edge.records import listed, load_yaml

        try:
            loaded = load_yaml(self.read(MANIFEST) or b"{}")
        except BadInput:
            return {}
        found = loaded if isinstance(loaded, dict) else {}
        usual = found.get("defaults")
        agents = [row for row in listed(found.get("agents")) if isinstance(row.get("name"), str)]
        return {**found, "agents": agents, "defaults": usual if isinstance(usual, dict) else {}}

    def models(self, agents: Sequence[str]) -> set[Any]:
        """Which models the manifest named for these agents; None: left to the environment."""
        from agents.manifest.edit import models

        named = models(self.manifest())
        return {named.get(agent) for agent in agents}

    def enabled(self, agent: str) -> bool | None:
        """Whether the agent was switched on, None if it was not there."""
        manifest = self.manifest()
        usual = manifest.get("defaults", {}).get("enabled", True)
        found = [row.get("enabled", usual) for row in manifest.get("agents", ()) if row["name"] == agent]
        return found[0] if found else None


def recorded(repo: Repo) -> list[Recorded]:
    """Every decision of the checkout with the commit that bears it out best, oldest first."""
    from eval.ledger.decisions import decisions
    from telemetry.edge.git import Objects

    brought = _additions(repo.root)
    found = [(path, one, brought.get(str(path), [None])) for path, one in decisions(repo)]
    likely = (
        f"{state}:{name}"
        for path, one, commits in found
        for commit in filter(None, commits)
        for state in (commit, f"{commit}^")
        for name in (path, MANIFEST, _prompt(one), *_REPORTS.values())
    )
    objects = Objects(repo.root, likely)
    together: dict[str | None, list[Decision]] = defaultdict(list)
    for _, one, commits in found:
        for commit in commits:
            together[commit].append(one)

    def told(path: Path, one: Decision, commit: str | None) -> Recorded:
        beside = [other for other in together[commit] if other is not one and other.kind == one.kind]
        faults = _faults(path, one, beside, State(repo, objects, commit))
        return Recorded(str(path), one, commit, tuple(faults))

    each = ([told(path, one, commit) for commit in commits] for path, one, commits in found)
    return [min(records, key=lambda record: len(record.faults)) for records in each]


def _additions(root: Path) -> dict[str, list[str | None]]:
    """By decision file, the commits that brought it: the one that made it, and the merge it came with."""
    from telemetry.edge.git import GitRefused, git

    added = ("--diff-filter=A", "--diff-merges=first-parent", "--no-renames")
    try:
        told = git(root, "log", "--reverse", *added, "--format=%x00%H", "--name-only", "--", str(DECISIONS))
    except GitRefused:  # no commit yet
        return {}
    brought: dict[str, list[str | None]] = defaultdict(list)
    for block in told.decode().split("\0")[1:]:
        commit, *paths = block.split()
        for path in paths:
            brought[path].append(commit)
    return brought


def _prompt(decision: Decision) -> Path:
    return Path(str(decision.verdict.get("prompt") or PROMPTS / f"{decision.subject}.md"))


def _faults(path: Path, decision: Decision, beside: Sequence[Decision], then: State) -> Iterator[str]:
    """What a decision claims that the commit which brought it, and others `beside` it, does not bear out."""
    if then.sha256(path) != replace(then, commit=None).sha256(path):
        yield "it was rewritten later"
    report = _REPORTS.get(decision.kind)
    kept = {one.report_sha256 for one in (decision, *beside)}
    if report and then.sha256(report) not in kept:
        yield f"{report} is not the report it was based on"
    verdict = decision.verdict
    if decision.decision in ("promote", "demote") and verdict.get("verdict") != decision.decision:
        yield f"its verdict is {verdict.get('verdict')!r}, not {decision.decision!r}"
    if decision.kind == "ab_model":
        agents, model, earlier = (
            verdict.get("agents") or (),
            verdict.get("model"),
            verdict.get("model_before"),
        )
        if then.models(agents) != {model} and model not in _each(beside, "model_before"):
            yield f"{MANIFEST} did not move {', '.join(agents)} to {model} with it"
        if not then.before().models(agents) <= {None, earlier} and earlier not in _each(beside, "model"):
            yield f"{earlier} was not the model that was tested against"
    of_text = decision.kind != "ab_model" or "prompt" in verdict
    if decision.decision in ("promote", "demote") and of_text:
        prompt = _prompt(decision)
        made = "promoted" if decision.decision == "promote" else "restored"
        same = [one for one in beside if _prompt(one) == prompt]
        if decision.after_sha256 not in (then.sha256(prompt), *(one.before_sha256 for one in same)):
            yield f"{prompt} is not the text that was {made}"
        if decision.before_sha256 not in (then.before().sha256(prompt), *(one.after_sha256 for one in same)):
            yield f"{prompt} was not the champion that was tested"
    if decision.decision in ("disable", "revive"):
        # Not by the manifest's hash: a squash or a rebase brings together what several people changed in it.
        on = decision.decision == "revive"
        if then.enabled(decision.subject) is not on or then.before().enabled(decision.subject) is on:
            yield f"{MANIFEST} did not switch {decision.subject} {'on' if on else 'off'} with it"
        if not _allows(decision):
            yield f"its verdict does not put the agent {'above' if on else 'below'} the floor"


def _each(decisions: Sequence[Decision], name: str) -> set[Any]:
    return {one.verdict.get(name) for one in decisions}


def _allows(decision: Decision) -> bool:
    """Whether the verdict of a retirement or a revival bears it out; decisions of earlier rules by their bound."""
    verdict = decision.verdict
    floor, low, high = (verdict.get(name) for name in ("reward_floor", "lower_bound", "upper_bound"))
    if decision.decision == "revive":
        return low is not None and floor is not None and bool(low > floor)
    if (odds := verdict.get("odds")) is not None:
        return bool(odds >= verdict.get("convinced", math.inf))
    return high is not None and floor is not None and bool(high < floor)


def audit(repo: Repo) -> list[Finding]:
    """Every champion, every disabled agent and every decision, explained or not."""
    from agents.manifest import load_manifest
    from agents.texts.variants import Variants, sha256

    manifest = load_manifest(repo)
    records = recorded(repo)
    findings = [Finding(one.path, False, "; ".join(one.faults)) for one in records if one.faults]
    sound = [one for one in reversed(records) if not one.faults]
    for prompt in sorted(manifest.prompts):
        texts = Variants(repo, prompt)
        if not (repo / texts.folder).is_dir():
            findings.append(Finding(prompt, True, "never contested: it has no variants"))
            continue
        try:
            live = sha256((repo / prompt).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as problem:
            findings.append(Finding(prompt, False, f"cannot be read: {problem}"))
            continue
        findings.append(_champion(prompt, live, sound, texts.origin(live)))
    for spec in manifest.agents:
        if by := _moved(spec.name, spec.model, sound):
            findings.append(Finding(spec.name, True, f"asks {spec.model} by {by}"))
    return [*findings, *(_disabled(spec.name, sound) for spec in manifest.agents if not spec.enabled)]


def _moved(agent: str, model: str | None, sound: Sequence[Recorded]) -> str:
    """The decision by which an agent asks its model; a person may name any other."""
    for one in sound:
        verdict = one.decision.verdict
        if one.decision.kind == "ab_model" and agent in verdict["agents"] and verdict["model"] == model:
            return one.path
    return ""


def _champion(prompt: str, sha256: str, sound: Sequence[Recorded], origin: Origin | None) -> Finding:
    made = {"promote": "promoted", "demote": "restored"}
    decided = (one for one in sound if one.decision.decision in made and one.decision.after_sha256 == sha256)
    if by := next(decided, None):
        return Finding(prompt, True, f"{made[by.decision.decision]} by {by.path}")
    if origin and origin.source in ("live", "shipped", "hand"):
        kind = "hand edit" if origin.source == "hand" else "the text it started with"
        return Finding(prompt, True, f"{kind}, recorded {origin.date}")
    told = "neither a decision nor its lineage explains this text; if it was edited by hand, record it: "
    return Finding(prompt, False, f"{told}python -m meta.prompt_variant_manager ensure {prompt} --take live")


def _disabled(agent: str, sound: Sequence[Recorded]) -> Finding:
    own = (one for one in sound if one.decision.subject == agent)
    last = next((one for one in own if one.decision.decision in ("disable", "revive")), None)
    if last and last.decision.decision == "disable":  # a revival takes back whatever switched it off before
        return Finding(agent, True, f"disabled by {last.path}")
    return Finding(agent, False, f"{MANIFEST} has enabled: false, but no decision says so")


def log(repo: Repo) -> list[dict[str, Any]]:
    """What was decided, as rows, oldest first; comparisons that kept the champion are decisions too."""
    from meta.evidence import told

    decided = [
        {
            "when": one.decision.date,
            "what": _what(one.decision),
            "effect": told.effect(one.decision.verdict),
            "evidence": told.evidence(one.decision.verdict),
            "commit": one.commit[:10] if one.commit else "not committed",
            "holds": not one.faults,
        }
        for one in recorded(repo)
    ]
    return sorted([*told.kept(repo), *decided], key=lambda row: str(row["when"]))


def _what(decision: Decision) -> str:
    from meta.evidence.told import challenger

    if decision.kind == "ab_model":
        found = decision.verdict
        return f"move {', '.join(found.get('agents') or ())} from {found.get('model_before')} to {found.get('model')}"
    said = f"{decision.decision} {decision.subject}"
    named = "variant" in decision.verdict
    return f"{said} {challenger(decision.verdict, decision.after_sha256)}" if named else said


def parser() -> cli.Parser:
    parse = cli.Parser(__doc__)
    parse.add_argument("--log", action="store_true", help="print the history of decisions")
    return parse


@cli.entry(parser)
def main(args: argparse.Namespace, repo: Repo) -> int:
    _whole(repo)
    if args.log:
        rows = log(repo)
        lines = [line for row in rows for line in _lines(row)]
        cli.tell(args, rows, *lines or ["No decision yet, and no comparison."])
        return cli.OK
    findings = audit(repo)
    unexplained = [finding for finding in findings if not finding.explained]
    told = (f"{'ok ' if one.explained else 'BAD'}  {one.subject}: {one.why}" for one in findings)
    lines = [cli.wrapped(line, " " * 5) for line in told]
    total = f"{len(findings) - len(unexplained)} explained, {len(unexplained)} unexplained."
    cli.tell(args, [asdict(finding) for finding in findings], *lines, total)
    return cli.FOUND if unexplained else cli.OK


def _whole(repo: Repo) -> None:
    """Refuse a history that was cut off: what brought the decisions is not in it."""
    from telemetry.edge.git import GitRefused, git

    try:
        shallow = git(repo.root, "rev-parse", "--is-shallow-repository").strip() == b"true"
    except GitRefused:  # no repository at all: then there is no history to be cut off
        return
    if shallow and any((repo / DECISIONS).glob("*.json")):
        mend = "git fetch --unshallow (on GitHub: fetch-depth: 0)"
        raise BadInput(f"history is shallow: {mend}, then audit again")


def _lines(row: Mapping[str, Any]) -> Iterator[str]:
    """A row of the log: what was decided on the first line, by which evidence below."""
    indent = " " * 12
    commit = row["commit"] if row["commit"] in ("", "not committed") else f"commit {row['commit']}"
    doubt = "DOES NOT HOLD (python -m meta.audit says why)" if row["holds"] is False else ""
    about = "; ".join(filter(None, (row["effect"], row["evidence"], commit, doubt)))
    yield cli.wrapped(f"{row['when']}  {row['what']}", indent)
    yield cli.wrapped(f"{indent}{about}", indent)


if __name__ == "__main__":
    raise SystemExit(main())
