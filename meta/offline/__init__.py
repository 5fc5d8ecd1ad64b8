"""What the offline model makes of the tasks that improve agents: critiques, proposals and patches."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agents.manifest import Manifest
    from agents.offline.rules import Analyst


def analysts(manifest: Manifest) -> dict[str, Analyst]:
    """The tasks of the manifest's domain, and those that improve its agents."""
    from agents.domain import load_domain
    from agents.offline.analysts import GENERIC
    from agents.offline.rules import Analyst, tables
    from meta.offline import critique, patch, propose

    keys = tables(Path(__file__).with_name("analysts.yaml"))
    known = {**GENERIC, **load_domain(manifest.domain).analysts}
    return {
        **known,
        "critique": Analyst(critique.answer, {**GENERIC["review"].keys, **keys["critique"]}),
        "propose": Analyst(propose.knowing(known), keys["propose"]),
        "patch": Analyst(patch.answer),
    }
