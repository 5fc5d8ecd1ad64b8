"""Can a run succeed? Looks at key, model, price, budget, suites and GitHub's settings before anything is spent.

The first step of every workflow that asks a model, and by hand (GitHub's part with `GITHUB_REPOSITORY=owner/name` and
`HUB_TOKEN`). A line that begins with BAD says which page of the settings to open and what to click there; exit code 2
if there is one. What a token may not see is told as unknown, and never taken for wrong or right.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from meta.pulls.settings import SECRETS, VARIABLES, Check, Level, of_repository
from telemetry.edge import cli
from telemetry.edge.errors import BadInput, Stopped
from telemetry.edge.files import MANIFEST, Repo

if TYPE_CHECKING:
    from agents.manifest import Manifest


def checks(repo: Repo, kind: str = "") -> Iterator[Check]:
    """Everything that is known to stop a run of that kind (any), or is worth knowing; nothing asked costs a cent."""
    from agents.manifest import load_manifest
    from meta.publish import kinds

    if os.environ.get("RATCHET_PAUSE"):
        yield Check(Level.BAD, "pause", "RATCHET_PAUSE is set", f"{VARIABLES} > RATCHET_PAUSE > Delete")
    try:
        manifest = load_manifest(repo)
    except BadInput as problem:
        yield Check(Level.BAD, "manifest", str(problem), f"edit {MANIFEST}")
        return
    yield from _suites(repo, manifest)
    yield from _model(manifest)
    yield from of_repository([kinds.kind(kind)] if kind else list(kinds.KINDS.values()))


def _suites(repo: Repo, manifest: Manifest) -> Iterator[Check]:
    """Whether every suite is the one that was pinned."""
    from eval.grading.suite import Suites

    suites, found = Suites(repo), 0
    for path in dict.fromkeys(spec.eval_suite for spec in manifest.agents if spec.eval_suite):
        try:
            suites.load(path)
            found += 1
        except BadInput as problem:
            yield Check(Level.BAD, "suites", str(problem), "python -m eval.suites pin, and commit it")
    yield Check(Level.OK, "suites", f"{found} pinned")


def _model(manifest: Manifest) -> Iterator[Check]:
    """Whether the endpoint takes the key and knows the models, at a known price, within the month's budget."""
    from agents.llm_client import ModelOptions, endpoint_from_env

    named = list(dict.fromkeys(spec.model for spec in manifest.enabled() if spec.model))
    try:
        endpoint = endpoint_from_env(manifest.model.name)
    except BadInput as problem:
        yield Check(Level.BAD, "key", str(problem), f"{SECRETS} > OPENAI_API_KEY > Update")
        return
    if endpoint is None:
        yield Check(Level.OK, "model", f"the offline model; for a real one: {SECRETS} > OPENAI_API_KEY")
        return
    key, address, usual = endpoint
    yield from _reached(key, address, list(dict.fromkeys([usual, *named])))
    try:
        ModelOptions().within(manifest).model(named)
        month = manifest.budget.month
        yield Check(Level.OK, "budget", "prices are known" + (f", ${month:g} a month" if month else ""))
    except BadInput as problem:
        yield Check(Level.BAD, "price", str(problem), f"edit {MANIFEST}")
    except Stopped as problem:
        yield Check(Level.BAD, "budget", str(problem), f"raise budget.month in {MANIFEST}, or wait")


def _reached(key: str, address: str, models: list[str]) -> Iterator[Check]:
    import asyncio
    from datetime import UTC, datetime

    from agents.model.shutdown import WARN_DAYS, looked_up, told

    found = asyncio.run(looked_up(address, key, models))
    for model, listed in found.items():
        status = listed.status
        if status == 0:
            where = f"{VARIABLES} > OPENAI_BASE_URL"
            yield Check(Level.BAD, "model", f"no answer from {address} about {model}", where)
        elif status in (401, 403):
            refused = f"the endpoint refused the key ({status})"
            yield Check(Level.BAD, "key", refused, f"{SECRETS} > OPENAI_API_KEY > Update")
        elif status >= 500:
            yield Check(Level.BAD, "model", f"the endpoint is out of order ({status})", "run again later")
        elif listed.unknown:
            where = f"{VARIABLES} > OPENAI_MODEL, or model: in {MANIFEST}"
            yield Check(Level.BAD, "model", f"the endpoint knows no {model}", where)
        else:
            unsaid = f"the endpoint does not say whether it has it ({status})"
            yield Check(Level.OK, "model", f"{model}: {'reachable' if status == 200 else unsaid}")
    dates = {model: listed.shutdown_date for model, listed in found.items()}
    warned = told(dates, datetime.now(UTC).date())
    calm = f"no model is known to go within {WARN_DAYS} days"
    yield Check(Level.NOTE if warned else Level.OK, "shutdown", warned or calm)


def parser() -> cli.Parser:
    flags = cli.Parser(__doc__)
    flags.add_argument("--kind", default="", help="look only at what a run of this kind needs")
    return flags


@cli.entry(parser)
def main(args: argparse.Namespace, repo: Repo) -> int:
    found = list(checks(repo, args.kind))
    bad = [one for one in found if one.level is Level.BAD]
    if bad:
        listed = "\n".join(f"- {one.markdown}" for one in bad)
        cli.job_summary(f"### Preflight: this run would not succeed, nothing was spent\n\n{listed}")
    rows = [{"level": one.level.value, "what": one.what, "told": one.told, "do": one.do} for one in found]
    cli.tell(args, rows, *(str(one) for one in found))
    return cli.BAD_INPUT if bad else cli.OK


if __name__ == "__main__":
    raise SystemExit(main())
