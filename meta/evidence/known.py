"""What is known about an agent: its latest output, its telemetry, the *tune* cases it fails, and what critics say.

Holdout cases decide promotions, so nobody who suggests changes may see them: the split is worked out here from the
suite, whatever a results file claims.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, field
from itertools import chain, zip_longest
from typing import Any

from agents.manifest import AgentSpec
from eval.grading.suite import BY_ANSWER, Suite, load_suite
from eval.ledger.remarks import Remark
from eval.ledger.results import stored
from telemetry.edge.files import OUTPUTS, REPORTS, SUMMARY, Repo
from telemetry.edge.frozen import frozen
from telemetry.edge.records import listed, read_json

MAX_CASES = 20  # shown to a critic: enough to see a pattern, few enough to pay for


@frozen
class Failure:
    """One tune case that most trials got wrong, as a critic sees it."""

    id: str
    tags: tuple[str, ...]
    reasons: tuple[str, ...]
    output: str  # the start of it


@frozen
class TuneResults:
    """How an agent did on its tune cases."""

    failures: tuple[Failure, ...] = ()
    tags: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # tag -> failing, all

    def shown(self) -> list[dict[str, Any]]:
        """The failing cases that a critic sees: the kinds in turn, so that none crowds out the others."""
        by_kind: dict[tuple[str, ...], list[Failure]] = {}
        for failure in self.failures:
            by_kind.setdefault(failure.tags, []).append(failure)
        in_turn = chain.from_iterable(zip_longest(*by_kind.values()))
        return [asdict(failure) for failure in in_turn if failure is not None][:MAX_CASES]


def tune_results(repo: Repo, spec: AgentSpec, prompt_hash: str | None = None) -> TuneResults:
    """From the latest results file; nothing if it is missing, or measured another prompt than `prompt_hash`."""
    document = stored(repo, spec.name)
    measured, rows = document.get("metadata", {}).get("prompt_hash"), document.get("results")
    if rows is None or prompt_hash not in (None, measured):
        return TuneResults()
    suite = load_suite(repo, spec.eval_suite, allow_unpinned=True) if spec.eval_suite else None
    return summed_up(rows, {case.id for case in suite.part("tune")} if suite else ())


def summed_up(rows: Iterable[Any], tune: Collection[str]) -> TuneResults:
    """The rows of these cases, by case: a case fails when most of its counted trials did."""
    by_case: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        counted = isinstance(row, dict) and isinstance(row.get("id"), str) and row.get("ok") is not None
        if counted and row["id"] in tune:
            by_case.setdefault(row["id"], []).append(row)
    failures, tags = [], dict[str, tuple[int, int]]()
    for case_id, trials in by_case.items():
        wrong = [row for row in trials if not row["ok"]]
        fails = 2 * len(wrong) > len(trials)
        kinds = tuple(str(tag) for tag in trials[0].get("tags") or ())
        for tag in kinds:
            failing, seen = tags.get(tag, (0, 0))
            tags[tag] = (failing + fails, seen + 1)
        if fails:
            reasons = tuple(str(reason)[:300] for reason in (wrong[0].get("reasons") or ())[:4])
            error = wrong[0].get("error")
            said = str(wrong[0].get("output_preview") or "")[:300]
            failures.append(Failure(case_id, kinds, reasons or (str(error)[:300],), said))
    return TuneResults(tuple(failures), dict(sorted(tags.items())))


def words(suite: Suite, remarks: Mapping[str, Sequence[Remark]]) -> list[str]:
    """What people said of cases that whoever proposes may see: of tune cases, and of fresh ones that will be that."""
    seen = [case for case in suite.cases if case.split == "tune" or BY_ANSWER & set(case.tags)]
    said = [(case.note, *(one.told for one in remarks.get(case.id, ()))) for case in seen]
    return [told for each in said for told in each if told]


@frozen
class Finding:
    """What the latest critiques find wrong with an agent."""

    id: str
    title: str
    evidence: str
    severity: str
    supported: bool
    target_agent: str


def findings(repo: Repo) -> dict[str, Finding]:
    """The issues of the latest critiques by id."""
    found = {}
    for critique in listed((read_json(repo, REPORTS / "cross_critiques.json") or {}).get("critiques")):
        for issue in listed(critique.get("issues")):
            words = {name: str(issue.get(name) or "") for name in ("id", "title", "evidence", "severity")}
            target = str(critique.get("target_agent"))
            found[words["id"]] = Finding(**words, supported=bool(issue.get("supported")), target_agent=target)
    return found


def latest_output(repo: Repo, agent: str) -> tuple[list[Any] | None, str | None]:
    """What the agent said last, and about which day; None if it has not run, or failed."""
    document = read_json(repo, OUTPUTS / f"{agent}.json") or {}
    output = document.get("output")
    return (output if isinstance(output, list) else None), document.get("as_of")


def telemetry_summary(repo: Repo) -> dict[str, Any]:
    """The last rollup; a new one if there is none."""
    if (summary := read_json(repo, SUMMARY)) is not None:
        return summary
    from telemetry.rollup import rollup

    return rollup(repo=repo)


def figures(summary: Mapping[str, Any], agent: str, names: Sequence[str]) -> dict[str, Any]:
    """Some of an agent's figures, those that are known; a summary of one agent is taken as it is."""
    by_agent = summary.get("by_agent")
    found = by_agent.get(agent) if isinstance(by_agent, dict) else summary
    known = found if isinstance(found, dict) else {}
    return {name: known[name] for name in names if known.get(name) is not None}
