"""Who may export what: reads telemetry/access.yaml, checks each export against it, and logs that it was asked for."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import field, fields
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from telemetry.batches.anonymise import Options
from telemetry.edge.errors import BadInput
from telemetry.edge.files import EXPORTS, Repo
from telemetry.edge.frozen import frozen
from telemetry.edge.records import is_number, load_yaml, made

ACCESS: Final = Path("telemetry/access.yaml")
MOST_DAYS: Final = 36_500  # back; a calendar has a beginning
LOG: Final = EXPORTS / "access.jsonl"
ROLE: Final = "RATCHET_ROLE"
USUAL_ROLE: Final = "trainer"
ALL, ANONYMOUS = "all", "anonymized-only"
_KINDS: Final = {
    "allowed_roles": list,
    "fields": str,
    "time_range": int,
    "log_access": bool,
    "require_approval": bool,
}


@frozen
class Rule:
    """What holds for one type of batch."""

    allowed_roles: tuple[str, ...] = (USUAL_ROLE,)
    fields: str = ANONYMOUS  # all | anonymized-only
    time_range: int = 365  # days back that may be exported
    log_access: bool = True
    require_approval: bool = False
    epsilon_budget: float = 1.0  # of all releases of aggregates together: OpenDP adds them up
    anonymize: Options = field(default_factory=Options)


def load_rule(repo: Repo, kind: str) -> Rule:
    """The rule for a type of batch: what `exports.<type>` says, else `defaults`, else the strictest that works."""
    try:
        raw = load_yaml((repo / ACCESS).read_bytes()) or {}
    except FileNotFoundError:
        return Rule()
    except BadInput as problem:
        raise BadInput(f"{ACCESS}: {problem}") from None
    if not isinstance(raw, dict):
        raise BadInput(f"{ACCESS}: must be a mapping with defaults and exports")
    said = {**_mapping(raw, "defaults"), **_mapping(_mapping(raw, "exports"), kind)}
    where = f"{ACCESS}: exports.{kind}"
    _check(said, {one.name for one in fields(Rule)}, where)
    for name, wanted in _KINDS.items():
        if name in said and type(said[name]) is not wanted:
            raise BadInput(f"{where}.{name}: must be a {wanted.__name__}, not {said[name]!r}")
    if not all(isinstance(one, str) for one in said.get("allowed_roles", ())):
        raise BadInput(f"{where}.allowed_roles: must be a list of texts, not {said['allowed_roles']!r}")
    if not 0 < said.get("time_range", 1) <= MOST_DAYS:
        raise BadInput(f"{where}.time_range: must be 1..{MOST_DAYS} days, not {said['time_range']!r}")
    budget = said.get("epsilon_budget", 1.0)
    if isinstance(budget, bool) or not isinstance(budget, int | float) or not 0 < budget <= 10:
        raise BadInput(f"{where}.epsilon_budget: must be a number in 0..10, not {budget!r}")
    if said.get("fields", ANONYMOUS) not in (ALL, ANONYMOUS):
        raise BadInput(f"{where}.fields: must be {ALL} or {ANONYMOUS}, not {said['fields']!r}")
    options = _mapping(said, "anonymize")
    _check(options, {one.name for one in fields(Options)}, f"{where}.anonymize")
    for name, value in options.items():
        wish, sound = ("a number", is_number) if name == "noise_magnitude" else ("true or false", _is_bool)
        if not sound(value):
            raise BadInput(f"{where}.anonymize.{name}: must be {wish}, not {value!r}")
    return made(Rule, said)


def _is_bool(value: object) -> bool:
    return isinstance(value, bool)


def _check(said: Mapping[str, Any], known: set[str], where: str) -> None:
    for name in said.keys() - known:
        raise BadInput(f"{where}.{name}: unknown field (allowed: {', '.join(sorted(known))})")


def _mapping(raw: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = raw.get(name) or {}
    if not isinstance(value, dict):
        raise BadInput(f"{ACCESS}: {name}: must be a mapping")
    return value


def allowed(
    rule: Rule, role: str, approved_by: str | None, since: datetime | None, now: datetime
) -> datetime:
    """From when on rows may be exported; bad input where they may not be at all."""
    if role not in rule.allowed_roles:
        raise BadInput(
            f"{ACCESS}: allowed_roles: {role!r} is none of {', '.join(rule.allowed_roles)} ({ROLE}, --role)"
        )
    if rule.require_approval and not approved_by:
        raise BadInput(f"{ACCESS}: require_approval: say who approved it (--approved-by NAME)")
    oldest = now - timedelta(days=rule.time_range)
    if since is not None and since < oldest:
        raise BadInput(
            f"{ACCESS}: time_range: {rule.time_range} days, --since {since:%Y-%m-%d} is before that"
        )
    return since or oldest


def log_access(repo: Repo, rule: Rule, **said: Any) -> None:
    """One line for each export that was asked for, whatever became of it."""
    import orjson

    if not rule.log_access:
        return
    path = repo / LOG
    path.parent.mkdir(parents=True, exist_ok=True)
    line = orjson.dumps({"ts": datetime.now(UTC).isoformat(timespec="milliseconds"), **said}) + b"\n"
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, line)
    finally:
        os.close(descriptor)
