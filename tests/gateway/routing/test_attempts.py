"""Whom a request asks after what has become of its plan's backends meanwhile."""

import asyncio
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from gateway.clock import now
from gateway.config.schema_failover import Retry
from gateway.routing.execution.attempt import Attempt, start_attempt
from gateway.routing.execution.attempt_sequence import (
    AttemptSequence,
    PrimaryAttempt,
    first_attempt,
)
from gateway.routing.planning.candidate import Candidate
from gateway.routing.planning.last_resort import MAX_WAITING
from gateway.routing.planning.plan import Plan
from gateway.routing.planning.route import Backend, Hedging
from gateway.routing.request_record import RequestRecord
from gateway.routing.resilience.circuit_breaker import LAST_RESORT_EVERY_S, MAX_LAST_RESORTS
from gateway.routing.resilience.retry import RetryBudget
from schemas.errors import (
    DeadlineExceeded,
    InvalidRequest,
    Unavailable,
    UpstreamBroken,
    UpstreamBusy,
    UpstreamRejected,
    UpstreamTimeout,
)
from schemas.requests import CompletionRequest
from tests.gateway.routing.test_plan import backend

pytestmark = pytest.mark.anyio


HI = CompletionRequest(model="m", prompts=("hi",))


def a_plan(*backends: Backend, dropped: dict[str, tuple[str, ...]] | None = None) -> Plan:
    """In this order, with a hedge. dropped: what a backend cannot honour, by its name."""
    lacking = dropped or {}
    return Plan(
        route="m",
        names=tuple(one.name for one in backends),
        candidates=tuple(
            Candidate(
                backend=one,
                breaker=one.breaker,
                name=one.name,
                model="m",
                weight=1.0,
                dropped=lacking.get(one.name, ()),
            )
            for one in backends
        ),
        retry=Retry(),
        deadline_s=10.0,
        operator_deadline_s=10.0,
        hedging=Hedging(after_s=1.0, budget=RetryBudget()),
    )


def record(started: float) -> RequestRecord:
    return RequestRecord(request_id="r", started=started, attempts=[])


def broken(one: Backend) -> Backend:
    """Its breaker has opened."""
    for _ in range(one.breaker.rule.min_requests):
        one.breaker.fail(now(), probe=False)
    assert not one.breaker.is_available(now())
    return one


def probed(one: Backend) -> Backend:
    """It is due for a probe, which another request is."""
    assert due(one).breaker.begin(now())
    return one


def due(one: Backend) -> Backend:
    """Its breaker is half open."""
    for _ in range(one.breaker.rule.min_requests):
        one.breaker.fail(now() - 1000, probe=False)
    assert one.breaker.state(now()) == "half_open"
    return one


def ended_by(error: BaseException) -> Callable[[Attempt], None]:
    return lambda one: one.fail(error, now())


def hurried(one: Attempt) -> None:
    """Cut by the deadline of a client that was in a hurry."""
    one.fail(UpstreamTimeout("late", upstream="a"), one.call.deadline)


WITHOUT_BLAME: dict[str, Callable[[Attempt], None]] = {
    "the client left": ended_by(asyncio.CancelledError()),
    "the request was wrong": ended_by(UpstreamRejected("no", status=400, upstream="a")),
    "it has no words": ended_by(InvalidRequest("no words")),
    "another was faster": Attempt.lose_race,
    "no time was left": hurried,
    "it was busy": ended_by(UpstreamBusy("later", upstream="a")),
    "it rests": ended_by(UpstreamBusy("later", upstream="a", retry_after=0.0)),
}
ENDS: dict[str, Callable[[Attempt], None]] = {
    **WITHOUT_BLAME,
    "answered": lambda one: one.succeed(now()),
    "failed": ended_by(UpstreamBroken("cut", upstream="a")),
}


class Lent:
    """The right to probe, which is to be given back."""

    held = False

    def available(self) -> bool:
        return not self.held

    def acquire(self) -> bool:
        taken, self.held = not self.held, True
        return taken

    def release(self) -> None:
        self.held = False


async def first_turn(plan: Plan, asking: RequestRecord) -> PrimaryAttempt:
    return (
        first_attempt(plan, HI, asking, "") or await AttemptSequence(plan, HI, asking, "").first()
    )


async def begun(plan: Plan) -> Attempt:
    """The first try at its first backend, 9 of its 10 seconds too late."""
    return await first_turn(plan, record(now() - 9))


