"""The page a person reads over coffee: what waits for them, what is still being tested, its cost, what went wrong."""

from __future__ import annotations

import json
import os
import urllib.request
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from html import escape
from pathlib import PurePosixPath
from typing import Any, Final
from urllib.parse import urlsplit

from agents.texts.variants import name_of
from eval import drift
from eval.ledger.provenance import history
from meta.publish.kinds import KINDS
from meta.pulls.commands import kind_of
from meta.pulls.hub import Hub, HubRefused, Row
from meta.pulls.settings import VARIABLES, linked
from telemetry.edge.errors import BadInput
from telemetry.edge.files import Repo
from telemetry.edge.frozen import frozen
from telemetry.edge.text import cell, code
from telemetry.read.rows import Window
from telemetry.read.store import connect

TITLE: Final = "Ratchet: this morning"
LABEL: Final = "ratchet-morning"  # by which the issue is found again, also when somebody renamed it
SECONDS: Final = 15  # for a webhook
# The most consequential first: what goes live, what is switched off or on, code, then what is only to be read.
ORDER: Final = (
    *("ab_champion", "ab_model", "backtest", "retirement_disable", "revival", "sandbox"),
    *("proposals", "new_cases", "retirement", "critiques"),
)
_PIN: Final = "mutation($id: ID!) { pinIssue(input: {issueId: $id}) { clientMutationId } }"


@frozen
class Waiting:
    """One open pull request of ours."""

    kind: str
    number: int
    url: str
    title: str
    said: str  # the first line of its body
    draft: bool

    @property
    def told(self) -> str:
        draft = " (draft)" if self.draft else ""
        said = f": {cell(self.said, 200)}" if self.said else ""
        return f"[#{self.number}]({self.url}) {cell(self.title, 120)}{draft}{said}"


@frozen
class Spend:
    """What model calls cost since some time."""

    calls: int
    usd: float
    unpriced: int

    @property
    def told(self) -> str:
        unpriced = f" and {self.unpriced} call{'s' * (self.unpriced != 1)} of unknown price"
        return f"${self.usd:.2f}{unpriced if self.unpriced else ''} for {self.calls:,} calls"


@frozen
class Morning:
    waiting: Sequence[Waiting]
    testing: Sequence[str]
    night: Spend
    month: Spend
    drift: Sequence[str]  # what `eval.drift` found last, and a model that is about to be shut down
    failed: Sequence[tuple[str, str]]  # what, and where to look
    paused: bool = False  # by the variable RATCHET_PAUSE

    def markdown(self, now: datetime, nights: str = "") -> str:
        """The issue's body; `nights` tells and shows the score over nights."""
        pause = f"> [!IMPORTANT]\n> Paused: nothing is run until {linked(VARIABLES)} > `RATCHET_PAUSE` is deleted."
        waiting = [f"{number}. {one.told}" for number, one in enumerate(self.waiting, 1)]
        parts = [
            *([pause] if self.paused else ()),
            _part("Waits for you", waiting, "Nothing."),
            _part("Still being tested", [f"- {line}" for line in self.testing], "Nothing."),
            _part("Drift", [f"- {cell(line, 300)}" for line in self.drift], "None that is known."),
            _part("Failed", [f"- [{cell(name, 120)}]({url})" for name, url in self.failed], "Nothing."),
            *([f"### Cases passed\n\n{nights}"] if nights else ()),
            f"### Spend\n\nLast night {self.night.told}; this month {self.month.told}.",
            f"_{now:%A %d %B %Y, %H:%M} UTC; edited in place every morning._",
        ]
        return "\n\n".join(parts) + "\n"

    def message(self) -> str:
        """For a webhook, in plain text: what waits, and what went wrong."""
        lines = [f"{len(self.waiting)} waiting for you:"]
        lines += [f"- {one.title}{' (draft)' if one.draft else ''} {one.url}" for one in self.waiting[:10]]
        lines += [f"- failed: {name} {url}" for name, url in self.failed[:5]]
        return "\n".join(lines)


def _part(title: str, lines: Sequence[str], none: str) -> str:
    return f"### {title}\n\n" + ("\n".join(lines) or none)


def gather(hub: Hub, repo: Repo, now: datetime) -> Morning:
    found = drift.known(repo)
    return Morning(
        waiting(hub),
        testing(repo),
        spent(repo, now - timedelta(hours=24)),
        spent(repo, now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)),
        [*(one.told for one in found.alarms), *filter(None, [found.shutdown])],
        failed(hub, now),
        bool(os.environ.get("RATCHET_PAUSE")),
    )


