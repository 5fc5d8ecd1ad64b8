"""What a change may put into a file: nothing hidden, nothing undecided, nothing twice."""

from __future__ import annotations

import hashlib
import json
import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.manifest import matches, protecting
from meta.publish import contents
from meta.publish.boundaries import MAX_PATH_CHARS, PROTECTED, check_changes
from meta.publish.contents import ABSENT, EXECUTABLE, REGULAR, Change
from meta.publish.kinds import KINDS, Kind
from telemetry.edge.text import MAX_BODY, Section, fitting
from tests.conftest import REPOSITORY
from tests.worlds import proposal_repo as repo

# Tag characters, separators, soft hyphen, marks, fillers, invisible operators, controls, variation selectors.
UNSEEN = [
    chr(point)
    for point in (0xE0041, 0x2028, 0x2029, 0xAD, 0x61C, 0x2064, 0x85, 0x200B, 0x202E, 0x2066, 0x3164, 0xFEFF, 0xFE01,
                  0x1B, 0x7F)
]  # fmt: skip
REPORT = "meta/reports/ab_test_report.json"
MANIFEST: dict[str, Any] = {
    "defaults": {"execution_sensitive": False},
    "agents": [
        {"name": "calm", "module": "agents.calm"},
        {"name": "off", "module": "agents.off", "enabled": False},
        {"name": "trader", "module": "agents.trader", "execution_sensitive": True},
    ],
}


def change(path: str, after: str | bytes | None, before: str | None = None) -> Change:
    raw = after.encode() if isinstance(after, str) else after
    old = None if before is None else before.encode()
    return Change(path, REGULAR if old is not None else ABSENT, REGULAR, old, raw, 1)


def nothing(path: str) -> bytes | None:
    return None


def problems(
    kind: str, *changes: Change, manifest: dict[str, Any] | None = None, head: contents.Head = nothing
) -> str:
    return "\n".join(map(str, check_changes(changes, KINDS[kind], manifest or {}, head)))


@pytest.mark.parametrize("hidden", UNSEEN, ids=lambda one: f"U+{ord(one):04X}")
@pytest.mark.parametrize(
    ("kind", "path", "text"),
    [
        ("ab_champion", "agents/prompts/macro_watcher.md", "Watch{}.\n"),
        ("proposals", "agents/prompts/variants/macro_watcher/C.md", "Watch{}.\n"),
        ("critiques", "meta/reports/cross_critiques.md", "> fine{}\n"),
        ("critiques", "meta/reports/cross_critiques.json", '{{"a": "{}"}}'),
        ("proposals", "agents/prompts/variants/macro_watcher/lineage.json", '{{"a": "{}"}}'),
        ("ab_champion", "meta/decisions/x.json", '{{"a": "{}"}}'),
        ("retirement_disable", "agents/manifest.yaml", "# {}\nagents: []\n"),
        ("sandbox", "agents/calm.py", "x = 1  # {}\n"),
    ],
)
def test_no_file_hides_anything(kind: str, path: str, text: str, hidden: str) -> None:
    editable = {"agents": [{"name": "calm", "module": "agents.calm", "sandbox_editable": True}]}
    told = problems(kind, change(path, text.format(hidden), "agents: []\n"), manifest=editable)
    assert f"{path}: holds the hidden character U+{ord(hidden):04X}" in told


@pytest.mark.parametrize("hidden", UNSEEN, ids=lambda one: f"U+{ord(one):04X}")
def test_no_body_hides_anything(hidden: str) -> None:
    assert f"holds the hidden character U+{ord(hidden):04X}" in list(
        contents.check_body(f"a{hidden}b".encode())
    )


def test_line_feeds_tabs_and_emoji_are_not_hidden() -> None:
    text = "a\tb\n☑️ naïve – “quoted” 日本語\n"
    assert problems("proposals", change("agents/prompts/variants/x/C.md", text)) == ""
    assert list(contents.check_body(text.encode())) == []


@given(st.lists(st.tuples(st.integers(0, 30_000), st.integers(0, 99)), min_size=1, max_size=6))
def test_the_guard_takes_every_body_that_was_made_to_fit(sizes: list[tuple[int, int]]) -> None:
    body = fitting(
        ["> decide", *(Section("x" * size, worth, "part") for size, worth in sizes)], "report.json"
    )
    assert list(contents.check_body(body.encode())) == []


