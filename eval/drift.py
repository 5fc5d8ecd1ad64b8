"""Has a champion become worse although nobody changed it? Each night's scores, paired by case with its earlier nights.

Reads the `evaluation` rows of the last year that were measured with the present prompt and model. A case whose text
changed starts anew; so does everything when the prompt or the model does. An alarm stands for a month, or until the
score has risen again; a rise is told, and is no alarm. Also tells when the endpoint is going to shut a model down.
Exit codes: 0 nothing, 1 drift found.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from itertools import zip_longest
from statistics import fmean
from typing import TYPE_CHECKING, Any

from telemetry.edge import cli
from telemetry.edge.files import RESULTS, Repo, write_json
from telemetry.edge.frozen import frozen
from telemetry.edge.records import made, plain, read_json
from telemetry.edge.text import cell

if TYPE_CHECKING:
    from agents.manifest import Manifest
    from eval.ledger.levels import Change
    from eval.ledger.nights import Round, Scored

RESULT = RESULTS / "drift.json"
LOOK_BACK = timedelta(days=365)
# An alarm, after the night that found it; then the lower level is what one is used to.
STANDS = timedelta(days=30)
MOSTLY = 0.5  # share of the whole change that a kind of case has to hold to be named
MIN_OF_KIND = 3  # cases
NEAR = 3  # rounds from the change within which another model is named with it: its night is an estimate


@frozen
class Kind:
    """How the cases of one tag changed: shares passed."""

    tag: str
    cases: int
    before: float
    after: float


@frozen
class Drift:
    """One change of an agent's level, over the cases that were asked before and after it."""

    agent: str
    fell: bool
    since: str  # first night at the new level, by the evidence
    found: str  # night on which the evidence sufficed
    cases: int
    passed_before: float
    passed_after: float
    score_before: float
    score_after: float
    model_before: str | None
    model_after: str | None
    kinds: tuple[Kind, ...]  # those that changed most, first the most
    alarm: bool

    @property
    def told(self) -> str:
        """In one line."""
        return f"{self.agent}: {self.what}"

    @property
    def what(self) -> str:
        """The same without whose it is."""
        way, day = "fell" if self.fell else "rose", date.fromisoformat(self.since)
        points = 100 * abs(self.passed_after - self.passed_before)
        figures = f"mean score {self.score_before:.3f} -> {self.score_after:.3f} on {self.cases} cases"
        parts = [f"pass rate {way} by {points:.1f} points since {day.day} {day:%b} ({figures})"]
        if self.model_before != self.model_after:
            parts.append(f"model_answered changed from {self.model_before} to {self.model_after}")
        if self.kinds:
            parts.append(f"mostly kind `{self.kinds[0].tag}`")
        return "; ".join(parts)


@frozen
class Watched:
    """What is known of one agent."""

    nights: int
    cases: int
    passed: float  # share, in the newest round
    drifts: tuple[Drift, ...]


def watch(agent: str, rounds: Sequence[Round], tags: Mapping[str, Sequence[str]], today: date) -> Watched:
    """The changes in one agent's rounds; an alarm is the newest one, if it is a fall and still news."""
    from eval.ledger.levels import Pass, changes

    numbers = {case: number for number, case in enumerate({case: 0 for one in rounds for case in one.scored})}
    passes = [
        Pass(one.night, [numbers[case] for case in one.scored], [row.score for row in one.scored.values()])
        for one in rounds
    ]
    exact = all(row.provider == "offline" for one in rounds for row in one.scored.values())
    found = changes(passes, len(numbers), exact=exact)
    drifts = []
    for change, later in zip_longest(found, found[1:]):
        alarm = change.fell and later is None and is_news(rounds[change.found].night, today)
        drifts.append(_drift(agent, change, rounds[: later.since if later else None], tags, alarm))
    newest = rounds[-1].scored.values()
    return Watched(
        len({one.night for one in rounds}), len(numbers), fmean(row.ok for row in newest), tuple(drifts)
    )


def _drift(
    agent: str, change: Change, rounds: Sequence[Round], tags: Mapping[str, Sequence[str]], alarm: bool
) -> Drift:
    """A change and what went with it; `rounds` end where the level changed again."""
    for since in (change.since, change.found):  # the estimate may lie before cases that only came in later
        earlier, later = rounds[change.begin : since], rounds[since:]
        before, after = _by_case(earlier), _by_case(later)
        both = [case for case in before if case in after]
        if both:
            break

    def mean(which: Mapping[tuple[str, str], Sequence[Scored]], name: str, cases: Iterable[Any]) -> float:
        return round(fmean(fmean(getattr(row, name) for row in which[case]) for case in cases), 6)

    def kind(tag: str) -> Kind:
        own = [case for case in both if tag in tags.get(case[0], ())]
        return Kind(tag, len(own), mean(before, "ok", own), mean(after, "ok", own))

    whole = Kind("", len(both), mean(before, "ok", both), mean(after, "ok", both))
    counted = Counter(tag for case in both for tag in tags.get(case[0], ()))
    kinds = [kind(tag) for tag, count in counted.items() if count >= MIN_OF_KIND]
    return Drift(
        agent=agent,
        fell=change.fell,
        since=later[0].night,
        found=rounds[change.found].night,
        cases=whole.cases,
        passed_before=whole.before,
        passed_after=whole.after,
        score_before=mean(before, "score", both),
        score_after=mean(after, "score", both),
        model_before=_answered(earlier[-NEAR:][0]),
        model_after=_answered(later[:NEAR][-1]),
        kinds=hit(whole, kinds),
        alarm=alarm,
    )


