"""The service's own clients, unchanged, against the local engine: the SDK, MLflow's, OpenAI's."""

import asyncio
from collections.abc import Mapping
from typing import cast

import openai
import pytest
from databricks.sdk import WorkspaceClient
from databricks.sdk.errors import platform
from databricks.sdk.service.serving import (
    ChatMessage,
    ChatMessageRole,
    EndpointStateReady,
    QueryEndpointResponseObject,
)

from tests.gateway.serving import Serving
from tests.gateway.surfaces.databricks.mlflow_client import Deployments, deployments

pytest.importorskip("torch")

from tests.local_engine.embeddings.tiny_embedders import TEXTS
from tests.local_engine.goldens.embeddings import read

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.usefixtures("collected"),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
    pytest.mark.filterwarnings("ignore:The 'retry_after_secs' parameter:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:get_open_ai_client:DeprecationWarning"),
]

CASE = "bert-cls"
KEY = "key-of-team-a"
QUESTION = "What is 17 + 25?"
ANSWER = "17 + 25 = 42."
CONFIG = """
auth:
  mode: keys
  keys:
    - {{name: team-a, key: key-of-team-a, models: [chat, assistant, embed]}}
providers:
  - {here}
models:
  - {{name: chat, aliases: [assistant], backends: [{{provider: here, model: tiny}}]}}
  - {{name: embed, backends: [{{provider: here, model: mini}}]}}
  - {{name: secret, backends: [{{provider: here, model: tiny}}]}}
"""


@pytest.fixture
async def workspace(gateway: Serving) -> WorkspaceClient:
    return await asyncio.to_thread(lambda: WorkspaceClient(host=gateway.url, token=KEY))


@pytest.fixture
async def mlflow(gateway: Serving, monkeypatch: pytest.MonkeyPatch) -> Deployments:
    return await asyncio.to_thread(deployments, gateway.url, KEY, monkeypatch)


async def test_the_sdk_requests_a_chat(workspace: WorkspaceClient) -> None:
    messages = [ChatMessage(role=ChatMessageRole.USER, content=QUESTION)]

    answer = await asyncio.to_thread(
        lambda: workspace.serving_endpoints.query("chat", messages=messages, temperature=0)
    )

    assert answer.object is QueryEndpointResponseObject.CHAT_COMPLETION
    assert answer.served_model_name == "here/tiny"
    (choice,) = answer.choices or []
    assert choice.message == ChatMessage(role=ChatMessageRole.ASSISTANT, content=ANSWER)
    assert answer.usage is not None
    assert answer.usage.total_tokens
    assert answer.created
    assert answer.id


async def test_the_sdk_requests_completions(workspace: WorkspaceClient) -> None:
    prompts = [QUESTION, "What is 1 + 2?"]

    answer = await asyncio.to_thread(
        lambda: workspace.serving_endpoints.query("chat", prompt=prompts, temperature=0)
    )

    assert answer.object is QueryEndpointResponseObject.TEXT_COMPLETION
    assert [one.index for one in answer.choices or []] == [0, 1]
    assert [one.text for one in answer.choices or []] == [ANSWER, "1 + 2 = 3."]


async def test_the_sdk_sends_what_it_has_no_argument_for(workspace: WorkspaceClient) -> None:
    more = {"top_k": "1", "echo": "true", "suffix": "!"}

    answer = await asyncio.to_thread(
        lambda: workspace.serving_endpoints.query(
            "chat", prompt=QUESTION, extra_params=more, usage_context={"team": "a"}
        )
    )

    assert [one.text for one in answer.choices or []] == [f"{QUESTION}{ANSWER}!"]


async def test_the_sdk_requests_embeddings(workspace: WorkspaceClient) -> None:
    answer = await asyncio.to_thread(
        lambda: workspace.serving_endpoints.query("embed", input=list(TEXTS))
    )

    assert answer.object is QueryEndpointResponseObject.LIST
    assert answer.served_model_name == "here/mini"
    for one, wanted in zip(answer.data or [], read().tiny[CASE], strict=True):
        assert one.embedding == pytest.approx(wanted, abs=1e-5)


