"""The site: what it says after a night, for an empty repository, and against hostile text."""

from __future__ import annotations

import json
import os
import re
import signal
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from eval.drift import Drift
from eval.ledger.provenance import history
from meta import audit, dashboard
from meta.pulls.morning import spent
from meta.retirement import retire_candidates
from meta.site import build, draw
from meta.site.agents import agent_page, case_pages
from meta.site.facts import gather
from meta.site.pictures import by_night
from telemetry.edge.files import HISTORY, working_in
from telemetry.edge.records import plain
from telemetry.read.rows import Window
from telemetry.rollup import summary_of
from tests import pictures
from tests.meta.face.conftest import SAID
from tests.worlds import world
from tests.worlds.browser import Look, looked_at

EVIL = '<script>alert(1)</script>"><img src=x onerror=alert(1)>'
LATER = timedelta(hours=37)


@pytest.fixture(scope="module")
def site(lived: Path) -> Path:
    return built(lived)


class Links(HTMLParser):
    """Every address on a page, and everything that a strict policy would refuse."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.refused: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("href", "src"):
                self.found.append(value or "")
            if name == "style" or name.startswith("on"):
                self.refused.append(f"{tag} {name}")
        if tag in ("style", "iframe", "object") or (tag == "script" and "src" not in dict(attrs)):
            self.refused.append(tag)


def built(root: Path, out: Path | None = None, **more: Any) -> Path:
    out = out or root / "site"
    with working_in(root) as repo:
        build.build(gather(repo, **more), out)
    return out


def test_every_link_leads_somewhere_and_nothing_needs_a_looser_policy(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 10
    for page in pages:
        links = Links()
        links.feed(page.read_text(encoding="utf-8"))
        assert not links.refused, page
        for address in links.found:
            target = re.split("[?#]", address)[0]
            assert not target or (page.parent / target).exists(), f"{page}: {address}"


def test_the_overview_shows_what_waits_most_consequential_first(site: Path) -> None:
    text = (site / "index.html").read_text(encoding="utf-8")
    titles = re.findall(r"<h3>(.*?)</h3>", text)
    assert titles[0].startswith("Promote watcher B ")
    assert "changes a live prompt" in text
    assert text.index("changes a live prompt") < text.index("adds challengers") < text.index("report only")
    assert "offline model" in text


def test_on_github_figures_lead_to_the_data_branch_and_changes_to_their_pull_request(
    lived: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_REPOSITORY", "somebody/agents")
    site = built(lived, tmp_path)
    at = "https://github.com/somebody/agents"
    overview = (site / "index.html").read_text(encoding="utf-8")
    assert f'href="{at}/pulls?q=is%3Aopen%20head%3Ameta/prompt-ab-champion"' in overview
    assert f'href="{at}/tree/telemetry-data"' in (site / "tests.html").read_text(encoding="utf-8")


def test_a_merged_change_no_longer_waits(lived: Path, tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    world.git(lived, "clone", "-q", str(lived), str(clone))
    world.git(clone, "branch", "meta/prompt-ab-champion", "origin/meta/prompt-ab-champion")
    with working_in(clone) as repo:
        before = [change.kind for change in gather(repo).changes]
        world.git(clone, "merge", "-q", "--squash", "meta/prompt-ab-champion")
        world.git(clone, "commit", "-q", "-m", "squashed")
        after = [change.kind for change in gather(repo).changes]
    assert "ab_champion" in before
    assert "ab_champion" not in after
    assert set(after) == set(before) - {"ab_champion"}


def test_figures_are_those_of_the_reports(lived: Path, site: Path) -> None:
    with working_in(lived) as repo:
        facts = gather(repo)
        flagged = [row["agent"] for row in retire_candidates()]
        log = audit.log(repo)
    assert [row.agent for row in facts.agents if row.state == "candidate"] == flagged
    assert len(facts.decisions) == len(log)
    won = next(one for one in facts.comparisons if one.verdict == "promote")
    page = (site / f"tests/{won.pair}.html").read_text(encoding="utf-8")
    assert f"{100 * won.row['effect']:+.1f}" in page


def test_a_figure_is_the_same_on_the_page_in_the_reports_and_on_the_command_line(
    lived: Path, site: Path
) -> None:
    with working_in(lived) as repo:
        facts, told = gather(repo), summary_of(repo, Window(kind="run"))
        month = spent(repo, facts.now.replace(day=1, hour=0, minute=0, second=0, microsecond=0))
        rates = dict(by_night(history(repo, "eval")))
    page = (site / "agents.html").read_text(encoding="utf-8")
    for row in facts.agents:
        reward = told["by_agent"][row.agent]["avg_reward"]
        assert row.rolling_avg_reward == (None if reward is None else pytest.approx(reward, abs=1e-9))
        assert row.rolling_avg_reward is None or f">{reward:+.3f}<" in page
        graded = facts.result(row.agent)["summary"]
        score = facts.scores[row.agent][-1]
        assert (score.passed, score.counted) == (graded["passed"], graded["counted"])
        assert f">{100 * graded['success_rate']:.1f} %<" in page
    assert rates[facts.nights[-1][0]] == facts.nights[-1][1]
    days = [day for day in facts.days if day.date.startswith(facts.now.strftime("%Y-%m"))]
    assert (sum(day.calls for day in days), sum(day.cost_usd or 0 for day in days)) == (
        month.calls,
        month.usd,
    )


def test_evidence_worked_out_from_rows_is_the_verdicts_in_all_digits(lived: Path, site: Path) -> None:
    with working_in(lived) as repo:
        facts = gather(repo)
        curves = {test.pair: facts.evidence(test) for test in facts.comparisons}
    assert curves
    for test in facts.comparisons:
        assert curves[test.pair][-1] == test.row["e_value"]
        page = (site / f"tests/{test.pair}.html").read_text(encoding="utf-8")
        assert "digit for digit" in page and 'class="chart wide"' in page


def test_evidence_whose_suite_was_changed_is_not_drawn(lived: Path, tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    world.git(lived, "clone", "-q", str(lived), str(clone))
    for name in ("eval/history.jsonl", "telemetry/events.jsonl"):
        world.put(clone, name, (lived / name).read_text(encoding="utf-8"))
    suite = clone / "eval/suites/watcher.jsonl"
    suite.write_text("".join(suite.read_text().splitlines(keepends=True)[:-1]))
    with working_in(clone) as repo:
        facts = gather(repo)
        assert all(facts.evidence(test) == [] for test in facts.comparisons if test.stem == "watcher")


def test_a_case_shows_what_was_asked_and_answered_in_full(site: Path) -> None:
    page = (site / "cases/watcher.html").read_text(encoding="utf-8")
    assert "<dt>Asked</dt>" in page and "<dt>Answer</dt>" in page


def test_cases_that_failed_come_first_however_many_pages_there_are(lived: Path) -> None:
    with working_in(lived) as repo:
        facts = gather(repo)
        result = {"results": [{"id": str(number), "ok": number % 10 > 0} for number in range(400)]}
        first, *_ = case_pages(facts, "watcher", result)
        _, _, show = first
        assert [case.ok for case in show()["cases"]] == [False] * 40 + [True] * 110
        page = agent_page(facts, facts.manifest.agents[0], {}, result)
    assert {at for at, *_ in page["failing"]} == {"cases/watcher.html"}


@pytest.mark.parametrize("killed", [False, True])
def test_pages_made_by_several_processes_are_those_of_one_whatever_becomes_of_them(
    lived: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed: bool
) -> None:
    now, ours, make = datetime.now(UTC), os.getpid(), build._make

    def mortal(*args: Any) -> None:
        if killed and os.getpid() != ours:
            os.kill(os.getpid(), signal.SIGKILL)
        make(*args)

    one = built(lived, tmp_path / "one", now=now)
    monkeypatch.setattr(build, "MANY", 1)
    monkeypatch.setattr(build, "_make", mortal)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: range(3), raising=False)
    several = built(lived, tmp_path / "several", now=now)
    assert contents(one) == contents(several)


def contents(site: Path) -> dict[str, bytes]:
    return {str(page.relative_to(site)): page.read_bytes() for page in site.rglob("*.*")}


def test_old_figures_carry_a_red_banner(lived: Path, site: Path, tmp_path: Path) -> None:
    stale = built(lived, tmp_path, now=datetime.now(UTC) + LATER)
    assert '<p id="stale" class="banner bad" hidden>' in (site / "index.html").read_text()
    assert '<p id="stale" class="banner bad">' in (stale / "index.html").read_text()


def test_redacted_pages_hold_no_word_of_a_model(lived: Path, site: Path, tmp_path: Path) -> None:
    def saying(pages: Path) -> list[Path]:
        return [page for page in pages.rglob("*.html") if SAID in page.read_text(encoding="utf-8")]

    assert saying(site)
    assert not saying(built(lived, tmp_path, redacted=True))


def test_an_empty_repository_has_a_site_too(tmp_path: Path) -> None:
    root = world.commit(world.toy(tmp_path))
    index = (built(root) / "index.html").read_text(encoding="utf-8")
    assert "Nothing has been measured yet" in index
    assert "$0" not in index  # not measured is a dash
    assert "coffee" not in index  # not a night has passed that could leave nothing to do
    agent = (root / "site/agents/flood_watch.html").read_text(encoding="utf-8")
    assert "Not measured yet." in agent and "<dd>none" not in agent


def test_a_night_that_failed_says_which_step_and_why(tmp_path: Path) -> None:
    root = world.commit(world.toy(tmp_path))
    steps = {
        "agents": {"status": "done", "told": "2 agents ran"},
        "evals": {"status": "failed", "told": f"error: a suite changed {EVIL}"},
        "drift": {"status": "skipped", "told": "needs evals"},
    }
    line = {"ts": "2026-11-18T04:00:00Z", "run_type": "night", "summary": {"steps": steps}, "metadata": {}}
    world.put(root, HISTORY, json.dumps(line) + "\n")
    page = (built(root) / "index.html").read_text(encoding="utf-8")
    assert "evals did not come through" in page
    assert "</span> a suite changed &lt;script" in page and "needs evals" in page and "agents ran" not in page
    assert "a suite changed" not in (built(root, redacted=True) / "index.html").read_text(encoding="utf-8")


def test_a_drift_is_told_in_words_and_a_broken_record_of_one_not_at_all(tmp_path: Path) -> None:
    root = world.commit(world.toy(tmp_path))
    fall = Drift(
        "flood_watch", True, "2026-11-12", "2026-11-14", 40, 0.8, 0.6, 0.85, 0.7, "m", "m", (), alarm=True
    )
    for drifts, told in (
        ([plain(fall)], True),
        ([plain(fall) | {"alarm": False}], False),
        ([[fall.since]], False),
    ):
        watched = {"nights": 9, "cases": 40, "passed": 0.6, "drifts": drifts}
        world.put(root, "eval/results/drift.json", {"agents": {"flood_watch": watched}})
        page = (built(root, tmp_path / "site") / "index.html").read_text()
        assert ("pass rate fell by 20.0 points since 12 Nov" in page) is told
        assert "passed_before" not in page


def test_pages_of_agents_that_are_gone_go(tmp_path: Path) -> None:
    root = world.commit(world.toy(tmp_path))
    world.put(root, "site/agents/gone.html", "old")
    assert not (built(root) / "agents/gone.html").exists()


def test_hostile_text_is_only_text(lived: Path, tmp_path: Path) -> None:
    """A model, a branch's commit or a history line may say anything; no tag of theirs reaches a page."""
    clone = tmp_path / "clone"
    world.git(lived, "clone", "-q", str(lived), str(clone))
    world.put(clone, "agents/outputs/watcher.json", {"output": [{"id": EVIL}], "as_of": EVIL})
    row = {"id": EVIL, "ok": False, "tags": [EVIL], "reasons": [EVIL], "output": EVIL, "output_kept": True}
    summary = {"counted": 1, "passed": 0, "by_tag": {EVIL: {"counted": 1, "passed": 0}}}
    world.put(clone, "eval/results/watcher.json", {"results": [row], "summary": summary})
    issue = {"id": "x", "title": EVIL, "evidence": EVIL, "severity": EVIL}
    critique = {"critiques": [{"target_agent": "watcher", "issues": [issue]}]}
    world.put(clone, "meta/reports/cross_critiques.json", critique)
    compared = {"pair": f"../../{EVIL}", "prompt": EVIL, "variant": EVIL, "verdict": "continue", "why": EVIL}
    told = {"agents": {EVIL: {"passed": 1, "counted": 2}}, "comparisons": [compared]}
    lines = [{"ts": "2026-11-18T04:00:00Z", "summary": told, "metadata": {"provider": EVIL}}]
    world.put(
        clone,
        HISTORY,
        "".join(json.dumps({**lines[0], "run_type": one}) + "\n" for one in ("eval", "ab_test")),
    )
    world.git(clone, "checkout", "-q", "-B", "meta/prompt-proposals")
    world.put(clone, "agents/prompts/variants/watcher/Z.md", "x")
    world.git(clone, "add", "-A")
    world.git(clone, "commit", "-q", "-m", EVIL)
    world.git(clone, "checkout", "-q", "main")
    before = set(tmp_path.parent.rglob("*"))
    site = built(clone)
    assert all(site in path.parents or path == site for path in set(tmp_path.parent.rglob("*")) - before)
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert "<script>alert" not in text, page
        assert "<img src=x" not in text, page


