"""JSON within strings is measured before guardrails decode it, in requests and in answers."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from strowger_gateway.schemas.measured_json import BODY
from tests.gateway.content.hooks.test_guarded_requests import CHAT, MESSAGES, RESPONSES
from tests.gateway.serving import Serving, one_model, serving
from tests.stand_ins.provider import Answer, Received, chat_body, provider

pytestmark = pytest.mark.anyio

KEY = "AKIA" + "Q3" * 8
RAILS = """
guardrails:
  - {{name: keys, use: secrets, mode: {mode}}}
  - {{name: words, use: patterns, mode: {mode}, settings: {{words: [forbidden]}}}}
"""
TOO_MANY = '{"a": [' + ",".join(["[]"] * (BODY.containers + 1)) + "]}"
LONG = f'{{"note": "{"x" * 100_000}", "key": "{KEY}", "code": "forb\\u0069dden"}}'


class Sent:
    """What the backend answers with, and what it got."""

    def __init__(self) -> None:
        self.arguments = "{}"
        self.received: list[Received] = []

    async def __call__(self, request: Received, answer: Answer) -> None:
        self.received.append(request)
        called = {"name": "f", "arguments": self.arguments}
        call = {"id": "c1", "type": "function", "function": called}
        message: dict[str, object] = {"role": "assistant", "content": "hello"}
        if self.arguments != "{}":
            message["tool_calls"] = [call]
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        await answer.json({**chat_body("hello"), "choices": [choice]})


@asynccontextmanager
async def gateway(tmp_path: Path, mode: str) -> AsyncGenerator[tuple[Serving, Sent]]:
    sent = Sent()
    async with (
        provider(sent) as upstream,
        serving(one_model(upstream.base_url, RAILS.format(mode=mode)), tmp_path) as running,
    ):
        yield running, sent


def conversation(arguments: str) -> list[dict[str, object]]:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": arguments}}
    return [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "done"},
    ]


PATHS = (CHAT, RESPONSES)


def body_with(path: str, arguments: str) -> dict[str, object]:
    if path == CHAT:
        return {"model": "chat", "messages": conversation(arguments)}
    call = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": arguments}
    result = {"type": "function_call_output", "call_id": "c1", "output": "done"}
    return {"model": "chat", "input": [{"role": "user", "content": "hi"}, call, result]}


@pytest.mark.parametrize("path", PATHS)
async def test_arguments_with_too_many_lists_are_refused_where_a_guardrail_enforces(
    tmp_path: Path, path: str
) -> None:
    async with (
        gateway(tmp_path, "mask") as (running, sent),
        httpx.AsyncClient(timeout=60) as client,
    ):
        answer = await client.post(running.url + path, json=body_with(path, TOO_MANY), timeout=60)

        assert answer.status_code == 400, answer.text
        assert answer.json()["error"]["code"] == "body_too_complex"
        assert f"more than {BODY.containers} objects and lists" in answer.text
        assert not sent.received
        assert running.state.shares.buffered == 0


@pytest.mark.parametrize("path", PATHS)
async def test_a_guardrail_that_only_counts_lets_them_pass(tmp_path: Path, path: str) -> None:
    arguments = TOO_MANY[:-1] + f', "b": "{KEY}"}}'
    async with (
        gateway(tmp_path, "monitor") as (running, sent),
        httpx.AsyncClient(timeout=60) as client,
    ):
        answer = await client.post(running.url + path, json=body_with(path, arguments), timeout=60)

        assert answer.status_code == 200, answer.text
        assert KEY in sent.received[0].body.decode()
        assert running.access_lines()[-1].guardrails == ("keys/aws_access_key_id:monitor",)


async def test_arguments_count_once_although_a_request_keeps_them_twice(tmp_path: Path) -> None:
    arguments = '{"a": [' + ",".join(["[]"] * (BODY.containers - 2)) + "]}"
    async with gateway(tmp_path, "mask") as (running, _), httpx.AsyncClient(timeout=60) as client:
        for path in PATHS:
            body = body_with(path, arguments)
            answer = await client.post(running.url + path, json=body, timeout=60)

            assert answer.status_code == 200, answer.text


async def test_long_arguments_are_masked_as_short_ones_are(tmp_path: Path) -> None:
    async with (
        gateway(tmp_path, "mask") as (running, sent),
        httpx.AsyncClient(timeout=60) as client,
    ):
        sent.arguments = LONG
        body = body_with(CHAT, LONG)
        answer = await client.post(running.url + CHAT, json=body, timeout=60)

        got = json.loads(sent.received[0].body)["messages"][1]["tool_calls"][0]
        call = answer.json()["choices"][0]["message"]["tool_calls"][0]
        for arguments in (got["function"]["arguments"], call["function"]["arguments"]):
            masked = json.loads(arguments)
            assert masked["note"] == "x" * 100_000
            assert (masked["key"], masked["code"]) == ("[secret]", "[masked]")
        assert running.state.shares.buffered == 0


@pytest.mark.parametrize("path", PATHS)
async def test_arguments_that_are_nested_too_deeply_are_examined_as_one_text(
    tmp_path: Path, path: str
) -> None:
    arguments = '{"x":' * 40_000 + f'"{KEY}"' + "}" * 40_000
    async with (
        gateway(tmp_path, "mask") as (running, sent),
        httpx.AsyncClient(timeout=60) as client,
    ):
        sent.arguments = arguments
        answer = await client.post(running.url + path, json=body_with(path, arguments), timeout=60)

        assert answer.status_code == 200, answer.text
        assert KEY not in sent.received[0].body.decode()
        assert KEY not in answer.text
        assert "[secret]" in answer.text


@pytest.mark.parametrize("path", [CHAT, MESSAGES, RESPONSES])
async def test_an_answer_with_too_many_lists_in_its_arguments_is_blocked(
    tmp_path: Path, path: str
) -> None:
    async with (
        gateway(tmp_path, "mask") as (running, sent),
        httpx.AsyncClient(timeout=60) as client,
    ):
        sent.arguments = TOO_MANY
        body = {"model": "chat", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
        if path == RESPONSES:
            body = {"model": "chat", "input": "hi"}
        answer = await client.post(running.url + path, json=body, timeout=60)

        assert answer.status_code == 400, answer.text
        assert f"more than {BODY.containers} objects and lists" in answer.text
        assert running.access_lines()[-1].guardrails == ("keys/not_readable:block",)


async def test_a_large_field_of_a_vendor_is_masked_too(tmp_path: Path) -> None:
    async def behaviour(request: Received, answer: Answer) -> None:
        del request
        cited = [{"text": "x" * 70_000}, {"text": f"key {KEY}"}]
        await answer.json({**chat_body("hello"), "citations": cited})

    async with (
        provider(behaviour) as upstream,
        serving(one_model(upstream.base_url, RAILS.format(mode="mask")), tmp_path) as running,
        httpx.AsyncClient(timeout=60) as client,
    ):
        body = {"model": "chat", "messages": [{"role": "user", "content": "hi"}]}
        answer = await client.post(running.url + CHAT, json=body, timeout=60)

    assert answer.status_code == 200
    assert answer.json()["citations"][1] == {"text": "key [secret]"}


@pytest.mark.parametrize("mode", ["mask", "monitor"])
async def test_a_large_field_in_a_stream_is_examined_too(tmp_path: Path, mode: str) -> None:
    async def behaviour(request: Received, answer: Answer) -> None:
        del request
        cited = [{"text": "x" * 70_000}, {"text": f"key {KEY}"}]
        choice = {"index": 0, "delta": {"content": " there"}, "finish_reason": None}
        await answer.begin_stream()
        await answer.text("hello")
        await answer.event({"id": "c", "choices": [choice], "citations": cited})
        await answer.text("!")
        await answer.end_stream()

    async with (
        provider(behaviour) as upstream,
        serving(one_model(upstream.base_url, RAILS.format(mode=mode)), tmp_path) as running,
        httpx.AsyncClient(timeout=60) as client,
    ):
        messages = [{"role": "user", "content": "hi"}]
        body = {"model": "chat", "stream": True, "messages": messages}
        answer = await client.post(running.url + CHAT, json=body, timeout=60)

        assert ("key [secret]" in answer.text) == (mode == "mask")
        assert (KEY in answer.text) == (mode == "monitor")
        assert running.access_lines()[-1].guardrails == (f"keys/aws_access_key_id:{mode}",)
