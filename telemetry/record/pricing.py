"""Prices a model call, and says by whom the price was told.

To load the price list costs as much as 150 calls: what it says of a model at any time is kept in `.ratchet/`, under the
version of the list.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from telemetry.edge.files import SCRATCH, here, write_json
from telemetry.edge.frozen import frozen
from telemetry.edge.records import load_json

if TYPE_CHECKING:
    from genai_prices.types import ModelPrice, PriceCalculation

KEPT = SCRATCH / "prices.json"
# USD per million tokens of a call with more tokens in than that; the last counts.
Rate = tuple[tuple[int, float], ...]


@frozen
class Usage:
    """Tokens of one call. `cached` is part of `tokens_in`, `thinking` part of `tokens_out`; None is unknown."""

    tokens_in: int | None = None
    tokens_out: int | None = None
    cached: int | None = None
    thinking: int | None = None


@frozen
class Override:
    """Prices given by a person, in USD per million tokens; they win over the price list."""

    prompt_per_mtok: float
    completion_per_mtok: float


@frozen
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
    rates = _rates(model, provider)
    if rates is None:
        _warn_unpriced(model)
        return UNKNOWN
    return Cost(_listed(rates, usage, model, provider), "price_list", price_list_version())


def is_priced(model: str, *, provider: str | None = None, override: Override | None = None) -> bool:
    """Whether a call of this model can be priced before it is made."""
    return override is not None or _rates(model, provider) is not None


@functools.cache
def price_list_version() -> str:
    """Which bundled price list priced a row."""
    from importlib.metadata import version

    return f"genai-prices {version('genai-prices')}"


@frozen
class Rates:
    """The list prices of a model; None where the list has none, or counts in other units."""

    fresh: Rate | None
    answer: Rate | None
    reused: Rate | None


@functools.cache
def _rates(model: str, provider: str | None) -> Rates | None:
    """What the list says of a model, None if it does not know it; looked up once per process."""
    name, kept = f"{provider or ''}/{model}", _kept()
    if name in kept:
        try:
            return None if kept[name] is None else Rates(*map(_rate_of, kept[name]))
        except (TypeError, ValueError):  # not written by us: look it up
            kept = {}
    found = _found(model, provider)
    rates = None if found is None else _rates_of(found.model_price)
    # One of several goes by the day or the hour.
    if found is None or not isinstance(found.model.prices, list):
        told = rates and [rates.fresh, rates.answer, rates.reused]
        _keep(kept | {name: told})
    return rates


def _kept() -> dict[str, Any]:
    try:
        kept = load_json((here() / KEPT).read_bytes())
        prices: dict[str, Any] = kept["prices"] if kept["list"] == price_list_version() else {}
        return prices if isinstance(prices, dict) else {}
    except (OSError, ValueError, KeyError, TypeError):  # none yet, or none of ours
        return {}


def _keep(prices: Mapping[str, Any]) -> None:
    try:
        write_json(here() / KEPT, {"list": price_list_version(), "prices": prices})
    except OSError:  # a full disk, or one that is read only: looked up again next time
        return


def _found(model: str, provider: str | None) -> PriceCalculation | None:
    """What the library finds; a look-up scans every known model."""
    from genai_prices import Usage as ListUsage
    from genai_prices import calc_price

    for provider_id in (provider, None):
        try:
            return calc_price(
                ListUsage(input_tokens=0, output_tokens=0), model_ref=model, provider_id=provider_id
            )
        except LookupError:
            continue
    return None


@functools.cache
def _warn_unpriced(model: str) -> None:
    """Once per model and process."""
    print(f"pricing: no price known for model {model!r}; its cost is logged as unknown", file=sys.stderr)


def _listed(rates: Rates, usage: Usage, model: str, provider: str | None) -> float:
    """The list price of `usage`: one multiplication, which the library takes a hundred times as long for."""
    tokens_in, tokens_out, cached = usage.tokens_in or 0, usage.tokens_out or 0, usage.cached or 0
    fresh, answer = rates.fresh, rates.answer
    # A model with extra units (audio, images, separate thinking prices) is left to the library.
    if fresh is not None and answer is not None and cached <= tokens_in:
        new = (tokens_in - cached) * _at(fresh, tokens_in)
        again = cached * _at(rates.reused or fresh, tokens_in)
        return (new + tokens_out * _at(answer, tokens_in) + again) / 1e6
    from genai_prices import Usage as ListUsage

    found = _found(model, provider)
    assert found is not None
    counted = ListUsage(input_tokens=tokens_in, output_tokens=tokens_out, cache_read_tokens=cached)
    return float(found.model_price.calc_price(counted)["total_price"])


def _at(rate: Rate, tokens_in: int) -> float:
    """The price in a call of that many tokens: that of the last tier it exceeds."""
    price = rate[0][1]
    for start, above in rate[1:]:
        if tokens_in > start:
            price = above
    return price


def _rates_of(price: ModelPrice) -> Rates:
    return Rates(*map(_rate, (price.input_mtok, price.output_mtok, price.cache_read_mtok)))


def _rate(price: Any) -> Rate | None:
    from decimal import Decimal

    base = getattr(price, "base", price)
    if not isinstance(base, int | float | Decimal):
        return None
    return ((0, float(base)), *((tier.start, float(tier.price)) for tier in getattr(price, "tiers", ())))


def _rate_of(kept: Any) -> Rate | None:
    return None if kept is None else tuple((int(start), float(price)) for start, price in kept)
