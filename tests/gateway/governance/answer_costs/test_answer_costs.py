"""What an answer cost, as real SDKs see it: in a header, and in `usage`, exactly as in the log."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from decimal import Decimal

import anthropic
import httpx
import openai
import pytest
from msgspec import Struct
from openai.types import CompletionUsage
from openai.types.chat import ChatCompletionMessageParam

from tests.gateway.config.configs import GOOD, warnings
from tests.gateway.serving import Serving, serving
from tests.stand_ins.provider import provider

pytestmark = pytest.mark.anyio

CONFIG = """
costs: {{in_answers: {shown}}}
server: {{expose_headers: {headers}}}
cache: {{store: memory}}
providers: [{{name: a, adapter: openai, base_url: "{url}", api_key: k}}]
models:
  - {{name: chat, backends: [{{provider: a, model: m}}]}}
  - {{name: cached, cache: {{when: always}}, backends: [{{provider: a, model: c}}]}}
  - {{name: free, backends: [{{provider: a, model: unpriced}}]}}
prices: [{{match: a/m, input: 1, output: 10}}, {{match: a/c, input: 1, output: 10}}]
"""
HI: list[ChatCompletionMessageParam] = [{"role": "user", "content": "hi"}]
HEADER = "x-gateway-cost-usd"


class Three(Struct, frozen=True, kw_only=True, eq=False):
    usage: Serving
    header: Serving
    hidden: Serving


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def up(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Three]:
    async with AsyncExitStack() as stack:
        remote = await stack.enter_async_context(provider())
        found: list[Serving] = []
        for shown, headers in (("usage", "true"), ("header", "true"), ("header", "false")):
            text = CONFIG.format(url=remote.base_url, shown=shown, headers=headers)
            folder = tmp_path_factory.mktemp(shown)
            found.append(await stack.enter_async_context(serving(text, folder)))
        yield Three(usage=found[0], header=found[1], hidden=found[2])


def cost_in(usage: CompletionUsage | None) -> object:
    assert usage is not None
    return (usage.model_extra or {}).get("cost")


def last_cost(up: Serving) -> float | None:
    return up.access_lines()[-1].cost_usd


async def test_openais_sdk_has_the_cost_of_whole_and_streamed_answers(up: Three) -> None:
    async with openai.AsyncOpenAI(base_url=f"{up.usage.url}/v1", api_key="k") as sdk:
        answer = await sdk.chat.completions.with_raw_response.create(model="chat", messages=HI)
        whole = answer.parse()
        assert cost_in(whole.usage) == last_cost(up.usage)
        assert float(Decimal(answer.headers[HEADER])) == last_cost(up.usage)
        assert last_cost(up.usage)
        stream = await sdk.chat.completions.create(
            model="chat", messages=HI, stream=True, stream_options={"include_usage": True}
        )
        chunks = [chunk async for chunk in stream]
        assert cost_in(chunks[-1].usage) == last_cost(up.usage)
        assert [one.choices[0].delta.content for one in chunks[:-1] if one.choices]
        quiet = await sdk.chat.completions.create(model="chat", messages=HI, stream=True)
        assert [one.usage async for one in quiet if one.usage is not None] == []


async def test_an_answer_from_the_cache_costs_nothing(up: Three) -> None:
    async with openai.AsyncOpenAI(base_url=f"{up.usage.url}/v1", api_key="k") as sdk:
        costs: list[object] = []
        for _ in range(2):
            answer = await sdk.chat.completions.create(model="cached", messages=HI)
            costs.append(cost_in(answer.usage))
            assert costs[-1] == last_cost(up.usage)

    assert costs[0]
    assert costs[1] == 0


async def test_an_unknown_cost_is_unknown_and_never_nothing(up: Three) -> None:
    async with httpx.AsyncClient(base_url=up.usage.url, timeout=60) as client:
        answer = await client.post(
            "/v1/chat/completions", json={"model": "free", "messages": list(HI)}
        )

    assert answer.headers[HEADER] == "unknown"
    assert "cost" not in answer.json()["usage"]
    assert last_cost(up.usage) is None


async def test_other_dialects_and_tasks_have_the_header(up: Three) -> None:
    async with anthropic.AsyncAnthropic(base_url=up.usage.url, api_key="k") as sdk:
        answer = await sdk.messages.with_raw_response.create(
            model="chat", max_tokens=9, messages=[{"role": "user", "content": "hi"}]
        )
        assert float(answer.headers[HEADER]) == last_cost(up.usage)
        assert "cost" not in answer.http_response.json()["usage"]
    async with openai.AsyncOpenAI(base_url=f"{up.usage.url}/v1", api_key="k") as other:
        response = await other.responses.with_raw_response.create(model="chat", input="hi")
        assert float(response.headers[HEADER]) == last_cost(up.usage)
        vectors = await other.embeddings.with_raw_response.create(model="chat", input="hi")
        assert float(vectors.headers[HEADER]) == last_cost(up.usage)


async def test_a_header_alone_leaves_usage_as_it_is_and_hidden_headers_show_nothing(
    up: Three,
) -> None:
    for one, shown in ((up.header, True), (up.hidden, False)):
        async with httpx.AsyncClient(base_url=one.url, timeout=60) as client:
            body = {"model": "chat", "messages": list(HI)}
            answer = await client.post("/v1/chat/completions", json=body)
        assert (HEADER in answer.headers) == shown
        assert "cost" not in answer.json()["usage"]


def test_costs_without_headers_are_a_warning() -> None:
    quiet = "server: {expose_headers: false}"

    for shown, effect in (("usage", "sends no header"), ("header", "has no effect")):
        found = warnings(f"{GOOD}\n{quiet}\ncosts: {{in_answers: {shown}}}")
        assert [one for one in found if one.startswith("costs")] == [
            f"costs.in_answers: {effect}, because server.expose_headers is false"
        ]
    assert not [one for one in warnings(f"{GOOD}\n{quiet}") if one.startswith("costs")]
