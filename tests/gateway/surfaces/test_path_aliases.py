"""Paths that clients build for themselves lead where they mean."""

from collections.abc import AsyncGenerator

import httpx
import pytest
from mistralai.client import Mistral

from strowger_gateway.gateway.surfaces.path_aliases import own_path
from tests.gateway.serving import one_model, serving
from tests.stand_ins.provider import answers, provider

pytestmark = pytest.mark.anyio

ALIAS = "    aliases: [system.ai.claude-sonnet-4-5]"
CHAT = {"model": "chat", "messages": [{"role": "user", "content": "hi"}]}


@pytest.fixture(scope="module")
async def web(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[httpx.AsyncClient]:
    async with (
        provider(answers) as remote,
        serving(
            one_model(remote.base_url, model_more=ALIAS), tmp_path_factory.mktemp("run")
        ) as gateway,
        httpx.AsyncClient(base_url=gateway.url, timeout=60) as client,
    ):
        yield client


@pytest.mark.parametrize(
    "path",
    [
        "/openai/v1/chat/completions",  # groq's SDKs, and Azure's v1
        "/v1/openai/v1/chat/completions",  # groq's, with OpenAI's form of the base URL
        "/openai/v1/openai/v1/chat/completions",  # and with Groq's own
        "/v1/v1/chat/completions",  # together's
        "/endpoints/chat/invocations",  # mlflow's deployments client of a gateway
        "/ai-gateway/mlflow/v1/chat/completions",  # Databricks' AI gateway, on a workspace's host
        "/mlflow/v1/chat/completions",  # and on its own
        "/ai-gateway/openai/v1/chat/completions",  # databricks-openai with the native API
        "/ai-gateway/cursor/v1/chat/completions",  # what Databricks gives to Cursor
    ],
)
async def test_a_chat_is_answered_at_a_clients_own_path(web: httpx.AsyncClient, path: str) -> None:
    body = {"messages": CHAT["messages"]} if "endpoints" in path else CHAT
    for stream in (False, True):
        answer = await web.post(path, json={**body, "stream": stream})

        assert answer.status_code == 200, answer.text
        assert "hel" in answer.text


async def test_databricks_clients_reach_the_responses_api(web: httpx.AsyncClient) -> None:
    answer = await web.post("/serving-endpoints/responses", json={"model": "chat", "input": "hi"})
    codex = await web.post("/ai-gateway/codex/v1/responses", json={"model": "chat", "input": "hi"})
    wrong = await web.post("/serving-endpoints/responses", json={"model": "none", "input": "hi"})
    stored = await web.get("/serving-endpoints/responses/resp_1")

    assert answer.json()["object"] == codex.json()["object"] == "response"
    assert wrong.json()["error"]["code"] == "model_not_found"
    assert stored.status_code == 404
    assert "does not store" in stored.text


@pytest.mark.parametrize("prefix", ["/ai-gateway", ""])
async def test_every_api_of_databricks_ai_gateway_is_at_its_path(
    web: httpx.AsyncClient, prefix: str
) -> None:
    name = "system.ai.claude-sonnet-4-5"
    turns = {"messages": CHAT["messages"], "max_tokens": 5}
    parts = {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}

    chat = await web.post(f"{prefix}/mlflow/v1/chat/completions", json={**CHAT, "model": name})
    response = await web.post(f"{prefix}/openai/v1/responses", json={"model": name, "input": "hi"})
    also = await web.post(f"{prefix}/mlflow/v1/responses", json={"model": name, "input": "hi"})
    message = await web.post(f"{prefix}/anthropic/v1/messages", json={**turns, "model": name})
    content = await web.post(f"{prefix}/gemini/v1beta/models/{name}:generateContent", json=parts)
    vectors = await web.post(f"{prefix}/mlflow/v1/embeddings", json={"model": "no", "input": "a"})

    assert chat.json()["object"] == "chat.completion"
    assert response.json()["object"] == also.json()["object"] == "response"
    assert message.json()["type"] == "message"
    assert content.json()["candidates"][0]["content"]["role"] == "model"
    assert vectors.json()["error"]["code"] == "model_not_found"


@pytest.mark.parametrize("path", ["/openai/v1/models", "/v1/v1/models", "/openai/v1/models/chat"])
async def test_models_are_listed_there_too(web: httpx.AsyncClient, path: str) -> None:
    answer = await web.get(path)

    assert answer.status_code == 200
    assert '"id":"chat"' in answer.text


async def test_the_address_itself_answers(web: httpx.AsyncClient) -> None:
    head, got = await web.head("/"), await web.get("/")

    assert (head.status_code, got.status_code) == (200, 200)
    assert got.json()["models"] == "/v1/models"


async def test_errors_for_other_vendors_clients_are_where_they_look(
    web: httpx.AsyncClient,
) -> None:
    converse = await web.post("/model/chat/converse", json={})
    ollama = await web.post("/api/chat", json={})
    copying = await web.post("/api/copy", json={"source": "a", "destination": "b"})

    assert converse.json()["message"] == converse.json()["error"]["message"]
    assert "POST /v1/chat/completions" in converse.json()["message"]
    assert isinstance(ollama.json()["error"], str)
    assert copying.status_code == 404
    assert "Ollama's management of models is not served here" in copying.json()["error"]


async def test_files_are_refused_in_the_words_of_the_client_that_asks(
    web: httpx.AsyncClient,
) -> None:
    openais = await web.get("/v1/files")
    anthropics = await web.get("/v1/files", headers={"anthropic-version": "2023-06-01"})

    assert openais.json()["error"]["code"] == "unknown_url"
    assert anthropics.json()["type"] == "error"
    assert anthropics.json()["error"]["type"] == "not_found_error"


@pytest.mark.parametrize("path", ["/v2/models/stats", "/v2/models/chat/stats"])
async def test_tritons_statistics_are_said_to_be_elsewhere(
    web: httpx.AsyncClient, path: str
) -> None:
    answer = await web.get(path)

    assert answer.status_code == 404
    assert "GET /metrics" in answer.json()["error"]


async def test_mistrals_client_lists_the_models(web: httpx.AsyncClient) -> None:
    address = str(web.base_url).rstrip("/")
    async with Mistral(api_key="k", server_url=address) as client:
        found = await client.models.list_async()

    names = [one.id for one in found.data or [] if one.type == "base"]
    assert names == ["chat", "system.ai.claude-sonnet-4-5"]


def test_other_paths_have_no_alias() -> None:
    served = ("/v1/chat/completions", "/v1/models/v1/m", "/v1/models/openai/v1/m")
    for path in (*served, "/openai/deployments/m/x", "/openai/v1", "/endpoints/m", "/v1"):
        assert own_path(path) == ""