def test_a_body_of_just_the_limit_is_taken_and_one_more_is_not() -> None:
    assert list(contents.check_body(b"x" * MAX_BODY)) == []
    assert list(contents.check_body(b"x" * (MAX_BODY + 1))) == [
        f"has {MAX_BODY + 1:,} characters, at most {MAX_BODY:,} are taken"
    ]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"\xff", "is not UTF-8"),
        (b" \n", "is empty"),
        (b"x\n" * MAX_BODY + b"@someone", "characters, at most"),
    ],
)
def test_a_body_that_is_no_text_is_refused(body: bytes, reason: str) -> None:
    (why,) = contents.check_body(body)
    assert reason in why


@pytest.mark.parametrize(
    "fence",
    ["```\n@someone\n````", "~~~\n@someone\n~~~", "   ```x\n@someone\n```", "````\n```\n@someone\n````"],
)
def test_what_stands_in_a_fence_acts_on_nobody(fence: str) -> None:
    assert list(contents.check_body(f"a\n{fence}\nb\n".encode())) == []
    assert list(contents.check_body(f"a\n{fence}\n@other\n".encode())) == ["mentions someone: '@other'"]


@pytest.mark.parametrize(
    "body", ["```\n``` x\n@someone", "```\n~~~\n@someone", "    ```\n@someone\n    ```", "``a` @someone"]
)
def test_what_does_not_close_or_open_a_fence_changes_nothing(body: str) -> None:
    inside = body.startswith("```")
    assert (list(contents.check_body(body.encode())) == []) is inside


def flipped(*names: str, **changes: object) -> str:
    agents = [
        {**entry, "enabled": not entry.get("enabled", True)} if entry["name"] in names else entry
        for entry in MANIFEST["agents"]
    ]
    return json.dumps({**MANIFEST, "agents": agents, **changes})


def decided(act: str, subject: str) -> Change:
    return change("meta/decisions/x.json", repo.decision(act, "retirement", subject))


def flip(after: str, *decisions: Change) -> str:
    report = change("meta/reports/retirement_report.json", repo.REPORT)
    edit = change("agents/manifest.yaml", after, json.dumps(MANIFEST))
    return problems("retirement_disable", edit, report, *decisions)


def test_a_flip_needs_its_own_decision() -> None:
    assert flip(flipped("calm"), decided("disable", "calm")) == ""
    assert flip(flipped("off"), decided("revive", "off")) == ""
    assert "flips calm without a decision to disable it" in flip(flipped("calm"), decided("disable", "off"))
    assert "flips calm without a decision to disable it" in flip(flipped("calm"), decided("revive", "calm"))
    assert "flips off without a decision to revive it" in flip(flipped("off"), decided("disable", "off"))
    assert "flips trader, which is execution_sensitive" in flip(
        flipped("trader"), decided("disable", "trader")
    )


def test_a_default_of_sensitivity_holds_for_every_agent_that_does_not_say_otherwise() -> None:
    before = {**MANIFEST, "defaults": {"execution_sensitive": True}}
    edit = change("agents/manifest.yaml", flipped("calm", defaults=before["defaults"]), json.dumps(before))
    assert "flips calm, which is execution_sensitive" in problems("retirement_disable", edit)


@pytest.mark.parametrize(
    "after",
    [
        "agents: [{name: calm, module: agents.calm, enabled: true, enabled: false}]",
        "agents: [{name: calm, name: calm}]",
        "agents: []\nagents: []",
        "agents: {}\n? [",
        "agents: 3",
        "[]",
        "agents: [calm]",
        "agents: [{module: x}]",
    ],
)
def test_what_no_script_could_load_is_no_manifest(after: str) -> None:
    assert "is not a manifest" in flip(after)


@pytest.mark.parametrize(
    "after",
    [
        flipped("calm", version=2),
        flipped("calm", defaults={}),
        flipped("calm", agents=MANIFEST["agents"][1:]),
        flipped("calm", agents=[*MANIFEST["agents"], {"name": "new", "module": "x"}]),
        flipped("calm", agents=[{**MANIFEST["agents"][0], "prompt": "x"}, *MANIFEST["agents"][1:]]),
    ],
)
def test_nothing_but_the_flag_changes_in_a_manifest(after: str) -> None:
    assert "changes more than `enabled:`" in flip(after, decided("disable", "calm"))


