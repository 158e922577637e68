"""Requests are encoded for Gemini; test_gemini_sdk compares with Google's client."""

import json
from typing import cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, Raw, UnsetType

from strowger_gateway.adapters.capabilities import unsupported
from strowger_gateway.adapters.gemini.messages import SKIPPED
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.messages import GEMINI as GOOGLES
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
    Thought,
    ToolCall,
    ToolChoice,
)
from strowger_gateway.schemas.requests import ChatRequest, CompletionRequest, EmbeddingsRequest
from strowger_gateway.schemas.sampling import Sampling
from tests.adapters.chats import refused_field
from tests.adapters.gemini.gemini_doubles import (
    GEMINI,
    HELLO,
    MODEL,
    NEWER,
    STREAM,
    VERTEX_URL,
    WHOLE,
    Json,
    adapter,
    body,
    chat,
)

LOOK = FunctionTool(name="look")
CALL = ToolCall(id="c1", name="look", arguments='{"at": "home"}')
CALLED = Message(role="assistant", tool_calls=(CALL,))


def contents(request: ChatRequest, model: str = MODEL) -> list[Json]:
    return cast("list[Json]", body(request, model)["contents"])


def refused(request: ChatRequest, model: str = MODEL) -> str:
    return refused_field(GEMINI, request, model)


def seen(part: Part) -> ChatRequest:
    return chat(Message(role="user", content=(part,)))


@pytest.mark.parametrize(
    ("base_url", "model", "target", "header"),
    [
        (
            "https://generativelanguage.googleapis.com",
            MODEL,
            "/v1beta/models/gemini-2.5-flash",
            "x-goog-api-key",
        ),
        ("https://proxy.test/google/v1/", MODEL, "/google/v1/models/gemini-2.5-flash", None),
        ("https://x.test/v1beta", "tunedModels/ours-1", "/v1beta/tunedModels/ours-1", None),
        ("https://x.test/v1beta", "models/gemma-3", "/v1beta/models/gemma-3", None),
        ("https://x.test/v1beta", "../files?a:b", "/v1beta/models/..%2Ffiles%3Fa%3Ab", None),
        (
            VERTEX_URL,
            "gemini-2.5-flash@001",
            "/v1/projects/p/locations/l/publishers/google/models/gemini-2.5-flash@001",
            "authorization",
        ),
        (
            "https://aiplatform.googleapis.com/v1/publishers/google",
            MODEL,
            "/v1/publishers/google/models/gemini-2.5-flash",
            "x-goog-api-key",
        ),
    ],
)
def test_the_base_url_decides_how_to_address_google(
    base_url: str, model: str, target: str, header: str | None
) -> None:
    whole = adapter(base_url).encode(WHOLE, model)
    stream = adapter(base_url).encode(STREAM, model)

    assert whole.target == f"{target}:generateContent"
    assert stream.target == f"{target}:streamGenerateContent?alt=sse"
    assert (whole.stream, stream.stream) == (False, True)
    headers = dict(whole.headers)
    if header is not None:
        prefix = "Bearer " if header == "authorization" else ""
        assert headers[header] == f"{prefix}a-secret-key"
        assert not {"authorization", "x-goog-api-key"} - {header} & set(headers)


def test_the_smallest_chat_has_no_other_fields() -> None:
    assert body(WHOLE) == {"contents": [{"role": "user", "parts": [{"text": "hello"}]}]}


@pytest.mark.parametrize("model", [MODEL, NEWER])
def test_results_in_a_row_are_one_turn_with_the_names_of_their_calls(model: str) -> None:
    calls = tuple(
        ToolCall(id=f"c{place}", name=f"f{place}", arguments="{}", signature="c2ln")
        for place in range(3)
    )
    results = [
        Message(role="tool", tool_call_id=f"c{place}", content=text)
        for place, text in enumerate(("", "[1]", '{"a": null}'))
    ]

    *_, last = contents(chat(HELLO, Message(role="assistant", tool_calls=calls), *results), model)

    assert last["role"] == "user"
    assert [cast("Json", one["functionResponse"]) for one in cast("list[Json]", last["parts"])] == [
        {"id": "c0", "name": "f0", "response": {"result": ""}},
        {"id": "c1", "name": "f1", "response": {"result": "[1]"}},
        {"id": "c2", "name": "f2", "response": {"a": None}},
    ]


