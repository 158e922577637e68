"""Failures combined: bounds, cooldowns, breakers, fallbacks. Single ones are in the fault suite."""

import asyncio
import time
from email.utils import formatdate
from pathlib import Path

import httpx
import pytest

from tests.gateway.serving import one_model, serving
from tests.stand_ins.provider import Answer, Received, answers, chat_body, provider, silent

pytestmark = pytest.mark.anyio

HELLO = {"model": "chat", "messages": [{"role": "user", "content": "hi"}]}


def two_backends(first: str, second: str, model_more: str = "") -> str:
    return f"""
providers:
  - {{name: a, adapter: openai, base_url: {first}, api_key: k, timeouts: &t {{connect_s: 1,
      first_token_s: 0.4, between_tokens_s: 0.4, total_s: 3}}}}
  - {{name: b, adapter: openai, base_url: {second}, api_key: k, timeouts: *t}}
models:
  - name: chat
    policy: in_order
    retry: {{backoff_s: 0.01, max_backoff_s: 0.05}}
    backends: [{{provider: a, model: m}}, {{provider: b, model: m}}]
{model_more}
"""


async def post(url: str, **more: object) -> httpx.Response:
    async with httpx.AsyncClient(timeout=60) as client:
        return await client.post(f"{url}/v1/chat/completions", json={**HELLO, **more}, timeout=60)


async def internal_error(request: Received, answer: Answer) -> None:
    await answer.json({"error": {"message": "boom"}}, status=500)


async def overloaded(request: Received, answer: Answer) -> None:
    await answer.json({"error": {"message": "slow down"}}, 429, {"retry-after": "7"})


async def wrong_key(request: Received, answer: Answer) -> None:
    await answer.json({"error": {"message": "bad key sk-secret-of-the-operator"}}, 401)


async def test_a_slow_answer_that_is_not_streamed_has_only_the_total_timeout(
    tmp_path: Path,
) -> None:
    async def slow(request: Received, answer: Answer) -> None:
        await asyncio.sleep(0.8)
        await answer.chat()

    async with (
        provider(slow) as a,
        serving(two_backends(a.base_url, a.base_url), tmp_path) as gateway,
    ):
        answer = await post(gateway.url)

    assert answer.status_code == 200
    assert answer.headers["x-gateway-attempts"] == "1"


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("status", [413, 422])
async def test_an_invalid_request_gets_one_attempt_and_counts_against_no_backend(
    status: int, stream: bool, tmp_path: Path
) -> None:
    async def refuses(request: Received, answer: Answer) -> None:
        error = {"message": "no such image", "param": "messages", "code": "invalid_image"}
        await answer.json({"error": {**error, "type": "invalid_request_error"}}, status)

    async with (
        provider(refuses) as a,
        provider() as b,
        serving(two_backends(a.base_url, b.base_url), tmp_path) as gateway,
    ):
        for _ in range(7):
            await post(gateway.url, stream=stream)
        answer = await post(gateway.url, stream=stream)

    assert answer.status_code == status
    assert answer.json()["error"]["code"] == "invalid_image"
    assert answer.json()["error"]["param"] == "messages"
    assert len(a.requests) == 8
    assert b.requests == []


async def test_attempts_are_limited_over_all_backends_and_reported(tmp_path: Path) -> None:
    async with (
        provider(internal_error) as a,
        provider(internal_error) as b,
        serving(two_backends(a.base_url, b.base_url), tmp_path) as gateway,
    ):
        answer = await post(gateway.url)

    assert answer.status_code == 502
    assert answer.headers["x-gateway-attempts"] == "3"
    assert "backend;dur=" in answer.headers["server-timing"]
    assert "x-should-retry" not in answer.headers, "the client's own retries may succeed"
    assert (len(a.requests), len(b.requests)) == (2, 1)


