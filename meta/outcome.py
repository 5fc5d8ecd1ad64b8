"""How did publishing go? Turns what the workflow's steps report into the job summary a person reads."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping

from meta.publish import kinds
from telemetry.edge import cli
from telemetry.edge.cli import job_summary
from telemetry.edge.files import Repo


def outcome(form: kinds.Kind, facts: Mapping[str, str]) -> str:
    """How publishing went, from what the workflow's steps report: the text of the job summary."""
    server = facts.get("GITHUB_SERVER_URL", "https://github.com")
    default = facts.get("DEFAULT_BRANCH") or "main"
    compare = f"{server}/{facts.get('GITHUB_REPOSITORY', '')}/compare/{default}...{form.branch}?expand=1"
    lines = [f"### {form.title}", ""]
    if facts.get("GUARD_OUTCOME") != "success":
        lines += ["No pull request was opened: the change was not fit to be applied (see the guard's step)."]
    elif facts.get("PR_OUTCOME") != "success":
        lines += [
            f"**The pull request could not be opened.** The branch `{form.branch}` may have been pushed all the same:",
            f"[open it by hand]({compare}).",
            "",
            "The usual reason is a 403: allow it under Settings > Actions > General >"
            " *Allow GitHub Actions to create and approve pull requests*, or set the secret `BOT_TOKEN`.",
        ]
    elif facts.get("PR_NUMBER"):
        operation = facts.get("PR_OPERATION") or "opened"
        lines.append(f"Pull request [#{facts['PR_NUMBER']}]({facts.get('PR_URL', '')}) {operation}.")
        if facts.get("HAS_BOT_TOKEN") != "true":
            lines += ["", "No `BOT_TOKEN` is set, so its checks wait for a person's approval."]
    else:
        lines.append(f"`{default}` already holds this change: no pull request is needed for `{form.branch}`.")
    return "\n".join(lines)


def parser() -> cli.Parser:
    """The command line."""
    flags = cli.Parser(__doc__)
    flags.add_argument("--kind", required=True, help="kind of change: " + ", ".join(sorted(kinds.KINDS)))
    return flags


@cli.entry(parser)
def main(args: argparse.Namespace, _repo: Repo) -> int:
    """Tell it in the log and in the job summary."""
    told = outcome(kinds.kind(args.kind), os.environ)
    job_summary(told)
    cli.tell(args, {"told": told}, told)
    return cli.OK


if __name__ == "__main__":
    raise SystemExit(main())
