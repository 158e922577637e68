"""Unsupported hints never cause an error, and dropped fields are reported, at any depth."""

from pathlib import Path
from typing import cast

import httpx
import pytest

from tests.gateway.serving import serving
from tests.stand_ins.provider import Answer, Received, provider

pytestmark = pytest.mark.anyio

HINTS: dict[str, object] = {
    "store": False,
    "prompt_cache_key": "k",
    "prompt_cache_retention": "24h",
    "safety_identifier": "s",
    "user": "u",
    "metadata": {"a": "b"},
    "service_tier": "auto",
    "stream_options": {"include_obfuscation": True},
    "parallel_tool_calls": True,
    "verbosity": "low",
    "reasoning_effort": "low",
}
TOOL_FUNCTION: dict[str, object] = {
    "name": "look",
    "parameters": {"type": "object", "properties": {}},
}
TOOL = {"type": "function", "function": TOOL_FUNCTION}
CONFIG = """
providers:
  - {{name: narrow, adapter: mindie, base_url: {url}}}
  - {{name: claude, adapter: anthropic, base_url: {url}, api_key: k}}
  - {{name: wide, adapter: openai, base_url: {url}, api_key: k}}
models:
  - name: chat
    policy: in_order
    backends: [{{provider: narrow, model: n}}, {{provider: wide, model: w}}]
  - {{name: narrow, backends: [{{provider: narrow, model: n}}]}}
  - {{name: strict, backends: [{{provider: narrow, model: n}}], require: true}}
  - {{name: claude, backends: [{{provider: claude, model: claude-3-haiku}}]}}
  - {{name: "claude-*", backends: [{{provider: claude, model: "*"}}]}}
  - {{name: bounded, backends: [{{provider: claude, model: claude-new}}], require: true}}
  - {{name: wide, backends: [{{provider: wide, model: w}}]}}
"""


async def answers(request: Received, answer: Answer) -> None:
    if request.path.endswith("/messages"):
        await answer.json(
            {
                "id": "m",
                "type": "message",
                "role": "assistant",
                "model": "c",
                "content": [{"type": "text", "text": "hi"}],
                "stop_reason": "end_turn",
                "usage": {"input_tokens": 1, "output_tokens": 1},
            }
        )
        return
    choice = {"index": 0, "message": {"role": "assistant", "content": "hi"}}
    await answer.json(
        {
            "id": "c",
            "object": "chat.completion",
            "created": 1,
            "model": "m",
            "choices": [{**choice, "finish_reason": "stop"}],
        }
    )


async def post(url: str, model: str, **body: object) -> httpx.Response:
    sent = {"messages": [{"role": "user", "content": "hi"}], "model": model, **body}
    async with httpx.AsyncClient(base_url=url, timeout=60) as client:
        return await client.post("/v1/chat/completions", json=sent)


def dropped(answer: httpx.Response) -> list[str]:
    return answer.headers.get("x-gateway-dropped-params", "").split(", ")


async def test_hints_are_dropped_and_reported_and_do_not_change_the_backend(tmp_path: Path) -> None:
    async with (
        provider(answers) as remote,
        serving(CONFIG.format(url=remote.base_url), tmp_path) as gateway,
    ):
        answer = await post(gateway.url, "chat", tools=[TOOL], **HINTS)

    assert answer.status_code == 200, answer.text
    assert answer.headers["x-gateway-backend"] == "narrow/n"
    sent = remote.requests[0].json
    tops = {one.partition(".")[0] for one in dropped(answer)}
    assert {*tops, *sent} >= set(HINTS) - {"parallel_tool_calls"}
    assert not tops & set(sent)


async def test_an_agents_request_reaches_mindie_except_for_fields_it_does_not_support(
    tmp_path: Path,
) -> None:
    """Content as lists of parts, cache_control, a strict tool, and hints, as agents send them."""
    body: dict[str, object] = {
        "messages": [
            {"role": "developer", "content": [{"type": "text", "text": "Be brief."}]},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "Read ", "cache_control": {"type": "ephemeral"}},
                    {"type": "text", "text": "a.txt"},
                ],
            },
            {
                "role": "assistant",
                "content": None,
                "annotations": [],
                "audio": None,
                "tool_calls": [
                    {
                        "id": "c1",
                        "type": "function",
                        "function": {"name": "look", "arguments": "{}"},
                    }
                ],
            },
            {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "17"}]},
        ],
        "tools": [{**TOOL, "function": {**TOOL_FUNCTION, "strict": True}}],
        "tool_choice": "auto",
        "max_completion_tokens": 9,
        **{name: value for name, value in HINTS.items() if name != "stream_options"},
    }
    async with (
        provider(answers) as remote,
        serving(CONFIG.format(url=remote.base_url), tmp_path) as gateway,
    ):
        answer = await post(gateway.url, "narrow", **body)

    assert answer.status_code == 200, answer.text
    sent = remote.requests[0].json
    messages = cast("list[dict[str, object]]", sent["messages"])
    assert [one["role"] for one in messages] == ["system", "user", "assistant", "tool"]
    assert [one["content"] for one in messages] == ["Be brief.", "Read a.txt", None, "17"]
    assert sent["max_tokens"] == 9
    assert "messages[].content[].cache_control" in dropped(answer)


