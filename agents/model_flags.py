"""How may a script ask a model? The flags that say so, their checks, and the model they describe: alike everywhere."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from telemetry.edge.cli import number, whole
from telemetry.edge.errors import BadInput

if TYPE_CHECKING:
    from agents.manifest import BudgetLimits
    from agents.model.call import Model
    from agents.offline.vocabulary import Analyst
    from telemetry.record.pricing import Override

__all__ = ["ModelOptions", "add_model_flags", "model_options", "number", "whole"]


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """How to ask; the defaults are those of the command line. A limit of None is none, until `within` says one."""

    max_usd: float | None = None
    max_calls: int | None = None
    max_seconds: float | None = None
    timeout_s: float = 60.0
    concurrency: int = 16
    seed: int = 0
    offline_noise: float = 0.0
    price: Override | None = None

    def within(self, budget: BudgetLimits) -> ModelOptions:
        """The same, with the manifest's limits where none was given."""
        return replace(
            self,
            max_usd=budget.max_usd if self.max_usd is None else self.max_usd,
            max_calls=budget.max_calls if self.max_calls is None else self.max_calls,
            max_seconds=budget.max_seconds if self.max_seconds is None else self.max_seconds,
        )

    def model(
        self, models: Iterable[str | None] = (), analysts: Mapping[str, Analyst] | None = None
    ) -> Model:
        """The model that the environment names, within these limits; `models` are those agents ask beside it.

        `analysts` are the tasks that the offline model knows beside the engine's own: the domain's, most often.
        """
        from agents.llm_client import Budget, model_from_env

        return model_from_env(
            budget=Budget(self.max_usd, self.max_calls, self.max_seconds),
            concurrency=self.concurrency,
            timeout_s=self.timeout_s,
            price=self.price,
            offline_noise=self.offline_noise,
            seed=self.seed,
            models=models,
            analysts=analysts,
        )


def add_model_flags(
    made: argparse.ArgumentParser, *, seed: str = "of the offline noise", without: Sequence[str] = ()
) -> None:
    """The flags of a script that asks a model; `seed` says what else is seeded there, `without` leaves flags out."""

    def add(flag: str, **options: Any) -> None:
        if flag not in without:
            made.add_argument(flag, **options)

    add("--max-usd", type=number(), metavar="USD", help="stop before spending more (default: manifest)")
    add("--max-calls", type=whole(1), metavar="N", help="stop after N model calls (default: manifest)")
    add("--max-seconds", type=number(), metavar="S", help="stop after S seconds (default: manifest)")
    add("--timeout-s", type=number(), default=60.0, metavar="S", help="per model call (default: 60)")
    add("--concurrency", type=whole(1), default=16, metavar="N", help="model calls at once (default: 16)")
    add("--seed", type=int, default=0, metavar="S", help=f"{seed} (default: 0)")
    add(
        "--offline-noise",
        type=number(zero=True, most=1),
        default=0.0,
        metavar="P",
        help="share of offline answers that err",
    )
    price = {"type": number(zero=True), "metavar": "USD"}
    add("--prompt-price-per-mtok", **price, help="of a million tokens in, if the price list lacks the model")
    add("--completion-price-per-mtok", **price, help="and of a million tokens out")


def model_options(args: argparse.Namespace) -> ModelOptions:
    """What those flags say; a flag that the script does not have stays at its default."""
    prices = (args.prompt_price_per_mtok, args.completion_price_per_mtok)
    if (prices[0] is None) != (prices[1] is None):
        raise BadInput("--prompt-price-per-mtok and --completion-price-per-mtok: give both or neither")
    price = None
    if prices[0] is not None:
        from telemetry.record.pricing import Override

        price = Override(*prices)
    given = {field.name: getattr(args, field.name) for field in fields(ModelOptions) if field.name in args}
    return ModelOptions(**given | {"price": price})