def test_a_broken_history_line_costs_nothing_else(tmp_path: Path) -> None:
    root = world.commit(world.toy(tmp_path))
    world.put(
        root,
        HISTORY,
        '{"ts": "2026-11-01", "run_type": "eval", "summary": {"agents": {"flood_watch": 3}}}\n{',
    )
    assert (built(root) / "index.html").exists()


def test_the_script_says_where_the_site_stands(lived: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert dashboard.main(["--root", str(lived), "--out", str(lived / "elsewhere")]) == 0
    assert str(lived / "elsewhere/index.html") in capsys.readouterr().out


def test_the_readmes_pictures_show_what_pages_and_texts_say(lived: Path, site: Path) -> None:
    assert pictures.shows(lived) == pictures.known(), "what they show has changed: make pictures"


@pytest.mark.parametrize("values", [[0.5], [0.5, 0.5], [0.0, 1.0], [0.1, 0.2, 0.3] * 200])
def test_charts_stay_within_their_frame(values: list[float]) -> None:
    points = [draw.Point(place, value, str(place)) for place, value in enumerate(values)]
    drawn = draw.line("t", "d", points, low=0.0, high=1.0)
    for width, chart in zip(draw.WIDTHS.values(), drawn.split("</svg>"), strict=False):
        path = re.search(r'class="line" d="M([^"]+)"', chart)
        assert path is not None
        for pair in path[1].split("L"):
            x, y = map(float, pair.split(","))
            assert 0 <= x <= width
            assert 0 <= y <= draw.HEIGHT


def test_a_person_can_read_every_page_on_a_phone_and_in_the_dark(site: Path, browser: Any) -> None:
    every = sorted(str(page.relative_to(site)) for page in site.rglob("*.html"))
    pages = list({name.rpartition("/")[0] or name: name for name in every}.values())  # one of each sort
    for found in looked_at(browser, site, pages, LOOKS):
        assert not found.troubles, found


# Every width in every scheme; axe is asked again only what these can change.
LOOKS = (
    Look(1280, "light", None, fits=True),
    Look(1280, "dark"),
    Look(390, "light", fits=True),
    Look(390, "dark", ("color-contrast", "link-in-text-block", "scrollable-region-focusable")),
)


UNNAMED = """[...document.querySelectorAll("table:not(.diff) tbody td")].filter(one =>
    one.dataset.label !== one.closest("table").tHead.rows[0].cells[one.cellIndex].textContent
).map(one => one.outerHTML)"""


def test_every_figure_says_what_it_is_where_rows_are_cards(site: Path, browser: Any) -> None:
    page = browser.new_page()
    for name in sorted(site.glob("*.html")) + sorted(site.glob("agents/*.html")):
        page.goto(name.as_uri())
        assert page.evaluate(UNNAMED) == [], name
    page.close()


# When something is to be seen and the script has run. The page's policy lets nobody poll it: that takes eval.
USABLE = """() => new Promise(done => new PerformanceObserver(list => {
    const [painted] = list.getEntriesByName("first-contentful-paint");
    const [ready] = performance.getEntriesByType("navigation");
    if (painted) done(Math.max(painted.startTime, ready.domContentLoadedEventEnd));
}).observe({type: "paint", buffered: true}))"""


def test_the_overview_can_be_used_within_a_second_on_a_machine_a_quarter_as_fast(
    site: Path, browser: Any
) -> None:
    assert (site / "index.html").stat().st_size <= 60_000
    taken = []
    for _ in range(7):
        visit = browser.new_context()  # nothing is cached
        page = visit.new_page()
        visit.new_cdp_session(page).send("Emulation.setCPUThrottlingRate", {"rate": 4})
        page.goto((site / "index.html").as_uri())
        taken.append(page.evaluate(USABLE))
        visit.close()
    assert median(taken) <= 1000, taken  # ms


def test_the_keyboard_reaches_every_link_and_button_in_their_order(site: Path, browser: Any) -> None:
    page = browser.new_page()
    page.goto((site / "index.html").as_uri())
    wanted = page.evaluate(
        "[...document.querySelectorAll('a[href], button, input, summary, [tabindex]')]"
        ".filter(one => one.checkVisibility()).map(one => one.outerHTML)"
    )
    reached = []
    for _ in wanted:
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.outerHTML"))
    page.close()
    assert reached == wanted


def test_filters_stay_in_the_address_and_it_works_without_script(site: Path, browser: Any) -> None:
    page = browser.new_page()
    page.goto((site / "agents.html").as_uri())
    page.fill("input[name=agent]", "idl")
    page.reload()
    assert page.locator("tbody tr:visible").count() == 1
    assert page.input_value("input[name=agent]") == "idl"
    page.click("th button >> nth=0")
    assert page.get_attribute("th >> nth=0", "aria-sort") == "ascending"
    plain = browser.new_context(java_script_enabled=False).new_page()
    plain.goto((site / "agents.html").as_uri())
    assert plain.locator("tbody tr:visible").count() >= 2
    assert not plain.locator("form.filter").is_visible()
