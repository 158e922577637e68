"""A status of 200 with a rate limit in it, or with nothing at all, streamed and whole."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import cast

import httpx
import pytest

from tests.gateway.serving import Serving, serving
from tests.stand_ins.provider import Answer, Provider, Received, answers, delta_body, provider

pytestmark = pytest.mark.anyio

Json = Mapping[str, object]

LIMITS: Mapping[str, Json] = {
    "alibaba-rate": {"code": "Throttling.RateQuota", "message": "Requests rate limit exceeded"},
    "alibaba-burst": {"code": "Throttling.BurstRate", "message": "increased too quickly"},
    "alibaba-quota": {"code": "Throttling.AllocationQuota", "message": "Allocated quota exceeded"},
    "minimax": {"base_resp": {"status_code": 1002, "status_msg": "rate limit"}},
    "minimax-null": {"choices": None, "base_resp": {"status_code": 1002, "status_msg": "limit"}},
    "minimax-empty": {"choices": [], "base_resp": {"status_code": 1002, "status_msg": "limit"}},
    "fastchat": {"object": "error", "message": "slow down", "code": 42901},
    "zhipu": {"error": {"code": "1302", "message": "concurrency"}},
    "zhipu-day": {"error": {"code": "1304", "message": "the calls of today are used up"}},
    "zhipu-busy": {"error": {"code": "1312", "message": "the model is busy"}},
    "baidu": {"error_code": 336501, "error_msg": "Rate limit reached for RPM"},
    "baidu-code": {"code": 336502, "msg": "Rate limit reached for TPM"},
    "baidu-qps": {"error_code": 18, "error_msg": "Open api qps request limit reached"},
}
"""What a vendor sends with status 200 in place of an answer."""


def whole(message: Json | None, finish: str = "stop", tokens: int | None = 0) -> Json:
    usage = {"prompt_tokens": 3, "completion_tokens": tokens, "total_tokens": 3}
    return {
        "id": "c",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        **({} if tokens is None else {"usage": usage}),
    }


NOTHING: Mapping[str, Json] = {
    "null-message": whole(None),
    "null-message-uncounted": whole(None, tokens=None),
    "null-content": whole({"role": "assistant", "content": None}),
    "empty-content": whole({"role": "assistant", "content": ""}),
}
"""Answers without a text and without a token."""

SOMETHING: Mapping[str, Json] = {
    "a-token": whole({"role": "assistant", "content": ""}, tokens=1),
    "uncounted": whole({"role": "assistant", "content": ""}, tokens=None),
    "length": whole({"role": "assistant", "content": ""}, finish="length"),
    "filtered": whole({"role": "assistant", "content": ""}, finish="content_filter"),
    "reasoned": whole({"role": "assistant", "content": "", "reasoning_content": "hm"}),
}
"""Answers without a text that are answers all the same."""


async def behave(request: Received, answer: Answer) -> None:
    """The model's name says what is sent."""
    kind = str(request.json["model"])
    found = {**LIMITS, **NOTHING, **SOMETHING}.get(kind)
    if found is None:
        await answers(request, answer)
    elif not request.json.get("stream"):
        await answer.json(found)
    elif kind in LIMITS:
        await answer.begin_stream()
        await answer.event(found)
        await answer.raw(b"0\r\n\r\n")
    else:
        await _stream(answer, found)


async def _stream(answer: Answer, found: Json) -> None:
    (choice,) = cast("list[Json]", found["choices"])
    await answer.begin_stream()
    await answer.event(delta_body(cast("Json", choice["message"] or {})))
    await answer.event(delta_body({}, cast("str", choice["finish_reason"])))
    if "usage" in found:
        await answer.event({**delta_body({}), "choices": [], "usage": found["usage"]})
    await answer.end_stream(None)


