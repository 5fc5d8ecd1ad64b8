"""What automation does with its own open pull request: leave a person's commit alone, take back what was overtaken."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from meta.publish.kinds import Kind
from meta.pulls.claims import overtaken
from meta.pulls.closed import OVERTAKEN, claimed, live
from meta.pulls.hub import Hub, Row
from telemetry.edge.files import Repo
from telemetry.edge.text import cell

OURS: Final = "41898282+github-actions[bot]@users.noreply.github.com"  # who commits on these branches
HELD: Final = "<!-- ratchet: left alone -->"
_CONVERT: Final = "convertPullRequestToDraft(input: {pullRequestId: $id}) { clientMutationId }"


def opened(hub: Hub, kind: Kind) -> Row | None:
    """The living pull request of a kind."""
    found = hub.get("pulls", head=f"{hub.owner}:{kind.branch}", state="open", per_page=1)
    return found[0] if found else None


def held(hub: Hub, pull: Row) -> str:
    """The first commit of a pull request that is not automation's own; empty if all are."""
    for row in hub.every(f"pulls/{pull['number']}/commits"):
        if row["commit"]["committer"]["email"] != OURS:
            return str(row["sha"])
    return ""


def hold(hub: Hub, kind: Kind) -> str:
    """Whether the branch must not be rebuilt, and why; says so below the pull request, once."""
    pull = opened(hub, kind)
    commit = held(hub, pull) if pull else ""
    if not pull or not commit:
        return ""
    told = (
        f"A newer run has something to propose here, but `{kind.branch}` holds {commit[:10]}, which is not"
        " automation's own commit: it was left as it is. Merge or close this, and the next run starts afresh."
    )
    hub.say(pull["number"], HELD, told)
    return f"[#{pull['number']}]({pull['html_url']}): {told}"


def settle(hub: Hub, repo: Repo, kind: Kind, tonight: Mapping[str, Any]) -> str:
    """Take back an open pull request that the latest run no longer bears out; what was done, empty if nothing."""
    pull = opened(hub, kind)
    if pull is None:
        return ""
    wanted = claimed(hub, kind, pull)
    gone = {claim: overtaken(kind.name, claim, partial(live, repo), tonight) for claim in wanted}
    reasons = list(dict.fromkeys(filter(None, gone.values())))
    if not reasons:
        return ""
    listed = "\n".join(f"- {cell(why, 300)}" for why in reasons)
    number, where = pull["number"], f"[#{pull['number']}]({pull['html_url']})"
    if all(gone.values()) and not held(hub, pull):
        hub.comment(number, f"{OVERTAKEN}\nThis was overtaken, so it is closed:\n\n{listed}")
        hub.send("PATCH", f"pulls/{number}", {"state": "closed"})
        hub.send("DELETE", f"git/refs/heads/{kind.branch}")
        return f"{where} was closed, it is overtaken:\n\n{listed}"
    hub.say(number, OVERTAKEN, f"Part of this was overtaken, so it is a draft now:\n\n{listed}")
    if not pull["draft"]:
        hub.graphql(f"mutation($id: ID!) {{ {_CONVERT} }}", id=pull["node_id"])
    return f"{where} is a draft now, part of it is overtaken:\n\n{listed}"
