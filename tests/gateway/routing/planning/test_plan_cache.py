"""Cached plans equal those of a full check, whatever requests came before."""

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import combinations, product

import pytest
from msgspec import UNSET, Raw
from msgspec.structs import replace

from strowger_gateway.adapters.base import ALL_THOUGHTS, Range, Supports
from strowger_gateway.adapters.repairs.tool_names import NAMES_OF_64
from strowger_gateway.gateway.config.schema.config import RequestFields
from strowger_gateway.gateway.routing.participation import NO_PARTICIPATION
from strowger_gateway.gateway.routing.planning.capability_match import match_backends
from strowger_gateway.gateway.routing.planning.enrolment import Arm, Enrolment
from strowger_gateway.gateway.routing.planning.planner import Planner
from strowger_gateway.gateway.routing.planning.policies import POLICIES
from strowger_gateway.gateway.routing.planning.request_facts import RequestFacts
from strowger_gateway.gateway.routing.planning.route import (
    Backend,
    ErrorFallback,
    Route,
    RouteTable,
)
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.fields import FIELDS
from strowger_gateway.schemas.messages import (
    FunctionTool,
    ImagePart,
    Message,
    OpaqueTool,
    ResponseFormat,
    TextPart,
    Thought,
    ToolChoice,
)
from strowger_gateway.schemas.requests import (
    ChatRequest,
    CompletionRequest,
    EmbeddingsRequest,
    Request,
    TokenRequest,
)
from strowger_gateway.schemas.sampling import Sampling
from tests.gateway.routing.backends import ArmBackends, backend_with

ALL = frozenset[str]().union(*FIELDS.values())
FEW = frozenset({"user", "temperature", "n", "stop", "tools", "messages.image"})
SUPPORTS = {
    "everything": Supports(
        chat=ALL, completion=ALL, embeddings=ALL, tokens=ALL, extra=True, thoughts=ALL_THOUGHTS
    ),
    "no_extra": Supports(chat=ALL, completion=ALL, embeddings=ALL, tokens=ALL),
    "little": Supports(chat=FEW, completion=FEW, embeddings=FEW, tokens=FEW, extra=True),
    "bounded": Supports(
        chat=ALL,
        completion=ALL,
        embeddings=ALL,
        tokens=ALL,
        ranges={
            "temperature": Range(maximum=1.0),
            "n": Range(maximum=1),
            "stop": Range(items=1),
            "tools.properties": Range(maximum=1),
        },
    ),
    "requires_user": Supports(chat=ALL, completion=ALL, requires=frozenset({"user"})),
    "tokens_only": Supports(tokens=ALL, text_of_tokens=False),
}


SCHEMA = Raw(b'{"properties":{"a":{},"b":{}}}')
EXTRA: tuple[object, ...] = ({}, {"mood": Raw(b"1")})
SAMPLED: dict[str, tuple[object, ...]] = {
    "temperature": (UNSET, 0.5, 2.0, None),
    "n": (UNSET, 1, 2),
    "stop": (UNSET, (), ("a",), ("a", "b")),
    "logit_bias": (UNSET, {}, {5: 1.0}),
    "do_sample": (UNSET, True, False),
    "seed": (UNSET, 1, 2**64 - 1, None),
}
OWN: dict[type[Request], dict[str, tuple[object, ...]]] = {
    ChatRequest: {
        "messages": (
            (Message(role="user", content="hi"),),
            (Message(role="user", content=(TextPart(text="hi"),)),),
            (Message(role="user", content=(ImagePart(url="https://a.example/b.png"),)),),
            (Message(role="assistant", content="so", thoughts=(Thought(text="hm"),)),),
            (Message(role="user", content="hi"), Message(role="assistant", reasoning="hm")),
        ),
        "tools": (
            UNSET,
            (),
            (FunctionTool(name="f"),),
            (FunctionTool(name="f", parameters=SCHEMA),),
            (OpaqueTool(type="web", raw=Raw(b"{}")),),
        ),
        "tool_choice": (UNSET, ToolChoice(mode="auto"), ToolChoice(mode="required")),
        "parallel_tool_calls": (UNSET, True, False),
        "response_format": (UNSET, ResponseFormat(type="json_object")),
        "reasoning_effort": (UNSET, "low"),
        "metadata": (UNSET, Raw(b'{"a":"b"}')),
        "user": (UNSET, "u", ""),
        "priority": (UNSET, 5, 1),
        "extra": EXTRA,
        "optional": ((), ("n", "temperature"), ("logit_bias", "do_sample", "metadata")),
    },
    CompletionRequest: {
        "prompts": (("a",), ("a", "b"), ((1, 2),), ("a", (1,))),
        "echo": (UNSET, True, False),
        "template": (False, True),
        "extra": EXTRA,
    },
    EmbeddingsRequest: {
        "inputs": (("a",), ((1, 2),)),
        "dimensions": (UNSET, 3),
        "user": (UNSET, "u"),
        "extra": EXTRA,
    },
    TokenRequest: {
        "tokens": ((1,),),
        "text": (False, True),
        "priority": (UNSET, 5, 1),
        "extra": EXTRA,
        "optional": ((), ("logit_bias",), ("logit_bias", "temperature", "stop")),
    },
}
"""The values that each field is tested with; the first one is used while other fields vary."""


