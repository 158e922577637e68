"""Claude on Vertex AI: what is sent where, what is refused by name, and errors of two vendors."""

import json
from collections.abc import Awaitable, Callable

import msgspec
import pytest
from anthropic.lib.vertex import AsyncAnthropicVertex
from anthropic.types import MessageParam, ToolParam
from msgspec import UNSET

from strowger_gateway.adapters.anthropic.vertex import VERTEX, VertexAnthropicAdapter
from strowger_gateway.adapters.base import Endpoint
from strowger_gateway.schemas.errors import (
    GatewayError,
    UpstreamBusy,
    UpstreamError,
    UpstreamFailed,
    UpstreamOverloaded,
    UpstreamRefused,
    UpstreamRejected,
)
from strowger_gateway.schemas.messages import (
    FunctionTool,
    Message,
    OpaquePart,
    OpaqueTool,
    ToolChoice,
)
from strowger_gateway.schemas.requests import ChatRequest, EmbeddingsRequest
from strowger_gateway.schemas.secret import Secret
from tests.adapters.anthropic.anthropic_doubles import Json, chat, file, raw, user
from tests.adapters.chats import refused_field
from tests.adapters.traffic import fixture
from tests.stand_ins.provider import Answer, Received, provider

pytestmark = pytest.mark.anyio

PROJECT = "/v1/projects/p/locations/europe-west1/publishers/anthropic"
MODEL = "claude-sonnet-4-5@20250929"


def vertex(
    url: str = f"https://europe-west1-aiplatform.googleapis.com{PROJECT}",
) -> VertexAnthropicAdapter:
    return VertexAnthropicAdapter(
        Endpoint(name="claude", base_url=url, key=Secret("ya29.0123456789"))
    )


CLAUDE = vertex()
HELLO: MessageParam = {"role": "user", "content": "hello"}
SCHEMA: dict[str, object] = {"type": "object", "properties": {"city": {"type": "string"}}}
WEATHER: ToolParam = {"name": "weather", "description": "Look out.", "input_schema": SCHEMA}
OUR_WEATHER = FunctionTool(name="weather", description="Look out.", parameters=raw(SCHEMA))

Ask = Callable[[AsyncAnthropicVertex], Awaitable[object]]


async def ask_chat(sdk: AsyncAnthropicVertex) -> object:
    return await sdk.messages.create(model=MODEL, max_tokens=2000, messages=[HELLO])


async def ask_stream(sdk: AsyncAnthropicVertex) -> object:
    return await sdk.messages.create(model=MODEL, max_tokens=2000, messages=[HELLO], stream=True)


async def ask_with_tools_system_thinking(sdk: AsyncAnthropicVertex) -> object:
    return await sdk.messages.create(
        model="claude-opus-4-8",
        max_tokens=2000,
        messages=[HELLO],
        system="Be kind.",
        tools=[WEATHER],
        tool_choice={"type": "any"},
        thinking={"type": "adaptive"},
        output_config={"effort": "high"},
    )


async def ask_beta(sdk: AsyncAnthropicVertex) -> object:
    return await sdk.beta.messages.create(
        model=MODEL,
        max_tokens=2000,
        messages=[{"role": "user", "content": "hello"}],
        betas=["context-management-2025-06-27"],
        context_management={"edits": [{"type": "clear_tool_uses_20250919"}]},
    )


async def ask_count(sdk: AsyncAnthropicVertex) -> object:
    return await sdk.messages.count_tokens(model=MODEL, messages=[HELLO], tools=[WEATHER])


ASKED: dict[str, tuple[Ask, ChatRequest]] = {
    "chat": (ask_chat, chat()),
    "stream": (ask_stream, chat(stream=True)),
    "tools, system, thinking": (
        ask_with_tools_system_thinking,
        chat(
            Message(role="system", content="Be kind."),
            Message(role="user", content="hello"),
            tools=(OUR_WEATHER,),
            tool_choice=ToolChoice(mode="required"),
            reasoning_effort="high",
        ),
    ),
    "beta": (
        ask_beta,
        chat(
            extra={
                "anthropic-beta": raw("context-management-2025-06-27"),
                "context_management": raw({"edits": [{"type": "clear_tool_uses_20250919"}]}),
            }
        ),
    ),
    "count": (ask_count, chat(tools=(OUR_WEATHER,))),
}


def meaning(body: Json) -> Json:
    """Normalise: a string equals one block of text, an absent `stream` equals false."""

    def told(one: Json) -> Json:
        for name in ("content", "system"):
            if isinstance(text := one.get(name), str):
                one = {**one, name: [{"type": "text", "text": text}]}
        return {name: value for name, value in one.items() if value is not False}

    return json.loads(json.dumps(body), object_hook=told)