def config(url: str) -> str:
    lines = [
        "providers:",
        f"  - {{name: a, adapter: openai, base_url: {url}, api_key: k}}",
        f"  - {{name: b, adapter: openai, base_url: {url}, api_key: k}}",
        "models:",
    ]
    for kind in (*LIMITS, *NOTHING, *SOMETHING):
        first = f"{{provider: a, model: {kind}}}"
        more = "policy: in_order, retry: {backoff_s: 0.01},"
        both = f"{first}, {{provider: b, model: works}}"
        lines.append(f"  - {{name: {kind}, {more} backends: [{both}]}}")
        lines.append(f"  - {{name: alone-{kind}, {more} backends: [{first}]}}")
    return "\n".join(lines)


@pytest.fixture(scope="module")
async def gateway(
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncGenerator[tuple[Serving, Provider], None]:
    async with provider(behave) as remote:
        async with serving(config(remote.base_url), tmp_path_factory.mktemp("run")) as running:
            yield running, remote


async def ask(gateway: tuple[Serving, Provider], model: str, *, stream: bool) -> httpx.Response:
    body = {"model": model, "messages": [{"role": "user", "content": "hi"}], "stream": stream}
    async with httpx.AsyncClient(base_url=gateway[0].url, timeout=60) as client:
        return await client.post("/v1/chat/completions", json=body)


EITHER = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])


@EITHER
@pytest.mark.parametrize("kind", LIMITS)
async def test_a_rate_limit_in_a_200_is_a_rate_limit(
    gateway: tuple[Serving, Provider], kind: str, stream: bool
) -> None:
    """Another backend answers at once, and no circuit counts it; alone it is a 429."""
    found, alone = await asyncio.gather(
        ask(gateway, kind, stream=stream), ask(gateway, f"alone-{kind}", stream=stream)
    )

    assert (found.status_code, found.headers["x-gateway-backend"]) == (200, "b/works")
    assert alone.status_code == 429
    breaker = gateway[0].state.runtime.backends[f"{kind}: a/{kind}"].breaker
    assert breaker.failed == 0


@EITHER
@pytest.mark.parametrize("kind", NOTHING)
async def test_an_answer_of_nothing_comes_from_the_next_backend(
    gateway: tuple[Serving, Provider], kind: str, stream: bool
) -> None:
    found, alone = await asyncio.gather(
        ask(gateway, kind, stream=stream), ask(gateway, f"alone-{kind}", stream=stream)
    )

    assert (found.status_code, found.headers["x-gateway-backend"]) == (200, "b/works")
    assert (alone.status_code, alone.json()["error"]["code"]) == (502, "upstream_failed")
    breaker = gateway[0].state.runtime.backends[f"{kind}: a/{kind}"].breaker
    assert breaker.failed == 0, "a request may cause it"


@EITHER
@pytest.mark.parametrize("kind", SOMETHING)
async def test_an_empty_text_that_the_model_has_chosen_is_the_answer(
    gateway: tuple[Serving, Provider], kind: str, stream: bool
) -> None:
    found = await ask(gateway, kind, stream=stream)

    assert (found.status_code, found.headers["x-gateway-backend"]) == (200, f"a/{kind}")


@EITHER
async def test_the_rest_of_an_answer_may_be_nothing(
    gateway: tuple[Serving, Provider], stream: bool
) -> None:
    """The client's last message begins the answer, and it was all of it."""
    messages = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "hello"},
    ]
    body = {"model": "empty-content", "messages": messages, "stream": stream}
    async with httpx.AsyncClient(base_url=gateway[0].url, timeout=60) as client:
        found = await client.post("/v1/chat/completions", json=body)

    assert (found.status_code, found.headers["x-gateway-backend"]) == (200, "a/empty-content")


