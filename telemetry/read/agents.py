"""Whom the manifest names, for who counts their rows; what else is wrong with it is for others to say."""

from __future__ import annotations

from telemetry.edge.errors import BadInput
from telemetry.edge.files import MANIFEST, Repo
from telemetry.edge.records import load_yaml


def named_agents(repo: Repo) -> dict[str, bool]:
    """Every agent by its name, and whether it is enabled."""
    try:
        raw = load_yaml((repo / MANIFEST).read_bytes())
    except BadInput as problem:
        raise BadInput(f"{MANIFEST}: {problem}") from None
    entries = raw.get("agents") if isinstance(raw, dict) else None
    if not isinstance(entries, list):
        raise BadInput(f"{MANIFEST}: agents: must be a list of agents")
    defaults = raw.get("defaults")
    usual = defaults.get("enabled", True) if isinstance(defaults, dict) else True
    agents = [entry for entry in entries if isinstance(entry, dict)]
    return {str(agent.get("name")): bool(agent.get("enabled", usual)) for agent in agents}
