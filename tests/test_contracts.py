"""Functions that other programs call keep their place and their positional arguments."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path

import pytest

CALLED = {
    "agents.llm_client:call_llm": "messages temperature max_tokens",
    "eval.ab.rounds:play": "draw cases settings archive",
    "eval.ab.sequential:paired_test": "differences alpha min_effect weights",
    "eval.ab_testing:ab_test_prompts": "prompt_paths min_trials promote_if_delta",
    "eval.harness:run_suite": "module callable_spec suite_path out_path eval_adapter",
    "meta.critique_loops:critique": "critic_name target_name target_output telemetry_summary",
    "meta.critique_loops:run_loops": "options",
    "meta.prompt_variant_manager:ensure_variants": "prompt_path",
    "meta.prompt_variant_manager:load_variant": "prompt_path variant",
    "meta.prompt_variant_manager:save_champion": "prompt_path text",
    "meta.retirement:load_events": "sources window",
    "meta.retirement:retire_candidates": "manifest_path min_n reward_floor",
    "meta.retirement:rolling_metrics": "events window",
    "meta.retirement:write_report": "report path",
    "telemetry.logger:log_event": "agent run_id latency_ms cost_usd tokens_in tokens_out error reward",
    "telemetry.logger:new_run_id": "",
    "telemetry.reward:reward": "event output weights",
    "telemetry.reward:signal_strength": "agent_name output",
    "telemetry.rollup:rollup": "last_n since source",
    "telemetry.summarize:summarize": "last_n since source console",
}


@pytest.mark.parametrize("name", CALLED)
def test_a_function_that_others_call_takes_what_it_took(name: str) -> None:
    module, _, function = name.partition(":")
    parameters = inspect.signature(getattr(importlib.import_module(module), function)).parameters.values()
    positional = [one.name for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD]
    wanted = CALLED[name].split()
    assert positional[: len(wanted)] == wanted


def test_the_log_stands_where_others_look_for_it() -> None:
    from telemetry.logger import LOG_PATH

    assert Path("telemetry/events.jsonl") == LOG_PATH
