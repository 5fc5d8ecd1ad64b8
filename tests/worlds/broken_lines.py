"""Lines that have no place in a log, each broken in another way; what a crash, an editor or another program leaves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson

from tests.worlds.eventlog import event


def _with(**fields: Any) -> bytes:
    return orjson.dumps(event(**{"event_id": "broken", **fields}))


def _raw(name: str, text: str) -> bytes:
    """The event with one field as it could not be written by a JSON library."""
    return _with(**{name: "HERE"}).replace(b'"HERE"', text.encode("utf-8", "surrogateescape"))


_MOMENTS = (
    *(
        "2026-10-01T12:00:00,000Z",
        "2026-10-01 12:00:00Z",
        "2026-13-01T12:00:00.000Z",
        "2026-10-01T25:00:00.000Z",
    ),
    *("2026-10-01T12:00:00+02:00", "0000-00-00T00:00:00.000Z", "9999-12-31T23:59:59.999999999Z", "1e9", ""),
    *(
        "2026-10-01T12:00:00.000Z\u0000",
        "-2026-10-01T12:00:00.000Z",
        "2026-W40-4T12:00:00Z",
        "20261001T120000Z",
    ),
    *(
        "2026-10-01T12:00Z",
        "2026-02-30T12:00:00.000Z",
        "٢٠٢٦-10-01T12:00:00.000Z",
        "2026-10-01T12:00:60.000Z",
    ),
)
_NUMBERS = (
    *(
        "NaN",
        "Infinity",
        "-Infinity",
        "1e308",
        "-1e308",
        "1e999",
        "-1e999",
        "1e-400",
        "9" * 400,
        '"fast"',
        "true",
    ),
    *("[]", "{}", "-1", "0x10", "01", "+1", ".5", "1_000", "٣", "1e", "--1"),
)

BROKEN: dict[str, Callable[[], bytes]] = {
    "nothing but text": lambda: b"oops",
    "half an object": lambda: _with()[:80],
    "two objects": lambda: _with() + _with(),
    "an array": lambda: b"[" + _with() + b"]",
    "a number": lambda: b"42",
    "null": lambda: b"null",
    "an empty object": lambda: b"{}",
    "a string": lambda: b'"event"',
    "NULs": lambda: b"\0" * 4096,
    "NULs before it": lambda: b"\0" * 512 + _with(),
    "NULs after it": lambda: _with() + b"\0" * 512,
    "a NUL in a text": lambda: _with(error="a\0b"),
    "no UTF-8": lambda: _with(error="x").replace(b'"x"', b'"\xff\xfe\x80"'),
    "half a character": lambda: _with(error="x").replace(b'"x"', b'"\\ud800"'),
    "a byte order mark": lambda: b"\xef\xbb\xbf" + _with(),
    "UTF-16": lambda: _with().decode().encode("utf-16").replace(b"\n", b" "),
    "carriage returns": lambda: b"\r\r\r",
    "nested 900 deep": lambda: _with(x=1).replace(b'"x":1', b'"x":' + b"[" * 900 + b"]" * 900),
    "nested 100,000 deep": lambda: _with(x=1).replace(b'"x":1', b'"x":' + b"[" * 100_000 + b"]" * 100_000),
    "brackets only": lambda: b"[" * 200_000,
    "objects nested 5,000 deep": lambda: _with(x=1).replace(b'"x":1', b'"x":' + b'{"a":' * 5_000 + b"1" + b"}" * 5_000),
    "20 MB": lambda: _with(error="x" * 20_000_000),
    "50 MB": lambda: _with(error="x" * 50_000_000),
    "50 MB of nothing": lambda: b" " * 50_000_000,
    "40 MB without a quote": lambda: b"x" * 40_000_000,
    "a million fields": lambda: b"{" + b",".join(b'"f%d":1' % n for n in range(1_000_000)) + b"}",
    "a key twice": lambda: _with().replace(b'"agent":', b'"agent":"a","agent":'),
    "single quotes": lambda: _with().replace(b'"', b"'"),
    "a comma too many": lambda: _with()[:-1] + b",}",
    "a comment": lambda: b"// " + _with(),
    "a merge conflict": lambda: b"<<<<<<< HEAD",
    "an agent that is an object": lambda: _with(agent={"name": "x"}),
    "an agent that is a number": lambda: _with(agent=5),
    "an agent that is empty": lambda: _with(agent=""),
    "an agent of control characters": lambda: _with(agent="\x1b[31m\u202e\u0000"),
    "an agent of 20 kB": lambda: _with(agent="a" * 20_000),
    "an agent that is a path": lambda: _with(agent="../../etc/passwd"),
    "an unknown source": lambda: _with(source="nowhere"),
    "an unknown kind": lambda: _with(kind="nothing"),
    "a kind that is a list": lambda: _with(kind=["run"]),
    "a scoring version of text": lambda: _with(scoring_version="\x00"),
    "signals that are no JSON": lambda: _with(signals="{"),
    "signals that are deep": lambda: _with(signals="[" * 5000),
    "as_of that is no day": lambda: _with(as_of="yesterday"),
    "tokens beyond all": lambda: _raw("tokens_in", "99999999999999999999999999"),
    "tokens of text": lambda: _with(tokens_in="many"),
    "no event id": lambda: _with(event_id=None),
    **{f"ts {moment[:30]!r}": lambda moment=moment: _with(ts=moment) for moment in _MOMENTS},  # type: ignore[misc]
    **{f"ts {text}": lambda text=text: _raw("ts", text) for text in ("null", "5", "[]", "1e400")},  # type: ignore[misc]
    **{f"reward {text[:12]}": lambda text=text: _raw("reward", text) for text in _NUMBERS},  # type: ignore[misc]
    **{f"cost {text}": lambda text=text: _raw("cost_usd", text) for text in ("1e308", "-1e308", "1e-400", "NaN")},  # type: ignore[misc]
    **{f"latency {text}": lambda text=text: _raw("latency_ms", text) for text in ("1e308", "-1e308", "1e999")},  # type: ignore[misc]
    "+1e308 twice": lambda: _raw("reward", "1e308") + b"\n" + _raw("reward", "1e308"),
    "-1e308 twice": lambda: _raw("latency_ms", "-1e308") + b"\n" + _raw("latency_ms", "-1e308"),
    "+1e308 and -1e308": lambda: _raw("reward", "1e308") + b"\n" + _raw("reward", "-1e308"),
}  # fmt: skip
