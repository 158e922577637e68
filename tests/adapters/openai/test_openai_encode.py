"""Requests are encoded for servers of the OpenAI dialect."""

import msgspec
import pytest
from msgspec import Raw

from strowger_gateway.adapters.base import Endpoint
from strowger_gateway.adapters.openai.adapter import OpenAIAdapter
from strowger_gateway.adapters.openai.encode import message
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.messages import (
    AudioPart,
    FunctionTool,
    ImagePart,
    Message,
    OpaquePart,
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
    TokenRequest,
)
from strowger_gateway.schemas.sampling import Sampling
from strowger_gateway.schemas.secret import Secret
from tests.adapters.openai.openai_doubles import (
    CHAT,
    COMPLETION,
    HELLO,
    KEY,
    WHOLE_CHAT,
    body,
    openai,
    other,
    sampled,
)


def test_a_bare_chat_is_sent_with_nothing_added() -> None:
    assert body(other(), WHOLE_CHAT) == {
        "model": "m1",
        "messages": [{"role": "user", "content": "hello"}],
    }


def test_the_path_of_the_base_url_comes_first_and_its_query_last() -> None:
    adapter = openai("https://resource.test/openai/v1/?api-version=preview")

    target = adapter.encode(WHOLE_CHAT, "m1").target

    assert target == "/openai/v1/chat/completions?api-version=preview"


@pytest.mark.parametrize(
    ("request_", "target"),
    [
        (WHOLE_CHAT, "/v1/chat/completions"),
        (COMPLETION, "/v1/completions"),
        (EmbeddingsRequest(model="m", inputs=("x",)), "/v1/embeddings"),
    ],
)
def test_each_task_has_its_path(
    request_: ChatRequest | CompletionRequest | EmbeddingsRequest, target: str
) -> None:
    assert other().encode(request_, "m1").target == target


def test_the_key_is_a_bearer_token_and_without_a_key_there_is_no_header() -> None:
    headers = dict(openai().encode(WHOLE_CHAT, "m1").headers)
    bare = OpenAIAdapter(Endpoint(name="a", base_url="http://b.test")).encode(WHOLE_CHAT, "m1")

    assert headers["authorization"] == f"Bearer {KEY}"
    assert headers["content-type"] == headers["accept"] == "application/json"
    assert "authorization" not in dict(bare.headers)


def test_a_stream_is_requested_as_an_event_stream() -> None:
    outbound = openai().encode(CHAT, "m1")

    assert outbound.stream
    assert dict(outbound.headers)["accept"] == "text/event-stream"


def test_the_operators_headers_replace_ours_in_any_case() -> None:
    endpoint = Endpoint(
        name="a",
        base_url="http://b.test",
        key=Secret("k"),
        headers=(("Authorization", "Token t"), ("X-Team", "blue")),
    )

    headers = OpenAIAdapter(endpoint).encode(WHOLE_CHAT, "m1").headers

    assert [value for name, value in headers if name.lower() == "authorization"] == ["Token t"]
    assert ("x-team", "blue") in headers


def test_usage_is_always_requested_on_a_stream() -> None:
    assert body(other(), CHAT)["stream_options"] == {"include_usage": True}
    assert "stream_options" not in body(other(), WHOLE_CHAT)


def test_a_prompt_that_is_only_scored_requests_no_tokens() -> None:
    request = CompletionRequest(
        model="m", prompts=("x",), echo=True, sampling=Sampling(max_tokens=0, logprobs=True)
    )

    assert (body(other(), request)["max_tokens"], body(other(), request)["echo"]) == (0, True)


def test_stream_options_without_effect_are_omitted_for_complete_answers() -> None:
    request = msgspec.structs.replace(
        WHOLE_CHAT, extra={"stream_options": Raw(b'{"include_obfuscation":false}')}
    )

    assert "stream_options" not in body(other(), request)


