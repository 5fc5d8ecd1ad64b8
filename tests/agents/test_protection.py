"""One matcher says which paths are protected, however they are spelled."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.manifest import OUTSIDE, matches, mentions, protecting

GLOBS = [
    ".github/**",
    "eval/**",
    "tests/",
    "Makefile",
    "agents/base.py",
    "agents/*.schema.json",
    "meta/**/*.py",
]

names = st.text("abcXYZ._-0", min_size=1, max_size=6).filter(lambda name: name.strip(".") and name != "~")
plain_paths = st.lists(names, min_size=1, max_size=4).map("/".join)
glob_parts = st.lists(st.one_of(names, st.sampled_from(["*", "**", "a*", "*.py"])), min_size=1, max_size=4)


@st.composite
def matched(draw: st.DrawFn) -> tuple[str, str]:
    """A glob and a path that it matches."""
    glob, path = [], []
    for part in draw(glob_parts):
        glob.append(part)
        path.append(draw(plain_paths) if part == "**" else part.replace("*", draw(names)))
    return "/".join(glob), "/".join(path)


@pytest.mark.parametrize(
    ("path", "glob", "expected"),
    [
        ("a/b.md", "a/*.md", True),
        ("a/b/c.md", "a/*.md", False),
        ("a/b/c.md", "a/**", True),
        ("a/b/c.md", "a/b", False),
        ("a/c.md", "a/**/c.md", True),
        ("a/b/b/c.md", "a/**/c.md", True),
        ("a/bc.md", "a/**/c.md", False),
        ("a.md", "a?md", False),
        ("axmd", "a.md", False),
        ("A.md", "a.md", False),
        ("a/b\nc", "a/*", True),
    ],
)
def test_globs(path: str, glob: str, expected: bool) -> None:
    assert matches(path, glob) is expected


@pytest.mark.parametrize(
    "path",
    [".github/workflows/ci.yml", ".github", "eval/x/y.py", "./eval/x.py", "eval/", "Makefile", "makefile", "EVAL/x",
     "agents/base.py", "agents/base.py/x", "agents/base.py/", "a/../tests/x.py", "tests", "meta/x.py", "meta/a/b/x.py",
     "agents/x.schema.json", " eval/x.py ", "eval/../agents/prompts/x.md"],
)  # fmt: skip
def test_protected(path: str) -> None:
    assert protecting(path, GLOBS) not in (None, OUTSIDE)


@pytest.mark.parametrize(
    "path",
    [
        "agents/prompts/base.md",
        "evaluate.md",
        "a/eval/x.py",
        "testsuite",
        "agents/x/y.schema.json",
        "meta/x.json",
    ],
)
def test_not_protected(path: str) -> None:
    assert protecting(path, GLOBS) is None


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "..", "../x", "a/../../x", "//x", "~", "~/x", ".", "a/..", "../eval/x.py"]
)
def test_what_leaves_the_repository_is_protected_whatever_the_globs_say(path: str) -> None:
    assert protecting(path, []) == OUTSIDE


@given(matched())
def test_whatever_matches_a_glob_is_protected_by_it(pair: tuple[str, str]) -> None:
    glob, path = pair
    assert matches(path, glob)
    assert protecting(path, [glob]) in (glob, OUTSIDE)


@given(matched(), plain_paths)
def test_what_protects_a_folder_protects_everything_below_it(pair: tuple[str, str], below: str) -> None:
    glob, path = pair
    assert protecting(f"{path}/{below}", [glob])


@given(matched(), st.sampled_from(["./{}", "{}/", "x/../{}", "{}/x/..", " {} ", ".//{}", "./x/./../{}/."]))
def test_no_spelling_of_a_protected_path_is_unprotected(pair: tuple[str, str], spelling: str) -> None:
    glob, path = pair
    assert protecting(spelling.format(path), [glob])
    assert protecting(spelling.format(path.swapcase()), [glob])
    assert protecting(path, [f"./{glob}"]) and protecting(path, [f"{glob}/"])


@given(st.text(max_size=30), st.lists(st.text(max_size=10), max_size=3), st.text(max_size=10))
def test_another_glob_never_unprotects(path: str, globs: list[str], more: str) -> None:
    assert protecting(path, globs) is None or protecting(path, [*globs, more])


def test_mentions_are_found_in_path_target_and_change() -> None:
    row = {
        "path": "eval/a.py",
        "target": "Makefile",
        "change": "Edit ./tests/x.py, then agents/prompts/y.md.",
    }
    assert mentions(row, GLOBS) == ["eval/a.py", "Makefile", "./tests/x.py"]
    assert mentions({"path": None, "target": " ", "change": 3}, GLOBS) == []
