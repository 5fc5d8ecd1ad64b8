"""The flags for the model: the same in every script that asks one, refused alike, within the manifest's budget."""

from __future__ import annotations

import argparse
import importlib

import pytest

from agents.llm_client import Capped, ModelOptions, add_model_flags, model_options
from agents.manifest import BudgetLimits, Manifest
from agents.offline.model import OfflineModel
from telemetry.edge import cli
from telemetry.edge.errors import BadInput

FLAGS = [
    "--max-usd",
    "--max-calls",
    "--max-seconds",
    "--timeout-s",
    "--max-tokens",
    "--temperature",
    "--concurrency",
    "--context-tokens",
    "--seed",
    "--offline-noise",
    "--prompt-price-per-mtok",
    "--completion-price-per-mtok",
]
SCRIPTS = [
    "agents.orchestrator",
    "eval.harness",
    "eval.ab_testing",
    "eval.replay",
    "meta.critique_loops",
    "meta.night",
    "meta.propose",
    "meta.sandbox",
]
OWN = {  # flags that mean something else there, or nothing
    ("eval.replay", "--seed"),
    ("eval.replay", "--offline-noise"),
}


def options_of(parser: argparse.ArgumentParser) -> dict[str, argparse.Action]:
    return {flag: action for action in parser._actions for flag in action.option_strings}


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_script_that_asks_a_model_has_the_same_flags(name: str) -> None:
    plain = cli.Parser("")
    add_model_flags(plain)
    wanted, found = options_of(plain), options_of(importlib.import_module(name).parser())
    for flag in FLAGS:
        if (name, flag) in OWN:
            continue
        mine, same = found[flag], wanted[flag]
        assert (mine.dest, mine.default, mine.metavar) == (same.dest, same.default, same.metavar)
        assert mine.help == same.help or flag == "--seed"


@pytest.mark.parametrize("name", SCRIPTS)
@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--max-usd", "nan"], "--max-usd: nan: must be a number > 0"),
        (["--max-usd", "-1"], "--max-usd: -1: must be a number > 0"),
        (["--max-usd", "five"], "--max-usd: five: must be a number > 0"),
        (["--max-calls", "0"], "--max-calls: 0: must be a whole number >= 1"),
        (["--max-seconds", "inf"], "--max-seconds: inf: must be a number > 0"),
        (["--timeout-s", "0"], "--timeout-s: 0: must be a number > 0"),
        (["--concurrency", "0"], "--concurrency: 0: must be a whole number >= 1"),
        (["--concurrency", "²"], "--concurrency: ²: must be a whole number >= 1"),
        (["--seed", "x"], "--seed: "),
        (["--offline-noise", "2"], "--offline-noise: 2: must be a number >= 0 and <= 1"),
        (["--prompt-price-per-mtok", "-1"], "--prompt-price-per-mtok: -1: must be a number >= 0"),
    ],
)
def test_a_bad_value_is_refused_in_one_line_that_names_the_flag(
    name: str, flags: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if (name, flags[0]) in OWN:
        return
    more = ["some.json"] if name == "eval.replay" else []
    assert importlib.import_module(name).main([*more, *flags]) == cli.BAD_INPUT
    shown = capsys.readouterr()
    assert said in shown.err and shown.err.count("\n") == 1 and not shown.out


def parsed(*flags: str) -> argparse.Namespace:
    parser = cli.Parser("")
    add_model_flags(parser)
    return parser.parse_args(flags)


def test_prices_come_in_pairs() -> None:
    with pytest.raises(BadInput, match="give both or neither"):
        model_options(parsed("--completion-price-per-mtok", "1"))
    both = model_options(parsed("--prompt-price-per-mtok", "0", "--completion-price-per-mtok", "2")).price
    assert both is not None and (both.prompt_per_mtok, both.completion_per_mtok) == (0, 2)


def test_without_flags_it_is_the_default_within_the_manifests_budget() -> None:
    assert model_options(parsed()) == ModelOptions()
    limits = BudgetLimits(max_usd=5, max_calls=100, max_seconds=60)
    asked = model_options(parsed("--max-calls", "7")).within(Manifest((), {}, budget=limits))
    assert (asked.max_usd, asked.max_calls, asked.max_seconds) == (5, 7, 60)


def test_the_model_gets_all_of_it() -> None:
    model = ModelOptions(max_seconds=3, seed=4, offline_noise=0.5).model()
    assert isinstance(model, Capped) and isinstance(model.inner, OfflineModel)
    assert model.budget.max_seconds == 3
    assert (model.inner.noise, model.inner.seed) == (0.5, 4)