async def test_the_deadline_bounds_everything(tmp_path: Path) -> None:
    async with (
        provider(silent) as a,
        serving(two_backends(a.base_url, a.base_url, "    deadline_s: 0.3"), tmp_path) as gateway,
    ):
        answer = await post(gateway.url, stream=True)

    assert answer.status_code == 504
    assert answer.json()["error"]["code"] == "deadline_exceeded"


async def test_a_429_is_passed_on_with_its_retry_after_if_no_other_backend_can_answer(
    tmp_path: Path,
) -> None:
    async with provider(overloaded) as a, serving(one_model(a.base_url), tmp_path) as gateway:
        first = await post(gateway.url)
        second = await post(gateway.url)

    assert (first.status_code, first.headers["retry-after"]) == (429, "7")
    assert second.status_code == 429
    assert second.json()["error"]["code"] == "rate_limit_exceeded"
    assert second.json()["error"]["type"] == "rate_limit_error"
    assert "rate-limited, available in" in second.json()["error"]["message"]
    assert int(second.headers["retry-after"]) <= 7
    assert second.headers.get("connection") != "close"
    assert len(a.requests) == 1


async def test_a_model_of_which_one_backend_is_busy_and_the_other_overloaded_is_unavailable(
    tmp_path: Path,
) -> None:
    async def too_much(request: Received, answer: Answer) -> None:
        await answer.json({"error": {"message": "Overloaded"}}, 503, {"retry-after": "7"})

    async with (
        provider(overloaded) as a,
        provider(too_much) as b,
        serving(two_backends(a.base_url, b.base_url), tmp_path) as gateway,
    ):
        await post(gateway.url)
        second = await post(gateway.url)

    assert second.status_code == 503
    assert second.json()["error"]["code"] == "unavailable"


async def test_after_a_429_without_retry_after_others_are_tried_first(
    tmp_path: Path,
) -> None:
    async def busy(request: Received, answer: Answer) -> None:
        await answer.json({"error": {"message": "slow down"}}, 429)

    async with (
        provider(busy) as a,
        provider() as b,
        serving(two_backends(a.base_url, b.base_url), tmp_path) as gateway,
    ):
        answers_ = [await post(gateway.url) for _ in range(3)]
        b.behaviour = internal_error
        last = await post(gateway.url)

    assert [one.headers["x-gateway-attempts"] for one in answers_] == ["2", "1", "1"]
    assert len(a.requests) == 2
    assert (last.status_code, last.headers["x-gateway-backend"]) == (429, "a/m")


async def test_a_429_without_retry_after_does_not_exclude_a_backend(tmp_path: Path) -> None:
    async def busy(request: Received, answer: Answer) -> None:
        if len(a.requests) <= 3:
            await answer.json({"error": {"message": "slow down"}}, 429)
        else:
            await answer.chat()

    async with provider(busy) as a, serving(one_model(a.base_url), tmp_path) as gateway:
        answers_ = [await post(gateway.url) for _ in range(2)]

    assert [one.status_code for one in answers_] == [429, 200]
    assert len(a.requests) == 4


@pytest.mark.parametrize(
    ("patience", "sent", "afterwards"),
    [("600", {"timeout": 0.05}, "a/m"), ("0.05", {}, "b/m")],
    ids=["the client's deadline", "the operator's deadline"],
)
async def test_a_clients_own_deadline_does_not_count_against_a_backend(
    patience: str, sent: dict[str, float], afterwards: str, tmp_path: Path
) -> None:
    async with (
        provider(silent) as a,
        provider() as b,
        serving(
            two_backends(a.base_url, b.base_url, f"    deadline_s: {patience}"), tmp_path
        ) as gateway,
    ):
        cut = [await post(gateway.url, stream=n % 2 == 0, **sent) for n in range(13)]
        a.behaviour = answers
        answer = await post(gateway.url)

    assert {one.json()["error"]["code"] for one in cut[:5]} == {"deadline_exceeded"}
    assert answer.headers["x-gateway-backend"] == afterwards


