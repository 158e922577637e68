"""The cost of an answer, from the vendor's own usage to the access line; over the wire."""

from pathlib import Path

import httpx
import pytest

from strowger_gateway.gateway.assembly.wiring.prices import prices_of
from strowger_gateway.gateway.config.load import read_config
from strowger_gateway.gateway.observability.telemetry.access_log import AccessLine
from tests.gateway.serving import serving
from tests.stand_ins.provider import Answer, Json, Received, chat_body, provider

pytestmark = pytest.mark.anyio

CONFIG = """
providers: [{{name: remote, adapter: {adapter}, base_url: "{url}", api_key: k}}]
models: [{{name: chat, backends: [{{provider: remote, model: m}}]}}]
{prices}
"""
TIERED = """
prices:
  - match: remote/*
    input: 1.25
    cached_input: 0.125
    output: 10
    audio_input: 3
    image_input: 2
    tiers: [{above: 200_000, input: 2.5, output: 15, image_input: 4, cached_input: 0.25}]
"""
OPENAI = {
    "prompt_tokens": 200_001,
    "completion_tokens": 9,
    "total_tokens": 200_010,
    "prompt_tokens_details": {"cached_tokens": 100_000, "image_tokens": 1_000},
}
GEMINI = {
    "promptTokenCount": 1_100,
    "candidatesTokenCount": 20,
    "thoughtsTokenCount": 30,
    "totalTokenCount": 1_150,
    "promptTokensDetails": [
        {"modality": "TEXT", "tokenCount": 100},
        {"modality": "AUDIO", "tokenCount": 1_000},
    ],
}
USAGE: Json = {"input_tokens": 7, "output_tokens": 3, "total_tokens": 10}
RESPONSES: Json = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1_700_000_000,
    "model": "m",
    "status": "completed",
    "output": [
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "hello", "annotations": list[Json]()}],
        }
    ],
    "usage": USAGE,
}


async def line_of(
    body: Json, tmp_path: Path, *, adapter: str = "openai", prices: str = TIERED
) -> AccessLine:
    async def replies(request: Received, answer: Answer) -> None:
        await answer.json(body)

    async with provider(replies) as remote:
        url = remote.base_url if adapter == "openai" else remote.origin
        config = CONFIG.format(adapter=adapter, url=url, prices=prices)
        async with serving(config, tmp_path) as gateway, httpx.AsyncClient(timeout=60) as client:
            question = {"model": "chat", "messages": [{"role": "user", "content": "hi"}]}
            answer = await client.post(f"{gateway.url}/v1/chat/completions", json=question)
            assert answer.status_code == 200, answer.text
            return gateway.access_lines()[-1]


async def test_a_long_prompt_with_an_image_costs_the_tiers_price(tmp_path: Path) -> None:
    line = await line_of({**chat_body(), "usage": OPENAI}, tmp_path)

    cost = 99_001 * 2.5 + 100_000 * 0.25 + 1_000 * 4 + 9 * 15
    assert line.cost_usd == pytest.approx(cost / 1e6, abs=1e-12)
    assert not line.cost_reported


async def test_audio_that_gemini_heard_has_its_own_price(tmp_path: Path) -> None:
    content = {"role": "model", "parts": [{"text": "hello"}]}
    candidate = {"content": content, "finishReason": "STOP", "index": 0}

    line = await line_of(
        {"candidates": [candidate], "usageMetadata": GEMINI}, tmp_path, adapter="gemini"
    )

    assert line.cost_usd == pytest.approx((100 * 1.25 + 1_000 * 3 + 50 * 10) / 1e6, abs=1e-12)


@pytest.mark.parametrize("prices", ["", TIERED])
async def test_the_cost_that_openrouter_states_is_the_cost(prices: str, tmp_path: Path) -> None:
    usage: Json = {**USAGE, "cost": 0.00123}

    line = await line_of(
        {**RESPONSES, "usage": usage}, tmp_path, adapter="openrouter-responses", prices=prices
    )

    assert (line.cost_usd, line.cost_reported) == (0.00123, True)


@pytest.mark.parametrize(("prices", "cost"), [("", None), (TIERED, (7 * 1.25 + 30) / 1e6)])
async def test_without_a_stated_cost_the_price_counts(
    prices: str, cost: float | None, tmp_path: Path
) -> None:
    line = await line_of(RESPONSES, tmp_path, adapter="openrouter-responses", prices=prices)

    assert line.cost_usd == (None if cost is None else pytest.approx(cost, abs=1e-9))
    assert not line.cost_reported


async def test_another_vendors_cost_is_not_taken_for_dollars(tmp_path: Path) -> None:
    usage: Json = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10, "cost": 5}

    line = await line_of({**chat_body(), "usage": usage}, tmp_path)

    assert line.cost_usd == pytest.approx((7 * 1.25 + 30) / 1e6, abs=1e-9)


@pytest.mark.parametrize(
    ("url", "states"),
    [
        ("https://openrouter.ai/api/v1", True),
        ("https://eu.openrouter.ai/api/v1", True),
        ("https://notopenrouter.ai/api/v1", False),
    ],
)
def test_openrouter_is_known_by_its_address(url: str, states: bool) -> None:
    text = CONFIG.format(adapter="openai", url=url, prices="")

    price = prices_of(read_config(text, source="config.yaml", env={})).of("remote/m")

    assert (price is not None and price.reports) == states
