"""No means no: what a person refused is neither tested nor proposed again beside the same champion."""

from __future__ import annotations

from pathlib import Path

import pytest

from agents.texts.variants import sha256
from eval.ledger.refusals import Refusal, read_line, record, refusals
from telemetry.edge.files import REFUSALS, Repo
from telemetry.edge.records import plain
from tests.worlds import ab_world
from tests.worlds.ab_world import PROMPT, Scripted

BETTER = "# solver\nskill: 0.95\n"


def refusal(root: Path, why: str = "too wordy", **fields: str) -> Refusal:
    champion = sha256((root / PROMPT).read_text())
    about = {"kind": "ab_champion", "subject": PROMPT, "sha256": sha256(BETTER), "champion_sha256": champion}
    return Refusal(
        **{**about, "reference": "https://github.example/o/r/pull/7", "by": "ann", "why": why, **fields}
    )


@pytest.fixture
def night(root: Path, monkeypatch: pytest.MonkeyPatch) -> Scripted:
    ab_world.make(root)
    ab_world.challenger(root, "B", BETTER)
    return ab_world.use(monkeypatch, Scripted())


def test_a_refused_text_costs_no_call_and_the_report_says_who_said_no(root: Path, night: Scripted) -> None:
    record(Repo(root), [refusal(root)])
    ab_world.run(root)
    assert night.calls == 0
    assert not (root / "meta/decisions").exists()


def test_beside_another_champion_it_may_be_tested_again(root: Path, night: Scripted) -> None:
    record(Repo(root), [refusal(root, champion_sha256="0" * 64)])
    report = ab_world.run(root)
    assert report["promoted"] == [PROMPT]


def test_the_same_refusal_is_on_record_once(root: Path) -> None:
    ab_world.make(root)
    for why in ("too wordy", "read again by the next night"):
        record(Repo(root), [refusal(root, why)])
    (kept,) = refusals(Repo(root))
    assert kept.told.startswith("refused by ann on 2")
    assert kept.told.endswith(": too wordy")


def test_a_line_that_is_no_refusal_is_none(root: Path) -> None:
    ab_world.make(root)
    good = plain(refusal(root))
    assert read_line(good) is not None
    for name, value in (
        ("subject", "../../etc"),
        ("sha256", "x"),
        ("ts", "tomorrow"),
        ("kind", "A B"),
        ("more", ""),
    ):
        hostile = good | {name: value}
        assert read_line(hostile if name != "subject" else good | {"subject": "$(id)"}) is None, name
    (root / REFUSALS).parent.mkdir(exist_ok=True)
    (root / REFUSALS).write_bytes(b'{"torn": \n[]\n\xff\xfe\n')
    assert refusals(Repo(root)) == []


def test_a_reason_is_one_plain_line(root: Path) -> None:
    ab_world.make(root)
    hostile = read_line(plain(refusal(root, "no\u202e\n" + "x" * 900)))
    assert hostile is not None
    assert "\n" not in hostile.why and len(hostile.why) == 500