@pytest.mark.parametrize("end", ENDS)
async def test_a_probe_makes_room_for_the_next_however_it_ends(end: str) -> None:
    plan = a_plan(due(backend("a")))
    breaker = plan.candidates[0].backend.breaker
    breaker.lease = lease = Lent()

    one = await begun(plan)
    assert breaker.probing
    assert lease.held
    ENDS[end](one)

    assert not breaker.probing
    assert not lease.held
    assert plan.candidates[0].backend.load.in_flight == 0


@pytest.mark.parametrize("end", WITHOUT_BLAME)
async def test_what_is_not_a_backends_fault_never_opens_its_breaker(end: str) -> None:
    plan = a_plan(backend("a"))

    for _ in range(20):
        WITHOUT_BLAME[end](await begun(plan))

    assert plan.candidates[0].backend.breaker.state(now()) == "closed"


async def test_a_backend_that_an_impatient_client_cut_still_counts_as_slow() -> None:
    plan = a_plan(backend("a"))

    one = await begun(plan)
    one.fail(UpstreamTimeout("late", upstream="a"), one.call.deadline)

    known = plan.candidates[0].backend.load.latency(one.call.deadline, stream=False)
    assert known is not None
    assert 0.9 < known < 1.1


async def test_a_success_resets_how_long_a_busy_backend_is_deprioritised() -> None:
    plan, at = a_plan(backend("a")), now()
    breaker = plan.candidates[0].backend.breaker
    busy = UpstreamBusy("later", upstream="a")

    for after_s in (0.0, 100.0):
        (await begun(plan)).fail(busy, at + after_s)
    doubled = breaker.deprioritised_for(at + 100)
    (await begun(plan)).succeed(at + 200)
    (await begun(plan)).fail(busy, at + 300)

    assert 1.0 <= doubled <= 2.0
    assert breaker.deprioritised_for(at + 300) <= 1.0


async def hedge_of(plan: Plan) -> str | None:
    attempts = AttemptSequence(plan, HI, record(now()), "")
    await attempts.first()
    hedge = attempts.hedge()
    return None if hedge is None else hedge.candidate.name


async def test_a_hedge_never_goes_to_a_backend_whose_circuit_has_opened() -> None:
    plan = a_plan(backend("a"), backend("b"), backend("c"))

    broken(plan.candidates[1].backend)

    assert await hedge_of(plan) == "c"


async def test_a_hedge_never_goes_to_a_backend_that_supports_less() -> None:
    a, b, c = (backend(name) for name in "abc")

    assert await hedge_of(a_plan(a, b, dropped={"b": ("template",)})) is None
    assert await hedge_of(a_plan(a, b, c, dropped={"b": ("template",)})) == "c"
    assert await hedge_of(a_plan(a, b, dropped={"a": ("template",), "b": ("template",)})) == "b"


async def test_a_backend_that_another_request_probes_is_skipped() -> None:
    plan = a_plan(backend("a"), backend("b"))

    probed(plan.candidates[0].backend)

    turn = await first_turn(plan, record(now()))

    assert turn.current.candidate.name == "b"


async def test_while_all_are_being_probed_one_more_is_tried_after_a_moment() -> None:
    plan = a_plan(backend("a"))
    before = now()
    probed(plan.candidates[0].backend)

    turn = await first_turn(plan, record(now()))

    assert turn.current.candidate.name == "a"
    assert now() - before >= LAST_RESORT_EVERY_S


async def test_where_all_places_at_a_broken_backend_are_taken_a_request_is_refused() -> None:
    plan = replace(a_plan(backend("a")), retry=Retry(max_backoff_s=0.3))
    one = probed(plan.candidates[0].backend)
    for _ in range(MAX_LAST_RESORTS - 1):
        one.breaker.begin(now())

    with pytest.raises(Unavailable, match=r"a: breaker half_open") as caught:
        await first_turn(plan, record(now()))

    assert caught.value.retry_after == 1.0
    assert one.breaker.waiting == 0


async def test_no_more_than_so_many_requests_wait_for_one_backend() -> None:
    plan = a_plan(backend("a"))
    breaker = plan.candidates[0].breaker
    breaker.cool_down(now(), 2.0, probe=False)
    breaker.waiting = MAX_WAITING

    with pytest.raises(Unavailable):
        await first_turn(plan, record(now()))


async def test_no_backend_is_tried_after_the_deadline() -> None:
    plan = a_plan(backend("a"))

    with pytest.raises(DeadlineExceeded):
        await first_turn(plan, record(now() - 11))

    assert plan.candidates[0].backend.load.in_flight == 0


