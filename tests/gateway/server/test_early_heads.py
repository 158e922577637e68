"""The head of a stream goes out before its content if that is late, and never between attempts."""

import asyncio
import json
import math
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import anthropic
import httpx
import ollama
import openai
import pytest

from strowger_gateway.gateway.server.asgi.response import EARLIEST_S, begin_after
from strowger_gateway.gateway.surfaces.routes import HOT_ROUTES
from tests.gateway.routing.failures.fault_scenarios import Sees
from tests.gateway.routing.failures.fault_tasks import TASKS, client_sees
from tests.gateway.serving import Serving, serving
from tests.stand_ins.provider import Answer, Provider, Received, answers, provider

pytestmark = pytest.mark.anyio

EARLY_S = 0.1
STREAMS = ["chat-stream", "completion-stream", "messages-stream", "responses-stream"]


async def behave(request: Received, answer: Answer) -> None:
    """`late`: think before answering; `fails`: at once; `late-fails`: after thinking."""
    place = request.path.split("/")[1]
    if place.startswith("late"):
        await asyncio.sleep(4 * EARLY_S)
    if place.endswith("fails"):
        await answer.json({"error": {"message": "boom"}}, 500)
    else:
        await answers(request, answer)


def config(origin: str) -> str:
    places = ("late", "good", "fails", "late-fails")
    providers = "\n".join(
        f"  - {{name: {one}, adapter: openai, base_url: {origin}/{one}/v1, api_key: k}}"
        for one in places
    )
    return f"""
server: {{commit_after_s: {EARLY_S}, sse_keepalive_s: {EARLY_S}}}
providers:
{providers}
models:
  - {{name: late, backends: [{{provider: late, model: m}}]}}
  - name: fails
    retry: {{attempts: 2, backoff_s: {EARLY_S}}}
    backends: [{{provider: fails, model: m}}]
  - name: fails-over
    policy: in_order
    retry: {{attempts: 2}}
    backends: [{{provider: late-fails, model: m}}, {{provider: good, model: m}}]
"""


@pytest.fixture(scope="module")
async def remote() -> AsyncGenerator[Provider, None]:
    async with provider(behave) as running:
        yield running


@pytest.fixture(scope="module")
async def gateway(
    remote: Provider, tmp_path_factory: pytest.TempPathFactory
) -> AsyncGenerator[Serving, None]:
    async with serving(config(remote.origin), tmp_path_factory.mktemp("run")) as running:
        yield running


def test_agents_apis_get_a_head_after_15_seconds_and_all_others_after_45() -> None:
    own = {route.path: route.surface.commit_after_s for route in HOT_ROUTES}

    early = {path for path, seconds in own.items() if seconds == EARLIEST_S}
    assert {"/v1/messages", "/v1/responses"} <= early
    assert {path.split("/")[2] for path in early if path.startswith("/v1/")} == {
        "messages",
        "responses",
    }
    assert {path for path in own if path.startswith("/api/")} <= early
    assert {seconds for path, seconds in own.items() if path not in early} == {45.0}


def test_an_operator_sets_one_time_for_all_or_none() -> None:
    assert (begin_after("auto", 45.0), begin_after(5.0, 45.0)) == (45.0, 5.0)
    assert begin_after(None, 45.0) == math.inf


@pytest.mark.parametrize("task", STREAMS)
async def test_clients_read_signs_of_life_and_then_the_answer(gateway: Serving, task: str) -> None:
    answer = await TASKS[task].ask(gateway.url, "late")

    sign = "event: ping\n" if task == "messages-stream" else ": keep-alive\n\n"
    assert answer.text.startswith(sign)
    assert answer.text.count(sign) > 1
    assert answer.headers["x-gateway-backend"] == "late/m"
    client_sees(TASKS[task], without_pings(answer), Sees(asked=(1, 0)))