def test_an_id_that_is_used_again_is_the_later_calls() -> None:
    again = Message(role="assistant", tool_calls=(ToolCall(id="c1", name="hear", arguments=""),))
    result = Message(role="tool", tool_call_id="c1", content="x")

    said = contents(chat(HELLO, CALLED, result, again, result))

    names = [
        cast("Json", cast("list[Json]", said[place]["parts"])[0]["functionResponse"])["name"]
        for place in (2, 4)
    ]
    assert names == ["look", "hear"]


def test_an_image_that_the_model_made_is_sent_back_as_its_own() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
    fields = {"role": "assistant", "content": "Look:", "images": [{**image, "index": 0}]}
    raw = Raw(msgspec.json.encode(fields))

    said = contents(chat(HELLO, Message(role="assistant", content="Look:", raw=raw), HELLO))

    assert said[1]["parts"] == [
        {"text": "Look:"},
        {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}},
    ]


def test_thinking_that_another_vendor_encrypted_is_not_sent() -> None:
    thoughts = (Thought(data="AAAA"), Thought(text="hm"))

    said = contents(chat(HELLO, Message(role="assistant", content="yes", thoughts=thoughts)))

    assert said[1]["parts"] == [{"text": "hm", "thought": True}, {"text": "yes"}]


@pytest.mark.parametrize(
    ("messages", "field"),
    [
        ((HELLO, Message(role="tool", tool_call_id="c9", content="x")), "messages[1].tool_call_id"),
        (
            (Message(role="tool", tool_call_id="c1", content="x"), CALLED),
            "messages[0].tool_call_id",
        ),
        ((HELLO, Message(role="function", content="x")), "messages[1].name"),
        ((Message(role="user", name="Ann", content="x"),), "messages[0].name"),
        ((Message(role="system", content="x"),), "messages"),
        (
            (Message(role="assistant", tool_calls=(ToolCall(id="c", name="f", arguments="[]"),)),),
            "messages[0].tool_calls[0].function.arguments",
        ),
    ],
)
def test_unsupported_content_is_refused_by_its_path(messages: list[Message], field: str) -> None:
    assert refused(chat(*messages)) == field


@pytest.mark.parametrize(
    ("part", "path"),
    [
        (ImagePart(url="https://a.test/cat.png"), ".image_url.url"),
        (ImagePart(url="data:;base64,AAAA"), ".image_url.url"),
        (ImagePart(url="data:image/png,AAAA"), ".image_url.url"),
        (ImagePart(url="data:image/png;base64,AAAA", detail="high"), ".image_url.detail"),
        (AudioPart(data="AAAA", format="midi"), ".input_audio.format"),
        (OpaquePart(type="video_url", raw=Raw(b"{}")), ""),
        (OpaquePart(type="file", raw=Raw(b"{}")), ".file"),
        (OpaquePart(type="file", raw=Raw(b'{"file":{}}')), ".file.file_data"),
        (OpaquePart(type="file", raw=Raw(b'{"file":{"file_id":"f-1"}}')), ".file.file_id"),
        (
            OpaquePart(type="file", raw=Raw(b'{"file":{"file_url":"https://a.test/a.pdf"}}')),
            ".file.file_url",
        ),
    ],
)
def test_a_part_that_cannot_go_is_refused_by_its_path(part: Part, path: str) -> None:
    assert refused(seen(part)) == f"messages[0].content[0]{path}"


