"""Suites that people bring: what can be carried over is graded as it was meant, what cannot is named."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from agents.texts.variants import Variants
from eval import harness, scaffold
from eval.grading.graders import grade
from eval.grading.suite import load_suite
from eval.scaffolding.promptfoo import from_promptfoo
from eval.scaffolding.tables import Columns, from_rows, from_samples
from telemetry.edge import cli
from telemetry.edge.errors import BadInput
from telemetry.edge.files import here
from tests.worlds import tickets, world
from tests.worlds.loopback import Loopback, as_json


@pytest.fixture
def checkout(root: Path) -> Path:
    tickets.make(root)
    return root


def config(root: Path, tests: Iterable[Any], **more: Any) -> Path:
    given = {"prompts": ["Answer: {{question}}"], "tests": list(tests), **more}
    return world.put(root, "pf/promptfooconfig.yaml", yaml.safe_dump(given, sort_keys=False))


def test(*assertions: Mapping[str, Any], question: str = "Why?", **more: Any) -> dict[str, Any]:
    return {"vars": {"question": question}, "assert": list(assertions), **more}


test.__test__ = False  # type: ignore[attr-defined]


ASSERTED: list[
    tuple[dict[str, Any], str, str]
] = [  # an assertion, an answer that passes it, one that does not
    ({"type": "equals", "value": "Paris"}, "Paris", "paris"),
    ({"type": "equals", "value": 42}, "42", "42.0"),
    ({"type": "equals", "value": {"a": [1]}}, '{"a": [1]}', '{"a": [2]}'),
    ({"type": "contains", "value": "Paris"}, "It is Paris.", "It is PARIS."),
    ({"type": "icontains", "value": "Paris"}, "It is PARIS.", "It is Rome."),
    ({"type": "contains-any", "value": ["a", "b"]}, "b", "A"),
    ({"type": "contains-all", "value": ["a", "b"]}, "ba", "b"),
    ({"type": "icontains-any", "value": ["a", "b"]}, "A", "c"),
    ({"type": "icontains-all", "value": ["a", "b"]}, "AB", "A"),
    ({"type": "starts-with", "value": "1.5 ("}, "1.5 (about)", "a 1.5 ("),
    ({"type": "regex", "value": r"^(?<year>\d{4})$"}, "2026", "2026!"),
    ({"type": "is-json"}, "[1]", "It is [1]"),
    ({"type": "is-json", "value": {"required": ["a"]}}, '{"a": 1}', '{"b": 1}'),
    ({"type": "contains-json"}, 'Here: {"a": 1}', "none"),
    ({"type": "contains-json", "value": {"required": ["a"]}}, '{"b": 1} {"a": 1}', '{"b": 1}'),
    ({"type": "not-contains", "value": "sorry"}, "Sorry", "so sorry"),
    ({"type": "not-equals", "value": "no"}, "yes", "no"),
    ({"type": "not-is-json"}, "text", "{}"),
    ({"type": "not-regex", "value": "[0-9]"}, "none", "7"),
]


@pytest.mark.parametrize(("assertion", "right", "wrong"), ASSERTED, ids=lambda one: str(one)[:40])
def test_an_assertion_means_what_it_meant(root: Path, assertion: Any, right: str, wrong: str) -> None:
    [case] = from_promptfoo(config(root, [test(assertion)]), []).cases
    assert grade(case["expect"], [{"answer": right}]).ok
    assert not grade(case["expect"], [{"answer": wrong}]).ok


@pytest.mark.parametrize("kind", ["llm-rubric", "model-graded-closedqa"])
def test_a_rubric_is_asked_of_the_judge(root: Path, kind: str) -> None:
    asked = [
        test({"type": kind, "value": "greets {{question}}"}),
        test({"type": f"not-{kind}", "value": "rude"}, question="Two"),
        test({"type": kind, "value": "kind", "threshold": 0.8}, question="Three"),
        test({"type": kind, "value": ["kind"]}, question="Four"),
        test({"type": kind, "value": "kind", "provider": "openai:gpt-5"}, question="Five"),
    ]
    made = from_promptfoo(config(root, asked), [])
    question = asked[0]["vars"]["question"]
    greets = {"path": "0.answer", "grader": "llm_judge", "rubric": f"greets {question}"}
    rude = {"path": "0.answer", "grader": "llm_judge", "rubric": "rude", "not": True}
    assert [case["expect"] for case in made.cases] == [[greets], [rude]]
    told = "\n".join(made.left_out.lines())
    assert f"type {kind} with a threshold (test 3)" in told and "no text (test 4)" in told
    assert "assertions with a provider (test 5)" in told


def test_defaults_variables_scenarios_tables_and_lists_become_cases(root: Path) -> None:
    world.put(root, "pf/more.csv", 'question,__expected,__metadata:kind\nIs it?,"contains-any: yes,no",csv\n')
    world.put(
        root, "pf/more.jsonl", json.dumps(test({"type": "equals", "value": "x"}, question="From a line"))
    )
    path = config(
        root,
        [
            test({"type": "contains", "value": "{{who.name}}"}, description="Its Name!", threshold=0.5),
            {"vars": {"question": ["One", "Two"]}},
            "file://more.csv",
            "file://more.jsonl",
        ],
        defaultTest={"vars": {"who": {"name": "Ann"}}, "assert": [{"type": "not-icontains", "value": "AI"}]},
        scenarios=[
            {
                "config": [{"vars": {"word": "hola"}}, {"vars": {"word": "salut"}}],
                "tests": [
                    {"vars": {"question": "Greet"}, "assert": [{"type": "contains", "value": "{{word}}"}]}
                ],
            }
        ],
    )
    cases = {case["id"]: case for case in from_promptfoo(path, []).cases}
    ids = ["t0001-its-name", "t0002.1", "t0002.2", "t0003", "t0004", "t0005-1", "t0005-2"]
    assert list(cases) == ids
    assert (
        cases["t0001-its-name"]["expect"][1]["all"] == ["Ann"] and cases["t0001-its-name"]["threshold"] == 0.5
    )
    assert cases["t0002.1"]["family"] == cases["t0002.2"]["family"] != cases["t0003"]["family"]
    assert cases["t0003"]["expect"][1]["any"] == ["yes", "no"] and cases["t0003"]["tags"] == ["kind=csv"]
    assert cases["t0005-2"]["expect"][1]["all"] == ["salut"]
    assert all(case["expect"][0]["not"] for case in cases.values())


def test_the_agent_is_never_given_what_only_the_assertions_look_at(root: Path) -> None:
    asked = {"vars": {"question": "Capital?", "expected": "Paris"}}
    asked |= {"assert": [{"type": "equals", "value": "{{expected}}"}]}
    [case] = from_promptfoo(config(root, [asked]), []).cases
    assert case["input"] == {"question": "Capital?"}
    made = from_promptfoo(config(root, [asked], prompts=["langfuse://capital"]), ["Say the capital.\n"])
    assert made.cases[0]["input"] == {"question": "Capital?"}  # no prompt mentions any variable


def test_what_cannot_be_carried_over_is_named_with_its_places(root: Path) -> None:
    made = from_promptfoo(
        config(
            root,
            [
                test({"type": "similar", "value": "kind"}, {"type": "contains", "value": "a"}),
                test({"type": "javascript", "value": "true"}, question="Two"),
                test({"type": "equals", "value": "x", "transform": "output.trim()"}, question="Three"),
                test({"type": "regex", "value": "(a"}, {"type": "contains", "value": "b"}, question="Four"),
                test({"type": "contains", "value": "{{question | upper}}"}, question="Five"),
                test({"type": "contains", "value": "c"}, question="Six", options={"provider": "x"}),
                test({"type": "is-json", "value": "file://../../etc/passwd"}, question="Seven"),
                {"vars": {"question": "Eight"}},
                "file://generate.py:make",
            ],
            prompts=["Do: {{question}} {% if x %}now{% endif %}", "portkey://pp-1", "file://prompt.js"],
            providers=["openai:gpt-5"],
        ),
        [],
    )
    assert [case["id"] for case in made.cases] == ["t0001", "t0004", "t0006"]
    told = "\n".join(made.left_out.lines())
    for said in (
        "providers of the config",
        "the prompt portkey://pp-1 (bring its text by --prompt-file)",
        "the prompt file://prompt.js, which is a program",
        "assertions of type similar (test 1)",
        "assertions of type javascript (test 2)",
        "assertions with a transform (test 3)",
        "regex '(a': no regular expression",
        "template that is more than a variable, {{question | upper}} (test 5)",
        "options.provider of a test (test 6)",
        "no file below the config's folder",
        "tests without any assertion (test 8)",
        "file://generate.py:make, which is a program",
        "template code in a prompt, which stays as text",
    ):
        assert said in told, said
    assert "passwd" not in json.dumps(list(made.cases))


def test_prompts_become_the_champion_and_its_challengers(checkout: Path) -> None:
    chat = [{"role": "system", "content": "You help {{name}}."}, {"role": "user", "content": "{{question}}"}]
    world.put(checkout, "pf/chat.json", chat)
    world.put(checkout, "pf/two.txt", "First {{question}}\n---\nSecond {{ question }}\n")
    path = config(
        checkout, [test({"type": "contains", "value": "x"})], prompts=["file://chat.json", "file://two.txt"]
    )
    assert scaffold.main(["helper", "--from", str(path), "--quiet"]) == cli.OK
    texts = Variants(here(), "agents/prompts/helper.md")
    assert texts.champion().text == "You help `name`.\n\nYou are given `question`.\n"
    assert [one.text for one in texts.challengers()[0]] == ["First `question`\n", "Second `question`\n"]


def test_of_a_prompt_with_images_its_words_are_kept_and_one_without_any_is_none(root: Path) -> None:
    image = {"type": "image_url", "image_url": {"url": "{{image}}"}}
    seen = [{"role": "user", "content": [{"type": "text", "text": "Describe {{image}}."}, image]}]
    world.put(root, "pf/seen.json", seen)
    world.put(root, "pf/bare.json", [{"role": "user", "content": [image]}])
    world.put(
        root, "pf/late.json", '[{"role": "user", "content": "Hi"}{% for one in more %}, {{one}}{% endfor %}]'
    )
    names = [f"file://{name}.json" for name in ("bare", "late", "seen")]
    tests = [test({"type": "contains", "value": "x"})]
    made = from_promptfoo(config(root, tests, prompts=names), [])
    assert list(made.prompts) == ["Describe `image`.\n"]
    told = "\n".join(made.left_out.lines())
    assert "no text" in told and "late.json, which is no data before its template is filled in" in told
    with pytest.raises(BadInput, match=r"none can be read .* --prompt-file"):
        from_promptfoo(config(root, tests, prompts=names[:2]), [])


@pytest.mark.parametrize("given", [{"type": "contains", "value": "x"}, 5, None, "equals: x"])
def test_assertions_may_stand_alone(root: Path, given: Any) -> None:
    several = {"type": "assert-set", "assert": given}
    known = {"type": "contains", "value": "y"}
    made = from_promptfoo(config(root, [test(several, known), {**test(known), "assert": given or known}]), [])
    wanted = [{"path": "0.answer", "grader": "contains", "all": ["x"], "case": True}]
    assert (made.cases[0]["expect"][:1] == wanted) == isinstance(given, dict)


def test_a_pattern_is_taken_without_a_word_on_what_it_may_mean_one_day(
    root: Path, recwarn: pytest.WarningsRecorder
) -> None:
    empty, nested = ({"type": "regex", "value": pattern} for pattern in ("", "[[a]"))
    made = from_promptfoo(config(root, [test(empty, nested)]), [])
    assert "it is empty" in "\n".join(made.left_out.lines())
    assert grade(made.cases[0]["expect"], [{"answer": "a"}]).ok and not list(recwarn)


def test_a_file_that_is_no_yaml_is_named(root: Path) -> None:
    world.put(root, "pf/more.yaml", "a: [")
    with pytest.raises(BadInput, match=r"more\.yaml: not YAML"):
        from_promptfoo(config(root, ["file://more.yaml"]), [])
    path = world.put(root, "pf/promptfooconfig.yaml", "a: [")
    with pytest.raises(BadInput, match=r"promptfooconfig\.yaml: not YAML"):
        from_promptfoo(path, [])


def table(root: Path, rows: list[dict[str, Any]]) -> Path:
    path = root / "data/tickets.csv"
    path.parent.mkdir(exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def ticket_rows() -> list[dict[str, Any]]:
    return [
        {"text": case["input"]["text"], "team": case["expect"][0]["value"], "customer": f"c{number % 12}"}
        for number, case in enumerate(tickets.cases())
    ]


def test_a_table_of_labels_is_pinned_split_and_runs_at_once(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = table(checkout, [*ticket_rows(), {"text": "No answer", "team": "", "customer": "c1"}])
    command = ["triage", "--from", str(path), "--input", "text", "--expected", "team", "--family", "customer"]
    assert scaffold.main([*command, "--json"]) == cli.OK
    told = json.loads(capsys.readouterr().out)
    assert told["cases"] == 72 and told["left_out"] == ["rows without team (row 73)"]
    assert told["keep"].startswith("git add agents/prompts/triage.md") and "&& git commit -m" in told["keep"]
    suite = load_suite(here(), "eval/suites/triage.jsonl")
    assert suite.pinned and len({case.family for case in suite.cases}) == 12
    assert {case.split for case in suite.cases} == {"tune", "holdout"}
    schema = json.loads((checkout / "agents/schemas/triage.json").read_text())
    assert schema["properties"]["team"]["enum"] == ["account", "billing", "other"]
    assert harness.main(["--agent", "triage", "--json", "--quiet"]) == cli.OK
    summary = json.loads(capsys.readouterr().out)["agents"]["triage"]
    assert summary["counted"] == 72 and 0 < summary["passed"] < 72  # it says what is usual, to begin with


def test_rows_that_differ_in_numbers_only_stand_on_one_side(root: Path) -> None:
    rows = [{"text": f"Where is order {n}?", "team": "a" if n % 2 else "b"} for n in range(40)]
    made = from_rows(table(root, rows), Columns(["text"], ["team"]), [])
    assert len({case["family"] for case in made.cases}) == 1


def test_samples_of_openai_evals_begin_with_their_ideal_or_are_its_label(root: Path) -> None:
    def sample(number: int, ideal: Any) -> str:
        asked = [
            {"role": "system", "content": "Be exact."},
            {"role": "user", "content": f"Question {number}?"},
        ]
        return json.dumps({"input": asked, "ideal": ideal}) + "\n"

    free = world.put(
        root, "free.jsonl", sample(1, "Paris (France)") + sample(2, ["two", "2"]) + '{"input": "x"}\n'
    )
    made = from_samples(free, None, [])
    assert list(made.prompts) == ["Be exact."] and made.cases[0]["input"] == {"question": "Question 1?"}
    assert grade(made.cases[0]["expect"], [{"answer": "Paris (France), of course"}]).ok
    assert grade(made.cases[1]["expect"], [{"answer": "2, I think"}]).ok
    assert made.left_out.lines() == ["samples without an ideal answer (line 3)"]
    labels = world.put(root, "yes.jsonl", "".join(sample(n, "yes" if n % 3 else "no") for n in range(12)))
    made = from_samples(labels, None, [])
    assert made.properties["answer"]["enum"] == ["no", "yes"]
    assert not grade(made.cases[1]["expect"], [{"answer": "yes!"}]).ok


@pytest.mark.parametrize(
    ("file", "content", "flags", "said"),
    [
        ("x.yaml", "prompts: [a]\n", [], "neither tests nor scenarios"),
        ("x.yaml", "tests: [{vars: {a: 1}}]\n", [], "prompts: none can be read"),
        ("x.yaml", "prompts: [a]\ntests: [{vars: {a: 1}}]\n", [], "no case could be carried over"),
        ("x.yaml", "tests: [", [], "not YAML"),
        ("x.yaml", "prompts: [a]\ndefaultTest: 7\ntests: [{}]\n", [], "defaultTest: must be a mapping"),
        ("x.yaml", "prompts: [a]\ntests: [5, {vars: [1], assert: {type: equals}}]\n", [], "no mapping"),
        ("x.yaml", "prompts: [a]\ntests: file://**a/[.csv\n", [], "no file below"),
        ("x.yaml", "prompts: [a]\ntests: [{assert: [{type: is-json, value: {type: 7}}]}]\n", [], "are none"),
        ("x.csv", "a,b\n1,2\n", [], "give --input COL (columns: a, b)"),
        ("x.csv", "a,b\n1,2\n", ["--input", "a", "--expected", "c"], "no column 'c'"),
        ("x.csv", "a,b\n1,2\n", ["--input", "a", "--expected", "a"], "the answer would be shown"),
        ("x.jsonl", "{}\n{", [], "x.jsonl: line 2: not JSON"),
        ("x.csv", "a,b\n1,2,3\n", ["--input", "a", "--expected", "c"], "row 1: 3 cells"),
        ("x.js", "module.exports = {}", [], "must be a promptfoo config"),
    ],
)
def test_what_cannot_be_imported_is_refused_in_one_line_and_nothing_is_written(
    checkout: Path, capsys: pytest.CaptureFixture[str], file: str, content: str, flags: list[str], said: str
) -> None:
    path = world.put(checkout, file, content)
    before = {path: path.read_bytes() for path in checkout.rglob("*") if path.is_file()}
    assert scaffold.main(["newcomer", "--from", str(path), *flags]) == cli.BAD_INPUT
    told = capsys.readouterr().err
    assert said in told and told.count("\n") == 1
    assert {path: path.read_bytes() for path in checkout.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("column", ["urgency", None])
def test_a_starter_stands_on_the_rows_that_the_agent_will_read(
    checkout: Path, capsys: pytest.CaptureFixture[str], column: str | None
) -> None:
    rows: list[dict[str, Any]] = [
        {"id": f"t{n}", "day": f"2026-03-{n // 3 + 1:02}", "text": row["text"]}
        for n, row in enumerate(ticket_rows())
    ]
    table(checkout, [row | ({column: n % 5} if column else {}) for n, row in enumerate(rows[:30])])
    command = ["queue", "--inputs", "file:data/tickets.csv", "--by-day", "day", "--json"]
    assert scaffold.main(command) == cli.OK
    assert (
        "agents/manifest.yaml data/tickets.csv && git commit" in json.loads(capsys.readouterr().out)["keep"]
    )
    entry = yaml.safe_load((checkout / "agents/manifest.yaml").read_text())["agents"][-1]
    assert entry["inputs"] == {"file": "data/tickets.csv", "by_day": "day"}
    assert harness.main(["--agent", "queue", "--json", "--quiet"]) == cli.OK
    summary = json.loads(capsys.readouterr().out)["agents"]["queue"]
    assert summary["counted"] == summary["planned"] and summary["passed"] > 0


def test_rows_that_are_not_there_are_told(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert scaffold.main(["queue", "--inputs", "file:data/none.csv"]) == cli.BAD_INPUT
    assert "data/none.csv: No such file or directory" in capsys.readouterr().err


def test_rows_deep_in_the_answer_of_an_address_are_found(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"id": f"t{n}", "urgency": n} for n in range(8)]
    with Loopback([as_json({"meta": {"n": 8}, "data": {"rows": rows}})]) as server:
        command = ["queue", "--inputs", f"http:{server.url}/tickets"]
        assert scaffold.main(command) == cli.BAD_INPUT
        assert "(those at data.rows? --json-path data.rows)" in capsys.readouterr().err
        assert scaffold.main([*command, "--json-path", "data.rows", "--quiet"]) == cli.OK
    assert harness.main(["--agent", "queue", "--json", "--quiet"]) == cli.OK
    assert json.loads(capsys.readouterr().out)["agents"]["queue"]["passed"] == 8


def test_code_that_gives_the_rows_is_kept_with_the_agent(
    checkout: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(checkout))
    world.put(checkout, "queue_rows.py", "def load(day):\n    return [{'id': 't1', 'urgency': 4}]\n")
    assert scaffold.main(["queue", "--inputs", "call:queue_rows:load", "--json"]) == cli.OK
    assert "queue_rows.py && git commit" in json.loads(capsys.readouterr().out)["keep"]


def test_a_prompt_that_no_file_can_hold_is_refused(root: Path) -> None:
    with pytest.raises(BadInput, match="not UTF-8"):
        from_promptfoo(world.put(root, "x.yaml", b"\xff\xfe"), [])
