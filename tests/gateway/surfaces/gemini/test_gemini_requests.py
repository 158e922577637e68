"""The Gemini API over the wire: keys, paths, forms of a request, and what is refused."""

import json
from collections.abc import AsyncGenerator
from typing import cast

import httpx
import pytest
from google import genai
from google.genai import types

from tests.gateway.backends.vendors.dialect import Json
from tests.gateway.serving import Serving, serving
from tests.gateway.surfaces.gemini.google_client import google_client
from tests.stand_ins.provider import Answer, Provider, Received, provider

pytestmark = pytest.mark.anyio

KEY = "key-of-a-team-0123456789"
CONFIG = f"""
auth:
  mode: keys
  keys: [{{name: team, key: {KEY}, models: [chat, vectors, "openai/*", "tunedModels/*"]}}]
providers:
  - {{name: remote, adapter: openai, base_url: URL/v1, api_key: k-0123456789}}
models:
  - {{name: chat, backends: [{{provider: remote, model: m}}]}}
  - {{name: vectors, backends: [{{provider: remote, model: e}}]}}
  - {{name: hidden, backends: [{{provider: remote, model: h}}]}}
  - {{name: "openai/gpt:a", backends: [{{provider: remote, model: g}}]}}
  - {{name: "tunedModels/t", backends: [{{provider: remote, model: t}}]}}
"""
HI: Json = {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}
GENERATE = "/v1beta/models/chat:generateContent"
STREAM = "/v1beta/models/chat:streamGenerateContent"


async def remote(request: Received, answer: Answer) -> None:
    """OpenAI's API, which repeats no secrets."""
    if request.path.endswith("/embeddings"):
        texts = cast("list[str]", request.json["input"])
        data = [
            {"object": "embedding", "index": i, "embedding": [0.5, i]} for i in range(len(texts))
        ]
        usage = {"prompt_tokens": 3, "total_tokens": 3}
        await answer.json({"object": "list", "data": data, "model": "e", "usage": usage})
        return
    head: Json = {"id": "c1", "created": 1, "model": "m-1"}
    usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    if not request.json.get("stream"):
        message = {"role": "assistant", "content": "Hello"}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        whole = {**head, "object": "chat.completion", "choices": [choice], "usage": usage}
        await answer.json(whole)
        return
    await answer.begin_stream()
    for choices, counts in (
        ([{"index": 0, "delta": {"role": "assistant", "content": "Hel"}}], None),
        ([{"index": 0, "delta": {"content": "lo"}, "finish_reason": "stop"}], None),
        ([], usage),
    ):
        chunk = {**head, "object": "chat.completion.chunk", "choices": choices, "usage": counts}
        await answer.chunk(f"data: {json.dumps(chunk)}\n\n".encode())
    await answer.chunk(b"data: [DONE]\n\n")
    await answer.raw(b"0\r\n\r\n")


