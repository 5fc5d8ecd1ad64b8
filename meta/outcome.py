"""How did publishing go? Turns what the workflow's steps report into the job summary a person reads."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from typing import Any

from meta.publish import kinds
from meta.pulls.settings import ALLOW, SECRETS, linked
from telemetry.edge import cli
from telemetry.edge.cli import job_summary
from telemetry.edge.errors import BadInput
from telemetry.edge.files import Repo


def outcome(form: kinds.Kind, facts: Mapping[str, str], standing: Mapping[str, Any] | None = None) -> str:
    """How publishing went, from what the workflow's steps report: the text of the job summary.

    `standing` is the open pull request of the kind where the step that opens it failed: a label that cannot be set
    fails it as well, after the pull request was opened.
    """
    server = facts.get("GITHUB_SERVER_URL", "https://github.com")
    default = facts.get("DEFAULT_BRANCH") or "main"
    compare = f"{server}/{facts.get('GITHUB_REPOSITORY', '')}/compare/{default}...{form.branch}?expand=1"
    lines = [f"### {form.title}", ""]
    if facts.get("GUARD_OUTCOME") == "failure":
        lines += ["No pull request was opened: the change was not fit to be applied (see the guard's step)."]
    elif facts.get("GUARD_OUTCOME") != "success":
        lines += [
            "No pull request was opened: an earlier step failed, so the change was not even judged. If it was the",
            "download of the hand-over, run this job again: artifacts are kept for 30 days.",
        ]
    elif standing and (missing := set(form.labels) - {label["name"] for label in standing["labels"]}):
        lines += [
            f"Pull request [#{standing['number']}]({standing['html_url']}) is open, but the labels"
            f" {', '.join(sorted(missing))} could not be set. Make them by hand under Issues > Labels, or give"
            " `BOT_TOKEN` the permission *Issues: write*.",
        ]
    elif facts.get("PR_OUTCOME") != "success":
        lines += [
            f"**The pull request could not be opened.** The branch `{form.branch}` may have been pushed all the same:",
            f"[open it by hand]({compare}).",
            "",
            f"The usual reason is that workflows may not: {linked(ALLOW)} (where it is greyed out, the organization's"
            f" page of that name has it). Or set a token of your own: {linked(SECRETS)} > `BOT_TOKEN`.",
        ]
    elif facts.get("PR_NUMBER"):
        operation = facts.get("PR_OPERATION") or "opened"
        lines.append(f"Pull request [#{facts['PR_NUMBER']}]({facts.get('PR_URL', '')}) {operation}.")
        if facts.get("HAS_BOT_TOKEN") != "true":
            lines += ["", "No `BOT_TOKEN` is set, so its checks wait for a person's approval."]
    else:
        lines.append(f"`{default}` already holds this change: no pull request is needed for `{form.branch}`.")
    return "\n".join(lines)


def _standing(kind: kinds.Kind) -> Mapping[str, Any] | None:
    """The open pull request of the kind, if GitHub says."""
    from meta.pulls.hub import HubRefused, from_environment
    from meta.pulls.settle import opened

    try:
        return opened(from_environment(), kind)
    except (BadInput, HubRefused):  # then what failed is told without it
        return None


def parser() -> cli.Parser:
    flags = cli.Parser(__doc__)
    flags.add_argument("--kind", required=True, help="kind of change: " + kinds.names())
    return flags


@cli.entry(parser)
def main(args: argparse.Namespace, _repo: Repo) -> int:
    kind = kinds.kind(args.kind)
    told = outcome(kind, os.environ, _standing(kind) if os.environ.get("PR_OUTCOME") == "failure" else None)
    job_summary(told)
    cli.tell(args, {"told": told}, told)
    return cli.OK


if __name__ == "__main__":
    raise SystemExit(main())