async def test_the_sdk_lists_the_endpoints_that_the_key_may_use(workspace: WorkspaceClient) -> None:
    endpoints = await asyncio.to_thread(lambda: list(workspace.serving_endpoints.list()))

    assert {(one.name, one.task) for one in endpoints} == {
        ("chat", "llm/v1/chat"),
        ("assistant", "llm/v1/chat"),
        ("embed", "llm/v1/embeddings"),
    }


async def test_the_sdk_shows_one_endpoint(workspace: WorkspaceClient) -> None:
    endpoint = await asyncio.to_thread(workspace.serving_endpoints.get, "assistant")

    assert endpoint.state is not None
    assert endpoint.state.ready is EndpointStateReady.READY
    assert endpoint.config is not None
    assert [one.name for one in endpoint.config.served_entities or []] == ["here/tiny"]
    assert endpoint.config.traffic_config is not None
    (route,) = endpoint.config.traffic_config.routes or []
    assert (route.served_entity_name, route.traffic_percentage) == ("here/tiny", 100)


@pytest.mark.parametrize("name", ["secret", "missing"])
async def test_the_sdk_finds_no_endpoint_that_the_key_may_not_use(
    name: str, workspace: WorkspaceClient
) -> None:
    with pytest.raises(platform.ResourceDoesNotExist, match=name):
        await asyncio.to_thread(workspace.serving_endpoints.get, name)


async def test_the_sdk_shows_what_is_wrong(workspace: WorkspaceClient, gateway: Serving) -> None:
    query = workspace.serving_endpoints.query
    stranger = await asyncio.to_thread(lambda: WorkspaceClient(host=gateway.url, token="other"))

    with pytest.raises(platform.BadRequest, match="temperature must be a number from 0 to 2"):
        await asyncio.to_thread(lambda: query("chat", prompt="x", temperature=3))
    with pytest.raises(platform.BadRequest, match="dataframe_records"):
        await asyncio.to_thread(lambda: query("chat", dataframe_records=[{"a": 1}]))
    with pytest.raises(platform.ResourceDoesNotExist, match=r"model 'secret' not found$"):
        await asyncio.to_thread(lambda: query("secret", prompt="x"))
    with pytest.raises(platform.ResourceDoesNotExist, match="model 'missing' not found"):
        await asyncio.to_thread(lambda: query("missing", prompt="x"))
    with pytest.raises(platform.Unauthenticated, match="not valid"):
        await asyncio.to_thread(lambda: stranger.serving_endpoints.query("chat", prompt="x"))


async def test_the_sdks_openai_client_chats(workspace: WorkspaceClient) -> None:
    def ask() -> str | None:
        with workspace.serving_endpoints.get_open_ai_client() as client:  # pyright: ignore[reportUnknownMemberType]  # the SDK does not say
            answer = client.chat.completions.create(
                model="chat", messages=[{"role": "user", "content": QUESTION}], temperature=0
            )
            return answer.choices[0].message.content

    assert await asyncio.to_thread(ask) == ANSWER


async def test_mlflow_requests_all_three(mlflow: Deployments) -> None:
    chat = {"messages": [{"role": "user", "content": QUESTION}], "temperature": 0}
    prompt = {"prompt": QUESTION, "temperature": 0, "suffix": "!", "echo": True}

    said = await asyncio.to_thread(lambda: mlflow.predict(endpoint="chat", inputs=chat))
    continued = await asyncio.to_thread(lambda: mlflow.predict(endpoint="chat", inputs=prompt))
    vectors = await asyncio.to_thread(
        lambda: mlflow.predict(endpoint="embed", inputs={"input": [TEXTS[0]]})
    )

    assert first(said, "choices")["message"] == {
        "role": "assistant",
        "content": ANSWER,
        "refusal": None,
    }
    assert first(continued, "choices")["text"] == f"{QUESTION}{ANSWER}!"
    assert first(vectors, "data")["embedding"] == pytest.approx(read().tiny[CASE][0], abs=1e-5)


