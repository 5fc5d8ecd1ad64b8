"""The offline model as the scripts of meta/ ask it: it knows the domain of the manifest, and how to improve agents."""

from __future__ import annotations

from agents.manifest import load_manifest
from agents.offline.model import OfflineModel
from meta.offline import analysts
from telemetry.edge.repo import here


def offline() -> OfflineModel:
    """The model of the checkout that the test works in."""
    return OfflineModel(analysts=analysts(load_manifest(here())))
