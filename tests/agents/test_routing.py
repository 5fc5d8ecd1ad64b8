"""The choice of an agent, and what a log of choices says about another way to choose."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from datetime import timedelta
from statistics import NormalDist

import numpy as np
import orjson
import pytest

from agents.routing import BALANCE, BANDIT, FALLBACK, MATCH, STRATEGIES, choice, policy, value
from agents.routing.decide import Router
from agents.routing.experience import Beliefs, Experience, load_drawn, load_experience
from agents.routing.log import load_log
from agents.routing.task import Requirements, Task
from telemetry.edge.errors import BadInput
from telemetry.edge.files import here
from tests.worlds import eventlog, routed

AGENTS = {"north": ("levels", "maps"), "south": ("levels",), "east": ("notes",)}


def router(seed: int = 1, **options: object) -> Router:
    return Router(AGENTS, Experience(AGENTS), random.Random(seed).random, **options)  # type: ignore[arg-type]


def asks(*capabilities: str) -> Task:
    return Task("t", "flood", requirements=Requirements(capabilities))


def test_the_probability_of_being_the_best_is_that_of_drawing_from_the_beliefs() -> None:
    beliefs = Beliefs(np.array([0.5, 0.45, 0.1]), np.array([0.01, 0.1, 0.3]), np.ones(3))
    chance = np.random.default_rng(0)
    draws = chance.normal(beliefs.mean, beliefs.sd, (200_000, 3)).argmax(axis=1)
    assert choice.thompson(beliefs) == pytest.approx(np.bincount(draws, minlength=3) / 200_000, abs=0.01)


def test_the_normal_distribution_is_that_of_the_standard_library() -> None:
    points = np.linspace(-6, 6, 121)
    assert choice._normal(points) == pytest.approx([NormalDist().cdf(one) for one in points], abs=1e-7)


@pytest.mark.parametrize("vector", [[1.0, 0.0, 0.0], [1 / 3] * 3, [0.001] * 9 + [0.991], [1.0]])
def test_every_candidate_keeps_a_chance_and_all_chances_make_one(vector: list[float]) -> None:
    found = choice.floored(vector)
    assert min(found) >= min(choice.FLOOR, 1 / len(vector))
    assert sum(found) == pytest.approx(1, abs=1e-12)
    assert all(round(one, choice.DIGITS) == one for one in found)


def test_choices_are_drawn_with_the_logged_probabilities() -> None:
    known = router()
    for agent, earned in itertools.product(AGENTS, (0.1, 0.3, 0.5)):
        known.experience.observe(agent, "flood", earned + (agent == "north") * 0.1)
    drawn = [known.decide(Task("t", "flood")) for _ in range(4000)]
    logged = {one.agent_id: one.probability for one in drawn[0].candidate_agents}
    counts = Counter(one.selected_agent_id for one in drawn)
    for agent, probability in logged.items():
        assert abs(counts[agent] / 4000 - probability) < 4 * (probability * (1 - probability) / 4000) ** 0.5
    assert all(one.propensity == logged[one.selected_agent_id] for one in drawn)


def test_only_those_who_can_do_it_are_candidates() -> None:
    decision = router().decide(asks("levels"))
    assert {one.agent_id for one in decision.candidate_agents} == {"north", "south"}
    assert {one.agent_id for one in router().decide(asks("levels", "maps")).candidate_agents} == {"north"}


def test_who_covers_most_is_taken_where_nobody_covers_all() -> None:
    decision = router().decide(asks("levels", "maps", "tides"), MATCH)
    assert decision.selected_agent_id == "north"
    assert decision.candidate_agents[0].capability_score == pytest.approx(2 / 3)
    assert "covers 67% of what is required" in decision.secondary_factors


def test_a_task_that_nobody_can_do_is_bad_input() -> None:
    with pytest.raises(BadInput, match="no agent is left that can do cooking"):
        router().decide(asks("cooking"))


def test_load_balance_takes_who_has_least_to_do() -> None:
    known = router()
    known.under_way.update(north=2)
    assert known.decide(asks("levels"), BALANCE).selected_agent_id == "south"


def test_fallback_and_match_prefer_who_earned_more() -> None:
    known = router()
    known.experience.observe("south", "flood", 0.9)
    known.experience.observe("north", "flood", 0.1)
    for strategy in (FALLBACK, MATCH):
        assert known.decide(asks("levels"), strategy).selected_agent_id == "south"
    assert known.decide(asks("levels"), FALLBACK, without=["south"]).selected_agent_id == "north"


def test_ucb_leads_with_the_highest_upper_bound_and_still_explores() -> None:
    known = router(optimistic=True)
    for _ in range(20):
        for agent, earned in (("north", 0.9), ("south", 0.1), ("east", 0.1)):
            known.experience.observe(agent, "flood", earned)
    decision = known.decide(Task("t", "flood"))
    shares = {one.agent_id: one.probability for one in decision.candidate_agents}
    assert shares == {"north": 0.96, "south": 0.02, "east": 0.02}
    assert decision.policy_version == "ucb-1"


def test_of_a_thousand_agents_ten_are_candidates_among_them_the_best() -> None:
    names = [f"agent_{number:03}" for number in range(1000)]
    known = Router(dict.fromkeys(names, ("levels",)), Experience(names), random.Random(0).random)
    for number, name in enumerate(names):
        for _ in range(5):
            known.experience.observe(name, "flood", 0.9 if number == 712 else 0.3)
    decision = known.decide(asks("levels"))
    assert len(decision.candidate_agents) == choice.MOST
    assert "agent_712" in {one.agent_id for one in decision.candidate_agents}
    assert "990 more could do it" in decision.secondary_factors


def test_what_an_agent_earned_elsewhere_is_only_a_prior() -> None:
    experience = Experience(["north", "south"])
    for _ in range(30):
        experience.observe("north", "drought", 0.8)
        experience.observe("south", "drought", 0.2)
    new = experience.beliefs("flood", ["north", "south"])
    assert new.mean[0] > new.mean[1] + 0.3
    assert new.sd[0] > experience.beliefs("drought", ["north", "south"]).sd[0]
    for _ in range(30):
        experience.observe("north", "flood", 0.1)
    assert experience.beliefs("flood", ["north", "south"]).mean[0] < 0.2


@pytest.mark.parametrize("ucb", [False, True])
def test_the_bandit_loses_much_less_than_choosing_blindly(ucb: bool) -> None:
    world = routed.World({"flood": {f"a{number}": 0.2 + 0.06 * number for number in range(10)}})
    assert routed.regret(world, routed.played(world, 600, seed=3, ucb=ucb)) < 0.45


RECENT = eventlog.datetime.now(eventlog.UTC) - timedelta(days=2)


def run(**fields: object) -> bytes:
    ts = RECENT.strftime("%Y-%m-%dT%H:%M:%S.000Z")
    return orjson.dumps(eventlog.event(ts=ts, task_type="flood", **fields))


def test_experience_counts_own_failures_as_nothing_earned_and_foreign_ones_not_at_all() -> None:
    eventlog.write(
        run(event_id="1", agent="north", reward=0.4),
        run(event_id="2", agent="north", reward=None, error="x", error_kind="agent"),
        run(event_id="3", agent="north", reward=None, error="x", error_kind="timeout"),
        run(event_id="4", agent="north", reward=9.0, source="eval"),
        run(event_id="5", agent="north", reward=None),
    )
    known = load_experience(here(), ["north"])
    assert known._sums[:, 0, 0].tolist() == pytest.approx([2, 0.4, 0.16])


def test_rewards_of_an_older_scoring_version_do_not_count() -> None:
    old = {"scoring_version": "0.9", "reward": 5.0}
    eventlog.write(
        run(event_id="1", agent="north", **old) + b"\n" + run(event_id="2", agent="north", reward=0.4)
    )
    later = orjson.loads(run(event_id="3", agent="north", reward=0.6))
    eventlog.write(
        run(event_id="1", agent="north", **old),
        orjson.dumps(later | {"ts": later["ts"].replace(".000Z", ".500Z")}),
    )
    assert load_experience(here(), ["north"])._sums[:, 0, 0].tolist() == pytest.approx([1, 0.6, 0.36])


def test_experience_of_models_comes_from_what_was_drawn_whatever_the_endpoint_calls_them() -> None:
    choice_row = run(
        event_id="1", kind="routing", agent="north", run_id="r", selected_agent_id="north@strong"
    )
    eventlog.write(
        choice_row, run(event_id="2", agent="north", run_id="r", reward=0.7, model="strong-2026-08-01")
    )
    known = load_drawn(here(), ["north@cheap", "north@strong"])
    assert known.beliefs("flood", ["north@cheap", "north@strong"]).runs.tolist() == [0, 1]


def written(done: list[tuple[Task, object, float]], **fields: object) -> None:
    eventlog.write(*(orjson.dumps(row) for row in routed.as_rows(done, **fields)))  # type: ignore[arg-type]


def test_a_log_read_from_disk_is_the_log_that_was_played() -> None:
    done = routed.played(routed.some_world(1), 60, seed=1)
    written(done)
    read, kept = load_log(here()), routed.as_log(done)
    assert (read.arms, read.types) == (kept.arms, kept.types)
    for name in ("type_of", "candidates", "probability", "chosen", "reward"):
        assert np.array_equal(getattr(read, name), getattr(kept, name)), name


def test_choices_without_a_reward_or_without_a_draw_are_counted_and_left_out() -> None:
    done = routed.played(routed.some_world(1), 40, seed=1)
    rows = routed.as_rows([(task, routed.sure(one, MATCH), earned) for task, one, earned in done[:10]])
    rows += [row | {"run_id": "x" + row["run_id"]} for row in routed.as_rows(done[10:], reward=None)]
    for number, row in enumerate(rows):
        row["event_id"] = f"n{number}"
    eventlog.write(*map(orjson.dumps, rows))
    log = load_log(here())
    assert (len(log.reward), log.unknown, log.certain) == (0, 30, 10)


FIXED = policy.Policy("fixed", {"agent_0": 1.0}, {"type_1": {"agent_1": 1.0}})


def truth(world: routed.World, target: policy.Policy) -> float:
    shares = {one: choice.floored(target.shares(one, world.agents)) for one in world.worth}
    return float(np.mean([np.dot(shares[one], list(world.worth[one].values())) for one in world.worth]))


def test_estimates_stand_around_what_the_policy_really_earns() -> None:
    world = routed.World(
        {"type_0": {"agent_0": 0.6, "agent_1": 0.3}, "type_1": {"agent_0": 0.35, "agent_1": 0.65}}
    )
    found = value.evaluate(FIXED, routed.as_log(routed.played(world, 1500, seed=5)))
    real = truth(world, FIXED)
    assert found.doubly_robust.low <= real <= found.doubly_robust.high
    for one in (found.ips, found.snips, found.doubly_robust.value):
        assert one == pytest.approx(real, abs=0.05)


def test_with_equal_chances_and_the_same_policy_every_estimate_is_the_mean() -> None:
    done = routed.played(routed.some_world(2, types=1, agents=2), 400, seed=2)
    log = routed.as_log(done)
    log.probability[:] = 0.5
    found = value.evaluate(policy.Policy("even", {"agent_0": 1.0, "agent_1": 1.0}), log)
    assert found.ips == found.snips == pytest.approx(log.reward.mean())
    assert found.effective_sample == pytest.approx(400)


def test_a_policy_that_does_what_had_no_chance_gets_no_number() -> None:
    log = routed.as_log(routed.played(routed.some_world(1), 300, seed=1))
    log.probability[log.candidates == log.arms.index("agent_0")] = 0.0
    with pytest.raises(value.NoOverlap, match="no chance in"):
        value.evaluate(FIXED, log)


def test_an_effective_sample_below_a_hundred_gets_no_number() -> None:
    log = routed.as_log(routed.played(routed.some_world(1), 120, seed=1))
    with pytest.raises(value.NoOverlap, match="effective sample"):
        value.evaluate(FIXED, log)


def test_the_outcome_model_of_a_row_knows_no_row_of_its_own_time() -> None:
    log = routed.as_log(routed.played(routed.some_world(1), 200, seed=1))
    before = value._predictions(log)
    log.reward[100:] += 10
    after = value._predictions(log)
    assert np.array_equal(before[:120], after[:120])
    assert not np.array_equal(before[120:], after[120:])


def test_a_policy_learned_on_one_half_beats_the_log_on_the_other() -> None:
    worth = {
        f"type_{one}": {f"agent_{two}": 0.7 if one == two else 0.4 for two in range(3)} for one in range(3)
    }
    log = routed.as_log(routed.played(routed.World(worth), 900, seed=4))
    log.probability[:] = 1 / 3  # a log that never learned
    chance = np.random.default_rng(4)
    log.chosen[:] = chance.integers(0, 3, 900)
    rows = zip(log.type_of, log.chosen, strict=True)
    log.reward[:] = [worth[log.types[kind]][log.arms[arm]] for kind, arm in rows] + chance.normal(0, 0.3, 900)
    fitted = policy.learned(log.half(first=True))
    assert fitted.by_task_type == {f"type_{one}": {f"agent_{one}": 1.0} for one in range(3)}
    assert value.evaluate(fitted, log.half(first=False)).gain.low > 0


def test_every_strategy_has_a_name_and_a_version() -> None:
    assert STRATEGIES[0] == BANDIT
    for strategy in STRATEGIES:
        decision = router().decide(asks("levels"), strategy)
        assert decision.routing_strategy == strategy
        assert decision.policy_version
        assert 0 < decision.propensity <= 1
