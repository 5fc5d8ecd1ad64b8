"""Prices: the list, an override, what the provider says, and honest ignorance."""

from __future__ import annotations

from pathlib import Path

import pytest
from genai_prices import Usage as ListUsage
from genai_prices import calc_price

from telemetry.edge.files import working_in
from telemetry.record import pricing
from telemetry.record.pricing import Override, Usage, cost, is_priced, price_list_version


@pytest.mark.parametrize(
    "model", ["gpt-4.1-mini", "gpt-4.1-mini-2025-04-14", "gpt-6-luna", "claude-sonnet-4-5", "gemini-2.5-pro"]
)
@pytest.mark.parametrize(
    ("fresh", "cached", "out"),
    [(1000, 0, 100), (1000, 400, 0), (200_000, 9, 1), (272_000, 0, 50), (272_001, 50, 9000)],
)
def test_list_prices_agree_with_the_library(model: str, fresh: int, cached: int, out: int) -> None:
    ours = cost(model, Usage(tokens_in=fresh, tokens_out=out, cached=cached))
    theirs = calc_price(
        ListUsage(input_tokens=fresh, output_tokens=out, cache_read_tokens=cached), model_ref=model
    )
    assert ours.usd == pytest.approx(float(theirs.total_price))
    assert (ours.source, ours.price_list_version) == ("price_list", price_list_version())


def test_the_provider_wins_then_the_override_then_the_list() -> None:
    usage = Usage(tokens_in=1_000_000, tokens_out=1_000_000)
    given = Override(prompt_per_mtok=2.0, completion_per_mtok=8.0)
    assert cost("gpt-4.1-mini", usage, override=given, reported_usd=0.25).source == "provider"
    priced = cost("gpt-4.1-mini", usage, override=given)
    assert (priced.usd, priced.source) == (10.0, "override")
    assert cost("gpt-4.1-mini", usage).source == "price_list"


def test_unknown_is_null_never_zero_and_warned_once(capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(3):
        unknown = cost("house-model-7b", Usage(tokens_in=10, tokens_out=10))
    assert (unknown.usd, unknown.source, unknown.price_list_version) == (None, "unknown", None)
    assert capsys.readouterr().err.count("house-model-7b") == 1
    assert cost("gpt-4.1-mini", Usage()).usd is None
    assert is_priced("house-model-7b", override=Override(1, 1))


def test_asking_for_a_price_in_advance_warns_of_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert not is_priced("house-model-8b")
    assert capsys.readouterr().err == "", "nothing has been logged yet, and a capped run refuses in one line"


def test_what_the_list_says_is_kept_until_there_is_another_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = ("gpt-4.1-mini", "gemini-2.5-pro", "house-model-9b")
    large = Usage(tokens_in=272_001, tokens_out=900, cached=50)

    def priced() -> list[float | None]:
        pricing._rates.cache_clear()  # as another process would find it
        return [cost(model, large).usd for model in models]

    with working_in(tmp_path):
        first = priced()
        monkeypatch.setattr(pricing, "_found", lambda *_: pytest.fail("looked up again"))
        assert priced() == first
        for other in (
            "{}",
            "[1",
            f'{{"list": "{price_list_version()}", "prices": {{"/gpt-4.1-mini": [7]}}}}',
        ):
            (tmp_path / pricing.KEPT).write_text(other)
            with pytest.raises(pytest.fail.Exception):
                priced()
    pricing._rates.cache_clear()


def test_a_price_that_goes_by_the_hour_is_not_kept(tmp_path: Path) -> None:
    with working_in(tmp_path):
        pricing._rates.cache_clear()
        assert is_priced("deepseek-chat", provider="deepseek")
        assert not (tmp_path / pricing.KEPT).exists()
    pricing._rates.cache_clear()
