"""Which failures may be retried or failed over, how soon, and how many retries a budget allows."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strowger_gateway.gateway.config.schema.failover import RetryRule
from strowger_gateway.gateway.routing.resilience.retry import (
    RetryBudget,
    may_fail_over,
    may_retry,
    pause,
)
from strowger_gateway.schemas.errors import (
    InvalidRequest,
    UpstreamBroken,
    UpstreamBusy,
    UpstreamError,
    UpstreamFailed,
    UpstreamRefused,
    UpstreamRejected,
    UpstreamTimeout,
    UpstreamUnreachable,
)

RULE = RetryRule()
FAILURES = (
    UpstreamUnreachable,
    UpstreamTimeout,
    UpstreamBusy,
    UpstreamRefused,
    UpstreamFailed,
    UpstreamBroken,
)


@pytest.mark.parametrize("kind", FAILURES)
def test_a_failure_of_a_backend_fails_over(kind: type[UpstreamError]) -> None:
    assert may_fail_over(kind("x", upstream="a"), RULE)


def test_a_request_that_a_backend_rejects_is_never_tried_again() -> None:
    assert not may_fail_over(UpstreamRejected("x", status=400, upstream="a"), RULE)


def test_a_request_that_one_backend_cannot_express_may_go_to_another() -> None:
    refusal = InvalidRequest("x")

    assert may_fail_over(refusal, RULE)
    assert may_fail_over(refusal, RetryRule(on=()))
    assert not may_retry(refusal, RULE)


def test_a_backend_that_refused_our_key_is_not_retried() -> None:
    assert not may_retry(UpstreamRefused("x", upstream="a"), RULE)
    assert may_retry(UpstreamFailed("x", upstream="a"), RULE)


def test_only_the_kinds_that_the_operator_lists_are_tried_again() -> None:
    rule = RetryRule(on=("connect",))

    assert may_fail_over(UpstreamUnreachable("x", upstream="a"), rule)
    assert not may_fail_over(UpstreamTimeout("x", upstream="a"), rule)


@given(repeats=st.integers(0, 40), draw=st.floats(0, 1), after=st.floats(0, 100) | st.none())
def test_the_pause_has_full_jitter_a_ceiling_and_retry_after_as_its_floor(
    repeats: int, draw: float, after: float | None
) -> None:
    wait = pause(UpstreamBusy("x", upstream="a", retry_after=after), RULE, repeats, draw)

    ceiling = min(RULE.max_backoff_s, RULE.backoff_s * 2**repeats)
    assert (after or 0) <= wait <= max(ceiling, after or 0)


@given(draw=st.floats(0, 1))
def test_without_another_backend_two_pauses_last_as_long_as_those_of_vendors_clients(
    draw: float,
) -> None:
    error, rule = UpstreamFailed("x", upstream="a"), RetryRule()
    both = sum(pause(error, rule, repeats, draw, alone=True) for repeats in range(2))

    assert 1.2 <= round(both, 9) <= 2.4


def test_retries_at_one_provider_are_at_most_ten_or_a_fifth_of_the_first_attempts() -> None:
    quiet, busy = RetryBudget(), RetryBudget()
    for _ in range(200):
        busy.firsts.add(100)

    assert sum(quiet.take(100) for _ in range(100)) == 10
    assert sum(busy.take(100) for _ in range(100)) == 40


def test_a_spent_budget_recovers_after_ten_seconds() -> None:
    budget = RetryBudget()
    for _ in range(10):
        budget.take(100)

    assert not budget.take(105)
    assert budget.take(111)


@given(processes=st.integers(1, 64), floor=st.integers(1, 20), firsts=st.integers(0, 200))
def test_processes_divide_the_floor_of_a_budget_and_each_may_retry_once(
    processes: int, floor: int, firsts: int
) -> None:
    """Alone, each would have the whole floor, and an outage as many times the retries."""
    budgets = [RetryBudget(floor=floor, share=0.2) for _ in range(processes)]
    for budget in budgets:
        budget.processes = processes
    for _ in range(firsts):
        budgets[0].firsts.add(100)

    taken = [sum(budget.take(100) for _ in range(300)) for budget in budgets]

    assert all(count >= 1 for count in taken)
    assert taken[0] == max(math.ceil(floor / processes), math.ceil(0.2 * firsts))
    assert sum(taken[1:]) < floor + processes
