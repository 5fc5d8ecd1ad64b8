"""How a model is asked, as `model:` in the manifest says it: its name, prices and limits; None is not said."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any

from telemetry.edge.frozen import frozen
from telemetry.record.pricing import Override

# What holds where nobody says anything else.
TIMEOUT_S = 60.0  # for one answer, retries and waits included; a repair has its own
MAX_TOKENS = 1800
TEMPERATURE = 0.2
CONCURRENCY = 16  # calls in flight


@frozen
class ModelSettings:
    """One `model:` of the manifest. Prices and context belong to the model of that name, the rest to who asks it."""

    name: str | None = None
    prices: Override | None = None  # 0 is a price
    timeout_s: float | None = None  # for one answer, from when the endpoint can have begun with it
    max_tokens: int | None = None  # of an answer; a model that reasons gets more for that
    temperature: float | None = None
    concurrency: int | None = None  # calls in flight
    context_tokens: int | None = None  # that question and answer may have together

    def over(self, other: ModelSettings) -> ModelSettings:
        """What is said here, and for the rest what `other` says."""
        said = {one.name: getattr(self, one.name) for one in fields(self)}
        return ModelSettings(
            **{name: getattr(other, name) if value is None else value for name, value in said.items()}
        )


UNSAID = ModelSettings()


def settings_of(value: str | Mapping[str, Any] | None) -> Mapping[str, Any]:
    """A `model:` as a mapping: a bare name is one."""
    return {"name": value} if isinstance(value, str) else value or {}


def by_name(all_settings: Iterable[ModelSettings], default: str) -> dict[str, ModelSettings]:
    """What is known of each model: said once, it holds wherever that model is asked; no name is the `default`."""
    known: dict[str, ModelSettings] = {}
    for one in all_settings:
        name = one.name or default
        known[name] = known.get(name, UNSAID).over(one)
    return known
