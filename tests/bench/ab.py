"""How often does the paired test err, and what does an A/B night cost? By simulation, against difference of means.

`decide` is the test of `eval/ab/sequential.py` for many simulated nights at once; test_sequential.py holds the
two to the same answers.
"""

from __future__ import annotations

import json
import statistics
import tempfile
from math import log
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eval.ab import sequential as rule
from eval.grading import suite as suites
from telemetry.edge.files import here, working_in
from tests.bench import Row, Used, endpoint, harness, used
from tests.worlds import eval_checkout, world

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[np.float64]]

REPETITIONS = 2000
CASES, TRIALS, ALPHA = 120, 3, 0.05
DIFFICULTY = (1.4, 0.6)  # beta, mean 0.7: many cases nearly always right, some nearly never
MAX_RATIO, MAX_EVAL_RATIO = 1.10, 1.05  # of the wall time of a bare loop
YEARS = 10  # simulated, so that one lucky year proves nothing


def night(
    rng: np.random.Generator,
    delta: float,
    nights: int = REPETITIONS,
    cases: int = CASES,
    trials: int = TRIALS,
    difficulty: tuple[float, float] = DIFFICULTY,
) -> Array:
    """Differences, night by case, of a challenger whose true mean pass rate is `delta` above the champion's."""
    a, b = difficulty
    mean = a / (a + b)
    champion = rng.beta(a, b, (nights, cases))
    # An improvement mends part of what fails, a harm breaks part of what passes: rates stay within 0..1.
    gap, of = (1 - champion, 1 - mean) if delta > 0 else (champion, mean)
    challenger = champion + delta * gap / of
    return (rng.binomial(trials, challenger) - rng.binomial(trials, champion)) / trials


def _wealth(d: Array, w: Array, sign: int, null: float, goal: float, mean_square: Array) -> Array:
    import numpy as np

    cap = 1 / max(0.05, 1 + sign * null)
    gain = sign * w * (d - null)
    nights, cases = d.shape
    parts = [
        log(rule.FIXED_WEIGHT / len(rule.SHARES)) + np.cumsum(np.log1p(share * cap * gain), axis=1)
        for share in rule.SHARES
    ]
    late, wealth = np.zeros((nights, cases)), np.zeros(nights)
    squares = rule.PRIOR_SD**2 * rule.PRIOR_CASES * mean_square
    goal -= log(1 - rule.FIXED_WEIGHT)
    for t in range(cases):
        spread = squares / (rule.PRIOR_CASES + t) * (cases - t)
        share = np.minimum(rule.MAX_SHARE * cap, np.sqrt(2 * np.maximum(0, goal - wealth) / spread))
        wealth = wealth + np.log1p(share * gain[:, t])
        late[:, t] = wealth
        squares = squares + gain[:, t] ** 2
    return np.logaddexp.reduce([*parts, log(1 - rule.FIXED_WEIGHT) + late])


def decide(d: Array, weights: Array | None = None, min_effect: float = 0.01) -> tuple[Array, Array]:
    """(promoted, cases used) for every simulated night."""
    import numpy as np

    nights, cases = d.shape
    w = np.ones_like(d) if weights is None else weights / weights.max(axis=1, keepdims=True)
    mean_square = (w**2).mean(axis=1)
    low_goal, high_goal = -log(ALPHA * rule.LOWER_SHARE), -log(ALPHA * (1 - rule.LOWER_SHARE))
    n = np.arange(1, cases + 1)
    total, left = np.cumsum(w * d, axis=1), np.maximum(cases - n, 1e-9)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = total / np.cumsum(w, axis=1)
    promote = (_wealth(d, w, 1, 0.0, low_goal, mean_square) >= low_goal) & (mean >= min_effect)
    ruled_out = _wealth(d, w, -1, min_effect, high_goal, mean_square) >= high_goal
    prior = rule.PRIOR_SD**2 * rule.PRIOR_CASES * mean_square[:, None]
    spread = np.sqrt((prior + np.cumsum((w * d) ** 2, axis=1)) / (rule.PRIOR_CASES + n))
    needed = (spread * np.sqrt(2 * low_goal * cases) - total) / left
    hopeless = needed > total / n + rule.FUTILITY_Z * spread * np.sqrt(1 / n + 1 / left)
    hopeless[:, : rule.FUTILITY_AFTER - 1] = False
    hopeless[:, -1] = False
    stop = promote | ruled_out | hopeless
    stop[:, : rule.MIN_CASES - 1] = False
    at = np.where(stop.any(axis=1), stop.argmax(axis=1), cases - 1)
    promoted = promote[np.arange(nights), at] & stop.any(axis=1)
    return promoted, at + 1


