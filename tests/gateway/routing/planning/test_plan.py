"""How a plan treats fields that a backend lacks, timeouts, and open circuits."""

import pytest
from msgspec import UNSET, Raw, UnsetType
from msgspec.structs import replace

from strowger_gateway.gateway.config.schema.connection import STREAM_S, WHOLE_S
from strowger_gateway.gateway.routing.planning.candidate import Candidate
from strowger_gateway.gateway.routing.planning.planner import Planner
from strowger_gateway.gateway.routing.planning.policies import POLICIES
from strowger_gateway.gateway.routing.planning.request_facts import RequestFacts
from strowger_gateway.gateway.routing.planning.route import Backend, Route, RouteTable
from strowger_gateway.schemas.errors import InvalidRequest, Unavailable
from strowger_gateway.schemas.requests import CompletionRequest, Request, TokenRequest
from strowger_gateway.schemas.sampling import Sampling
from tests.gateway.routing.backends import backend

NOTHING = Sampling()


def route(*backends: Backend, deadline_s: float = WHOLE_S) -> Route:
    weights = tuple(1.0 for _ in backends)
    return Route(
        name="m",
        backends=backends,
        weights=weights,
        policy=POLICIES["in_order"],
        deadline_s=deadline_s,
        stream_deadline_s=STREAM_S if deadline_s == WHOLE_S else deadline_s,
    )


def planned(route_: Route, request: Request) -> list[Candidate]:
    planner = Planner(RouteTable([route_], {}))
    return list(planner.plan(route_, request, RequestFacts()).candidates)


def sampling(candidate: Candidate) -> Sampling:
    assert isinstance(candidate.request, TokenRequest)
    return candidate.request.sampling


def tokens(*optional: str, sampling: Sampling = NOTHING) -> TokenRequest:
    return TokenRequest(model="m", tokens=(1,), sampling=sampling, optional=optional)


def test_optional_fields_that_no_backend_supports_are_dropped_and_reported() -> None:
    request = tokens("typical_p", "watermark", sampling=Sampling(typical_p=0.5, watermark=True))

    (only,) = planned(route(backend("a")), request)

    assert only.dropped == ("typical_p", "watermark")
    assert sampling(only) == Sampling()


def test_a_backend_with_full_support_comes_before_one_that_lacks_optional_fields() -> None:
    request = tokens("typical_p", sampling=Sampling(typical_p=0.5))

    found = planned(route(backend("a"), backend("b", "typical_p"), backend("c")), request)

    assert [one.name for one in found] == ["b", "a", "c"]
    assert [one.dropped for one in found] == [(), ("typical_p",), ("typical_p",)]


def test_with_require_a_backend_that_lacks_an_optional_field_is_not_used() -> None:
    request = tokens("typical_p", sampling=Sampling(typical_p=0.5))
    strict = route(backend("a"), backend("b", "typical_p"))

    names = [one.name for one in planned(replace(strict, require=True), request)]

    assert names == ["b"]


def test_a_missing_required_field_is_an_error_even_next_to_optional_ones() -> None:
    request = tokens("typical_p", sampling=Sampling(typical_p=0.5, min_p=0.1))

    with pytest.raises(InvalidRequest, match=r"a: min_p is not supported$") as caught:
        planned(route(backend("a")), request)

    assert caught.value.param == "min_p"


def test_an_optional_field_without_effect_is_not_reported() -> None:
    (only,) = planned(route(backend("a")), tokens("watermark", sampling=Sampling(watermark=False)))

    assert only.dropped == ()


def test_do_sample_false_becomes_temperature_zero_for_backends_without_do_sample() -> None:
    request = tokens(sampling=Sampling(do_sample=False, temperature=0.7, top_k=5))

    (only,) = planned(route(backend("a", "temperature")), request)

    assert sampling(only) == Sampling(temperature=0.0)


def test_do_sample_true_is_not_sent_to_backends_without_do_sample() -> None:
    request = tokens(sampling=Sampling(do_sample=True, temperature=0.7))

    (only,) = planned(route(backend("a", "temperature")), request)

    assert sampling(only) == Sampling(temperature=0.7)


def test_do_sample_is_sent_unchanged_to_backends_that_support_it() -> None:
    request = tokens(sampling=Sampling(do_sample=False, temperature=0.7))
    supporting = backend("b", "do_sample", "temperature")

    candidates = planned(route(backend("a", "temperature"), supporting), request)

    assert [sampling(one) for one in candidates] == [
        Sampling(temperature=0.0),
        Sampling(temperature=0.7, do_sample=False),
    ]


@pytest.mark.parametrize(
    ("timeout_s", "whole", "stream"), [(UNSET, 600, 3600), (900.0, 600, 900), (5.0, 5, 5)]
)
def test_a_stream_may_take_an_hour_and_a_whole_answer_ten_minutes(
    timeout_s: float | UnsetType, whole: float, stream: float
) -> None:
    request, usual = replace(tokens(), timeout_s=timeout_s), route(backend("a"))

    found = Planner(RouteTable([usual], {})).plan(usual, request, RequestFacts())

    assert found.ends(7.0, stream=False) == 7.0 + whole
    assert found.ends(7.0, stream=True) == 7.0 + stream


@pytest.mark.parametrize(("timeout_s", "expected"), [(5.0, 5.0), (900.0, 30.0)])
def test_a_requests_own_timeout_lowers_the_deadline_and_never_raises_it(
    timeout_s: float, expected: float
) -> None:
    request = replace(tokens(), timeout_s=timeout_s)
    bounded = route(backend("a"), deadline_s=30.0)

    found = Planner(RouteTable([bounded], {})).plan(bounded, request, RequestFacts())

    assert found.deadline_s == expected


def test_a_timeout_that_truncates_the_answer_leaves_time_to_send_it() -> None:
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


def test_a_request_does_not_wait_for_a_cooldown_longer_than_max_backoff() -> None:
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
    accepts_all = replace(plain, supports=replace(plain.supports, extra=True))
    accepts_listed = replace(
        plain, supports=replace(plain.supports, extra_fields={"tokens": frozenset(request.extra)})
    )

    translated, *unchanged = [
        planned(route(one), request)[0].request for one in (plain, accepts_all, accepts_listed)
    ]

    assert translated == tokens(sampling=Sampling(n=2, beam_width=2))
    assert unchanged == [request, request]


def test_the_lowest_priority_has_no_effect() -> None:
    lowest, urgent = [replace(tokens(), priority=number) for number in (5, 4)]
    prioritising = backend("prioritising", "priority")
    plain = backend("plain")

    def order(request: Request) -> list[str]:
        return [one.name for one in planned(route(plain, prioritising), request)]

    assert order(lowest) == ["plain", "prioritising"]
    assert order(urgent) == ["prioritising"]


def test_backends_that_return_text_with_tokens_come_first_and_a_lack_is_reported() -> None:
    request = replace(tokens("answer.text"), text=True)
    with_text = backend("with_text")
    without_text = replace(
        with_text, name="without_text", supports=replace(with_text.supports, text_of_tokens=False)
    )

    both = planned(route(without_text, with_text), request)
    (alone,) = planned(route(without_text), request)

    assert [one.name for one in both] == ["with_text", "without_text"]
    assert alone.dropped == ("answer.text",)
    assert alone.request == tokens("answer.text")
