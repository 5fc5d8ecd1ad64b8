"""What waits for you this morning? Edits the one pinned issue "Ratchet: this morning", and tells a webhook.

What waits (the most consequential first), what is still being tested, spend of the night and of the month, drift, what
failed. `RATCHET_WEBHOOK` (Slack or Discord) hears of it only when something waits. The badge of the README and the
picture of the nights go to the data branch, with `SYNC_TOKEN`. `--dry-run` only prints.
"""

from __future__ import annotations

import argparse
import os
from datetime import UTC, datetime

from telemetry.edge import cli
from telemetry.edge.cli import job_summary
from telemetry.edge.files import Repo


def parser() -> cli.Parser:
    flags = cli.Parser(__doc__)
    flags.add_argument("--dry-run", action="store_true", help="print it; change nothing, tell nobody")
    return flags


@cli.entry(parser)
def main(args: argparse.Namespace, repo: Repo) -> int:
    from eval.ledger.provenance import history
    from meta.pulls import morning
    from meta.pulls.hub import from_environment
    from meta.site.pictures import by_night, in_words, pictures, promotions
    from telemetry.branch.remote import DataBranch

    hub, now = from_environment(), datetime.now(UTC)
    found = morning.gather(hub, repo, now)
    nights = by_night(history(repo, "eval"))
    body = found.markdown(now, in_words(nights))
    where = ""
    if not args.dry_run:
        if os.environ.get("SYNC_TOKEN"):
            drawn = pictures(nights, promotions(repo), len(found.waiting))
            DataBranch(repo.root).publish(drawn, "Draw the pictures of this morning", renew=True)
        where = morning.publish(hub, body)
        webhook = os.environ.get("RATCHET_WEBHOOK", "")
        if webhook and found.waiting:
            morning.notify(webhook, found.message())
    job_summary(body)
    cli.tell(args, {"waiting": len(found.waiting), "issue": where}, body, where)
    return cli.OK


if __name__ == "__main__":
    raise SystemExit(main())
