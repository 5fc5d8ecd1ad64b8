"""Which texts compete for a prompt? The champion, its challengers, and where each came from.

`agents/prompts/variants/<prompt>/` holds `champion.md` (always the text of the live prompt file), `A.md` (where the
prompt started), challengers `B.md`, `C.md`, ... and `lineage.json`. A challenger whose text is the champion's is no
challenger. Texts are written by models: every name is checked before it becomes a path, every text before it is kept.
"""

from __future__ import annotations

import hashlib
import json
import re
import string
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from telemetry.edge.errors import BadInput
from telemetry.edge.files import write_atomic, write_json
from telemetry.edge.repo import here

PROMPTS = Path("agents/prompts")
FOLDER = PROMPTS / "variants"
CHAMPION = "champion"
LINEAGE = "lineage.json"
MAX_BYTES = 65_536  # a prompt beyond this costs more per call than any improvement is worth

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,31}")


@dataclass(frozen=True, slots=True)
class Variant:
    """One text competing for a prompt."""

    prompt: str  # path of the live prompt file, e.g. agents/prompts/reviewer.md
    name: str
    text: str

    @property
    def sha256(self) -> str:
        return sha256(self.text)


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a text came from."""

    variant: str
    sha256: str
    parent_sha256: str | None
    source: str  # live | hand | proposal | shipped
    author: str  # a person, or the model that wrote it
    date: str
    reason: str = ""


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def prompt_file(prompt_path: str | Path) -> Path:
    """The prompt's path relative to the root; refuses whatever is not a prompt inside it."""
    given = Path(prompt_path)
    if given.is_absolute():
        try:
            given = given.resolve().relative_to(here().root.resolve())
        except ValueError:
            raise BadInput(f"{prompt_path}: lies outside {PROMPTS}") from None
    inside = given.parts[: len(PROMPTS.parts)] == PROMPTS.parts and ".." not in given.parts
    if not inside or given.suffix != ".md" or FOLDER in given.parents or not _NAME.fullmatch(given.stem):
        raise BadInput(f"{prompt_path}: not a prompt file (expected {PROMPTS}/NAME.md)")
    return given


def folder(prompt_path: str | Path) -> Path:
    """Where the prompt's variants are, relative to the root."""
    return FOLDER / prompt_file(prompt_path).stem


def variant_file(prompt_path: str | Path, variant: str) -> Path:
    """The variant's path relative to the root; a name that is more than a name is refused."""
    if not _NAME.fullmatch(variant):
        raise BadInput(
            f"{prompt_path}: variant {variant[:60]!r}: only letters, digits, - and _, at most 32 of them"
        )
    return folder(prompt_path) / f"{variant}.md"


def checked_text(text: str, where: str) -> str:
    """The text, or a refusal: empty, oversized and unprintable ones never reach a file or a model."""
    if not text.strip():
        raise BadInput(f"{where}: empty text")
    if (size := len(text.encode())) > MAX_BYTES:
        raise BadInput(f"{where}: {size} bytes, at most {MAX_BYTES} are allowed")
    if any(ord(mark) < 32 and mark not in "\n\t" for mark in text):
        raise BadInput(f"{where}: control characters are not allowed (plain text, LF line ends)")
    return text


def ensure_variants(prompt_path: str | Path) -> dict[str, str]:
    """Make sure `A`, `B` and `champion` exist, each starting as the live text; gives name -> sha256."""
    prompt = prompt_file(prompt_path)
    live = _read(prompt)
    found = {}
    for name in ("A", "B", CHAMPION):
        file = variant_file(prompt, name)
        if not (here() / file).exists():
            write_atomic(here() / file, live)
            if name == "A":
                _record(
                    prompt, Origin("A", sha256(live), None, "live", "", _today(), "the text at the start")
                )
        found[name] = sha256(_read(file))
    champion(prompt)
    return found


def load_variant(prompt_path: str | Path, variant: str) -> str:
    """The text of a variant, checked."""
    return _read(variant_file(prompt_path, variant))


def champion(prompt_path: str | Path) -> Variant:
    """The champion; refuses when `champion.md` and the live prompt have come apart, and says how to mend it."""
    prompt = prompt_file(prompt_path)
    live, file = _read(prompt), variant_file(prompt, CHAMPION)
    if (here() / file).exists() and _read(file) != live:
        raise BadInput(
            f"{file}: differs from the live prompt {prompt}; to keep the live text: "
            f"python -m meta.prompt_variant_manager ensure {prompt} --take live "
            "(or --take champion to restore the champion)"
        )
    return Variant(str(prompt), CHAMPION, live)


def names(prompt_path: str | Path) -> list[str]:
    """The names of all variants but the champion, sorted: A, B, ..., whatever else was added."""
    directory = here() / folder(prompt_path)
    found = [file.stem for file in directory.glob("*.md") if file.stem != CHAMPION]
    return sorted(name for name in found if _NAME.fullmatch(name))


