"""/openapi.json describes the API: it lists all routes, and real answers match it."""

import json
from collections.abc import AsyncGenerator, Iterator, Mapping
from pathlib import Path
from typing import cast

import httpx
import pytest
from jsonschema import Draft202012Validator

from strowger_gateway.gateway.surfaces.openapi.route_bodies import ROUTES
from strowger_gateway.gateway.surfaces.routes import HOT_ROUTES
from tests.gateway.serving import Serving, one_model, serving
from tests.gateway.shared_engine import SharedEngine

pytestmark = pytest.mark.anyio

Json = dict[str, object]

KEY = "a-key-of-16-chars"
CONFIG = """
auth: {{mode: keys, admin_key: key-of-the-operator, keys: [{{name: a, key: a-key-of-16-chars}}]}}
server: {{max_body_bytes: 5000, default_model: chat}}
providers:
  - {here}
models:
  - {{name: chat, backends: [{{provider: here, model: tiny}}]}}
  - {{name: call, backends: [{{provider: here, model: caller}}]}}
  - {{name: embed, backends: [{{provider: here, model: mini}}]}}
"""
HELLO = [{"role": "user", "content": "What is 17 + 25?"}]
GREETING = [{"role": "user", "parts": [{"text": "hi"}]}]
IDS: Json = {
    "name": "input_ids",
    "datatype": "INT32",
    "shape": [1, 3],
    "data": [1, 344, 305],
}
LENGTH: Json = {"name": "request_output_len", "datatype": "INT32", "shape": [1, 1], "data": [4]}
TOOL = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}

CALLS: tuple[tuple[str, str, Json | None], ...] = (
    ("POST /v1/chat/completions", "", {"model": "chat", "messages": HELLO}),
    (
        "POST /v1/chat/completions",
        "",
        {"model": "chat", "messages": HELLO, "logprobs": True, "top_logprobs": 2, "n": 2},
    ),
    (
        "POST /v1/chat/completions",
        "",
        {
            "model": "call",
            "messages": HELLO,
            "tools": [TOOL],
            "tool_choice": {"type": "function", "function": {"name": "add"}},
            "max_tokens": 40,
        },
    ),
    ("POST /v1/chat/completions", "", {"model": "chat", "messages": HELLO, "stream": True}),
    ("POST /v1/messages", "", {"model": "chat", "messages": HELLO, "max_tokens": 9}),
    (
        "POST /v1/messages",
        "",
        {"model": "chat", "messages": HELLO, "max_tokens": 9, "stream": True},
    ),
    ("POST /v1/responses", "", {"model": "chat", "input": "17 + 25 =", "top_logprobs": 2}),
    ("POST /v1/responses", "", {"model": "chat", "input": HELLO, "max_output_tokens": 3}),
    ("POST /v1/responses", "", {"model": "chat", "input": HELLO, "stream": True}),
    ("POST /v1/completions", "", {"model": "chat", "prompt": "17 + 25 =", "logprobs": 1}),
    ("POST /v1/completions", "", {"model": "chat", "prompt": ["a", "b"], "echo": True}),
    ("POST /v1/embeddings", "", {"model": "embed", "input": ["the fox", "dog"]}),
    ("POST /v1/embeddings", "", {"model": "embed", "input": "dog", "encoding_format": "base64"}),
    ("POST /v1beta/models/{model}:generateContent", "chat", {"contents": GREETING}),
    ("POST /v1beta/models/{model}:streamGenerateContent", "chat", {"contents": GREETING}),
    ("POST /v1beta/models/{model}:countTokens", "chat", {"contents": GREETING}),
    ("POST /v1beta/models/{model}:embedContent", "embed", {"content": GREETING[0]}),
    (
        "POST /v1beta/models/{model}:batchEmbedContents",
        "embed",
        {"requests": [{"content": GREETING[0]}]},
    ),
    ("GET /v1beta/models", "", None),
    ("GET /v1beta/models/{model}", "chat", None),
    ("POST /infer_token", "", {"input_id": [1, 344], "parameters": {"details": True}}),
    ("POST /infer_token", "", {"input_id": [1, 344], "stream": True}),
    ("POST /v1/models/{model}/infer_token", "chat", {"input_id": [1, 344]}),
    ("POST /serving-endpoints/chat/completions", "", {"model": "chat", "messages": HELLO}),
    ("POST /serving-endpoints/completions", "", {"model": "chat", "prompt": "hi"}),
    ("POST /serving-endpoints/embeddings", "", {"model": "embed", "input": "dog"}),
    ("POST /serving-endpoints/{model}/invocations", "chat", {"messages": HELLO}),
    ("POST /v2/models/{model}/infer", "chat", {"inputs": [IDS, LENGTH]}),
    ("POST /v2/models/{model}/versions/1/infer", "chat", {"inputs": [IDS, LENGTH], "id": "7"}),
    ("POST /v2/models/{model}/generate", "chat", {"text_input": "17 +", "max_tokens": 3}),
    ("POST /v2/models/{model}/generate", "chat", {"input_ids": [1, 344], "max_tokens": 3}),
    ("POST /v2/models/{model}/generate_stream", "chat", {"text_input": "1", "max_tokens": 2}),
    ("POST /v2/repository/index", "", {}),
    ("GET /healthz", "", None),
    ("GET /readyz", "", None),
    ("GET /health", "", None),
    ("GET /metrics", "", None),
    ("GET /v1/models", "", None),
    ("GET /v1/models/{model}", "chat", None),
    ("GET /api/2.0/serving-endpoints", "", None),
    ("GET /api/2.0/serving-endpoints/{name}", "chat", None),
    ("GET /v2", "", None),
    ("GET /v2/health/live", "", None),
    ("GET /v2/health/ready", "", None),
    ("GET /v2/models/{model}", "chat", None),
    ("GET /v2/models/{model}/config", "chat", None),
    ("GET /v2/models/{model}/versions/1/ready", "chat", None),
    ("GET /admin/backends", "", None),
    ("GET /admin/engines", "", None),
    ("GET /admin/requests", "", None),
)


