"""The texts that compete for a prompt: the champion, its challengers, and where each came from.

`agents/prompts/variants/<prompt>/` holds `champion.md` (always the text of the live prompt file), `A.md` (where the
prompt started), challengers `B.md`, `C.md`, ... and `lineage.json`. A letter stands for one text for good: the lineage
remembers it when its file holds another text or is gone. A challenger whose text is the champion's is no challenger.
Texts are written by models: every name is checked before it becomes a path, every text before it is kept.
"""

from __future__ import annotations

import hashlib
import re
import string
from collections.abc import Container
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from agents.model.schema import problems, read_schema
from telemetry.edge.errors import BadInput
from telemetry.edge.files import PROMPTS, VARIANTS, Repo, read_again, write_atomic, write_json
from telemetry.edge.frozen import frozen
from telemetry.edge.records import load_json
from telemetry.edge.text import unseen

CHAMPION = "champion"
LINEAGE = "lineage.json"
LINEAGE_SCHEMA = Path(__file__).parents[1] / "lineage.schema.json"
MAX_BYTES = 65_536  # a prompt beyond this costs more per call than any improvement is worth

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,31}")


@frozen
class Variant:
    """One text competing for a prompt."""

    prompt: str  # path of the live prompt file, e.g. agents/prompts/reviewer.md
    name: str
    text: str

    @property
    def sha256(self) -> str:
        return sha256(self.text)

    @property
    def called(self) -> str:
        """As a person reads it."""
        return name_of(self.name, self.sha256)


@frozen
class Origin:
    """Where a text came from."""

    variant: str
    sha256: str
    parent_sha256: str | None
    source: str  # live | hand | proposal | shipped
    author: str  # a person, or the model that wrote it
    date: str
    reason: str = ""
    calls: int | None = None  # of a model, to find it ...
    cost_usd: float | None = None  # ... and what they cost; None is unknown
    practice: float | None = None  # by how much more of its practice cases it passed than its parent: a share


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def name_of(letter: str, sha256: str | None) -> str:
    """A text as a person reads it, `B 392ef40`: letters are counted anew in every lineage, the hash tells which."""
    return f"{letter} {sha256[:7]}" if sha256 else letter


def prompt_file(repo: Repo, prompt_path: str | Path) -> Path:
    """The prompt's path relative to the root; refuses whatever is not a prompt inside it."""
    given = Path(prompt_path)
    if given.is_absolute():
        try:
            given = given.resolve().relative_to(repo.root.resolve())
        except ValueError:
            raise BadInput(f"{prompt_path}: lies outside {PROMPTS}") from None
    inside = given.parts[: len(PROMPTS.parts)] == PROMPTS.parts and ".." not in given.parts
    if not inside or given.suffix != ".md" or VARIANTS in given.parents or not _NAME.fullmatch(given.stem):
        raise BadInput(f"{prompt_path}: not a prompt file (expected {PROMPTS}/NAME.md)")
    return given


def checked_text(text: str, where: str) -> str:
    """The text, or a refusal: empty, oversized and unprintable ones never reach a file or a model."""
    if not text.strip():
        raise BadInput(f"{where}: empty text")
    if (size := len(text.encode())) > MAX_BYTES:
        raise BadInput(f"{where}: {size} bytes, at most {MAX_BYTES} are allowed")
    if hidden := unseen(text):
        raise BadInput(
            f"{where}: control and hidden characters are not allowed (plain text, LF line ends): {hidden}"
        )
    return text