@pytest.mark.vendor_refuses("anthropic-thinking-choice", because="its client sends it")
@pytest.mark.parametrize("name", ASKED)
async def test_anthropics_client_for_vertex_and_the_adapter_send_the_same(name: str) -> None:
    ask, request = ASKED[name]

    async def answers(received: Received, answer: Answer) -> None:
        if received.path.endswith("count-tokens:rawPredict"):
            await answer.json({"input_tokens": 9})
            return
        case = fixture("anthropic/chat-nothing-to-add")
        await answer.body(case.body, "application/json")

    async with (
        provider(answers) as server,
        AsyncAnthropicVertex(
            region="europe-west1",
            project_id="p",
            access_token="ya29.0123456789",
            base_url=f"{server.origin}/v1",
            max_retries=0,
        ) as sdk,
    ):
        await ask(sdk)

    (theirs,) = server.requests
    model = "claude-opus-4-8" if "thinking" in name else MODEL
    counting = name == "count"
    sent = CLAUDE.encode_count(request, model) if counting else CLAUDE.encode(request, model)
    headers = dict(sent.headers)
    assert sent.target == theirs.path.partition("?")[0].replace("%40", "@")
    ours, their_body = msgspec.json.decode(sent.body, type=Json), theirs.json
    # The client sends Anthropic's latest version, the documentation of Vertex AI has this one.
    assert ours.pop("anthropic_version") == "vertex-2023-10-16"
    assert their_body.pop("anthropic_version")
    assert meaning(ours) == meaning(their_body)
    for header in ("authorization", "content-type", "anthropic-beta"):
        assert headers.get(header) == theirs.headers.get(header)
    assert not {"anthropic-version", "x-api-key"} & headers.keys()
    assert not counting or CLAUDE.counted(b'{"input_tokens": 9}') == 9


@pytest.mark.parametrize(
    ("base_url", "path"),
    [
        (f"https://europe-west1-aiplatform.googleapis.com{PROJECT}", PROJECT),
        (f"https://europe-west1-aiplatform.googleapis.com{PROJECT}/models", PROJECT),
        (
            "https://aiplatform.googleapis.com/v1/projects/p/locations/global",
            "/v1/projects/p/locations/global/publishers/anthropic",
        ),
        (
            "https://aiplatform.us.rep.googleapis.com/v1/projects/p/locations/us/publishers/anthropic/",
            "/v1/projects/p/locations/us/publishers/anthropic",
        ),
    ],
    ids=["region", "models", "global", "multi-region"],
)
def test_a_location_of_any_kind_is_in_the_path(base_url: str, path: str) -> None:
    whole = vertex(base_url).encode(chat(), MODEL)
    streamed = vertex(base_url).encode(chat(stream=True), "a/../b;c")

    assert whole.target == f"{path}/models/{MODEL}:rawPredict"
    assert streamed.target == f"{path}/models/a%2F..%2Fb%3Bc:streamRawPredict"


@pytest.mark.parametrize(
    ("part", "field"),
    [
        (file(file_url="https://a.test/a.pdf"), "messages[0].content[0].file.file_url"),
        (file(file_data="https://a.test/a.pdf"), "messages[0].content[0].file.file_data"),
        (file(file_id="file_1"), "messages[0].content[0].file.file_id"),
        *(
            (
                OpaquePart(
                    type=kind, raw=raw({"type": kind, "source": source}), dialect="anthropic"
                ),
                f"messages[0].content[0].source.{field}",
            )
            for kind in ("image", "document")
            for field, source in (
                ("file_id", {"type": "file", "file_id": "file_1"}),
                ("url", {"type": "url", "url": "https://a.test/a.pdf"}),
            )
        ),
    ],
)
def test_addresses_and_uploaded_files_are_refused_by_name(part: OpaquePart, field: str) -> None:
    assert refused_field(CLAUDE, chat(user(part)), MODEL) == field
    with pytest.raises(Exception, match="only bytes"):
        CLAUDE.encode_count(chat(user(part)), MODEL)


def test_bytes_of_files_are_sent() -> None:
    part = file(file_data="data:application/pdf;base64,AAAA", filename="a.pdf")

    body = msgspec.json.decode(CLAUDE.encode(chat(user(part)), MODEL).body, type=Json)

    source = {"type": "base64", "media_type": "application/pdf", "data": "AAAA"}
    document = {"type": "document", "source": source, "title": "a.pdf"}
    assert body["messages"] == [{"role": "user", "content": [document]}]


