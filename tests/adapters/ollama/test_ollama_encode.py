"""Requests are encoded for Ollama's native API."""

from typing import cast

import msgspec
import pytest
from msgspec import Raw

from strowger_gateway.adapters.base import Endpoint
from strowger_gateway.adapters.capabilities import unsupported
from strowger_gateway.adapters.ollama.adapter import OllamaAdapter
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.messages import (
    AudioPart,
    FunctionTool,
    ImagePart,
    Message,
    OpaqueTool,
    Part,
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
    TokenRequest,
)
from strowger_gateway.schemas.sampling import Sampling
from strowger_gateway.schemas.secret import Secret
from tests.adapters.chats import refused_field

OLLAMA = OllamaAdapter(Endpoint(name="ollama", base_url="http://gpu.test:11434"))
HELLO = Message(role="user", content="hello")
CHAT = ChatRequest(model="m", messages=(HELLO,))
TEXT = CompletionRequest(model="m", prompts=("def add(",))
SCHEMA = Raw(b'{"type":"object","properties":{"a":{"type":"integer"}}}')

Json = dict[str, object]


def body(request: Request) -> Json:
    return msgspec.json.decode(OLLAMA.encode(request, "llama3.2").body, type=Json)


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
    return refused_field(OLLAMA, request, "llama3.2")


def test_a_chat_always_sends_stream_and_forbids_truncation() -> None:
    assert body(CHAT) == {
        "model": "llama3.2",
        "messages": [{"role": "user", "content": "hello"}],
        "stream": False,
        "truncate": False,
        "shift": False,
    }
    assert chat(stream=True) == {"stream": True}


@pytest.mark.parametrize(
    ("field", "value", "name"),
    [
        ("max_tokens", 9, "num_predict"),
        ("temperature", 0.0, "temperature"),
        ("top_p", 0.5, "top_p"),
        ("top_k", 5, "top_k"),
        ("min_p", 0.25, "min_p"),
        ("typical_p", 0.5, "typical_p"),
        ("seed", 0, "seed"),
        ("presence_penalty", -1.5, "presence_penalty"),
        ("frequency_penalty", 0.5, "frequency_penalty"),
        ("repetition_penalty", 1.25, "repeat_penalty"),
    ],
)
def test_sampling_is_sent_in_the_options(field: str, value: object, name: str) -> None:
    assert sampled(**{field: value}) == {"options": {name: value}}


def test_stop_strings_replace_the_models_own_only_where_there_are_some() -> None:
    assert sampled(stop=("END", "\n")) == {"options": {"stop": ["END", "\n"]}}
    assert sampled(stop=()) == {}


def test_log_probabilities_are_requested_next_to_the_options() -> None:
    assert sampled(logprobs=True, top_logprobs=3) == {"logprobs": True, "top_logprobs": 3}
    assert sampled(logprobs=False) == {}


@pytest.mark.parametrize(
    ("effort", "think"),
    [("none", False), ("minimal", "low"), ("low", "low"), ("medium", "medium"), ("high", "high")],
)
def test_effort_is_the_level_of_thinking(effort: str, think: object) -> None:
    assert chat(reasoning_effort=effort) == {"think": think}


def test_an_effort_that_has_no_level_is_refused() -> None:
    assert refused(msgspec.structs.replace(CHAT, reasoning_effort="xhigh")) == "reasoning_effort"


@pytest.mark.parametrize(
    ("form", "sent"),
    [
        (ResponseFormat(type="text"), {}),
        (ResponseFormat(type="json_object"), {"format": "json"}),
        (
            ResponseFormat(type="json_schema", name="a", strict=True, schema=SCHEMA),
            {"format": {"type": "object", "properties": {"a": {"type": "integer"}}}},
        ),
        (ResponseFormat(type="json_schema", name="a"), {"format": "json"}),
    ],
)
def test_a_response_format_is_a_word_or_the_schema_itself(form: ResponseFormat, sent: Json) -> None:
    assert chat(response_format=form) == sent


def test_a_response_format_of_another_kind_is_refused() -> None:
    form = ResponseFormat(type="opaque", raw=Raw(b'{"type":"grammar"}'))

    assert refused(msgspec.structs.replace(CHAT, response_format=form)) == "response_format"


def test_tools_are_sent_as_they_were_written_and_no_tools_are_no_field() -> None:
    raw = Raw(b'{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}')
    plain = FunctionTool(name="g", description="G")

    sent = chat(tools=(FunctionTool(name="f", raw=raw), plain))

    assert sent["tools"] == [
        {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}},
        {"type": "function", "function": {"name": "g", "description": "G"}},
    ]
    assert chat(tools=()) == {}


