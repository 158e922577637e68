"""Requests are encoded for Converse; unsupported ones are rejected."""

import json
from typing import cast

import msgspec
import pytest

from strowger_gateway.schemas.errors import (
    InvalidRequest,
)
from strowger_gateway.schemas.messages import (
    AudioPart,
    FunctionTool,
    ImagePart,
    Message,
    OpaquePart,
    OpaqueTool,
    Part,
    ResponseFormat,
    TextPart,
    ToolCall,
    ToolChoice,
)
from strowger_gateway.schemas.requests import ChatRequest, CompletionRequest, EmbeddingsRequest
from strowger_gateway.schemas.sampling import Sampling
from tests.adapters.bedrock.bedrock_doubles import BEDROCK, HELLO, answered, raw
from tests.adapters.chats import chat, only_choice
from tests.stand_ins.bedrock_server import (
    Json,
    used,
    whole,
)

WEATHER = FunctionTool(name="weather")
CALLED = Message(role="assistant", tool_calls=(ToolCall(id="a", name="weather", arguments="{}"),))
RESULT = Message(role="tool", tool_call_id="a", content="21")


def sent(request: ChatRequest | EmbeddingsRequest, model: str = "m") -> Json:
    return json.loads(BEDROCK.encode(request, model).body)


def turns(*messages: Message) -> list[Json]:
    return cast("list[Json]", sent(chat(*messages, tools=(WEATHER,)))["messages"])


def file(**fields: str) -> OpaquePart:
    return OpaquePart(type="file", raw=raw({"type": "file", "file": fields}))


def test_messages_of_one_side_become_one_turn() -> None:
    more = Message(role="user", content="And?")

    assert turns(HELLO, CALLED, RESULT, more, more)[2]["content"] == [
        {"toolResult": {"toolUseId": "a", "content": [{"text": "21"}]}},
        {"text": "And?"},
        {"text": "And?"},
    ]


def test_texts_of_white_space_are_omitted() -> None:
    parts = (TextPart(text=" \n"), TextPart(text="hello"))

    assert turns(Message(role="user", content=parts)) == [
        {"role": "user", "content": [{"text": "hello"}]}
    ]


def test_a_result_may_hold_an_image() -> None:
    picture = ImagePart(url="data:image/jpg;base64,AAAA")
    result = Message(role="tool", tool_call_id="a", content=(TextPart(text="See."), picture))

    assert turns(HELLO, CALLED, result)[2]["content"] == [
        {
            "toolResult": {
                "toolUseId": "a",
                "content": [
                    {"text": "See."},
                    {"image": {"format": "jpeg", "source": {"bytes": "AAAA"}}},
                ],
            }
        }
    ]


@pytest.mark.parametrize(("told", "status"), [(True, "error"), (False, "success")])
def test_a_tools_status_is_sent_with_its_result(told: bool, status: str) -> None:
    failed = msgspec.structs.replace(RESULT, raw=raw({"role": "tool", "is_error": told}))

    assert turns(HELLO, CALLED, failed)[2]["content"] == [
        {"toolResult": {"toolUseId": "a", "content": [{"text": "21"}], "status": status}}
    ]


def test_a_document_may_be_explained_and_cited() -> None:
    part = {
        "type": "file",
        "file": {"filename": "a.csv", "file_data": "data:text/csv;base64,AAAA"},
        "citations": {"enabled": True},
        "context": "Sales.",
    }

    assert turns(Message(role="user", content=(OpaquePart(type="file", raw=raw(part)),))) == [
        {
            "role": "user",
            "content": [
                {
                    "document": {
                        "format": "csv",
                        "name": "a",
                        "source": {"bytes": "AAAA"},
                        "citations": {"enabled": True},
                        "context": "Sales.",
                    }
                }
            ],
        }
    ]


def test_ids_of_other_vendors_are_replaced_equally_in_call_and_result() -> None:
    id = "call/" + "x" * 80
    calls = Message(role="assistant", tool_calls=(ToolCall(id=id, name="weather", arguments="{}"),))

    _, asked, told = turns(HELLO, calls, Message(role="tool", tool_call_id=id, content="21"))

    ((use,), (result,)) = (cast("list[dict[str, Json]]", one["content"]) for one in (asked, told))
    assert use["toolUse"]["toolUseId"] == result["toolResult"]["toolUseId"]
    assert len(str(use["toolUse"]["toolUseId"])) <= 64


