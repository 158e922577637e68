"""Limits at the wire: who is refused, what clients see, and that nothing stays reserved."""

import asyncio
import contextlib
from pathlib import Path
from time import monotonic_ns as now_ns

import anthropic
import httpx
import openai
import pytest

from strowger_gateway.gateway.config.load import read_config
from strowger_gateway.gateway.config.schema.limits import Limit
from strowger_gateway.gateway.experiments.mirror.process_side import MirrorsSide
from strowger_gateway.gateway.governance.limits.process_side import LimitsSide
from tests.gateway.serving import Serving, one_model, serving
from tests.stand_ins.provider import Answer, Received, chat_body, provider

pytestmark = pytest.mark.anyio

AUTH = """
auth:
  mode: keys
  keys:
    - {name: web, key: key-of-web-00000}
    - {name: batch, key: key-of-batch-000}
"""
HELLO = {"model": "chat", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 20}
"""By the gateway's estimate 4 tokens of prompt; with the largest answer, 24 in all."""

INFER: dict[str, object] = {"input_id": [1], "parameters": {}}
PATHS = {
    "/v1/chat/completions": HELLO,
    "/v1/completions": {"model": "chat", "prompt": "hi", "max_tokens": 20},
    "/v1/embeddings": {"model": "chat", "input": "hi"},
    "/v1/messages": HELLO,
    "/v1/responses": {"model": "chat", "input": "hi", "max_output_tokens": 20},
    "/v2/models/chat/generate": {"text_input": "hi", "max_tokens": 20},
    "/serving-endpoints/chat/invocations": {**HELLO, "model": "chat"},
}


def config(base_url: str, limits: str, model_more: str = "") -> str:
    return one_model(base_url, f"{AUTH}\nlimits:\n{limits}", model_more)