def test_a_tool_that_is_not_a_function_is_refused() -> None:
    tools = (OpaqueTool(type="web_search", raw=Raw(b'{"type":"web_search"}')),)

    assert refused(msgspec.structs.replace(CHAT, tools=tools)) == "tools"


def test_a_tool_loop_comes_back_with_objects_for_arguments_and_the_functions_names() -> None:
    calls = (
        ToolCall(id="call_1", name="weather", arguments='{"city": "Bern"}'),
        ToolCall(id="call_2", name="clock", arguments=" "),
    )

    assert said(
        Message(role="developer", content="Be brief."),
        HELLO,
        Message(role="assistant", tool_calls=calls, reasoning="Two tools.", signature="theirs"),
        Message(role="tool", content="21 °C", tool_call_id="call_1"),
        Message(role="tool", content=(TextPart(text="12:"), TextPart(text="00")),
                tool_call_id="call_2"),
        Message(role="function", content="7", name="dice"),
        Message(role="tool", content="", tool_call_id="call_9"),
    ) == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "hello"},
        {
            "role": "assistant",
            "content": "",
            "thinking": "Two tools.",
            "tool_calls": [
                {"id": "call_1", "function": {"name": "weather", "arguments": {"city": "Bern"}}},
                {"id": "call_2", "function": {"name": "clock", "arguments": {}}},
            ],
        },
        {"role": "tool", "content": "21 °C", "tool_name": "weather", "tool_call_id": "call_1"},
        {"role": "tool", "content": "12:00", "tool_name": "clock", "tool_call_id": "call_2"},
        {"role": "tool", "content": "7", "tool_name": "dice"},
        {"role": "tool", "content": "", "tool_call_id": "call_9"},
    ]  # fmt: skip


@pytest.mark.parametrize("arguments", ["[1]", "{", '"text"', "nothing"])
def test_arguments_that_are_not_an_object_are_refused_by_their_path(arguments: str) -> None:
    calls = (ToolCall(id="call_1", name="f", arguments=arguments),)
    message = Message(role="assistant", tool_calls=calls)

    field = refused(ChatRequest(model="m", messages=(HELLO, message)))

    assert field == "messages[1].tool_calls[0].function.arguments"


def test_texts_of_a_message_become_one_and_images_are_sent_next_to_it() -> None:
    parts = (
        TextPart(text="What is "),
        ImagePart(url="data:image/png;base64,iVBORw0KGgo=", detail="auto"),
        TextPart(text="this?"),
        ImagePart(url="DATA:image/jpeg;charset=x;BASE64,/9j/"),
    )

    assert said(Message(role="user", content=parts)) == [
        {"role": "user", "content": "What is this?", "images": ["iVBORw0KGgo=", "/9j/"]}
    ]


@pytest.mark.parametrize(
    ("part", "field"),
    [
        (ImagePart(url="https://a.test/a.png"), "image_url.url"),
        (ImagePart(url="data:image/png,raw"), "image_url.url"),
        (ImagePart(url="data:image/png;base64"), "image_url.url"),
        (ImagePart(url="data:image/png;base64,"), "image_url.url"),
        (ImagePart(url="data:image/png;base64,AA==", detail="high"), "image_url.detail"),
    ],
)
def test_an_image_that_cannot_be_sent_is_refused_by_its_place(part: Part, field: str) -> None:
    message = Message(role="user", content=(TextPart(text="see"), part))

    found = refused(ChatRequest(model="m", messages=(message,)))

    assert found == f"messages[0].content[1].{field}"


def test_what_is_neither_text_nor_image_is_refused_and_so_is_a_speakers_name() -> None:
    heard = Message(role="user", content=(AudioPart(data="AA==", format="wav"),))
    named = Message(role="user", content="hi", name="ann")

    assert refused(ChatRequest(model="m", messages=(heard,))) == "messages[0].content[0]"
    assert refused(ChatRequest(model="m", messages=(HELLO, named))) == "messages[1].name"


def test_an_image_url_is_reported_so_that_the_router_picks_another_backend() -> None:
    message = Message(role="user", content=(ImagePart(url="https://a.test/a.png"),))

    (fault,) = unsupported(ChatRequest(model="m", messages=(message,)), OLLAMA.supports)

    assert fault.field == "messages.remote_image"
    assert "data: URI" in fault.reason


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"tool_choice": ToolChoice(mode="required")}, {"tool_choice"}),
        ({"tool_choice": ToolChoice(mode="auto")}, set[str]()),
        ({"parallel_tool_calls": False}, {"parallel_tool_calls"}),
        ({"sampling": Sampling(n=2, logit_bias={1: 2.0})}, {"n", "logit_bias"}),
        ({"sampling": Sampling(max_tokens=0)}, {"max_tokens"}),
        ({"sampling": Sampling(seed=-1)}, {"seed"}),
        ({"user": "ann"}, {"user"}),
        ({"extra": {"context": Raw(b"[1]")}}, {"context"}),
    ],
)
def test_what_ollama_cannot_do_is_reported_by_name(fields: Json, named: set[str]) -> None:
    request = msgspec.structs.replace(CHAT, **fields)

    assert {one.field for one in unsupported(request, OLLAMA.supports)} == named


