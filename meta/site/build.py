"""Turns facts into pages: Jinja templates with autoescape, one stylesheet, one script, nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eval.ab.figures import odds, points
from meta.site.agents import Page, Results, agent_page, agent_row, case_pages, case_path, worth_map
from meta.site.draw import gain
from meta.site.facts import Facts
from meta.site.pictures import chart, promotions
from meta.site.prompts import prompt_page, test_page, told
from meta.site.recorded import kinds_that_fail
from telemetry.branch.remote import BRANCH
from telemetry.edge.files import MANIFEST
from telemetry.edge.split import Tell, cores, split_off
from telemetry.edge.text import clean, redact

if TYPE_CHECKING:
    from jinja2 import Environment

HERE = Path(__file__).parent
ASSETS = ("site.css", "site.js")
UNKNOWN = "–"
MOST_AGENTS = 8  # on the overview
MAX_TESTS = 300  # comparisons with a page of their own
MANY = 200  # pages from which on several processes make them: half a second of work
NEED_YOU = ("candidate", "loud", "revival")


def build(facts: Facts, out: Path) -> list[Path]:
    """Write the whole site; pages that are no longer there go. Returns what was written."""
    every = list(pages(facts))
    _by_all_cores(every, partial(_make, _environment(facts), out))
    for name in ASSETS:
        _write(out / name, (HERE / "assets" / name).read_bytes())
    written = [out / path for path, _, _ in every]
    known = {*written, *(out / name for name in ASSETS)}
    for old in out.rglob("*.html"):
        if old not in known:
            old.unlink()
    return written


def _by_all_cores(every: Sequence[Page], make: Callable[[Iterable[Page]], None]) -> None:
    """Make the pages, those of a large site in several processes, with all that is known here."""
    at_once = cores() if len(every) >= MANY else 1
    ours, *others = (every[first::at_once] for first in range(at_once))

    def work(share: Sequence[Page], _tell: Tell) -> None:
        make(share)

    with split_off([partial(work, share) for share in others]) as parts:
        make(ours)
        for share, part in zip(others, parts, strict=True):
            try:
                part.result()
            except Exception:  # noqa: BLE001 - it was killed, or met an error, which shows itself again here
                make(share)


def _make(environment: Environment, out: Path, some: Iterable[Page]) -> None:
    for path, template, show in some:
        text = environment.get_template(template).render(show(), path=path, up="../" * path.count("/"))
        _write(out / path, text.encode())


def _write(path: Path, data: bytes) -> None:
    """A page, not atomically: it is made anew at will, and a large site has thousands of them."""
    try:
        path.write_bytes(data)
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def pages(facts: Facts) -> Iterator[Page]:
    """Every page; what stands on it is worked out when its turn comes."""
    results = {spec.name: facts.result(spec.name) for spec in facts.manifest.agents}
    rows = {row.agent: agent_row(facts, row, results) for row in facts.agents}
    yield "index.html", "overview.html", lambda: _overview(facts, results, rows)
    yield "agents.html", "agents.html", lambda: {"agents": list(rows.values()), "map": worth_map(facts)}
    for spec in facts.manifest.agents:
        own = partial(agent_page, facts, spec, rows[spec.name], results[spec.name])
        yield f"agents/{spec.name}.html", "agent.html", own
        yield from case_pages(facts, spec.name, results[spec.name])
    suites = [(spec, results[spec.name]) for spec in facts.manifest.agents]
    yield "cases.html", "cases.html", lambda: {"suites": suites}
    texts = facts.texts.values()
    yield "prompts.html", "prompts.html", lambda: {"prompts": [(one, told(facts, one)) for one in texts]}
    for one in texts:
        yield f"prompts/{one.stem}.html", "prompt.html", partial(prompt_page, facts, one)
    yield "tests.html", "tests.html", lambda: {"tests": facts.comparisons}
    for test in facts.comparisons[:MAX_TESTS]:
        yield f"tests/{test.pair}.html", "test.html", partial(test_page, facts, test)
    yield "decisions.html", "decisions.html", lambda: {"decisions": facts.decisions}
    kept = ("days", "malformed", "volume", "health")
    yield "data.html", "data.html", lambda: {name: getattr(facts, name) for name in kept}


def _overview(facts: Facts, results: Results, rows: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    month = facts.now.strftime("%Y-%m")
    return {
        "sentence": _sentence(facts),
        "missed": _missed(facts),
        "testing": [one for one in facts.comparisons if one.verdict in ("continue", "blocked")],
        "tonight": facts.days[0] if facts.days else None,
        "month": [day for day in facts.days if day.date.startswith(month)],
        "drift": facts.drift,
        "nights": chart(facts.nights, promotions(facts.repo)),
        "agents": _narrowest(rows.values()),
        "needing": [row for row in facts.agents if row.state in NEED_YOU],
        "failing": kinds_that_fail(results.items()),
    }


def _narrowest(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The agents that stand least above an empty answer."""

    def above(row: dict[str, Any]) -> float:
        summary = row["summary"]
        return float(summary["passed"] / summary["counted"] - (summary.get("empty_rate") or 0.0))

    measured = [row for row in rows if row["summary"].get("counted")]
    return sorted(measured, key=above)[:MOST_AGENTS]


