"""Counting tokens with Anthropic's own client: exact, or an estimate that says so."""

import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import cast

import anthropic
import httpx
import pytest

from tests.gateway.backends.vendors.triton import TOKENIZER
from tests.gateway.serving import one_model
from tests.gateway.surfaces.anthropic.claude import (
    BEHIND_CLAUDE,
    HELLO,
    WEATHER,
    ClaudeSetting,
    claude_in_front_of,
)
from tests.stand_ins.provider import Answer, Received, answers

pytestmark = pytest.mark.anyio


async def counts(request: Received, answer: Answer) -> None:
    """Anthropic's route, with as many tokens as the body has bytes."""
    if request.path != "/v1/messages/count_tokens":
        await answer.json({"type": "error", "error": {"type": "not_found_error"}}, 404)
    else:
        await answer.json({"input_tokens": len(request.body)})


@pytest.fixture
async def setting(tmp_path: Path) -> AsyncGenerator[ClaudeSetting, None]:
    async with claude_in_front_of(counts, BEHIND_CLAUDE, tmp_path) as one:
        yield one


async def test_a_vendor_that_counts_is_asked(setting: ClaudeSetting) -> None:
    answer = await setting.client.messages.with_raw_response.count_tokens(
        model="chat",
        messages=[HELLO],
        system="Be kind.",
        tools=[WEATHER],
        thinking={"type": "enabled", "budget_tokens": 1024},
        extra_headers={"anthropic-beta": "token-counting-2024-11-01"},
    )

    (request,) = setting.server.requests
    counted = await answer.parse()
    assert counted.input_tokens == len(request.body)
    assert request.headers["anthropic-beta"] == "token-counting-2024-11-01"
    assert answer.headers["x-gateway-backend"] == "claude/claude-opus-4-6"
    assert "x-gateway-defaulted-params" not in answer.headers
    assert json.loads(request.body) == {
        "model": "claude-opus-4-6",
        "messages": [HELLO],
        "system": "Be kind.",
        "tools": [WEATHER],
        "thinking": {"type": "enabled", "budget_tokens": 1024},
    }


async def test_counting_costs_nothing_and_is_logged_as_such(setting: ClaudeSetting) -> None:
    await setting.client.messages.count_tokens(model="chat", messages=[HELLO])

    (line,) = setting.gateway.access_lines()
    assert (line.task, line.status, line.backend) == (
        "count_tokens",
        200,
        "claude/claude-opus-4-6",
    )
    assert (line.prompt_tokens, line.completion_tokens) == (0, 0)


async def test_where_nothing_counts_the_number_is_an_estimate_and_says_so(tmp_path: Path) -> None:
    config = one_model("URL/v1").replace("{", "{{").replace("}", "}}").replace("URL", "{url}")
    async with claude_in_front_of(answers, config, tmp_path) as setting:
        raw = setting.client.messages.with_raw_response
        short = await raw.count_tokens(model="chat", messages=[HELLO])
        longer = await raw.count_tokens(
            model="chat", messages=[HELLO], system="Be kind. " * 400, tools=[WEATHER]
        )
        pixel = "iVBORw0KGgoAAAANSUhEUgAAA+gAAAPoCAYAAAA="
        source: anthropic.types.Base64ImageSourceParam = {
            "type": "base64",
            "media_type": "image/png",
            "data": pixel,
        }
        image = await raw.count_tokens(
            model="chat",
            messages=[{"role": "user", "content": [{"type": "image", "source": source}]}],
        )

        assert not setting.server.requests
    assert all(one.headers["x-gateway-estimated"] == "input_tokens" for one in (short, longer))
    assert 0 < (await short.parse()).input_tokens < 20
    assert 800 < (await longer.parse()).input_tokens < 1200
    # 1,000 by 1,000 pixels are 85 tokens, and 170 for each of four tiles, at OpenAI.
    assert (await image.parse()).input_tokens == 4 + 85 + 4 * 170


async def test_a_server_without_the_route_is_not_set_aside_for_it(tmp_path: Path) -> None:
    async def lacks(request: Received, answer: Answer) -> None:
        if request.path == "/v1/messages/count_tokens":
            await answer.json({"error": "no such route"}, 404)
        else:
            usage = {"input_tokens": 1, "output_tokens": 1}
            head = {"id": "m", "type": "message", "role": "assistant", "model": "c"}
            content = [{"type": "text", "text": "hi"}]
            end = {"content": content, "stop_reason": "end_turn", "usage": usage}
            await answer.json({**head, **end})

    async with claude_in_front_of(lacks, BEHIND_CLAUDE, tmp_path) as setting:
        counted = await setting.client.messages.with_raw_response.count_tokens(
            model="chat", messages=[HELLO]
        )
        for _ in range(3):
            counted = await setting.client.messages.with_raw_response.count_tokens(
                model="chat", messages=[HELLO]
            )
        answer = await setting.client.messages.create(model="chat", max_tokens=9, messages=[HELLO])

    assert counted.headers["x-gateway-estimated"] == "input_tokens"
    assert answer.content[0].type == "text"


TRANSLATED = f"""
providers:
  - name: remote
    adapter: triton
    base_url: {{url}}
    tokenizer: {TOKENIZER}
models:
  - name: chat
    backends: [{{{{provider: remote, model: m}}}}]
"""


async def test_a_tokenizer_counts_text_for_a_model_that_reads_nothing_else(tmp_path: Path) -> None:
    async with claude_in_front_of(answers, TRANSLATED, tmp_path) as setting:
        counted = await setting.client.messages.count_tokens(model="chat", messages=[HELLO])
        longer = await setting.client.messages.count_tokens(
            model="chat", messages=[{"role": "user", "content": "hi hi hi hi"}]
        )
        with pytest.raises(anthropic.BadRequestError, match="tools is not supported"):
            await setting.client.messages.count_tokens(
                model="chat", messages=[HELLO], tools=[WEATHER]
            )

        assert not setting.server.requests
    assert 0 < counted.input_tokens < longer.input_tokens


async def test_a_request_to_count_needs_a_key_and_a_conversation(setting: ClaudeSetting) -> None:
    async with httpx.AsyncClient(base_url=setting.gateway.url, timeout=60) as client:
        answer = await client.post("/v1/messages/count_tokens", json={"model": "chat"})

    body = cast("dict[str, object]", answer.json())
    assert (answer.status_code, body["type"]) == (400, "error")
