"""OpenAI's own client in front of the gateway, vendors of the catalogue behind it."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from pathlib import Path

import httpx
import openai
import pytest
from msgspec import Struct
from openai.types.chat import ChatCompletionMessageParam

from tests.adapters.traffic import fixture
from tests.gateway.serving import Serving, serving
from tests.stand_ins.provider import Answer, Provider, Received, provider

pytestmark = pytest.mark.anyio

PROVIDER = """
  - name: {adapter}
    adapter: {adapter}
    base_url: {url}/{adapter}
"""
MODEL = """
  - name: {adapter}
    breaker: {{min_requests: 1000}}
    retry: {{attempts: 1}}
    backends: [{{provider: {adapter}, model: m}}]
"""
SAYS = {
    "perplexity": "perplexity/chat-stream-sources",
    "llama-cpp": "llama-cpp/chat-stream-timings",
    "groq": "groq/chat-stream-error-aside",
}
HELLO: ChatCompletionMessageParam = {"role": "user", "content": "hi"}


class Setting(Struct, frozen=True, kw_only=True, eq=False):
    """Three vendors at one address, the gateway in front of them, and a client of the gateway."""

    vendors: Provider
    gateway: Serving
    client: openai.AsyncOpenAI


async def says(request: Received, answer: Answer) -> None:
    vendor = request.path.split("/")[1]
    first, mark, rest = fixture(SAYS[vendor]).body.partition(b"\n\n")
    await answer.begin_stream()
    await answer.chunk(first + mark)
    await asyncio.sleep(0.05)  # so that the beginning is on its way before a failure
    await answer.chunk(rest)
    await answer.raw(b"0\r\n\r\n")


@pytest.fixture
async def setting(tmp_path: Path) -> AsyncGenerator[Setting, None]:
    async with AsyncExitStack() as stack:
        vendors = await stack.enter_async_context(provider(says))
        config = "providers:" + "".join(
            PROVIDER.format(adapter=name, url=vendors.origin) for name in SAYS
        )
        config += "models:" + "".join(MODEL.format(adapter=name) for name in SAYS)
        gateway = await stack.enter_async_context(serving(config, tmp_path))
        client = openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key="x", max_retries=0)
        await stack.enter_async_context(client)
        yield Setting(vendors=vendors, gateway=gateway, client=client)


async def test_sources_that_come_late_reach_the_client_once(setting: Setting) -> None:
    stream = await setting.client.chat.completions.create(
        model="perplexity", messages=[HELLO], stream=True
    )
    chunks = [chunk async for chunk in stream]

    assert "".join(one.choices[0].delta.content or "" for one in chunks) == (
        "In the Bay of Fundy.[1]"
    )
    reported = [getattr(chunk, "citations", None) for chunk in chunks]
    assert [one for one in reported if one] == [["https://tides.test/fundy"]]
    assert getattr(chunks[-1], "status", None) == "COMPLETED"


async def test_llama_cpp_gets_its_own_names_and_reports_its_timings(setting: Setting) -> None:
    stream = await setting.client.chat.completions.create(
        model="llama-cpp",
        messages=[HELLO],
        stream=True,
        stream_options={"include_usage": True},
        extra_body={"repetition_penalty": 1.25, "mirostat": 2},
    )
    chunks = [chunk async for chunk in stream]

    sent = setting.vendors.requests[-1]
    assert sent.path == "/llama-cpp/chat/completions"
    assert (sent.json["repeat_penalty"], sent.json["mirostat"]) == (1.25, 2)
    assert "repetition_penalty" not in sent.json
    assert chunks[-1].usage is not None
    assert getattr(chunks[-1], "timings", {})["predicted_n"] == 4


async def test_an_error_next_to_the_choices_ends_the_stream_with_an_error(setting: Setting) -> None:
    stream = await setting.client.chat.completions.create(
        model="groq", messages=[HELLO], stream=True
    )

    with pytest.raises(openai.APIError, match="the model was taken down"):
        _ = [chunk async for chunk in stream]


async def test_what_groq_would_refuse_is_refused_by_name_before_it_is_sent(
    setting: Setting,
) -> None:
    async with httpx.AsyncClient(base_url=setting.gateway.url, timeout=60) as client:
        answer = await client.post(
            "/v1/chat/completions",
            json={"model": "groq", "messages": [HELLO], "logit_bias": {"5": 1}},
        )

    assert answer.status_code == 400
    assert "logit_bias" in json.dumps(answer.json())
    assert not setting.vendors.requests