def _missed(facts: Facts) -> list[tuple[str, str, str]]:
    """(step, what became of it, why) of what did not come through in the last night."""
    nights = [line for line in facts.lines if line.run_type == "night"]
    steps = nights[-1].summary.get("steps") if nights else None
    return [
        (name, one["status"], str(one.get("told") or "").removeprefix("error: "))
        for name, one in (steps or {}).items()
        if one.get("status") in ("failed", "stopped", "skipped")
    ]


def _sentence(facts: Facts) -> str:
    """The night in one sentence."""
    if facts.last_night is None:
        return "Nothing has been measured yet."
    failed = [name for name, status, _ in _missed(facts) if status != "skipped"]
    waits = len(facts.changes)
    parts = [
        "nothing waits for you"
        if not waits
        else f"{waits} change{'s' if waits > 1 else ''} wait{'s' if waits == 1 else ''} for you",
        f"{' and '.join(failed)} did not come through" if failed else "every step came through",
    ]
    if facts.nights:
        parts.append(f"the champions pass {100 * facts.nights[-1][1]:.0f}\u00a0% of their cases")
    told = "; ".join(parts)
    return f"{told[0].upper()}{told[1:]}."


def _environment(facts: Facts) -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    made = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        auto_reload=False,  # else it looks for a change of each template before each of thousands of pages
    )
    made.filters |= {
        "share": _known(lambda value: f"{100 * value:.1f} %"),
        "points": _known(points),
        "signed": _known(lambda value: f"{value:+.3f}"),
        "usd": _known(
            lambda value: "$0" if value == 0 else f"${value:.4f}" if value < 0.01 else f"${value:.2f}"
        ),
        "ms": _known(lambda value: f"{value:,.0f} ms" if value >= 10 else f"{value:.1f} ms"),
        "odds": _known(odds),
        "known": _known(str),
        "counted": lambda number, what: f"{number:,} {what}{'s' * (number != 1)}",
        "plain": lambda text: clean(redact(str(text))),
    }
    made.globals |= {
        "facts": facts,
        "source": _source(facts),
        "record": _record(facts),
        "case_path": case_path,
        "beside_zero": gain,
        "manifest_path": str(MANIFEST),
    }
    return made


def _record(facts: Facts) -> Callable[[str, str], str]:
    """The address of what was measured: on the data branch, else beside the site; empty where there is none."""

    def address(path: str, up: str) -> str:
        if facts.url:
            return f"{facts.url}/tree/{BRANCH}"
        return f"{up}../{path}" if (facts.repo / path).is_file() else ""

    return address


def _known(shown: Callable[[Any], str]) -> Callable[[Any], str]:
    """Shows a value; what is not known is a dash, never 0."""
    return lambda value: UNKNOWN if value is None or value == "" else shown(value)


def _source(facts: Facts) -> Callable[[str], str]:
    """The address of a file: at its commit on GitHub, else beside the site."""

    def address(path: str, up: str = "") -> str:
        if facts.url and facts.commit:
            return f"{facts.url}/blob/{facts.commit}/{path}"
        return f"{up}../{path}"

    return address