def naive(d: Array) -> Array:
    """The rule this replaces: promote when the difference of means is at least 0.01."""
    return d.mean(axis=1) >= 0.01


def null_cells(nights: int = REPETITIONS, seed: int = 11) -> dict[str, float]:
    """False promotions with no difference at all, over sizes, trials, pass rates and degenerate shapes."""
    import numpy as np

    rng = np.random.default_rng(seed)
    cells: dict[str, float] = {}
    for cases in (60, 120, 300):
        for trials in (1, 3, 5):
            for rate in (0.05, 0.3, 0.7, 0.98):
                d = night(rng, 0.0, nights, cases, trials, (2 * rate, 2 * (1 - rate)))
                cells[f"{cases} cases, k={trials}, pass rate {rate}"] = decide(d)[0].mean()
    ties = np.zeros((nights, CASES))
    cells["all ties"] = decide(ties)[0].mean()
    flipped = ties.copy()
    flipped[np.arange(nights), rng.integers(0, CASES, nights)] = rng.choice([-1, 1], nights)
    cells["one flipped case"] = decide(flipped)[0].mean()
    # A deterministic model: a third of the cases gains, a third loses, in random order.
    swaps = np.tile(np.repeat([1.0, 0.0, -1.0], CASES // 3), (nights, 1))
    cells["as many gained as lost"] = decide(rng.permuted(swaps, axis=1))[0].mean()
    for name, sizes in {"100 + 10 + 10": (100, 10, 10), "57 + 2 + 1": (57, 2, 1)}.items():
        cells[f"agents of {name} cases"] = decide(*_agents(rng, sizes, (0.0, 0.0, 0.0), nights))[0].mean()
    # No difference overall, although one agent gains what the other two lose, weighted equally.
    mixed = _agents(rng, (80, 30, 10), (0.1, -0.05, -0.05), nights)
    cells["agents that gain and lose"] = decide(*mixed)[0].mean()
    return cells


def _agents(
    rng: np.random.Generator, sizes: tuple[int, ...], deltas: tuple[float, ...], nights: int
) -> tuple[Array, Array]:
    """Differences and weights of agents of unequal suites, every agent counting equally, in random order."""
    import numpy as np

    d = np.concatenate([night(rng, x, nights, n) for n, x in zip(sizes, deltas, strict=True)], axis=1)
    w = np.broadcast_to(np.repeat([1 / n for n in sizes], sizes), d.shape)
    order = rng.permuted(np.broadcast_to(np.arange(d.shape[1]), d.shape), axis=1)
    return np.take_along_axis(d, order, axis=1), np.take_along_axis(w, order, axis=1)


def years(count: int = YEARS, seed: int = 13) -> dict[str, float]:
    """365 nights, one new challenger each: 20 % are +0.10, the useless ones half identical, half worse."""
    import numpy as np

    rng = np.random.default_rng(seed)
    useful, same, worse = 73 * count, 146 * count, 146 * count
    good = night(rng, 0.10, useful)
    useless = np.concatenate([night(rng, 0.0, same), night(rng, -0.05, worse)])
    return {
        "false": decide(useless)[0].sum() / count,
        "false, naive": naive(useless).sum() / count,
        "found": decide(good)[0].mean(),
    }


def figures(nights: int = REPETITIONS, seed: int = 7) -> dict[str, tuple[float, float, float]]:
    """(promoted, promoted by the naive rule, share of cases used) for each true difference."""
    import numpy as np

    rng = np.random.default_rng(seed)
    answer = {}
    for name, delta in (("same", 0.0), ("-0.05", -0.05), ("+0.10", 0.10), ("+0.20", 0.20)):
        d = night(rng, delta, nights)
        promoted, used = decide(d)
        answer[name] = (promoted.mean(), naive(d).mean(), used.mean() / CASES)
    return answer


def main() -> list[Row]:
    """The rows of the table; the reference is the difference-of-means rule in the same nights."""
    rows: list[Row] = []

    def row(what: str, measured: float, reference: str, target: str, ok: bool, note: str = "") -> None:
        rows.append(Row(what, f"{measured:.1%}{note}", reference, "", target, ok))

    limits = {"same": (0, 0.035), "-0.05": (0, 0.005), "+0.10": (0.85, 1), "+0.20": (0.99, 1)}
    use = {"same": 1.0, "-0.05": 1.0, "+0.10": 0.62, "+0.20": 0.26}
    for name, (promoted, by_means, share) in figures().items():
        low, high = limits[name]
        target = f">= {low:.0%}, cases <= {use[name]:.0%}" if low else f"<= {high:.1%}"
        ok = low <= promoted <= high and share <= use[name]
        row(
            f"the paired test alone, true effect {name}: promoted",
            promoted,
            f"{by_means:.1%}",
            target,
            ok,
            f", cases {share:.0%}",
        )
    cells = null_cells()
    worst = max(cells, key=lambda name: cells[name])
    row(
        f"the paired test alone, worst of {len(cells)} null cells ({worst})",
        cells[worst],
        "",
        f"<= {ALPHA:.0%}",
        cells[worst] <= ALPHA,
    )
    return [*rows, *against_the_bare_loop()]


_SDK = """
async def main():
    from openai import AsyncOpenAI
    client, slots = AsyncOpenAI(api_key="none", base_url=sys.argv[1]), asyncio.Semaphore(CONCURRENCY)
    async def call(messages):
        async with slots:
            got = await client.chat.completions.create(
                model="gpt-4.1-mini", messages=messages, temperature=0.2, max_tokens=1800, response_format=FORMAT
            )
            return json.loads(got.choices[0].message.content)
    answers = await asyncio.gather(*map(call, questions(sys.argv[2])))
    assert len(answers) == CALLS and all(answer["items"] for answer in answers)

asyncio.run(main())
"""


def against_the_bare_loop() -> list[Row]:
    """400 cases x 2 arms as an A/B run, and as many graded, beside a bare SDK loop of the calls; start-up included."""
    bare, graded, ours = [], [], []
    with (
        endpoint(*harness.SERVED) as url,
        tempfile.TemporaryDirectory() as plain,
        tempfile.TemporaryDirectory() as night,
    ):
        eval_checkout.make(Path(plain), harness.AGENTS, harness.CASES)
        _checkout(Path(night), harness.CASES)
        for _ in range(harness.ROUNDS):
            bare.append(used("-c", harness._GIVEN + _SDK, url, plain))
            graded.append(used("-m", "eval.harness", "--root", plain, "--quiet", url=url))
            asked = ("-m", "eval.ab_testing", "--root", night, "--quiet", "--force", "--trials", "1")
            ours.append(used(*asked, url=url))
            report = json.loads(Path(night, "meta/reports/ab_test_report.json").read_text())
            assert report["spend"]["calls"] == harness.CALLS, report["spend"]
    what = f"{harness.CALLS} calls, {harness.CONCURRENCY} at a time, {harness.LATENCY_MS} ms away"
    return [
        _beside(f"{what}, as evals", graded, bare, MAX_EVAL_RATIO),
        _beside(f"{what}, as an A/B night: decided, logged, reported", ours, bare, MAX_RATIO),
    ]


def _beside(what: str, ours: list[Used], bare: list[harness.Used], most: float) -> Row:
    ratio = statistics.median(mine.wall_s / other.wall_s for mine, other in zip(ours, bare, strict=True))
    wall, plain = (statistics.median(each.wall_s for each in side) for side in (ours, bare))
    cpu, bare_cpu = (min(each.cpu_s for each in side) for side in (ours, bare))
    return Row(
        what,
        f"{wall:.2f} s, CPU {cpu:.2f} s",
        f"{plain:.2f} s, CPU {bare_cpu:.2f} s: bare AsyncOpenAI",
        f"{ratio:.2f}",
        f"<= {most:.2f}",
        ratio <= most,
    )


def _checkout(root: Path, cases: int) -> None:
    """One agent with that many holdout cases, all of which are needed before anything may be decided."""
    eval_checkout.make(root, ("alpha",), 3 * cases)
    path = Path("eval/suites/alpha.jsonl")
    with working_in(root):
        lines = (root / path).read_text().splitlines(keepends=True)
        unseen = [line for line in lines if suites.split(json.loads(line)["id"]) == "holdout"]
        (root / path).write_text("".join(unseen[:cases]))
        suites.pin(here(), [path])
    world.change(root, ab_test={"min_cases": cases})
    text = (root / "agents/prompts/alpha.md").read_text()
    folder = root / "agents/prompts/variants/alpha"
    folder.mkdir(parents=True)
    (folder / "champion.md").write_text(text)
    (folder / "B.md").write_text(text + "Take your time.\n")
