"""The model that answers here: any OpenAI-compatible endpoint that the environment names, else the offline model.

`OPENAI_API_KEY`, `OPENAI_BASE_URL` and `OPENAI_MODEL` choose the endpoint, `ModelOptions` its limits: the same flags
in every script. One `complete()` is one call: JSON that fits its schema (at most one repair), one `llm_call` row, or
an `LLMError` whose `error_kind` says whose fault it was. How that is done stands in `agents/model/`.
"""

from __future__ import annotations

import argparse
import functools
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from agents.model.settings import CONCURRENCY, UNSAID, ModelSettings, by_name
from telemetry.edge.cli import note, number, whole
from telemetry.edge.errors import BadInput, Stopped
from telemetry.edge.files import MANIFEST, here
from telemetry.edge.frozen import frozen
from telemetry.edge.text import remember

if TYPE_CHECKING:
    import asyncio

    from agents.manifest import BudgetLimits, Manifest
    from agents.model.budget import Budget
    from agents.model.call import Completion, Message, Model
    from agents.offline.rules import Analyst
    from telemetry.record.pricing import Override

ENVIRONMENT = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_MODEL")
# Flags of the same names.
_ASKED = ("timeout_s", "max_tokens", "temperature", "concurrency", "context_tokens")


@frozen
class ModelOptions:
    """How to ask; the defaults are those of the command line. A limit of None is none, until `within` says one."""

    max_usd: float | None = None
    max_calls: int | None = None
    max_seconds: float | None = None
    month: float | None = None
    timeout_s: float | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    concurrency: int | None = None
    context_tokens: int | None = None
    seed: int = 0
    offline_noise: float = 0.0
    price: Override | None = None
    # Keep answers and use those kept: True any, None those at temperature 0, False none.
    cache: bool | None = None
    evals: bool = False  # only they use kept answers: an A/B test asks
    usual: ModelSettings = UNSAID  # the manifest's `model:`
    others: tuple[ModelSettings, ...] = ()  # and those of its agents

    def within(self, manifest: Manifest, budget: BudgetLimits | None = None) -> ModelOptions:
        """The same, with what the manifest says where nothing was given; `budget` instead of the manifest's."""
        limits = budget or manifest.budget
        unsaid = {one.name: getattr(limits, one.name) for one in fields(limits)}
        unsaid = {name: limit for name, limit in unsaid.items() if getattr(self, name) is None}
        return replace(self, **unsaid, usual=manifest.model, others=manifest.models)

    def limits(self) -> tuple[float | None, int | None, float | None]:
        """USD, calls and seconds; what is left of the month may be less than what a night may cost."""
        if self.month is None:
            return self.max_usd, self.max_calls, self.max_seconds
        left = self.month - spent_this_month()
        if left <= 0:
            raise Stopped(
                f"budget: month {self.month:g} reached ({MANIFEST}): nothing is asked until the next"
            )
        return min(left, self.max_usd or left), self.max_calls, self.max_seconds

    @property
    def at_once(self) -> int:
        """Calls in flight."""
        return self.concurrency or self.usual.concurrency or CONCURRENCY

    def model(
        self, models: Iterable[str | None] = (), analysts: Mapping[str, Analyst] | None = None
    ) -> Model:
        """The model that the environment names, within these limits; `models` are those agents ask beside it."""
        return model_from_env(self, models, analysts)


def add_model_flags(
    made: argparse.ArgumentParser, *, seed: str = "of the offline noise", without: Sequence[str] = ()
) -> None:
    """The flags of a script that asks a model; `seed` says what else is seeded there, `without` leaves flags out."""

    def add(flag: str, type: Any, metavar: str, help: str, default: Any = None) -> None:
        if flag not in without:
            made.add_argument(flag, type=type, metavar=metavar, help=help, default=default)

    add("--max-usd", number(), "USD", "stop before spending more (default: manifest)")
    add("--max-calls", whole(1), "N", "stop after N model calls (default: manifest)")
    add("--max-seconds", number(), "S", "stop after S seconds (default: manifest)")
    add("--timeout-s", number(), "S", "for one answer of the model (default: manifest, else 60)")
    add("--max-tokens", whole(1), "N", "of one answer (default: manifest, else 1800)")
    add("--temperature", number(zero=True, most=2), "T", "unless an agent has its own (default: 0.2)")
    add("--concurrency", whole(1), "N", "model calls at once (default: manifest, else 16)")
    add("--context-tokens", whole(1), "N", "that question and answer may have together (default: manifest)")
    add("--seed", int, "S", f"{seed} (default: 0)", 0)
    add("--offline-noise", number(zero=True, most=1), "P", "share of offline answers that err", 0.0)
    price = number(zero=True)
    add("--prompt-price-per-mtok", price, "USD", "of a million tokens in, if the price list lacks the model")
    add("--completion-price-per-mtok", price, "USD", "and of a million tokens out")


def model_options(args: argparse.Namespace) -> ModelOptions:
    """What those flags say; a flag that the script does not have stays at its default."""
    given = {field.name: getattr(args, field.name) for field in fields(ModelOptions) if field.name in args}
    prices = (args.prompt_price_per_mtok, args.completion_price_per_mtok)
    if (prices[0] is None) != (prices[1] is None):
        raise BadInput("--prompt-price-per-mtok and --completion-price-per-mtok: give both or neither")
    if prices[0] is not None:
        from telemetry.record.pricing import Override

        given["price"] = Override(*prices)
    return ModelOptions(**given)


def model_flags(args: argparse.Namespace) -> list[str]:
    """Those flags again, for a script that passes them on; what is at its default is left out."""
    plain = argparse.ArgumentParser(add_help=False)
    add_model_flags(plain)
    given = {flag: getattr(args, flag.dest) for flag in plain._actions}
    return [
        part
        for flag, value in given.items()
        if value != flag.default
        for part in (flag.option_strings[0], str(value))
    ]


