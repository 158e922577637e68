"""Databricks' own SDK as the oracle: the gateway sends what the SDK sends to a workspace."""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import parse_qs

import httpx
import pytest
from databricks.sdk import WorkspaceClient
from databricks.sdk.errors import platform
from databricks.sdk.oauth import ClientCredentials
from databricks.sdk.service.serving import ChatMessage, ChatMessageRole, QueryEndpointResponse

from tests.gateway.serving import serving
from tests.stand_ins.databricks_server import DatabricksServer, databricks_server
from tests.stand_ins.provider import Received

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.usefixtures("collected"),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
    pytest.mark.filterwarnings("ignore:The 'retry_after_secs' parameter:DeprecationWarning"),
]

CONFIG = """
providers:
  - name: dbx
    adapter: databricks
    base_url: {url}
    oauth: {{client_id: {id}, client_secret: {secret}, client_auth: {auth}}}
models:
  - {{name: claude, backends: [{{provider: dbx, model: claude}}]}}
"""
HELLO = [ChatMessage(role=ChatMessageRole.USER, content="hi there")]

Ask = Callable[[WorkspaceClient], QueryEndpointResponse]

QUERIES: Mapping[str, Ask] = {
    "chat": lambda sdk: sdk.serving_endpoints.query(
        "claude", messages=HELLO, max_tokens=9, temperature=0.5, n=2, stop=["x"]
    ),
    "context": lambda sdk: sdk.serving_endpoints.query(
        "claude", messages=HELLO, usage_context={"team": "a"}, client_request_id="r-1"
    ),
    "prompts": lambda sdk: sdk.serving_endpoints.query("claude", prompt=["one", "two"], n=2),
    "prompt": lambda sdk: sdk.serving_endpoints.query("claude", prompt="one", max_tokens=2),
    "embeddings": lambda sdk: sdk.serving_endpoints.query("claude", input=["a", "b"]),
}


def config(server: DatabricksServer, auth: str = "basic") -> str:
    server.client_secret = "dose0123456789abcdef"  # the shape of Databricks' own secrets
    return CONFIG.format(
        url=server.base_url, id=server.client_id, secret=server.client_secret, auth=auth
    )


def of_token(request: Received) -> tuple[str, str, dict[str, list[str]]]:
    """What a call for a token says."""
    who = request.headers.get("authorization", "")
    return request.path, who, parse_qs(request.body.decode())


@pytest.mark.parametrize("auth", ["basic", "body"])
async def test_a_token_is_requested_as_by_the_sdk(auth: str, tmp_path: Path) -> None:
    async with databricks_server() as server, serving(config(server, auth), tmp_path) as gateway:
        async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
            await client.post(
                "/v1/chat/completions",
                json={"model": "claude", "messages": [{"role": "user", "content": "hi"}]},
            )
        sdk = ClientCredentials(
            client_id=server.client_id,
            client_secret=server.client_secret,
            token_url=f"{server.base_url}/oidc/v1/token",
            scopes="all-apis",
            use_header=auth == "basic",
            use_params=auth == "body",
        )
        token = await asyncio.to_thread(sdk.token)

    ours, theirs = server.token_requests
    assert token.access_token == server.issued[1]
    assert of_token(ours) == of_token(theirs)


@pytest.mark.parametrize("ask", QUERIES.values(), ids=QUERIES.keys())
async def test_the_sdk_gets_the_same_through_the_gateway(ask: Ask, tmp_path: Path) -> None:
    async with databricks_server() as server, serving(config(server), tmp_path) as gateway:
        near = await asyncio.to_thread(
            lambda: ask(WorkspaceClient(host=server.base_url, token=server.key))
        )
        through = await asyncio.to_thread(
            lambda: ask(WorkspaceClient(host=gateway.url, token="unused"))
        )

    direct, forwarded = server.bodies
    assert {**forwarded, "stream": False} == {**direct, "stream": False}
    assert reported(through) == reported(near)


async def test_the_sdk_gets_the_same_errors(tmp_path: Path) -> None:
    wrong = [*HELLO, ChatMessage(role=ChatMessageRole.SYSTEM, content="Be brief.")]

    def ask(host: str) -> QueryEndpointResponse:
        sdk = WorkspaceClient(host=host, token="dapi-fake")
        return sdk.serving_endpoints.query("claude", messages=wrong)

    async with databricks_server() as server, serving(config(server), tmp_path) as gateway:
        for host in (server.base_url, gateway.url):
            with pytest.raises(platform.BadRequest, match="first"):
                await asyncio.to_thread(ask, host)


def reported(answer: QueryEndpointResponse) -> object:
    """What both must say: all but ids, times and the names of models."""
    return (answer.object, answer.choices, answer.data, answer.usage)