async def send(
    gateway: Serving,
    key: str = "key-of-web-00000",
    path: str = "/v1/chat/completions",
    body: object = None,
    **more: object,
) -> httpx.Response:
    headers = {"authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(base_url=gateway.url, headers=headers, timeout=60) as client:
        return await client.post(path, json={**HELLO, **more} if body is None else body)


async def test_requests_beyond_a_keys_limit_are_refused_with_its_name_and_the_moment(
    tmp_path: Path,
) -> None:
    limits = "  - {name: web-rate, who: {key: web}, requests: 2}"
    async with provider() as a, serving(config(a.base_url, limits), tmp_path) as gateway:
        first, second, third = [await send(gateway) for _ in range(3)]
        other = await send(gateway, "key-of-batch-000")
        lines = gateway.access_lines()

    assert [one.status_code for one in (first, second, third, other)] == [200, 200, 429, 200]
    error = third.json()["error"]
    assert error["code"] == "limit_exceeded"
    assert error["type"] == "rate_limit_error"
    assert "'web-rate' allows 2 requests per minute" in error["message"]
    assert 55 <= int(third.headers["retry-after"]) <= 60
    assert 55_000 < int(third.headers["retry-after-ms"]) <= 60_000
    assert first.headers["x-ratelimit-limit-requests"] == "2"
    assert [one.headers["x-ratelimit-remaining-requests"] for one in (first, second, third)] == [
        "1",
        "0",
        "0",
    ]
    assert first.headers["x-ratelimit-reset-requests"] == "1m0s"
    assert "x-ratelimit-limit-tokens" not in first.headers
    assert not any(name.startswith("x-ratelimit") for name in other.headers)
    assert lines[2].error == "limit_exceeded"
    assert len(a.requests) == 3


@pytest.mark.parametrize("path", sorted(PATHS))
async def test_every_surface_refuses_in_its_own_envelope(path: str, tmp_path: Path) -> None:
    limits = "  - {name: web-rate, who: {key: web}, requests: 1, per: hour}"
    async with provider() as a, serving(config(a.base_url, limits), tmp_path) as gateway:
        await send(gateway)
        answer = await send(gateway, path=path, body=PATHS[path])
        mindie = await send(gateway, path="/infer_token", body=INFER)

    assert (answer.status_code, mindie.status_code) == (429, 429)
    assert "web-rate" in answer.text
    assert "web-rate" in mindie.text
    assert 3500 < int(answer.headers["retry-after"]) <= 3600
    if path == "/v1/messages":
        assert answer.json()["error"]["type"] == "rate_limit_error"
        assert answer.headers["anthropic-ratelimit-requests-limit"] == "1"
        assert answer.headers["anthropic-ratelimit-requests-remaining"] == "0"
        assert answer.headers["anthropic-ratelimit-requests-reset"].endswith("Z")
    else:
        assert answer.headers["x-ratelimit-limit-requests"] == "1"


async def test_the_vendors_own_clients_read_the_refusal(tmp_path: Path) -> None:
    limits = "  - {name: web-rate, who: {key: web}, requests: 1}"
    async with provider() as a, serving(config(a.base_url, limits), tmp_path) as gateway:
        await send(gateway)
        async with openai.AsyncOpenAI(
            api_key="key-of-web-00000", base_url=f"{gateway.url}/v1", max_retries=0
        ) as client:
            with pytest.raises(openai.RateLimitError) as caught:
                await client.chat.completions.create(
                    model="chat", messages=[{"role": "user", "content": "hi"}]
                )
        async with anthropic.AsyncAnthropic(
            api_key="key-of-web-00000", base_url=gateway.url, max_retries=0
        ) as claude:
            with pytest.raises(anthropic.RateLimitError, match="web-rate"):
                await claude.messages.create(
                    model="chat", max_tokens=5, messages=[{"role": "user", "content": "hi"}]
                )

    assert caught.value.code == "limit_exceeded"


async def test_tokens_are_reserved_before_and_settled_by_what_was_used(tmp_path: Path) -> None:
    """The provider reports 10 tokens per answer; each request reserves 24."""
    limits = "  - {name: web-tokens, who: {key: web}, tokens: 50}"
    async with provider() as a, serving(config(a.base_url, limits), tmp_path) as gateway:
        answers = [await send(gateway) for _ in range(4)]

    assert [one.status_code for one in answers] == [200, 200, 200, 429]
    remaining = [int(one.headers["x-ratelimit-remaining-tokens"]) for one in answers]
    assert remaining == [26, 16, 6, 20]
    assert answers[0].headers["x-ratelimit-limit-tokens"] == "50"
    assert "'web-tokens' allows 50 tokens per minute" in answers[3].json()["error"]["message"]


async def test_a_request_larger_than_the_limit_is_refused_for_good(tmp_path: Path) -> None:
    limits = "  - {name: web-tokens, who: {key: web}, tokens: 50}"
    async with provider() as a, serving(config(a.base_url, limits), tmp_path) as gateway:
        large = await send(gateway, max_tokens=1000)
        silent = await send(
            gateway, body={"model": "chat", "messages": [{"role": "user", "content": "hi"}]}
        )

    assert large.status_code == 429
    assert "retry-after" not in large.headers
    assert large.headers["x-should-retry"] == "false"
    assert "this request may use 1004; lower max_tokens" in large.json()["error"]["message"]
    assert silent.status_code == 200


@pytest.mark.parametrize(
    ("values", "sent", "reserved"),
    [
        ("defaults: {max_tokens: 30}", {}, 30),
        ("defaults: {max_tokens: 30}", {"max_tokens": 20}, 20),
        ("defaults: {max_tokens: 30, n: 2}", {}, 60),
        ("overrides: {max_tokens: 40}", {"max_tokens": 20}, 40),
    ],
)
async def test_a_limit_reserves_the_answer_that_the_operators_values_allow(
    tmp_path: Path, values: str, sent: dict[str, int], reserved: int
) -> None:
    limits = "  - {name: web-tokens, who: {key: web}, tokens: 5000}"
    body = {"model": "chat", "messages": HELLO["messages"], **sent}
    async with (
        provider() as a,
        serving(config(a.base_url, limits, f"    {values}"), tmp_path) as gateway,
    ):
        answer = await send(gateway, body=body)

    assert answer.status_code == 200
    assert int(answer.headers["x-ratelimit-remaining-tokens"]) == 5000 - 4 - reserved


async def test_all_limits_that_apply_must_have_room_or_nothing_is_reserved(tmp_path: Path) -> None:
    limits = """
  - {name: all, who: {any: true}, requests: 10}
  - {name: chats, who: {any: true}, models: [chat], requests: 2, per: hour}
  - {name: each, who: {any: true}, each: key, requests: 1, per: day}
"""
    async with provider() as a, serving(config(a.base_url, limits), tmp_path) as gateway:
        web = [await send(gateway) for _ in range(3)]
        batch = await send(gateway, "key-of-batch-000")
        after = await send(gateway, "key-of-batch-000")

    assert [one.status_code for one in (*web, batch, after)] == [200, 429, 429, 200, 429]
    assert "'each'" in web[1].json()["error"]["message"]
    assert batch.headers["x-ratelimit-remaining-requests"] == "0"
    assert 86_000 < int(web[1].headers["retry-after"]) <= 86_400


async def test_the_keys_of_a_team_share_its_limit(tmp_path: Path) -> None:
    more = """
auth:
  mode: keys
  keys:
    - {name: web, key: key-of-web-00000, team: search}
    - {name: batch, key: key-of-batch-000, team: search}
    - {name: other, key: key-of-other-000}
teams: [{name: search}]
limits:
  - {name: search, who: {team: search}, requests: 3}
  - {name: teams, who: {any: true}, each: team, requests: 5}
"""
    async with provider() as a, serving(one_model(a.base_url, more), tmp_path) as gateway:
        team = [
            await send(gateway, key)
            for key in ("key-of-web-00000", "key-of-batch-000", "key-of-web-00000")
        ]
        refused = await send(gateway, "key-of-batch-000")
        free = [await send(gateway, "key-of-other-000") for _ in range(6)]

    assert [one.status_code for one in team] == [200] * 3
    assert refused.status_code == 429
    assert "'search' allows 3 requests" in refused.json()["error"]["message"]
    assert [one.status_code for one in free] == [200] * 6


async def test_a_limit_on_other_models_does_not_apply(tmp_path: Path) -> None:
    more = "  - {name: spare, aliases: [other], backends: [{provider: remote, model: m-2}]}\n"
    limits = "  - {name: spares, who: {any: true}, models: [spa*], requests: 1}"
    async with (
        provider() as a,
        serving(config(a.base_url, limits, more), tmp_path) as gateway,
    ):
        free = [await send(gateway) for _ in range(3)]
        limited = [await send(gateway, model="other") for _ in range(2)]

    assert [one.status_code for one in free] == [200, 200, 200]
    assert [one.status_code for one in limited] == [200, 429]


async def test_requests_at_once_are_limited_and_their_seats_come_back(tmp_path: Path) -> None:
    limits = "  - {name: two, who: {key: web}, concurrent: 2}"
    async with provider() as a, serving(config(a.base_url, limits), tmp_path) as gateway:
        ready, go = asyncio.Semaphore(0), asyncio.Event()

        async def waits(request: Received, answer: Answer) -> None:
            ready.release()
            await go.wait()
            await answer.chat()

        a.behaviour = waits
        running = [asyncio.create_task(send(gateway)) for _ in range(2)]
        await ready.acquire()
        await ready.acquire()
        refused = await send(gateway)
        go.set()
        answers = await asyncio.gather(*running)
        afterwards = await send(gateway)

    assert refused.status_code == 429
    assert refused.headers["retry-after"] == "1"
    assert "'two' allows 2 concurrent requests" in refused.json()["error"]["message"]
    assert [one.status_code for one in (*answers, afterwards)] == [200, 200, 200]


LEAKS = """
  - {name: tokens, who: {key: web}, tokens: 100, concurrent: 1, per: day}
"""


@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_that_leaves_gives_back_its_seat_and_what_it_did_not_use(
    stream: bool, tmp_path: Path
) -> None:
    async with provider() as a, serving(config(a.base_url, LEAKS), tmp_path) as gateway:
        began = asyncio.Event()

        async def hangs(request: Received, answer: Answer) -> None:
            if stream:
                await answer.begin_stream()
                await answer.text("a")
            began.set()
            await answer.gone.wait()

        a.behaviour = hangs
        leaving = asyncio.create_task(send(gateway, stream=stream))
        await began.wait()
        await asyncio.sleep(0.05)
        leaving.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await leaving
        await until_idle(gateway)
        a.behaviour = says_hello
        after = await send(gateway)

    assert after.status_code == 200
    # 4 of the prompt that the provider has read, and one for the piece that it sent.
    left = int(after.headers["x-ratelimit-remaining-tokens"])
    assert left == 100 - 24 - 4 - stream


async def test_failures_failover_and_mirrors_leave_nothing_reserved(tmp_path: Path) -> None:
    model = """    fallback: [spare]
    mirror: {backend: remote/m-3, share: 1}
  - {name: spare, backends: [{provider: remote, model: m-2}]}
"""
    async with provider() as a, serving(config(a.base_url, LEAKS, model), tmp_path) as gateway:

        async def main_fails(request: Received, answer: Answer) -> None:
            if request.json["model"] == "m-1":
                await answer.json({"error": {"message": "down"}}, 503)
            else:
                await answer.chat()

        async def all_fail(request: Received, answer: Answer) -> None:
            await answer.json({"error": {"message": "down"}}, 500)

        a.behaviour = main_fails
        by_fallback = await send(gateway)
        a.behaviour = all_fail
        failed = await send(gateway)
        rejected = await send(gateway, max_tokens=-1)
        a.behaviour = says_hello
        await gateway.state.side(MirrorsSide).copies.wait_idle()
        after = await send(gateway)

    assert by_fallback.status_code == 200
    assert failed.status_code >= 500
    assert failed.headers["x-ratelimit-limit-tokens"] == "100"
    assert rejected.status_code == 400
    assert after.headers["x-ratelimit-remaining-tokens"] == str(100 - 10 - 24)


async def test_a_providers_429_falls_back_and_the_gateways_own_does_not(tmp_path: Path) -> None:
    model = """    fallback: [spare]
    fallback_by_error: [{codes: [rate_limit_exceeded], models: [spare]}]
  - {name: spare, backends: [{provider: remote, model: m-2}]}
"""
    limits = "  - {name: chats, who: {any: true}, models: [chat], requests: 1}"
    async with provider() as a, serving(config(a.base_url, limits, model), tmp_path) as gateway:

        async def busy(request: Received, answer: Answer) -> None:
            if request.json["model"] == "m-1":
                await answer.json({"error": {"message": "slow down"}}, 429)
            else:
                await answer.chat()

        a.behaviour = busy
        first = await send(gateway)
        sent = len(a.requests)
        refused = await send(gateway)

    assert first.status_code == 200
    assert first.headers["x-gateway-backend"] == "remote/m-2"
    assert refused.status_code == 429
    assert len(a.requests) == sent


async def test_a_client_that_waits_as_long_as_it_is_asked_is_served(tmp_path: Path) -> None:
    limits = "  - {name: rate, who: {key: web}, requests: 2}"
    async with provider() as a, serving(config(a.base_url, limits), tmp_path) as gateway:
        await send(gateway)
        await send(gateway)
        window = gateway.state.side(LimitsSide).limits.of(("web", "chat", "chat", "", "", "", ""))
        assert window is not None
        refused = await send(gateway)
        wait_ms = int(refused.headers["retry-after-ms"])
        # Only the ledger's clock moves: a minute is too long for a test.
        hold = window.reserve(0, now_ns() + wait_ms * 1_000_000)

    assert hold is not None


async def test_what_was_used_still_counts_after_a_reload(tmp_path: Path) -> None:
    limits = "  - {name: rate, who: {key: web}, requests: 3}"
    async with provider() as a, serving(config(a.base_url, limits), tmp_path) as gateway:
        await send(gateway)
        await send(gateway)
        state = gateway.state.side(LimitsSide).limits
        state.configure(settings_with("  - {name: rate, who: {key: web}, requests: 2}"))
        lowered = await send(gateway)
        state.configure(settings_with("  - {name: rate, who: {key: web}, requests: 4}"))
        raised = [await send(gateway) for _ in range(3)]

    assert lowered.status_code == 429
    assert [one.status_code for one in raised] == [200, 200, 429]


async def test_metrics_count_refusals_by_limit(tmp_path: Path) -> None:
    limits = "  - {name: rate, who: {key: web}, requests: 1}"
    async with provider() as a, serving(config(a.base_url, limits), tmp_path) as gateway:
        for _ in range(3):
            await send(gateway)
        text = (await gateway.state.processes.metrics_text())[0].decode()

    name = "strowger_limit_refused_requests_total"
    assert f'{name}{{limit="rate",quantity="requests"}} 2.0' in text


def settings_with(limits: str) -> tuple[Limit, ...]:
    text = config("http://127.0.0.1:9/v1", limits)
    return read_config(text, source="config.yaml", env={}).limits


async def says_hello(request: Received, answer: Answer) -> None:
    await answer.json(chat_body())


async def until_idle(gateway: Serving) -> None:
    async with asyncio.timeout(60):
        while gateway.state.admission.in_flight:  # noqa: ASYNC110  it has no event
            await asyncio.sleep(0.01)
