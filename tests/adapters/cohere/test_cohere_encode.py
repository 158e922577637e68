"""Requests are encoded for Cohere's version 2."""

from typing import cast

import msgspec
import pytest
from msgspec import Raw

from strowger_gateway.adapters.base import Endpoint
from strowger_gateway.adapters.capabilities import unsupported
from strowger_gateway.adapters.cohere.adapter import CohereAdapter
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.messages import (
    AudioPart,
    FunctionTool,
    ImagePart,
    Message,
    OpaqueTool,
    ResponseFormat,
    TextPart,
    ToolCall,
    ToolChoice,
)
from strowger_gateway.schemas.requests import (
    ChatRequest,
    CompletionRequest,
    EmbeddingsRequest,
    Request,
)
from strowger_gateway.schemas.sampling import Sampling
from strowger_gateway.schemas.secret import Secret
from tests.adapters.chats import refused_field

COHERE = CohereAdapter(
    Endpoint(name="cohere", base_url="https://api.cohere.com", key=Secret("co-key"))
)
HELLO = Message(role="user", content="hello")
CHAT = ChatRequest(model="m", messages=(HELLO,))
VECTORS = EmbeddingsRequest(model="m", inputs=("one",))
SCHEMA = Raw(b'{"type":"object","properties":{"a":{"type":"integer"}}}')
LOOK = FunctionTool(name="look", parameters=SCHEMA)
CLOCK = FunctionTool(name="clock", description="Tells the time.", strict=True)

Json = dict[str, object]


def body(request: Request, model: str = "command-a") -> Json:
    return msgspec.json.decode(COHERE.encode(request, model).body, type=Json)


def chat(**fields: object) -> Json:
    """Return what these fields add to the smallest chat."""
    plain = body(CHAT)
    found = body(msgspec.structs.replace(CHAT, **fields))
    return {name: value for name, value in found.items() if plain.get(name) != value}


def sampled(**fields: object) -> Json:
    return chat(sampling=msgspec.structs.replace(Sampling(), **fields))


def said(*messages: Message) -> list[Json]:
    return cast("list[Json]", body(ChatRequest(model="m", messages=messages))["messages"])


def refused(request: Request) -> str:
    return refused_field(COHERE, request, "command-a")


def test_the_smallest_chat_has_the_field_stream() -> None:
    outbound = COHERE.encode(CHAT, "command-a")

    assert outbound.target == "/v2/chat"
    assert dict(outbound.headers)["authorization"] == "Bearer co-key"
    assert body(CHAT) == {
        "model": "command-a",
        "messages": [{"role": "user", "content": "hello"}],
        "stream": False,
    }
    assert chat(stream=True) == {"stream": True}


@pytest.mark.parametrize(
    ("fields", "sent"),
    [
        ({"max_tokens": 9}, {"max_tokens": 9}),
        ({"temperature": 0.0}, {"temperature": 0.0}),
        ({"top_p": 0.5}, {"p": 0.5}),
        ({"top_p": 1.0}, {"p": 0.99}),
        ({"top_p": 0.995}, {"p": 0.99}),
        ({"top_k": 5}, {"k": 5}),
        ({"seed": 2**64 - 1}, {"seed": 2**64 - 1}),
        ({"stop": ("END",)}, {"stop_sequences": ["END"]}),
        ({"stop": ()}, {}),
        ({"presence_penalty": 0.5}, {"presence_penalty": 0.5}),
        ({"frequency_penalty": 1.0}, {"frequency_penalty": 1.0}),
        ({"logprobs": True}, {"logprobs": True}),
    ],
)
def test_sampling_has_coheres_names(fields: Json, sent: Json) -> None:
    assert sampled(**fields) == sent


@pytest.mark.parametrize(
    "fields",
    [
        {"presence_penalty": -0.5},
        {"frequency_penalty": 1.5},
        {"top_k": 501},
        {"top_p": 0.001},
        {"stop": ("a",) * 6},
        {"seed": -1},
        {"n": 2},
        {"logit_bias": {1: 2.0}},
        {"top_logprobs": 2},
        {"min_p": 0.5},
    ],
)
def test_what_cohere_cannot_do_is_reported_by_name(fields: Json) -> None:
    request = msgspec.structs.replace(CHAT, sampling=msgspec.structs.replace(Sampling(), **fields))

    assert [one.field for one in unsupported(request, COHERE.supports)] == list(fields)


@pytest.mark.parametrize(
    ("effort", "thinking"),
    [
        ("none", {"type": "disabled"}),
        ("low", {"type": "enabled", "token_budget": 1024}),
        ("medium", {"type": "enabled", "token_budget": 4096}),
        ("high", {"type": "enabled"}),
    ],
)
def test_effort_is_a_budget_for_thinking(effort: str, thinking: Json) -> None:
    assert chat(reasoning_effort=effort) == {"thinking": thinking}