class Setting:
    """A gateway with keys, a client without one, and the server behind them."""

    def __init__(self, server: Provider, gateway: Serving, web: httpx.AsyncClient) -> None:
        self.server, self.gateway, self.web = server, gateway, web

    async def post(
        self, path: str, body: Json | bytes = HI, headers: dict[str, str] | None = None
    ) -> httpx.Response:
        """headers: the team's key if none are given."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        sent = {"x-goog-api-key": KEY} if headers is None else headers
        return await self.web.post(
            path, content=content, headers={"content-type": "application/json", **sent}
        )

    @property
    def sent(self) -> Json:
        return self.server.requests[-1].json


@pytest.fixture(scope="module")
async def setting(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Setting, None]:
    async with (
        provider(remote) as server,
        serving(CONFIG.replace("URL", server.origin), tmp_path_factory.mktemp("run")) as up,
        httpx.AsyncClient(base_url=up.url, timeout=60) as web,
    ):
        yield Setting(server, up, web)


def text(answer: httpx.Response) -> str:
    assert answer.status_code == 200, answer.text
    return answer.json()["candidates"][0]["content"]["parts"][0]["text"]


@pytest.mark.parametrize(
    ("query", "headers"),
    [
        ("", {"x-goog-api-key": KEY}),
        ("", {"authorization": f"Bearer {KEY}"}),
        (f"?key={KEY}", {}),
        (f"?alt=json&key={KEY}&prettyPrint=false", {}),
    ],
    ids=["header", "bearer", "query", "among others"],
)
async def test_a_key_is_taken_where_googles_clients_send_it(
    setting: Setting, query: str, headers: dict[str, str]
) -> None:
    answer = await setting.post(GENERATE + query, headers=headers)

    assert text(answer) == "Hello"
    assert setting.gateway.access_lines()[-1].key == "team"


async def test_a_key_in_a_query_is_nowhere_but_in_the_query(setting: Setting) -> None:
    wrong = "wrong-key-in-the-query-0123456789"
    answers = [
        await setting.post(f"{GENERATE}?key={KEY}", headers={}),
        await setting.post(f"{GENERATE}?key={wrong}", headers={}),
        await setting.post(f"/v1beta/models/none:generateContent?key={KEY}", headers={}),
        await setting.post(f"/v1beta/nothing?key={KEY}", headers={}),
        await setting.web.get(f"/v1beta/models?key={KEY}"),
    ]

    assert [one.status_code for one in answers] == [200, 401, 404, 404, 200]
    setting.gateway.access_lines()
    seen = setting.gateway.log.getvalue() + b"".join(
        one.content + str(one.headers).encode() for one in answers
    )
    assert KEY.encode() not in seen
    assert wrong.encode() not in seen
    assert not any(KEY.encode() in one.body for one in setting.server.requests)


async def test_a_key_in_the_query_opens_no_other_api(setting: Setting) -> None:
    body = {"model": "chat", "messages": [{"role": "user", "content": "hi"}]}

    answer = await setting.post(f"/v1/chat/completions?key={KEY}", body, headers={})

    assert answer.status_code == 401


@pytest.mark.parametrize(
    ("path", "model"),
    [
        ("/v1/models/chat:generateContent", "m"),
        ("/v1alpha/models/chat:generateContent", "m"),
        ("/models/chat:generateContent", "m"),
        ("/v1beta/v1beta/models/chat:generateContent", "m"),
        ("/v1beta/models/openai/gpt:a:generateContent", "g"),
        ("/v1beta/models/openai%2Fgpt%3Aa:generateContent", "g"),
        ("/v1beta/tunedModels/t:generateContent", "t"),
        ("/v1/projects/p/locations/l/publishers/google/models/chat:generateContent", "m"),
        ("/v1beta1/projects/p/locations/l/publishers/google/models/chat:generateContent", "m"),
        ("/v1beta1/projects/p/locations/l/publishers/openai/models/gpt:a:generateContent", "g"),
        ("/v1/publishers/google/models/chat:generateContent", "m"),
    ],
)
async def test_every_path_of_googles_clients_leads_to_the_model(
    setting: Setting, path: str, model: str
) -> None:
    assert text(await setting.post(path)) == "Hello"
    assert setting.sent["model"] == model


async def test_a_stream_is_events_if_asked_for_and_otherwise_a_list(setting: Setting) -> None:
    events = await setting.post(f"{STREAM}?alt=sse")
    listed = await setting.post(STREAM)

    assert events.headers["content-type"].startswith("text/event-stream")
    assert listed.headers["content-type"] == "application/json"
    frames = [json.loads(one[6:]) for one in events.text.split("\n\n") if one]
    entries = listed.json()
    for one in (*frames, *entries):
        assert one.pop("responseId")
    assert frames == entries
    assert entries[-1]["candidates"][0]["finishReason"] == "STOP"
    assert entries[-1]["usageMetadata"] == {
        "promptTokenCount": 3,
        "candidatesTokenCount": 2,
        "totalTokenCount": 5,
    }


async def test_a_failure_of_a_listed_stream_is_in_a_list(setting: Setting) -> None:
    answer = await setting.post(STREAM, {"contents": 7})

    (told,) = answer.json()
    assert (answer.status_code, told["error"]["status"]) == (400, "INVALID_ARGUMENT")


FORMS: list[tuple[Json, Json]] = [
    ({"contents": {"role": "user", "parts": {"text": "hi"}}}, {}),
    ({"contents": [{"parts": [{"text": "hi"}]}]}, {}),
    ({**HI, "generation_config": {"max_output_tokens": 7, "top_p": 0.5}}, {"top_p": 0.5}),
    ({**HI, "generationConfig": {"maxOutputTokens": "7"}}, {"max_tokens": 7}),
    ({**HI, "generationConfig": {"stopSequences": ["a", "b"]}}, {"stop": ["a", "b"]}),
    ({**HI, "generationConfig": {"candidateCount": 1, "seed": 5}}, {"seed": 5}),
    (
        {**HI, "generationConfig": {"responseMimeType": "application/json"}},
        {"response_format": {"type": "json_object"}},
    ),
    (
        {**HI, "generationConfig": {"presencePenalty": 0.5, "frequencyPenalty": -1}},
        {"presence_penalty": 0.5, "frequency_penalty": -1.0},
    ),
    (
        {**HI, "generationConfig": {"responseLogprobs": True, "logprobs": 2}},
        {"logprobs": True, "top_logprobs": 2},
    ),
]


@pytest.mark.parametrize(("body", "expected"), FORMS)
async def test_a_field_in_either_case_arrives_under_the_vendors_name(
    setting: Setting, body: Json, expected: Json
) -> None:
    assert text(await setting.post(GENERATE, body)) == "Hello"

    sent = setting.sent
    assert sent["messages"] == [{"role": "user", "content": "hi"}]
    assert {name: sent.get(name) for name in expected} == expected


TOOLS = [
    {
        "function_declarations": [
            {
                "name": name,
                "parameters": {
                    "type": "OBJECT",
                    "properties": {
                        "at": {"type": "STRING", "nullable": True, "enum": ["a"]},
                        "of": {"type": "ARRAY", "items": {"type": "INTEGER"}, "maxItems": "3"},
                    },
                    "required": ["at"],
                    "propertyOrdering": ["at", "of"],
                },
            }
            for name in ("weather", "clock")
        ]
    }
]


@pytest.mark.parametrize(
    ("calling", "choice", "names"),
    [
        ({"mode": "AUTO"}, "auto", ["weather", "clock"]),
        ({"mode": "ANY"}, "required", ["weather", "clock"]),
        ({"mode": "NONE"}, "none", ["weather", "clock"]),
        ({"mode": "VALIDATED"}, "auto", ["weather", "clock"]),
        (
            {"mode": "ANY", "allowed_function_names": ["clock"]},
            {"type": "function", "function": {"name": "clock"}},
            ["weather", "clock"],
        ),
        (
            {"mode": "any", "allowedFunctionNames": ["clock", "weather"]},
            "required",
            ["weather", "clock"],
        ),
    ],
)
async def test_functions_and_which_must_be_called_arrive_in_the_vendors_form(
    setting: Setting, calling: Json, choice: object, names: list[str]
) -> None:
    body = {**HI, "tools": TOOLS, "tool_config": {"function_calling_config": calling}}

    assert text(await setting.post(GENERATE, body)) == "Hello"

    sent = setting.sent
    functions = [cast("Json", one["function"]) for one in cast("list[Json]", sent["tools"])]
    assert [one["name"] for one in functions] == names
    assert sent["tool_choice"] == choice
    assert functions[0]["parameters"] == {
        "type": "object",
        "properties": {
            "at": {"type": ["string", "null"], "enum": ["a", None]},
            "of": {"type": "array", "items": {"type": "integer"}, "maxItems": 3},
        },
        "required": ["at"],
    }


async def test_the_pieces_of_a_stream_that_a_client_kept_are_one_turn(setting: Setting) -> None:
    """As automatic calling of Google's Python SDK keeps them: each frame is a content."""
    call: Json = {"functionCall": {"name": "clock", "args": {"at": "a"}}}
    result: Json = {"functionResponse": {"name": "clock", "response": {"result": "noon"}}}
    body = {
        "contents": [
            {"role": "user", "parts": [{"text": "hi"}]},
            {"role": "model", "parts": [{"text": "Hm", "thought": True}]},
            {"role": "model", "parts": [{"text": "I "}]},
            {"role": "model", "parts": [{"text": "look."}]},
            {"role": "model", "parts": [call]},
            {"role": "user", "parts": [result]},
            {"role": "model", "parts": [{"text": ""}]},
        ],
        "tools": TOOLS,
    }

    assert text(await setting.post(GENERATE, body)) == "Hello"

    _, said, told = cast("list[Json]", setting.sent["messages"])
    (called,) = cast("list[Json]", said["tool_calls"])
    assert (said["content"], told["content"]) == ("I look.", "noon")
    assert called["id"] == told["tool_call_id"]


