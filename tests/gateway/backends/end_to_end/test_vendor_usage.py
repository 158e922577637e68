"""A vendor's usage reaches the client and is recorded at the operator's prices; over the wire."""

import json
from pathlib import Path

import openai
import pytest
from openai.types.chat import ChatCompletionMessageParam

from tests.adapters.anthropic.test_anthropic_decode import begun, ended, sse, text
from tests.gateway.serving import serving
from tests.stand_ins.provider import Answer, Received, provider

pytestmark = pytest.mark.anyio

CONFIG = """
providers:
  - {{name: claude, adapter: anthropic, base_url: {url}, api_key: sk-ant-0123456789}}
models:
  - name: chat
    defaults: {{max_tokens: 10}}
    backends: [{{provider: claude, model: m}}]
prices:
  - {{match: claude/m, input: 10, output: 50, cache_write: 12.5, cache_write_1h: 20}}
"""
HELLO: ChatCompletionMessageParam = {"role": "user", "content": "hi"}
THEIRS = {
    "cache_creation": {"ephemeral_5m_input_tokens": 1000, "ephemeral_1h_input_tokens": 3000},
    "server_tool_use": {"web_search_requests": 2},
    "service_tier": "standard",
}
USAGE = {"input_tokens": 500, "output_tokens": 5, "cache_creation_input_tokens": 4000, **THEIRS}


async def writes_to_the_cache(request: Received, answer: Answer) -> None:
    if request.json.get("stream"):
        frames = sse(begun(**USAGE), *text("Hi"), *ended("end_turn"))
        await answer.body(frames, "text/event-stream")
    else:
        content = [{"type": "text", "text": "Hi"}]
        await answer.json({"content": content, "stop_reason": "end_turn", "usage": USAGE})


@pytest.mark.parametrize("stream", [False, True])
async def test_cache_writes_of_an_hour_and_searches_are_reported_and_recorded(
    stream: bool, tmp_path: Path
) -> None:
    async with (
        provider(writes_to_the_cache) as server,
        serving(CONFIG.format(url=server.origin), tmp_path) as gateway,
        openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key="x", max_retries=0) as client,
    ):
        if stream:
            chunks = await client.chat.completions.create(
                model="chat",
                messages=[HELLO],
                stream=True,
                stream_options={"include_usage": True},
            )
            usage = [chunk.usage async for chunk in chunks][-1]
        else:
            whole = await client.chat.completions.create(model="chat", messages=[HELLO])
            usage = whole.usage
        (line,) = gateway.access_lines()

    assert usage is not None
    assert (usage.prompt_tokens, usage.completion_tokens) == (4500, 5)
    assert json.loads(json.dumps(usage.model_extra)).items() >= THEIRS.items()
    assert (line.cache_write_tokens, line.cache_write_1h_tokens) == (4000, 3000)
    cost = 500 * 10 + 1000 * 12.5 + 3000 * 20 + 5 * 50
    assert line.cost_usd == pytest.approx(cost / 1e6)
