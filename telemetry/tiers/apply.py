"""Every tier, everywhere: the live log sealed, then the checkout, the data branch and the database."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, date, datetime, timedelta
from typing import Any

from telemetry.edge.files import Repo
from telemetry.read.server import DSN
from telemetry.tiers import database, here, remote
from telemetry.tiers.ages import ages


def apply(
    repo: Repo,
    *,
    dry_run: bool = False,
    everywhere: bool = True,
    today: date | None = None,
    seal: Callable[[Repo, date], Any],
) -> dict[str, int]:
    """Do what is due, or say what that would be: figures by what they count."""
    day, kept = today or datetime.now(UTC).date(), ages(repo)
    if not dry_run:
        seal(repo, day - timedelta(days=kept.hot))
    due = here.plan(repo, kept, day)
    if not dry_run:
        here.carry_out(repo, due, kept, day)
    told = {f"here: {name}": count for name, count in due.told().items()}
    if not everywhere:
        return told
    if _has_origin(repo) and (thinned := remote.thin(repo.root, kept, day, dry_run=dry_run)):
        told |= {f"data branch: {name}": count for name, count in asdict(thinned).items()}
    if dsn := os.environ.get(DSN, "").strip():
        told |= {f"database: {name}": n for name, n in database.thin(dsn, kept, day, dry_run=dry_run).items()}
    return told


def _has_origin(repo: Repo) -> bool:
    from telemetry.edge.git import GitRefused, git

    try:
        return b"origin" in git(repo.root, "remote").split()
    except (GitRefused, OSError):
        return False
