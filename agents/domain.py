"""What a domain brings to the engine: one value, `DOMAIN`, of the package that the manifest names.

The engine runs, grades and improves agents of any trade. What they read, what counts as a signal, what came true and
how the offline model judges is the domain's to say; without a domain the neutral defaults below hold.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any, Final

from agents.manifest import AgentSpec
from agents.manifest.code import load_code
from agents.offline.rules import Analyst, Key
from agents.sources.source import Files, Payload, Source, SourceError
from telemetry.edge.errors import BadInput
from telemetry.edge.files import INPUTS, MANIFEST, Repo
from telemetry.edge.frozen import frozen
from telemetry.reward import Signals

__all__ = [
    "Analyst", "Column", "Domain", "Files", "InputKind", "Key", "Payload", "Signals", "Source", "SourceError",
    "Starter", "domain_of", "load_domain", "signals_of",
]  # fmt: skip

IMPROVING: Final = ("outputs", "findings")  # what reviewers and proposers read: the other agents' words

Row = Mapping[str, Any]


@frozen
class InputKind:
    """One kind of input that the manifest may name under `inputs:`."""

    check: Callable[[Payload], None]  # raises SourceError, KeyError or TypeError
    prepare: Callable[[Row], Row] = lambda inputs: inputs  # the arithmetic done for an agent without code


@frozen
class Starter:
    """What a new agent of one kind of input starts from, meant to be edited."""

    prompt: str  # `{title}` stands for the agent's name
    properties: Mapping[str, Any]  # of one item of its output, as in a JSON Schema
    cases: Callable[[str], Iterable[dict[str, Any]]]  # agent name -> a suite labelled by hand


@frozen
class Column:
    """What else the retirement report says about an agent."""

    name: str  # in the JSON report
    title: str  # of the table's column
    # (its runs, outcomes) -> a measurement, None for an agent that it says nothing about. Runs of a `day` (2026-03-02)
    # that said the same are one row, see telemetry/read/field.py; an outcome is a line of telemetry/outcomes.jsonl.
    measure: Callable[[Sequence[Row], Sequence[Row]], dict[str, Any] | None]
    shown: Callable[[Row], str]  # a measurement, as the table shows it


def subject_and_event(outcome: Row) -> tuple[str, bool] | None:
    """The neutral form of an outcome: `{"date": ..., "subject": ..., "event": true}`."""
    known = isinstance(outcome.get("subject"), str) and "event" in outcome
    return (outcome["subject"], bool(outcome["event"])) if known else None


@frozen
class Domain:
    """Everything that the engine asks of a domain."""

    inputs: Mapping[str, InputKind] = field(default_factory=dict)
    open_source: Callable[[str, Path], Source] | None = None  # (mode, root of the checkout); none: files
    signals: Signals = field(default_factory=Signals)
    # of an outcome: what it is about, and did it happen
    came_true: Callable[[Row], tuple[str, bool] | None] = subject_and_event
    columns: Sequence[Column] = ()
    analysts: Mapping[str, Analyst] = field(default_factory=dict)  # beside the engine's own
    starters: Callable[[], Mapping[str, Starter]] = dict  # by kind of input; the first is the default
    agents: Sequence[str] = ()  # names that ship with the domain as its example
    paths: Sequence[str] = ()  # files and folders that go when the example goes, beside those of its agents


def domain_of(repo: Repo, specs: Sequence[AgentSpec]) -> Domain:
    """The domain of these agents of one manifest; bad input if one of them reads what nobody offers.

    There are the domain's kinds of input, those that have a file below agents/inputs/, and what the manifest describes.
    """
    domain = load_domain(specs[0].domain if specs else None)
    files = sorted(file.stem for file in (repo / INPUTS).glob("*.json"))
    kinds = tuple(dict.fromkeys((*(domain.inputs if domain.open_source else ()), *files, *IMPROVING)))
    for spec in specs:
        # A callable outside the manifest names none.
        if spec.inputs and spec.feed is None and spec.inputs not in kinds:
            allowed = (
                f"must be one of {', '.join(kinds)}, not {spec.inputs} (or a mapping with file, call or http)"
            )
            raise BadInput(f"{MANIFEST}: agents.{spec.name}.inputs: {allowed}")
    return domain


def signals_of(spec: AgentSpec) -> Signals:
    """How an agent's outputs are read: as its `signal:` says, else as the domain does whose inputs it reads.

    Where neither says what a signal is, only the fields of scoring version 1.0 weigh anything.
    """
    domain, own = load_domain(spec.domain), spec.signal
    if own is None:
        ours = spec.domain is not None and spec.feed is None and spec.inputs not in IMPROVING
        return domain.signals if ours else Signals(silence=None, unknown=None)
    key = (
        domain.signals.key
        if not own.subject
        else functools.partial(_about, own.subject, own.field or "signal")
    )
    if own.call is None:
        return Signals({own.field: own.full}, key, unknown=0.0)
    return Signals({}, key, weigh=load_code(own.call, f"agents.{spec.name}.signal.call"), weighed_by=own.call)


def _about(subject: str, what: str, item: Mapping[Any, Any]) -> str:
    """`T-17:urgency`"""
    return f"{item[subject]}:{what.strip('|')}" if item.get(subject) not in (None, "") else ""


@functools.cache
def load_domain(name: str | None) -> Domain:
    """The domain of that package; the neutral one for none."""
    if name is None:
        return Domain()
    try:
        domain = getattr(importlib.import_module(name), "DOMAIN", None)
    except ImportError as problem:
        raise BadInput(f"{MANIFEST}: domain: {name} cannot be imported: {problem}") from problem
    if not isinstance(domain, Domain):
        raise BadInput(f"{MANIFEST}: domain: {name} has no DOMAIN (an agents.domain.Domain)")
    return domain