def test_only_a_file_among_the_decisions_decides() -> None:
    """A report that looks like a decision is none, and neither is what was deleted."""
    text = "better\n"
    live = change("agents/prompts/x.md", text)
    champion = change("agents/prompts/variants/x/champion.md", text)
    decision = json.loads(repo.decision("promote", "ab_champion", "x", text))
    report = change(REPORT, json.dumps(decision))
    assert "without a decision to promote that text" in problems("ab_champion", live, champion, report)
    gone = Change("meta/decisions/x.json", REGULAR, ABSENT, b"{}", None, 1)
    assert "x.json: is deleted or renamed" in problems("ab_champion", live, champion, gone)
    assert (
        list(
            contents.decisions([change("meta/decisions/x.json", "[1]"), change("meta/decisions/y.json", "{")])
        )
        == []
    )


@pytest.mark.parametrize("act", ["keep", "disable"])
def test_only_a_promotion_of_that_very_text_explains_a_prompt(act: str) -> None:
    text = "better\n"
    files = [change("agents/prompts/x.md", text), change("agents/prompts/variants/x/champion.md", text)]
    report = change(REPORT, repo.REPORT)

    def told(act: str, text: str) -> str:
        return problems(
            "ab_champion", *files, report, change("meta/decisions/x.json", repo.decision(act, "k", "x", text))
        )

    assert told("promote", text) == ""
    assert "without a decision to promote" in told(act, text)
    assert "without a decision to promote" in told("promote", "another\n")


def test_a_champion_may_equal_the_live_prompt_that_is_there_already() -> None:
    champion = change("agents/prompts/variants/x/champion.md", "live\n")
    assert problems("proposals", champion, head={"agents/prompts/x.md": b"live\n"}.get) == ""
    assert "are one text" in problems("proposals", champion, head={"agents/prompts/x.md": b"other\n"}.get)


def test_a_decision_brings_the_report_it_names() -> None:
    text = repo.decision("keep", "ab_champion", "x")
    decision = change("meta/decisions/x.json", text)
    there = {REPORT: repo.REPORT.encode()}
    assert problems("ab_champion", decision, head=there.get) == ""
    assert "another report" in problems("ab_champion", decision)
    assert "another report" in problems("ab_champion", decision, change(REPORT, "[]"), head=there.get)


def test_a_decision_is_never_rewritten_and_a_report_may_be() -> None:
    text = repo.decision("keep", "ab_champion", "x")
    there = {REPORT: repo.REPORT.encode()}
    told = problems("ab_champion", change("meta/decisions/x.json", text, "{}"), head=there.get)
    assert told == "meta/decisions/x.json: a decision is never rewritten"
    assert problems("ab_champion", change(REPORT, repo.REPORT, "[]")) == ""


def test_a_schema_is_told_apart_by_what_the_file_is() -> None:
    never = b'{"not": {}}'
    schemas = {"eval/decision.schema.json": never, "eval/ab_test_report.schema.json": never}
    sha256 = hashlib.sha256(b"{}").hexdigest()
    files = {
        "meta/decisions/x.json": json.dumps({"report_sha256": sha256}),
        REPORT: "{}",
        "agents/prompts/variants/x/lineage.json": "{}",
    }
    told = problems("ab_champion", *(change(*item) for item in files.items()), head=schemas.get)
    assert [line.partition(": does not match its schema: ")[0] for line in told.splitlines()] == [*files][:2]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"decision": "keep", "decision": "promote"}', "'decision' is given twice"),
        ('{"tests": [{"a": {"b": 1, "c": 2, "b": 1}}]}', "'b' is given twice"),
        ('{"effect": NaN}', "unexpected character"),
        ('{"effect": -Infinity}', "no digit after sign"),
        ('{"effect": 1e999}', "number is infinity"),
        ('{"effect": -1E+400}', "number is infinity"),
        ('{"effect": "\\ud800"}', "no low surrogate in string"),
    ],
)
def test_json_that_readers_read_differently_is_refused(text: str, why: str) -> None:
    assert f"{REPORT}: is not JSON: {why}" in problems("ab_champion", change(REPORT, text))