@pytest.mark.parametrize(
    ("thinking", "effort"),
    [
        ({"thinkingBudget": 0}, "none"),
        ({"thinkingBudget": 1024}, "low"),
        ({"thinkingBudget": 8192}, "medium"),
        ({"thinkingBudget": 24576}, "high"),
        ({"thinkingBudget": -1}, None),
        ({"thinkingLevel": "HIGH"}, "high"),
        ({"thinking_level": "low", "include_thoughts": True}, "low"),
        ({"includeThoughts": True}, None),
    ],
)
async def test_how_much_a_model_thinks_arrives_as_an_effort(
    setting: Setting, thinking: Json, effort: str | None
) -> None:
    body = {**HI, "generationConfig": {"thinkingConfig": thinking}}

    assert text(await setting.post(GENERATE, body)) == "Hello"
    assert setting.sent.get("reasoning_effort") == effort


SLIPS: list[tuple[Json, str]] = [
    ({}, "contents"),
    ({"contents": []}, "contents"),
    ({"contents": [{"role": "robot", "parts": []}]}, "contents[0].role"),
    ({"contents": [{"parts": [{"text": 7}]}]}, "contents[0].parts[0].text"),
    (
        {"contents": [{"parts": [{"inlineData": {"data": "AA=="}}]}]},
        "contents[0].parts[0].inlineData.mimeType",
    ),
    (
        {"contents": [{"parts": [{"functionCall": {"name": "f"}}]}]},
        "contents[0].parts[0].functionCall",
    ),
    ({**HI, "generationConfig": {"temperature": 3}}, "generationConfig.temperature"),
    ({**HI, "generation_config": {"top_k": -1}}, "generationConfig.topK"),
    ({**HI, "generationConfig": {"candidateCount": 1000}}, "generationConfig.candidateCount"),
    (
        {**HI, "generationConfig": {"thinkingConfig": {"thinkingLevel": "VAST"}}},
        "generationConfig.thinkingConfig.thinkingLevel",
    ),
    (
        {**HI, "tools": [{"functionDeclarations": [{}]}]},
        "tools[0].functionDeclarations[0].name",
    ),
    (
        {**HI, "toolConfig": {"functionCallingConfig": {"mode": "ANY"}}},
        "toolConfig.functionCallingConfig.mode",
    ),
    (
        {
            **HI,
            "tools": TOOLS,
            "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["x"]}},
        },
        "toolConfig.functionCallingConfig.allowedFunctionNames[0]",
    ),
    ({**HI, "cachedContent": "cachedContents/a"}, "cachedContent"),
    ({**HI, "somethingNew": True}, "somethingNew"),
]