def waiting(hub: Hub) -> list[Waiting]:
    """Open pull requests of ours, the most consequential first."""
    found = []
    for pull in hub.every("pulls", state="open"):
        if kind := kind_of(hub, pull):
            said = _first_words(str(pull.get("body") or ""))
            about = (pull["number"], pull["html_url"], pull["title"], said, bool(pull["draft"]))
            found.append(Waiting(kind.name, *about))
    assert set(ORDER) == {name for name, kind in KINDS.items() if kind.branch}, "a kind has no place in ORDER"
    return sorted(found, key=lambda one: (ORDER.index(one.kind), one.number))


def _first_words(body: str) -> str:
    """The first line of a body that says something: the mark of an alert (`[!TIP]`) does not."""
    lines = (line.lstrip("> ").replace("*", "").replace("`", "").strip() for line in body.splitlines())
    return next((line for line in lines if line and not line.startswith("[!")), "")


def testing(repo: Repo) -> list[str]:
    """Comparisons that the last A/B night left undecided."""
    last: Mapping[str, Mapping[str, Any]] = {}
    for line in history(repo, "ab_test"):
        last = {str(row.get("pair")): row for row in line.listed("comparisons")}
    return [_tested(row) for row in last.values() if row.get("verdict") == "continue"]


def _tested(row: Mapping[str, Any]) -> str:
    text = name_of(str(row.get("variant")), str(row.get("sha256") or ""))
    effect = row.get("effect")
    points = f"{100 * effect:+.1f} points" if isinstance(effect, int | float) else "no figure yet"
    return f"{code(PurePosixPath(str(row.get('prompt'))).stem)} {code(text)}: {points} after {row.get('rounds')} rounds"


def spent(repo: Repo, since: datetime) -> Spend:
    """From the rows of model calls."""
    con = connect(repo, Window(kind="llm_call", since=since))
    sums = "count(*), coalesce(sum(cost_usd), 0), count(*) filter (where cost_usd is null)"
    calls, usd, unpriced = con.execute(f"select {sums} from events").fetchone() or (0, 0.0, 0)
    return Spend(calls, usd, unpriced)


def failed(hub: Hub, now: datetime) -> list[tuple[str, str]]:
    """Workflow runs of the last day that failed on the default branch."""
    day = (now - timedelta(hours=24)).strftime("%Y-%m-%dT%H:%M:%SZ")
    default = hub.get("").get("default_branch")
    told = hub.get("actions/runs", status="failure", branch=default, created=f">={day}", per_page=50)
    return [(str(run["name"]), str(run["html_url"])) for run in told["workflow_runs"]]


def publish(hub: Hub, body: str) -> str:
    """Edit the one issue in place; make and pin it if there is none. Its address."""
    found: Iterable[Row] = hub.get("issues", labels=LABEL, state="all", per_page=20)
    issue = next((one for one in found if "pull_request" not in one), None)
    if issue is None:
        issue = hub.send("POST", "issues", {"title": TITLE, "body": body, "labels": [LABEL]})
        try:
            hub.graphql(_PIN, id=issue["node_id"])
        except HubRefused:  # three are pinned already, or the token may not: it has its label all the same
            print("::notice::The issue could not be pinned; pin it by hand if you like.")
    elif issue["body"] != body:
        hub.send("PATCH", f"issues/{issue['number']}", {"body": body})
    return str(issue["html_url"])


def notify(url: str, text: str) -> None:
    """Post to a webhook, in the form that Slack or Discord takes."""
    parts = urlsplit(url)
    if parts.scheme != "https" and parts.hostname != "127.0.0.1":
        raise BadInput("RATCHET_WEBHOOK: must begin with https://")
    value: dict[str, Any] = {"content": text[:1900], "allowed_mentions": {"parse": []}}
    if "/api/webhooks/" not in parts.path:  # not Discord but Slack, which acts on <!channel> and its like
        value = {"text": escape(text[:3000], quote=False)}
    asked = urllib.request.Request(url, json.dumps(value).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(asked, timeout=SECONDS) as answer:
            answer.read(1000)
    except OSError as problem:  # the address is a secret: it is not repeated
        print(f"::warning::The webhook did not take the message ({type(problem).__name__}).")