@pytest.mark.parametrize(
    ("url", "file"),
    [
        ("gs://b/cat.jpg", {"mimeType": "image/jpeg", "fileUri": "gs://b/cat.jpg"}),
        (
            "https://generativelanguage.googleapis.com/v1beta/files/abc",
            {"fileUri": "https://generativelanguage.googleapis.com/v1beta/files/abc"},
        ),
    ],
)
def test_images_that_google_stores_are_sent_by_address(url: str, file: Json) -> None:
    (said,) = contents(seen(ImagePart(url=url)))

    assert said["parts"] == [{"fileData": file}]


@pytest.mark.parametrize(
    ("file", "part"),
    [
        (
            b'{"filename":"a.pdf","file_data":"data:application/pdf;base64,JVBERi0="}',
            {"inlineData": {"mimeType": "application/pdf", "data": "JVBERi0="}},
        ),
        (
            b'{"file_url":"gs://b/film.mp4"}',
            {"fileData": {"mimeType": "video/mp4", "fileUri": "gs://b/film.mp4"}},
        ),
        (
            b'{"file_data":"https://youtu.be/x"}',
            {"fileData": {"fileUri": "https://youtu.be/x"}},
        ),
    ],
)
def test_a_file_is_sent_with_its_bytes_or_its_address(file: bytes, part: Json) -> None:
    raw = Raw(b'{"type":"file","file":' + file + b"}")

    (said,) = contents(seen(OpaquePart(type="file", raw=raw)))

    assert said["parts"] == [part]


def test_an_image_in_a_result_is_sent_next_to_it() -> None:
    picture = ImagePart(url="data:image/png;base64,AAAA")
    result = Message(role="tool", tool_call_id="c1", content=(TextPart(text="A cat:"), picture))

    *_, last = contents(chat(HELLO, CALLED, result))

    (part,) = cast("list[Json]", last["parts"])
    assert part["functionResponse"] == {
        "id": "c1",
        "name": "look",
        "response": {"result": "A cat:"},
        "parts": [{"inlineData": {"mimeType": "image/png", "data": "AAAA"}}],
    }


@pytest.mark.parametrize(
    ("model", "signature", "sent"),
    [
        (MODEL, "", None),
        (MODEL, "c2ln", "c2ln"),
        (NEWER, "", SKIPPED),
        (NEWER, "c2ln", "c2ln"),
        ("gemini-flash-latest", "", SKIPPED),
        ("gemma-3-27b-it", "", None),
    ],
)
def test_a_call_is_sent_back_with_its_proof(model: str, signature: str, sent: str | None) -> None:
    call = ToolCall(id="c1", name="look", arguments="{}", signature=signature)

    said = contents(chat(HELLO, Message(role="assistant", tool_calls=(call,))), model)

    (part,) = cast("list[Json]", said[1]["parts"])
    assert part.get("thoughtSignature") == sent


def test_each_signature_is_sent_back_to_where_it_was() -> None:
    turn = Message(
        role="assistant",
        content="Hi.",
        thoughts=(
            Thought(text="Hm.", signature="YQ==", format=GOOGLES),
            Thought(signature="Yg==", format=GOOGLES),
            Thought(signature="Yw==", format=GOOGLES),
        ),
    )

    (said,) = contents(chat(turn))

    assert said["parts"] == [
        {"text": "Hm.", "thought": True, "thoughtSignature": "YQ=="},
        {"text": "Hi.", "thoughtSignature": "Yg=="},
        {"text": "", "thoughtSignature": "Yw=="},
    ]


@pytest.mark.parametrize(
    ("model", "effort", "config"),
    [
        (MODEL, "none", {"thinkingBudget": 0}),
        (MODEL, "minimal", {"thinkingBudget": 1024, "includeThoughts": True}),
        (MODEL, "high", {"thinkingBudget": 24576, "includeThoughts": True}),
        (NEWER, "minimal", {"thinkingLevel": "MINIMAL", "includeThoughts": True}),
        (NEWER, "high", {"thinkingLevel": "HIGH", "includeThoughts": True}),
    ],
)
def test_an_effort_is_a_budget_or_a_level(model: str, effort: str, config: Json) -> None:
    sent = body(chat(reasoning_effort=effort), model)

    assert sent["generationConfig"] == {"thinkingConfig": config}


