"""Tools and reasoning through the service: required functions are called as their schemas say."""

import asyncio
import json
from collections.abc import AsyncGenerator

import jsonschema
import msgspec
import pytest
from msgspec import Raw

from strowger_gateway.local_engine.server.service import Service
from strowger_gateway.schemas.answers import Choice
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.events import ToolDelta
from strowger_gateway.schemas.messages import FunctionTool, ResponseFormat, Tool, ToolChoice
from strowger_gateway.schemas.requests import ChatRequest
from strowger_gateway.schemas.sampling import Sampling
from tests.local_engine.conftest import Folder
from tests.local_engine.guided.compiled_grammars import END, KNOWN
from tests.local_engine.services import ask, chat, config, events, serving

pytestmark = pytest.mark.anyio

WEATHER = {
    "type": "object",
    "properties": {
        "city": {"$ref": "#/$defs/city"},
        "days": {"type": "integer", "minimum": 1, "maximum": 14},
    },
    "required": ["city"],
    "additionalProperties": False,
    "$defs": {"city": {"enum": ["Köln", 'a "b"}']}},
}
TOOLS = (
    FunctionTool(name="get_weather", parameters=Raw(msgspec.json.encode(WEATHER))),
    FunctionTool(name="now"),
)
OPENING = KNOWN
"""Hermes' first marker: added tokens follow the tokenizer's own."""

CALL_AND_END = {OPENING: 40.0, END: 60.0}
REQUIRED = ToolChoice(mode="required")
WRITERS = ["hermes", "hermes-text", "mistral-calls", "llama-calls", "generic", "kimi-calls"]


@pytest.fixture(scope="module", params=WRITERS)
async def writer(folder: Folder, request: pytest.FixtureRequest) -> AsyncGenerator[Service, None]:
    """An untrained model for each format of calls."""
    async with serving(config(folder(str(request.param)), kv_cache=1 << 24)) as service:
        yield service


@pytest.fixture(scope="module")
async def hermes(folder: Folder) -> AsyncGenerator[Service, None]:
    async with serving(config(folder("hermes"), kv_cache=1 << 25)) as service:
        yield service


def calling(
    choice: ToolChoice | None = None,
    *,
    tools: tuple[Tool, ...] = TOOLS,
    seed: int = 1,
    parallel: bool = True,
    bias: dict[int, float] | None = None,
    max_tokens: int = 2000,
) -> ChatRequest:
    """At least one token: an empty answer would be allowed, too."""
    sampling = Sampling(seed=seed, min_tokens=1, max_tokens=max_tokens, logit_bias=bias or {})
    request = msgspec.structs.replace(
        chat("go on", sampling), tools=tools, parallel_tool_calls=parallel
    )
    return request if choice is None else msgspec.structs.replace(request, tool_choice=choice)


def check(choice: Choice) -> None:
    """Check that its calls are of available functions and match their schemas."""
    assert choice.finish is not None
    assert choice.finish.reason == "tool_calls"
    assert choice.tool_calls
    for call in choice.tool_calls:
        assert call.name in {"get_weather", "now"}
        schema = WEATHER if call.name == "get_weather" else {"maxProperties": 0}
        validator = jsonschema.Draft202012Validator(schema)
        validator.validate(json.loads(call.arguments))  # pyright: ignore[reportUnknownMemberType]  # jsonschema


async def test_a_call_that_is_required_is_made_as_its_schema_says(writer: Service) -> None:
    pending = [ask(writer, calling(REQUIRED, seed=seed, parallel=False)) for seed in range(6)]

    answers = [answer.choices[0] for answer in await asyncio.gather(*pending)]

    for choice in answers:
        check(choice)
        assert len(choice.tool_calls) == 1
        assert not choice.text


async def test_a_named_function_is_the_one_that_is_called(writer: Service) -> None:
    named = ToolChoice(mode="named", name="get_weather")

    answer = await ask(writer, calling(named, parallel=False))

    check(answer.choices[0])
    assert [call.name for call in answer.choices[0].tool_calls] == ["get_weather"]


