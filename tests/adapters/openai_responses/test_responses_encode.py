"""Chats as requests of the Responses API, of which the official client's types know every field."""

import json
from collections.abc import Sequence

import pytest
from msgspec import Raw

from strowger_gateway.adapters.base import Adapter
from strowger_gateway.schemas.messages import (
    OPENAI,
    FunctionTool,
    ImagePart,
    Message,
    OpaquePart,
    OpaqueTool,
    ResponseFormat,
    TextPart,
    Thought,
    ToolCall,
    ToolChoice,
)
from strowger_gateway.schemas.sampling import Sampling
from tests.adapters.chats import chat, refused_field
from tests.adapters.openai_responses.responses_doubles import adapter, sent, valid
from tests.gateway.backends.vendors.dialect import dicts

HELLO = Message(role="user", content="hello")
SCHEMA = Raw(b'{"type":"object","properties":{"at":{"type":"string"}}}')
FILE = OpaquePart(
    type="file",
    raw=Raw(b'{"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf,"}}'),
)
NONE: list[object] = []
PIXEL = "data:image/png;base64,iVBORw0KGgo="
CALLS = (ToolCall(id="c1", name="look", arguments='{"at":"A"}'),)


def test_a_conversation_becomes_items_that_the_official_types_know() -> None:
    asked = chat(
        Message(role="system", content="Be brief."),
        Message(role="user", content=(TextPart(text="What?"), ImagePart(url=PIXEL), FILE)),
        Message(
            role="assistant",
            content="I look.",
            thoughts=(Thought(text="Hm.", signature="rs_1.gAAA", format=OPENAI),),
            tool_calls=CALLS,
        ),
        Message(role="tool", tool_call_id="c1", content=(TextPart(text="19"),)),
    )

    assert valid(sent(asked))["input"] == [
        {"type": "message", "role": "system", "content": "Be brief."},
        {
            "type": "message",
            "role": "user",
            "content": [
                {"type": "input_text", "text": "What?"},
                {"type": "input_image", "image_url": PIXEL, "detail": "auto"},
                {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf,"},
            ],
        },
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": "Hm."}],
            "encrypted_content": "gAAA",
        },
        {"type": "message", "role": "assistant", "content": "I look."},
        {"type": "function_call", "call_id": "c1", "name": "look", "arguments": '{"at":"A"}'},
        {
            "type": "function_call_output",
            "call_id": "c1",
            "output": [{"type": "input_text", "text": "19"}],
        },
    ]


def test_settings_have_the_names_of_this_api() -> None:
    asked = chat(
        sampling=Sampling(temperature=0.5, top_p=0.5, max_tokens=99, logprobs=True, top_logprobs=3),
        tools=(
            FunctionTool(name="look", description="Look.", parameters=SCHEMA),
            FunctionTool(name="now", strict=True),
            OpaqueTool(type="web_search", raw=Raw(b'{"type":"web_search"}')),
        ),
        tool_choice=ToolChoice(mode="named", name="look"),
        parallel_tool_calls=False,
        response_format=ResponseFormat(type="json_schema", name="a", schema=SCHEMA, strict=True),
        reasoning_effort="low",
        user="u",
        metadata=Raw(b'{"run":"7"}'),
        extra={"verbosity": Raw(b'"low"'), "prompt_cache_key": Raw(b'"k"')},
        stream=True,
    )

    body = valid(sent(asked))

    schema = json.loads(bytes(SCHEMA))
    assert {name: one for name, one in body.items() if name not in ("input", "model")} == {
        "temperature": 0.5,
        "top_p": 0.5,
        "max_output_tokens": 99,
        "top_logprobs": 3,
        "include": [
            "message.output_text.logprobs",
            "reasoning.encrypted_content",
            "web_search_call.action.sources",
        ],
        "tools": [
            {
                "type": "function",
                "name": "look",
                "description": "Look.",
                "parameters": schema,
                "strict": False,
            },
            {
                "type": "function",
                "name": "now",
                "parameters": {"type": "object", "properties": {}},
                "strict": True,
            },
            {"type": "web_search"},
        ],
        "tool_choice": {"type": "function", "name": "look"},
        "parallel_tool_calls": False,
        "text": {
            "format": {"type": "json_schema", "name": "a", "schema": schema, "strict": True},
            "verbosity": "low",
        },
        "reasoning": {"effort": "low"},
        "user": "u",
        "metadata": {"run": "7"},
        "prompt_cache_key": "k",
        "store": False,
        "stream": True,
    }


