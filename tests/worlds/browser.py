"""A real browser for pages: Debian's Chromium through Playwright, with axe for what people with disabilities need."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

FLAGS = ("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync")  # fmt: skip
SMALLEST = 11  # px of any text
SMALL_TEXT = """least => [...document.querySelectorAll("body *")].filter(one =>
    one.offsetParent && [...one.childNodes].some(node => node.nodeType === 3 && node.textContent.trim()) &&
    parseFloat(getComputedStyle(one).fontSize) < least).map(one => one.outerHTML.slice(0, 80))"""


@dataclass(frozen=True, slots=True)
class Seen:
    """One page as somebody would meet it, and what is wrong with it."""

    page: str
    width: int
    scheme: str
    troubles: tuple[str, ...]


@contextmanager
def open_browser() -> Iterator[Any]:
    """Chromium; skips, with a reason, where there is none."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("needs a browser: apt-get install chromium")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


def looked_at(browser: Any, site: Path, pages: Sequence[str], *, width: int, scheme: str) -> Iterator[Seen]:
    """Every page at that width and in those colours."""
    from axe_playwright_python.sync_playwright import Axe

    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    other = context.new_page()  # for axe, which fetches the stylesheet and is refused: not the page's trouble
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: said.append(str(error)))
    for name in pages:
        page.goto((site / name).as_uri())
        troubles = list(said)
        said.clear()
        if (over := page.evaluate("document.documentElement.scrollWidth - innerWidth")) > 0:
            troubles.append(f"{over} px wider than the screen")
        troubles += [f"text under {SMALLEST} px: {one}" for one in page.evaluate(SMALL_TEXT, SMALLEST)]
        other.goto((site / name).as_uri())
        violations = Axe().run(other).response["violations"]
        troubles += [f"axe: {one['id']}: {one['nodes'][0]['html']}" for one in violations]
        yield Seen(name, width, scheme, tuple(troubles))
