"""Reads a promptfoo config: its prompts, tests, variables and assertions become one agent's prompts and suite.

promptfoo writes the variables into the prompt; here the prompt is the instruction and the variables are data, handed
over as JSON beside it: `{{question}}` becomes the name of a field. A variable that no prompt mentions (an expected
answer, say) is not given to the agent there, and not here either.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from eval.scaffolding import assertions
from eval.scaffolding.assertions import NotCarried, as_text, in_a_cell
from eval.scaffolding.imported import (
    ANSWER,
    Case,
    Imported,
    LeftOut,
    family_of,
    finished,
    read_data,
    read_text,
    slug,
)
from eval.scaffolding.references import PLACE, Folder, filled, instruction, is_code, names_in
from eval.scaffolding.tables import read_rows
from telemetry.edge.errors import BadInput
from telemetry.edge.frozen import frozen
from telemetry.edge.records import load_json, load_yaml

MAX_COMBINATIONS: Final = 1_000  # cases that the lists among one test's variables may make
_CONFIG: Final = {"description", "prompts", "tests", "defaultTest", "scenarios", "tags", "$schema"}
_TEST: Final = {"description", "vars", "assert", "threshold", "metadata", "options"}

Row = Mapping[str, Any]


@frozen
class _Test:
    """One test with its defaults, its variables single values."""

    where: str
    id: str
    family: str | None
    given: Row
    about: Row


def from_promptfoo(path: Path, prompts: Sequence[str]) -> Imported:
    """The suite of a config; `prompts` instead of its own, which may stand in somebody's prompt store."""
    config = read_data(path)
    if not isinstance(config, Mapping) or not config.keys() & {"tests", "scenarios"}:
        raise BadInput(f"{path}: no promptfoo config: it has neither tests nor scenarios")
    return _Reader(path, config).read(prompts)


