"""The guard lets a plain proposal through, and stops every way around it with a reason."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meta import guard
from meta.publish import judge
from meta.publish.boundaries import Problem, check_changes
from meta.publish.contents import Change, check_body
from meta.publish.judge import headline
from meta.publish.kinds import KINDS, Kind
from telemetry.edge.errors import BadInput
from tests.worlds import proposal_repo as repo
from tests.worlds import world

ROOT = Path(__file__).parents[2]
NEW_PROMPT = "Watch the macro series closely.\n"
PROMOTION = {
    "agents/prompts/macro_watcher.md": NEW_PROMPT,
    "agents/prompts/variants/macro_watcher/champion.md": NEW_PROMPT,
    "meta/reports/ab_test_report.md": "**Promote?**\n",
    "meta/reports/ab_test_report.json": repo.REPORT,
    "meta/decisions/2026-11-16-ab_champion-macro_watcher.json": repo.decision(
        "promote", "ab_champion", "macro_watcher", NEW_PROMPT
    ),
}
CODE = repo.FILES["agents/market/macro_watcher.py"]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return repo.make(tmp_path_factory.mktemp("guard") / "repo")


@pytest.fixture
def root(template: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(template, tmp_path / "repo"))


def problems_of(root: Path, files: dict[str, str | bytes], kind: str) -> list[str]:
    for name, text in files.items():
        repo.write(root, name, text)
    return [str(problem) for problem in judge.check_patch(repo.take_patch(root), kind, root).problems]


@pytest.mark.parametrize(
    ("kind", "files"),
    [
        ("ab_champion", PROMOTION),
        (
            "retirement",
            {"meta/reports/retirement_report.md": "x", "meta/reports/retirement_report.json": "{}"},
        ),
        (
            "retirement_disable",
            {
                "agents/manifest.yaml": repo.MANIFEST.replace("enabled: true", "enabled: false", 1),
                "meta/decisions/x.json": repo.decision("disable", "retirement", "macro_watcher"),
                "meta/reports/retirement_report.json": repo.REPORT,
            },
        ),
        ("critiques", {"meta/reports/cross_critiques.json": "{}"}),
        ("proposals", {"agents/prompts/variants/macro_watcher/C.md": "another\n"}),
        ("sandbox", {"agents/market/macro_watcher.py": CODE.replace("sqrt(x)", "sqrt(abs(x))")}),
    ],
)
def test_a_plain_proposal_of_each_kind_passes(root: Path, kind: str, files: dict[str, str | bytes]) -> None:
    assert problems_of(root, files, kind) == []


@pytest.mark.parametrize(
    ("kind", "files", "reason"),
    [
        (
            "ab_champion",
            {".github/workflows/ci.yml": "on: push # me\n"},
            "outside what ab_champion may touch",
        ),
        ("ab_champion", {".github/workflows/ci.yml": "on: push # me\n"}, "protected (.github/**)"),
        ("ab_champion", {"agents/manifest.yaml": repo.MANIFEST + "\n"}, "outside"),
        ("retirement", {"agents/manifest.yaml": repo.MANIFEST + "\n"}, "outside"),
        ("critiques", {"agents/prompts/macro_watcher.md": "x\n"}, "outside"),
        ("proposals", {"agents/prompts/macro_watcher.md": "x\n"}, "outside"),
        ("proposals", {"agents/prompts/variants/macro_watcher/champion.md": "x\n"}, "are one text"),
        ("proposals", {"agents/prompts/variants/macro_watcher/sub/x.md": "x\n"}, "outside"),
        ("proposals", {"agents/prompts/variants/macro_watcher/-x .md": "x\n"}, "no plain path"),
        ("ab_champion", {"agents/prompts/macro_watcher.md": "x\n"}, "are one text"),
        ("ab_champion", {"agents/prompts/variants/macro_watcher/champion.md": "x\n"}, "are one text"),
        ("critiques", {"meta/reports/cross_critiques.md": b"\x89PNG\0\xff"}, "is binary"),
        ("critiques", {"meta/reports/cross_critiques.md": b"a\0b"}, "is binary"),
        ("critiques", {"meta/reports/cross_critiques.md": "a\u202eb"}, "hidden character U+202E"),
        ("critiques", {"meta/reports/cross_critiques.md": "sk-" + "a" * 30}, "secret"),
        ("critiques", {"meta/reports/cross_critiques.json": "{"}, "is not JSON"),
        ("critiques", {"meta/reports/cross_critiques.json": "[NaN]"}, "is not JSON"),
        ("critiques", {"meta/reports/cross_critiques.md": "x" * 5_000_000}, "5,000,000 bytes changed"),
        ("proposals", {"agents/prompts/variants/macro_watcher/C.md": "x\n" * 3000}, "3,000 lines"),
        (
            "proposals",
            {f"agents/prompts/variants/macro_watcher/C{n}.md": "x\n" for n in range(70)},
            "70 files changed, at most 60",
        ),
        ("ab_champion", {"meta/decisions/2026-01-01-ab_champion-x.json": "[]\n"}, "never rewritten"),
        (
            "retirement_disable",
            {"agents/manifest.yaml": repo.MANIFEST.replace("agents.market.macro", "agents.evil")},
            "more than `enabled:`",
        ),
        (
            "retirement_disable",
            {"agents/manifest.yaml": repo.MANIFEST.replace('"eval/**"', '"nothing"')},
            "more than `enabled:`",
        ),
        (
            "retirement_disable",
            {"agents/manifest.yaml": repo.MANIFEST.replace("enabled: true", "enabled: false")},
            "flips arbitrage_finder, which is execution_sensitive",
        ),
        (
            "retirement_disable",
            {"agents/manifest.yaml": repo.MANIFEST.replace("enabled: true", "enabled: false", 1)},
            "without a decision to disable it",
        ),
        (
            "ab_champion",
            {"agents/prompts/macro_watcher.md": "x\n"},
            "without a decision to promote that text",
        ),
        (
            "ab_champion",
            {"meta/decisions/x.json": repo.decision("keep", "ab_champion", "x")},
            "another report",
        ),
        ("ab_champion", {"agents/prompts/fixed.md": "x\n"}, "protected (agents/prompts/fixed*)"),
        ("proposals", {"agents/prompts/variants/macro_watcher/x.py": "x\n"}, "outside"),
        ("retirement_disable", {"agents/manifest.yaml": "[1, 2"}, "is not a manifest"),
        ("sandbox", {"agents/arbitrage_finder.py": "x = 1\n"}, "outside"),
        ("sandbox", {"tests/test_x.py": "def test_x() -> None: pass\n"}, "protected (tests/**)"),
        ("sandbox", {"eval/suites/macro.jsonl": "{}\n{}\n"}, "protected (eval/**)"),
        ("sandbox", {"agents/market/macro_watcher.py": "import socket\n" + CODE}, "newly uses socket"),
        ("sandbox", {"agents/market/macro_watcher.py": CODE + "    import os\n"}, "newly uses os"),
        (
            "sandbox",
            {"agents/market/macro_watcher.py": "from urllib.request import urlopen\n"},
            "newly uses urllib",
        ),
        (
            "sandbox",
            {"agents/market/macro_watcher.py": "x = __import__('so' + 'cket')\n"},
            "newly uses __import__",
        ),
        ("sandbox", {"agents/market/macro_watcher.py": "x = ().__class__.__base__\n"}, "newly uses __base__"),
        ("sandbox", {"agents/market/macro_watcher.py": "def (:\n"}, "is not Python"),
        ("sandbox", {"agents/market/macro_watcher.py": "x = 1\n" * 500}, "lines outside the report changed"),
    ],
)
def test_a_bad_proposal_is_refused_with_the_reason(
    root: Path, kind: str, files: dict[str, str | bytes], reason: str
) -> None:
    problems = problems_of(root, files, kind)
    assert any(reason in problem for problem in problems), problems


def test_links_modes_deletions_and_renames_are_refused(root: Path) -> None:
    prompts = root / "agents/prompts/variants/macro_watcher"
    (prompts / "C.md").symlink_to("../../../../.github/workflows/ci.yml")
    (prompts / "D.md").write_text("x\n")
    (prompts / "D.md").chmod(0o755)
    (prompts / "B.md").rename(prompts / "E.md")
    problems = [str(p) for p in judge.check_patch(repo.take_patch(root), "proposals", root).problems]
    assert [problem.partition("macro_watcher/")[2] for problem in problems] == [
        "B.md: is deleted or renamed",
        "C.md: becomes a symbolic link",
        "D.md: becomes executable",
    ]


@pytest.mark.parametrize(
    "path", ["../outside.md", "/etc/cron.d/x", "agents/../../x", ".git/hooks/post-checkout", ".git/config"]
)
def test_a_path_out_of_the_tree_is_refused(root: Path, path: str) -> None:
    patch = f"--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+x\n"
    patch = f"diff --git a/{path} b/{path}\nnew file mode 100644\n{patch}"
    assert judge.check_patch(patch.encode(), "proposals", root).problems
    assert not (root.parent / "outside.md").exists()


def test_a_write_through_a_link_in_the_same_patch_is_refused(root: Path) -> None:
    folder = "agents/prompts/variants/evil"
    patch = (
        f"diff --git a/{folder} b/{folder}\nnew file mode 120000\n--- /dev/null\n+++ b/{folder}\n"
        "@@ -0,0 +1 @@\n+../../../.github\n\\ No newline at end of file\n"
        f"diff --git a/{folder}/x.md b/{folder}/x.md\nnew file mode 100644\n--- /dev/null\n+++ b/{folder}/x.md\n"
        "@@ -0,0 +1 @@\n+x\n"
    )
    assert judge.check_patch(patch.encode(), "proposals", root).problems


@pytest.mark.parametrize("patch", [b"", b"hello", b"diff --git a/x b/x\n", b"\0\xff" * 50])
def test_what_is_no_patch_is_refused(root: Path, patch: bytes) -> None:
    assert len(judge.check_patch(patch, "proposals", root).problems) == 1


def test_an_oversized_patch_is_not_even_parsed(root: Path) -> None:
    (problem,) = judge.check_patch(b"x" * (judge.MAX_PATCH_BYTES + 1), "proposals", root).problems
    assert "at most" in problem.what
    (problem,) = judge.check_patch(b"x" * judge.MAX_PATCH_BYTES, "proposals", root).problems
    assert "git does not apply it" in problem.what


def test_judging_leaves_no_trace(root: Path) -> None:
    patch = (repo.write(root, "agents/prompts/variants/macro_watcher/C.md", "x\n"), repo.take_patch(root))[1]
    before = sorted(root.rglob("*"))
    assert judge.check_patch(patch, "proposals", root).problems == ()
    assert sorted(root.rglob("*")) == before


def test_a_report_or_decision_that_breaks_its_committed_schema_is_refused(root: Path) -> None:
    repo.write(root, "eval/ab_test_report.schema.json", json.dumps({"type": "object", "maxProperties": 0}))
    repo.write(root, "eval/decision.schema.json", (ROOT / "eval/decision.schema.json").read_text())
    repo.git(root, "add", "-A")
    repo.git(root, "commit", "-q", "-m", "schemas")
    assert problems_of(root, PROMOTION, "ab_champion") == []
    files = {"meta/reports/ab_test_report.json": '{"x": 1}', "meta/decisions/x.json": '{"decision": "obey"}'}
    problems = problems_of(root, files, "ab_champion")
    assert any("ab_test_report.json: does not match its schema" in problem for problem in problems)
    assert any("x.json: does not match its schema" in problem for problem in problems)


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
def test_every_schema_that_a_kind_names_is_there(kind: Kind) -> None:
    script = ROOT / (kind.command[0].replace(".", "/") + ".py")
    assert not kind.schema or (ROOT / kind.schema).is_file() or not script.exists()


def test_the_rules_are_read_from_head_not_from_the_change(root: Path) -> None:
    repo.write(root, "agents/manifest.yaml", repo.MANIFEST.replace("sandbox_editable: true", ""))
    problems = problems_of(root, {"agents/manifest.yaml": "protected_paths: []\nagents: []\n"}, "sandbox")
    assert any("outside" in problem for problem in problems)


@pytest.mark.parametrize(
    "text",
    [
        "    inputs: {call: agents.market.macro_watcher:run}\n",
        "    inputs: {call: my_pkg:load, days: agents.market.macro_watcher:run}\n",
        "    signal: {call: agents.market.macro_watcher:run}\n",
        "    eval_adapter: agents.market.macro_watcher:run\n",
        "    tools: [agents.market.macro_watcher:run]\n",
        "    iterate: {until: 0.9, by: agents.market.macro_watcher:run}\n",
        "    command: python agents/market/macro_watcher.py\n",
        "    eval_suite: eval/suites/macro.jsonl\n",
        "outcomes: {call: agents.market.macro_watcher:run}\n",
    ],
)
def test_code_that_the_manifest_or_a_suite_names_is_never_changed(root: Path, text: str) -> None:
    patched = {"agents/market/macro_watcher.py": "def run(x: float) -> float:\n    return 1.0\n"}
    assert not [one for one in problems_of(root, dict(patched), "sandbox") if "is protected" in one]
    repo.write(root, "agents/manifest.yaml", repo.MANIFEST + text)
    grader = {"expect": [{"grader": "agents.market.macro_watcher:run"}]}
    repo.write(root, "eval/suites/macro.jsonl", json.dumps(grader) + "\n")
    world.commit(root, "name it")
    assert any(
        "agents/market/macro_watcher.py: is protected" in one for one in problems_of(root, patched, "sandbox")
    )


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("", "is empty"),
        ("thanks @everyone", "mentions someone: '@everyone'"),
        ("<script>alert(1)</script>", "holds HTML"),
        ("< IMG src=x>", "holds HTML"),
        ("Fixes #12", "would close an issue"),
        ("closes: other/repo#3", "would close an issue"),
        ("[x](javascript:alert(1))", "links to a script"),
        ("```\ncode\n```\n@someone", "mentions someone"),
        ("ghp_" + "a" * 30, "secret"),
    ],
)
def test_a_body_that_acts_is_refused(body: str, reason: str) -> None:
    assert any(reason in why for why in check_body(body.encode()))


def test_a_body_may_quote_anything_as_code() -> None:
    body = "A diff:\n\n```diff\n@@ -1 +1 @@\n-<script>\n+@someone fixes #1\n```\n\nand `@inline`, me@example.com\n"
    assert list(check_body(body.encode())) == []


@settings(max_examples=40, deadline=None)
@given(st.text(min_size=1, max_size=40))
def test_no_odd_path_is_ever_plain(path: str) -> None:
    change = Change(path, "000000", "100644", None, b"x", 1)
    problems = check_changes([change], KINDS["critiques"], {}, lambda _: None)
    assert Problem(path, "is outside what critiques may touch") in problems or any(
        "no plain path" in problem.what for problem in problems
    )


def handover(folder: Path, patch: bytes) -> Path:
    repo.write(folder, judge.PATCH, patch)
    return folder


def test_apply_changes_the_tree_and_tells_the_paths(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in PROMOTION.items():
        repo.write(root, name, text)
    folder = handover(tmp_path / "handover", repo.take_patch(root))
    monkeypatch.setenv("GITHUB_OUTPUT", str(tmp_path / "output"))
    assert guard.main(["apply", str(folder), "--kind", "ab_champion", "--root", str(root)]) == 0
    assert (root / "agents/prompts/macro_watcher.md").read_text() == NEW_PROMPT
    written = (tmp_path / "output").read_text().splitlines()
    assert sorted(written[1:-7]) == sorted(PROMOTION)
    assert (written[-5], written[-2]) == ("Promote macro_watcher", "meta/reports/ab_test_report.md")


def test_a_subject_of_a_hundred_and_twenty_characters_is_the_longest() -> None:
    def subject(letters: int) -> str:
        both = (
            {"decision": "promote", "subject": "a" * 50},
            {"decision": "promote", "subject": "b" * letters},
        )
        return headline(KINDS["ab_champion"], both).splitlines()[0]

    assert len(subject(52)) == 120 and "b" * 52 in subject(52)
    assert subject(53).endswith(" and 1 more")


def test_a_binary_file_has_no_lines(root: Path) -> None:
    repo.write(root, "meta/reports/cross_critiques.md", b"a\0b\n")
    [change] = judge.read_changes(repo.take_patch(root), root)
    assert (change.lines, change.after) == (0, b"a\0b\n")


def test_the_headline_states_the_finding() -> None:
    verdict = {"effect": 0.083, "ci_low": 0.031, "ci_high": 0.134, "cases_used": 112}
    promoted = {"decision": "promote", "subject": "reviewer", "verdict": verdict}
    disabled = {"decision": "disable", "subject": "vix_echo"}
    line = "Promote reviewer: +8.3 points (95 % CI 3.1..13.4), n=112"
    assert headline(KINDS["ab_champion"], [promoted]) == line
    assert headline(KINDS["ab_champion"], [disabled, promoted]).splitlines()[0] == (
        f"Disable vix_echo; {line.partition(' (')[0]}"
    )
    many = headline(KINDS["ab_champion"], [promoted] * 9).splitlines()
    assert (many[0], len(many)) == (f"{line.partition(' (')[0]} and 8 more", 11)
    assert headline(KINDS["retirement_disable"], [disabled, promoted]).splitlines()[2:] == [
        "Disable vix_echo",
        line,
    ]
    wide = {"effect": 0.5, "ci_low": -0.5, "ci_high": 1.0}
    line = "Promote reviewer: +50.0 points (95 % CI -50.0..100.0)"
    assert headline(KINDS["ab_champion"], [promoted | {"verdict": wide}]) == line
    for missing in wide:
        some = {name: value for name, value in wide.items() if name != missing}
        assert headline(KINDS["ab_champion"], [promoted | {"verdict": some}]) == "Promote reviewer"
    assert headline(KINDS["ab_champion"], [promoted | {"subject": "x" * 99}]).startswith(
        f"Promote {'x' * 64}:"
    )
    assert headline(KINDS["critiques"], [{"decision": "keep"}]) == KINDS["critiques"].title
    assert headline(KINDS["ab_champion"], [{"decision": "promote", "subject": "x\n@y `z`"}]) == "Promote xyz"


def test_apply_of_a_refused_change_leaves_the_tree_and_says_so_in_the_summary(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    repo.write(root, "agents/prompts/macro_watcher.md", "evil\n")
    folder = handover(tmp_path / "handover", repo.take_patch(root))
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary"))
    assert guard.main(["apply", str(folder), "--kind", "ab_champion", "--root", str(root), "--json"]) == 1
    assert len(json.loads(capsys.readouterr().out)["problems"]) == 2
    assert repo.git(root, "status", "--porcelain") == ""
    assert "No pull request was opened" in (tmp_path / "summary").read_text()


def test_a_patch_made_before_main_moved_is_refused_not_forced(root: Path, tmp_path: Path) -> None:
    repo.write(root, "meta/reports/ab_test_report.md", "new\n")
    patch = repo.take_patch(root)
    repo.write(root, "meta/reports/ab_test_report.md", "moved\n")
    repo.git(root, "commit", "-q", "-am", "moved")
    (problem,) = judge.check_patch(patch, "ab_champion", root).problems
    assert "git does not apply it to HEAD" in problem.what


@pytest.mark.parametrize("bad", ["missing", "link", "dangling", "folder"])
def test_a_handover_without_plain_files_is_bad_input(
    root: Path, tmp_path: Path, bad: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, name = handover(tmp_path / "handover", b"x"), judge.PATCH
    (folder / name).unlink()
    if bad == "folder":
        (folder / name).mkdir()
    elif bad != "missing":
        (folder / name).symlink_to("/etc/passwd" if bad == "link" else "nowhere")
    assert guard.main(["check", str(folder), "--kind", "ab_champion", "--root", str(root)]) == 2
    assert f"{name}: not a file of the hand-over" in capsys.readouterr().err


def test_no_more_of_a_handover_is_read_than_could_be_taken(root: Path, tmp_path: Path) -> None:
    folder = handover(tmp_path / "handover", b"x" * (judge.MAX_PATCH_BYTES + 5))
    judged = judge.check_handover(folder, "ab_champion", root)
    assert len(judged.patch) == judge.MAX_PATCH_BYTES + 1 and "at most" in str(judged.problems[0])


def test_a_tree_that_does_not_hold_what_was_checked_is_told(root: Path) -> None:
    """Git applies a patch to lines that moved; then the file is another than the one that was judged."""
    prompt = "agents/prompts/variants/macro_watcher/B.md"
    lines = "".join(f"line {n}\n" for n in range(20))
    repo.write(root, prompt, lines)
    repo.git(root, "commit", "-qam", "longer")
    repo.write(root, prompt, lines.replace("line 19", "line nineteen"))
    judged = judge.check_patch(repo.take_patch(root), "proposals", root)
    assert judged.problems == ()
    repo.write(root, prompt, "evil\n" + lines)
    with pytest.raises(BadInput, match=f"{prompt}: the tree does not hold what was checked"):
        judge.apply_patch(judged, root)


def test_what_was_refused_is_never_applied(root: Path) -> None:
    repo.write(root, "agents/prompts/macro_watcher.md", "evil\n")
    judged = judge.check_patch(repo.take_patch(root), "ab_champion", root)
    with pytest.raises(BadInput, match="without a decision"):
        judge.apply_patch(judged, root)
    assert repo.git(root, "status", "--porcelain") == ""


def test_without_a_manifest_in_head_nothing_is_judged(root: Path) -> None:
    repo.git(root, "rm", "-q", "agents/manifest.yaml")
    repo.git(root, "commit", "-qm", "no manifest")
    repo.write(root, "meta/reports/ab_test_report.md", "new\n")
    with pytest.raises(BadInput, match="not in HEAD"):
        judge.check_patch(repo.take_patch(root), "ab_champion", root)


def test_an_unknown_kind_is_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for kind in (["--kind", "x; rm -rf /"], []):
        assert guard.main(["check", str(tmp_path), *kind]) == 2
        assert "--kind" in capsys.readouterr().err