def test_the_clients_own_stream_options_are_kept() -> None:
    request = msgspec.structs.replace(
        CHAT, extra={"stream_options": Raw(b'{"include_obfuscation":false}')}
    )

    assert body(other(), request)["stream_options"] == {
        "include_obfuscation": False,
        "include_usage": True,
    }


def test_unknown_fields_go_on_unchanged() -> None:
    request = msgspec.structs.replace(WHOLE_CHAT, extra={"x_new": Raw(b'{ "a":[1, null] }')})

    assert b'"x_new":{ "a":[1, null] }' in other().encode(request, "m1").body


def test_what_the_client_wrote_goes_on_verbatim() -> None:
    raw = Raw(b'{"role":"user","content":"hello","cache_control":{"type":"ephemeral"}}')
    tool = Raw(b'{"type":"function","function":{"name":"f"},"x":1}')
    request = ChatRequest(
        model="m",
        messages=(msgspec.structs.replace(HELLO, raw=raw),),
        tools=(FunctionTool(name="f", raw=tool), OpaqueTool(type="t", raw=Raw(b'{"type":"t"}'))),
        tool_choice=ToolChoice(mode="opaque", raw=Raw(b'{"type":"allowed_tools"}')),
        response_format=ResponseFormat(type="opaque", raw=Raw(b'{"type":"grammar"}')),
    )

    sent = other().encode(request, "m1").body

    assert bytes(raw) in sent
    assert b'"tools":[' + bytes(tool) + b',{"type":"t"}]' in sent
    assert b'"tool_choice":{"type":"allowed_tools"}' in sent
    assert b'"response_format":{"type":"grammar"}' in sent


def test_messages_of_our_own_making_are_written_out() -> None:
    turns = (
        Message(
            role="user",
            name="ann",
            content=(
                TextPart(text="see"),
                ImagePart(url="data:image/png;base64,AA", detail="low"),
                AudioPart(data="AA", format="wav"),
                OpaquePart(type="file", raw=Raw(b'{"type":"file","file":{}}')),
            ),
        ),
        Message(
            role="assistant",
            tool_calls=(ToolCall(id="c", name="f", arguments="{}"),),
            reasoning="hm",
            signature="sig",
        ),
        Message(role="tool", tool_call_id="c", content=""),
    )

    sent = body(other(), ChatRequest(model="m", messages=turns))["messages"]

    assert sent == [
        {
            "role": "user",
            "name": "ann",
            "content": [
                {"type": "text", "text": "see"},
                {
                    "type": "image_url",
                    "image_url": {"url": "data:image/png;base64,AA", "detail": "low"},
                },
                {"type": "input_audio", "input_audio": {"data": "AA", "format": "wav"}},
                {"type": "file", "file": {}},
            ],
        },
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
            ],
            "reasoning_content": "hm",
            "reasoning_signature": "sig",
        },
        {"role": "tool", "tool_call_id": "c", "content": ""},
    ]


def test_tools_and_formats_of_our_own_making_are_written_out() -> None:
    schema = Raw(b'{"type":"object"}')
    request = ChatRequest(
        model="m",
        messages=(HELLO,),
        tools=(FunctionTool(name="f", parameters=schema, strict=None), FunctionTool(name="g")),
        tool_choice=ToolChoice(mode="named", name="f"),
        response_format=ResponseFormat(type="json_schema", name="n", schema=schema, strict=True),
    )

    sent = body(other(), request)

    assert sent["tools"] == [
        {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}},
        {"type": "function", "function": {"name": "g"}},
    ]
    assert sent["tool_choice"] == {"type": "function", "function": {"name": "f"}}
    assert sent["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "n", "schema": {"type": "object"}, "strict": True},
    }


def test_the_clients_name_for_the_token_limit_is_kept() -> None:
    for name in ("max_tokens", "max_completion_tokens"):
        request = msgspec.structs.replace(sampled(max_tokens=9), max_tokens_field=name)
        for adapter in (openai(), other()):
            sent = body(adapter, request)
            assert sent[name] == 9
            assert len({"max_tokens", "max_completion_tokens"} & sent.keys()) == 1


