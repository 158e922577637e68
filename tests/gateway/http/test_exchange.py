"""The exchange end to end: the client's bytes in, the provider's answer out, over real sockets."""

from pathlib import Path

import openai
import pytest

from tests.gateway.serving import one_model, serving
from tests.stand_ins.provider import provider

pytestmark = pytest.mark.anyio


def client(url: str, key: str = "none") -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0)


async def test_the_openai_client_gets_an_answer(tmp_path: Path) -> None:
    async with (
        provider() as remote,
        serving(one_model(remote.base_url), tmp_path) as gateway,
        client(gateway.url) as openai_client,
    ):
        answer = await openai_client.chat.completions.create(
            model="chat", messages=[{"role": "user", "content": "hi"}]
        )

    assert answer.choices[0].message.content == "hello"
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage is not None
    assert answer.usage.total_tokens == 10
    assert remote.requests[0].path == "/v1/chat/completions"
    assert remote.requests[0].json["model"] == "m-1"
    assert remote.requests[0].headers["authorization"] == "Bearer sk-secret-of-the-operator"


async def test_the_openai_client_gets_a_stream(tmp_path: Path) -> None:
    async with (
        provider() as remote,
        serving(one_model(remote.base_url), tmp_path) as gateway,
        client(gateway.url) as openai_client,
    ):
        stream = await openai_client.chat.completions.create(
            model="chat", messages=[{"role": "user", "content": "hi"}], stream=True
        )
        chunks = [chunk async for chunk in stream]

    assert "".join(c.choices[0].delta.content or "" for c in chunks) == "hello"
    assert chunks[-1].choices[0].finish_reason == "stop"
    assert all(chunk.usage is None for chunk in chunks)


async def test_embeddings_come_back_as_floats_although_the_client_requests_base64(
    tmp_path: Path,
) -> None:
    async with (
        provider() as remote,
        serving(one_model(remote.base_url), tmp_path) as gateway,
        client(gateway.url) as openai_client,
    ):
        answer = await openai_client.embeddings.create(model="chat", input=["a", "b"])

    assert [item.embedding for item in answer.data] == [[0.5, -1.0], [0.5, -1.0]]