@pytest.mark.parametrize("status", [503, 529])
async def test_an_overloaded_service_is_a_503_and_cools_down_for_its_retry_after(
    status: int, tmp_path: Path
) -> None:
    async def too_much(request: Received, answer: Answer) -> None:
        body = {"error": {"message": "Overloaded", "type": "overloaded_error"}}
        await answer.json(body, status, {"retry-after": "7"})

    async with provider(too_much) as a, serving(one_model(a.base_url), tmp_path) as gateway:
        first = await post(gateway.url)
        second = await post(gateway.url)

    assert (first.status_code, first.headers["retry-after"]) == (503, "7")
    assert first.json()["error"]["code"] == "upstream_overloaded"
    assert second.status_code == 503
    assert int(second.headers["retry-after"]) <= 7
    assert len(a.requests) == 1


@pytest.mark.parametrize(
    ("reported", "least", "most"),
    [("1893456000", 86_400, 86_400), ("in an hour", 3000, 3600)],
    ids=["a wait of years is not believed", "a date without the server's own"],
)
async def test_an_unusual_retry_after_is_still_a_bound(
    reported: str, least: int, most: int, tmp_path: Path
) -> None:
    async def busy(request: Received, answer: Answer) -> None:
        await answer.json({"error": {"message": "slow down"}}, 429, {"retry-after": reported})

    if reported == "in an hour":
        reported = formatdate(time.time() + 3600, usegmt=True)
    async with provider(busy) as a, serving(one_model(a.base_url), tmp_path) as gateway:
        found = [await post(gateway.url) for _ in range(2)]

    asked, cooling = (int(one.headers["retry-after"]) for one in found)
    assert [one.status_code for one in found] == [429, 429]
    assert least <= asked <= most
    assert 200 < cooling <= 300, "max_retry_after_s bounds the cooldown, not what the vendor said"
    assert len(a.requests) == 1


@pytest.mark.parametrize("count", [-7, 10**400])
async def test_impossible_counts_cost_no_line_and_are_not_added_up(
    count: int, tmp_path: Path
) -> None:
    async def tells(request: Received, answer: Answer) -> None:
        usage = {"prompt_tokens": count, "completion_tokens": 3, "total_tokens": count + 3}
        await answer.json({**chat_body(), "usage": usage})

    async with provider(tells) as a, serving(one_model(a.base_url), tmp_path) as gateway:
        answer = await post(gateway.url)
        a.behaviour = answers
        await post(gateway.url)
        lines = gateway.access_lines()

    assert answer.status_code == 200
    assert answer.json()["usage"]["prompt_tokens"] is None
    counted = [(line.prompt_tokens, line.completion_tokens, line.usage_source) for line in lines]
    assert counted == [(4, 3, "estimated"), (7, 3, "reported")]


async def test_the_breaker_stops_requests_to_a_backend_that_keeps_failing(tmp_path: Path) -> None:
    async with (
        provider(internal_error) as a,
        provider() as b,
        serving(two_backends(a.base_url, b.base_url), tmp_path) as gateway,
    ):
        for _ in range(20):
            assert (await post(gateway.url)).status_code == 200

    assert len(a.requests) == 12
    assert len(b.requests) == 20


async def test_the_operators_key_never_reaches_the_client(tmp_path: Path) -> None:
    async with provider(wrong_key) as a, serving(one_model(a.base_url), tmp_path) as gateway:
        answer = await post(gateway.url)
        log = str(gateway.access_lines())

    assert answer.status_code == 424
    assert "sk-secret" not in answer.text
    assert "sk-secret" not in log


async def test_fallback_models_answer_when_every_backend_failed(tmp_path: Path) -> None:
    more = "  - {name: backup, backends: [{provider: b, model: spare}]}"
    config = two_backends("http://127.0.0.1:1/v1", "{b}", "    fallback: [backup]\n" + more)
    config = config.replace(", {provider: b, model: m}]", "]")
    async with (
        provider(answers) as b,
        serving(config.replace("{b}", b.base_url), tmp_path) as gateway,
    ):
        answer = await post(gateway.url)

    assert answer.headers["x-gateway-backend"] == "b/spare"