@pytest.mark.parametrize(("model", "effort"), [(NEWER, "none"), (MODEL, "xhigh")])
def test_an_effort_that_a_model_does_not_know_is_refused(model: str, effort: str) -> None:
    assert refused(chat(reasoning_effort=effort), model) == "reasoning_effort"


def test_the_highest_effort_is_a_level() -> None:
    sent = body(chat(reasoning_effort="xhigh"), NEWER)

    config = {"thinkingLevel": "XHIGH", "includeThoughts": True}
    assert sent["generationConfig"] == {"thinkingConfig": config}


@pytest.mark.parametrize(
    ("choice", "mode"),
    [
        (UNSET, "VALIDATED"),
        (ToolChoice(mode="auto"), "VALIDATED"),
        (ToolChoice(mode="none"), "NONE"),
    ],
)
def test_calls_of_a_strict_function_match_its_schema(
    choice: ToolChoice | UnsetType, mode: str
) -> None:
    tools = (FunctionTool(name="look", strict=True), FunctionTool(name="now"))

    sent = body(chat(tools=tools, tool_choice=choice))

    assert sent["toolConfig"] == {"functionCallingConfig": {"mode": mode}}


def test_googles_settings_of_tools_are_sent_next_to_the_tool_choice() -> None:
    told = Raw(b'{"includeServerSideToolInvocations":true}')
    twice = Raw(b'{"functionCallingConfig":{"mode":"AUTO"}}')
    required = ToolChoice(mode="required")

    sent = body(chat(tools=(LOOK,), tool_choice=required, extra={"toolConfig": told}))

    assert sent["toolConfig"] == {
        "includeServerSideToolInvocations": True,
        "functionCallingConfig": {"mode": "ANY"},
    }
    assert body(chat(extra={"toolConfig": twice}))["toolConfig"] == {
        "functionCallingConfig": {"mode": "AUTO"}
    }
    again = chat(tools=(LOOK,), tool_choice=required, extra={"toolConfig": twice})
    assert refused(again) == "toolConfig.functionCallingConfig"


def test_googles_own_parts_are_sent_back_unchanged_before_the_text() -> None:
    parts: list[Json] = [
        {"toolCall": {"id": "t", "toolType": "GOOGLE_SEARCH_WEB"}, "thoughtSignature": "c2ln"},
        {"toolResponse": {"id": "t", "response": {"a": 1}}},
        {"executableCode": {"code": "1"}, "x": 1},
    ]
    foreign: list[Json] = [{"fileData": {"fileUri": "gs://bucket/file"}}, {"x": 1}]
    turn = {"role": "assistant", "content": "Hi.", "gemini_parts": parts + foreign}

    (said,) = contents(
        chat(Message(role="assistant", content="Hi.", raw=Raw(json.dumps(turn).encode())))
    )

    assert said["parts"] == [*parts[:2], {"executableCode": {"code": "1"}}, {"text": "Hi."}]


def test_parts_of_googles_own_that_cannot_be_read_stay_behind() -> None:
    raw = Raw(b'{"role":"assistant","content":"Hi.","gemini_parts":"none"}')

    (said,) = contents(chat(Message(role="assistant", content="Hi.", raw=raw)))

    assert said["parts"] == [{"text": "Hi."}]


def test_thinking_is_requested_once() -> None:
    twice = chat(reasoning_effort="low", extra={"thinkingConfig": Raw(b"{}")})

    assert refused(twice) == "thinkingConfig"