async def test_a_short_retry_after_is_waited_for_before_another_model_is_asked(
    tmp_path: Path,
) -> None:
    times: list[float] = []

    async def limited(request: Received, answer: Answer) -> None:
        times.append(asyncio.get_running_loop().time())
        kind = str(request.json["model"])
        if kind == "other" or len(times) > 1:
            await answers(request, answer)
        else:
            headers = {"retry-after-ms": "150"}
            await answer.json({"error": {"message": "later"}}, 429, headers)

    async with provider(limited) as remote:
        text = f"""
providers: [{{name: a, adapter: openai, base_url: {remote.base_url}, api_key: k}}]
models:
  - {{name: chat, backends: [{{provider: a, model: m}}], fallback: [spare]}}
  - {{name: spare, backends: [{{provider: a, model: other}}]}}
"""
        async with serving(text, tmp_path) as gateway:
            found = await ask((gateway, remote), "chat", stream=False)

    assert (found.status_code, found.headers["x-gateway-backend"]) == (200, "a/m")
    assert times[1] - times[0] >= 0.15


FRAMES: Mapping[str, tuple[str, bytes]] = {
    "alibaba, as an event": (
        "openai",
        b"id:1\nevent:error\n:HTTP_STATUS/429\n"
        b'data:{"code":"Throttling.AllocationQuota","message":"Allocated quota exceeded."}\n\n',
    ),
    "anthropic's dialect": (
        "anthropic",
        b'event: error\ndata: {"type":"error","error":{"type":"rate_limit_error",'
        b'"message":"Too many requests"}}\n\n',
    ),
    "throttling as an invalid request": (
        "anthropic",
        b'event: error\ndata: {"type":"error","error":{"type":"invalid_request_error",'
        b'"message":"{\\"message\\":\\"Too many requests, please wait before trying again.'
        b' You have sent too many requests.  Wait before trying again.\\"}"}}\n\n',
    ),
}
"""The first frame of a stream, which is all of it."""


@pytest.mark.parametrize("name", FRAMES)
async def test_a_rate_limit_that_opens_a_stream_is_a_rate_limit(tmp_path: Path, name: str) -> None:
    adapter, frame = FRAMES[name]

    async def limited(request: Received, answer: Answer) -> None:
        await answer.begin_stream()
        await answer.chunk(frame)
        await answer.raw(b"0\r\n\r\n")

    async with provider(limited) as remote:
        text = f"""
providers: [{{name: a, adapter: {adapter}, base_url: {remote.origin}, api_key: k}}]
models: [{{name: chat, retry: {{attempts: 1}}, backends: [{{provider: a, model: m}}]}}]
"""
        async with serving(text, tmp_path) as gateway:
            found = await ask((gateway, remote), "chat", stream=True)
            breaker = gateway.state.runtime.backends["chat: a/m"].breaker

            assert breaker.failed == 0

    assert found.status_code == 429


GEMINIS: Json = {
    "candidates": [{"content": {"role": "model"}, "finishReason": "STOP", "index": 0}],
    "usageMetadata": {"promptTokenCount": 3130, "totalTokenCount": 3130},
}
CLAUDES: Json = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 7, "output_tokens": 0},
}


@pytest.mark.parametrize(("adapter", "body"), [("gemini", GEMINIS), ("anthropic", CLAUDES)])
async def test_other_vendors_answers_of_nothing_come_from_the_next_backend(
    tmp_path: Path, adapter: str, body: Json
) -> None:
    async def nothing(request: Received, answer: Answer) -> None:
        if request.path.startswith("/second"):
            await answers(request, answer)
        else:
            await answer.json(body)

    async with provider(nothing) as remote:
        text = f"""
providers:
  - {{name: a, adapter: {adapter}, base_url: {remote.origin}, api_key: k}}
  - {{name: b, adapter: openai, base_url: {remote.origin}/second/v1, api_key: k}}
models:
  - name: chat
    policy: in_order
    retry: {{backoff_s: 0}}
    backends: [{{provider: a, model: m}}, {{provider: b, model: works}}]
"""
        async with serving(text, tmp_path) as gateway:
            found = await ask((gateway, remote), "chat", stream=False)

    assert (found.status_code, found.headers["x-gateway-backend"]) == (200, "b/works")
