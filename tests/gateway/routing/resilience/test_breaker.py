"""When the circuit breaker lets a backend be asked, by the clock alone."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.breaker import CumulativeSum, between_openings, opened
from strowger_gateway.gateway.config.schema.failover import BreakerRule
from strowger_gateway.gateway.routing.resilience.breaker_snapshot import BreakerSnapshot
from strowger_gateway.gateway.routing.resilience.breaker_state import (
    LAST_RESORT_EVERY_S,
    MAX_LAST_RESORTS,
)
from strowger_gateway.gateway.routing.resilience.circuit_breaker import JITTER, Breaker

RULE = BreakerRule(failure_rate=0.5, min_requests=4, window_s=10, cooldown_s=15, max_cooldown_s=40)


def opened_breaker(at: float = 100.0) -> Breaker:
    breaker = Breaker(RULE)
    for _ in range(4):
        breaker.fail(at, probe=False)
    return breaker


def requests_end(breaker: Breaker, outcomes: str, at: float = 100.0) -> None:
    """Requests that are not probes end: `.` succeeds, `x` fails."""
    for one in outcomes:
        if one == "x":
            breaker.fail(at, probe=False)
        else:
            breaker.succeed(at, probe=False)


def test_too_few_requests_never_open_it() -> None:
    breaker = Breaker(RULE)
    requests_end(breaker, "xxx")

    assert breaker.state(100) == "closed"
    assert breaker.is_available(100)


def test_min_requests_failures_in_a_row_open_it_after_any_number_of_successes() -> None:
    breaker = Breaker(RULE)
    requests_end(breaker, "." * 50 + "xxx")
    before = breaker.state(100)
    requests_end(breaker, "x")

    assert (before, breaker.state(100)) == ("closed", "open")
    assert not breaker.is_available(114.9)


def test_it_opens_above_the_failure_rate_and_not_at_it() -> None:
    even, more = Breaker(RULE), Breaker(RULE)
    requests_end(even, "x." * 500)
    requests_end(more, "xx." * 3)

    assert (even.state(100), more.state(100)) == ("closed", "open")


@pytest.mark.parametrize(
    ("rate", "outcomes", "state"),
    [
        (0.2, "x...x...x...x", "closed"),
        (0.2, "x..x..x..x..x..x..x", "open"),
        (0.75, "xxx.xxx.xxx.xxx", "closed"),
        (1.0, "xxx." * 50 + "xxx", "closed"),
        (1.0, "xxx.xxxx", "open"),
    ],
)
def test_a_success_subtracts_as_much_evidence_as_the_failure_rate_allows(
    rate: float, outcomes: str, state: str
) -> None:
    breaker = Breaker(BreakerRule(failure_rate=rate, min_requests=4))
    requests_end(breaker, outcomes)

    assert breaker.state(100) == state


def test_a_burst_among_many_requests_is_not_evidence_and_an_outage_is() -> None:
    breaker = Breaker(RULE)
    requests_end(breaker, "." * 3000 + "x" * 60)
    before = breaker.state(100)
    requests_end(breaker, "x" * 10)

    assert (before, breaker.state(100)) == ("closed", "open")


def test_a_backend_that_mostly_serves_stays_closed_for_a_hundred_thousand_requests() -> None:
    breaker, draw = Breaker(BreakerRule()), random.Random(3)
    opened = 0
    for request in range(100_000):
        at = 100 + request / 25
        if draw.random() < 0.81:
            breaker.succeed(at, probe=False)
        else:
            breaker.fail(at, probe=False)
        opened += breaker.open_until is not None

    assert opened == 0


def test_failures_outside_the_window_are_forgotten() -> None:
    breaker = Breaker(RULE)
    for at in (100, 100, 100, 111):
        breaker.fail(at, probe=False)

    assert breaker.state(111) == "closed"


def test_after_the_cooldown_it_lets_exactly_one_probe_through() -> None:
    breaker = opened_breaker()

    assert breaker.is_available(115)
    assert breaker.begin(115)
    assert not breaker.is_available(115)


def test_last_resorts_at_an_open_circuit_are_limited_in_rate_and_number() -> None:
    breaker = opened_breaker()

    at, sent = 100.0, 0
    while (wait := breaker.last_resort_in(at)) < 10:
        at += wait
        assert breaker.begin(at)
        sent += 1

    assert sent == MAX_LAST_RESORTS
    assert at == pytest.approx(100 + LAST_RESORT_EVERY_S * MAX_LAST_RESORTS)


def test_a_last_resort_that_fails_changes_neither_probe_nor_cooldown() -> None:
    breaker = opened_breaker()
    breaker.fail(103, probe=breaker.begin(103))
    before = breaker.available_in(103)
    breaker.fail(115, probe=breaker.begin(115))

    assert (before, breaker.available_in(115)) == (12, 30)


def test_a_last_resort_that_succeeds_closes_it() -> None:
    breaker = opened_breaker()

    breaker.succeed(103, probe=breaker.begin(103))

    assert breaker.state(103) == "closed"


def test_a_long_cooldown_does_not_survive_idle_time() -> None:
    breaker = opened_breaker()
    breaker.fail(115, probe=breaker.begin(115))
    breaker.fail(145, probe=breaker.begin(145))
    doubled = breaker.available_in(145)

    breaker.fail(9000, probe=breaker.begin(9000))

    assert (doubled, breaker.available_in(9000)) == (40, 15)


def test_by_default_a_backend_is_probed_again_after_at_most_ten_seconds() -> None:
    breaker, at, waits = Breaker(BreakerRule()), 100.0, list[float]()
    requests_end(breaker, "x" * BreakerRule().min_requests)
    for _ in range(20):
        waits.append(breaker.available_in(at))
        at += waits[-1]
        breaker.fail(at, probe=breaker.begin(at))

    assert waits[0] == 5
    assert max(waits) == 10


@pytest.mark.parametrize("outage_s", [60, 600, 86_400])
def test_a_backend_is_used_again_within_fifteen_seconds_of_its_recovery(outage_s: int) -> None:
    """One request per 4 s, as in S15 of failoverbench, each with one retry."""
    breaker, draw = Breaker(BreakerRule()), random.Random(5)
    for at in range(1000, 1000 + outage_s, 4):
        for _ in range(2):
            if breaker.is_available(at):
                breaker.fail(at, probe=breaker.begin(at), draw=draw.random())

    recovered = 1000 + outage_s
    used = next(at for at in range(recovered, recovered + 100, 4) if breaker.is_available(at))

    assert breaker.state(recovered - 1) != "closed"
    assert used - recovered <= 15


def test_chance_opens_it_as_often_as_the_benchmarks_random_walk_predicts() -> None:
    rule = BreakerRule(min_requests=4)

    found = opened(CumulativeSum(rule), 1.0, 50_000, seed=1)

    assert between_openings(4, 0.2) == 5 + 25 + 105 + 425
    assert 50_000 / found == pytest.approx(between_openings(4, 0.2), rel=0.3)


def test_the_cooldown_has_jitter_so_that_gateways_do_not_probe_at_the_same_time() -> None:
    breaker = Breaker(RULE)
    requests_end(breaker, "xxx")

    breaker.fail(100, probe=False, draw=0.0)

    assert breaker.available_in(100) == 15 * (1 - JITTER)


def test_a_probe_that_succeeds_closes_and_resets_it() -> None:
    breaker = opened_breaker()
    probe = breaker.begin(115)
    breaker.succeed(115, probe=probe)

    breaker.fail(116, probe=False)

    assert breaker.state(116) == "closed"


def test_a_reset_clears_old_failures_and_the_longer_cooldown() -> None:
    breaker = Breaker(BreakerRule(failure_rate=0.5, min_requests=4, window_s=999, cooldown_s=15))
    for _ in range(4):
        breaker.fail(100, probe=False)
    breaker.fail(115, probe=breaker.begin(115))
    breaker.succeed(145, probe=breaker.begin(145))

    for _ in range(3):
        breaker.fail(146, probe=False)
    before = breaker.state(146)
    breaker.fail(146, probe=False)

    assert (before, breaker.state(146)) == ("closed", "open")
    assert breaker.available_in(146) == 15


def test_a_probe_that_fails_doubles_the_cooldown_up_to_its_maximum() -> None:
    breaker = opened_breaker()

    now, waits = 115.0, list[float]()
    for _ in range(3):
        probe = breaker.begin(now)
        breaker.fail(now, probe=probe)
        waits.append(breaker.available_in(now))
        now += waits[-1]

    assert waits == [30, 40, 40]


def test_a_probe_whose_client_disconnected_frees_its_slot() -> None:
    breaker = opened_breaker()
    probe = breaker.begin(115)

    breaker.ignore_outcome(probe=probe)

    assert breaker.is_available(115)


def test_a_cooldown_is_a_lower_bound_and_a_longer_one_is_never_shortened() -> None:
    breaker = Breaker(RULE)
    breaker.cool_down(100, 20, probe=False)
    breaker.cool_down(101, 1, probe=False)

    assert not breaker.is_available(119.9)
    assert breaker.is_available(120)


@pytest.mark.parametrize("asked", [300.0, 301.0, 86_400.0, 1e20, float("inf")])
def test_no_cooldown_is_longer_than_the_operator_allows(asked: float) -> None:
    breaker = Breaker(BreakerRule())
    breaker.cool_down(100, asked, probe=False)

    assert breaker.available_in(100) == 300


@pytest.mark.parametrize("asked", [0.0, -5.0, float("nan")])
def test_a_retry_after_that_is_not_positive_starts_no_cooldown(asked: float) -> None:
    breaker = Breaker(BreakerRule())
    breaker.cool_down(100, asked, probe=False)

    assert breaker.is_available(100)


def test_cooldowns_do_not_count_as_failures() -> None:
    breaker = Breaker(RULE)
    for _ in range(50):
        breaker.cool_down(100, 0, probe=False)

    assert breaker.state(100) == "closed"


def test_repeated_429s_without_retry_after_deprioritise_it_ever_longer() -> None:
    breaker, now, seconds = Breaker(RULE), 100.0, list[float]()
    for _ in range(8):
        breaker.deprioritise(now, 0.999_999, probe=False)
        seconds.append(round(breaker.deprioritised_for(now)))
        now += breaker.deprioritised_for(now)
    breaker.succeed(now, probe=False)
    breaker.deprioritise(now, 0.0, probe=False)

    assert seconds == [1, 2, 4, 8, 16, 32, 60, 60]
    assert breaker.deprioritised_for(now) == 0.5


def test_429s_of_one_burst_count_once() -> None:
    breaker = Breaker(RULE)
    for later in range(40):
        breaker.deprioritise(100 + later / 100, 0.5, probe=False)

    assert breaker.deprioritised_for(100) == 0.75


def test_a_deprioritised_backend_is_available_but_not_preferred() -> None:
    breaker = Breaker(RULE)
    breaker.deprioritise(100, 0.5, probe=False)

    assert breaker.is_available(100)
    assert not breaker.is_preferred(100.7)
    assert breaker.is_preferred(100.75)


def test_a_probe_that_fails_does_not_shorten_what_another_process_has_decided() -> None:
    breaker = Breaker(RULE)
    for _ in range(RULE.min_requests):
        breaker.fail(100, probe=False)
    at = 100 + RULE.cooldown_s
    assert breaker.begin(at)
    received = BreakerSnapshot(
        at=at, open_until=at + 250, cooldown_s=250, retry_after_until=0.0, last_failure=at
    )

    breaker.merge(received)
    breaker.fail(at + 1, probe=True)

    assert not breaker.is_available(at + 249)


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["ok", "fail", "cool down", "deprioritise", "disconnect"]), st.floats(0, 20)
    ),
    max_size=60,
)


@given(EVENTS)
def test_at_most_one_probe_is_in_flight_and_it_always_recovers(
    events: list[tuple[str, float]],
) -> None:
    breaker, now, probing = Breaker(RULE), 100.0, False
    for what, later in events:
        now += later
        if not breaker.is_available(now):
            continue
        probe = breaker.begin(now)
        assert not (probe and probing)
        match what:
            case "ok":
                breaker.succeed(now, probe=probe)
            case "fail":
                breaker.fail(now, probe=probe)
            case "cool down":
                breaker.cool_down(now, later, probe=probe)
            case "deprioritise":
                breaker.deprioritise(now, 0.5, probe=probe)
            case _:
                breaker.ignore_outcome(probe=probe)

    assert breaker.is_available(now + breaker.available_in(now) + 1e-6)