def test_ollamas_own_fields_are_sent_and_win_over_the_defaults() -> None:
    extra = {
        "truncate": Raw(b"true"),
        "keep_alive": Raw(b'"1h"'),
        "think": Raw(b"true"),
        "options": Raw(b'{"num_ctx":8192,"mirostat":null}'),
    }

    sent = chat(extra=extra, sampling=Sampling(temperature=0.5))

    assert sent == {
        "truncate": True,
        "keep_alive": "1h",
        "think": True,
        "options": {"num_ctx": 8192, "mirostat": None, "temperature": 0.5},
    }


@pytest.mark.parametrize(
    ("extra", "field"),
    [
        ({"options": Raw(b'{"num_predict":3}')}, "options.num_predict"),
        ({"options": Raw(b"[1]")}, "options"),
        ({"think": Raw(b"true")}, "think"),
    ],
)
def test_fields_that_are_set_twice_are_refused(extra: dict[str, Raw], field: str) -> None:
    request = msgspec.structs.replace(
        CHAT, extra=extra, sampling=Sampling(max_tokens=5), reasoning_effort="low"
    )

    assert refused(request) == field


def test_a_completion_is_raw_and_its_thinking_part_of_the_text() -> None:
    assert body(TEXT) == {
        "model": "llama3.2",
        "prompt": "def add(",
        "stream": False,
        "truncate": False,
        "shift": False,
        "raw": True,
        "think": False,
    }
    assert OLLAMA.encode(TEXT, "m").target == "/api/generate"


def test_the_models_template_wraps_a_prompt_and_fills_in_the_middle() -> None:
    wrapped = body(msgspec.structs.replace(TEXT, template=True))
    filled = body(msgspec.structs.replace(TEXT, suffix="return c"))

    assert "raw" not in wrapped
    assert "think" not in wrapped
    assert "raw" not in filled
    assert filled["suffix"] == "return c"


@pytest.mark.parametrize("prompts", [("one", "two"), ((1, 2),), ("",)])
def test_prompts_that_cannot_be_continued_are_refused(prompts: tuple[str, ...]) -> None:
    assert refused(CompletionRequest(model="m", prompts=prompts)) == "prompt"


def test_inputs_to_embed_are_always_a_list() -> None:
    request = EmbeddingsRequest(model="m", inputs=("",), dimensions=64)

    outbound = OLLAMA.encode(request, "nomic")

    assert outbound.target == "/api/embed"
    assert msgspec.json.decode(outbound.body) == {
        "model": "nomic",
        "input": [""],
        "truncate": False,
        "dimensions": 64,
    }


def test_tokens_are_not_taken() -> None:
    assert refused(EmbeddingsRequest(model="m", inputs=((1, 2),))) == "input"
    with pytest.raises(InvalidRequest, match="ollama does not offer tokens"):
        OLLAMA.encode(TokenRequest(model="m", tokens=(1,)), "m")


@pytest.mark.parametrize(
    ("base_url", "target"),
    [
        ("http://localhost:11434", "/api/chat"),
        ("http://localhost:11434/v1", "/api/chat"),
        ("http://localhost:11434/api/", "/api/chat"),
        ("https://proxy.test/ollama", "/ollama/api/chat"),
    ],
)
def test_the_base_url_may_be_that_of_either_interface(base_url: str, target: str) -> None:
    adapter = OllamaAdapter(Endpoint(name="o", base_url=base_url))

    assert adapter.encode(CHAT, "m").target == target


def test_a_key_is_sent_if_there_is_one_and_a_stream_is_requested_as_lines() -> None:
    keyed = OllamaAdapter(
        Endpoint(name="o", base_url="https://ollama.com", key=Secret("k"), headers=(("x-a", "1"),))
    )

    whole = dict(keyed.encode(CHAT, "m").headers)
    streamed = keyed.encode(msgspec.structs.replace(CHAT, stream=True), "m")

    assert whole == {
        "authorization": "Bearer k",
        "content-type": "application/json",
        "accept": "application/json",
        "x-a": "1",
    }
    assert dict(streamed.headers)["accept"] == "application/x-ndjson"
    assert streamed.stream
    assert "authorization" not in dict(OLLAMA.encode(CHAT, "m").headers)