async def test_several_calls_are_counted_from_zero_and_have_their_own_ids(
    hermes: Service,
) -> None:
    bias = {OPENING: 50.0}

    answer = await ask(hermes, calling(REQUIRED, bias=bias))
    stream = await events(hermes, calling(REQUIRED, bias=bias))

    calls = answer.choices[0].tool_calls
    check(answer.choices[0])
    assert len(calls) > 1
    assert len({call.id for call in calls}) == len(calls)
    begun = [event for event in stream if isinstance(event, ToolDelta) and event.name]
    assert [event.tool for event in begun] == list(range(len(calls)))
    assert [event.name for event in begun] == [call.name for call in calls]


async def test_calls_of_strict_functions_are_valid_if_the_model_chooses_to_call(
    hermes: Service,
) -> None:
    strict = tuple(msgspec.structs.replace(tool, strict=True) for tool in TOOLS)
    pending = [ask(hermes, calling(tools=strict, seed=s, bias=CALL_AND_END)) for s in range(6)]

    answers = [answer.choices[0] for answer in await asyncio.gather(*pending)]

    for choice in answers:
        check(choice)


async def test_one_call_at_most_where_parallel_calls_are_switched_off(hermes: Service) -> None:
    eager = {OPENING: 60.0, END: 40.0}
    pending = [ask(hermes, calling(seed=s, bias=eager, parallel=False)) for s in range(4)]

    answers = [answer.choices[0] for answer in await asyncio.gather(*pending)]

    assert [len(choice.tool_calls) for choice in answers] == [1, 1, 1, 1]


async def test_an_answer_is_a_call_or_matches_the_response_format(hermes: Service) -> None:
    form = ResponseFormat(type="opaque", raw=Raw(b'{"type":"regex","pattern":"no+"}'))
    pending = [
        ask(hermes, msgspec.structs.replace(calling(seed=s), response_format=form))
        for s in range(12)
    ]

    answers = [answer.choices[0] for answer in await asyncio.gather(*pending)]

    texts = [choice.text for choice in answers if not choice.tool_calls]
    assert 0 < len(texts) < 12
    assert all(text and text.rstrip("o") == "n" for text in texts)
    for choice in answers:
        if choice.tool_calls:
            check(choice)


async def test_a_call_cut_short_ends_by_length(hermes: Service) -> None:
    named = ToolChoice(mode="named", name="get_weather")

    answer = await ask(hermes, calling(named, max_tokens=35))

    finish = answer.choices[0].finish
    assert finish is not None
    assert finish.reason == "length"


async def test_tools_that_must_not_be_called_are_not_shown_to_the_model(hermes: Service) -> None:
    none = await ask(hermes, calling(ToolChoice(mode="none"), max_tokens=9))
    bare = await ask(hermes, calling(tools=(), max_tokens=9))

    assert none.choices[0].text == bare.choices[0].text


@pytest.mark.parametrize(
    ("tool", "field"),
    [
        (FunctionTool(name="f", parameters=Raw(b'{"type":"array"}')), "type"),
        (FunctionTool(name="f", parameters=Raw(b'{"properties":{"a":{"type":"x"}}}')), "x"),
        (FunctionTool(name="f", parameters=Raw(b'{"not":{}}'), strict=True), "not"),
    ],
)
async def test_parameters_that_cannot_be_matched_are_refused_by_their_place(
    hermes: Service, tool: FunctionTool, field: str
) -> None:
    with pytest.raises(InvalidRequest, match=field) as caught:
        await ask(hermes, calling(REQUIRED, tools=(TOOLS[1], tool)))

    assert caught.value.param == "tools[1].function.parameters"


async def test_an_answer_matches_its_format_after_the_reasoning(folder: Folder) -> None:
    form = ResponseFormat(type="opaque", raw=Raw(b'{"type":"regex","pattern":"[0-3]{4}"}'))
    closing = KNOWN + 1
    sampling = Sampling(seed=5, n=8, max_tokens=400, logit_bias={closing: 7.0})
    request = msgspec.structs.replace(chat("go on", sampling), response_format=form)
    async with serving(config(folder("opened"), kv_cache=1 << 24)) as service:
        answer = await ask(service, request)

    done = [choice for choice in answer.choices if choice.text is not None]
    assert any(choice.reasoning for choice in done)
    assert all(len(c.text or "") == 4 and set(c.text or "") <= set("0123") for c in done)
    assert answer.usage is not None
    assert answer.usage.reasoning_tokens
    assert answer.usage.completion_tokens is not None
    assert answer.usage.reasoning_tokens < answer.usage.completion_tokens
