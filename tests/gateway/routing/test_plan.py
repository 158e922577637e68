"""What becomes of a request on its way to a backend that lacks something."""

from collections.abc import AsyncGenerator

import pytest
from msgspec import Raw
from msgspec.structs import replace

from adapters.base import Supports
from gateway.config.schema_failover import Breaker as BreakerRule
from gateway.routing.planning.candidate import Candidate
from gateway.routing.planning.planner import Planner
from gateway.routing.planning.policies import POLICIES
from gateway.routing.planning.request_facts import RequestFacts
from gateway.routing.planning.route import Backend, Route, RouteTable
from gateway.routing.resilience.circuit_breaker import Breaker
from gateway.routing.resilience.retry import RetryBudget
from gateway.upstream.base import Call
from schemas.answers import Embeddings
from schemas.errors import InvalidRequest, Unavailable
from schemas.events import Event
from schemas.requests import (
    CompletionRequest,
    EmbeddingsRequest,
    GenerateRequest,
    Request,
    TokenRequest,
)
from schemas.sampling import Sampling

NOTHING = Sampling()


class Silent:
    """An upstream that nobody asks."""

    name = "silent"
    supports = Supports()

    async def generate(
        self, request: GenerateRequest, call: Call
    ) -> AsyncGenerator[list[Event], None]:
        yield []

    async def embed(self, request: EmbeddingsRequest, call: Call) -> Embeddings:
        return Embeddings(vectors=())

    async def aclose(self) -> None:
        return


def backend(name: str, *fields: str) -> Backend:
    """One that takes tokens, and completions, with these fields."""
    known = frozenset(fields)
    return Backend(
        name=name,
        model="m",
        upstream=Silent(),
        supports=Supports(tokens=known, completion=known),
        breaker=Breaker(BreakerRule()),
        budget=RetryBudget(),
    )


def route(*backends: Backend, deadline_s: float = 600.0) -> Route:
    weights = tuple(1.0 for _ in backends)
    return Route(
        name="m",
        backends=backends,
        weights=weights,
        policy=POLICIES["in_order"],
        deadline_s=deadline_s,
    )


def planned(route_: Route, request: Request) -> list[Candidate]:
    planner = Planner(RouteTable([route_], {}))
    return list(planner.plan(route_, request, RequestFacts()).candidates)


def sampling(candidate: Candidate) -> Sampling:
    assert isinstance(candidate.request, TokenRequest)
    return candidate.request.sampling


def tokens(*optional: str, sampling: Sampling = NOTHING) -> TokenRequest:
    return TokenRequest(model="m", tokens=(1,), sampling=sampling, optional=optional)


def test_what_a_dialect_never_refuses_is_left_out_and_named() -> None:
    request = tokens("typical_p", "watermark", sampling=Sampling(typical_p=0.5, watermark=True))

    (only,) = planned(route(backend("a")), request)

    assert only.dropped == ("typical_p", "watermark")
    assert sampling(only) == Sampling()


def test_a_backend_with_full_support_comes_before_one_that_lacks_optional_fields() -> None:
    request = tokens("typical_p", sampling=Sampling(typical_p=0.5))

    found = planned(route(backend("a"), backend("b", "typical_p"), backend("c")), request)

    assert [one.name for one in found] == ["b", "a", "c"]
    assert [one.dropped for one in found] == [(), ("typical_p",), ("typical_p",)]


def test_if_every_field_is_required_a_backend_that_lacks_one_is_not_tried() -> None:
    request = tokens("typical_p", sampling=Sampling(typical_p=0.5))
    strict = route(backend("a"), backend("b", "typical_p"))

    names = [one.name for one in planned(replace(strict, require=True), request)]

    assert names == ["b"]


def test_required_fields_are_refused_next_to_optional_ones() -> None:
    request = tokens("typical_p", sampling=Sampling(typical_p=0.5, min_p=0.1))

    with pytest.raises(InvalidRequest, match=r"a: min_p is not supported$") as caught:
        planned(route(backend("a")), request)

    assert caught.value.param == "min_p"


def test_an_optional_field_without_effect_is_not_named() -> None:
    (only,) = planned(route(backend("a")), tokens("watermark", sampling=Sampling(watermark=False)))

    assert only.dropped == ()


def test_not_to_sample_is_a_temperature_of_zero_where_the_switch_is_unknown() -> None:
    request = tokens(sampling=Sampling(do_sample=False, temperature=0.7, top_k=5))

    (only,) = planned(route(backend("a", "temperature")), request)

    assert sampling(only) == Sampling(temperature=0.0)


