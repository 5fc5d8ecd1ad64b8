"""Makes what leaves anonymous: tenants, personal data, file and variable names."""

from __future__ import annotations

import os
import random
import re
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final

from telemetry.batches import personal
from telemetry.edge.errors import BadInput
from telemetry.edge.frozen import frozen

SECRET: Final = "RATCHET_TENANT_SECRET"
LEAST_SECRET: Final = 16  # characters: a shorter one can be guessed, and with it every tenant's id
# A path with a folder, or a name with an ending that code or documents have.
_FILE: Final = re.compile(
    r"(?<![\w@])(?:[A-Za-z]:)?(?:~|\.{1,2})?(?:[/\\][\w.\-]+){2,}|(?<![\w./-])[\w-]+(?:/[\w.-]+)*\."
    r"(?:py|js|ts|go|rs|java|c|h|cpp|md|txt|csv|tsv|jsonl?|ya?ml|toml|ini|cfg|sql|sh|ipynb|parquet|docx?|xlsx?|pdf|log)\b"
)
_VARIABLE: Final = re.compile(
    r"\b(?:[a-z]+(?:_[a-z0-9]+)+|[a-z]+(?:[A-Z][a-z0-9]+)+|[A-Z]+(?:_[A-Z0-9]+)+)\b"
)
_WORD: Final = re.compile(r"[^\W\d_]+")
_DIGIT: Final = re.compile(r"\d")


@frozen
class Options:
    """What is done; as `anonymize:` in telemetry/access.yaml has it."""

    strip_tenant_identifiers: bool = False  # no tenant at all, in place of a replaced one
    replace_tenant_ids: bool = True  # by a keyed hash: the same tenant stays the same, nobody can tell which
    remove_file_names: bool = False
    remove_variable_names: bool = False
    keep_structure_only: bool = False  # every word and digit blanked: JSON stays JSON, nothing is said
    add_noise_to_rewards: bool = False
    noise_magnitude: float = 0.0  # standard deviation, on rewards of about -1..1


@dataclass(slots=True)
class Anonymiser:
    """Applies the options."""

    options: Options
    tenants: Collection[str] = ()  # whose ids may stand in texts
    chance: random.Random = field(default_factory=random.SystemRandom)
    _ids: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        tenants = [one for one in self.tenants if one]
        if not tenants:
            return
        if self.options.strip_tenant_identifiers:
            self._ids = dict.fromkeys(tenants, "[tenant]")
        elif self.options.replace_tenant_ids:
            import hmac

            secret = os.environ.get(SECRET, "")
            if len(secret) < LEAST_SECRET:
                said = f"must hold at least {LEAST_SECRET} characters: tenant ids are replaced by a hash with that key"
                raise BadInput(f"{SECRET}: {said}")
            self._ids = {
                one: f"tenant-{hmac.new(secret.encode(), one.encode(), 'sha256').hexdigest()[:16]}"
                for one in tenants
            }

    def tenant(self, tenant_id: str | None) -> str | None:
        """Who it was for, as it leaves."""
        if tenant_id is None or self.options.strip_tenant_identifiers:
            return None
        return self._ids.get(tenant_id, tenant_id)

    def text(self, text: str) -> str:
        """A text as it leaves."""
        for tenant in sorted(self._ids, key=len, reverse=True):
            if tenant in text:
                text = re.sub(rf"(?<!\w){re.escape(tenant)}(?!\w)", self._ids[tenant], text)
        text = personal.without(text)
        if self.options.remove_file_names:
            text = _FILE.sub("[file]", text)
        if self.options.remove_variable_names:
            text = _VARIABLE.sub("[name]", text)
        if self.options.keep_structure_only:
            text = _DIGIT.sub("0", _WORD.sub("x", text))
        return text

    def reward(self, reward: float | None) -> float | None:
        """A reward as it leaves, with noise if asked for."""
        options = self.options
        if reward is None or not (options.add_noise_to_rewards and options.noise_magnitude):
            return reward
        return round(reward + self.chance.gauss(0.0, options.noise_magnitude), 6)

    def leftover(self, text: str) -> str | None:
        """Why a text that was made anonymous still may not leave; None if nothing is found in it."""
        if found := personal.find(text):
            return f"{found[0].kind} left in a text"
        kept = not (self.options.strip_tenant_identifiers or self.options.replace_tenant_ids)
        named = (
            []
            if kept
            else [one for one in self.tenants if one and re.search(rf"(?<!\w){re.escape(one)}(?!\w)", text)]
        )
        return "a tenant named in a text" if named else None
