"""Entries go from a manifest's text with the comments above them; everything else stays byte for byte."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from agents.manifest import edit
from agents.manifest.edit import without

TEXT = """# Top.
one: 1

# Above two.
# Still above two.
two: {a: 1, b: 2, c: 3} # beside two

list: # beside list
  - first
  # Above second.
  - [x, y,
     z] # beside second
  - third

# Above agents.
agents:
  - name: a

  - name: b
    long: |
      text
      # no comment

  # Above c.
  - name: c
"""


@pytest.mark.parametrize(
    ("gone", "cut", "put"),
    [
        (("one",), "# Top.\none: 1\n\n", ""),
        (("two",), "# Above two.\n# Still above two.\ntwo: {a: 1, b: 2, c: 3} # beside two\n\n", ""),
        (("two", "b"), "{a: 1, b: 2, c: 3}", "{a: 1, c: 3}"),
        (("list", 0), "  - first\n", ""),
        (("list", 1), "  # Above second.\n  - [x, y,\n     z] # beside second\n", ""),
        (("list", 1, 1), "[x, y,\n     z]", "[x, z]"),
        (("list", 2), "  - third\n", ""),
        (("agents", 0), "  - name: a\n\n", ""),
        (("agents", 1), "  - name: b\n    long: |\n      text\n      # no comment\n\n", ""),
        (("agents", 1, "long"), "    long: |\n      text\n      # no comment\n", ""),
        (("agents", 2), "\n  # Above c.\n  - name: c\n", ""),
    ],
)
def test_an_entry_goes_with_what_stands_right_above_it(
    gone: tuple[str | int, ...], cut: str, put: str
) -> None:
    assert TEXT.count(cut) == 1
    assert without(TEXT, lambda path, _: path == gone) == TEXT.replace(cut, put)


def test_what_is_left_empty_goes_too() -> None:
    assert "list" not in without(TEXT, lambda path, _: len(path) == 2 and path[0] == "list")
    assert "two" not in without(TEXT, lambda path, _: len(path) == 2 and path[0] == "two")


@given(
    st.sets(st.sampled_from(["one", "two", "list", "agents"]), max_size=3),
    st.sets(st.integers(0, 2), max_size=2),
)
def test_the_rest_reads_as_before(keys: set[str], places: set[int]) -> None:
    def drop(path: tuple[str | int, ...], value: object) -> bool:
        return path[0] in keys or (path[0] == "agents" and len(path) == 2 and path[1] in places)

    wanted = {key: value for key, value in yaml.safe_load(TEXT).items() if key not in keys}
    if "agents" in wanted:
        wanted["agents"] = [agent for place, agent in enumerate(wanted["agents"]) if place not in places]
    assert yaml.safe_load(without(TEXT, drop)) == wanted


MODELS = """\
version: 1
model: {name: old, temperature: 0}  # what everyone asks
challenger_models: [{name: new, prices: {prompt_per_mtok: 1, completion_per_mtok: 2}}, other]
agents:
  - name: a
    prompt: a.md

  # b thinks for itself
  - name: b
    prompt: b.md
    model: {name: own, prices: {prompt_per_mtok: 9, completion_per_mtok: 9}, timeout_s: 5}

  - name: c
    prompt: c.md

  - name: counts
"""


@pytest.mark.parametrize(
    ("names", "asked", "lines"),
    [
        (["a", "c"], {"a": "other", "b": "own", "c": "other"}, ["defaults:", "  model: other"]),
        (["a"], {"a": "other", "b": "own", "c": None}, ["    model: other"]),
        (
            ["b"],
            {"a": None, "b": "other", "c": None},
            ["    model:", "      name: other", "      timeout_s: 5"],
        ),
    ],
)
def test_a_move_to_another_model_changes_nothing_else(
    names: list[str], asked: dict[str, str | None], lines: list[str]
) -> None:
    moved = edit.edited(MODELS, lambda tree: edit.move(tree, names, "other"))
    assert edit.models(yaml.safe_load(moved)) == asked
    assert [line for line in moved.splitlines() if line not in MODELS.splitlines()] == lines
    plain = yaml.safe_load(MODELS)
    edit.move(plain, names, "other")
    assert plain == yaml.safe_load(moved)  # what the guard expects is what is written


def test_a_move_takes_along_what_is_said_of_the_new_model() -> None:
    plain = yaml.safe_load(MODELS)
    edit.move(plain, ["b"], "new")
    prices = {"prompt_per_mtok": 1, "completion_per_mtok": 2}
    assert plain["agents"][1]["model"] == {"name": "new", "prices": prices, "timeout_s": 5}
