"""What comes out of another tool's suite: prompts, an output schema, cases; and all that could not be carried over.

The agent's answer is one item with one text, `answer`, or with a field for each expected column of a table. Where the
right answers are a few labels, the schema names them and the prompt gets a `rules` block of kind classify, so that the
suite runs at once, offline too.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any, Final

from eval.grading.suite import split
from telemetry.edge.errors import BadInput
from telemetry.edge.frozen import frozen
from telemetry.edge.records import load_yaml
from telemetry.edge.text import some

ANSWER: Final = "answer"
MOST_LABELS: Final = 20  # more different answers are texts, not labels
LABEL_LENGTH: Final = 60  # characters
MAX_BYTES: Final = 64 << 20  # of a file that is read
SHOWN: Final = 8  # places named for each thing that was left out

Case = dict[str, Any]


class LeftOut:
    """What could not be carried over, and where: counted by kind, never dropped in silence."""

    def __init__(self) -> None:
        self._where: dict[str, list[str]] = {}

    def add(self, what: str, where: str = "") -> None:
        self._where.setdefault(what, []).append(where)

    def lines(self, most: int = SHOWN) -> list[str]:
        """One line a kind; `most` places of it, the rest as a number."""
        known = {what: list(dict.fromkeys(filter(None, where))) for what, where in self._where.items()}
        return [f"{what} ({some(where, most)})" if where else what for what, where in known.items()]


@frozen
class Imported:
    """A suite as it is about to be written."""

    prompts: Sequence[str]  # the first becomes the champion, the others its challengers
    properties: Mapping[str, Any]  # of one item of the answer
    cases: Sequence[Case]
    left_out: LeftOut = field(default_factory=LeftOut)
    notes: Sequence[str] = ()


def finished(
    source: Path, prompts: Sequence[str], fields: Mapping[str, Any], cases: Iterable[Case], left_out: LeftOut
) -> Imported:
    """The suite without its repeats, its labels named, and offline rules for them."""
    kept: dict[str, Case] = {}
    for case in cases:
        try:
            same = json.dumps([case["input"], case["expect"]], sort_keys=True, allow_nan=False)
        except (ValueError, TypeError):
            left_out.add("values that JSON cannot hold", case["id"])
            continue
        if same in kept:
            left_out.add("the same question with the same answer again", case["id"])
        kept.setdefault(same, case)
    if not kept:
        why = "; ".join(left_out.lines()) or "it is empty"
        raise BadInput(f"{source}: no case could be carried over: {why}")
    found = list(kept.values())
    properties, notes = dict(fields), list[str]()
    for name in fields:
        if labels := _labels(name, found):
            properties[name] = {"type": "string", "enum": labels}
            if len(fields) == 1:
                prompts = [_with_rules(text, name, found) for text in prompts]
                notes.append(f"{name} is one of {len(labels)} labels: rules of kind classify were added")
    return Imported(prompts, properties, found, left_out, notes)


def _labels(name: str, cases: Sequence[Case]) -> list[str]:
    """The labels of a field, if every case expects one of a few short texts there, each for several cases."""
    due = [_label(name, case) for case in cases]
    labels = [[label] for label in due if label is not None]
    return sorted({label for [label] in labels}) if len(labels) == len(due) and are_labels(labels) else []


def are_labels(wanted: Sequence[Sequence[str]]) -> bool:
    """Whether right answers are a few texts, each of which is right for several questions."""
    known = {text for texts in wanted for text in texts}
    return all(len(texts) == 1 for texts in wanted) and 2 <= len(known) <= min(MOST_LABELS, len(wanted) // 2)


def _label(name: str, case: Case) -> str | None:
    own = [part for part in case["expect"] if part.get("path") == f"0.{name}"]
    if len(own) != 1 or own[0]["grader"] != "exact" or own[0].keys() & {"not", "read", "any_of"}:
        return None
    value = own[0]["value"]
    plain = isinstance(value, str) and 0 < len(value) <= LABEL_LENGTH and "\n" not in value
    return value if plain else None


def _with_rules(prompt: str, name: str, cases: Sequence[Case]) -> str:
    """The prompt with what the offline model needs to begin; the usual label is learnt from tune cases alone."""
    if "```rules" in prompt:
        return prompt
    seen = [case for case in cases if split(str(case["family"])) == "tune"] or list(cases)
    usual = Counter(str(_label(name, case)) for case in seen).most_common(1)[0][0]
    fields = list(dict.fromkeys(key for case in cases for key in case["input"]))
    listed = ", ".join(map(_written, fields))
    block = [
        "analyst: classify",
        f"label_field: {name}",
        f"fields: [{listed}]",
        f"default_label: {_written(usual)}",
    ]
    return f"{prompt.rstrip()}\n\n## Rules\n```rules\n" + "\n".join(block) + "\n```\n"


def _written(text: str) -> str:
    """A text as a YAML scalar."""
    plain = re.fullmatch(r"[A-Za-z][\w-]*", text) and text not in ("true", "false")
    return text if plain else json.dumps(text, ensure_ascii=False)


def family_of(value: Any) -> str:
    """The same for inputs that differ in numbers, case and white space only: they stand on one side of the split."""
    text = json.dumps(value, sort_keys=True, default=str, ensure_ascii=False).lower()
    words = " ".join(re.sub(r"\d+", "0", text).split())
    return f"f-{hashlib.sha256(words.encode()).hexdigest()[:12]}"


def slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:48].rstrip("-")


def read_text(path: Path) -> str:
    """A text file, whole; line ends as everywhere here."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise BadInput(f"{path}: larger than {MAX_BYTES >> 20} MiB")
        return path.read_text("utf-8-sig").replace("\r\n", "\n")
    except OSError as problem:
        raise BadInput(f"{path}: cannot be read ({problem.strerror})") from None
    except UnicodeDecodeError as problem:
        raise BadInput(f"{path}: not UTF-8 text (byte {problem.start})") from None


def read_data(path: Path) -> Any:
    """The value of a YAML or JSON file."""
    text = read_text(path)
    try:
        return load_yaml(text)
    except BadInput as problem:
        raise BadInput(f"{path}: {problem}") from None