@cache
def related(kind: type[Request]) -> tuple[Sequence[Request], ...]:
    """Lists of requests that differ in two fields only: many share a shape."""
    return tuple(_related(kind))


def _related(kind: type[Request]) -> Iterator[Sequence[Request]]:
    varied = {**OWN[kind], **({} if kind is EmbeddingsRequest else SAMPLED)}
    fixed = {name: values[0] for name, values in OWN[kind].items()}
    for one, other in combinations(varied, 2):
        found: list[Request] = []
        for first, second in product(varied[one], varied[other]):
            values = {**fixed, one: first, other: second}
            sampling = {name: values.pop(name) for name in SAMPLED if name in values}
            if sampling:
                values["sampling"] = Sampling(**sampling)  # pyright: ignore[reportArgumentType]  as the table says
            found.append(kind(model="m", **values))  # pyright: ignore[reportArgumentType]  as the table says
        yield found


def backend_of(name: str, supports: Supports) -> Backend:
    return backend_with(name, supports, model=name.partition("/")[2])


Planned = list[tuple[str, Request, tuple[str, ...], tuple[str, ...]]] | str


def planned(planner: Planner, route: Route, request: Request) -> Planned:
    """The plan by the planner, which caches; or the message of its error."""
    try:
        found = planner.plan(route, request, RequestFacts())
    except InvalidRequest as exc:
        return str(exc)
    return [
        (one.name, one.request or request, one.dropped, one.omitted) for one in found.candidates
    ]


def checked(route: Route, request: Request) -> Planned:
    """The plan by a full check, without a cache; or the message of its error."""
    try:
        found = match_backends(route, route.backends, route.weights, request, [])
    except InvalidRequest as exc:
        return str(exc)
    return [(one.name, one.request or request, one.dropped, one.omitted) for one in found]


NAMES = (("a/m",), ("a/*",), ("a/m", "b/m"))
CASES = [
    pytest.param(
        require,
        supports,
        names,
        id=f"{'require' if require else 'optional'}, {supports}, {' '.join(names)}",
        marks=() if (one + other + require) % 2 else pytest.mark.nightly,
    )
    for one, supports in enumerate(SUPPORTS)
    for other, names in enumerate(NAMES)
    for require in (False, True)
]
"""Every two of the three values meet in a case that is not for the night alone."""


@pytest.mark.parametrize(("require", "supports", "names"), CASES)
@pytest.mark.parametrize("kind", OWN)
def test_a_cached_plan_equals_the_plan_of_a_full_check(
    require: bool, kind: type[Request], supports: str, names: tuple[str, ...]
) -> None:
    others = (SUPPORTS[supports], SUPPORTS["everything"])
    backends = tuple(backend_of(name, one) for name, one in zip(names, others, strict=False))
    route = Route(
        name="m",
        backends=backends,
        weights=(1.0,) * len(backends),
        policy=POLICIES["in_order"],
        require=require,
    )

    for requests in related(kind):
        expected = [checked(route, request) for request in requests]
        for step in (1, -1):
            planner = Planner(RouteTable([route], {}))
            for request, plan in zip(requests[::step], expected[::step], strict=True):
                assert planned(planner, route, request) == plan


def route_of(*backends: Backend, **values: object) -> Route:
    return Route(
        name="m",
        backends=backends,
        weights=(1.0,) * len(backends),
        policy=POLICIES["weighted"],
        **values,  # pyright: ignore[reportArgumentType]  a Route's own fields
    )


def hello(text: str) -> ChatRequest:
    return ChatRequest(model="m", messages=(Message(role="user", content=text),))