def test_at_most_three_faults_of_a_schema_are_told() -> None:
    schema = json.dumps({"required": list("abcdefg")}).encode()
    report = change(REPORT, "{}")
    assert problems("ab_champion", report, head=lambda _: schema).count("does not match its schema") == 3


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (REGULAR, EXECUTABLE, "becomes executable"),
        (REGULAR, "120000", "becomes a symbolic link"),
        (ABSENT, "160000", "becomes a submodule"),
        (REGULAR, ABSENT, "is deleted or renamed"),
        ("160000", "160000", "is no regular file"),
        (EXECUTABLE, EXECUTABLE, ""),
        (EXECUTABLE, REGULAR, ""),
    ],
)
def test_a_file_stays_a_plain_file(old: str, new: str, reason: str) -> None:
    after = b"x" if new in (REGULAR, EXECUTABLE) else None
    told = problems("proposals", Change("agents/prompts/variants/x/C.md", old, new, b"y", after, 1))
    assert (reason in told) if reason else told == ""


@pytest.mark.parametrize(("over", "expected"), [(0, ""), (1, "at most")])
def test_the_limits_of_a_kind_are_the_last_that_is_taken(over: int, expected: str) -> None:
    kind = KINDS["proposals"]
    name = "agents/prompts/variants/x/{}.md"
    many = [change(name.format(f"C{n}"), "x") for n in range(kind.max_files + over)]
    long = Change(name.format("C"), ABSENT, REGULAR, None, b"x", kind.max_lines + over)
    heavy = change(name.format("C"), "x" * (kind.max_bytes + over))
    report = Change(f"{kind.report}.md", ABSENT, REGULAR, None, b"x", 10 * kind.max_lines)
    for what, changes in {
        "files": many,
        "lines outside the report": [long, report],
        "bytes": [heavy],
    }.items():
        told = problems("proposals", *changes)
        assert (f"{what} changed, {expected}" in told) if expected else told == ""


def test_a_path_may_be_long_but_not_longer() -> None:
    stem = "agents/prompts/variants/x/"
    path = stem + "C" * (MAX_PATH_CHARS - len(stem) - 3) + ".md"
    assert problems("proposals", change(path, "x")) == ""
    assert "no plain path" in problems("proposals", change(path.replace("C", "CC", 1), "x"))


def rooms_of_agents() -> list[str]:
    """The engine's part of agents/: what import-linter's layers name, but for the example in its parentheses."""
    contracts = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]["importlinter"][
        "contracts"
    ]
    (layers,) = (contract["layers"] for contract in contracts if contract["name"] == "Rooms of agents")
    names = " | ".join(layers).split(" | ")
    return [name.replace(".", "/") for name in names if not name.startswith("(")]


def engine() -> list[str]:
    """Every tracked file of the engine; what people put beside it (an agent of their own, a note) is none."""
    around = (
        ".ci/", ".github/", ".gitattributes", ".gitignore", "LICENSE", "Makefile", "pyproject.toml", "requirements.txt",
        "tests/", "telemetry/", "eval/", "meta/", "agents/__init__.py", "agents/schemas/",
    )  # fmt: skip
    own = (*around, *(f"{room}{end}" for room in rooms_of_agents() for end in ("/", ".")))
    about = ("meta/decisions/", "meta/reports/")
    return [
        path
        for path in tracked()
        if path.startswith(own) and not path.startswith(about) and not path.endswith("README.md")
    ]


def tracked() -> list[str]:
    return repo.git(REPOSITORY, "ls-files", "--cached", "--others", "--exclude-standard").splitlines()


@pytest.mark.outside
@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
def test_no_kind_may_touch_the_engine(kind: Kind) -> None:
    """Not even if the manifest protected nothing and let the sandbox edit every module."""
    modules = [path.removesuffix(".py").replace("/", ".") for path in engine() if path.endswith(".py")]
    agents = [{"name": name, "module": name, "sandbox_editable": True} for name in modules]
    touched = [Change(path, REGULAR, REGULAR, b"x", b"x", 0) for path in engine()]
    found = check_changes(touched, kind, {"agents": agents}, lambda _: None)
    protected = {problem.path for problem in found if "is protected (" in problem.what}
    # What a kind writes in spite of that is checked by content: the manifest's flags, fresh cases and their pins.
    by_content = {path for path in engine() if any(matches(path, record) for record in kind.records)}
    assert set(engine()) - protected == by_content
    suites = "eval/suites/" if kind.name == "new_cases" else contents.MANIFEST
    assert all(path.startswith(suites) for path in by_content)
    assert len(protected) > 100


