"""Every text that went to a model or came from it, once, by its SHA-256: events hold the hash, this holds the words.

A new text is one line of `texts.jsonl`, appended like an event, without its secrets: the hash is of what is written.
`retention seal` makes Parquet of the lines, `sync` carries them. A text is given back only if it hashes to its name.
`RATCHET_STORE_TEXTS=0` keeps hashes alone.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from telemetry import logger
from telemetry.edge import cli
from telemetry.edge.errors import BadInput, unwritten
from telemetry.edge.files import TEXTS, Repo, here
from telemetry.edge.text import redact

SWITCH: Final = "RATCHET_STORE_TEXTS"
MAX_TEXT: Final = 2 << 20  # characters of one text; of a longer one only the hash is kept
MOST_KNOWN: Final = 200_000  # texts that a process remembers; what it writes twice after that, sealing drops
LATELY: Final = 64  # texts that need not even be hashed again
_NAMED: Final = re.compile(rb'^\{"sha256":"([0-9a-f]{64})"', re.MULTILINE)


@dataclass(slots=True)
class _Log:
    """Where texts go below one root, and what is known to stand there."""

    root: Path
    path: str
    identity: tuple[int, int] | None  # of the file: another one may hold other texts
    names: dict[bytes, str]  # by the digest of a text as it came: the name of what was written
    lately: dict[str, str]  # the same by the text itself: most calls begin with one that the last began with


_last: _Log | None = None


def keep(text: str) -> str:
    """Write a text down, unless it stands there; its name. Trouble is one line on stderr, never an exception."""
    log = _last if _last is not None and _last.root is here().root else _log()
    if (name := log.lately.get(text)) is not None:
        return name
    raw = text.encode("utf-8", "replace")
    digest = hashlib.sha256(raw).digest()
    if (name := log.names.get(digest)) is None:
        name = _kept(raw, digest)
    if len(log.lately) >= LATELY:
        log.lately.clear()
    log.lately[text] = name
    return name


def _kept(raw: bytes, digest: bytes) -> str:
    """Write a text down that is not known to stand there; its name."""
    log = _log()
    clean = redact(raw.decode())
    written = digest if clean.encode() == raw else hashlib.sha256(clean.encode()).digest()
    name = written.hex()
    if os.environ.get(SWITCH) != "0" and written not in log.names and len(clean) <= MAX_TEXT:
        try:
            logger.append(line_of(logger.utc_now(), clean, name), log.path)
        except OSError as problem:  # a row without its text is worth more than no result
            if not unwritten.take(problem):
                print(f"telemetry: a text was not kept: {problem}", file=sys.stderr)
            return name
    if len(log.names) >= MOST_KNOWN:
        log.names.clear()
    log.names[digest] = log.names[written] = name
    return name


def _log() -> _Log:
    """That of the root being worked on; what an earlier process wrote there, and nobody has sealed yet, is known."""
    global _last
    root = here().root
    if _last is not None and _last.root == root:
        _last.root = root  # the same folder, named anew by the next script of a night
    path = _last.path if _last is not None and _last.root is root else os.fspath(root / TEXTS)
    try:
        status = os.stat(path)  # noqa: PTH116 - a Path object costs as much as the call itself
        identity = (status.st_ino, status.st_dev)
    except FileNotFoundError:
        identity = None
    if _last is None or _last.path is not path or _last.identity != identity:
        names = _NAMED.findall(Path(path).read_bytes())[-MOST_KNOWN:] if identity else []
        known = {bytes.fromhex(name.decode()): name.decode() for name in names}
        _last = _Log(root, path, identity, known, {})
    return _last


def line_of(ts: str, text: str, name: str = "") -> bytes:
    """A text as it stands in the log."""
    import orjson

    return orjson.dumps({"sha256": name or name_of(text), "ts": ts, "text": text}) + b"\n"


def parse(line: bytes) -> dict[str, str] | None:
    """The text on a line; None if it is none, or not what its name says."""
    import orjson

    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(row, dict) or not all(
        isinstance(row.get(one), str) for one in ("sha256", "ts", "text")
    ):
        return None
    return row if name_of(row["text"]) == row["sha256"] else None


def name_of(text: str) -> str:
    """The name under which exactly this text is kept."""
    return hashlib.sha256(text.encode()).hexdigest()


def text_of(sha256: str, repo: Repo | None = None) -> str | None:
    """The text of that name; None if it is not here."""
    return texts_of([sha256], repo).get(sha256)


def texts_of(names: Iterable[str], repo: Repo | None = None) -> dict[str, str]:
    """Those of the texts that are here, by name: one pass over the store, however many are asked for."""
    from telemetry.read import sealed_texts

    wanted = {name for name in names if re.fullmatch(r"[0-9a-f]{64}", name)}
    found = sealed_texts.find(repo or here(), wanted) if wanted else ()
    return {name: text for text in found if (name := name_of(text)) in wanted}


def parser() -> cli.Parser:
    """The command line."""
    parse = cli.Parser(__doc__)
    parse.add_argument("sha256", metavar="HASH", help="as a row names it: 16 to 64 characters")
    return parse


@cli.entry(parser)
def main(args: argparse.Namespace, repo: Repo) -> int:
    """Show a text."""
    from telemetry.read import sealed_texts

    asked = args.sha256.lower()
    if not re.fullmatch(r"[0-9a-f]{16,64}", asked):
        raise BadInput(f"{args.sha256[:80]!r}: must be the first 16 to 64 characters of a SHA-256")
    found = {name_of(text): text for text in sealed_texts.find(repo, [asked])}
    names = sorted(name for name in found if name.startswith(asked))
    if not names:
        raise BadInput(
            f"{asked}: no such text is kept here; `python -m telemetry.sync pull` brings those of others"
        )
    cli.tell(args, {"sha256": names[0], "text": found[names[0]]}, found[names[0]])
    return cli.OK


if __name__ == "__main__":
    raise SystemExit(main())
