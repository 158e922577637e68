"""Attempts of one request, while the state of its plan's backends changes."""

import asyncio
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from strowger_gateway.gateway.config.schema.failover import RetryRule
from strowger_gateway.gateway.platform.clock import now
from strowger_gateway.gateway.routing.execution.attempt import Attempt, start_attempt
from strowger_gateway.gateway.routing.execution.attempt_sequence import (
    AttemptSequence,
    PrimaryAttempt,
    first_attempt,
)
from strowger_gateway.gateway.routing.planning.candidate import Candidate
from strowger_gateway.gateway.routing.planning.last_resort import MAX_WAITING
from strowger_gateway.gateway.routing.planning.plan import Plan
from strowger_gateway.gateway.routing.planning.route import Backend, Hedging
from strowger_gateway.gateway.routing.request_record import RequestRecord
from strowger_gateway.gateway.routing.resilience.breaker_state import (
    LAST_RESORT_EVERY_S,
    MAX_LAST_RESORTS,
)
from strowger_gateway.gateway.routing.resilience.retry import RetryBudget
from strowger_gateway.schemas.errors import (
    DeadlineExceeded,
    InvalidRequest,
    Unavailable,
    UpstreamBroken,
    UpstreamBusy,
    UpstreamRejected,
    UpstreamTimeout,
)
from strowger_gateway.schemas.requests import CompletionRequest
from tests.gateway.routing.backends import backend

pytestmark = pytest.mark.anyio


HI = CompletionRequest(model="m", prompts=("hi",))


def plan_of(*backends: Backend, dropped: dict[str, tuple[str, ...]] | None = None) -> Plan:
    """A plan with hedging. dropped: the fields that a backend cannot honour, by its name."""
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
        retry=RetryRule(),
        deadline_s=10.0,
        stream_deadline_s=10.0,
        operator_deadline_s=10.0,
        hedging=Hedging(after_s=1.0, budget=RetryBudget()),
    )


def new_record(started: float) -> RequestRecord:
    return RequestRecord(request_id="r", started=started, attempts=[])


def opened(one: Backend) -> Backend:
    """The backend with its circuit open."""
    for _ in range(one.breaker.rule.min_requests):
        one.breaker.fail(now(), probe=False)
    assert not one.breaker.is_available(now())
    return one


def probed(one: Backend) -> Backend:
    """The backend with its circuit half-open, and another request as its probe."""
    assert due(one).breaker.begin(now())
    return one


def due(one: Backend) -> Backend:
    """The backend with its circuit half-open, due for a probe."""
    for _ in range(one.breaker.rule.min_requests):
        one.breaker.fail(now() - 1000, probe=False)
    assert one.breaker.state(now()) == "half_open"
    return one


def ended_by(error: BaseException) -> Callable[[Attempt], None]:
    return lambda one: one.fail(error, now())


def cut_by_client(one: Attempt) -> None:
    """A timeout at a deadline that the client set."""
    one.fail(UpstreamTimeout("late", upstream="a"), one.call.deadline)


NOT_FAILURES: dict[str, Callable[[Attempt], None]] = {
    "the client disconnected": ended_by(asyncio.CancelledError()),
    "the backend rejected the request": ended_by(UpstreamRejected("no", status=400, upstream="a")),
    "its API cannot express the request": ended_by(InvalidRequest("unsupported")),
    "another was faster": Attempt.lose_race,
    "the client's deadline cut it": cut_by_client,
    "429 without retry-after": ended_by(UpstreamBusy("later", upstream="a")),
    "429 with retry-after": ended_by(UpstreamBusy("later", upstream="a", retry_after=0.0)),
}
ENDS: dict[str, Callable[[Attempt], None]] = {
    **NOT_FAILURES,
    "answered": lambda one: one.succeed(now()),
    "failed": ended_by(UpstreamBroken("cut", upstream="a")),
}


class HeldLease:
    """A probe lease that records whether it is held."""

    held = False

    def available(self) -> bool:
        return not self.held

    def acquire(self) -> bool:
        taken, self.held = not self.held, True
        return taken

    def release(self) -> None:
        self.held = False


async def first(plan: Plan, record: RequestRecord) -> PrimaryAttempt:
    return (
        first_attempt(plan, HI, record, "") or await AttemptSequence(plan, HI, record, "").first()
    )


async def late_attempt(plan: Plan) -> Attempt:
    """The first attempt of a request, with 1 of its 10 seconds left."""
    return await first(plan, new_record(now() - 9))


