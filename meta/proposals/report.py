"""The proposals as records, and as a pull-request body: what is to be tested, why, and that nothing goes live."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Final

from agents.texts.variants import name_of
from eval.ledger.report import Asked, Form
from telemetry.edge.files import REPORTS
from telemetry.edge.frozen import frozen
from telemetry.edge.text import Section, cell, code, cut, details, fenced, first_screen, fitting, some, table

SCHEMA_VERSION = 1
MAX_DIFF = 8_000
MAX_TOLD = 130  # characters of what changes, while folded
MAX_NAMES, MAX_ROWS = 20, 40  # in one sentence, and in a table or list of the body; the report has all


@frozen
class Rates:
    """How a text did on the cases of a screen."""

    passed: int
    mean_score: float


@frozen
class Tune:
    """How two texts did on the same tune cases."""

    cases: int
    of: int  # tune cases that could have been tried
    before: Rates
    after: Rates
    newly_right: int
    newly_wrong: int
    mended_kinds: Mapping[str, int]

    @property
    def points(self) -> float:
        """The difference, in points."""
        return 100 * (self.after.passed - self.before.passed) / self.cases


@frozen
class Cleared:
    """A challenger that lost and is out of the race."""

    prompt: str
    variant: str
    sha256: str


@frozen
class LeftOut:
    """A prompt without a new challenger, or an idea that was not fit, and why."""

    prompt: str
    reason: str


@frozen
class Proposed:
    """A new challenger."""

    prompt: str
    variant: str
    sha256: str
    parent_sha256: str
    author: str
    reason: str
    answers: tuple[str, ...]  # ids of critiques
    changes: tuple[str, ...]
    tune: Tune
    lines_added: int
    lines_removed: int
    diff: str
    # The winner that it was made from, while that is not merged; empty: made from the champion.
    built_on: str = ""
    calls: int | None = None  # of a model, to find it ...
    cost_usd: float | None = None  # ... and what they cost; None is unknown


@frozen
class Report:
    """What `meta/reports/proposals.json` holds."""

    schema_version: int
    generated_at: str
    proposals: tuple[Proposed, ...]
    cleared: tuple[Cleared, ...]
    skipped: tuple[LeftOut, ...]
    refused: tuple[LeftOut, ...]
    model: Asked


def sentence(report: Report) -> str:
    """The finding in one line."""
    if not report.proposals:
        left = [f"{_stem(one)}: {one.reason}" for one in report.skipped]
        more = f"; {len(left) - 1} more" if len(left) > 1 else ""
        return f"No new challenger{f' ({left[0]}{more})' if left else ''}."
    names = ", ".join(map(_called, report.proposals))
    return f"{len(report.proposals)} new challenger{'s' * (len(report.proposals) > 1)}: {names}."


def markdown(report: Report) -> str:
    """The whole text."""
    parts: list[str | Section] = [_first_screen(report), _table(report.proposals)]
    parts += [Section(_proposal(row), 40, _name(row)) for row in report.proposals]
    left = [*report.skipped, *report.refused][:MAX_ROWS]
    lines = "\n".join(f"- {code(_stem(row))}: {cell(row.reason, 300)}" for row in left)
    parts.append(
        Section(details("Not proposed, and why", lines) if left else "", 20, "what was not proposed")
    )
    return fitting(
        [*parts, Section(_METHOD, 60), Section(_YOUR_TURN if report.proposals else "", 65)], str(FORM.path)
    )


FORM: Final = Form(
    REPORTS / "proposals.json", Path(__file__).parents[1] / "proposals.schema.json", Report, markdown
)


def _first_screen(report: Report) -> str:
    rows = report.proposals
    built = asked = lost = ""
    if early := [f"{_name(row)} on {cell(row.built_on)}" for row in rows if row.built_on]:
        built = f"**Built on a promotion that is not merged yet: {some(early, MAX_NAMES)}.** Decide on that first."
    if rows:
        asked = f"**Test {f'these {len(rows)} challengers' if len(rows) > 1 else 'this challenger'}?** "
        best = max(rows, key=lambda row: row.tune.points)
        asked += (
            f"On practice cases (*tune*) up to **{best.tune.points:+.1f} points** ({code(_stem(best))}: "
            f"{best.tune.before.passed} -> {best.tune.after.passed} of {best.tune.cases})."
        )
    if report.cleared:
        lost = f"Out of the race, because they lost: {_named(report.cleared)}."
    return first_screen(
        built,
        asked,
        lost,
        "**If you merge:** they only become challengers. The next A/B test compares each with its champion"
        " on cases that nobody who proposes has seen, and asks you again before it changes a live prompt.",
        "**To undo:** revert this commit.",
        f"Written by {report.model.told}.",
    )


def _table(proposals: Sequence[Proposed]) -> Section:
    """Four columns: more would not fit a telephone."""
    rows = []
    for row in proposals[:MAX_ROWS]:
        tune = row.tune
        before, after = (f"{rates.passed / tune.cases:.1%}" for rates in (tune.before, tune.after))
        flips = f"{tune.newly_right} / {tune.newly_wrong}"
        rows.append([cell(_called(row)), f"**{tune.points:+.1f}**", f"{before} → {after}", flips])
    titles = ["challenger", "points", "passed", "newly right / wrong"]
    return Section(table(titles, rows, right=3) if rows else "", 50, "the table of challengers")


def _proposal(row: Proposed) -> str:
    """What one challenger changes in a line, behind it why and the diff."""
    mended = sorted(row.tune.mended_kinds.items(), key=lambda one: (-one[1], one[0]))
    kinds = some([f"{cell(kind)} ({count})" for kind, count in mended], MAX_NAMES)
    parts = (
        "\n".join(f"- {cell(change, 300)}" for change in row.changes),
        f"**Why it may be better:** {cell(row.reason, 600)}",
        row.answers and f"Answers {', '.join(map(code, row.answers))}.",
        kinds and f"Mends cases of these kinds: {kinds}.",
        _spent(row),
        fenced(row.diff, "diff", MAX_DIFF),
    )
    name = f"{_called(row)} (+{row.lines_added} -{row.lines_removed} lines)"
    told, more = cut("; ".join(row.changes), MAX_TOLD)
    return details(
        f"{name}: {told}{'…' * more}" if told else name, "\n\n".join(part for part in parts if part)
    )


_YOUR_TURN: Final = (
    "**Your turn:** merge it to let tonight's A/B test decide, or close it: these texts are not proposed again beside "
    "these champions. To keep some of them, delete the others' files on this branch first; a commit of yours stays."
)
_METHOD: Final = details(
    "How these came about, and how to reproduce it",
    "For every prompt that fails tune cases: the model sees them, the critiques and what was tried before, and "
    "proposes changes. Each is tried in memory on tune cases and kept if it mends more than it breaks in both "
    "halves of them. Before a text is written it is checked: sections, rules block and output words kept, few "
    "lines changed, no protected path, no secret, no copy of a case or its id, no text that was tried before. A "
    "prompt whose challengers lost is searched less often, at least every second week.\n\n`python -m meta.propose`",
)


def _spent(row: Proposed) -> str:
    if row.calls is None:
        return ""
    cost = "unknown cost" if row.cost_usd is None else f"${row.cost_usd:.4f}"
    return f"It took {row.calls:,} model call{'s' * (row.calls != 1)} to find, {cost}."


def _named(rows: Sequence[Proposed | Cleared]) -> str:
    return some([_name(row) for row in rows], MAX_NAMES)


def _name(row: Proposed | Cleared) -> str:
    return f"{code(_stem(row))} {cell(name_of(row.variant, row.sha256))}"


def _called(row: Proposed) -> str:
    return f"{_stem(row)} {name_of(row.variant, row.sha256)}"


def _stem(row: Proposed | Cleared | LeftOut) -> str:
    return PurePosixPath(row.prompt).stem
