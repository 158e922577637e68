"""For how long a backend gets no requests because its vendor refuses the account, by the clock."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strowger_gateway.gateway.config.schema.failover import BreakerRule
from strowger_gateway.gateway.coordination.shared_circuits import SharedCircuits, bounded
from strowger_gateway.gateway.routing.resilience.breaker_snapshot import later
from strowger_gateway.gateway.routing.resilience.breaker_state import (
    LAST_RESORT_EVERY_S,
    MAX_LAST_RESORTS,
)
from strowger_gateway.gateway.routing.resilience.circuit_breaker import Breaker

RULE = BreakerRule()


def refuse(
    breaker: Breaker,
    at: float,
    request: str = "r",
    *,
    certain: bool = True,
    retry_after: float | None = None,
) -> bool:
    """One request meets a refusal."""
    probe = breaker.begin(at)
    return breaker.refuse(at, request, certain=certain, retry_after=retry_after, probe=probe)


def refused(at: float = 100.0) -> Breaker:
    breaker = Breaker(RULE)
    refuse(breaker, at)
    return breaker


def test_one_refusal_sets_a_backend_aside_for_a_minute() -> None:
    breaker = refused()

    assert (breaker.available_in(100), breaker.refused_for(100)) == (60, 60)
    assert not breaker.is_available(159.9)
    assert breaker.is_available(160)
    assert breaker.impaired_until == 160


def test_each_further_refusal_doubles_the_time_up_to_the_maximum() -> None:
    breaker, now, waits = Breaker(RULE), 100.0, list[float]()
    for request in "abcde":
        refuse(breaker, now, request)
        waits.append(breaker.available_in(now))
        now += waits[-1]

    assert waits == [60, 120, 240, 300, 300]


@pytest.mark.parametrize(
    ("asked", "waits"), [(None, 60), (7, 60), (200, 200), (86_400, 300), (math.inf, 300)]
)
def test_retry_after_is_a_lower_bound_within_what_the_operator_honours(
    asked: float | None, waits: float
) -> None:
    breaker = Breaker(RULE)
    refuse(breaker, 100, retry_after=asked)

    assert breaker.available_in(100) == waits


def test_an_operator_who_honours_no_retry_after_has_no_backend_set_aside() -> None:
    breaker = Breaker(BreakerRule(max_retry_after_s=0))
    refuse(breaker, 100)

    assert breaker.is_available(100)


def test_refusals_of_requests_in_flight_at_the_same_time_prolong_nothing() -> None:
    breaker = Breaker(RULE)
    first = [refuse(breaker, 100, str(request)) for request in range(20)]

    assert breaker.refused_for(100) == 60
    assert first == [True] + [False] * 19


def test_three_refusals_of_two_requests_open_the_circuit_and_those_of_one_do_not() -> None:
    one, two = Breaker(RULE), Breaker(RULE)
    for _ in range(5):
        refuse(one, 100, "same")
    refuse(two, 100, "a")
    refuse(two, 100, "b")
    before = two.open_until
    refuse(two, 100, "b")

    assert one.open_until is None
    assert before is None
    assert two.open_until is not None
    assert two.state(160) == "half_open"


def test_an_open_circuit_lets_one_probe_through_when_the_time_is_over() -> None:
    breaker = Breaker(RULE)
    for request in "abc":
        refuse(breaker, 100, request)

    assert breaker.state(159) == "open"
    probe = breaker.begin(160)
    others = breaker.is_available(160)
    breaker.succeed(161, probe=probe)

    assert (probe, others) == (True, False)
    assert breaker.state(161) == "closed"
    assert breaker.refusals.count == 0


def test_a_probe_that_is_refused_sets_it_aside_for_twice_as_long() -> None:
    breaker = Breaker(RULE)
    for request in "abc":
        refuse(breaker, 100, request)
    refuse(breaker, 160, "d")

    assert breaker.available_in(160) == 120


def test_an_answer_to_a_last_resort_ends_it_at_once() -> None:
    breaker = refused()
    probe = breaker.begin(101)
    breaker.on_probe_content(101)

    assert probe
    assert breaker.is_available(101)


def test_last_resorts_at_a_backend_that_refuses_are_limited_in_rate_and_number() -> None:
    breaker, at, sent = refused(), 100.0, 0
    while (wait := breaker.last_resort_in(at)) < 10:
        at += wait
        assert breaker.begin(at)
        sent += 1

    assert sent == MAX_LAST_RESORTS
    assert at == pytest.approx(100 + LAST_RESORT_EVERY_S * MAX_LAST_RESORTS)


def test_an_answer_between_two_refusals_starts_over() -> None:
    breaker = refused()
    breaker.succeed(161, probe=False)
    refuse(breaker, 162, "b")
    refuse(breaker, 230, "c")

    assert breaker.refused_for(230) == 120
    assert breaker.open_until is None


def test_a_refusal_that_a_request_may_have_caused_has_no_effect_while_others_are_answered() -> None:
    breaker = Breaker(RULE)
    for at in range(100, 120):
        breaker.succeed(at, probe=False)
        refuse(breaker, at, str(at), certain=False)
    served = breaker.is_available(120)
    refuse(breaker, 120, "again", certain=False)

    assert served
    assert not breaker.is_available(120)


def test_a_missing_model_sets_a_backend_aside_that_answers_nobody() -> None:
    breaker = Breaker(RULE)
    breaker.succeed(10, probe=False)
    refuse(breaker, 100, certain=False)

    assert breaker.refused_for(100) == 60


def test_a_rate_limit_is_not_the_only_problem_of_a_backend_that_refuses() -> None:
    breaker = refused()
    breaker.cool_down(100, 200, probe=False)

    assert not breaker.only_rate_limited(101)
    assert breaker.only_rate_limited(161)


def test_processes_of_a_gateway_share_refusals_and_their_end() -> None:
    one, other = refused(), Breaker(RULE)
    other.merge(one.snapshot())
    shared = other.refused_for(100)
    probe = other.begin(110)
    other.succeed(110, probe=probe)
    one.merge(other.snapshot())

    assert shared == 60
    assert one.is_available(110)
    assert later(refused().snapshot(), other.snapshot()).refused_until == -math.inf


def test_another_gateways_refusals_set_nothing_aside_here() -> None:
    here, circuits = Breaker(RULE), SharedCircuits()
    told = bounded(refused().snapshot(), RULE, 100.0)
    here.merge(circuits.adopt("k", told, [told]))

    assert here.is_available(100)


def test_another_gateways_news_do_not_end_what_was_refused_here() -> None:
    here, circuits = refused(), SharedCircuits()
    there = Breaker(RULE)
    for _ in range(RULE.min_requests):
        there.fail(100, probe=False)
    there.succeed(105, probe=there.begin(105))
    here.merge(circuits.adopt("k", bounded(there.snapshot(), RULE, 106.0), []))

    assert here.refused_for(106) == 54


@given(
    st.lists(
        st.tuples(
            st.floats(0, 100),
            st.sampled_from(["refused", "model", "ok", "failed", "429"]),
            st.sampled_from("abc"),
            st.none() | st.floats(0, 1e6),
            st.floats(0, 1, exclude_max=True),
        ),
        max_size=40,
    )
)
def test_whatever_happens_it_is_asked_again_within_five_minutes(
    steps: list[tuple[float, str, str, float | None, float]],
) -> None:
    breaker, now = Breaker(RULE), 1000.0
    for wait, what, request, retry_after, draw in steps:
        now += wait
        probe = breaker.begin(now)
        match what:
            case "ok":
                breaker.succeed(now, probe=probe)
            case "failed":
                breaker.fail(now, probe=probe, draw=draw)
            case "429":
                breaker.cool_down(now, retry_after or 0.0, probe=probe)
            case _:
                breaker.refuse(
                    now,
                    request,
                    certain=what == "refused",
                    retry_after=retry_after,
                    probe=probe,
                    draw=draw,
                )
        assert breaker.available_in(now) <= RULE.max_retry_after_s + 1e-6  # floats are rounded
        assert breaker.refused_for(now) <= breaker.available_in(now)
        assert breaker.is_available(now) == (breaker.available_in(now) == 0)
        assert breaker.is_available(now) or now < breaker.impaired_until
        assert not breaker.probing