@pytest.mark.parametrize("end", ENDS)
async def test_a_probe_frees_its_slot_however_it_ends(end: str) -> None:
    plan = plan_of(due(backend("a")))
    breaker = plan.candidates[0].backend.breaker
    breaker.lease = lease = HeldLease()

    one = await late_attempt(plan)
    assert breaker.probing
    assert lease.held
    ENDS[end](one)

    assert not breaker.probing
    assert not lease.held
    assert plan.candidates[0].backend.load.in_flight == 0


@pytest.mark.parametrize("end", NOT_FAILURES)
async def test_what_is_not_a_backends_fault_never_opens_its_circuit(end: str) -> None:
    plan = plan_of(backend("a"))

    for _ in range(20):
        NOT_FAILURES[end](await late_attempt(plan))

    assert plan.candidates[0].backend.breaker.state(now()) == "closed"


async def test_a_backend_cut_by_a_clients_deadline_still_counts_as_slow() -> None:
    plan = plan_of(backend("a"))

    one = await late_attempt(plan)
    one.fail(UpstreamTimeout("late", upstream="a"), one.call.deadline)

    known = plan.candidates[0].backend.load.latency(one.call.deadline, stream=False)
    assert known is not None
    assert 0.9 < known < 1.1


async def test_a_success_resets_how_long_a_busy_backend_is_deprioritised() -> None:
    plan, at = plan_of(backend("a")), now()
    breaker = plan.candidates[0].backend.breaker
    busy = UpstreamBusy("later", upstream="a")

    for after_s in (0.0, 100.0):
        (await late_attempt(plan)).fail(busy, at + after_s)
    doubled = breaker.deprioritised_for(at + 100)
    (await late_attempt(plan)).succeed(at + 200)
    (await late_attempt(plan)).fail(busy, at + 300)

    assert 1.0 <= doubled <= 2.0
    assert breaker.deprioritised_for(at + 300) <= 1.0


async def hedge_of(plan: Plan) -> str | None:
    attempts = AttemptSequence(plan, HI, new_record(now()), "")
    await attempts.first()
    hedge = attempts.hedge()
    return None if hedge is None else hedge.candidate.name


async def test_a_hedge_never_goes_to_a_backend_whose_circuit_has_opened() -> None:
    plan = plan_of(backend("a"), backend("b"), backend("c"))

    opened(plan.candidates[1].backend)

    assert await hedge_of(plan) == "c"


async def test_a_hedge_never_goes_to_a_backend_that_supports_less() -> None:
    a, b, c = (backend(name) for name in "abc")

    assert await hedge_of(plan_of(a, b, dropped={"b": ("template",)})) is None
    assert await hedge_of(plan_of(a, b, c, dropped={"b": ("template",)})) == "c"
    assert await hedge_of(plan_of(a, b, dropped={"a": ("template",), "b": ("template",)})) == "b"


async def test_a_backend_that_another_request_probes_is_skipped() -> None:
    plan = plan_of(backend("a"), backend("b"))

    probed(plan.candidates[0].backend)

    attempt = await first(plan, new_record(now()))

    assert attempt.current.candidate.name == "b"


async def test_if_all_backends_are_being_probed_the_request_waits_and_tries_one() -> None:
    plan = plan_of(backend("a"))
    before = now()
    probed(plan.candidates[0].backend)

    attempt = await first(plan, new_record(now()))

    assert attempt.current.candidate.name == "a"
    assert now() - before >= LAST_RESORT_EVERY_S


async def test_a_request_is_rejected_if_the_last_resorts_of_all_backends_are_in_flight() -> None:
    plan = replace(plan_of(backend("a")), retry=RetryRule(max_backoff_s=0.3))
    one = probed(plan.candidates[0].backend)
    for _ in range(MAX_LAST_RESORTS - 1):
        one.breaker.begin(now())

    with pytest.raises(Unavailable, match=r"a: breaker half_open") as caught:
        await first(plan, new_record(now()))

    assert caught.value.retry_after == 1.0
    assert one.breaker.waiting == 0


async def test_at_most_max_waiting_requests_wait_for_one_backend() -> None:
    plan = plan_of(backend("a"))
    breaker = plan.candidates[0].breaker
    breaker.cool_down(now(), 2.0, probe=False)
    breaker.waiting = MAX_WAITING

    with pytest.raises(Unavailable):
        await first(plan, new_record(now()))


async def test_no_backend_is_tried_after_the_deadline() -> None:
    plan = plan_of(backend("a"))

    with pytest.raises(DeadlineExceeded):
        await first(plan, new_record(now() - 11))

    assert plan.candidates[0].backend.load.in_flight == 0


