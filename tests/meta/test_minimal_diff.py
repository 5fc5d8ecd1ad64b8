"""Small changes are worth more than large ones that do the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meta.patches.size import (
    ast_similarity,
    file_touch_count,
    line_change_ratio,
    measure,
    reward_multiplier,
    scaffolding_penalty,
)

CODE = "import math\n\nWINDOW = 60\n\n\ndef root(x: float) -> float:\n    return math.sqrt(x)\n"
SHARE = st.floats(0, 1)


def changed(after: str, before: str = CODE) -> list[tuple[str, str]]:
    return [(before, after)]


def test_one_changed_constant_is_nearly_the_same_program() -> None:
    got = measure(changed(CODE.replace("60", "45")))
    assert 0.85 < got.ast_similarity < 1.0
    assert (got.file_touch_count, got.scaffolding_penalty) == (1, 0.0)
    assert got.line_change_ratio == pytest.approx(2 / 7, abs=1e-6)  # one line out, one in, of seven
    assert 0.7 < got.reward_multiplier < 1.0


def test_a_comment_changes_lines_but_no_syntax() -> None:
    files = changed(CODE.replace("WINDOW = 60", "# changes\nWINDOW = 60"))
    assert ast_similarity(files) == 1.0
    assert line_change_ratio(files) == pytest.approx(1 / 7, abs=1e-6)
    assert scaffolding_penalty(files) == 1.0


def test_a_rewrite_has_little_in_common_and_costs_all_that_can_be_lost() -> None:
    got = measure(changed("\n".join(f"class C{n}:\n    'text {n}'" for n in range(50))))
    assert got.ast_similarity == 0.0
    assert (got.line_change_ratio, got.reward_multiplier) == (1.0, 0.1)


def test_no_change_costs_nothing() -> None:
    got = measure(changed(CODE))
    assert (got.ast_similarity, got.file_touch_count, got.line_change_ratio, got.reward_multiplier) == (
        1,
        0,
        0,
        1,
    )


def test_helpers_logging_and_guards_are_scaffolding_and_arithmetic_is_not() -> None:
    padded = "    import logging\n    logging.info('x')\n    try:\n        x = abs(x)\n"
    padded += "    except ValueError:\n        pass\n"
    files = changed(CODE.replace("    return", padded + "    return"))
    assert scaffolding_penalty(files) == pytest.approx(5 / 6, abs=1e-6)


def test_every_file_counts_once() -> None:
    files = [("x = 1\n", "x = 2\n"), ("y = 1\n", "y = 1\n"), ("", "z = 1\n")]
    assert file_touch_count(files) == 2


def test_what_does_not_parse_is_like_nothing() -> None:
    assert ast_similarity(changed("def (:\n")) == 0.0


@given(st.text(max_size=200), st.text(max_size=200))
def test_every_figure_stays_in_its_range_whatever_the_text(before: str, after: str) -> None:
    got = measure(changed(after, before))
    assert (
        0 <= got.ast_similarity <= 1 and 0 <= got.line_change_ratio <= 1 and 0 <= got.scaffolding_penalty <= 1
    )
    assert 0.1 <= got.reward_multiplier <= 1


@given(SHARE, st.integers(0, 20), SHARE, SHARE, SHARE)
def test_more_of_anything_never_earns_more(
    similarity: float, files: int, ratio: float, penalty: float, more: float
) -> None:
    least = reward_multiplier(similarity, files, ratio, penalty)
    assert reward_multiplier(similarity, files + 1, ratio, penalty) <= least
    assert reward_multiplier(similarity, files, max(ratio, more), penalty) <= least
    assert reward_multiplier(similarity, files, ratio, max(penalty, more)) <= least
    assert reward_multiplier(min(similarity, more), files, ratio, penalty) <= least
