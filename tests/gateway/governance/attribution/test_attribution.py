"""Requests of real SDKs are recorded with the client program and the tags that they came with."""

from collections.abc import AsyncGenerator

import anthropic
import httpx
import openai
import pytest
from openai.types.chat import ChatCompletionMessageParam

from tests.gateway.config.configs import GOOD, faults
from tests.gateway.experiments.recorded_gateway import Recorded, recorded
from tests.stand_ins.provider import provider

pytestmark = pytest.mark.anyio

CONFIG = """
attribution:
  clients: [{{name: billing job, user_agent: acme-}}]
  metadata: [customer]
auth: {{mode: none, admin_key: key-of-the-operator}}
providers: [{{name: a, adapter: openai, base_url: "{url}", api_key: k}}]
models: [{{name: chat, backends: [{{provider: a, model: m}}]}}]
"""
HI: list[ChatCompletionMessageParam] = [{"role": "user", "content": "hi"}]
BODY = {"model": "chat", "messages": [{"role": "user", "content": "hi"}]}


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def up(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Recorded]:
    async with provider() as remote:
        folder = tmp_path_factory.mktemp("attribution")
        async with recorded(CONFIG.format(url=remote.base_url), folder) as gateway:
            yield gateway


async def post(up: Recorded, agent: str, tags: str = "", *, stream: bool = False) -> None:
    headers = [(b"user-agent", agent.encode()), (b"x-gateway-tags", tags.encode())]
    async with httpx.AsyncClient(base_url=up.running.url, timeout=60) as client:
        url, body = "/v1/chat/completions", {**BODY, "stream": stream}
        answer = await client.post(url, json=body, headers=headers)
    assert answer.status_code == 200, answer.text


def last(up: Recorded) -> tuple[str, tuple[str, ...]]:
    line = up.running.access_lines()[-1]
    return line.client, line.request_tags


async def test_the_sdks_of_openai_and_anthropic_are_named_and_their_tags_kept(
    up: Recorded,
) -> None:
    url = up.running.url
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="k") as sdk:
        tags = {"tags": ["nightly", "job:7"], "customer": "acme"}
        await sdk.chat.completions.create(model="chat", messages=HI, extra_body={"metadata": tags})
        assert last(up) == ("openai-python", ("customer=acme", "job:7", "nightly"))
        await sdk.responses.create(model="chat", input="hi", metadata={"tags": "a, b"})
        assert last(up) == ("openai-python", ("a", "b"))
        await sdk.embeddings.create(
            model="chat", input="hi", extra_headers={"x-litellm-tags": "vectors"}
        )
        assert last(up) == ("openai-python", ("vectors",))
    async with anthropic.AsyncAnthropic(base_url=url, api_key="k") as messages:
        await messages.messages.create(
            model="chat",
            max_tokens=9,
            messages=[{"role": "user", "content": "hi"}],
            metadata={"user_id": "4711"},
            extra_headers={"x-gateway-tags": "a=b, c"},
        )
        assert last(up) == ("anthropic-python", ("a=b", "c"))
        await messages.messages.create(
            model="chat",
            max_tokens=9,
            messages=[{"role": "user", "content": "hi"}],
            extra_body={"litellm_metadata": {"tags": ["d"]}},
        )
        assert last(up) == ("anthropic-python", ("d",))


async def test_a_plain_request_has_its_client_and_no_tags(up: Recorded) -> None:
    for agent, name in (("curl/8.5.0", "curl"), ("acme-billing/3", "billing job"), ("", "")):
        for _ in range(2):
            await post(up, agent)
            assert last(up) == (name, ())


async def test_the_store_the_api_and_the_log_have_the_same(up: Recorded) -> None:
    await post(up, "GeminiCLI/1", "é,z", stream=True)
    line = up.running.access_lines()[-1]
    up.settle()
    headers = {"authorization": "Bearer key-of-the-operator"}
    async with httpx.AsyncClient(base_url=up.running.url, headers=headers) as client:
        recent = (await client.get(f"/admin/requests/{line.request_id}")).json()
    stored = up.store.recorded_request(line.request_id)

    assert stored is not None
    assert stored.client == line.client == recent["client"] == "gemini-cli"
    assert list(stored.request_tags) == list(line.request_tags) == recent["request_tags"]
    assert recent["request_tags"] == ["z", "é"]


def test_a_client_of_ones_own_that_can_never_match_is_a_fault() -> None:
    more = "attribution: {clients: [{name: a, user_agent: acme}, {name: b, user_agent: Acme-B}]}"

    assert faults(f"{GOOD}\n{more}") == [
        "attribution.clients[1].user_agent: never matches: attribution.clients[0] matches first; "
        "put it before"
    ]
