"""Requests with equal values share what a check has found, and nothing of their texts."""

import sys
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET, Raw
from msgspec.structs import replace

from strowger_gateway.adapters.base import Supports
from strowger_gateway.adapters.registry import Registry
from strowger_gateway.adapters.repairs.rule import Aim, Repair, Repaired
from strowger_gateway.adapters.testing import contract_endpoint
from strowger_gateway.gateway.assembly.runtime import Runtime
from strowger_gateway.gateway.config.load import read_config
from strowger_gateway.gateway.routing.participation import NO_PARTICIPATION
from strowger_gateway.gateway.routing.planning.enrolment import Arm, Enrolment
from strowger_gateway.gateway.routing.planning.plan_cache import MAX_CACHED
from strowger_gateway.gateway.routing.planning.planner import Planner
from strowger_gateway.gateway.routing.planning.policies import POLICIES
from strowger_gateway.gateway.routing.planning.request_facts import RequestFacts
from strowger_gateway.gateway.routing.planning.route import Route, RouteTable
from strowger_gateway.schemas.content_facts import SAMPLING, facts_of
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.messages import (
    FunctionTool,
    Message,
    ResponseFormat,
    TextPart,
    ToolCall,
    ToolChoice,
)
from strowger_gateway.schemas.requests import ChatRequest, Original, Request
from strowger_gateway.schemas.sampling import Sampling
from tests.examples import examples
from tests.gateway.routing.backends import ArmBackends, backend_with

PROVIDERS = {
    "openai": ("gpt-4.1", "o3", "gpt-5"),
    "openai-responses": ("gpt-4.1", "gpt-5"),
    "anthropic": ("claude-sonnet-4-6", "claude-opus-4-8", "claude-3-haiku-20240307"),
    "gemini": ("gemini-3.5-flash",),
    "mistral": ("mistral-large-latest",),
    "cohere": ("command-a-03-2025",),
    "deepseek": ("deepseek-reasoner",),
    "ollama": ("llama3.2",),
    "mindie": ("qwen",),
}
"""Adapters, and models with rules of their own."""

SETTINGS = (
    "policy: in_order",
    "policy: weighted",
    "policy: in_order, require: true",
    "policy: in_order, on_repair: reject",
    "policy: in_order, on_unsupported: drop",
    "policy: in_order, defaults: {temperature: 0.5, timeout_s: 9}",
    "policy: in_order, overrides: {top_p: 0.5, reasoning_effort: high}",
    "policy: in_order, overrides: {user: u, max_tokens: 1000000}",
    "policy: in_order, when: [{tokens_over: 700, backends: [mistral/m]}]",
)
"""Of a model."""

BACKENDS = [(name, model) for name, models in PROVIDERS.items() for model in models]


def configuration() -> str:
    """Models of two backends and a fallback: each setting with each first backend."""
    providers = "".join(
        f'  - {{name: {name}, adapter: {name}, base_url: "http://127.0.0.1:9/v1", api_key: k}}\n'
        for name in PROVIDERS
    )
    models = ""
    for index, (way, (name, model)) in enumerate(product(SETTINGS, BACKENDS)):
        other, its = BACKENDS[(index * 7 + 3) % len(BACKENDS)]
        models += (
            f"  - {{name: m{index}, fallback: [last{index % 2}], {way}, "
            f"backends: [{{provider: {name}, model: {model}}}, "
            f"{{provider: {other}, model: {its}-x}}]}}\n"
        )
    return (
        f"providers:\n{providers}models:\n{models}"
        "  - {name: last0, backends: [{provider: anthropic, model: claude-sonnet-4-6}]}\n"
        "  - {name: last1, backends: [{provider: openai, model: o3}], defaults: {seed: 3}}\n"
        "capabilities: [{match: anthropic/claude-sonnet-4-6, context: 9000, max_output: 8000}]\n"
    )


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Runtime:
    config = read_config(configuration(), source="config.yaml", env={})
    return Runtime(config, run_dir=tmp_path_factory.mktemp("run"))


def said(*texts: str) -> tuple[Message, ...]:
    """A conversation of these texts, by the user and the model in turn."""
    roles = ("user", "assistant")
    return tuple([Message(role=roles[n % 2], content=one) for n, one in enumerate(texts)])


CALL = ToolCall(id="call_1", name="weather", arguments="{}")
PLAIN = (
    said("hi"),
    said("Answer in JSON."),
    (Message(role="system", content="Be brief."), *said("hi", "Hello!", "bye")),
    said("word " * 800),
    said("word " * 9_000),
)
"""Conversations without facts."""

