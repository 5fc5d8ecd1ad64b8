"""Does a workflow file keep the house rules? What act and GitHub do not enforce is held here, statically."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import yaml


@dataclass(frozen=True, slots=True)
class Reviewed:
    """An action as reviewed: within a major version its inputs stay, and Dependabot may move the commit by itself."""

    major: str
    inputs: frozenset[str]  # a pin by commit switches off every linter's check of them


def _reviewed(major: str, inputs: str) -> Reviewed:
    return Reviewed(major, frozenset(inputs.split()))


ACTIONS = {
    "actions/checkout": _reviewed(
        "v6",
        "repository ref token ssh-key ssh-known-hosts ssh-strict ssh-user persist-credentials path clean filter"
        " sparse-checkout sparse-checkout-cone-mode fetch-depth fetch-tags show-progress lfs submodules"
        " set-safe-directory github-server-url",
    ),
    "actions/setup-python": _reviewed(
        "v6",
        "python-version python-version-file cache architecture check-latest token cache-dependency-path"
        " update-environment allow-prereleases freethreaded pip-version pip-install",
    ),
    "actions/upload-artifact": _reviewed(
        "v7",
        "name path if-no-files-found retention-days compression-level overwrite include-hidden-files archive",
    ),
    "actions/download-artifact": _reviewed(
        "v8",
        "name artifact-ids path pattern merge-multiple github-token repository run-id",
    ),
    "actions/upload-pages-artifact": _reviewed("v5", "name path retention-days include-hidden-files"),
    "actions/deploy-pages": _reviewed(
        "v5",
        "token timeout error_count reporting_interval artifact_name preview",
    ),
    "peter-evans/create-pull-request": _reviewed(
        "v8",
        "token branch-token path add-paths commit-message committer author signoff branch delete-branch"
        " branch-suffix base push-to-fork sign-commits title body body-path labels assignees reviewers"
        " team-reviewers milestone draft maintainer-can-modify",
    ),
}

_USES = re.compile(r"^\s*(?:- )?uses:\s*(\S+)(?:\s+#\s*(\S+))?\s*$")
_EXPRESSION = re.compile(r"\$\{\{(.*?)\}\}", re.DOTALL)
_INPUT = re.compile(r"\binputs\.[\w-]+|\binputs\[")


def problems(text: str) -> list[str]:
    """Every rule that a workflow or composite action breaks, in words; empty when it keeps them all."""
    document = yaml.safe_load(text)
    found = [*_pins(text), *_steps(document)]
    if "jobs" in document:
        found += [*_triggers(document, text), *_grants(document), *_limits(document)]
    return found


def steps(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """All steps of a workflow's jobs, or of a composite action."""
    for job in document.get("jobs", {}).values():
        yield from job.get("steps", [])
    yield from document.get("runs", {}).get("steps", [])


def triggers(document: dict[Any, Any]) -> dict[str, Any]:
    """The `on:` block (YAML 1.1 reads the bare word as true) as a mapping."""
    on = document.get("on", document.get(True))
    if isinstance(on, str):
        return {on: None}
    if isinstance(on, list):
        return dict.fromkeys(on)
    return {name: value or {} for name, value in (on or {}).items()}


def _pins(text: str) -> Iterator[str]:
    for number, line in enumerate(text.splitlines(), 1):
        match = _USES.match(line)
        if not match or match[1].startswith("./"):
            continue
        name, _, commit = match[1].partition("@")
        reviewed = ACTIONS.get(name)
        if reviewed is None:
            yield f"line {number}: {name} is not a reviewed action (table ACTIONS)"
        elif not re.fullmatch("[0-9a-f]{40}", commit):
            yield f"line {number}: {name} is not pinned to a commit"
        elif not re.fullmatch(rf"{reviewed.major}(\.\d+)+", match[2] or ""):
            yield f"line {number}: {name} needs its version in a comment, {reviewed.major}.x as reviewed"


def pins(texts: Iterable[str]) -> dict[str, set[str]]:
    """Which commits and versions of each action workflows and composite actions name."""
    found: dict[str, set[str]] = {}
    for match in filter(None, (_USES.match(line) for text in texts for line in text.splitlines())):
        if not match[1].startswith("./"):
            name, _, commit = match[1].partition("@")
            found.setdefault(name, set()).add(f"{commit} {match[2]}")
    return found


def _steps(document: dict[str, Any]) -> Iterator[str]:
    for step in steps(document):
        name = step.get("uses", "").partition("@")[0]
        if "${{" in str(step.get("run", "")):
            yield "run: holds an expression; pass the value by env:"
        if name == "actions/checkout" and step.get("with", {}).get("persist-credentials") is not False:
            yield "actions/checkout without persist-credentials: false"
        if name in ACTIONS:
            for key in sorted(set(step.get("with", {})) - ACTIONS[name].inputs):
                yield f"{name} has no input {key!r}"


def _triggers(document: dict[Any, Any], text: str) -> Iterator[str]:
    on = triggers(document)
    for name in ("pull_request_target", "workflow_run"):
        if name in on:
            yield f"{name} runs with secrets on code from outside"
    for name, value in (on.get("workflow_dispatch") or {}).get("inputs", {}).items():
        if "default" not in value:
            yield f"workflow_dispatch input {name!r} has no default"
    if "schedule" not in on:
        return
    if "workflow_dispatch" not in on:
        yield "schedule without workflow_dispatch"
    for entry in on["schedule"]:
        minute = entry["cron"].split()[0]
        if not minute.isdigit() or int(minute) % 2 == 0 or int(minute) % 5 == 0:
            yield f"cron minute {minute}: everyone's round minutes run late; take an odd one off the fives"
    for expression in _EXPRESSION.findall(text):
        if _INPUT.search(expression) and not re.search(r"\|\||==", expression):
            yield f"{expression.strip()} is empty on schedule; add || 'default'"


def _grants(document: dict[str, Any]) -> Iterator[str]:
    if document.get("permissions") != {}:
        yield "permissions: {} is missing at the top"
    for name, job in document["jobs"].items():
        if not isinstance(job.get("permissions"), dict):
            yield f"job {name}: no permissions of its own"
        if job.get("secrets") == "inherit":
            yield f"job {name}: hands on every secret"
        if writes(job) and "OPENAI" in yaml.safe_dump(job.get("steps", [])):
            yield f"job {name}: holds a write token and the model key"


def _limits(document: dict[str, Any]) -> Iterator[str]:
    concurrency = document.get("concurrency")
    if not isinstance(concurrency, dict) or "group" not in concurrency:
        yield "no concurrency group"
    elif concurrency.get("cancel-in-progress") and any(writes(job) for job in document["jobs"].values()):
        yield "cancel-in-progress could cut off a job that writes"
    for name, job in document["jobs"].items():
        if "uses" not in job and "timeout-minutes" not in job:
            yield f"job {name}: no timeout-minutes"


def writes(job: dict[str, Any]) -> bool:
    """Does the job's token write anything?"""
    grants = job.get("permissions")
    return isinstance(grants, dict) and "write" in grants.values()