def is_news(found: str, today: date) -> bool:
    """Whether a change found on that night is still to be told."""
    return today - date.fromisoformat(found) <= STANDS


def hit(whole: Kind, kinds: Iterable[Kind]) -> tuple[Kind, ...]:
    """Kinds of case that hold most of the change and far more of it than of the cases; first the most."""

    def moved(one: Kind) -> float:
        return one.cases * (one.after - one.before)

    total = moved(whole)
    if total == 0:
        return ()
    shares = [(moved(one) / total, one) for one in kinds]
    far = [(s, one) for s, one in shares if s >= max(MOSTLY, 1.5 * one.cases / whole.cases)]
    return tuple(one for _, one in sorted(far, key=lambda pair: (-pair[0], pair[1].tag))[:3])


def _by_case(rounds: Iterable[Round]) -> dict[tuple[str, str], list[Scored]]:
    found: dict[tuple[str, str], list[Scored]] = {}
    for one in rounds:
        for case, row in one.scored.items():
            found.setdefault(case, []).append(row)
    return found


def _answered(one: Round) -> str | None:
    """The model that gave most answers of a round."""
    models = Counter(row.model_answered for row in one.scored.values() if row.model_answered)
    return models.most_common(1)[0][0] if models else None


@frozen
class Known:
    """What the last look has found."""

    alarms: tuple[Drift, ...]
    shutdown: str  # of a model that will be gone soon


def known(repo: Repo) -> Known:
    """From its file; what cannot be read of it was not found."""
    found = read_json(repo, RESULT) or {}
    agents, alarms = found.get("agents"), list[Drift]()
    for row in agents.values() if isinstance(agents, dict) else ():
        try:
            # A drift that can be told has all it takes.
            alarms += [one for one in made(Watched, row).drifts[-1:] if one.alarm and one.told]
        except (TypeError, ValueError, KeyError, AttributeError):
            continue
    return Known(tuple(alarms), str(found.get("shutdown") or ""))


def parser() -> cli.Parser:
    flags = cli.Parser(__doc__)
    flags.add_argument("--tell-only", action="store_true", help="end with 0 also if drift was found")
    return flags


@cli.entry(parser)
def main(args: argparse.Namespace, repo: Repo) -> int:
    from agents.llm_client import shutdown_warning
    from agents.manifest import load_manifest
    from eval.ledger.nights import champions

    manifest, now = load_manifest(repo), datetime.now(UTC)
    names = {spec.name for spec in manifest.enabled()}
    watched = {
        agent: watch(agent, rounds, _tags(repo, manifest, agent), now.date())
        for agent, rounds in champions(repo, now - LOOK_BACK)
        if agent in names
    }
    drifts = [drift for one in watched.values() for drift in one.drifts[-1:]]
    alarms = [drift for drift in drifts if drift.alarm]
    rises = [drift for drift in drifts if not drift.fell and is_news(drift.found, now.date())]
    warning = shutdown_warning((spec.model for spec in manifest.enabled()), manifest.model.name)
    most = max((one.nights for one in watched.values()), default=0)
    count = f"{len(watched)} agent{'s' * (len(watched) != 1)}"
    quiet = f"no drift in {count}, nights compared: {most}"
    lines = [drift.told for drift in (*alarms, *rises)] or [quiet if watched else "no eval to compare yet"]
    value = {"drift": bool(alarms), "agents": plain(watched), "shutdown": warning or None}
    write_json(repo / RESULT, value)
    cli.found("; ".join([*lines, *([warning] if warning else [])]))
    if alarms or rises:
        cli.job_summary("### Drift\n\n" + "\n".join(f"- {cell(line)}" for line in lines))
    cli.tell(args, value, *lines, *([warning] if warning else []))
    return cli.FOUND if alarms and not args.tell_only else cli.OK


def _tags(repo: Repo, manifest: Manifest, agent: str) -> dict[str, tuple[str, ...]]:
    """The tags of an agent's cases; none if its suite cannot be read, which is the harness's to tell."""
    from eval.grading.suite import Suites
    from telemetry.edge.errors import BadInput

    try:
        suite = Suites(repo, allow_unpinned=True).load(manifest.agent(agent).eval_suite)
    except BadInput:
        return {}
    return {case.id: case.tags for case in suite.cases}


if __name__ == "__main__":
    raise SystemExit(main())