@pytest.mark.parametrize(
    "kind", ["code_execution_20250825", "web_fetch_20250910", "advisor_20260301", "mcp_toolset"]
)
def test_tools_that_vertex_does_not_run_are_refused_by_name(kind: str) -> None:
    tool = OpaqueTool(type=kind, raw=raw({"type": kind, "name": "x"}), dialect="anthropic")

    assert refused_field(CLAUDE, chat(tools=(tool,)), MODEL) == "tools[0].type"


@pytest.mark.parametrize("kind", ["web_search_20250305", "bash_20250124", "memory_20250818"])
def test_tools_that_vertex_has_are_sent_unchanged(kind: str) -> None:
    tool = OpaqueTool(type=kind, raw=raw({"type": kind, "name": "x"}), dialect="anthropic")

    body = msgspec.json.decode(CLAUDE.encode(chat(tools=(tool,)), MODEL).body, type=Json)

    assert body["tools"] == [{"type": kind, "name": "x"}]


def test_what_claude_has_only_elsewhere_is_not_supported() -> None:
    fields = VERTEX.extra_fields["chat"]

    assert fields == {"context_management", "output_config", "thinking"}
    assert "messages.remote_image" not in (VERTEX.chat or ())
    with pytest.raises(GatewayError, match="does not offer embeddings"):
        CLAUDE.encode(EmbeddingsRequest(model="m", inputs=("a",)), "m")


def googles(code: int, status: str, message: str, *details: Json) -> Json:
    return {"error": {"code": code, "message": message, "status": status, "details": details}}


def anthropics(kind: str, message: str) -> Json:
    said = {"type": kind, "message": message}
    return {"type": "error", "error": said, "request_id": "req_vrtx_1"}


RETRY: Json = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "7s"}
ERRORS: dict[str, tuple[int, object, type[GatewayError]]] = {
    "quota": (429, googles(429, "RESOURCE_EXHAUSTED", "Quota exceeded", RETRY), UpstreamBusy),
    "quota, listed": (429, [googles(429, "RESOURCE_EXHAUSTED", "Quota", RETRY)], UpstreamBusy),
    "token": (401, googles(401, "UNAUTHENTICATED", "invalid credentials"), UpstreamRefused),
    "permission": (403, googles(403, "PERMISSION_DENIED", "Permission denied"), UpstreamRefused),
    "not enabled": (400, googles(400, "FAILED_PRECONDITION", "not servable"), UpstreamRefused),
    "model": (404, googles(404, "NOT_FOUND", "Publisher Model was not found"), UpstreamRefused),
    "server": (503, googles(503, "UNAVAILABLE", "try again"), UpstreamOverloaded),
    "request": (400, anthropics("invalid_request_error", "tools.0: bad"), UpstreamRejected),
    "limit": (429, anthropics("rate_limit_error", "slow down"), UpstreamBusy),
    "overloaded": (529, anthropics("overloaded_error", "Overloaded"), UpstreamOverloaded),
    "internal": (500, anthropics("api_error", "Internal server error"), UpstreamFailed),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_of_google_and_of_anthropic_are_told_apart(name: str) -> None:
    status, body, kind = ERRORS[name]

    found = CLAUDE.error(status, {}, json.dumps(body).encode())

    assert type(found) is kind
    if name.startswith("quota"):
        assert found.retry_after == 7


def test_an_unknown_beta_is_named_by_the_vendor() -> None:
    said = "Unexpected value(s) `effort-2025-11-24` for the `anthropic-beta` header."

    found = CLAUDE.error(400, {}, json.dumps(anthropics("invalid_request_error", said)).encode())

    assert isinstance(found, UpstreamRejected)
    assert said in found.message


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (googles(429, "RESOURCE_EXHAUSTED", "Quota exceeded"), UpstreamBusy),
        (googles(503, "UNAVAILABLE", "try again"), UpstreamOverloaded),
        (anthropics("overloaded_error", "Overloaded"), UpstreamOverloaded),
        (anthropics("api_error", "Internal server error"), UpstreamFailed),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_a_failure_inside_an_answer_is_told_by_either_vendor(
    body: Json, kind: type[UpstreamError], stream: bool
) -> None:
    decoder = CLAUDE.decoder(chat(stream=stream))

    with pytest.raises(UpstreamError) as caught:
        decoder.feed("error" if stream else "", json.dumps(body).encode())

    assert type(caught.value) is kind


def test_a_request_without_a_limit_is_refused_by_name() -> None:
    request = msgspec.structs.replace(
        chat(), sampling=msgspec.structs.replace(chat().sampling, max_tokens=UNSET)
    )

    assert refused_field(CLAUDE, request, MODEL) == "max_tokens"
