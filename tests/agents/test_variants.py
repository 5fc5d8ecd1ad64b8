"""Champion and challengers on disk: names are only names, texts are checked, and nothing is lost half-way."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.texts import variants
from agents.texts.variants import Variants
from meta import prompt_variant_manager as manager
from telemetry.edge import cli
from telemetry.edge.errors import BadInput
from telemetry.edge.files import Repo, here, working_in

PROMPT = "agents/prompts/reviewer.md"


@pytest.fixture
def prompt(tmp_path: Path) -> Path:
    file = tmp_path / PROMPT
    file.parent.mkdir(parents=True)
    file.write_text("Find defects.\n")
    return file


@pytest.fixture(autouse=True)
def _here(tmp_path: Path) -> object:
    with working_in(tmp_path):
        yield


def test_ensure_starts_every_variant_from_the_live_text(prompt: Path, tmp_path: Path) -> None:
    found = manager.ensure_variants(PROMPT)
    assert set(found) == {"A", "B", "champion"} and len(set(found.values())) == 1
    assert manager.load_variant(PROMPT, "B") == "Find defects.\n"
    assert Variants(here(), PROMPT).challengers() == ([], {})
    before = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    manager.ensure_variants(PROMPT)
    assert before == {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}


def test_challengers_are_distinct_texts(prompt: Path) -> None:
    manager.ensure_variants(PROMPT)
    added = Variants(here(), PROMPT).add(
        "Quote evidence.\n", source="hand", author="Ada", reason="critique 3"
    )
    assert added.name == "B"  # B was a copy of the champion: free
    second = Variants(here(), PROMPT).add("Be brief.\n", source="proposal", author="model-x")
    assert second.name == "C"
    (here() / Variants(here(), PROMPT).file("D")).write_text("Be brief.\n")
    assert [v.name for v in Variants(here(), PROMPT).challengers()[0]] == ["B", "C"]
    origin = Variants(here(), PROMPT).origin(added.sha256)
    assert origin is not None
    assert (origin.author, origin.parent_sha256) == ("Ada", variants.sha256("Find defects.\n"))


def test_a_text_is_called_by_its_letter_and_its_hash(prompt: Path) -> None:
    manager.ensure_variants(PROMPT)
    added = Variants(here(), PROMPT).add("Quote evidence.\n", source="hand", author="")
    assert added.called == variants.name_of("B", added.sha256) == f"B {added.sha256[:7]}"


def test_a_letter_stands_for_one_text_also_after_its_file_is_gone(prompt: Path) -> None:
    manager.ensure_variants(PROMPT)
    texts = Variants(here(), PROMPT)
    first = texts.add("Quote evidence.\n", source="hand", author="")
    texts.add("Be brief.\n", source="hand", author="")
    texts.restart("B")
    (here() / texts.file("C")).unlink()
    again = Variants(here(), PROMPT)
    assert again.add("Be kind.\n", source="hand", author="").name == "D"
    with pytest.raises(BadInput, match=f"the name B is taken by {first.called}"):
        again.add("Be quick.\n", source="hand", author="", name="B")
    assert again.add("Be brief.\n", source="hand", author="").name == "C"  # the text it always stood for
    assert [row.variant for row in again.lineage()] == ["A", "B", "D", "C"]


@given(st.lists(st.sampled_from(["add", "lose", "delete", "promote"]), max_size=40))
@settings(max_examples=40, deadline=None)
def test_whatever_happens_no_letter_of_a_lineage_has_two_texts(
    tmp_path_factory: pytest.TempPathFactory, acts: list[str]
) -> None:
    root = tmp_path_factory.mktemp("lineage")
    (root / PROMPT).parent.mkdir(parents=True)
    (root / PROMPT).write_text("Find defects.\n")
    for number, act in enumerate(acts):
        texts = Variants(Repo(root), PROMPT)
        texts.ensure()
        newest = next(reversed(texts.challengers()[0]), None)
        if act == "add":
            texts.add(f"Text {number}.\n", source="proposal", author="")
        elif newest and act == "lose":
            texts.restart(newest.name)
        elif newest and act == "delete":
            (root / texts.file(newest.name)).unlink()
        elif newest:
            texts.save_champion(newest.text)
    letters = [row.variant for row in Variants(Repo(root), PROMPT).lineage()]
    assert len(letters) == len(set(letters))


@pytest.mark.parametrize(
    "text",
    [
        "Find defects.\n",
        "",
        " \n",
        "x" * 70_000,
        "bell \x07",
        "tag \U000e0041",
        "mark \u200b",
        "Quote evidence.\n",
    ],
)
def test_a_text_not_worth_keeping_is_refused(prompt: Path, text: str) -> None:
    manager.ensure_variants(PROMPT)
    Variants(here(), PROMPT).add("Quote evidence.\n", source="hand", author="")
    with pytest.raises(BadInput):
        Variants(here(), PROMPT).add(text, source="proposal", author="")


@pytest.mark.parametrize("name", ["../../x", "/etc/passwd", "a/b", "", ".", "B.md", "B\n", "x" * 40])
def test_a_variant_name_that_is_a_path_is_refused(prompt: Path, name: str) -> None:
    with pytest.raises(BadInput, match="variant"):
        manager.load_variant(PROMPT, name)
    with pytest.raises(BadInput):
        Variants(here(), PROMPT).add("New.\n", source="proposal", author="", name=name or "..")


@pytest.mark.parametrize(
    "path",
    [
        "agents/prompts/../../x.md",
        "/etc/x.md",
        "README.md",
        "agents/prompts/reviewer.txt",
        "agents/prompts/variants/x/B.md",
        "agents/manifest.yaml",
    ],
)
def test_a_path_that_is_no_prompt_is_refused(prompt: Path, path: str) -> None:
    with pytest.raises(BadInput):
        manager.save_champion(path, "New.\n")
    with pytest.raises(BadInput):
        manager.ensure_variants(path)


def test_a_link_out_of_the_folder_is_not_followed(prompt: Path, tmp_path: Path) -> None:
    manager.ensure_variants(PROMPT)
    (tmp_path / "secret.txt").write_text("secret")
    link = tmp_path / Variants(here(), PROMPT).file("C")
    link.symlink_to(tmp_path / "secret.txt")
    assert "symbolic link" in Variants(here(), PROMPT).challengers()[1]["C"]


def test_an_unreadable_variant_is_named_and_the_others_stay(prompt: Path, tmp_path: Path) -> None:
    manager.ensure_variants(PROMPT)
    Variants(here(), PROMPT).add("Good.\n", source="hand", author="")
    (tmp_path / Variants(here(), PROMPT).file("C")).write_bytes(b"\xff\xfe broken")
    (tmp_path / Variants(here(), PROMPT).file("D")).mkdir()
    good, problems = Variants(here(), PROMPT).challengers()
    assert [v.name for v in good] == ["B"]
    assert "not UTF-8" in problems["C"] and "cannot be read" in problems["D"]


def test_save_champion_replaces_both_files(prompt: Path, tmp_path: Path) -> None:
    manager.ensure_variants(PROMPT)
    manager.save_champion(PROMPT, "Better.\n")
    assert prompt.read_text() == "Better.\n" == Variants(here(), PROMPT).champion().text
    assert [v.name for v in Variants(here(), PROMPT).challengers()[0]] == ["A"]


def test_a_champion_that_came_apart_from_the_live_prompt_is_refused_and_can_be_mended(prompt: Path) -> None:
    manager.ensure_variants(PROMPT)
    prompt.write_text("Edited by hand.\n")
    for action in (
        lambda: Variants(here(), PROMPT).champion(),
        lambda: manager.ensure_variants(PROMPT),
        lambda: manager.save_champion(PROMPT, "Better.\n"),
    ):
        with pytest.raises(BadInput, match=r"champion\.md: differs from the live prompt .*--take live"):
            action()
    assert manager.main(["ensure", PROMPT, "--take", "live", "--quiet"]) == cli.OK
    assert Variants(here(), PROMPT).champion().text == "Edited by hand.\n"
    origin = Variants(here(), PROMPT).origin(variants.sha256("Edited by hand.\n"))
    assert origin is not None
    assert (origin.source, origin.parent_sha256) == ("hand", variants.sha256("Find defects.\n"))


@pytest.mark.parametrize("half", [PROMPT, "agents/prompts/variants/reviewer/champion.md"])
def test_a_save_killed_between_the_two_files_is_completed_by_the_next(
    prompt: Path, tmp_path: Path, half: str
) -> None:
    manager.ensure_variants(PROMPT)
    (tmp_path / half).write_text("Better.\n")
    manager.save_champion(PROMPT, "Better.\n")
    assert Variants(here(), PROMPT).champion().text == "Better.\n"


@pytest.mark.parametrize(
    "wrong", [{"parent_sha256": []}, {"sha256": 5}, {"variant": None}, {"calls": "x"}, {"other": "x"}]
)
def test_a_lineage_that_says_no_such_thing_is_named(prompt: Path, wrong: dict[str, object]) -> None:
    manager.ensure_variants(PROMPT)
    texts = Variants(here(), PROMPT)
    file = here() / texts.folder / variants.LINEAGE
    row = {
        "variant": "A",
        "sha256": "0" * 64,
        "parent_sha256": None,
        "source": "live",
        "author": "",
        "date": "2026-11-18",
    }
    file.write_text(json.dumps([row]))
    assert [one.variant for one in Variants(here(), PROMPT).lineage()] == ["A"]
    file.write_text(json.dumps([row | wrong]))
    with pytest.raises(BadInput, match=r"lineage\.json: not a lineage file"):
        Variants(here(), PROMPT).lineage()


def test_commands(prompt: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert manager.main(["ensure", PROMPT]) == cli.OK
    new = tmp_path / "new.md"
    new.write_text("Find defects.\nQuote evidence.\n")
    assert manager.main(["add", str(new), "--prompt", PROMPT, "--author", "Ada", "--reason", "why"]) == cli.OK
    capsys.readouterr()
    assert manager.main(["diff", PROMPT]) == cli.OK
    assert "+Quote evidence." in capsys.readouterr().out
    assert manager.main(["list", "--json"]) == cli.OK
    listed = json.loads(capsys.readouterr().out)
    (entry,) = listed["prompts"]
    assert entry["prompt"] == PROMPT
    assert [c["variant"] for c in entry["challengers"]] == ["B"]
    assert entry["challengers"][0]["lineage"]["author"] == "Ada"
    assert manager.main(["list"]) == cli.OK
    assert f"B {entry['challengers'][0]['sha256'][:7]}   hand, Ada" in capsys.readouterr().out


def test_a_person_says_what_their_text_was_made_from(prompt: Path, tmp_path: Path) -> None:
    manager.ensure_variants(PROMPT)
    first = Variants(here(), PROMPT).add("Quote evidence.\n", source="hand", author="")
    (tmp_path / "new.md").write_text("Quote evidence, briefly.\n")
    flags = ["--prompt", PROMPT, "--from", "B", "--quiet"]
    assert manager.main(["add", str(tmp_path / "new.md"), *flags]) == cli.OK
    assert Variants(here(), PROMPT).lineage()[-1].parent_sha256 == first.sha256


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["diff", PROMPT, "--variant", "../../x"], "variant"),
        (["ensure", "README.md"], "not a prompt"),
        (["add", "nowhere.md", "--prompt", PROMPT], "nowhere.md"),
        ([], "required"),
        (["ensure", "--take", "neither"], "neither"),
    ],
)
def test_bad_input_is_one_line_and_writes_nothing(
    prompt: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], complaint: str
) -> None:
    manager.ensure_variants(PROMPT)
    before = sorted(tmp_path.rglob("*"))
    assert manager.main(arguments) == cli.BAD_INPUT
    errors = capsys.readouterr().err
    assert complaint in errors and errors.count("\n") == 1
    assert sorted(tmp_path.rglob("*")) == before