@pytest.mark.parametrize("field", ["store", "verbosity", "user"])
async def test_a_model_with_require_rejects_a_hint_by_name(tmp_path: Path, field: str) -> None:
    async with (
        provider(answers) as remote,
        serving(CONFIG.format(url=remote.base_url), tmp_path) as gateway,
    ):
        answer = await post(gateway.url, "strict", **{field: HINTS[field]})

    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == field


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("store", True),
        ("service_tier", "flex"),
        ("stream_options.x", {"include_obfuscation": False, "x": 1}),
    ],
)
async def test_what_changes_the_answer_is_not_a_hint(
    tmp_path: Path, field: str, value: object
) -> None:
    async with (
        provider(answers) as remote,
        serving(CONFIG.format(url=remote.base_url), tmp_path) as gateway,
    ):
        name, streamed = field.partition(".")[0], "." in field  # options go only with a stream
        answer = await post(gateway.url, "narrow", stream=streamed, **{name: value})

    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == field


DEEP = {
    "messages": [
        {
            "role": "user",
            "x_mood": 1,
            "content": [
                {
                    "type": "text",
                    "text": "hi",
                    "cache_control": {"type": "ephemeral", "ttl": "1h"},
                    "x_mark": "a",
                }
            ],
        }
    ],
    "tools": [{**TOOL, "cache_control": {"type": "ephemeral"}, "x_seen": None}],
}


async def test_dropped_nested_fields_are_reported_by_their_path(tmp_path: Path) -> None:
    async with (
        provider(answers) as remote,
        serving(CONFIG.format(url=remote.base_url), tmp_path) as gateway,
    ):
        claude = await post(gateway.url, "claude", **DEEP)
        again = await post(gateway.url, "claude", **DEEP)
        wide = await post(gateway.url, "wide", **DEEP)

    assert claude.status_code == again.status_code == wide.status_code == 200, claude.text
    assert dropped(claude) == ["messages[].x_mood", "messages[].content[].x_mark"]
    assert dropped(again) == dropped(claude)
    sent = remote.requests[0].body
    assert sent.count(b'"cache_control":{"type":"ephemeral"}') == 2  # 1h may not follow 5m
    assert "x-gateway-dropped-params" not in wide.headers
    assert remote.requests[2].json["messages"] == DEEP["messages"]
    assert remote.requests[2].json["tools"] == DEEP["tools"]


async def test_a_model_with_require_rejects_nested_fields_that_would_be_dropped(
    tmp_path: Path,
) -> None:
    async with (
        provider(answers) as remote,
        serving(CONFIG.format(url=remote.base_url), tmp_path) as gateway,
    ):
        answer = await post(gateway.url, "bounded", max_tokens=5, **DEEP)

    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "messages[].x_mood"


async def test_thousands_of_unknown_fields_give_a_short_header(
    tmp_path: Path,
) -> None:
    message = {"role": "user", "content": "hi", **{f"x_{n}": "a" for n in range(5_000)}}
    async with (
        provider(answers) as remote,
        serving(CONFIG.format(url=remote.base_url), tmp_path) as gateway,
    ):
        answer = await post(gateway.url, "claude", messages=[message])

    assert answer.status_code == 200
    assert dropped(answer)[-1] == "and-4900-more"
    assert len(answer.headers["x-gateway-dropped-params"]) < 4096


@pytest.mark.parametrize(
    ("model", "bound"),
    [
        ("claude-3-5-haiku-latest", 8_192),
        ("claude-3-haiku-20240307", 4_096),
        ("claude-opus-4-1", 32_000),
        ("claude-unheard-of", 4_096),
    ],
)
async def test_a_required_max_tokens_is_the_models_own_limit_and_is_reported(
    tmp_path: Path, model: str, bound: int
) -> None:
    async with (
        provider(answers) as remote,
        serving(CONFIG.format(url=remote.base_url), tmp_path) as gateway,
    ):
        unlimited = await post(gateway.url, model)
        limited = await post(gateway.url, model, max_tokens=7)

    assert unlimited.status_code == limited.status_code == 200, unlimited.text
    assert [one.json["max_tokens"] for one in remote.requests] == [bound, 7]
    assert unlimited.headers["x-gateway-defaulted-params"] == f"max_tokens={bound}"
    assert "x-gateway-defaulted-params" not in limited.headers


async def test_a_model_with_require_gets_no_default_max_tokens(tmp_path: Path) -> None:
    async with (
        provider(answers) as remote,
        serving(CONFIG.format(url=remote.base_url), tmp_path) as gateway,
    ):
        answer = await post(gateway.url, "bounded")

    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "max_tokens"