CONVERSATIONS = (
    *PLAIN,
    (Message(role="developer", content="Be brief."), *said("hi")),
    said("hi", "Yes, "),
    said(" ", "a", "b"),
    (Message(role="user", content="hi", name="Ann Bee"),),
    (Message(role="user", content=(TextPart(text="hi"),)),),
    (
        *said("hi"),
        Message(role="assistant", tool_calls=(CALL,)),
        Message(role="tool", tool_call_id="call_1", content="Sunny."),
    ),
)
EITHER = Raw(b'{"type":"object","properties":{"a":{}},"anyOf":[{"required":["a"]}]}')
TOOLS = (
    UNSET,
    (),
    (FunctionTool(name="weather", parameters=Raw(b'{"type":"object","properties":{}}')),),
    (FunctionTool(name="weather", parameters=EITHER), FunctionTool(name="clock")),
    (FunctionTool(name="docs server/search", description="Find.", strict=True),),
    (FunctionTool(name="weather"), FunctionTool(name="weather")),
)
FIELDS: dict[str, tuple[object, ...]] = {
    "tools": TOOLS,
    "tool_choice": (
        UNSET,
        ToolChoice(mode="auto"),
        ToolChoice(mode="none"),
        ToolChoice(mode="required"),
        ToolChoice(mode="named", name="weather"),
    ),
    "parallel_tool_calls": (UNSET, False, True),
    "response_format": (UNSET, ResponseFormat(type="json_object"), ResponseFormat(type="text")),
    "reasoning_effort": (UNSET, "low", "xhigh"),
    "user": (UNSET, "ann", "ann@example.com"),
    "metadata": (UNSET, Raw(b'{"a":"b"}')),
    "priority": (UNSET, 1),
    "timeout_s": (UNSET, 5.0),
    "stream": (False, True),
    "max_tokens_field": (UNSET, "max_tokens", "max_completion_tokens"),
    "optional": ((), ("temperature", "user", "logit_bias")),
}
SAMPLED: dict[str, tuple[object, ...]] = {
    "temperature": (UNSET, 0.5, 1.0, 1.5),
    "top_p": (UNSET, 0.5, 1.0),
    "top_k": (UNSET, 4, None),
    "max_tokens": (UNSET, 1, 500, 100_000),
    "stop": (UNSET, ("a",), ("a", "b", "c", "d", "e", "f"), ("\n",)),
    "logit_bias": (UNSET, {5: 1.0}),
    "n": (UNSET, 1, 2),
    "seed": (UNSET, 1),
}


def made_of(values: dict[str, object]) -> ChatRequest:
    """The request with these values, `dialect` among them."""
    values = {**values}
    dialect = values.pop("dialect", "")
    sampling = {name: values.pop(name) for name in SAMPLED if name in values}
    request = ChatRequest(model="m", sampling=Sampling(**sampling), **values)  # pyright: ignore[reportArgumentType]  as the tables say
    if not dialect:
        return request
    original = Original(dialect=str(dialect), fields={}, read=request)
    return replace(request, original=original)


@st.composite
def similar(draw: st.DrawFn) -> list[ChatRequest]:
    """Requests that differ in their texts and in few values, so that many values are equal."""
    tables = {
        **FIELDS,
        **SAMPLED,
        "dialect": ("", "anthropic", "openai-responses"),
    }
    names = draw(st.lists(st.sampled_from(sorted(tables)), max_size=4, unique=True))
    varied = draw(st.sampled_from(sorted(tables)))
    fixed = {name: draw(st.sampled_from(tables[name])) for name in names}
    return [
        made_of(
            {
                **fixed,
                varied: draw(st.sampled_from(tables[varied])),
                "messages": draw(st.sampled_from(CONVERSATIONS)),
            }
        )
        for _ in range(draw(st.integers(2, 8)))
    ]


def outcome(
    planner: Planner, model: str, request: Request, facts: RequestFacts, arm: Arm | None = None
) -> object:
    """All that a plan says, or the error."""
    enrolled = None if arm is None else Enrolment(arm=arm, participation=NO_PARTICIPATION)
    try:
        plan = planner.plan(planner.table.find(model), request, facts, enrolled)
    except InvalidRequest as exc:
        return exc.message, exc.param, exc.code
    return (
        plan.names,
        plan.ruled_out,
        plan.rule,
        plan.deadline_s,
        plan.limits,
        [
            (
                (one.name, one.model, one.request or request),
                (one.dropped, one.omitted, one.defaulted, one.repaired),
                (one.loss, one.undo, one.pending, one.changes, one.complete),
            )
            for one in plan.candidates
        ],
    )