class Variants:
    """The texts that compete for one prompt of a checkout."""

    def __init__(self, repo: Repo, prompt_path: str | Path) -> None:
        self.repo = repo
        self.live = prompt_file(repo, prompt_path)
        self.prompt = str(self.live)
        self.folder = VARIANTS / self.live.stem
        self._texts: dict[Path, str] = {}  # each file is read once

    def file(self, variant: str) -> Path:
        """The variant's path relative to the root; a name that is more than a name is refused."""
        if not _NAME.fullmatch(variant):
            raise BadInput(
                f"{self.prompt}: variant {variant[:60]!r}: only letters, digits, - and _, at most 32 of them"
            )
        return self.folder / f"{variant}.md"

    def text(self, variant: str) -> str:
        """The text of a variant, checked."""
        return self._read(self.file(variant))

    def ensure(self) -> dict[str, str]:
        """Make sure `A`, `B` and `champion` exist, each starting as the live text; gives name -> sha256."""
        live = self._read(self.live)
        for name in ("A", "B", CHAMPION):
            if not self._has(name):
                self._write(self.file(name), live)
                if name == "A" and not any(row.variant == "A" for row in self.lineage()):
                    self._record(
                        Origin("A", sha256(live), None, "live", "", _today(), "the text at the start")
                    )
        self.champion()
        return {name: sha256(self.text(name)) for name in ("A", "B", CHAMPION)}

    def champion(self) -> Variant:
        """The champion; refuses when `champion.md` and the live prompt have come apart, and says how to mend it."""
        live = self._read(self.live)
        if self._has(CHAMPION) and self.text(CHAMPION) != live:
            raise BadInput(
                f"{self.file(CHAMPION)}: differs from the live prompt {self.prompt}; to keep the live text: "
                f"python -m meta.prompt_variant_manager ensure {self.prompt} --take live "
                "(or --take champion to restore the champion)"
            )
        return Variant(self.prompt, CHAMPION, live)

    def challengers(self) -> tuple[list[Variant], dict[str, str]]:
        """Every distinct text that is not the champion's, and, by name, why a variant could not be read."""
        every, problems = self.every()
        champion = self.champion().sha256
        first = {variant.sha256: variant for variant in reversed(every) if variant.sha256 != champion}
        return [variant for variant in every if first.get(variant.sha256) is variant], problems

    def every(self) -> tuple[list[Variant], dict[str, str]]:
        """What stands in the files, copies too, and, by name, why one could not be read."""
        found, problems = [], {}
        for name in self.names():
            try:
                found.append(Variant(self.prompt, name, self.text(name)))
            except BadInput as problem:
                problems[name] = str(problem)
        return found, problems

    def names(self) -> list[str]:
        """The names of all variants but the champion, sorted: A, B, ..., whatever else was added."""
        found = [file.stem for file in (self.repo / self.folder).glob("*.md") if file.stem != CHAMPION]
        return sorted(name for name in found if _NAME.fullmatch(name))

    def save_champion(self, text: str) -> None:
        """Replace champion and live prompt. Refused when the two have come apart; a half-done save is completed."""
        checked_text(text, self.prompt)
        live = self._read(self.live)
        kept = self.text(CHAMPION) if self._has(CHAMPION) else live
        if live != kept and text not in (live, kept):
            self.champion()  # refuses
        self._write(self.file(CHAMPION), text)
        self._write(self.live, text)

    def reconcile(self, take: str) -> None:
        """Bring champion and live prompt together again, by a person's word: `live` or `champion`."""
        if take == "champion":
            self._write(self.live, self.text(CHAMPION))
            return
        text = self._read(self.live)
        if self._has(CHAMPION) and (before := self.text(CHAMPION)) != text:
            about = (_today(), "edited by hand")
            self._record(Origin(CHAMPION, sha256(text), sha256(before), "hand", "", *about))
        self._write(self.file(CHAMPION), text)

    def restart(self, variant: str) -> None:
        """Take a challenger out of the race: its file starts again as the champion's text."""
        self._write(self.file(variant), self.champion().text)

    def add(
        self,
        text: str,
        *,
        source: str,
        author: str,
        reason: str = "",
        name: str | None = None,
        parent: str | None = None,
        calls: int | None = None,
        cost_usd: float | None = None,
        practice: float | None = None,
    ) -> Variant:
        """Keep a new challenger with its lineage; `parent`, the hash of what it was made from: else the champion."""
        champion, where = self.champion(), f"challenger for {self.prompt}"
        checked_text(text, where)
        if text == champion.text:
            raise BadInput(f"{where}: its text is the champion's")
        for other in self.challengers()[0]:
            if other.text == text:
                raise BadInput(f"{where}: its text is already there as {other.called}")
        used = self._used()
        digest = sha256(text)
        before = next((letter for letter, known in used.items() if known == digest), None)
        name = name or before or self._free_name(used)
        if name == "A" or used.get(name, digest) != digest:
            raise BadInput(f"{where}: the name {name} is taken by {name_of(name, used.get(name))}")
        self._write(self.file(name), text)
        made_from = parent or champion.sha256
        about = (source, author, _today(), reason, calls, cost_usd, practice)
        self._record(Origin(name, digest, made_from, *about))
        return Variant(self.prompt, name, text)

    def lineage(self) -> list[Origin]:
        """Where every text came from, oldest first."""
        file = self.folder / LINEAGE
        try:
            rows = load_json(read_again(self.repo / file))
            if wrong := problems(read_schema(LINEAGE_SCHEMA), rows):
                raise ValueError(wrong[0])
            return [Origin(**row) for row in rows]
        except FileNotFoundError:
            return []
        except (ValueError, OSError) as problem:
            raise BadInput(f"{file}: not a lineage file ({problem})") from None

    def origin(self, text_sha256: str) -> Origin | None:
        """Where this text came from, if it was recorded."""
        return next((row for row in reversed(self.lineage()) if row.sha256 == text_sha256), None)

    def _used(self) -> dict[str, str | None]:
        """What every name stands for, by hash, now or ever; a file that is a copy of another text does not count."""
        distinct, unreadable = self.challengers()
        used: dict[str, str | None] = {row.variant: row.sha256 for row in self.lineage()}
        used |= {variant.name: variant.sha256 for variant in (self.champion(), *distinct)}
        return used | dict.fromkeys(unreadable)

    def _free_name(self, used: Container[str]) -> str:
        """The first letter from B on that never stood for a text of this prompt."""
        letters = string.ascii_uppercase
        for name in (first + second for first in ("", *letters) for second in letters):  # A .. Z, AA .. ZZ
            if name != "A" and name not in used:
                return str(name)
        raise BadInput(f"{self.folder / LINEAGE}: no free letter left; give the challenger a name")

    def _record(self, row: Origin) -> None:
        rows = [old for old in self.lineage() if (old.variant, old.sha256) != (row.variant, row.sha256)]
        write_json(self.repo / self.folder / LINEAGE, [asdict(old) for old in [*rows, row]])

    def _has(self, variant: str) -> bool:
        return (self.repo / self.file(variant)).exists()

    def _write(self, path: Path, text: str) -> None:
        write_atomic(self.repo / path, text)
        self._texts[path] = text

    def _read(self, path: Path) -> str:
        """Text of a file below the root, checked; a link is refused, it may lead anywhere."""
        if path not in self._texts:
            file = self.repo / path
            try:
                if file.is_symlink():
                    raise BadInput(f"{path}: is a symbolic link")
                text = read_again(file).decode()
            except OSError as problem:
                raise BadInput(f"{path}: cannot be read ({problem.strerror})") from None
            except UnicodeDecodeError as problem:
                raise BadInput(f"{path}: not UTF-8 text (byte {problem.start})") from None
            self._texts[path] = checked_text(text, str(path))
        return self._texts[path]


def _today() -> str:
    return datetime.now(UTC).date().isoformat()
