"""How many calls a request makes at a pool, whatever its accounts answer: properties."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from strowger_gateway.gateway.config.schema.failover import RetryRule
from strowger_gateway.gateway.platform.clock import now
from strowger_gateway.gateway.routing.execution.attempt_sequence import (
    AttemptSequence,
    first_attempt,
)
from strowger_gateway.gateway.routing.planning.candidate import Candidate
from strowger_gateway.gateway.routing.planning.plan import Plan
from strowger_gateway.gateway.routing.request_record import RequestRecord
from strowger_gateway.schemas.errors import (
    GatewayError,
    InvalidRequest,
    RefusalCause,
    UpstreamBusy,
    UpstreamFailed,
    UpstreamRefused,
    UpstreamTimeout,
)
from strowger_gateway.schemas.requests import CompletionRequest
from tests.gateway.routing.backends import backend

HI = CompletionRequest(model="m", prompts=("hi",))
FREE: tuple[RefusalCause, ...] = ("account", "address", "model", "unclear")
KINDS = ("ok", "failed", "busy", "slow", "inexpressible", "request", *FREE)


def failure(kind: str) -> GatewayError:
    match kind:
        case "failed":
            return UpstreamFailed("x", upstream="p")
        case "busy":
            return UpstreamBusy("x", upstream="p")
        case "slow":
            return UpstreamTimeout("x", upstream="p")
        case "inexpressible":
            return InvalidRequest("x")
        case "account" | "address" | "model" | "unclear" | "request":
            return UpstreamRefused("x", upstream="p", about=kind)
        case _:
            raise AssertionError(kind)


def pool(kinds: Sequence[str], attempts: int) -> Plan:
    """A backend per kind, named after its place. Pauses take no time."""
    backends = [backend(str(place)) for place in range(len(kinds))]
    return Plan(
        route="m",
        names=tuple(one.name for one in backends),
        candidates=tuple(
            Candidate(backend=one, breaker=one.breaker, name=one.name, model="m", weight=1.0)
            for one in backends
        ),
        retry=RetryRule(attempts=attempts, backoff_s=0.0, max_backoff_s=0.0),
        deadline_s=10.0,
        stream_deadline_s=10.0,
        operator_deadline_s=10.0,
    )


async def run(plan: Plan, kinds: Sequence[str]) -> tuple[list[str], GatewayError | None]:
    """The kinds of the backends in the order in which they are called, and the error, if any."""
    record = RequestRecord(request_id="r", started=now(), attempts=[])
    attempt = first_attempt(plan, HI, record, "")
    if attempt is None:
        attempt = await AttemptSequence(plan, HI, record, "").first()
    called: list[str] = []
    while True:
        kind = kinds[int(attempt.candidate.name)]
        called.append(kind)
        if kind == "ok":
            attempt.succeed(now())
            return called, None
        error = failure(kind)
        assert attempt.should_fail_over(error)
        try:
            attempt = await attempt.rest.next(attempt)
        except GatewayError as exc:
            return called, exc


pools = st.lists(st.sampled_from(KINDS), min_size=1, max_size=8)


@pytest.mark.anyio
@given(kinds=pools, attempts=st.integers(1, 5))
async def test_a_request_makes_no_more_calls_than_its_attempts_and_one_per_dead_account(
    kinds: list[str], attempts: int
) -> None:
    called, _ = await run(pool(kinds, attempts), kinds)

    counted = [kind for kind in called if kind not in (*FREE, "inexpressible")]
    assert len(counted) <= attempts
    assert all(called.count(kind) <= kinds.count(kind) for kind in (*FREE, "inexpressible"))


@pytest.mark.anyio
@given(kinds=pools, attempts=st.integers(1, 5))
async def test_every_healthy_backend_of_a_pool_is_reached(kinds: list[str], attempts: int) -> None:
    """Unless the failures before it, each of which costs at least one attempt, use up all."""
    kinds = [*kinds, "ok"]
    before = kinds[: kinds.index("ok")]
    costly = sum(kind not in (*FREE, "inexpressible") for kind in before)

    called, error = await run(pool(kinds, attempts), kinds)

    assert (error is None) == (costly < attempts), called


@pytest.mark.anyio
@given(kinds=st.lists(st.sampled_from(KINDS[1:]), min_size=1, max_size=6))
async def test_the_client_gets_the_failure_that_says_most(kinds: list[str]) -> None:
    plan = pool(kinds, 10)
    called, error = await run(plan, kinds)

    refusals = {*FREE, "request"}
    real = [kind for kind in called if kind not in (*refusals, "inexpressible")]
    assert error is not None
    if real:
        assert type(error) is type(failure(real[-1]))
    elif refusals & set(called):
        assert isinstance(error, UpstreamRefused)
    else:
        assert isinstance(error, InvalidRequest)


@pytest.mark.anyio
async def test_at_a_wildcard_a_model_that_the_vendor_lacks_costs_an_attempt() -> None:
    plan = pool(["model"] * 6, 3)
    wild = tuple(replace(one, backend=replace(one.backend, model="*")) for one in plan.candidates)

    called, error = await run(replace(plan, candidates=wild), ["model"] * 6)

    assert called == ["model"] * 3
    assert isinstance(error, UpstreamRefused)