def test_to_sample_is_what_every_backend_does() -> None:
    request = tokens(sampling=Sampling(do_sample=True, temperature=0.7))

    (only,) = planned(route(backend("a", "temperature")), request)

    assert sampling(only) == Sampling(temperature=0.7)


def test_the_switch_travels_as_it_is_where_it_is_known() -> None:
    request = tokens(sampling=Sampling(do_sample=False, temperature=0.7))
    knows = backend("b", "do_sample", "temperature")

    candidates = planned(route(backend("a", "temperature"), knows), request)

    assert [sampling(one) for one in candidates] == [
        Sampling(temperature=0.0),
        Sampling(temperature=0.7, do_sample=False),
    ]


@pytest.mark.parametrize(("timeout_s", "expected"), [(5.0, 5.0), (900.0, 30.0)])
def test_a_requests_own_timeout_lowers_the_deadline_and_never_raises_it(
    timeout_s: float, expected: float
) -> None:
    request = replace(tokens(), timeout_s=timeout_s)
    bounded = route(backend("a"), deadline_s=30.0)

    found = Planner(RouteTable([bounded], {})).plan(bounded, request, RequestFacts())

    assert found.deadline_s == expected


def test_an_answer_that_a_timeout_only_cuts_has_the_time_to_be_cut() -> None:
    request = CompletionRequest(model="m", prompts=("x",), timeout_s=5.0, error_behavior="truncate")
    bounded = route(backend("a", "error_behavior"))

    found = Planner(RouteTable([bounded], {})).plan(bounded, request, RequestFacts())

    assert 5.0 < found.deadline_s <= 10.0


def test_backends_are_kept_if_all_circuits_are_open() -> None:
    first, second, third = backend("a"), backend("b"), backend("c")
    for at, one in ((10.0, second), (11.0, first)):
        for _ in range(one.breaker.rule.min_requests):
            one.breaker.fail(at, probe=False)

    def found(*backends: Backend) -> tuple[list[str], list[str], tuple[str, ...]]:
        table = RouteTable([route(*backends)], {})
        one = Planner(table).plan(table.routes["m"], tokens(), RequestFacts(now=12.0))
        return (
            [other.name for other in one.candidates],
            [b.name for b in one.unavailable],
            one.names,
        )

    assert found(first, second, third) == (["c"], ["a", "b"], ("c",))
    assert found(first, second) == ([], ["a", "b"], ("a", "b"))


def test_a_cooldown_longer_than_a_request_may_wait_is_not_waited_for() -> None:
    short, long = backend("a"), backend("b")
    short.breaker.cool_down(12.0, 3.0, probe=False)
    long.breaker.cool_down(12.0, 9.0, probe=False)

    def found(*backends: Backend) -> list[str]:
        table = RouteTable([route(*backends)], {})
        return [
            one.name
            for one in Planner(table)
            .plan(table.routes["m"], tokens(), RequestFacts(now=12.0))
            .unavailable
        ]

    assert found(short, long) == ["a", "b"]
    with pytest.raises(Unavailable, match=r"^no backend is available \(b: rate-limited") as caught:
        found(long)
    assert caught.value.retry_after == 9.0


def test_a_backend_that_accepts_unknown_fields_gets_them_as_the_client_sent_them() -> None:
    request = replace(tokens(sampling=Sampling(n=2)), extra={"use_beam_search": Raw(b"true")})
    plain = backend("plain", "n", "beam_width")
    open_ = replace(plain, supports=replace(plain.supports, extra=True))
    told = replace(
        plain, supports=replace(plain.supports, extra_fields={"tokens": frozenset(request.extra)})
    )

    narrow, *wide = [planned(route(one), request)[0].request for one in (plain, open_, told)]

    assert narrow == tokens(sampling=Sampling(n=2, beam_width=2))
    assert wide == [request, request]


def test_the_last_priority_has_no_effect() -> None:
    last, urgent = [replace(tokens(), priority=number) for number in (5, 4)]
    hurried = backend("hurried", "priority")
    plain = backend("plain")

    def order(request: Request) -> list[str]:
        return [one.name for one in planned(route(plain, hurried), request)]

    assert order(last) == ["plain", "hurried"]
    assert order(urgent) == ["hurried"]


def test_text_for_tokens_is_preferred_and_its_lack_is_reported() -> None:
    request = replace(tokens("answer.text"), text=True)
    telling = backend("telling")
    silent = replace(
        telling, name="silent", supports=replace(telling.supports, text_of_tokens=False)
    )

    both = planned(route(silent, telling), request)
    (alone,) = planned(route(silent), request)

    assert [one.name for one in both] == ["telling", "silent"]
    assert alone.dropped == ("answer.text",)
    assert alone.request == tokens("answer.text")