def model_from_env(
    options: ModelOptions | None = None,
    models: Iterable[str | None] = (),
    analysts: Mapping[str, Analyst] | None = None,
) -> Model:
    """The model that the environment names; the offline model when it names no endpoint.

    `models` are those that will be asked beside the default one: a USD cap that cannot be held over them is
    refused here rather than in the middle of a run. `analysts` are what the offline model knows beside its own.
    """
    from agents.model.budget import Budget, night

    asked, others = options or ModelOptions(), tuple(filter(None, models))
    endpoint = endpoint_from_env(asked.usual.name)
    note("shutdown", functools.partial(shutdown_warning, others, asked.usual.name))
    if endpoint is None:
        from agents.offline.model import OfflineModel

        # Its calls cost nothing, so they do not count.
        return Capped(
            OfflineModel(asked.offline_noise, asked.seed, analysts), Budget(max_seconds=asked.max_seconds)
        )
    from agents.model.endpoint import OpenAIModel

    key, base_url, model = endpoint
    given = ModelSettings(prices=asked.price, **{name: getattr(asked, name) for name in _ASKED})
    chosen = OpenAIModel(
        api_key=key,
        base_url=base_url,
        model=model,
        budget=Budget(*asked.limits(), whole=night.get()),
        given=given,
        known=by_name([asked.usual, *asked.others], model),
    )
    chosen.require_price(*others)
    if not asked.evals or asked.cache is False:
        return chosen
    from agents.model.cache import CACHE, Cached

    about = {"base_url": chosen.base_url, "model": chosen.model}
    return Cached(chosen, here() / CACHE, about, always=bool(asked.cache))


def spent_this_month() -> float:
    """USD of this calendar month (UTC), by the log and what was pulled of the data branch; unknown is worst case."""
    from datetime import UTC, datetime

    from telemetry.read.rows import Window
    from telemetry.read.store import connect

    first = datetime.now(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    rows = connect(here(), Window(kind="llm_call", since=first, elsewhere=True), fields=["booked_usd"])
    known = "select sum(coalesce(try_cast(booked_usd as double), cost_usd)) from events"
    [usd] = rows.execute(known).fetchone() or (None,)
    return float(usd or 0.0)


def endpoint_from_env(named: str | None = None) -> tuple[str, str, str] | None:
    """Key, address and model that the environment names; None when it names no endpoint.

    The model is `OPENAI_MODEL`, else the one `named` in the manifest, else the default.
    """
    # An unset secret arrives from GitHub as an empty string, a pasted one with a newline.
    key, base_url, model = (os.environ.get(name, "").strip() for name in ENVIRONMENT)
    if not key and not base_url:
        return None
    from agents.model.endpoint import DEFAULT_BASE_URL, DEFAULT_MODEL

    remember(key)
    if not (key.isascii() and key.isprintable()):
        raise BadInput("OPENAI_API_KEY: holds characters that no key has; copy it again")
    base_url = base_url or DEFAULT_BASE_URL
    if not _is_http(base_url):
        raise BadInput(f"OPENAI_BASE_URL: {base_url!r} must look like https://host/v1")
    return key, base_url, model or named or DEFAULT_MODEL


def shutdown_warning(models: Iterable[str | None] = (), named: str | None = None) -> str:
    """One line if the endpoint will soon shut its model, or one of these, down; asked for once a day."""
    try:
        endpoint = endpoint_from_env(named)
    except BadInput:  # who asks that endpoint tells it
        return ""
    if endpoint is None:
        return ""
    import asyncio

    from agents.model.shutdown import warning

    key, base_url, model = endpoint
    asked = warning(here(), base_url, key, [model, *filter(None, models)])
    return asyncio.run_coroutine_threadsafe(asked, _background_loop()).result()


def _is_http(url: str) -> bool:
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:  # a port or an address that is none
        return False


class Capped:
    """A model that costs nothing, under the call and time limits of a budget."""

    def __init__(self, model: Model, budget: Budget) -> None:
        self.inner, self.budget = model, budget

    async def complete(self, messages: Sequence[Message], **options: Any) -> Completion:
        reserved = await self.budget.reserve()
        try:
            return await self.inner.complete(messages, **options)
        finally:
            self.budget.settle(reserved, 0.0)

    async def aclose(self) -> None:
        await self.inner.aclose()


def call_llm(
    messages: Sequence[Message], temperature: float | None = None, max_tokens: int | None = None
) -> Any:
    """Ask the model of the running agent, else that of the environment, and return its JSON.

    It blocks its thread until the answer is there; it may be called from any thread, also beside a running loop.
    """
    import asyncio

    from agents.model.call import running_model

    model = running_model.get() or _shared_model(*(os.environ.get(name, "") for name in ENVIRONMENT))
    asked = model.complete(messages, temperature=temperature, max_tokens=max_tokens)
    # The coroutine runs in a copy of the caller's context: it finds the run that it is made in.
    return asyncio.run_coroutine_threadsafe(asked, _background_loop()).result().data


@functools.lru_cache(maxsize=4)
def _shared_model(*_environment: str) -> Model:
    return model_from_env()


@functools.cache
def _background_loop() -> asyncio.AbstractEventLoop:
    """One loop in one thread, so that synchronous calls share one connection pool."""
    import asyncio
    import threading

    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="call_llm", daemon=True).start()
    return loop


# A thread does not survive a fork: the child starts one of its own when it asks.
os.register_at_fork(after_in_child=_background_loop.cache_clear)
os.register_at_fork(after_in_child=_shared_model.cache_clear)
