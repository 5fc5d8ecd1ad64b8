"""Draws the README's pictures anew: the overview and a pull request after the example's first night. `make pictures`.

Beside them stands a fingerprint of what such a page and such a text say, of the toy's night: a test compares it, so
that the pictures are renewed when it changes. It is of the toy because merging what the loop proposes changes the
example's figures and must break no test.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import tempfile
from io import BytesIO
from pathlib import Path
from typing import Any

from telemetry.edge.files import write_atomic, write_json
from tests.worlds import night_checkout, world
from tests.worlds.browser import open_browser
from tests.worlds.github_page import page

REPOSITORY = Path(__file__).resolve().parents[1]
IMAGES = REPOSITORY / ".github/images"
FINGERPRINT = IMAGES / "pictures.json"
BODY = ("meta/prompt-ab-champion", "meta/reports/ab_test_report.md")
# Narrow, because they stand side by side in the README, at half its width: their text has to be read there.
OVERVIEW = {"width": 760, "height": 1032}
BODY_WIDTH = 660
COLOURS = 128

_LABEL = re.compile(r"<(h1|h2|th|dt|figcaption)[^>]*>(.*?)</\1>", re.DOTALL)
_VALUE = re.compile(r"`[^`]*`|[0-9a-f]{7}|[-+$]?\d[\d.,:%]*|[·─├●┤]+")


def shows(root: Path) -> str:
    """The fingerprint of a lived checkout's overview and A/B text: their words and looks, not their figures."""
    overview = (root / "site/index.html").read_text(encoding="utf-8")
    labels = [re.sub(r"<[^>]*>", "", text) for _, text in _LABEL.findall(overview)]
    style = (root / "site/site.css").read_text(encoding="utf-8")
    opened = world.git(root, "show", ":".join(BODY)).partition("<details>")[0]
    said = [style, *labels, _VALUE.sub("", re.sub(r"```.*?```", "", opened, flags=re.DOTALL))]
    return hashlib.sha256("\n".join(said).encode()).hexdigest()


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="ratchet-pictures-") as folder:
        scratch = Path(folder)
        clone = scratch / "clone"
        subprocess.run(["git", "clone", "--quiet", str(REPOSITORY), str(clone)], check=True)
        world.git(clone, "remote", "remove", "origin")  # no link to whatever it was cloned from
        _night(clone)
        toy = night_checkout.make(scratch / "toy")
        _night(toy)
        with open_browser() as browser:
            _draw(browser, clone)
        write_json(FINGERPRINT, {"shows": shows(toy)})
    print(f"Drew {IMAGES.relative_to(REPOSITORY)}/site.png and body.png; look at them before you commit.")
    return 0


def _night(root: Path) -> None:
    for script in ("meta.night", "meta.dashboard"):
        command = [sys.executable, "-m", script, "--root", str(root), "--quiet"]
        subprocess.run(command, cwd=REPOSITORY, check=True)


def _draw(browser: Any, root: Path) -> None:
    tab = browser.new_page(viewport=OVERVIEW, device_scale_factor=1.5)
    tab.goto((root / "site/index.html").as_uri())
    _keep(tab.screenshot(), "site.png")
    text = world.git(root, "show", ":".join(BODY))
    write_atomic(root / "body.html", page(text))
    tab = browser.new_page(viewport={"width": BODY_WIDTH, "height": 900}, device_scale_factor=1.5)
    tab.goto((root / "body.html").as_uri())
    end = tab.evaluate("document.querySelector('details').getBoundingClientRect().top")
    _keep(tab.screenshot(clip={"x": 0, "y": 0, "width": BODY_WIDTH, "height": end}), "body.png")


def _keep(png: bytes, name: str) -> None:
    """The picture with few colours: a repository keeps every version of it."""
    from PIL import Image

    buffer = BytesIO()
    Image.open(BytesIO(png)).convert("RGB").quantize(COLOURS).save(buffer, "PNG", optimize=True)
    write_atomic(IMAGES / name, buffer.getvalue())


def known() -> str:
    """The fingerprint beside the pictures."""
    return str(json.loads(FINGERPRINT.read_text(encoding="utf-8"))["shows"])


if __name__ == "__main__":
    raise SystemExit(main())