def without_pings(answer: httpx.Response) -> httpx.Response:
    """The answer as clients of the Messages API read it."""
    frames = [one for one in answer.text.split("\n\n") if not one.startswith("event: ping")]
    return httpx.Response(answer.status_code, text="\n\n".join(frames))


async def test_lines_of_json_are_kept_open_with_white_space(gateway: Serving) -> None:
    body = {"model": "late", "messages": [{"role": "user", "content": "hi"}]}
    async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
        answer = await client.post("/api/chat", json=body)
        failed = await client.post("/api/chat", json={**body, "model": "fails"})
    host: Any = ollama.AsyncClient(host=gateway.url)
    async with host as own:
        parts = [one async for one in await own.chat(**body, stream=True)]

    assert answer.headers["content-type"] == "application/x-ndjson"
    assert answer.text.startswith("  ")
    lines = [json.loads(one) for one in answer.text.splitlines()]
    assert "".join(one["message"]["content"] for one in lines) == "hello"
    assert "".join(one.message.content for one in parts) == "hello"
    assert failed.status_code == 502


async def test_vendors_clients_read_such_streams(gateway: Serving) -> None:
    async with anthropic.AsyncAnthropic(base_url=gateway.url, api_key="k") as claude:
        async with claude.messages.stream(
            model="late", max_tokens=20, messages=[{"role": "user", "content": "hi"}]
        ) as messages:
            said = await messages.get_final_text()
    async with openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key="k") as caller:
        chat = await caller.chat.completions.create(
            model="late", stream=True, messages=[{"role": "user", "content": "hi"}]
        )
        deltas = [one.choices[0].delta.content or "" async for one in chat if one.choices]
        async with caller.responses.stream(model="late", input="hi") as events:
            response = await events.get_final_response()

    assert (said, "".join(deltas), response.output_text) == ("hello", "hello", "hello")


@pytest.mark.parametrize("task", STREAMS)
async def test_no_head_goes_out_between_attempts(gateway: Serving, task: str) -> None:
    """The pause is longer than the time after which a head is sent; each attempt fails at once."""
    answer = await TASKS[task].ask(gateway.url, "fails")

    client_sees(TASKS[task], answer, Sees(asked=(2, 0), status=502, error="upstream_failed"))
    assert answer.headers["x-gateway-attempts"] == "2"


@pytest.mark.parametrize("task", STREAMS)
async def test_another_backend_may_answer_after_an_early_head(gateway: Serving, task: str) -> None:
    answer = await TASKS[task].ask(gateway.url, "fails-over")

    client_sees(TASKS[task], without_pings(answer), Sees(asked=(1, 1)))
    assert answer.headers["x-gateway-backend"] == "late-fails/m"
    line = [one for one in gateway.access_lines() if one.model == "fails-over"][-1]
    assert (line.backend, len(line.attempts)) == ("good/m", 2)


@pytest.mark.nightly
@pytest.mark.parametrize(("task", "first_s"), [("messages-stream", 20), ("chat-stream", 50)])
async def test_a_model_may_think_for_70_seconds_with_the_defaults(
    task: str, first_s: float, tmp_path: Path
) -> None:
    async def thinks(request: Received, answer: Answer) -> None:
        await asyncio.sleep(70)
        await answers(request, answer)

    one = TASKS[task]
    async with provider(thinks) as slow:
        text = (
            f"providers: [{{name: p, adapter: openai, base_url: {slow.base_url}, api_key: k}}]\n"
            "models: [{name: m, backends: [{provider: p, model: m}]}]\n"
        )
        async with (
            serving(text, tmp_path) as gateway,
            httpx.AsyncClient(base_url=gateway.url, timeout=100) as client,
        ):
            began = time.monotonic()
            async with client.stream("POST", one.path, json={"model": "m", **one.body}) as answer:
                after = time.monotonic() - began
                read = "".join([piece async for piece in answer.aiter_text()])

    assert answer.status_code == 200
    assert after < first_s
    assert "hel" in read
    assert len(slow.requests) == 1
