"""Tells when the endpoint is going to shut a model down: models that list a `shutdown_date` are asked once a day."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from urllib.parse import quote

from agents.model.wire import Address, Wire
from telemetry.edge.files import SCRATCH, Repo, write_json
from telemetry.edge.frozen import frozen
from telemetry.edge.records import load_json

WARN_DAYS = 90
LIMIT_S = 5.0  # for all models of an endpoint together
CACHE = SCRATCH / "shutdown.json"


async def warning(repo: Repo, base_url: str, api_key: str, models: Sequence[str]) -> str:
    """One line about the models that go within `WARN_DAYS`, empty if none is known to; never raises."""
    today = datetime.now(UTC).date()
    kept, where = _read(repo / CACHE), Address.of(base_url).url
    names = {model: f"{where} {model}" for model in dict.fromkeys(models)}
    stale = [model for model, name in names.items() if kept.get(name, {}).get("asked") != str(today)]
    if stale:
        dates = await looked_up(base_url, api_key, stale)
        for model in stale:
            # What could not be learnt is not asked again today either: a warning must not slow down every script.
            kept[names[model]] = {"asked": str(today), "shutdown_date": dates[model].shutdown_date}
        _keep(repo / CACHE, kept)
    return told({model: kept[name].get("shutdown_date") for model, name in names.items()}, today)


def told(dates: dict[str, str | None], today: date) -> str:
    """The models that are about to go, soonest first."""
    left = {model: (_day(text) - today).days for model, text in dates.items() if text}
    soon = sorted((days, model) for model, days in left.items() if days <= WARN_DAYS)
    if not soon:
        return ""
    when = [
        f"{model} {'will be' if days > 0 else 'was to be'} shut down on {dates[model]}"
        + (f", in {days} days" if days > 0 else "")
        for days, model in soon
    ]
    return f"Warning: {'; '.join(when)}. Try a successor: python -m eval.ab_testing --model NAME"


@frozen
class Listed:
    """What an endpoint says of a model: the status of its answer (0: none came), and the date if it lists one."""

    status: int = 0
    shutdown_date: str | None = None
    unknown: bool = False  # it lists models, and this one is not among them


async def looked_up(base_url: str, api_key: str, models: Sequence[str]) -> dict[str, Listed]:
    """What the endpoint says of each of these models; never raises."""
    found = dict.fromkeys(models, Listed())
    wire = Wire.open(asyncio.get_running_loop(), api_key, Address.of(base_url))

    async def ask(model: str) -> None:
        response = await wire.asked("GET", f"/models/{quote(model, safe='')}")
        # An endpoint that has no such page at all says 404 too, but not of which model.
        unknown = response.status == 404 and model.encode() in response.content
        found[model] = Listed(response.status, unknown=unknown)
        listed = load_json(response.content)["shutdown_date"] if response.status == 200 else None
        if isinstance(listed, str):
            found[model] = Listed(response.status, str(_day(listed)))

    try:
        async with asyncio.timeout(LIMIT_S):
            await asyncio.gather(*map(ask, models), return_exceptions=True)
    except TimeoutError:
        return found
    finally:
        await wire.close()
    return found


def _day(text: str) -> date:
    return date.fromisoformat(text[:10])


def _entry(row: dict[str, str | None]) -> dict[str, str | None]:
    listed = row["shutdown_date"]
    return {"asked": row["asked"], "shutdown_date": None if listed is None else str(_day(listed))}


def _read(path: Path) -> dict[str, dict[str, str | None]]:
    try:
        return {name: _entry(row) for name, row in load_json(path.read_bytes()).items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):  # it is only a cache: ask again
        return {}


def _keep(path: Path, kept: dict[str, dict[str, str | None]]) -> None:
    try:
        write_json(path, kept)
    except OSError:  # a full or read-only disk: ask again next time
        return
