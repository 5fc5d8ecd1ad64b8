"""The kinds of change that may be proposed: which script makes it, what it may touch, how its pull request is named."""

from __future__ import annotations

from dataclasses import dataclass

from telemetry.edge.errors import BadInput

_DECISIONS = ("meta/decisions/*.json",)
_MEASURE = (("agents.orchestrator",), ("eval.harness", "--split", "tune"), ("telemetry.rollup",))
_CRITIQUE = ("meta.critique_loops",)
_VARIANTS = ("agents/prompts/variants/*/*.md", "agents/prompts/variants/*/lineage.json")


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of pull request. `allowed` are globs: `*` stays within a folder, `**` does not."""

    name: str
    branch: str  # fixed: one living pull request per kind
    title: str
    labels: tuple[str, ...]
    command: tuple[str, ...]  # run by `python -m`
    report: str  # without suffix: .json is the record, .md the pull request's body
    schema: str = ""  # JSON Schema of the report
    allowed: tuple[str, ...] = ()  # what it may change unless the manifest protects it
    records: tuple[str, ...] = ()  # what it also writes although it is protected, checked by content
    draft: bool = False
    before: tuple[tuple[str, ...], ...] = ()  # run first where there is no data yet, as on a fresh runner
    only_if: str = ""  # a step output of the script: `false` or 0 is not worth a pull request
    options: tuple[str, ...] = ()  # what a workflow may pass on, by hand or from its shards
    max_files: int = 60
    max_lines: int = 2_000  # changed lines outside the report
    max_bytes: int = 4_000_000  # of all files after the change

    def globs(self) -> tuple[str, ...]:
        """Everything this kind may touch."""
        return (*self.allowed, *self.traces())

    def traces(self) -> tuple[str, ...]:
        """What protection does not hold back: the report and the records."""
        return (*self.records, f"{self.report}.json", f"{self.report}.md")


KINDS = {
    kind.name: kind
    for kind in (
        Kind(
            name="ab_champion",
            branch="meta/prompt-ab-champion",
            title="Meta: Promote prompt champion (A/B win-rate)",
            labels=("meta-agent", "prompt-tuning", "ab-test"),
            command=("eval.ab_testing",),
            report="meta/reports/ab_test_report",
            schema="eval/ab_test_report.schema.json",
            allowed=("agents/prompts/*.md", *_VARIANTS),
            records=_DECISIONS,
            only_if="promoted",
            options=("prompt", "max_usd", "merge"),
        ),
        Kind(
            name="retirement",
            branch="meta/agent-retirement",
            title="Meta: Agent retirement candidates (low marginal alpha)",
            labels=("meta-agent", "retirement"),
            command=("meta.retirement",),
            report="meta/reports/retirement_report",
            schema="meta/retirement_report.schema.json",
            only_if="to_decide",
        ),
        Kind(
            name="retirement_disable",
            branch="meta/agent-retirement",
            title="Meta: Agent retirement candidates (low marginal alpha)",
            labels=("meta-agent", "retirement"),
            command=("meta.retirement", "--disable"),
            report="meta/reports/retirement_report",
            schema="meta/retirement_report.schema.json",
            only_if="to_decide",
            records=("agents/manifest.yaml", *_DECISIONS),
            draft=True,
            max_lines=600,
        ),
        Kind(
            name="critiques",
            branch="meta/cross-critiques",
            title="Meta: Cross-agent critiques",
            labels=("meta-agent", "critique"),
            before=_MEASURE,
            command=_CRITIQUE,
            report="meta/reports/cross_critiques",
            schema="meta/cross_critiques.schema.json",
        ),
        Kind(
            name="proposals",
            branch="meta/prompt-proposals",
            title="Meta: New prompt challengers to test",
            labels=("meta-agent", "prompt-tuning"),
            before=(*_MEASURE, _CRITIQUE),
            command=("meta.propose",),
            report="meta/reports/proposals",
            schema="meta/proposals.schema.json",
            only_if="proposed",
            options=("prompt", "max_usd"),
            allowed=_VARIANTS,
            records=_DECISIONS,
        ),
        Kind(
            name="sandbox",
            branch="meta/sandbox-patch",
            title="Meta: Code patch that passed the sandbox",
            labels=("meta-agent", "sandbox"),
            before=(*_MEASURE, _CRITIQUE),
            command=("meta.sandbox",),
            report="meta/reports/sandbox_report",
            schema="meta/sandbox_report.schema.json",
            only_if="patched",
            records=_DECISIONS,  # what it may change is the code of agents with `sandbox_editable: true`
            draft=True,
            max_files=8,
            max_lines=400,
        ),
    )
}


def kind(name: str) -> Kind:
    """The kind of that name; bad input when there is none."""
    if name not in KINDS:
        raise BadInput(f"--kind {name!r}: must be one of {', '.join(sorted(KINDS))}")
    return KINDS[name]
