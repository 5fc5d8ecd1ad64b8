"""What a reviewer meets after a night: texts as GitHub renders them, and commit messages in a terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from meta.nightly.message import message
from meta.publish.kinds import KINDS
from telemetry.edge.text import cell, code, details, fenced, first_screen, table
from tests.worlds import world
from tests.worlds.browser import Look, looked_at
from tests.worlds.github_page import WIDTH, page

HOSTILE = "<script>alert(1)</script> <img src=x onerror=alert(1)> [x](javascript:alert(1)) @team #12 </details> | ` **"
PHONE = 390
ENDS = "one => document.querySelector(one).getBoundingClientRect().bottom + scrollY"


def of(root: Path) -> dict[str, str]:
    """Every text that waits, by its branch."""
    found = {}
    for branch in world.git(root, "branch", "--format=%(refname:short)", "--list", "meta/*").split():
        kind = next(kind for kind in KINDS.values() if kind.branch == branch)
        found[branch] = world.git(root, "show", f"{branch}:{kind.report}.md")
    return found


def test_every_text_reads_well_on_github(lived: Path, browser: Any, tmp_path: Path) -> None:
    bodies = of(lived)
    assert len(bodies) > 2
    for branch, text in bodies.items():
        world.put(tmp_path, f"{branch.partition('/')[2]}.html", page(text, branch))
    pages = sorted(one.name for one in tmp_path.glob("*.html"))
    for found in looked_at(browser, tmp_path, pages, (Look(WIDTH, rules=READABLE), Look(PHONE))):
        assert not found.troubles, found
    tab = browser.new_page(viewport={"width": WIDTH, "height": 900})
    tab.goto((tmp_path / "prompt-ab-champion.html").as_uri())
    assert tab.evaluate(ENDS, "pre.diff") <= 700  # verdict, figures and change on one screen
    tab.set_viewport_size({"width": PHONE, "height": 900})
    for branch, title in (("meta/prompt-proposals", "wrong"), ("meta/agent-retirement", "passed")):
        world.put(tmp_path, "long.html", page(bodies[branch].replace("watcher", "geopolitical_risk")))
        tab.goto((tmp_path / "long.html").as_uri())
        column = tab.locator("th", has_text=title).first.bounding_box()
        assert column["x"] + column["width"] <= PHONE, branch  # what decides can be read without scrolling


# What depends on our text; its heading levels, landmarks and colours are GitHub's.
READABLE = (
    "table-duplicate-name",
    "empty-heading",
    "link-name",
    "image-alt",
    "list",
    "listitem",
    "summary-name",
)


def test_hostile_words_stay_words_in_every_place_of_a_body(browser: Any, tmp_path: Path) -> None:
    text = "\n\n".join(
        [
            first_screen(cell(HOSTILE), code(HOSTILE)),
            table(["a", "b"], [[cell(HOSTILE), code(HOSTILE)]]),
            details(HOSTILE, fenced(HOSTILE)),
            f"- {cell(HOSTILE)}",
        ]
    )
    world.put(tmp_path, "evil.html", page(text))
    tab = browser.new_page()
    said: list[str] = []
    tab.on("dialog", lambda dialog: (said.append(dialog.message), dialog.dismiss()))
    tab.goto((tmp_path / "evil.html").as_uri())
    assert not said
    assert tab.locator("script, img, a").count() == 0
    assert tab.locator("details").count() == 1
    assert tab.locator("td").count() == 2


def test_a_branch_reads_well_in_a_terminal(lived: Path) -> None:
    for branch in of(lived):
        shown = world.git(lived, "show", "--no-patch", "--format=%w(0,4,4)%B", branch).splitlines()
        assert max(map(len, shown)) <= 80
        text = "\n".join(shown)
        for markup in ("**", "<details", "```", "&#", "\\_", "> ["):
            assert markup not in text, branch
        assert f"To take it:   git merge {branch}" in text


def test_words_made_inert_for_github_are_words_again_in_a_commit() -> None:
    text = f"> [!TIP]\n> **Promote {code('two_words')}?** {cell('a_b <c> @d #1')}\n\n{details('more_of it', 'x')}\n"
    told = message(text, "meta/x", "meta/reports/x.md")
    assert told.startswith("Promote two_words? a_b <c> @d #1\n")
    assert "More in meta/reports/x.md:\n- more_of it\n" in told


def test_a_wide_table_is_wrapped_between_words() -> None:
    rows = [["agent_with_a_long_name", "a sentence of several words that does not fit into one line at all"]]
    told = message(table(["agent", "what"], rows), "b", "r").splitlines()
    assert max(map(len, told)) <= 74
    assert told[1].startswith("agent_with_a_long_name  a sentence")