def test_effort_that_is_unknown_or_given_twice_is_refused() -> None:
    extra = {"thinking": Raw(b'{"type":"enabled","token_budget":9}')}

    assert chat(extra=extra) == {"thinking": {"type": "enabled", "token_budget": 9}}
    assert refused(msgspec.structs.replace(CHAT, reasoning_effort="most")) == "reasoning_effort"
    twice = msgspec.structs.replace(CHAT, reasoning_effort="low", extra=extra)
    assert refused(twice) == "thinking"


def test_a_schema_is_sent_with_the_type_for_objects() -> None:
    form = ResponseFormat(type="json_schema", name="a", strict=True, schema=SCHEMA)

    assert chat(response_format=form) == {
        "response_format": {
            "type": "json_object",
            "json_schema": {"type": "object", "properties": {"a": {"type": "integer"}}},
        }
    }
    assert chat(response_format=ResponseFormat(type="json_object")) == {
        "response_format": {"type": "json_object"}
    }
    assert chat(response_format=ResponseFormat(type="text")) == {}


@pytest.mark.parametrize(
    "beside", [{"tools": (LOOK,)}, {"extra": {"documents": Raw(b'["a"]')}}]
)  # fmt: skip
def test_a_response_format_excludes_tools_and_documents(beside: Json) -> None:
    form = ResponseFormat(type="json_object")

    assert refused(msgspec.structs.replace(CHAT, response_format=form, **beside)) == (
        "response_format"
    )


def test_a_response_format_of_another_kind_is_refused() -> None:
    form = ResponseFormat(type="opaque", raw=Raw(b'{"type":"regex"}'))

    assert refused(msgspec.structs.replace(CHAT, response_format=form)) == "response_format"


def test_tools_always_have_parameters_and_one_switch_for_strictness() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    look = {"type": "function", "function": {"name": "look", "parameters": schema}}

    assert chat(tools=(LOOK,)) == {"tools": [look]}
    assert chat(tools=(LOOK, CLOCK)) == {
        "tools": [
            look,
            {
                "type": "function",
                "function": {
                    "name": "clock",
                    "description": "Tells the time.",
                    "parameters": {"type": "object", "properties": {}},
                },
            },
        ],
        "strict_tools": True,
    }
    assert chat(tools=()) == {}


@pytest.mark.parametrize(
    ("choice", "word", "names"),
    [
        (ToolChoice(mode="auto"), None, ["look", "clock"]),
        (ToolChoice(mode="none"), "NONE", ["look", "clock"]),
        (ToolChoice(mode="required"), "REQUIRED", ["look", "clock"]),
        (ToolChoice(mode="named", name="clock"), "REQUIRED", ["clock"]),
    ],
)
def test_a_named_tool_is_the_only_one(
    choice: ToolChoice, word: str | None, names: list[str]
) -> None:
    sent = chat(tools=(LOOK, CLOCK), tool_choice=choice)

    assert sent.get("tool_choice") == word
    functions = [cast("Json", one["function"]) for one in cast("list[Json]", sent["tools"])]
    assert [one["name"] for one in functions] == names


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"tool_choice": ToolChoice(mode="named", name="nobody")}, "tool_choice"),
        ({"tool_choice": ToolChoice(mode="opaque", raw=Raw(b"{}"))}, "tool_choice"),
        ({"tools": (), "tool_choice": ToolChoice(mode="required")}, "tool_choice"),
        ({"tools": (OpaqueTool(type="search", raw=Raw(b"{}")),)}, "tools"),
    ],
)
def test_a_choice_that_cannot_be_made_is_refused(fields: Json, field: str) -> None:
    request = msgspec.structs.replace(CHAT, **{"tools": (LOOK,), **fields})

    assert refused(request) == field


def test_a_tool_loop_comes_back_with_its_plan() -> None:
    calls = (
        ToolCall(id="look_1", name="look", arguments='{"at": "x"}'),
        ToolCall(id="clock_2", name="clock", arguments=""),
    )

    assert said(
        Message(role="developer", content="Be brief."),
        Message(role="assistant", tool_calls=calls, reasoning="I will look."),
        Message(role="tool", content="21", tool_call_id="look_1"),
        Message(role="tool", content=(TextPart(text="12:00"),), tool_call_id="clock_2"),
    ) == [
        {"role": "system", "content": "Be brief."},
        {
            "role": "assistant",
            "tool_plan": "I will look.",
            "tool_calls": [
                {
                    "id": "look_1",
                    "type": "function",
                    "function": {"name": "look", "arguments": '{"at": "x"}'},
                },
                {
                    "id": "clock_2",
                    "type": "function",
                    "function": {"name": "clock", "arguments": "{}"},
                },
            ],
        },
        {"role": "tool", "content": "21", "tool_call_id": "look_1"},
        {"role": "tool", "content": [{"type": "text", "text": "12:00"}], "tool_call_id": "clock_2"},
    ]


