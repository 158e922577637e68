"""OpenAI's own client in front of the gateway, Vertex AI with Google's tokens behind it."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import openai
import pytest
from openai.types.chat import ChatCompletionMessageParam

from tests.gateway.serving import serving
from tests.stand_ins.google_cloud import VERTEX, GoogleCloud, service_account
from tests.stand_ins.provider import provider

pytestmark = pytest.mark.anyio

CONFIG = """
providers:
  - name: vertex
    adapter: gemini
    base_url: {url}
    google: {{credentials_file: {file}, quota_project: paying}}
models:
  - name: chat
    retry: {{attempts: 1}}
    breaker: {{min_requests: 1000}}
    backends: [{{provider: vertex, model: gemini-2.5-flash}}]
"""
HELLO: ChatCompletionMessageParam = {"role": "user", "content": "hi"}


async def test_chats_and_streams_replace_a_revoked_token(tmp_path: Path) -> None:
    cloud = GoogleCloud()
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(provider(cloud))
        file = service_account(tmp_path, server)
        config = CONFIG.format(url=server.origin + VERTEX, file=file)
        gateway = await stack.enter_async_context(serving(config, tmp_path))
        client = openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key="x", max_retries=0)
        await stack.enter_async_context(client)
        create = client.chat.completions.create

        answers = await asyncio.gather(*(create(model="chat", messages=[HELLO]) for _ in range(50)))
        cloud.revoked.update(cloud.issued)
        chunks = [
            chunk async for chunk in await create(model="chat", messages=[HELLO], stream=True)
        ]

    texts = {answer.choices[0].message.content for answer in answers}
    streamed = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert texts == {streamed}
    assert len(cloud.issued) == 2
    assert set(cloud.projects) == {"paying"}


async def test_without_a_token_the_client_learns_that_and_nothing_of_the_account(
    tmp_path: Path,
) -> None:
    cloud = GoogleCloud()
    cloud.down = [(400, {"error": "invalid_grant", "error_description": "Account disabled"}, {})]
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(provider(cloud))
        file = service_account(tmp_path, server)
        config = CONFIG.format(url=server.origin + VERTEX, file=file)
        gateway = await stack.enter_async_context(serving(config, tmp_path))
        client = openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key="x", max_retries=0)
        await stack.enter_async_context(client)

        with pytest.raises(openai.APIStatusError, match="vertex: no access token") as caught:
            await client.chat.completions.create(model="chat", messages=[HELLO])

    assert caught.value.status_code == 424
    assert "PRIVATE" not in caught.value.message
    assert "invalid_grant" not in caught.value.message
    assert not cloud.issued
