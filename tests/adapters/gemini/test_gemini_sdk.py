"""Google's own client sends the same bodies, and reads the same answers."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Protocol, cast

import msgspec
import pytest
from google import genai
from google.genai import types
from google.oauth2.credentials import Credentials
from msgspec import Raw

from strowger_gateway.adapters.base import Endpoint
from strowger_gateway.adapters.gemini.adapter import GeminiAdapter
from strowger_gateway.adapters.testing import translate
from strowger_gateway.schemas.answers import Fold
from strowger_gateway.schemas.messages import (
    GEMINI,
    AudioPart,
    FunctionTool,
    ImagePart,
    Message,
    ResponseFormat,
    TextPart,
    Thought,
    ToolCall,
    ToolChoice,
)
from strowger_gateway.schemas.requests import EmbeddingsRequest, Request
from strowger_gateway.schemas.sampling import Sampling
from strowger_gateway.schemas.secret import Secret
from tests.adapters.chats import chat
from tests.adapters.traffic import fixture
from tests.stand_ins.provider import Answer, Received, provider

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore:Inheritance class AiohttpClientSession:DeprecationWarning"),
]

Json = dict[str, object]
Ask = Callable[[genai.Client], Awaitable[object]]

STUDIO = GeminiAdapter(
    Endpoint(
        name="google",
        base_url="https://generativelanguage.googleapis.com/v1beta",
        key=Secret("a-key"),
    )
)
VERTEX = GeminiAdapter(
    Endpoint(
        name="google",
        base_url="https://l-aiplatform.googleapis.com/v1beta1/projects/p/locations/l/publishers/google",
        key=Secret("a-token"),
    )
)
MODEL = "gemini-2.5-flash"
PNG = b"\x89PNG\r\n\x1a\n"
PICTURE = "data:image/png;base64,iVBORw0KGgo="
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
RAW_SCHEMA = Raw(json.dumps(SCHEMA).encode())
WEATHER = FunctionTool(name="weather", description="Look out.", parameters=RAW_SCHEMA)
DECLARED = types.Tool(
    function_declarations=[
        types.FunctionDeclaration(
            name="weather", description="Look out.", parameters_json_schema=SCHEMA
        ),
        types.FunctionDeclaration(name="clock"),
    ]
)
SIGNATURE = "c2lnbmF0dXJl"


def content(role: str, *parts: types.Part) -> types.Content:
    return types.Content(role=role, parts=list(parts))


def hello() -> types.Content:
    return content("user", types.Part(text="hello"))


class Models(Protocol):
    """The client, whose type of contents contains an untyped class."""

    async def generate_content(
        self,
        *,
        model: str,
        contents: list[types.Content],
        config: types.GenerateContentConfig | None,
    ) -> object: ...

    async def generate_content_stream(
        self, *, model: str, contents: list[types.Content]
    ) -> AsyncIterator[types.GenerateContentResponse]: ...

    async def embed_content(
        self, *, model: str, contents: list[str], config: types.EmbedContentConfig
    ) -> object: ...


def models(sdk: genai.Client) -> Models:
    return cast("Models", sdk.aio.models)


def ask(
    *contents: types.Content,
    config: types.GenerateContentConfig | None = None,
    model: str = MODEL,
) -> Ask:
    said = list(contents or (hello(),))
    return lambda sdk: models(sdk).generate_content(model=model, contents=said, config=config)


def embed(model: str, *texts: str, **config: object) -> Ask:
    settings = types.EmbedContentConfig.model_validate(config)
    return lambda sdk: models(sdk).embed_content(model=model, contents=list(texts), config=settings)


def called() -> tuple[types.Part, types.Part]:
    first = types.FunctionCall(id="call_1", name="weather", args={"city": "Bern"})
    second = types.FunctionCall(id="call_2", name="clock", args={})
    return (
        types.Part(function_call=first, thought_signature=b"signature"),
        types.Part(function_call=second),
    )


def responded(id: str, name: str, response: Json) -> types.Part:
    return types.Part(function_response=types.FunctionResponse(id=id, name=name, response=response))


THINKING = types.ThinkingConfig(thinking_budget=8192, include_thoughts=True)
LEVEL = types.ThinkingConfig(thinking_level=types.ThinkingLevel.LOW, include_thoughts=True)
ANY = types.FunctionCallingConfig(
    mode=types.FunctionCallingConfigMode.ANY, allowed_function_names=["weather"]
)

CHATS: dict[str, tuple[Ask, Request, str]] = {
    "chat": (ask(), chat(), MODEL),
    "system": (
        ask(
            config=types.GenerateContentConfig(
                system_instruction=[types.Part(text="Be brief."), types.Part(text="Be kind.")]
            )
        ),
        chat(
            Message(role="system", content="Be brief."),
            Message(role="developer", content=(TextPart(text="Be kind."),)),
            Message(role="user", content="hello"),
        ),
        MODEL,
    ),
    "sampling": (
        ask(
            config=types.GenerateContentConfig(
                max_output_tokens=9,
                temperature=0.5,
                top_p=0.75,
                top_k=5,
                seed=42,
                stop_sequences=["END"],
                candidate_count=2,
                presence_penalty=0.5,
                frequency_penalty=-0.5,
                response_logprobs=True,
                logprobs=3,
            )
        ),
        chat(
            sampling=Sampling(
                max_tokens=9,
                temperature=0.5,
                top_p=0.75,
                top_k=5,
                seed=42,
                stop=("END",),
                n=2,
                presence_penalty=0.5,
                frequency_penalty=-0.5,
                logprobs=True,
                top_logprobs=3,
            )
        ),
        MODEL,
    ),
    "json": (
        ask(config=types.GenerateContentConfig(response_mime_type="application/json")),
        chat(response_format=ResponseFormat(type="json_object")),
        MODEL,
    ),
    "schema": (
        ask(
            config=types.GenerateContentConfig(
                response_mime_type="application/json", response_json_schema=SCHEMA
            )
        ),
        chat(response_format=ResponseFormat(type="json_schema", name="x", schema=RAW_SCHEMA)),
        MODEL,
    ),
    "budget": (
        ask(config=types.GenerateContentConfig(thinking_config=THINKING)),
        chat(reasoning_effort="medium"),
        MODEL,
    ),
    "no-thinking": (
        ask(
            config=types.GenerateContentConfig(
                thinking_config=types.ThinkingConfig(thinking_budget=0)
            )
        ),
        chat(reasoning_effort="none"),
        MODEL,
    ),
    "level": (
        ask(
            config=types.GenerateContentConfig(thinking_config=LEVEL), model="gemini-3-pro-preview"
        ),
        chat(reasoning_effort="low"),
        "gemini-3-pro-preview",
    ),
    "media": (
        ask(
            content(
                "user",
                types.Part(text="What?"),
                types.Part(inline_data=types.Blob(mime_type="image/png", data=PNG)),
                types.Part.from_uri(file_uri="gs://b/cat.jpg", mime_type="image/jpeg"),
                types.Part(inline_data=types.Blob(mime_type="audio/wav", data=b"\0\0\0")),
            )
        ),
        chat(
            Message(
                role="user",
                content=(
                    TextPart(text="What?"),
                    ImagePart(url=PICTURE),
                    ImagePart(url="gs://b/cat.jpg"),
                    AudioPart(data="AAAA", format="wav"),
                ),
            )
        ),
        MODEL,
    ),
    "tool-loop": (
        ask(
            hello(),
            content(
                "model",
                types.Part(text="Hm.", thought=True),
                types.Part(text="Let me see."),
                *called(),
            ),
            content(
                "user",
                responded("call_1", "weather", {"result": "21"}),
                responded("call_2", "clock", {"hour": 9}),
            ),
            config=types.GenerateContentConfig(
                tools=[DECLARED],
                tool_config=types.ToolConfig(function_calling_config=ANY),
            ),
            model="gemini-3-pro-preview",
        ),
        chat(
            Message(role="user", content="hello"),
            Message(
                role="assistant",
                content="Let me see.",
                thoughts=(Thought(text="Hm."),),
                tool_calls=(
                    ToolCall(
                        id="call_1",
                        name="weather",
                        arguments='{"city":"Bern"}',
                        signature=SIGNATURE,
                    ),
                    ToolCall(id="call_2", name="clock", arguments=""),
                ),
            ),
            Message(role="tool", content="21", tool_call_id="call_1"),
            Message(role="tool", content='{"hour": 9}', tool_call_id="call_2"),
            tools=(WEATHER, FunctionTool(name="clock")),
            tool_choice=ToolChoice(mode="named", name="weather"),
        ),
        "gemini-3-pro-preview",
    ),
    "signed-text": (
        ask(
            hello(),
            content("model", types.Part(text="Hi.", thought_signature=b"signature")),
            hello(),
        ),
        chat(
            Message(role="user", content="hello"),
            Message(
                role="assistant",
                content="Hi.",
                thoughts=(Thought(text="", signature=SIGNATURE, format=GEMINI),),
            ),
            Message(role="user", content="hello"),
        ),
        MODEL,
    ),
}  # fmt: skip

TEXTS: dict[str, tuple[Ask, Request, str]] = {
    "gemini-one": (
        embed("gemini-embedding-001", "one"),
        EmbeddingsRequest(model="m", inputs=("one",)),
        "gemini-embedding-001",
    ),
    "gemini-many": (
        embed(
            "gemini-embedding-001",
            "one",
            "two",
            output_dimensionality=64,
            task_type="RETRIEVAL_QUERY",
        ),
        EmbeddingsRequest(
            model="m",
            inputs=("one", "two"),
            dimensions=64,
            extra={"taskType": Raw(b'"RETRIEVAL_QUERY"')},
        ),
        "gemini-embedding-001",
    ),
    "older": (
        embed(
            "text-embedding-005",
            "one",
            "two",
            output_dimensionality=64,
            task_type="RETRIEVAL_DOCUMENT",
            title="T",
        ),
        EmbeddingsRequest(
            model="m",
            inputs=("one", "two"),
            dimensions=64,
            extra={"taskType": Raw(b'"RETRIEVAL_DOCUMENT"'), "title": Raw(b'"T"')},
        ),
        "text-embedding-005",
    ),
}

ASKED = {**CHATS, **TEXTS}


def studio(origin: str) -> genai.Client:
    options = types.HttpOptions(base_url=origin, api_version="v1beta")
    return genai.Client(api_key="a-key", http_options=options)


def vertex(origin: str) -> genai.Client:
    return genai.Client(
        vertexai=True,
        project="p",
        location="l",
        credentials=Credentials("a-token"),
        http_options=types.HttpOptions(base_url=origin, api_version="v1beta1"),
    )


SIDES = {"studio": (studio, STUDIO), "vertex": (vertex, VERTEX)}
CREDENTIALS = ("authorization", "x-goog-api-key")


def camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(word.title() for word in rest)


def meaning(body: Json) -> Json:
    """Normalise to camelCase, which the client uses in part and the API fully; roles only of turns.

    `generationConfig` may be empty, and `predict` is in snake_case.
    """
    if "instances" in body:
        return body
    told: Json = json.loads(
        json.dumps(body), object_hook=lambda one: {camel(name): one[name] for name in one}
    )
    texts = cast("list[Json]", told.get("requests", [told] if "content" in told else []))
    for one in [told.get("systemInstruction"), *(text["content"] for text in texts)]:
        if one:
            cast("Json", one).pop("role", None)
    return {name: value for name, value in told.items() if value or name != "generationConfig"}


def credentials(headers: Mapping[str, str]) -> Json:
    return {name: headers[name] for name in CREDENTIALS if name in headers}


async def answers(request: Received, answer: Answer) -> None:
    vector = {"values": [0.5]}
    count = len(cast("list[Json]", request.json.get("requests", request.json.get("instances", []))))
    if request.path.endswith(":predict"):
        await answer.json({"predictions": [{"embeddings": vector}] * count})
    elif request.path.endswith(":embedContent"):
        await answer.json({"embedding": vector})
    elif request.path.endswith(":batchEmbedContents"):
        await answer.json({"embeddings": [vector] * count})
    else:
        said = {"role": "model", "parts": [{"text": "hi"}]}
        await answer.json({"candidates": [{"content": said, "finishReason": "STOP"}]})


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("name", ASKED)
async def test_the_client_and_the_adapter_send_the_same(name: str, side: str) -> None:
    question, request, model = ASKED[name]
    connect, adapter = SIDES[side]
    async with provider(answers) as server:
        sdk = connect(server.origin)
        async with sdk.aio:
            await question(sdk)

    (theirs,) = server.requests
    sent = adapter.encode(request, model)
    ours = meaning(msgspec.json.decode(sent.body, type=Json))
    assert sent.target == theirs.path
    assert credentials(dict(sent.headers)) == credentials(theirs.headers)
    assert ours == meaning(theirs.json)


async def test_the_client_reads_a_stream_as_the_adapter_does() -> None:
    case = fixture("gemini/stream-thinking-tools")

    async def streams(_: Received, answer: Answer) -> None:
        await answer.body(case.body, "text/event-stream")

    async with provider(streams) as server:
        sdk = studio(server.origin)
        async with sdk.aio:
            stream = await models(sdk).generate_content_stream(model=MODEL, contents=[hello()])
            chunks = [chunk async for chunk in stream]

    fold = Fold()
    fold.add(translate(STUDIO, chat(stream=True), [case.body]))
    answer = fold.answer()
    (choice,) = answer.choices
    parts = [
        part
        for chunk in chunks
        for one in chunk.candidates or ()
        for part in (one.content.parts if one.content else None) or ()
    ]
    calls = [part.function_call for part in parts if part.function_call]
    usage = chunks[-1].usage_metadata
    assert server.requests[0].path == STUDIO.encode(chat(stream=True), MODEL).target
    assert choice.text == "".join(part.text or "" for part in parts if not part.thought)
    assert choice.reasoning == "".join(part.text or "" for part in parts if part.thought)
    assert [call.name for call in choice.tool_calls] == [call.name for call in calls]
    assert [json.loads(call.arguments) for call in choice.tool_calls] == [
        call.args or {} for call in calls
    ]
    assert answer.usage is not None
    assert usage is not None
    assert answer.usage.total_tokens == usage.total_token_count
