"""Requests that one backend cannot express: another answers, or the client gets an error."""

from pathlib import Path

import httpx
import pytest

from tests.gateway.serving import serving
from tests.stand_ins.anthropic_server import KEY, messages_api
from tests.stand_ins.provider import Answer, Received, provider

pytestmark = pytest.mark.anyio

IN_JSON = {
    "model": "chat",
    "messages": [{"role": "user", "content": "hi"}],
    "response_format": {"type": "json_schema", "json_schema": {"name": "any"}},
}


def config(first: tuple[str, str], second: tuple[str, str], retry: str = "{}") -> str:
    """Each: adapter and base URL. Anthropic takes no `json_schema` without a schema."""
    return f"""
providers:
  - {{name: a, adapter: {first[0]}, base_url: {first[1]}, api_key: {KEY}}}
  - {{name: b, adapter: {second[0]}, base_url: {second[1]}, api_key: {KEY}}}
models:
  - name: chat
    policy: in_order
    defaults: {{max_tokens: 10}}
    breaker: {{min_requests: 1, failure_rate: 0.1}}
    retry: {retry}
    backends: [{{provider: a, model: m}}, {{provider: b, model: m}}]
"""


async def ask(url: str, **more: object) -> httpx.Response:
    async with httpx.AsyncClient(timeout=60) as client:
        return await client.post(f"{url}/v1/chat/completions", json={**IN_JSON, **more}, timeout=60)


async def broken(request: Received, answer: Answer) -> None:
    await answer.json({"error": {"message": "boom"}}, 500)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_request_that_a_backend_cannot_express_goes_to_the_next(
    stream: bool, tmp_path: Path
) -> None:
    async with (
        provider() as a,
        provider() as b,
        serving(
            config(("anthropic", a.origin), ("openai", b.base_url), "{attempts: 1}"), tmp_path
        ) as gateway,
    ):
        answers = [await ask(gateway.url, stream=stream) for _ in range(3)]
        plain = await ask(gateway.url, stream=stream, response_format=None)

    assert [one.status_code for one in answers] == [200] * 3
    assert {one.headers["x-gateway-backend"] for one in answers} == {"b/m"}
    assert {one.headers["x-gateway-attempts"] for one in answers} == {"1"}
    assert len(b.requests) == 3
    assert len(a.requests) == 1, "no refusal counts against the backend: it is asked the rest"
    assert plain.status_code != 400


@pytest.mark.parametrize("stream", [False, True])
async def test_thinking_that_a_backend_does_not_read_is_named_and_diverts_no_request(
    stream: bool, tmp_path: Path
) -> None:
    spoken = {"role": "assistant", "content": "yes", "reasoning_content": "Hm, well."}
    messages = [{"role": "user", "content": "hi"}, spoken, {"role": "user", "content": "and now?"}]

    async with (
        provider(messages_api) as a,
        provider() as b,
        serving(config(("anthropic", a.origin), ("openai", b.base_url)), tmp_path) as gateway,
    ):
        more = {"messages": messages, "response_format": None}
        answer = await ask(gateway.url, stream=stream, **more)
        elsewhere = await ask(gateway.url, stream=stream, messages=messages)
        lines = gateway.access_lines()

    assert answer.headers["x-gateway-backend"] == "a/m"
    assert answer.headers["x-gateway-dropped-params"] == "messages.reasoning"
    assert "Hm, well." not in a.requests[0].body.decode()
    assert lines[0].dropped == ("messages.reasoning",)
    assert elsewhere.headers["x-gateway-backend"] == "b/m"
    assert "x-gateway-dropped-params" not in elsewhere.headers
    assert "Hm, well." in b.requests[0].body.decode()


@pytest.mark.parametrize("stream", [False, True])
async def test_a_request_that_no_backend_can_express_gets_the_first_ones_refusal(
    stream: bool, tmp_path: Path
) -> None:
    async with (
        provider() as a,
        provider() as b,
        serving(config(("anthropic", a.origin), ("anthropic", b.origin)), tmp_path) as gateway,
    ):
        more = {
            "messages": [
                {"role": "user", "content": "hi"},
                {"role": "function", "name": "f", "content": "hi"},
            ]
        }
        answer = await ask(gateway.url, stream=stream, response_format=None, **more)

    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "messages[1].role"
    assert answer.headers["x-gateway-backend"] == "a/m"
    assert answer.headers["x-gateway-attempts"] == "0"
    assert a.requests == b.requests == []


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("turned", [False, True])
async def test_a_failure_is_reported_rather_than_a_refusal(
    turned: bool, stream: bool, tmp_path: Path
) -> None:
    async with provider() as a, provider(broken) as b:
        order = (("anthropic", a.origin), ("openai", b.base_url))
        first, second = reversed(order) if turned else order
        async with serving(config(first, second, "{attempts: 1}"), tmp_path) as gateway:
            answer = await ask(gateway.url, stream=stream)

    assert answer.status_code == 502
    assert answer.headers["x-gateway-backend"] == ("a/m" if turned else "b/m")
    assert answer.headers["x-gateway-attempts"] == "1"