async def asked_at_once() -> tuple[RequestRecord, Attempt, Attempt]:
    """A try and its hedge, which begins a little later."""
    plan = a_plan(backend("a"), backend("b"))
    asking = record(now())
    attempts = AttemptSequence(plan, HI, asking, "")
    first = await attempts.first()
    hedge = attempts.hedge()
    assert hedge is not None
    return asking, first, hedge


async def test_time_in_which_two_attempts_run_counts_once() -> None:
    asking, first, hedge = await asked_at_once()
    at = first.started

    running = asking.upstream_ms(at + 1)
    hedge.fail_hedge(UpstreamBroken("cut", upstream="b"), at + 2)
    alone = asking.upstream_ms(at + 3)
    first.succeed(at + 5)

    assert running == pytest.approx(1000)
    assert alone == pytest.approx(3000)
    assert asking.upstream_ms(at + 100) == pytest.approx(5000)


async def test_backoffs_between_attempts_are_not_the_backends_time() -> None:
    asking, first, hedge = await asked_at_once()
    at = first.started
    first.fail(UpstreamBroken("cut", upstream="a"), at + 1)
    hedge.fail_hedge(UpstreamBroken("cut", upstream="b"), at + 2)

    paused = asking.upstream_ms(at + 4)
    start_attempt(first.candidate, asking, at + 5)

    assert paused == pytest.approx(2000)
    assert asking.upstream_ms(at + 5.5) == pytest.approx(2500)


@pytest.mark.parametrize("end", ENDS)
async def test_the_only_try_took_as_long_as_it_took(end: str) -> None:
    plan, asking = a_plan(backend("a")), record(now())
    one = await first_turn(plan, asking)

    running = asking.upstream_ms(one.started + 1)
    ENDS[end](one)

    assert running == pytest.approx(1000)
    assert asking.upstream_ms(one.started + 100) == asking.attempts[0].ms


@pytest.mark.parametrize("hedging", [True, False])
async def test_retries_are_a_share_of_the_first_attempts_of_the_last_seconds(
    hedging: bool,
) -> None:
    plan = a_plan(backend("a"))
    plan = plan if hedging else replace(plan, hedging=None)
    budget = plan.candidates[0].backend.budget
    budget.firsts.add(now() - 100)

    for _ in range(200):
        (await begun(plan)).succeed(now())

    assert sum(budget.take(now()) for _ in range(100)) == 40


async def test_answers_are_taken_back_from_failures_when_a_breaker_weighs_them() -> None:
    plan = a_plan(backend("a"))
    breaker, at = plan.candidates[0].backend.breaker, now()

    for end in [True, False, False, True] * 100 + [False] * (breaker.rule.min_requests - 2):
        one = await begun(plan)
        if end:
            one.succeed(at)
        else:
            one.fail(UpstreamBroken("cut", upstream="a"), at)
    before = breaker.state(at)
    (await begun(plan)).fail(UpstreamBroken("cut", upstream="a"), at)

    assert (before, breaker.state(at)) == ("closed", "open")


async def test_an_answer_that_is_faster_than_those_before_lowers_what_is_measured() -> None:
    plan = a_plan(backend("a"))
    load, at = plan.candidates[0].backend.load, now()

    for end, seconds in ((at, 5.0), (at + 10, 1.0)):
        one = await begun(plan)
        one.started = end - seconds
        one.succeed(end)

    assert 1.0 < (load.answer.measured or 0.0) < 4.0


@pytest.mark.parametrize("hedged", [False, True])
async def test_a_stream_is_timed_by_its_first_content_and_not_by_its_end(hedged: bool) -> None:
    plan = a_plan(backend("a"), backend("b"))
    turn = await first_turn(plan, record(now()))
    if hedged:
        hedge = turn.rest.hedge()
        assert hedge is not None
        turn.replace_with(hedge)
    load = turn.current.candidate.backend.load

    turn.commit()
    turn.current.succeed(now() + 100)

    assert load.answer.measured is None
    assert 0.0 <= (load.first_content.measured or 0.0) < 50.0


async def test_fields_dropped_for_one_backend_are_not_reported_for_the_next() -> None:
    plan = a_plan(backend("a"), backend("b"), dropped={"a": ("n",)})
    asking = record(now())

    (await first_turn(plan, asking)).fail(UpstreamBroken("cut", upstream="a"), now())
    without = asking.dropped
    start_attempt(plan.candidates[1], asking, now())

    assert without == ("n",)
    assert asking.dropped == ()