def test_thinking_that_is_sent_back_is_the_first_part_of_its_message() -> None:
    parts = (TextPart(text="a"), TextPart(text="b"))

    assert said(
        Message(role="assistant", content="4", reasoning="A sum."),
        Message(role="assistant", content=parts, reasoning="Hm."),
    ) == [
        {
            "role": "assistant",
            "content": [{"type": "thinking", "thinking": "A sum."}, {"type": "text", "text": "4"}],
        },
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Hm."},
                {"type": "text", "text": "a"},
                {"type": "text", "text": "b"},
            ],
        },
    ]


def test_images_are_sent_by_address_and_with_their_bytes() -> None:
    parts = (
        TextPart(text="see"),
        ImagePart(url="https://a.test/a.png", detail="low"),
        ImagePart(url="data:image/png;base64,AA=="),
    )

    (message,) = said(Message(role="user", content=parts))

    assert message["content"] == [
        {"type": "text", "text": "see"},
        {"type": "image_url", "image_url": {"url": "https://a.test/a.png", "detail": "low"}},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}},
    ]


@pytest.mark.parametrize(
    ("message", "field"),
    [
        (Message(role="function", name="f", content="1"), "messages[0].role"),
        (Message(role="user", name="ann", content="hi"), "messages[0].name"),
        (Message(role="tool", content="1"), "messages[0].tool_call_id"),
        (
            Message(role="user", content=(AudioPart(data="AA==", format="wav"),)),
            "messages[0].content[0]",
        ),
    ],
)
def test_unsupported_message_fields_are_refused_by_their_path(message: Message, field: str) -> None:
    assert refused(ChatRequest(model="m", messages=(message,))) == field


def test_coheres_own_fields_are_sent_unchanged() -> None:
    extra = {"documents": Raw(b'[{"data":{"t":"x"}}]'), "safety_mode": Raw(b'"STRICT"')}

    assert not unsupported(msgspec.structs.replace(CHAT, extra=extra), COHERE.supports)
    assert chat(extra=extra) == {"documents": [{"data": {"t": "x"}}], "safety_mode": "STRICT"}


def test_texts_to_embed_are_for_storing_and_never_cut_by_default() -> None:
    assert body(VECTORS, "embed-v4.0") == {
        "model": "embed-v4.0",
        "input_type": "search_document",
        "texts": ["one"],
        "embedding_types": ["float"],
        "truncate": "NONE",
    }
    extra = {"input_type": Raw(b'"clustering"'), "truncate": Raw(b'"END"')}
    asked = body(
        msgspec.structs.replace(VECTORS, dimensions=256, extra=extra), "embed-v4.0/search_query"
    )
    assert asked["input_type"] == "clustering"
    assert asked["truncate"] == "END"
    assert asked["output_dimension"] == 256


@pytest.mark.parametrize(
    ("model", "name", "purpose"),
    [
        ("embed-v4.0/search_query", "embed-v4.0", "search_query"),
        ("team/embed/classification", "team/embed", "classification"),
        ("team/embed", "team/embed", "search_document"),
    ],
)
def test_the_operator_sets_the_purpose_of_vectors_in_the_model(
    model: str, name: str, purpose: str
) -> None:
    sent = body(VECTORS, model)

    assert (sent["model"], sent["input_type"]) == (name, purpose)


def test_inputs_that_one_request_cannot_have_are_refused() -> None:
    assert refused(EmbeddingsRequest(model="m", inputs=("x",) * 97)) == "input"
    assert refused(EmbeddingsRequest(model="m", inputs=((1, 2),))) == "input"
    assert len(cast("list[str]", body(EmbeddingsRequest(model="m", inputs=("x",) * 96))["texts"]))


def test_completions_are_not_offered() -> None:
    with pytest.raises(InvalidRequest, match="cohere does not offer completion"):
        COHERE.encode(CompletionRequest(model="m", prompts=("x",)), "m")
    with pytest.raises(InvalidRequest, match="cohere does not offer completion"):
        COHERE.decoder(CompletionRequest(model="m", prompts=("x",)))


@pytest.mark.parametrize(
    "base_url", ["https://a.test/co", "https://a.test/co/v1", "https://a.test/co/v2/"]
)
def test_a_version_in_the_base_url_is_ignored(base_url: str) -> None:
    adapter = CohereAdapter(Endpoint(name="c", base_url=base_url))

    outbound = adapter.encode(CHAT, "m")

    assert outbound.target == "/co/v2/chat"
    assert "authorization" not in dict(outbound.headers)
