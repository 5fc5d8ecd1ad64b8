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

# What can be seen only by scrolling it sideways, which on a phone nobody finds.
SIDEWAYS = """() => [...document.querySelectorAll("body *")].filter(one => one.checkVisibility() &&
    one.scrollWidth > one.clientWidth + 1 && getComputedStyle(one).overflowX !== "visible").map(one =>
    `${one.outerHTML.slice(0, 80)} is ${one.scrollWidth} px wide in ${one.clientWidth}`)"""


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


@dataclass(frozen=True, slots=True)
class Look:
    """A screen to see pages on, what axe is asked there (all of its rules if None), whether all of it has to fit."""

    width: int
    scheme: str = "light"
    rules: tuple[str, ...] | None = ()
    fits: bool = False


def looked_at(browser: Any, site: Path, pages: Sequence[str], looks: Sequence[Look]) -> Iterator[Seen]:
    """Every page, loaded once and seen in every way: its layout and colours are the stylesheet's, not the script's."""
    page = browser.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: said.append(str(error)))
    for name in pages:
        page.goto((site / name).as_uri())
        for look in looks:
            page.set_viewport_size({"width": look.width, "height": 900})
            page.emulate_media(color_scheme=look.scheme)
            yield Seen(name, look.width, look.scheme, (*said, *_troubles(page, look)))
            said.clear()
    page.close()


def _troubles(page: Any, look: Look) -> Iterator[str]:
    from axe_playwright_python.sync_playwright import Axe

    if (over := page.evaluate("document.documentElement.scrollWidth - innerWidth")) > 0:
        yield f"{over} px wider than the screen"
    if look.fits:
        yield from page.evaluate(SIDEWAYS)
    yield from (f"text under {SMALLEST} px: {one}" for one in page.evaluate(SMALL_TEXT, SMALLEST))
    if look.rules != ():
        # Not preloaded: axe would fetch the stylesheet, which the page's policy refuses.
        options = {"preload": False} | ({"runOnly": list(look.rules)} if look.rules else {})
        for one in Axe().run(page, options=options).response["violations"]:
            yield f"axe: {one['id']}: {one['nodes'][0]['html']}"