@pytest.fixture(scope="module")
async def gateway(
    tmp_path_factory: pytest.TempPathFactory, engine: SharedEngine
) -> AsyncGenerator[Serving, None]:
    config = CONFIG.format(here=engine.provider)
    async with serving(config, tmp_path_factory.mktemp("run"), engine=engine) as running:
        yield running


@pytest.fixture(scope="module")
async def document(gateway: Serving) -> Json:
    async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
        return (await client.get("/openapi.json")).json()


def tree(value: object, *path: str) -> Json:
    for step in path:
        value = cast(Json, value)[step]
    return cast(Json, value)


def responses(document: Json, route: str) -> Json:
    method, path = route.split()
    return tree(document, "paths", path, method.lower(), "responses")


def fits(document: Json, route: str, answer: httpx.Response) -> None:
    """Its status is described, and so is its media type and, of JSON, its body."""
    described = responses(document, route)
    assert str(answer.status_code) in described, (route, answer.status_code, answer.text[:200])
    response = tree(described, str(answer.status_code))
    for name in tree(response, "headers"):
        assert name in answer.headers, (route, answer.status_code, name)
    content = response.get("content")
    if content is None:
        assert answer.content == b""
        return
    kind = answer.headers["content-type"].partition(";")[0]
    assert kind in cast(Json, content), (route, kind)
    if kind == "application/json":
        schema = tree(content, kind, "schema")
        whole = {**schema, "components": document["components"]}
        Draft202012Validator(whole).validate(answer.json())  # pyright: ignore[reportUnknownMemberType]  # its stubs


@pytest.mark.parametrize("call", CALLS, ids=lambda call: f"{call[0]} {str(call[2])[:60]}")
async def test_a_real_answer_is_as_described(
    call: tuple[str, str, Json | None], gateway: Serving, document: Json
) -> None:
    route, name, body = call
    method, path = route.split()
    key = "key-of-the-operator" if "/admin" in path or path == "/metrics" else KEY
    headers = {"authorization": f"Bearer {key}"}
    url = path.replace("{model}", name).replace("{name}", name)

    async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
        answer = await client.request(method, url, json=body, headers=headers)

    assert answer.status_code == 200, answer.text
    fits(document, route, answer)


async def test_an_infer_answer_in_bytes_is_as_described(gateway: Serving, document: Json) -> None:
    output = {"name": "output_ids", "parameters": {"binary_data": True}}
    body = {"inputs": [IDS, LENGTH], "outputs": [output]}
    async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
        answer = await client.post("/v2/models/chat/infer", json=body, headers={"x-api-key": KEY})

    assert answer.headers["content-type"] == "application/octet-stream"
    fits(document, "POST /v2/models/{model}/infer", answer)


@pytest.mark.parametrize("path", [route.path for route in HOT_ROUTES])
async def test_errors_are_as_described_on_every_route_that_answers(
    path: str, gateway: Serving, document: Json
) -> None:
    """One of each kind that a client can cause by itself."""
    json_type = {"content-type": "application/json"}
    key = {"authorization": f"Bearer {KEY}", **json_type}
    form = "?alt=sse" if path.endswith(":streamGenerateContent") else ""
    url, unknown = (path.replace("{model}", name) + form for name in ("chat", "none"))
    async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
        found = [
            await client.post(url, content=b"{", headers=key),
            await client.post(url, content=b"{}", headers=json_type),
            await client.post(url, content=b"x" * 6000, headers=key),
            await client.post(url, content=b"{}", headers={**key, "content-type": "text/html"}),
            await client.post(url, content=b"{}", headers={**key, "content-encoding": "br"}),
            await client.get(url, headers=key),
            *([await client.post(unknown, json=VALID[path], headers=key)] if path in VALID else []),
        ]

    statuses = [400, 401, 413, 415, 415, 405, *([404] if path in VALID else [])]
    assert [one.status_code for one in found] == statuses
    for answer in found:
        fits(document, f"POST {path}", answer)