MODELS = st.sampled_from([f"m{index}" for index in range(len(SETTINGS) * len(BACKENDS))])
FACTS = st.builds(
    RequestFacts,
    uniform_draw=st.sampled_from([0.1, 0.9]),
    caller=st.sampled_from(["", "team-a"]),
)


@given(MODELS, similar(), st.data())
@settings(max_examples=examples(1500), deadline=None)
def test_a_planner_that_has_seen_others_plans_as_a_new_one(
    runtime: Runtime, model: str, requests: list[ChatRequest], data: st.DataObject
) -> None:
    warm = Planner(runtime.table)

    for request in requests:
        facts = data.draw(FACTS)
        assert outcome(warm, model, request, facts) == outcome(
            Planner(runtime.table), model, request, facts
        )


@given(MODELS, similar(), st.data())
@settings(max_examples=examples(400), deadline=None)
def test_so_does_one_that_has_seen_other_variants(
    runtime: Runtime, model: str, requests: list[ChatRequest], data: st.DataObject
) -> None:
    first = runtime.table.find(model).backends[0]
    arms = (
        None,
        Arm(name="plain", backend=first),
        Arm(name="cold", backend=first, sampling={"temperature": 0.1, "top_k": 3}),
        Arm(name="brief", backend=first, system="Be brief."),
    )
    experiments = {model: ArmBackends(first.name)}
    warm = Planner(runtime.table, experiments)

    for request in requests:
        facts, arm = data.draw(FACTS), data.draw(st.sampled_from(arms))
        new = Planner(runtime.table, experiments)
        assert outcome(warm, model, request, facts, arm) == outcome(new, model, request, facts, arm)


def own(request: Request, aim: Aim) -> Repaired:
    """Name the client's key in the request, as a rule for its private fields does."""
    assert isinstance(request, ChatRequest)
    sent = replace(request, reasoning_effort=aim.tenant)
    return Repaired(request=sent, changed=("reasoning_effort",))


def planner_with(rule: Repair) -> Planner:
    """A planner for one backend with this rule."""
    supports = Supports(chat=frozenset({"temperature", "reasoning_effort"}), repairs=(rule,))
    route = Route(
        name="m",
        backends=(backend_with("a/m", supports),),
        weights=(1.0,),
        policy=POLICIES["in_order"],
    )
    return Planner(RouteTable([route], {}))


WARM = ChatRequest("m", said("hi"), Sampling(temperature=0.5))
OWN = Repair(name="own", source="", facts=SAMPLING, apply=own, example=WARM)


def test_what_one_client_is_sent_as_is_not_what_another_is() -> None:
    planner = planner_with(OWN)
    route = planner.table.find("m")

    sent = [
        planner.plan(route, WARM, RequestFacts(caller=caller)).candidates[0].request
        for caller in ("ann", "bob", "ann")
    ]

    efforts = [one.reasoning_effort for one in sent if isinstance(one, ChatRequest)]
    assert efforts == ["ann", "bob", "ann"]


def test_values_that_clients_choose_fill_no_memory() -> None:
    planner = planner_with(OWN)
    route = planner.table.find("m")
    held = [sys.getallocatedblocks()]

    for number in range(2 * MAX_CACHED):
        request = replace(WARM, sampling=Sampling(temperature=number / MAX_CACHED))
        planner.plan(route, request, RequestFacts())
        if number % MAX_CACHED == MAX_CACHED - 2:
            held.append(sys.getallocatedblocks())

    before, full, later = held
    assert later - before < 1.2 * (full - before)


REGISTRY = Registry(())


@pytest.mark.parametrize("adapter", REGISTRY.names)
def test_a_repair_for_fields_alone_does_the_same_whatever_the_texts(adapter: str) -> None:
    for rule in REGISTRY.build(adapter, contract_endpoint()).supports.repairs:
        assert isinstance(rule.example, ChatRequest)
        asking = [replace(rule.example, messages=one) for one in PLAIN]
        if any(rule.reads_text(facts_of(one)) for one in asking):
            continue
        found = [what_it_does(rule, one) for one in asking]
        assert found == found[:1] * len(found), rule.name


def what_it_does(rule: Repair, request: ChatRequest) -> object:
    """The result of a rule without the texts, which it may not change; `None` if there is none."""
    found = rule.apply(request, Aim(model=rule.example_model))
    if found is None:
        return None
    assert isinstance(found.request, ChatRequest)
    assert found.request.messages is request.messages, rule.name
    return replace(found, request=replace(found.request, messages=()))
