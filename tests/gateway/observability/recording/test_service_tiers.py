"""An answer is charged by the price of the service tier in which its vendor served it."""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import httpx
import pytest

from strowger_gateway.schemas.usage import tier_named
from tests.gateway.serving import Serving, serving
from tests.stand_ins import bedrock_server
from tests.stand_ins.provider import Answer, Behaviour, Provider, Received, provider

pytestmark = pytest.mark.anyio

Json = dict[str, object]

RATES = {"priority": 10, "flex": 0.5, "fast": 6, "optimized": 4}
"""By how much dearer each tier is than a dollar per token of the prompt, two of the answer."""
STANDARD = 7 + 2 * 3
TIERS = ", ".join(
    f"{{name: {name}, input: {rate * 1e6}, output: {rate * 2e6}}}" for name, rate in RATES.items()
)
CONFIG = """
providers:
  - {{name: p, adapter: {adapter}, base_url: "{url}", api_key: key-of-the-operator
      {more}}}
models:
  - {{name: chat, backends: [{{provider: p, model: m}}]}}
prices: [{{match: p/*, input: 1000000, output: 2000000, service_tiers: [{tiers}]}}]
"""
TASKS: Mapping[str, tuple[str, Json]] = {
    "chat": ("/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}]}),
    "messages": (
        "/v1/messages",
        {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 20},
    ),
    "responses": ("/v1/responses", {"input": "hi"}),
}
COUNTS: Json = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}


async def sse(answer: Answer, events: Sequence[Json]) -> None:
    await answer.begin_stream()
    for one in events:
        kind = f"event: {one['type']}\n" if "type" in one else ""
        await answer.chunk(f"{kind}data: {json.dumps(one)}\n\n".encode())
    if not any("type" in one or "usageMetadata" in one for one in events):
        await answer.chunk(b"data: [DONE]\n\n")
    await answer.raw(b"0\r\n\r\n")