class _Reader:
    def __init__(self, path: Path, config: Row) -> None:
        self.path, self.config, self.left_out = path, config, LeftOut()
        self.folder = Folder(path.parent, self.left_out)

    def read(self, prompts: Sequence[str]) -> Imported:
        for name in self.config.keys() - _CONFIG:
            self.left_out.add(f"{name} of the config")
        own = [self._said(text).strip() for text in self._prompts(self.config.get("prompts"), "prompts")]
        texts = list(prompts) or [text for text in own if text]
        if not texts:
            why = "; ".join(self.left_out.lines())
            raise BadInput(
                f"{self.path}: prompts: none can be read ({why}); give the text by --prompt-file FILE"
            )
        shown = names_in("\n".join(texts))
        cases = [case for test in self._tests() for case in self._case(test, shown)]
        texts = [instruction(text, self.left_out) for text in texts]
        answer = {"type": "string", "description": "the whole answer, as one text"}
        return finished(self.path, list(dict.fromkeys(texts)), {ANSWER: answer}, cases, self.left_out)

    # Prompts

    def _prompts(self, given: Any, where: str) -> Iterator[Any]:
        """Texts and conversations, wherever the config keeps them."""
        for one in _several(given):
            if isinstance(one, Mapping):
                if one.keys() >= {"role", "content"}:  # the list itself is the conversation
                    yield given
                    return
                yield from self._prompts(one.get("raw") or one.get("id"), where)
            elif isinstance(one, str) and (files := self.folder.files(one, where)) is not None:
                for file in files:
                    yield from self._prompt_file(file)
            elif isinstance(one, str) and (one.startswith("exec:") or is_code(one)):
                self.left_out.add(f"the prompt {one}, which is a program")
            elif isinstance(one, str) and re.match(r"[a-z]+://", one):
                self.left_out.add(f"the prompt {one} (bring its text by --prompt-file)")
            elif one is not None:
                yield one

    def _prompt_file(self, file: Path) -> Iterator[Any]:
        if file.suffix == ".csv":
            yield from (row["prompt"] for _, row in read_rows(file) if row.get("prompt"))
        elif file.suffix in (".json", ".yaml", ".yml"):
            try:
                yield read_data(file)
            except BadInput:
                self.left_out.add(
                    f"the prompt {file.name}, which is no data before its template is filled in"
                )
        else:
            yield from (part.strip() for part in re.split(r"^---$", read_text(file), flags=re.MULTILINE))

    def _said(self, prompt: Any) -> str:
        """A prompt as one text; of a conversation who says what, unless it is the system or a bare variable."""
        if isinstance(prompt, str) and prompt.lstrip().startswith("["):
            with contextlib.suppress(ValueError):  # a text that only begins so
                prompt = load_json(prompt)
        if isinstance(prompt, str):
            return prompt
        turns = [turn for turn in prompt if isinstance(turn, Mapping)] if isinstance(prompt, list) else []
        parts = []
        for turn in turns:
            role, said = turn.get("role"), self._words(turn.get("content"))
            if not said:
                continue
            if role in ("system", "developer") or len(turns) == 1:
                parts.append(said)
            elif not PLACE.fullmatch(said.strip()):
                parts.append(
                    said if role == "user" and turn is turns[-1] else f"{str(role).capitalize()}: {said}"
                )
            else:
                parts.append(f"You are given {said.strip()}.")
        return "\n\n".join(parts)

    def _words(self, content: Any) -> str:
        """What a turn says in words; beside them there may be images."""
        parts = content if isinstance(content, list) else [content]
        texts = [part.get("text") if isinstance(part, Mapping) else part for part in parts]
        if any(not isinstance(text, str) for text in texts):
            self.left_out.add("parts of a prompt that are no text")
        return "\n".join(text for text in texts if isinstance(text, str))

    # Tests

    def _tests(self) -> Iterator[_Test]:
        default = self.config.get("defaultTest") or {}
        default = self.folder.loaded(default, "defaultTest") or {}
        if not isinstance(default, Mapping):
            raise BadInput(f"{self.path}: defaultTest: must be a mapping, or file:// and one")
        number = itertools.count(1)
        for test in self._listed(self.config.get("tests"), "tests"):
            yield from self._single(next(number), [default, test])
        for scenario in self._listed(self.config.get("scenarios"), "scenarios"):
            settings = list(self._listed(scenario.get("config"), "scenarios.config")) or [{}]
            for test in self._listed(scenario.get("tests"), "scenarios.tests"):
                place = next(number)
                for part, setting in enumerate(settings, 1):
                    yield from self._single(
                        place, [default, setting, test], f"-{part}" if settings[1:] else ""
                    )

    def _listed(self, given: Any, where: str) -> Iterator[Row]:
        """Tests as they stand in the config or in the files it names."""
        for one in _several(given):
            if isinstance(one, Mapping) and "path" not in one:
                yield one
            elif isinstance(one, str) and (files := self.folder.files(one, where)) is not None:
                for file in files:
                    if file.suffix in (".csv", ".jsonl"):
                        rows = (row for _, row in read_rows(file))
                        yield from (
                            (self._from_columns(row) for row in rows) if file.suffix == ".csv" else rows
                        )
                    elif file.suffix in (".json", ".yaml", ".yml"):
                        yield from self._listed(read_data(file), where)
                    else:
                        self.left_out.add(f"{where}: {file.name}, a kind of file that is not read")
            else:
                said = one.get("path") if isinstance(one, Mapping) else one
                self.left_out.add(f"{where}: {said}, which is a program, or not on this machine")

    def _from_columns(self, row: Row) -> Row:
        """A test as promptfoo's tables have it: columns are variables, but for those that begin with `__`."""
        test: dict[str, Any] = {"vars": {}, "assert": [], "metadata": {}}
        for name, value in row.items():
            if not name or value in (None, ""):
                continue
            if not name.startswith("__"):
                test["vars"][name] = value
            elif re.fullmatch(r"__expected\d*", name):
                test["assert"].append(in_a_cell(str(value)))
            elif name == "__description":
                test["description"] = value
            elif name == "__threshold":
                test["threshold"] = load_yaml(str(value))
            elif name.startswith("__metadata:"):
                test["metadata"][name.removeprefix("__metadata:").removesuffix("[]")] = value
            else:
                self.left_out.add(f"the column {name}")
        return test

    def _single(self, number: int, layers: Sequence[Row], part: str = "") -> Iterator[_Test]:
        """The test with its defaults, once for every combination of the lists among its variables."""
        about: dict[str, Any] = {"vars": {}, "assert": [], "metadata": {}, "options": {}}
        for layer in layers:
            for name, value in layer.items():
                if name in ("vars", "metadata", "options"):
                    value = self.folder.loaded(value, f"tests.{name}") or {}
                    if isinstance(value, Mapping):
                        about[name] |= value
                    else:
                        self.left_out.add(f"{name} that are no mapping", f"test {number}")
                elif name == "assert":
                    about[name] = [*about[name], *_several(value)]
                else:
                    about[name] = value
        where = f"test {number}"
        for name in about.keys() - _TEST:
            self.left_out.add(f"{name} of a test", where)
        for name in about["options"].keys() - {"disableVarExpansion"}:
            self.left_out.add(f"options.{name} of a test", where)
        given = {
            name: self.folder.loaded(value, f"{where}: vars.{name}") for name, value in about["vars"].items()
        }
        spread = [name for name, value in given.items() if isinstance(value, list) and value]
        if about["options"].get("disableVarExpansion") is True:
            spread = []
        chosen = itertools.product(*(given[name] for name in spread))
        title = slug(str(about.get("description") or ""))
        name = f"t{number:04}{part}" + (f"-{title}" if title else "")
        several = bool(spread or part)
        for place, values in enumerate(itertools.islice(chosen, MAX_COMBINATIONS + 1), 1):
            if place > MAX_COMBINATIONS:
                self.left_out.add(f"combinations of variables beyond {MAX_COMBINATIONS}", where)
                break
            single = {**given, **dict(zip(spread, values, strict=True))}
            single = {key: filled(value, single)[0] for key, value in single.items()}
            ending = f".{place}" if spread else ""
            yield _Test(where, f"{name[:70]}{ending}", f"t{number:04}" if several else None, single, about)

    def _case(self, test: _Test, shown: set[str]) -> Iterator[Case]:
        """The test as a case, if anything of what it asserts can be carried over."""
        expect, used = [], set[str]()
        for one in self._flat(test.about["assert"], test.where):
            used |= names_in(json.dumps(one, default=str))
            try:
                value = self._value(one, test)
                expect.append(assertions.grader_of(one, value))
            except NotCarried as problem:
                self.left_out.add(str(problem), test.where)
        if not expect:
            what = (
                "whose assertions cannot be carried over" if test.about["assert"] else "without any assertion"
            )
            self.left_out.add(f"tests {what}", test.where)
            return
        # Where no prompt mentions a variable, what the assertions look at is the answer, and not told.
        mentioned = shown & test.given.keys()
        given = {
            name: test.given[name] for name in test.given if name in (mentioned or test.given.keys() - used)
        }
        for name in test.given.keys() - given.keys():
            self.left_out.add(f"the variable {name!r}: no prompt mentions it, so the agent is not given it")
        threshold = test.about.get("threshold")
        case: Case = {
            "id": test.id,
            "family": test.family or family_of(given),
            "input": given,
            "expect": expect,
        }
        tags = [
            f"{key}={as_text(one)}"
            for key, one in test.about["metadata"].items()
            if isinstance(one, str | int)
        ]
        case |= {"tags": sorted(set(tags))} if tags else {}
        if isinstance(threshold, int | float) and 0 < threshold <= 1:
            case["threshold"] = threshold
        elif threshold is not None:
            self.left_out.add(f"threshold {threshold}", test.where)
        yield case

    def _flat(self, given: Any, where: str) -> Iterator[Row]:
        """The assertions, those of sets that want all of theirs among them."""
        for one in _several(given):
            if not isinstance(one, Mapping):
                self.left_out.add(f"the assertion {one}", where)
            elif (
                one.get("type") == "assert-set" and one.get("threshold") is None and one.get("weight", 1) == 1
            ):
                yield from self._flat(one.get("assert"), where)
            else:
                yield one

    def _value(self, assertion: Row, test: _Test) -> Any:
        value = assertion.get("value")
        value, open_places = filled(value, test.given)
        if open_places:
            raise NotCarried(f"assertions on a template that is more than a variable, {open_places[0]}")
        if isinstance(value, str) and value.startswith("file://"):
            value = self.folder.loaded(value, "an assertion")
            if value is None:
                raise NotCarried("assertions on a file that cannot be read as data")
        return value


def _several(given: Any) -> list[Any]:
    """What stands alone where a list may stand is one of it."""
    return given if isinstance(given, list) else [] if given is None else [given]