@pytest.mark.outside
def test_protection_names_nothing_that_is_not_there() -> None:
    listed = tracked()
    assert [glob for glob in PROTECTED if not any(protecting(path, [glob]) for path in listed)] == []


def test_the_sandbox_edits_what_the_manifest_says_and_nothing_beside_it() -> None:
    def told(entry: dict[str, object], path: str = "agents/own/calm.py", **more: object) -> str:
        return problems("sandbox", change(path, "x = 1\n", "x = 0\n"), manifest={"agents": [entry], **more})

    entry: dict[str, object] = {"name": "calm", "module": "agents.own.calm"}
    assert told({**entry, "sandbox_editable": True}) == ""
    assert told(entry, defaults={"sandbox_editable": True}) == ""
    outside = "is outside what sandbox may touch"
    for refused in ({}, {"sandbox_editable": False}, {"sandbox_editable": "yes"}):
        assert outside in told({**entry, **refused})
    assert outside in told({**entry, "sandbox_editable": False}, defaults={"sandbox_editable": True})
    assert outside in told({**entry, "sandbox_editable": True}, "agents/own/other.py")
    assert outside in told({"module": "telemetry.calm", "sandbox_editable": True}, "telemetry/calm.py")
    assert "is protected (agents/own)" in told(
        {**entry, "sandbox_editable": True}, protected_paths=["agents/own"]
    )
    assert problems(
        "critiques",
        change("agents/own/calm.py", "x", "y"),
        manifest={"agents": [{**entry, "sandbox_editable": True}]},
    )


ASKING = "agents: [{name: a, prompt: a.md}, {name: b, prompt: b.md}, {name: c, prompt: c.md, model: x}]\n"
WON = {"promoted": True, "verdict": "promote", "model": "new", "sha256": hashlib.sha256(b"").hexdigest()}
TESTED = {"model": "old", "agents": ["a"], "arms": [WON]}


def moving(after: str, report: Any = None, agents: tuple[str, ...] = ("a",), kind: str = "ab_model") -> str:
    """What the guard says to a change of the manifest that comes with that report and its decision."""
    told = json.dumps({"tests": [TESTED]} if report is None else report)
    verdict = {"agents": list(agents), "model": "new"}
    decision = json.loads(repo.decision("promote", "ab_model", "new")) | {"verdict": verdict}
    decision["report_sha256"] = hashlib.sha256(told.encode()).hexdigest()
    return problems(
        kind,
        change("agents/manifest.yaml", after, ASKING),
        change(f"{KINDS[kind].report}.json", told),
        change("meta/decisions/2026-11-16-ab_model-new.json", json.dumps(decision)),
    )


MOVED = ASKING.replace("a.md", "a.md, model: new")


def test_a_model_changes_for_the_agents_that_were_tested_to_the_one_that_was_promoted() -> None:
    assert moving(MOVED) == ""
    all_heirs = TESTED | {"agents": ["a", "b"]}
    assert moving(f"defaults: {{model: new}}\n{ASKING}", {"tests": [all_heirs]}, ("a", "b")) == ""


@pytest.mark.parametrize(
    "after",
    [
        MOVED.replace("new", "dearer"),
        MOVED.replace("b.md", "b.md, model: new"),
        MOVED.replace("b.md", "b.md, enabled: false"),
        MOVED.replace("model: x", "model: new"),
        f"defaults: {{model: new}}\n{ASKING}",
        f"budget: {{max_usd: 9}}\n{MOVED}",
        ASKING,
        "agents: 7\n",
        "- 1\n",
    ],
)
def test_no_other_change_of_the_manifest_comes_with_a_model(after: str) -> None:
    assert "agents/manifest.yaml: " in moving(after)


def test_a_model_needs_the_report_that_promoted_it_and_the_same_decision() -> None:
    lost, other = (
        {"tests": [TESTED | {"arms": [WON | arm]}]} for arm in ({"promoted": False}, {"sha256": "0"})
    )
    for report in (lost, other, {}, {"tests": [{"arms": 1}]}, []):
        assert "agents/manifest.yaml: " in moving(MOVED, report)
    assert "comes with other decisions" in moving(MOVED, agents=("a", "b"))
    assert "changes more than `enabled:`" in moving(MOVED, kind="retirement_disable")