def openai(tier: str | None, counts: Json | None = COUNTS) -> Behaviour:
    named: Json = {"service_tier": tier} if tier else {}
    head: Json = {"id": "c", "created": 1, "model": "m", **named}

    async def behave(request: Received, answer: Answer) -> None:
        if not request.json.get("stream"):
            message = {"role": "assistant", "content": "hello"}
            choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
            await answer.json({**head, "choices": choices, "usage": counts})
            return
        pieces: list[Json] = [
            {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
            for delta, finish in (({"content": "hello"}, None), ({}, "stop"))
        ]
        if counts is None:
            await answer.begin_stream()
            await answer.chunk(b"data: " + json.dumps(pieces[0]).encode() + b"\n\n")
            answer.reset()
            return
        await sse(answer, [*pieces, {**head, "choices": [], "usage": counts}])

    return behave


def responses(tier: str | None) -> Behaviour:
    text: Json = {"type": "output_text", "text": "hello", "annotations": []}
    item: Json = {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [text],
    }
    whole: Json = {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "model": "m",
        "output": [item],
        "usage": {"input_tokens": 7, "output_tokens": 3, "total_tokens": 10},
        "service_tier": tier,
    }
    begun: Json = {
        **whole,
        "status": "in_progress",
        "output": [],
        "usage": None,
        "service_tier": "auto",
    }
    at = {"item_id": "msg_1", "output_index": 0, "content_index": 0}

    async def behave(request: Received, answer: Answer) -> None:
        if not request.json.get("stream"):
            await answer.json(whole)
            return
        opened: Json = {**item, "status": "in_progress", "content": []}
        events: list[Json] = [
            {"type": "response.created", "response": begun},
            {"type": "response.output_item.added", "output_index": 0, "item": opened},
            {"type": "response.content_part.added", **at, "part": {**text, "text": ""}},
            {"type": "response.output_text.delta", **at, "delta": "hello"},
            {"type": "response.output_text.done", **at, "text": "hello"},
            {"type": "response.content_part.done", **at, "part": text},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": whole},
        ]
        numbered = [{**one, "sequence_number": place} for place, one in enumerate(events)]
        await sse(answer, numbered)

    return behave


def anthropic(tier: str | None) -> Behaviour:
    named: Json = {"speed": "fast"} if tier == "fast" else {"service_tier": tier}
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m"}
    usage = {"input_tokens": 7, "output_tokens": 3, **named}

    async def behave(request: Received, answer: Answer) -> None:
        text = {"type": "text", "text": "hello"}
        if not request.json.get("stream"):
            await answer.json(
                {**head, "content": [text], "stop_reason": "end_turn", "usage": usage}
            )
            return
        begun: Json = {
            **head,
            "content": [],
            "stop_reason": None,
            "usage": {**usage, "output_tokens": 1},
        }
        delta = {"type": "text_delta", "text": "hello"}
        events: list[Json] = [
            {"type": "message_start", "message": begun},
            {"type": "content_block_start", "index": 0, "content_block": {**text, "text": ""}},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {
                "type": "message_delta",
                "delta": {"stop_reason": "end_turn"},
                "usage": {"output_tokens": 3},
            },
            {"type": "message_stop"},
        ]
        await sse(answer, events)

    return behave


def gemini(tier: str | None, field: str = "serviceTier") -> Behaviour:
    content = {"role": "model", "parts": [{"text": "hello"}]}
    counts = {"promptTokenCount": 7, "candidatesTokenCount": 3, "totalTokenCount": 10}
    whole: Json = {
        "candidates": [{"content": content, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {**counts, field: tier},
    }

    async def behave(request: Received, answer: Answer) -> None:
        if "stream" in request.path:
            await sse(answer, [whole])
        else:
            await answer.json(whole)

    return behave


def vertex(tier: str | None) -> Behaviour:
    return gemini(f"ON_DEMAND_{tier.upper()}" if tier else "ON_DEMAND", "trafficType")


def bedrock(tier: str | None) -> Behaviour:
    usage = {"inputTokens": 7, "outputTokens": 3, "totalTokens": 10}
    metrics = {"latencyMs": 5}
    named: Json = {"serviceTier": {"type": tier or "default"}}
    if tier == "optimized":
        named = {"performanceConfig": {"latency": "optimized"}, "serviceTier": {"type": "default"}}

    async def behave(request: Received, answer: Answer) -> None:
        message = {"role": "assistant", "content": [{"text": "hello"}]}
        if not request.path.endswith("-stream"):
            output = {"output": {"message": message}, "stopReason": "end_turn"}
            await answer.json({**output, "usage": usage, "metrics": metrics, **named})
            return
        frames = [
            bedrock_server.event("messageStart", {"role": "assistant"}),
            bedrock_server.event(
                "contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": "hello"}}
            ),
            bedrock_server.event("contentBlockStop", {"contentBlockIndex": 0}),
            bedrock_server.event("messageStop", {"stopReason": "end_turn"}),
            bedrock_server.event("metadata", {"usage": usage, "metrics": metrics, **named}),
        ]
        await answer.body(b"".join(frames), "application/vnd.amazon.eventstream")

    return behave


VENDORS: Mapping[str, tuple[str, Callable[[str | None], Behaviour], Sequence[str]]] = {
    "openai": ("openai", openai, ("priority", "flex", "fast")),
    "groq": ("groq", openai, ("flex",)),
    "responses": ("openai-responses", responses, ("priority", "flex")),
    "anthropic": ("anthropic", anthropic, ("priority", "fast")),
    "gemini": ("gemini", gemini, ("priority", "flex")),
    "vertex": ("gemini", vertex, ("priority", "flex")),
    "bedrock": ("bedrock", bedrock, ("priority", "flex", "optimized")),
}
CASES = [(vendor, tier) for vendor, (_, _, tiers) in VENDORS.items() for tier in (*tiers, None)]


def address(adapter: str, remote: Provider) -> str:
    return remote.base_url if adapter in ("openai", "groq", "openai-responses") else remote.origin


async def send(gateway: Serving, task: str = "chat", **more: object) -> httpx.Response:
    path, body = TASKS[task]
    async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
        return await client.post(path, json={"model": "chat", **body, **more})


def config(adapter: str, remote: Provider, more: str = "") -> str:
    return CONFIG.format(adapter=adapter, url=address(adapter, remote), tiers=TIERS, more=more)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize(("vendor", "tier"), CASES)
async def test_the_tier_that_the_vendor_reports_decides_the_price(
    vendor: str, tier: str | None, task: str, tmp_path: Path
) -> None:
    adapter, behave, _ = VENDORS[vendor]
    async with provider(behave(tier)) as remote:
        async with serving(config(adapter, remote), tmp_path) as gateway:
            whole = await send(gateway, task)
            streamed = await send(gateway, task, stream=True)
            lines = gateway.access_lines()

    assert (whole.status_code, streamed.status_code) == (200, 200), whole.text
    expected = STANDARD * RATES[tier] if tier else STANDARD
    assert [one.cost_usd for one in lines] == [expected, expected]
    assert [one.service_tier for one in lines] == [tier or "", tier or ""]


ALLOWED = ", client_fields: {allow: [service_tier, serviceTier, performanceConfig]}"


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("requested", "reported", "charged"),
    [
        ("priority", None, "priority"),
        ("priority", "default", ""),
        ("priority", "flex", "flex"),
        ("auto", "priority", "priority"),
        ("flex", None, "flex"),
        ("auto", None, ""),
        pytest.param(
            "unheard-of",
            None,
            "unheard-of",
            marks=pytest.mark.vendor_refuses("schema", because="the vendor may know more tiers"),
        ),
    ],
)
async def test_without_a_report_the_tier_that_was_sent_decides(
    requested: str, reported: str | None, charged: str, *, stream: bool, tmp_path: Path
) -> None:
    async with provider(openai(reported)) as remote:
        async with serving(config("openai", remote, ALLOWED), tmp_path) as gateway:
            answer = await send(gateway, stream=stream, service_tier=requested)
            (line,) = gateway.access_lines()

    assert answer.status_code == 200, answer.text
    assert remote.requests[0].json["service_tier"] == requested
    assert line.service_tier == charged
    assert line.cost_usd == STANDARD * RATES.get(charged, 1)


