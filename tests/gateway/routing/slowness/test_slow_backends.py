"""A backend whose first token takes several times as long as it did comes after its siblings."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from strowger_gateway.gateway.coordination.shared_circuits import bounded
from strowger_gateway.gateway.routing.planning.candidate import Candidate
from strowger_gateway.gateway.routing.resilience.breaker_snapshot import later
from strowger_gateway.gateway.routing.resilience.circuit_breaker import Breaker
from strowger_gateway.gateway.routing.slowness.pace import NEEDED, Pace
from strowger_gateway.gateway.routing.slowness.siblings import Siblings, slow_last
from tests.gateway.routing.backends import backend
from tests.gateway.routing.slowness.model_on_a_clock import (
    CLOCK_S,
    RULE,
    Script,
    World,
    slow_between,
    steady,
)

SLOW, FAST = 30.0, 70.0
"""When a backend becomes slow, and when it has recovered, in seconds."""

MOVED = SLOW + 15 * 0.2
"""Fifteen requests later."""

BACK = FAST + 20.0
POLICIES = ("weighted", "in_order", "least_busy")


@pytest.mark.parametrize("keys", [("k1",), ("k1", "k2")], ids=["one key", "two keys"])
@pytest.mark.parametrize("policy", POLICIES)
def test_a_first_token_of_twenty_times_the_normal_moves_the_traffic_within_fifteen_requests(
    policy: str, keys: tuple[str, ...]
) -> None:
    world = World({"a": slow_between(SLOW, FAST), "b": steady(0.15)}, policy)

    world.run(120, keys=keys)

    before = world.share("a", 10, SLOW)
    assert before >= 0.4
    assert 0 < world.share("a", MOVED, FAST) <= 0.1, "a small share shows when it has recovered"
    assert world.share("a", BACK, 120) >= 0.9 * before


@pytest.mark.parametrize("policy", POLICIES)
def test_a_backend_that_hangs_before_its_first_token_is_left_before_it_answers(policy: str) -> None:
    world = World({"a": slow_between(SLOW, FAST, slow=50.0), "b": steady(0.15)}, policy)

    world.run(FAST)

    assert world.share("a", MOVED, FAST) <= 0.1


@pytest.mark.parametrize("policy", POLICIES)
def test_siblings_that_become_equally_slow_keep_their_order(policy: str) -> None:
    both = slow_between(SLOW, 1e9)
    world = World({"a": both, "b": both}, policy)

    world.run(FAST)

    before = world.share("a", 10, SLOW)
    assert world.share("a", SLOW + 15, FAST) >= 0.75 * before


def test_long_prompts_of_one_key_move_nothing() -> None:
    def seconds(at: float, key: str) -> float:
        return 4.0 if key == "long" and at >= SLOW else 0.1

    sizes = {"long": 5000}
    world = World({"a": Script(seconds=seconds), "b": Script(seconds=seconds)})

    world.run(FAST, keys=("k1", "k2", "long"), prompt=lambda key: key * sizes.get(key, 1))

    assert world.share("a", SLOW, FAST) == 1.0


def test_slow_answers_of_one_key_of_several_move_nothing_even_for_prompts_of_equal_length() -> None:
    def seconds(at: float, key: str) -> float:
        return 4.0 if key == "odd" and at >= SLOW else 0.1

    world = World({"a": Script(seconds=seconds), "b": steady(0.1)})

    world.run(FAST, keys=("k1", "odd", "odd", "odd"))

    assert world.share("a", SLOW, FAST) == 1.0


def test_attempts_that_waited_in_a_queue_of_the_gateway_are_no_evidence() -> None:
    def queued(at: float, key: str) -> float:
        return 2.0 if at >= SLOW else 0.1

    world = World({"a": Script(seconds=queued, waits_s=1.9), "b": steady(0.1)})

    world.run(FAST)

    assert world.share("a", SLOW, FAST) == 1.0


def test_what_was_in_flight_while_the_process_stood_still_is_no_evidence() -> None:
    world = World({"a": steady(0.1), "b": steady(0.1)})
    world.run(20)
    for _ in range(10):
        world.send("k1")
        world.send("k2")
        world.stand(3.0)
        world.run(world.now - CLOCK_S + 1.0)

    assert world.share("a", 0, 1e9) == 1.0


def test_a_slow_backend_stays_before_the_models_of_fallback() -> None:
    scripts = {"a": slow_between(SLOW, 1e9), "b": steady(0.1), "other": steady(0.1)}
    world = World(scripts, fallback=["other"])

    world.run(SLOW + 10)

    assert world.order() == ["b", "a", "other"]


def test_a_model_with_one_backend_and_a_fallback_keeps_its_order() -> None:
    world = World({"a": slow_between(SLOW, 1e9), "other": steady(0.1)}, fallback=["other"])

    world.run(FAST)

    assert world.share("a", SLOW, FAST) == 1.0


def test_a_backend_without_a_weight_gets_no_requests_because_another_is_slow() -> None:
    scripts = {"a": slow_between(SLOW, 1e9), "b": steady(0.1)}
    world = World(scripts, "weighted", weights={"a": 1.0, "b": 0.0})

    world.run(FAST)

    assert world.share("a", SLOW, FAST) == 1.0


def test_of_three_backends_the_two_that_are_not_slow_share_the_requests() -> None:
    scripts = {"a": slow_between(SLOW, 1e9), "b": steady(0.1), "c": steady(0.12)}
    world = World(scripts, "weighted")

    world.run(FAST)

    assert world.share("a", MOVED, FAST) <= 0.1
    assert world.share("b", MOVED, FAST) >= 0.3
    assert world.share("c", MOVED, FAST) >= 0.3


def test_a_few_milliseconds_more_are_no_fault() -> None:
    scripts = {"a": slow_between(SLOW, 1e9, normal=0.01, slow=0.1), "b": steady(0.01)}
    world = World(scripts)

    world.run(FAST)

    assert world.share("a", SLOW, FAST) == 1.0


def test_a_worker_leaves_a_backend_that_another_worker_has_found_slow_and_returns_with_it() -> None:
    scripts = {"a": slow_between(SLOW, FAST), "b": steady(0.15)}
    one, other = World(scripts), World(scripts)
    one.run(MOVED)
    other.now = one.now

    other.backends["a"].breaker.merge(one.backends["a"].breaker.snapshot())
    slow = other.order()
    one.run(BACK)
    other.now = one.now
    other.backends["a"].breaker.merge(one.backends["a"].breaker.snapshot())

    assert (slow[0], other.order()[0]) == ("b", "a")


def test_a_slow_backend_without_traffic_is_tried_again_after_a_minute() -> None:
    world = World({"a": slow_between(SLOW, 1e9), "b": steady(0.15)})
    world.run(SLOW + 10)

    world.stand(61.0)

    assert world.order()[0] == "a"


@given(
    st.lists(st.tuples(st.floats(0.001, 60.0), st.booleans()), min_size=1, max_size=60),
)
@settings(deadline=None)
def test_one_key_of_two_never_accuses_alone(times: list[tuple[float, bool]]) -> None:
    """Whatever the second key is answered in, if that is not slow itself."""
    pace, at = Pace(), 0.0
    for _ in range(10):
        pace.add("work", 0.1, "honest", at, counted=False)
        pace.add("work", 0.1, "other", at, counted=False)
        at += 0.1
    for seconds, honest in times:
        at += 0.5
        if honest:
            pace.add("work", 0.1, "honest", at, counted=False)
        else:
            pace.add("work", seconds, "other", at, counted=False)
        assert not pace.accused(at)


def test_one_key_alone_accuses_when_no_other_has_been_there_for_a_minute() -> None:
    pace = Pace()
    for at in range(10):
        pace.add("work", 0.1, "k1", at, counted=False)
        pace.add("work", 0.1, "k2", at, counted=False)

    for place in range(NEEDED):
        pace.add("work", 3.0, "k1", 100.0 + place, counted=False)

    assert pace.accused(103.0)


@given(
    st.lists(st.tuples(st.sampled_from("xyz"), st.booleans(), st.booleans()), max_size=9),
)
def test_only_siblings_change_places_and_the_others_keep_theirs(
    backends: list[tuple[str, bool, bool]],
) -> None:
    """One of three models each, slow or not, with every field or not."""
    groups = {name: Siblings(name) for name in "xyz"}
    found: list[Candidate] = []
    for place, (model, slow, complete) in enumerate(backends):
        one = replace(backend(f"{place}"), siblings=groups[model], breaker=Breaker(RULE))
        if slow:
            one.breaker.pace.probed_at = CLOCK_S
            one.breaker.set_slow(CLOCK_S, CLOCK_S + 60)
        found.append(
            Candidate(
                backend=one,
                breaker=one.breaker,
                name=one.name,
                model=model,
                weight=1.0,
                dropped=() if complete else ("top_k",),
            )
        )

    ordered = slow_last(found, CLOCK_S + 1)

    def kind(one: Candidate) -> tuple[str, bool]:
        return one.model, one.complete

    assert sorted(one.name for one in ordered) == sorted(one.name for one in found)
    assert [kind(one) for one in ordered] == [kind(one) for one in found]
    for of in {kind(one) for one in found}:
        slow = [one.breaker.pace.is_marked(CLOCK_S + 1) for one in ordered if kind(one) == of]
        assert slow == sorted(slow)


def test_the_later_of_two_processes_decides_and_no_other_gateway_does() -> None:
    slow, fast = Breaker(RULE), Breaker(RULE)
    slow.set_slow(CLOCK_S, CLOCK_S + 60)
    fast.set_slow(CLOCK_S + 1, float("-inf"))

    merged = later(slow.snapshot(), fast.snapshot())
    elsewhere = bounded(slow.snapshot(), RULE, CLOCK_S)

    assert merged.slow_until < CLOCK_S
    assert later(fast.snapshot(), slow.snapshot()) == merged
    assert (elsewhere.slow_at, elsewhere.slow_until) == (float("-inf"), float("-inf"))


def test_a_restarted_engine_is_not_slow_any_more() -> None:
    breaker = Breaker(RULE)
    breaker.set_slow(CLOCK_S, CLOCK_S + 60)

    breaker.reset(CLOCK_S + 1)

    assert not breaker.pace.is_marked(CLOCK_S + 1)