def test_a_name_that_aws_would_refuse_comes_back_as_the_client_knows_it() -> None:
    name = "get weather/now.v1" + "x" * 60
    tools = (FunctionTool(name=name),)
    config = cast("dict[str, list[dict[str, Json]]]", sent(chat(tools=tools))["toolConfig"])
    wire = str(config["tools"][0]["toolSpec"]["name"])

    choice = only_choice(answered(whole("tool_use", used("a", wire, {})), tools=tools))

    assert len(wire) <= 64
    assert wire.replace("_", "").replace("-", "").isalnum()
    assert choice.tool_calls[0].name == name


def test_no_tool_may_be_used_where_there_are_none() -> None:
    assert "toolConfig" not in sent(chat(tools=(WEATHER,), tool_choice=ToolChoice(mode="none")))


@pytest.mark.parametrize(
    ("model", "fields"),
    [
        ("eu.anthropic.claude-x", {"top_k": 5}),
        ("us.amazon.nova-lite-v1:0", {"inferenceConfig": {"topK": 5}}),
        ("cohere.command-r-v1:0", {"k": 5}),
    ],
)
def test_top_k_has_each_models_own_name(model: str, fields: Json) -> None:
    request = chat(sampling=Sampling(top_k=5))

    assert sent(request, model)["additionalModelRequestFields"] == fields


def test_any_json_object_is_a_schema_of_one() -> None:
    body = sent(chat(response_format=ResponseFormat(type="json_object")))

    assert body["outputConfig"] == {
        "textFormat": {
            "type": "json_schema",
            "structure": {"jsonSchema": {"schema": '{"type":"object"}'}},
        }
    }


@pytest.mark.parametrize("where", ["part", "message"])
def test_a_cache_mark_with_its_time_becomes_a_block_behind(where: str) -> None:
    mark = raw({"cache_control": {"type": "ephemeral", "ttl": "1h"}})
    message = (
        Message(role="system", content="Be brief.", raw=mark)
        if where == "message"
        else Message(role="system", content=(TextPart(text="Be brief.", raw=mark),))
    )

    assert sent(chat(message, HELLO))["system"] == [
        {"text": "Be brief."},
        {"cachePoint": {"type": "default", "ttl": "1h"}},
    ]


def user(part: Part) -> ChatRequest:
    return chat(Message(role="user", content=(part,)))