@pytest.mark.parametrize(("body", "field"), SLIPS)
async def test_a_slip_is_refused_with_its_field_in_googles_form(
    setting: Setting, body: Json, field: str
) -> None:
    answer = await setting.post(GENERATE, body)

    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["status"]) == (400, 400, "INVALID_ARGUMENT")
    details = {one["@type"].rpartition(".")[2]: one for one in error["details"]}
    found = {one["field"] for one in details.get("BadRequest", {}).get("fieldViolations", ())} or {
        error["message"]
    }
    assert any(field in one for one in found), error
    assert details["ErrorInfo"]["reason"]


async def test_a_model_that_the_key_may_not_use_is_not_found(setting: Setting) -> None:
    answer = await setting.post("/v1beta/models/hidden:generateContent")

    assert (answer.status_code, answer.json()["error"]["status"]) == (404, "NOT_FOUND")


@pytest.mark.parametrize(
    ("path", "named"),
    [
        ("/v1/projects/p/locations/l/publishers/google/models/chat:predict", "predict"),
        ("/v1/projects/p/locations/l/publishers/anthropic/models/c:rawPredict", "/v1/messages"),
        ("/v1beta/cachedContents", "cache"),
        ("/v1beta/files", "file"),
    ],
)
async def test_what_is_not_served_is_refused_by_name(
    setting: Setting, path: str, named: str
) -> None:
    answer = await setting.post(path)

    error = answer.json()["error"]
    assert (answer.status_code, error["status"]) == (404, "NOT_FOUND")
    assert named in error["message"]