VALID: Mapping[str, Json] = {
    "/v1beta/models/{model}:generateContent": {"contents": GREETING},
    "/v1beta/models/{model}:streamGenerateContent": {"contents": GREETING},
    "/v1/chat/completions": {"model": "none", "messages": HELLO},
    "/v1/models/{model}/infer_token": {"input_id": [1]},
    "/serving-endpoints/{model}/invocations": {"messages": HELLO},
    "/v2/models/{model}/infer": {"inputs": [IDS, LENGTH]},
    "/v2/models/{model}/generate": {"text_input": "a", "max_tokens": 1},
}


async def test_errors_of_what_is_looked_up_are_as_described(
    gateway: Serving, document: Json
) -> None:
    key = {"authorization": f"Bearer {KEY}"}
    lookups = [one for one in ROUTES if one.startswith("GET") and "{" in one]
    listed = ["GET /v1/models", "GET /api/2.0/serving-endpoints", "GET /metrics"]
    async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
        for route in lookups:
            url = route.split()[1].replace("{model}", "none").replace("{name}", "none")
            unknown, keyless = await client.get(url, headers=key), await client.get(url)
            assert (unknown.status_code, keyless.status_code) == (404, 401), route
            fits(document, route, unknown)
            fits(document, route, keyless)
        for route in (*listed, "GET /admin/engines"):
            keyless = await client.get(route.split()[1])
            assert keyless.status_code == 401
            fits(document, route, keyless)
        wrong = await client.post("/v1/feedback", json={"request_id": 7}, headers=key)
        huge = await client.post("/v1/feedback", content=b"x" * 100_000, headers=key)
        method = await client.put("/v1/feedback", headers=key)
        for answer in (wrong, huge, method):
            fits(document, "POST /v1/feedback", answer)

    assert [wrong.status_code, huge.status_code, method.status_code] == [400, 413, 405]


async def test_the_routes_described_are_those_that_there_are(document: Json) -> None:
    described = {
        f"{method.upper()} {path}"
        for path, item in tree(document, "paths").items()
        for method in cast(Json, item)
    }

    assert {one for one in described if "/admin" not in one} == set(ROUTES)
    assert {f"POST {route.path}" for route in HOT_ROUTES} <= described
    assert len(described) > len(ROUTES)


def schemas(value: object) -> Iterator[Json]:
    """Every schema of operations and components."""
    if isinstance(value, list):
        for one in cast("list[object]", value):
            yield from schemas(one)
    elif isinstance(value, dict):
        found = cast(Json, value)
        if isinstance(found.get("schema"), dict):
            yield tree(found, "schema")
        for one in found.values():
            yield from schemas(one)


async def test_the_order_of_paths_is_the_same_in_every_process(document: Json) -> None:
    paths = list(tree(document, "paths"))
    models = [route.path for route in HOT_ROUTES]

    assert paths[: len(models)] == models
    assert paths[len(models) :] == sorted(paths[len(models) :])


async def test_every_schema_is_one_and_every_reference_leads_somewhere(document: Json) -> None:
    components = tree(document, "components", "schemas")
    references = {text.partition('"')[0] for text in json.dumps(document).split('"$ref": "')[1:]}
    ids = [
        cast(Json, operation)["operationId"]
        for item in tree(document, "paths").values()
        for operation in cast(Json, item).values()
    ]

    found = (*components.values(), *schemas(tree(document, "paths")))
    for text in {json.dumps(schema) for schema in found}:
        Draft202012Validator.check_schema(cast(Json, json.loads(text)))
    assert {one.rpartition("/")[2] for one in references} <= set(components)
    assert len(ids) == len(set(ids))
    assert document["openapi"] == "3.1.0"


async def test_keys_are_required_as_configured(document: Json, tmp_path: Path) -> None:
    async with (
        serving(one_model("http://127.0.0.1:9/v1"), tmp_path) as free,
        httpx.AsyncClient(base_url=free.url, timeout=60) as client,
    ):
        without = (await client.get("/openapi.json")).json()

    def asked(of: Json, method: str, path: str) -> list[str]:
        named = cast("list[Json]", tree(of, "paths", path, method)["security"])
        return [name for one in named for name in one]

    clients = ["client_key", "client_key_header", "client_key_azure", "client_key_google"]
    assert asked(document, "post", "/v1/chat/completions") == clients
    assert asked(document, "get", "/v1/models") == clients
    assert asked(document, "get", "/metrics") == ["admin_key", "metrics_key"]
    assert asked(document, "get", "/admin/engines") == ["admin_key", "admin_session"]
    assert asked(document, "get", "/healthz") == []
    assert asked(without, "post", "/v1/chat/completions") == []
    assert asked(without, "get", "/admin/engines") == ["admin_key", "admin_session"]
    schemes = tree(document, "components", "securitySchemes")
    assert {*clients, "admin_key", "admin_session", "metrics_key"} == set(schemes)