async def parallel_attempts() -> tuple[RequestRecord, Attempt, Attempt]:
    """The first attempt and its hedge, which starts a little later."""
    plan = plan_of(backend("a"), backend("b"))
    record = new_record(now())
    attempts = AttemptSequence(plan, HI, record, "")
    primary = await attempts.first()
    hedge = attempts.hedge()
    assert hedge is not None
    return record, primary, hedge


async def test_time_in_which_two_attempts_run_counts_once() -> None:
    record, primary, hedge = await parallel_attempts()
    at = primary.started

    running = record.upstream_ms(at + 1)
    hedge.fail_hedge(UpstreamBroken("cut", upstream="b"), at + 2)
    alone = record.upstream_ms(at + 3)
    primary.succeed(at + 5)

    assert running == pytest.approx(1000)
    assert alone == pytest.approx(3000)
    assert record.upstream_ms(at + 100) == pytest.approx(5000)


async def test_backoffs_between_attempts_are_not_the_backends_time() -> None:
    record, primary, hedge = await parallel_attempts()
    at = primary.started
    primary.fail(UpstreamBroken("cut", upstream="a"), at + 1)
    hedge.fail_hedge(UpstreamBroken("cut", upstream="b"), at + 2)

    paused = record.upstream_ms(at + 4)
    start_attempt(primary.candidate, record, at + 5)

    assert paused == pytest.approx(2000)
    assert record.upstream_ms(at + 5.5) == pytest.approx(2500)


@pytest.mark.parametrize("end", ENDS)
async def test_the_backend_time_of_a_single_attempt_is_its_duration(end: str) -> None:
    plan, record = plan_of(backend("a")), new_record(now())
    one = await first(plan, record)

    running = record.upstream_ms(one.started + 1)
    ENDS[end](one)

    assert running == pytest.approx(1000)
    assert record.upstream_ms(one.started + 100) == record.attempts[0].ms


@pytest.mark.parametrize("hedging", [True, False])
async def test_retries_are_a_share_of_the_first_attempts_of_the_last_seconds(
    hedging: bool,
) -> None:
    plan = plan_of(backend("a"))
    plan = plan if hedging else replace(plan, hedging=None)
    budget = plan.candidates[0].backend.budget
    budget.firsts.add(now() - 100)

    for _ in range(200):
        (await late_attempt(plan)).succeed(now())

    assert sum(budget.take(now()) for _ in range(100)) == 40


async def test_successes_counted_inline_are_subtracted_from_the_evidence() -> None:
    plan = plan_of(backend("a"))
    breaker, at = plan.candidates[0].backend.breaker, now()

    for end in [True, False, False, True] * 100 + [False] * (breaker.rule.min_requests - 2):
        one = await late_attempt(plan)
        if end:
            one.succeed(at)
        else:
            one.fail(UpstreamBroken("cut", upstream="a"), at)
    before = breaker.state(at)
    (await late_attempt(plan)).fail(UpstreamBroken("cut", upstream="a"), at)

    assert (before, breaker.state(at)) == ("closed", "open")


async def test_a_faster_answer_lowers_the_measured_latency() -> None:
    plan = plan_of(backend("a"))
    load, at = plan.candidates[0].backend.load, now()

    for end, seconds in ((at, 5.0), (at + 10, 1.0)):
        one = await late_attempt(plan)
        one.started = end - seconds
        one.succeed(end)

    assert 1.0 < (load.answer.measured or 0.0) < 4.0


@pytest.mark.parametrize("hedged", [False, True])
async def test_a_stream_is_timed_by_its_first_content_and_not_by_its_end(hedged: bool) -> None:
    plan = plan_of(backend("a"), backend("b"))
    attempt = await first(plan, new_record(now()))
    if hedged:
        hedge = attempt.rest.hedge()
        assert hedge is not None
        attempt.replace_with(hedge)
    load = attempt.current.candidate.backend.load

    attempt.commit()
    attempt.current.succeed(now() + 100)

    assert load.answer.measured is None
    assert 0.0 <= (load.first_content.measured or 0.0) < 50.0


async def test_fields_dropped_for_one_backend_are_not_reported_for_the_next() -> None:
    plan = plan_of(backend("a"), backend("b"), dropped={"a": ("n",)})
    record = new_record(now())

    (await first(plan, record)).fail(UpstreamBroken("cut", upstream="a"), now())
    without = record.dropped
    start_attempt(plan.candidates[1], record, now())

    assert without == ("n",)
    assert record.dropped == ()
