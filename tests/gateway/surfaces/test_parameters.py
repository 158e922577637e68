"""Every client parameter arrives, is rejected by name, or is listed as dropped; none is lost."""

import asyncio
import base64
import struct
from pathlib import Path

import httpx
import pytest

from tests.gateway.serving import one_model, serving
from tests.stand_ins.provider import Answer, Received, provider

pytestmark = pytest.mark.anyio

HELLO = {"model": "chat", "messages": [{"role": "user", "content": "hi"}]}
TWO = """
providers:
  - {{name: narrow, adapter: databricks, base_url: {url}, api_key: k}}
  - {{name: wide, adapter: openai, base_url: {url}, api_key: k}}
models:
  - {{name: narrow, backends: [{{provider: narrow, model: n}}], on_unsupported: {policy}}}
  - name: chat
    policy: in_order
    backends: [{{provider: narrow, model: n}}, {{provider: wide, model: w}}]
"""


async def post(url: str, path: str = "/v1/chat/completions", **body: object) -> httpx.Response:
    async with httpx.AsyncClient(base_url=url, timeout=60) as client:
        return await client.post(path, json={**HELLO, **body} if "chat" in path else body)


def config(url: str, policy: str = "error") -> str:
    return TWO.format(url=url, policy=policy)


async def test_a_backend_that_supports_every_field_is_preferred(tmp_path: Path) -> None:
    async with provider() as remote, serving(config(remote.base_url), tmp_path) as gateway:
        plain = await post(gateway.url)
        seeded = await post(gateway.url, seed=7)

    assert plain.headers["x-gateway-backend"] == "narrow/n"
    assert seeded.headers["x-gateway-backend"] == "wide/w"
    assert remote.requests[1].json["seed"] == 7


async def test_a_field_that_no_backend_supports_is_refused_by_name(tmp_path: Path) -> None:
    async with provider() as remote, serving(config(remote.base_url), tmp_path) as gateway:
        answer = await post(gateway.url, model="narrow", seed=7)

    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "seed"
    assert "narrow/n" in answer.json()["error"]["message"]
    assert remote.requests == []


async def test_a_field_may_be_dropped_if_the_operator_permits_it_and_is_then_listed(
    tmp_path: Path,
) -> None:
    async with (
        provider() as remote,
        serving(config(remote.base_url, "drop"), tmp_path) as gateway,
    ):
        answer = await post(gateway.url, model="narrow", seed=7, user="u")

    assert answer.status_code == 200
    assert answer.headers["x-gateway-dropped-params"] == "seed, user"
    assert set(remote.requests[0].json) == {"messages", "stream"}


async def test_an_absent_field_is_never_sent_as_null_nor_with_a_default_of_ours(
    tmp_path: Path,
) -> None:
    async with provider() as remote, serving(one_model(remote.base_url), tmp_path) as gateway:
        await post(gateway.url)
        await post(gateway.url, temperature=None, stop=None, tools=None, seed=None, n=None)

    assert set(remote.requests[0].json) == {"model", "messages"}
    assert set(remote.requests[1].json) == {"model", "messages"}


@pytest.mark.vendor_refuses("schema", because="a server may know what its dialect has not")
async def test_unknown_fields_and_parts_are_passed_on_unchanged(tmp_path: Path) -> None:
    part = {"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}}
    message = {"role": "user", "content": [part, {"type": "hologram", "data": "x"}], "mood": 1}
    async with provider() as remote, serving(one_model(remote.base_url), tmp_path) as gateway:
        answer = await post(gateway.url, messages=[message], verbosity={"deep": [1]})

    assert answer.status_code == 200
    assert remote.requests[0].json["messages"] == [message]
    assert remote.requests[0].json["verbosity"] == {"deep": [1]}


async def test_the_operators_defaults_fill_in_and_overrides_win(tmp_path: Path) -> None:
    more = "    defaults: {temperature: 0.3, top_p: 0.5}\n    overrides: {max_tokens: 9}"
    text = one_model("{url}", model_more=more)
    async with (
        provider() as remote,
        serving(text.replace("{url}", remote.base_url), tmp_path) as gateway,
    ):
        await post(gateway.url, temperature=1.5, max_tokens=100)

    sent = remote.requests[0].json
    assert (sent["temperature"], sent["top_p"], sent["max_tokens"]) == (1.5, 0.5, 9)


@pytest.mark.parametrize("prompt", ["a", ["a", "b"], [1, 2], [[1, 2], [3]]])
async def test_every_form_of_prompt_reaches_the_provider(prompt: object, tmp_path: Path) -> None:
    async def completes(request: Received, answer: Answer) -> None:
        count = 2 if prompt in (["a", "b"], [[1, 2], [3]]) else 1
        choices = [{"index": i, "text": "x", "finish_reason": "stop"} for i in range(count)]
        await answer.json({"id": "c", "object": "text_completion", "choices": choices})

    async with (
        provider(completes) as remote,
        serving(one_model(remote.base_url), tmp_path) as gateway,
    ):
        answer = await post(gateway.url, "/v1/completions", model="chat", prompt=prompt, stop="z")

    assert answer.status_code == 200
    assert remote.requests[0].json["prompt"] == prompt
    assert remote.requests[0].json["stop"] in ("z", ["z"])


FLOATS = [0.5, -1.0]
BASE64 = base64.b64encode(struct.pack("<2f", *FLOATS)).decode()


@pytest.mark.parametrize(("asked", "expected"), [("float", FLOATS), ("base64", BASE64)])
@pytest.mark.parametrize("given", [FLOATS, BASE64])
async def test_vectors_have_the_requested_format_for_any_provider(
    given: object, asked: str, expected: object, tmp_path: Path
) -> None:
    async def embeds(request: Received, answer: Answer) -> None:
        data = [{"object": "embedding", "index": 0, "embedding": given}]
        await answer.json({"object": "list", "model": "e", "data": data})

    async with provider(embeds) as remote, serving(one_model(remote.base_url), tmp_path) as gateway:
        answer = await post(
            gateway.url, "/v1/embeddings", model="chat", input="a", encoding_format=asked
        )

    assert answer.json()["data"][0]["embedding"] == expected


async def test_one_connection_serves_request_after_request(tmp_path: Path) -> None:
    async with provider() as remote, serving(one_model(remote.base_url), tmp_path) as gateway:
        for number in range(30):
            answer = await post(gateway.url, stream=bool(number % 2))
            assert answer.status_code == 200

        assert len(remote.requests) == 30
        assert remote.accepted == 1


async def test_abandoned_answers_close_nothing_that_another_is_using(tmp_path: Path) -> None:
    go_on = asyncio.Event()

    async def waits(request: Received, answer: Answer) -> None:
        await answer.begin_stream()
        await answer.text("first")
        await go_on.wait()
        await answer.end_stream()

    async with (
        provider(waits) as remote,
        serving(one_model(remote.base_url), tmp_path) as gateway,
        httpx.AsyncClient(base_url=gateway.url, timeout=60) as client,
    ):
        body = {**HELLO, "stream": True}
        async with client.stream("POST", "/v1/chat/completions", json=body) as kept:
            lines = kept.aiter_lines()
            await anext(lines)
            for _ in range(5):
                async with client.stream("POST", "/v1/chat/completions", json=body) as left:
                    await anext(left.aiter_lines())
            await remote.until(lambda: remote.hung_up == 5)
            go_on.set()
            rest = [line async for line in lines]

    assert "data: [DONE]" in rest
