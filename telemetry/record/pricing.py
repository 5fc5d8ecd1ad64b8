"""Prices a model call, and says by whom the price was told."""

from __future__ import annotations

import functools
import sys
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from genai_prices.types import ModelPrice


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one call. `cached` is part of `tokens_in`, `thinking` part of `tokens_out`; None is unknown."""

    tokens_in: int | None = None
    tokens_out: int | None = None
    cached: int | None = None
    thinking: int | None = None


@dataclass(frozen=True, slots=True)
class Override:
    """Prices given by a person, in USD per million tokens; they win over the price list."""

    prompt_per_mtok: float
    completion_per_mtok: float


@dataclass(frozen=True, slots=True)
class Cost:
    """An amount and where it comes from: provider, override, price_list or unknown."""

    usd: float | None
    source: str
    price_list_version: str | None = None


UNKNOWN = Cost(None, "unknown")


def cost(
    model: str,
    usage: Usage,
    *,
    provider: str | None = None,
    override: Override | None = None,
    reported_usd: float | None = None,
) -> Cost:
    """What the provider reported, else the override, else the price list, else unknown: never zero by default.

    A provider's zero is not believed of a model that has a price.
    """
    if reported_usd or (
        reported_usd is not None and not is_priced(model, provider=provider, override=override)
    ):
        return Cost(reported_usd, "provider")
    if usage.tokens_in is None or usage.tokens_out is None:
        return UNKNOWN
    if override is not None:
        asked, answered = override.prompt_per_mtok, override.completion_per_mtok
        return Cost((usage.tokens_in * asked + usage.tokens_out * answered) / 1e6, "override")
    price = _price(model, provider)
    if price is None:
        _warn_unpriced(model)
        return UNKNOWN
    return Cost(_listed(price, usage), "price_list", price_list_version())


def is_priced(model: str, *, provider: str | None = None, override: Override | None = None) -> bool:
    """Whether a call of this model can be priced before it is made."""
    return override is not None or _price(model, provider) is not None


@functools.cache
def price_list_version() -> str:
    """Which bundled price list priced a row."""
    from importlib.metadata import version

    return f"genai-prices {version('genai-prices')}"


@functools.cache
def _price(model: str, provider: str | None) -> ModelPrice | None:
    """The list price of a model, looked up once per process (a look-up scans every known model)."""
    from genai_prices import Usage as ListUsage
    from genai_prices import calc_price

    none_used = ListUsage(input_tokens=0, output_tokens=0)
    for provider_id in (provider, None):
        try:
            return calc_price(none_used, model_ref=model, provider_id=provider_id).model_price
        except LookupError:
            continue
    return None


@functools.cache
def _warn_unpriced(model: str) -> None:
    """Once per model and process."""
    print(f"pricing: no price known for model {model!r}; its cost is logged as unknown", file=sys.stderr)


def _listed(price: ModelPrice, usage: Usage) -> float:
    """The list price of `usage`: one multiplication, which the library takes a hundred times as long for."""
    tokens_in, tokens_out, cached = usage.tokens_in or 0, usage.tokens_out or 0, usage.cached or 0
    rates = [_rate(one, tokens_in) for one in (price.input_mtok, price.output_mtok, price.cache_read_mtok)]
    fresh, answer = rates[:2]
    reused = fresh if rates[2] is None else rates[2]
    # A model with extra units (audio, images, separate thinking prices) is left to the library.
    if fresh is not None and answer is not None and reused is not None and cached <= tokens_in:
        return ((tokens_in - cached) * fresh + tokens_out * answer + cached * reused) / 1e6
    from genai_prices import Usage as ListUsage

    counted = ListUsage(input_tokens=tokens_in, output_tokens=tokens_out, cache_read_tokens=cached)
    return float(price.calc_price(counted)["total_price"])


def _rate(price: Any, tokens_in: int) -> float | None:
    """Dollars per million tokens in a call of that many; a tiered price is that of the last tier it exceeds."""
    if tiers := getattr(price, "tiers", None):
        beyond = [tier.price for tier in tiers if tokens_in > tier.start]
        price = beyond[-1] if beyond else price.base
    return float(price) if isinstance(price, int | float | Decimal) else None