def test_an_unnamed_token_limit_gets_the_name_that_the_server_takes() -> None:
    assert body(openai(), sampled(max_tokens=9))["max_completion_tokens"] == 9
    assert body(other(), sampled(max_tokens=9))["max_tokens"] == 9


def test_null_is_sent_as_nothing() -> None:
    request = sampled(max_tokens=None, top_k=None, seed=None)

    assert body(other(), request) == body(other(), WHOLE_CHAT)


def test_a_field_that_openai_lacks_is_not_sent_to_openai() -> None:
    request = sampled(top_k=5, temperature=0.5)

    assert "top_k" not in body(openai(), request)
    assert body(openai(), request)["temperature"] == 0.5
    assert body(other(), request)["top_k"] == 5


def test_seeds_may_use_all_64_bits() -> None:
    assert body(other(), sampled(seed=2**64 - 1))["seed"] == 2**64 - 1


def test_token_ids_of_a_bias_are_strings_on_the_wire() -> None:
    assert body(other(), sampled(logit_bias={50256: -100.0}))["logit_bias"] == {"50256": -100.0}


@pytest.mark.parametrize(
    ("prompts", "batch", "wire"),
    [
        (("a",), False, "a"),
        (("a",), True, ["a"]),
        (("a", "b"), True, ["a", "b"]),
        (((1, 2),), False, [1, 2]),
        (((1, 2), (3,)), True, [[1, 2], [3]]),
    ],
)
def test_prompts_keep_the_form_in_which_they_came(
    prompts: tuple[str | tuple[int, ...], ...], batch: bool, wire: object
) -> None:
    request = CompletionRequest(model="m", prompts=prompts, batch=batch)

    assert body(other(), request)["prompt"] == wire


@pytest.mark.parametrize(
    ("sampling", "logprobs"),
    [
        (Sampling(logprobs=True, top_logprobs=3), 3),
        (Sampling(logprobs=True), 0),
        (Sampling(logprobs=False), None),
        (Sampling(), None),
    ],
)
def test_completions_write_logprobs_as_a_number(sampling: Sampling, logprobs: int | None) -> None:
    request = CompletionRequest(model="m", prompts=("a",), sampling=sampling)

    sent = body(other(), request)

    assert sent.get("logprobs") == logprobs
    assert "top_logprobs" not in sent


def test_completions_keep_echo_suffix_and_best_of() -> None:
    request = CompletionRequest(
        model="m", prompts=("a",), echo=True, suffix="z", sampling=Sampling(best_of=3, max_tokens=0)
    )

    sent = body(openai(), request)

    assert sent == {
        "model": "m1",
        "prompt": "a",
        "echo": True,
        "suffix": "z",
        "best_of": 3,
        "max_tokens": 0,
    }


def test_base64_is_requested_only_where_it_is_surely_float32() -> None:
    request = EmbeddingsRequest(model="m", inputs=("a", "b"), batch=True, base64=True)

    official, vllm = (
        msgspec.json.decode(adapter.encode(request, "m1").body) for adapter in (openai(), other())
    )

    assert official == {"model": "m1", "input": ["a", "b"], "encoding_format": "base64"}
    assert vllm == {"model": "m1", "input": ["a", "b"]}


def test_a_token_request_is_refused_by_name() -> None:
    with pytest.raises(InvalidRequest, match="acme does not offer tokens"):
        openai().encode(TokenRequest(model="m", tokens=(1,)), "m1")


def test_the_proof_of_a_call_is_sent_back_where_google_reads_it() -> None:
    call = ToolCall(id="c1", name="look", arguments="{}", signature="c2ln")

    assert message(Message(role="assistant", tool_calls=(call,)))["tool_calls"] == [
        {
            "id": "c1",
            "type": "function",
            "function": {"name": "look", "arguments": "{}"},
            "extra_content": {"google": {"thought_signature": "c2ln"}},
        }
    ]