def test_geminis_own_fields_go_where_they_belong() -> None:
    extra = {
        "safetySettings": Raw(b"[]"),
        "cachedContent": Raw(b'"cachedContents/1"'),
        "thinkingConfig": Raw(b'{"thinkingBudget":-1}'),
        "mediaResolution": Raw(b'"MEDIA_RESOLUTION_LOW"'),
        "imageConfig": Raw(b'{"aspectRatio":"16:9"}'),
        "speechConfig": Raw(b'{"languageCode":"de"}'),
        "serviceTier": Raw(b'"flex"'),
        "continuationToken": Raw(b'"YQ=="'),
    }

    sent = body(chat(extra=extra, sampling=Sampling(temperature=0)))

    assert sent["safetySettings"] == []
    assert sent["cachedContent"] == "cachedContents/1"
    assert (sent["serviceTier"], sent["continuationToken"]) == ("flex", "YQ==")
    assert sent["generationConfig"] == {
        "temperature": 0.0,
        "thinkingConfig": {"thinkingBudget": -1},
        "mediaResolution": "MEDIA_RESOLUTION_LOW",
        "imageConfig": {"aspectRatio": "16:9"},
        "speechConfig": {"languageCode": "de"},
    }


@pytest.mark.parametrize(
    ("choice", "config"),
    [
        (ToolChoice(mode="none"), {"mode": "NONE"}),
        (ToolChoice(mode="auto"), {"mode": "AUTO"}),
        (ToolChoice(mode="required"), {"mode": "ANY"}),
        (
            ToolChoice(mode="named", name="look"),
            {"mode": "ANY", "allowedFunctionNames": ["look"]},
        ),
    ],
)
def test_a_tool_choice_is_a_mode(choice: ToolChoice, config: Json) -> None:
    sent = body(chat(tools=(FunctionTool(name="look"),), tool_choice=choice))

    assert sent["toolConfig"] == {"functionCallingConfig": config}
    assert sent["tools"] == [{"functionDeclarations": [{"name": "look"}]}]


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tool_choice": ToolChoice(mode="opaque", raw=Raw(b"{}"))}, "tool_choice"),
        ({"response_format": ResponseFormat(type="opaque")}, "response_format"),
    ],
)
def test_forms_that_gemini_lacks_are_refused(fields: Json, param: str) -> None:
    assert refused(chat(**fields)) == param


def test_googles_own_tools_are_sent_next_to_the_functions() -> None:
    search = OpaqueTool(type="web_search", raw=Raw(b'{"type":"web_search"}'))
    maps = OpaqueTool(type="google_maps", raw=Raw(b'{"type":"google_maps","enableWidget":true}'))

    sent = body(chat(tools=(search, FunctionTool(name="look"), maps)))

    assert sent["tools"] == [
        {"functionDeclarations": [{"name": "look"}]},
        {"googleSearch": {}},
        {"googleMaps": {"enableWidget": True}},
    ]


@pytest.mark.parametrize(
    ("raw", "param"),
    [
        (b'{"type":"web_search","search_context_size":"low"}', "tools[0].search_context_size"),
        (b'{"type":"computer_use"}', "tools[0].type"),
    ],
)
def test_other_vendors_tools_are_refused_by_path(raw: bytes, param: str) -> None:
    kind = str(msgspec.json.decode(raw, type=dict[str, str])["type"])

    assert refused(chat(tools=(OpaqueTool(type=kind, raw=Raw(raw)),))) == param


def test_a_text_format_adds_nothing() -> None:
    assert body(chat(response_format=ResponseFormat(type="text"))) == body(WHOLE)


@given(
    stop=st.lists(st.text(min_size=1), min_size=6, max_size=8).map(tuple),
    n=st.integers(min_value=9, max_value=128),
)
def test_what_is_out_of_range_is_reported(stop: tuple[str, ...], n: int) -> None:
    request = chat(sampling=Sampling(stop=stop, n=n, seed=2**31, top_logprobs=21, temperature=2.5))

    fields = {one.field for one in unsupported(request, GEMINI.supports)}

    assert fields == {"stop", "n", "seed", "top_logprobs", "temperature"}


def test_a_bare_prompt_is_not_a_conversation() -> None:
    with pytest.raises(InvalidRequest, match="send messages"):
        GEMINI.encode(CompletionRequest(model="m", prompts=("hello",)), MODEL)


def test_tokens_are_not_text_to_embed() -> None:
    with pytest.raises(InvalidRequest, match="accepts only texts"):
        GEMINI.encode(EmbeddingsRequest(model="m", inputs=((1, 2),)), MODEL)