async def test_a_tier_that_a_backend_does_not_get_costs_nothing(tmp_path: Path) -> None:
    async with provider(openai(None)) as remote:
        text = config("openai", remote).replace("backends:", "on_unsupported: drop, backends:", 1)
        async with serving(text, tmp_path) as gateway:
            answer = await send(gateway, service_tier="priority")
            (line,) = gateway.access_lines()

    assert answer.status_code == 200, answer.text
    assert "service_tier" not in remote.requests[0].json
    assert (line.cost_usd, line.service_tier) == (STANDARD, "")


async def test_a_stream_that_breaks_off_is_charged_by_its_tier(tmp_path: Path) -> None:
    async with provider(openai("priority", None)) as remote:
        async with serving(config("openai", remote), tmp_path) as gateway:
            await send(gateway, stream=True)
            (line,) = gateway.access_lines()

    assert line.usage_source == "estimated"
    assert line.completion_tokens is not None
    assert line.prompt_tokens is not None
    assert line.cost_usd == 10 * (line.prompt_tokens + 2 * line.completion_tokens)


@pytest.mark.parametrize("task", ["chat", "responses"])
async def test_budgets_reserve_by_the_price_of_the_tier_that_is_asked_for(
    task: str, tmp_path: Path
) -> None:
    """A request may cost 4 + 2 * 20 = 44 USD; in the priority tier 440."""
    longest = "max_completion_tokens" if task == "chat" else "max_output_tokens"
    adapter, behave = ("openai", openai) if task == "chat" else ("openai-responses", responses)
    async with provider(behave("priority")) as remote:
        budget = "budgets: [{name: b, who: {any: true}, usd: 439}]"
        async with serving(config(adapter, remote, ALLOWED) + budget, tmp_path) as gateway:
            dear = await send(gateway, task, **{"service_tier": "priority", longest: 20})
            cheap = await send(gateway, task, **{"service_tier": "flex", longest: 20})

    assert (dear.status_code, cheap.status_code) == (429, 200), cheap.text
    assert "may use 440 USD" in dear.text


async def test_a_budget_spends_what_the_reported_tier_costs(tmp_path: Path) -> None:
    async with provider(openai("priority")) as remote:
        text = f"{config('openai', remote)}budgets: [{{name: b, who: {{any: true}}, usd: 200}}]"
        async with serving(text, tmp_path) as gateway:
            found: list[int] = []
            for _ in range(3):
                found.append((await send(gateway, max_completion_tokens=20)).status_code)
                gateway.access_lines()
                await asyncio.sleep(0)

    assert found == [200, 200, 429]


@pytest.mark.parametrize(
    ("name", "tier"),
    [("Priority", "priority"), ("ON_DEMAND_FLEX", "flex"), ("on_demand", ""), ("scale", "")],
)
def test_names_of_tiers_are_read_without_case_and_prefix(name: str, tier: str) -> None:
    assert tier_named(name) == tier