async def test_texts_are_embedded_one_by_one_and_in_batches(setting: Setting) -> None:
    single = await setting.post(
        "/v1beta/models/vectors:embedContent",
        {"content": {"parts": [{"text": "a"}]}, "outputDimensionality": 2},
    )
    async with google_client(setting.gateway.url, key=KEY) as client:
        embed = client.aio.models.embed_content  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]  # its stubs
        batch = await embed(model="vectors", contents=["a", "b"])

    assert single.json()["embedding"] == {"values": [0.5, 0.0]}
    assert [one.values for one in batch.embeddings or ()] == [[0.5, 0.0], [0.5, 1.0]]
    assert setting.sent["input"] == ["a", "b"]


async def test_what_only_google_knows_of_a_text_is_left_out_and_named(setting: Setting) -> None:
    body = {"content": {"parts": [{"text": "a"}]}, "task_type": "RETRIEVAL_QUERY", "title": "t"}

    answer = await setting.post("/v1beta/models/vectors:embedContent", body)

    assert answer.status_code == 200, answer.text
    assert (setting.sent["model"], setting.sent["input"]) == ("e", "a")
    assert not setting.sent.keys() & {"taskType", "title"}
    dropped = answer.headers["x-gateway-dropped-params"].split(", ")
    assert set(dropped) == {"taskType", "title"}


async def test_texts_of_one_batch_with_different_settings_are_refused(setting: Setting) -> None:
    content = {"parts": [{"text": "a"}]}
    body = {
        "requests": [
            {"content": content, "outputDimensionality": 2},
            {"content": content, "outputDimensionality": 3},
        ]
    }

    answer = await setting.post("/v1beta/models/vectors:batchEmbedContents", body)

    assert answer.status_code == 400
    assert "requests[1].outputDimensionality" in answer.json()["error"]["message"]


async def test_tokens_are_counted_in_both_forms_of_the_request(setting: Setting) -> None:
    path = "/v1beta/models/chat:countTokens"
    plain = await setting.post(path)
    inside = await setting.post(
        path,
        {
            "generateContentRequest": {
                "model": "models/chat",
                **HI,
                "systemInstruction": {"parts": [{"text": "Be kind. " * 100}]},
            }
        },
    )
    async with google_client(setting.gateway.url, key=KEY) as client:
        count = client.aio.models.count_tokens  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]  # its stubs
        counted = await count(model="chat", contents="hi")

    assert plain.json() == {"totalTokens": counted.total_tokens}
    assert inside.json()["totalTokens"] > plain.json()["totalTokens"] + 100
    assert plain.headers["x-gateway-estimated"] == "input_tokens"
    line = setting.gateway.access_lines()[-1]
    assert (line.task, line.prompt_tokens, line.completion_tokens) == ("count_tokens", 0, 0)


async def test_models_are_listed_in_pages_as_google_lists_them(setting: Setting) -> None:
    async with google_client(setting.gateway.url, key=KEY) as client:
        pager = await client.aio.models.list(config={"page_size": 2})
        names = [one.name async for one in pager]
        model = await client.aio.models.get(model="openai/gpt:a")
    older = await setting.web.get("/v1/models", headers={"x-goog-api-key": KEY})
    openais = await setting.web.get("/v1/models", headers={"authorization": f"Bearer {KEY}"})

    assert names == ["models/chat", "models/vectors", "models/openai/gpt:a", "models/tunedModels/t"]
    assert model.name == "models/openai/gpt:a"
    assert "generateContent" in (model.supported_actions or ())
    assert [one["name"] for one in older.json()["models"]] == names
    assert "data" in openais.json()


async def test_vertex_clients_are_served(setting: Setting) -> None:
    async with httpx.AsyncClient(timeout=60) as web:
        options = types.HttpOptions(
            base_url=setting.gateway.url,
            headers={"authorization": f"Bearer {KEY}"},
            httpx_async_client=web,
        )
        client = genai.Client(vertexai=True, api_key=KEY, http_options=options)
        generate = client.aio.models.generate_content  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]  # its stubs
        count = client.aio.models.count_tokens  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]  # its stubs
        answer = await generate(model="openai/gpt:a", contents="hi")
        counted = await count(model="chat", contents="hi")

    assert answer.text == "Hello"
    assert counted.total_tokens