def test_a_plan_with_operator_values_keeps_each_requests_text() -> None:
    defaults = RequestFields(sampling=Sampling(temperature=0.5))
    route = route_of(backend_of("a/m", SUPPORTS["everything"]), defaults=defaults)
    planner = Planner(RouteTable([route], {}))

    sent = [planner.plan(route, hello(text), RequestFacts()).candidates[0].request for text in "ab"]

    assert [one.messages[0].content for one in sent if isinstance(one, ChatRequest)] == ["a", "b"]


def test_a_plan_with_a_variants_system_prompt_keeps_each_requests_text() -> None:
    arm = Arm(name="brief", backend=backend_of("a/m", SUPPORTS["everything"]), system="Be brief.")
    route = route_of(arm.backend)
    planner = Planner(RouteTable([route], {}), {"m": ArmBackends()})
    enrolment = Enrolment(arm=arm, participation=NO_PARTICIPATION)

    plans = [planner.plan(route, hello(text), RequestFacts(), enrolment) for text in "ab"]
    sent = [found.candidates[0].request for found in plans]

    assert [one.messages[1].content for one in sent if isinstance(one, ChatRequest)] == ["a", "b"]


def test_a_wildcard_is_cached_separately_for_a_model_that_is_an_arm() -> None:
    arm = Arm(name="old", backend=backend_of("b/old", SUPPORTS["everything"]))
    route = route_of(backend_of("a/*", SUPPORTS["everything"]))
    planner = Planner(RouteTable([route], {}), {"m": ArmBackends("a/new", "b/old")})
    enrolment = Enrolment(arm=arm, participation=NO_PARTICIPATION)

    plans = [
        planner.plan(route, replace(hello("a"), model=model), RequestFacts(), enrolment)
        for model in ("new", "other", "new")
    ]

    names = [[one.name for one in found.candidates] for found in plans]
    assert names == [["b/old"], ["b/old", "a/other"], ["b/old"]]


def test_requests_of_one_shape_are_drawn_separately() -> None:
    route = route_of(*(backend_of(name, SUPPORTS["everything"]) for name in ("a/m", "b/m")))
    planner = Planner(RouteTable([route], {}))

    plans = [
        planner.plan(route, hello("a"), RequestFacts(uniform_draw=draw)) for draw in (0.1, 0.9, 0.1)
    ]

    assert [found.candidates[0].name for found in plans] == ["a/m", "b/m", "a/m"]


def test_a_plan_that_drops_fields_for_a_variant_keeps_each_requests_text() -> None:
    arm = Arm(name="less", backend=backend_of("a/m", Supports(chat=frozenset({"user"}))))
    route = route_of(arm.backend)
    planner = Planner(RouteTable([route], {}), {"m": ArmBackends("a/m")})
    enrolment = Enrolment(arm=arm, participation=NO_PARTICIPATION)
    requests = [replace(hello(text), sampling=Sampling(n=2), optional=("n",)) for text in "ab"]

    plans = [planner.plan(route, request, RequestFacts(), enrolment) for request in requests]
    sent = [found.candidates[0].request for found in plans]

    assert [one.messages[0].content for one in sent if isinstance(one, ChatRequest)] == ["a", "b"]
    assert [found.candidates[0].dropped for found in plans] == [("n",), ("n",)]


def test_a_fallback_by_error_keeps_each_requests_text() -> None:
    """The fallback has an override, so it gets a changed copy of each request."""
    fallback = ErrorFallback(codes=frozenset({"context_length_exceeded"}), routes=("longer",))
    route = route_of(backend_of("a/m", SUPPORTS["everything"]), error_fallbacks=(fallback,))
    longer = replace(
        route_of(
            backend_of("b/long", SUPPORTS["everything"]),
            overrides=RequestFields(sampling=Sampling(temperature=0.5)),
        ),
        name="longer",
    )
    planner = Planner(RouteTable([route, longer], {}))

    plans = [planner.plan(route, hello(text), RequestFacts()) for text in "ab"]
    sent = [found.error_fallback("context_length_exceeded")[0].request for found in plans]

    assert [one.messages[0].content for one in sent if isinstance(one, ChatRequest)] == ["a", "b"]


def test_an_empty_list_of_tools_is_of_another_shape_than_tools() -> None:
    """The first request has nothing to repair, and the second one's function has."""
    supports = Supports(chat=ALL, repairs=(NAMES_OF_64,))
    route = route_of(backend_of("a/m", supports))
    planner = Planner(RouteTable([route], {}))
    requests = [replace(hello("a"), tools=tools) for tools in ((), (FunctionTool(name="a b"),))]

    plans = [planner.plan(route, request, RequestFacts()) for request in requests]

    assert [bool(found.candidates[0].repaired) for found in plans] == [False, True]