NONE = ToolChoice(mode="none")
REFUSED: dict[str, tuple[ChatRequest, str]] = {
    "assistant-first": (chat(CALLED, RESULT, tools=(WEATHER,)), "messages"),
    "instructions-alone": (chat(Message(role="system", content="Be brief.")), "messages"),
    "empty-message": (chat(Message(role="user", content=" ")), "messages[0].content"),
    "name": (chat(Message(role="user", name="Ann", content="hi")), "messages[0].name"),
    "image-in-instructions": (
        chat(Message(role="system", content=(ImagePart(url="data:image/png;base64,AAAA"),)), HELLO),
        "messages[0].content[0]",
    ),
    "remote-image": (
        user(ImagePart(url="https://a.test/cat.png")),
        "messages[0].content[0].image_url.url",
    ),
    "image-type": (
        user(ImagePart(url="data:image/tiff;base64,AAAA")),
        "messages[0].content[0].image_url.url",
    ),
    "image-detail": (
        user(ImagePart(url="data:image/png;base64,AAAA", detail="high")),
        "messages[0].content[0].image_url.detail",
    ),
    "file-by-id": (user(file(file_id="file-1")), "messages[0].content[0].file.file_data"),
    "file-type": (
        user(file(file_data="data:application/zip;base64,AAAA")),
        "messages[0].content[0].file.file_data",
    ),
    "file-without-a-file": (
        user(OpaquePart(type="file", raw=raw({"type": "file"}))),
        "messages[0].content[0]",
    ),
    "result-status": (
        chat(
            HELLO,
            CALLED,
            msgspec.structs.replace(RESULT, raw=raw({"is_error": "yes"})),
            tools=(WEATHER,),
        ),
        "messages[2].is_error",
    ),
    "other-part": (
        user(OpaquePart(type="video", raw=raw({"type": "video"}))),
        "messages[0].content[0]",
    ),
    "cache-ttl": (
        user(TextPart(text="hi", raw=raw({"cache_control": {"type": "ephemeral", "ttl": "1d"}}))),
        "messages[0].content[0].cache_control",
    ),
    "arguments": (
        chat(
            HELLO,
            Message(role="assistant", tool_calls=(ToolCall(id="a", name="f", arguments="[1]"),)),
            RESULT,
            tools=(WEATHER,),
        ),
        "messages[1].tool_calls[0].function.arguments",
    ),
    "result-without-id": (
        chat(HELLO, Message(role="tool", content="21"), tools=(WEATHER,)),
        "messages[1].tool_call_id",
    ),
    "calls-without-tools": (chat(HELLO, CALLED, RESULT), "tools"),
    "calls-and-no-choice": (
        chat(HELLO, CALLED, RESULT, tools=(WEATHER,), tool_choice=NONE),
        "tool_choice",
    ),
    "opaque-choice": (
        chat(tools=(WEATHER,), tool_choice=ToolChoice(mode="opaque")),
        "tool_choice",
    ),
    "opaque-tool": (chat(tools=(OpaqueTool(type="x", raw=raw({"type": "x"})),)), "tools[0]"),
    "opaque-format": (chat(response_format=ResponseFormat(type="opaque")), "response_format"),
    "metadata-of-numbers": (chat(metadata=raw({"a": 1})), "metadata"),
    "user-twice": (chat(user="a", metadata=raw({"user": "b"})), "user"),
    "field-twice": (
        chat(sampling=Sampling(top_k=5), extra={"additionalModelRequestFields": raw({"top_k": 6})}),
        "additionalModelRequestFields.top_k",
    ),
    "fields-no-object": (
        chat(sampling=Sampling(top_k=5), extra={"additionalModelRequestFields": raw([1])}),
        "additionalModelRequestFields",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_converse_cannot_express_is_refused_by_its_path(case: str) -> None:
    request, field = REFUSED[case]

    with pytest.raises(InvalidRequest) as caught:
        BEDROCK.encode(request, "m")

    assert caught.value.param == field
    assert caught.value.message.startswith(field) or case == "user-twice"


def test_a_bare_prompt_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="accepts only conversations; send messages"):
        BEDROCK.encode(CompletionRequest(model="m", prompts=("a",)), "m")


@pytest.mark.parametrize(
    ("model", "said", "purpose"),
    [
        ("cohere.embed-v4:0", {}, "search_document"),
        ("cohere.embed-v4:0/search_query", {}, "search_query"),
        ("cohere.embed-v4:0/search_query", {"input_type": raw("clustering")}, "clustering"),
    ],
)
def test_vectors_of_cohere_are_for_the_purpose_that_client_or_operator_set(
    model: str, said: dict[str, msgspec.Raw], purpose: str
) -> None:
    request = EmbeddingsRequest(model="m", inputs=("a",), extra=said)

    outbound = BEDROCK.encode(request, model)

    assert outbound.target == "/model/cohere.embed-v4%3A0/invoke"
    assert json.loads(outbound.body) == {"texts": ["a"], "input_type": purpose}


def test_audio_is_sent_as_bytes() -> None:
    assert turns(Message(role="user", content=(AudioPart(data="AAAA", format="mp3"),))) == [
        {
            "role": "user",
            "content": [{"audio": {"format": "mp3", "source": {"bytes": "AAAA"}}}],
        }
    ]


NOVA_EMBEDDINGS = "amazon.nova-2-multimodal-embeddings-v1:0"


@pytest.mark.parametrize(
    ("model", "extra", "params"),
    [
        (NOVA_EMBEDDINGS, {}, {"embeddingPurpose": "GENERIC_INDEX"}),
        (f"{NOVA_EMBEDDINGS}/search_query", {}, {"embeddingPurpose": "GENERIC_RETRIEVAL"}),
        (NOVA_EMBEDDINGS, {"input_type": "clustering"}, {"embeddingPurpose": "CLUSTERING"}),
        (
            NOVA_EMBEDDINGS,
            {"embeddingPurpose": "TEXT_RETRIEVAL"},
            {"embeddingPurpose": "TEXT_RETRIEVAL"},
        ),
        (
            NOVA_EMBEDDINGS,
            {"truncate": "END"},
            {"text": {"truncationMode": "END", "value": "hi"}},
        ),
    ],
)
def test_novas_vectors_are_requested_in_novas_format(model: str, extra: Json, params: Json) -> None:
    request = EmbeddingsRequest(
        model="m",
        inputs=("hi",),
        dimensions=256,
        extra={name: raw(value) for name, value in extra.items()},
    )

    sent = BEDROCK.encode(request, model)

    assert sent.target == f"/model/{NOVA_EMBEDDINGS.replace(':', '%3A')}/invoke"
    assert json.loads(sent.body) == {
        "taskType": "SINGLE_EMBEDDING",
        "singleEmbeddingParams": {
            "embeddingPurpose": "GENERIC_INDEX",
            "embeddingDimension": 256,
            "text": {"truncationMode": "NONE", "value": "hi"},
            **params,
        },
    }


def test_novas_vectors_are_read_and_what_nova_lacks_is_refused() -> None:
    request = EmbeddingsRequest(model="m", inputs=("hi",))
    vector = {"embeddingType": "TEXT", "embedding": [0.5, -1.0], "truncatedCharLength": 2}
    strange = msgspec.structs.replace(request, extra={"normalize": raw(True)})
    image = msgspec.structs.replace(request, extra={"input_type": raw("image")})

    found = BEDROCK.embeddings(request, json.dumps({"embeddings": [vector]}).encode())

    assert found.vectors == ([0.5, -1.0],)
    for refused, param in ((strange, "normalize"), (image, "input_type")):
        with pytest.raises(InvalidRequest) as caught:
            BEDROCK.encode(refused, NOVA_EMBEDDINGS)
        assert caught.value.param == param


ADAPTIVE: Json = {"thinking": {"type": "adaptive"}}
DISABLED: Json = {"thinking": {"type": "disabled"}}


def budget(tokens: int) -> Json:
    return {"thinking": {"type": "enabled", "budget_tokens": tokens}}


@pytest.mark.parametrize(
    ("model", "effort", "additional", "word"),
    [
        ("us.anthropic.claude-3-7-sonnet-20250219-v1:0", "low", budget(2000), None),
        ("anthropic.claude-sonnet-4-20250514-v1:0", "minimal", budget(1024), None),
        ("eu.anthropic.claude-opus-4-1-20250805-v1:0", "high", budget(8000), None),
        ("global.anthropic.claude-haiku-4-5-20251001-v1:0", "none", DISABLED, None),
        ("us.anthropic.claude-opus-4-6-v1", "minimal", ADAPTIVE, "low"),
        ("anthropic.claude-sonnet-4-6", "xhigh", ADAPTIVE, "xhigh"),
        ("anthropic.claude-opus-5-v1:0", "none", DISABLED, None),
        ("openai.gpt-oss-20b-1:0", "minimal", {"reasoning_effort": "low"}, None),
        ("openai.gpt-oss-120b-1:0", "high", {"reasoning_effort": "high"}, None),
        (
            "us.amazon.nova-2-lite-v1:0",
            "medium",
            {"reasoningConfig": {"type": "enabled", "maxReasoningEffort": "medium"}},
            None,
        ),
        ("amazon.nova-2-lite-v1:0", "none", {"reasoningConfig": {"type": "disabled"}}, None),
        (
            "arn:aws:bedrock:eu-west-1:1:application-inference-profile/a1b2c3",
            "minimal",
            None,
            "low",
        ),
    ],
)
def test_effort_is_sent_in_the_format_of_the_models_family(
    model: str, effort: str, additional: Json | None, word: str | None
) -> None:
    body = sent(chat(reasoning_effort=effort, sampling=Sampling(max_tokens=10_000)), model)

    assert body.get("additionalModelRequestFields") == additional
    assert body.get("outputConfig") == (None if word is None else {"effort": word})


@pytest.mark.parametrize(
    ("model", "effort"),
    [
        ("anthropic.claude-3-5-sonnet-20241022-v2:0", "low"),
        ("anthropic.claude-opus-4-6-v1", "huge"),
        ("openai.gpt-oss-20b-1:0", "none"),
        ("openai.gpt-oss-20b-1:0", "max"),
        ("amazon.nova-2-lite-v1:0", "xhigh"),
        ("amazon.nova-lite-v1:0", "low"),
        ("us.meta.llama4-maverick-17b-instruct-v1:0", "low"),
        ("deepseek.r1-v1:0", "low"),
        ("m", "none"),
    ],
)
def test_effort_that_a_family_does_not_know_is_refused_by_name(model: str, effort: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        sent(chat(reasoning_effort=effort), model)

    assert caught.value.param == "reasoning_effort"


def test_a_budget_without_a_limit_is_of_what_every_such_model_can_generate() -> None:
    model = "anthropic.claude-sonnet-4-5-20250929-v1:0"

    body = sent(chat(reasoning_effort="medium"), model)

    assert body["additionalModelRequestFields"] == budget(16_000)
    with pytest.raises(InvalidRequest, match="max_tokens over 1024"):
        sent(chat(reasoning_effort="low", sampling=Sampling(max_tokens=1024)), model)


def test_thinking_is_requested_once() -> None:
    twice = chat(reasoning_effort="low", extra={"thinking": raw({"type": "adaptive"})})

    with pytest.raises(InvalidRequest) as caught:
        sent(twice, "anthropic.claude-opus-4-6-v1")

    assert caught.value.param == "thinking"