def challengers(prompt_path: str | Path) -> tuple[list[Variant], dict[str, str]]:
    """Every distinct text that is not the champion's, and, by name, why a variant could not be read."""
    prompt = prompt_file(prompt_path)
    seen = {champion(prompt).sha256}
    distinct, problems = [], {}
    for name in names(prompt):
        try:
            variant = Variant(str(prompt), name, load_variant(prompt, name))
        except BadInput as problem:
            problems[name] = str(problem)
            continue
        if variant.sha256 not in seen:
            seen.add(variant.sha256)
            distinct.append(variant)
    return distinct, problems


def save_champion(prompt_path: str | Path, text: str) -> None:
    """Replace champion and live prompt. Refused when the two have come apart; a half-done save is completed."""
    prompt = prompt_file(prompt_path)
    checked_text(text, str(prompt))
    file = variant_file(prompt, CHAMPION)
    live = _read(prompt)
    kept = _read(file) if (here() / file).exists() else live
    if live != kept and text not in (live, kept):
        champion(prompt)  # refuses
    write_atomic(here() / file, text)
    write_atomic(here() / prompt, text)


def reconcile(prompt_path: str | Path, take: str) -> None:
    """Bring champion and live prompt together again, by a person's word: `live` or `champion`."""
    prompt = prompt_file(prompt_path)
    file = variant_file(prompt, CHAMPION)
    source, target = (prompt, file) if take == "live" else (file, prompt)
    text = _read(source)
    if take == "live" and (here() / file).exists():
        parent = sha256(_read(file))
        if parent != sha256(text):
            _record(prompt, Origin(CHAMPION, sha256(text), parent, "hand", "", _today(), "edited by hand"))
    write_atomic(here() / target, text)


def free_name(prompt_path: str | Path) -> str:
    """The first letter from B on that no challenger uses; a copy of the champion's text is free to overwrite."""
    distinct, unreadable = challengers(prompt_path)
    taken = {variant.name for variant in distinct} | set(unreadable)
    letters = string.ascii_uppercase[1:]
    every: list[str] = [*letters, *(a + b for a in letters for b in string.ascii_uppercase)]
    for name in every:
        if name not in taken:
            return name
    raise BadInput(f"{folder(prompt_path)}: no free letter left; remove decided challengers")


def add_variant(
    prompt_path: str | Path, text: str, *, source: str, author: str, reason: str = "", name: str | None = None
) -> Variant:
    """Keep a new challenger with its lineage; its parent is the champion of today."""
    prompt = prompt_file(prompt_path)
    parent = champion(prompt)
    checked_text(text, f"challenger for {prompt}")
    if text == parent.text:
        raise BadInput(f"challenger for {prompt}: its text is the champion's")
    for other in challengers(prompt)[0]:
        if other.text == text:
            raise BadInput(f"challenger for {prompt}: its text is already there as {other.name}")
    name = name or free_name(prompt)
    if name in (CHAMPION, "A"):
        raise BadInput(f"challenger for {prompt}: the name {name} is taken")
    variant = Variant(str(prompt), name, text)
    write_atomic(here() / variant_file(prompt, name), text)
    _record(prompt, Origin(name, variant.sha256, parent.sha256, source, author, _today(), reason))
    return variant


def lineage(prompt_path: str | Path) -> list[Origin]:
    """Where every text came from, oldest first."""
    file = folder(prompt_path) / LINEAGE
    try:
        rows: Any = json.loads((here() / file).read_text(encoding="utf-8"))
        return [Origin(**row) for row in rows]
    except FileNotFoundError:
        return []
    except (ValueError, TypeError, OSError) as problem:
        raise BadInput(f"{file}: not a lineage file ({problem})") from None


def origin(prompt_path: str | Path, text_sha256: str) -> Origin | None:
    """Where this text came from, if it was recorded."""
    return next((row for row in reversed(lineage(prompt_path)) if row.sha256 == text_sha256), None)


def _record(prompt: Path, row: Origin) -> None:
    rows = [old for old in lineage(prompt) if (old.variant, old.sha256) != (row.variant, row.sha256)]
    write_json(here() / folder(prompt) / LINEAGE, [asdict(old) for old in [*rows, row]])


def _read(path: Path) -> str:
    """Text of a file below the root, checked; a link is refused, it may lead anywhere."""
    file = here() / path
    try:
        if file.is_symlink():
            raise BadInput(f"{path}: is a symbolic link")
        data = file.read_bytes()
        text = data.decode()
    except OSError as problem:
        raise BadInput(f"{path}: cannot be read ({problem.strerror})") from None
    except UnicodeDecodeError as problem:
        raise BadInput(f"{path}: not UTF-8 text (byte {problem.start})") from None
    return checked_text(text, str(path))


def _today() -> str:
    return datetime.now(UTC).date().isoformat()