@pytest.mark.parametrize(
    "name",
    ["openai", "azure", "vllm", "ollama", "lm-studio", "openrouter"],
)
def test_no_server_is_asked_to_store_an_answer(name: str) -> None:
    assert sent(chat(), adapter(f"{name}-responses"))["store"] is False


@pytest.mark.parametrize(
    ("model", "asks"),
    [
        ("o3", True),
        ("gpt-5.2", True),
        ("openai/gpt-5-mini", True),
        ("gpt-5.3-codex", True),
        ("gpt-4.1", False),
        ("gpt-5-chat-latest", False),
        ("gpt-4o", False),
    ],
)
def test_models_that_reason_are_asked_for_their_reasoning_in_encrypted_form(
    model: str, asks: bool
) -> None:
    wanted = ["reasoning.encrypted_content"] if asks else None

    assert sent(chat(), model=model).get("include") == wanted


def test_a_choice_among_several_tools_has_the_form_of_this_api() -> None:
    raw = Raw(
        b'{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":'
        b'[{"type":"function","function":{"name":"look"}}]}}'
    )
    asked = chat(
        tools=(FunctionTool(name="look", parameters=SCHEMA),),
        tool_choice=ToolChoice(mode="opaque", raw=raw),
    )

    assert sent(asked)["tool_choice"] == {
        "type": "allowed_tools",
        "mode": "required",
        "tools": [{"type": "function", "name": "look"}],
    }


THOUGHTS = (
    Thought(text="Mine.", signature="rs_1.gAAA", format=OPENAI),
    Thought(data="rs_2.gBBB", format=OPENAI),
    Thought(text="Claude's.", signature="c2ln"),
    Thought(text="Nobody's."),
)


@pytest.mark.parametrize(
    ("to", "read"),
    [
        (
            "openai-responses",
            [
                ("rs_1", [{"type": "summary_text", "text": "Mine."}], "gAAA", None),
                ("rs_2", NONE, "gBBB", None),
            ],
        ),
        (
            "vllm-responses",
            [
                ("rs_1_0", NONE, None, [{"type": "reasoning_text", "text": "Mine."}]),
                ("rs_1_1", NONE, None, [{"type": "reasoning_text", "text": "Claude's."}]),
                ("rs_1_2", NONE, None, [{"type": "reasoning_text", "text": "Nobody's."}]),
            ],
        ),
        (
            "ollama-responses",
            [
                ("rs_1_0", NONE, "Mine.", None),
                ("rs_1_1", NONE, "Claude's.", None),
                ("rs_1_2", NONE, "Nobody's.", None),
            ],
        ),
    ],
)
def test_each_server_gets_the_reasoning_that_it_reads(
    to: str, read: Sequence[tuple[object, ...]]
) -> None:
    said = Message(role="assistant", content="Yes.", thoughts=THOUGHTS)

    items = valid(sent(chat(HELLO, said, HELLO), adapter(to)))["input"]

    assert [
        (one["id"], one["summary"], one.get("encrypted_content"), one.get("content"))
        for one in dicts(items)
        if one["type"] == "reasoning"
    ] == read


AUDIO = OpaquePart(type="video", raw=Raw(b'{"type":"video"}'))
CUSTOM = OpaqueTool(type="custom", raw=Raw(b'{"type":"custom","custom":{"name":"x"}}'))


@pytest.mark.parametrize(
    ("to", "fields", "named"),
    [
        ("openai", {"messages": (Message(role="function", content="x"),)}, "messages[0].role"),
        (
            "openai",
            {"messages": (Message(role="user", content="x", name="a"),)},
            "messages[0].name",
        ),
        (
            "openai",
            {"messages": (Message(role="user", content=(AUDIO,)),)},
            "messages[0].content[0]",
        ),
        (
            "openai",
            {"messages": (Message(role="tool", content="x"),)},
            "messages[0].tool_call_id",
        ),
        ("openai", {"tools": (CUSTOM,)}, "tools[0].custom"),
        (
            "vllm",
            {"response_format": ResponseFormat(type="json_object")},
            "response_format.type",
        ),
        (
            "openai",
            {"extra": {"text": Raw(b'{"verbosity":"low"}'), "verbosity": Raw(b'"low"')}},
            "text.verbosity",
        ),
    ],
)
def test_what_the_api_cannot_express_is_refused_by_its_path(
    to: str, fields: dict[str, object], named: str
) -> None:
    backend: Adapter = adapter(f"{to}-responses")

    assert refused_field(backend, chat(**fields), "m") == named


def test_azure_gets_its_key_in_its_own_header() -> None:
    headers = dict(adapter("azure-responses").encode(chat(), "m").headers)

    assert headers["api-key"].startswith("sk-contract")
    assert "authorization" not in headers
