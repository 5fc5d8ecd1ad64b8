"""Everything the site shows, gathered once: history, rows, results, texts, decisions. Unknown is None, never 0."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

from agents.manifest import AgentSpec, Manifest, load_manifest
from eval import drift
from eval.ab.evidence import Turn, curve, gathered
from eval.ab.rounds import Rules
from eval.grading.suite import Suites
from eval.ledger.provenance import Line, history
from eval.ledger.results import stored
from meta.evidence.known import Finding, findings, latest_output
from meta.site.pictures import Nights, by_night
from meta.site.recorded import Comparison, Day, Score, Texts, Tried, days_of, malformed_of, rows_of, tried_of
from meta.site.waiting import Change, waiting
from meta.worth.record import Agent
from telemetry.edge.errors import BadInput
from telemetry.edge.files import EVENTS, HISTORY, SEALED, TEXTS, Repo
from telemetry.edge.git import GitRefused, commit_of, git

if TYPE_CHECKING:
    from telemetry.health import Health

CURVES = 100  # comparisons whose evidence is worked out again, the newest
MOST_CHECKED = 50_000_000  # bytes of a live log that is held to its schema for a page
_PAIR = re.compile(r"[\w-]{1,64}", re.ASCII)
_REMOTE = re.compile(
    r"^(?:https://(?:[^@/\s]+@)?|git@|ssh://git@)(github\.com)[:/]([\w.-]+)/([\w.-]+?)(?:\.git)?/?$"
)


@dataclass(frozen=True)
class Facts:
    """The repository, as far as the site is concerned."""

    repo: Repo
    now: datetime
    manifest: Manifest
    redacted: bool = False
    lines: Sequence[Line] = ()
    changes: Sequence[Change] = ()
    agents: Sequence[Agent] = ()
    days: Sequence[Day] = ()
    malformed: int = 0
    tried: Mapping[tuple[str, str], Sequence[Tried]] = field(default_factory=dict)  # (agent, case) -> by text

    @cached_property
    def commit(self) -> str | None:
        return commit_of(self.repo.root)

    @cached_property
    def url(self) -> str | None:
        """Where the repository stands on GitHub, if it does."""
        named = os.environ.get("GITHUB_REPOSITORY")
        if named:
            return f"{os.environ.get('GITHUB_SERVER_URL', 'https://github.com')}/{named}"
        try:
            found = _REMOTE.match(git(self.repo.root, "remote", "get-url", "origin").decode().strip())
        except (GitRefused, OSError):
            return None
        return f"https://{found[1]}/{found[2]}/{found[3]}" if found else None

    @cached_property
    def last_night(self) -> datetime | None:
        """When anything was measured last."""
        known = [parsed for line in self.lines if (parsed := _time(line.ts))]
        return max(known, default=None)

    @property
    def stale(self) -> bool:
        """Whether that is longer ago than a night and a half."""
        return self.last_night is not None and self.now - self.last_night > timedelta(hours=36)

    @cached_property
    def offline(self) -> bool:
        """Whether the offline model made the newest figures."""
        providers = [line.metadata.get("provider") for line in self.lines if line.metadata.get("provider")]
        return bool(providers) and providers[-1] == "offline"

    @cached_property
    def scores(self) -> dict[str, list[Score]]:
        """By agent: what it passed, night by night, oldest first; a night's last eval counts."""
        prompts = {spec.name: spec.prompt or "" for spec in self.manifest.agents}
        found: dict[str, dict[str, Score]] = defaultdict(dict)
        for line in self.lines:
            if line.run_type != "eval":
                continue
            date, hashes = line.date, line.metadata.get("prompts") or {}
            for agent, row in (line.summary.get("agents") or {}).items():
                if isinstance(row, dict) and (counted := row.get("counted")):
                    own = hashes.get(prompts.get(agent, "")) if hashes else None
                    found[agent][date] = Score(date, row["passed"], counted, own)
        return {agent: list(by_night.values()) for agent, by_night in found.items()}

    @cached_property
    def nights(self) -> Nights:
        """By night: the share of cases passed."""
        return by_night(self.lines)

    @cached_property
    def comparisons(self) -> list[Comparison]:
        """Every comparison once, the newest first."""
        found: dict[str, Comparison] = {}
        for line in self.lines:
            if line.run_type != "ab_test":
                continue
            for row in line.listed("comparisons"):
                if not _PAIR.fullmatch(str(row.get("pair"))):  # it names a page; a line may say anything
                    continue
                before = found.pop(str(row.get("pair")), None)
                said = row.get("spend")
                spend = said if isinstance(said, dict) else {}
                cost, calls = spend.get("cost_usd"), spend.get("calls") or 0
                total = None if cost is None else cost + ((before.spent if before else 0.0) or 0.0)
                found[str(row.get("pair"))] = Comparison(
                    line.date,
                    row,
                    (before.nights if before else 0) + 1,
                    total,
                    (before.calls if before else 0) + calls,
                )
        return list(reversed(found.values()))

    @cached_property
    def _turns(self) -> Mapping[str, Sequence[Turn]]:
        """By comparison: its pairs of scores on record, in the order in which they were weighed."""
        return gathered(self.repo, [one.pair for one in self.comparisons[:CURVES]], {}, night="").turns

    def evidence(self, test: Comparison) -> list[float]:
        """Odds after each case, from the rows; [] where rows or suites are no longer what the verdict stood on."""
        turns = self._turns.get(test.pair, ())
        suites = test.row.get("suites") or ()
        specs = [spec for spec in self.manifest.agents if spec.eval_suite in suites]
        known = [spec for spec in specs if any(turn.agent == spec.name for turn in turns)]
        for chosen in (specs, known):
            cases = {key: family for spec in chosen for key, family in self._holdout(spec).items()}
            if len(cases) == test.row.get("cases_available") and all(turn.case in cases for turn in turns):
                return curve(turns, cases, self._rules)
        return []

    def _holdout(self, spec: AgentSpec) -> dict[tuple[str, str], str]:
        """By case: its family."""
        try:
            part = self._suites.load(str(spec.eval_suite)).part("holdout")
        except BadInput:  # not as pinned: then it is not what the verdict stood on
            return {}
        return {(spec.name, case.id): f"{spec.name}/{case.family}" for case in part}

    def asked(self, agent: str, case: str) -> Any | None:
        """What a case of an agent's suite asks, if it is still there."""
        return self._inputs.get((agent, case))

    @cached_property
    def _inputs(self) -> dict[tuple[str, str], Any]:
        found: dict[tuple[str, str], Any] = {}
        for spec in self.manifest.agents:
            try:
                suite = self._suites.load(str(spec.eval_suite)) if spec.eval_suite else None
            except BadInput:  # the page of its results does not depend on it
                continue
            found |= {(spec.name, case.id): case.input for case in (suite.cases if suite else ())}
        return found

    @cached_property
    def volume(self) -> list[tuple[str, int, int]]:
        """(tier, files, bytes) of what is kept on disk."""
        tiers = (("live log", [self.repo / EVENTS]), ("sealed days", (self.repo / SEALED).rglob("*")),
                 ("texts", [self.repo / TEXTS]), ("history", [self.repo / HISTORY]))  # fmt: skip
        found = []
        for name, paths in tiers:
            sizes = [path.stat().st_size for path in paths if path.is_file()]
            if sizes:
                found.append((name, len(sizes), sum(sizes)))
        return found

    @cached_property
    def health(self) -> Health | None:
        """Whether telemetry can be trusted; None where there is none, or too much of it to look at for a page."""
        from telemetry.health import health

        log = self.repo / EVENTS
        small = not log.exists() or log.stat().st_size <= MOST_CHECKED
        return health(self.repo, now=self.now) if self.days and small else None

    @cached_property
    def _suites(self) -> Suites:
        return Suites(self.repo)

    @cached_property
    def _rules(self) -> Rules:
        own = self.manifest.ab_test
        return Rules(rounds=own.rounds, alpha=own.alpha, min_effect=own.min_effect, min_cases=own.min_cases)

    @cached_property
    def decisions(self) -> list[dict[str, Any]]:
        """The audit log, the newest first."""
        from meta.audit import log

        return [{**row, **self._merged(row["commit"])} for row in reversed(log(self.repo))]

    def _merged(self, commit: str) -> dict[str, Any]:
        """Who brought a commit to the checkout, and after how many days."""
        if commit in ("", "not committed"):
            return {"by": None, "waited": None}
        made, who = (
            git(self.repo.root, "show", "-s", "--format=%ct%x00%an", commit).decode().strip().split("\0")
        )
        path = git(
            self.repo.root, "rev-list", "--ancestry-path", "--merges", "--reverse", f"{commit}..HEAD"
        ).decode()
        merged, by = made, who
        if first := path.split():
            merged, by = (
                git(self.repo.root, "show", "-s", "--format=%ct%x00%an", first[0])
                .decode()
                .strip()
                .split("\0")
            )
        return {"by": by, "waited": max(0, int(merged) - int(made)) // 86_400}

    @cached_property
    def findings(self) -> list[Finding]:
        return list(findings(self.repo).values())

    @cached_property
    def drift(self) -> drift.Known:
        return drift.known(self.repo)

    def result(self, agent: str) -> Mapping[str, Any]:
        """The newest results of an agent, {} if there are none."""
        return stored(self.repo, agent)

    def output(self, agent: str) -> tuple[list[Any] | None, str | None]:
        return latest_output(self.repo, agent)

    @cached_property
    def texts(self) -> dict[str, Texts]:
        """By prompt: what was ever written for it, as far as it is still there."""
        return {prompt: Texts.of(self.repo, prompt) for prompt in sorted(self.manifest.prompts)}


def gather(repo: Repo, now: datetime | None = None, *, redacted: bool = False) -> Facts:
    """Read what there is; an empty repository gives empty facts."""
    manifest = load_manifest(repo)
    lines = list(history(repo))
    con = rows_of(repo)
    days, malformed, tried = days_of(con), malformed_of(con), tried_of(con)
    con.close()
    return Facts(
        repo,
        now or datetime.now(UTC),
        manifest,
        redacted,
        lines,
        waiting(repo),
        _assessed(repo, manifest),
        days,
        malformed,
        tried,
    )


def _assessed(repo: Repo, manifest: Manifest) -> list[Agent]:
    """The agents as the retirement report sees them."""
    from agents.sources.outcomes import load_outcomes
    from meta.retirement import LIMITS, grades_of, load_events
    from meta.worth.assessment import assess

    limits = {name: getattr(manifest.retirement, name) for name in LIMITS}
    events = load_events(window=limits["window"], repo=repo)
    return assess(
        manifest, events, load_outcomes(repo, None, manifest.outcomes), **limits, grades=grades_of(repo)
    )


def _time(ts: str) -> datetime | None:
    """The time of a line of history; None if it says only the day."""
    try:
        at = datetime.fromisoformat(ts.replace("Z", "+00:00"))
    except ValueError:
        return None
    return at if at.tzinfo else at.replace(tzinfo=UTC)