async def test_mlflow_reads_a_stream_to_its_end(mlflow: Deployments) -> None:
    chat = {"messages": [{"role": "user", "content": QUESTION}], "temperature": 0}

    chunks = await asyncio.to_thread(
        lambda: list(mlflow.predict_stream(endpoint="chat", inputs=chat))
    )

    deltas = [cast(dict[str, str], first(chunk, "choices")["delta"]) for chunk in chunks]
    assert "".join(delta.get("content", "") for delta in deltas) == ANSWER
    assert first(chunks[-1], "choices")["finish_reason"] == "stop"
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}


async def test_mlflow_lists_and_shows_endpoints(mlflow: Deployments) -> None:
    listed = await asyncio.to_thread(mlflow.list_endpoints)
    shown = await asyncio.to_thread(mlflow.get_endpoint, "embed")

    assert {one["name"] for one in listed} == {"chat", "assistant", "embed"}
    assert shown in listed
    assert shown["task"] == "llm/v1/embeddings"


async def test_mlflow_shows_what_is_wrong(mlflow: Deployments) -> None:
    with pytest.raises(IOError, match=r"400 Client Error.*exactly one of messages"):
        await asyncio.to_thread(lambda: mlflow.predict(endpoint="chat", inputs={"n": 1}))
    with pytest.raises(IOError, match=r"404 Client Error.*RESOURCE_DOES_NOT_EXIST"):
        await asyncio.to_thread(lambda: mlflow.predict(endpoint="no", inputs={"prompt": "x"}))


async def test_openais_client_works_at_the_services_base_path(gateway: Serving) -> None:
    url = f"{gateway.url}/serving-endpoints"
    async with openai.AsyncOpenAI(base_url=url, api_key=KEY, max_retries=0) as client:
        chat = await client.chat.completions.with_raw_response.create(
            model="chat", messages=[{"role": "user", "content": QUESTION}], temperature=0
        )
        text = await client.completions.create(model="chat", prompt=[QUESTION], temperature=0)
        vectors = await client.embeddings.create(model="embed", input=TEXTS[0])
        stream = await client.chat.completions.create(
            model="chat",
            messages=[{"role": "user", "content": QUESTION}],
            temperature=0,
            stream=True,
            stream_options={"include_usage": True},
        )
        chunks = [chunk async for chunk in stream]

    assert chat.parse().choices[0].message.content == ANSWER
    assert chat.headers["served-model-name"] == "here/tiny"
    assert text.choices[0].text == ANSWER
    assert vectors.data[0].embedding == pytest.approx(read().tiny[CASE][0], abs=1e-5)
    said = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
    assert "".join(said) == ANSWER
    assert chunks[-1].usage is not None


async def test_openais_client_uses_the_ai_gateways_path(gateway: Serving) -> None:
    url = f"{gateway.url}/ai-gateway/mlflow/v1"
    async with openai.AsyncOpenAI(base_url=url, api_key=KEY, max_retries=0) as client:
        models = await client.models.list()
        chat = await client.chat.completions.create(
            model="chat", messages=[{"role": "user", "content": QUESTION}], temperature=0
        )
        response = await client.responses.create(model="chat", input=QUESTION, temperature=0)
        vectors = await client.embeddings.create(model="embed", input=TEXTS[0])
        with pytest.raises(openai.NotFoundError, match="model 'missing' not found"):
            await client.completions.create(model="missing", prompt="x")

    assert "chat" in [one.id for one in models.data]
    assert chat.choices[0].message.content == ANSWER
    assert response.output_text == ANSWER
    assert vectors.data[0].embedding == pytest.approx(read().tiny[CASE][0], abs=1e-5)


async def test_openais_client_shows_what_is_wrong(gateway: Serving) -> None:
    url = f"{gateway.url}/serving-endpoints"
    async with openai.AsyncOpenAI(base_url=url, api_key=KEY, max_retries=0) as client:
        with pytest.raises(openai.NotFoundError, match="model 'missing' not found") as caught:
            await client.completions.create(model="missing", prompt="x")
        with pytest.raises(openai.BadRequestError, match="top_p must be a number above 0"):
            await client.completions.create(model="chat", prompt="x", top_p=0)

    assert cast(dict[str, str], caught.value.body)["error_code"] == "RESOURCE_DOES_NOT_EXIST"


def first(answer: Mapping[str, object], field: str) -> dict[str, object]:
    return cast(list[dict[str, object]], answer[field])[0]
