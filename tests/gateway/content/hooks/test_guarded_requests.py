"""Guardrails on the wire: what backends and clients receive, on every surface with text."""

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from msgspec import Struct

from tests.gateway.serving import Serving, one_model, serving
from tests.stand_ins.provider import Answer, Received, provider

KEY = "AKIA" + "Q3" * 8
pytestmark = pytest.mark.anyio

SECRETS = "guardrails: [{{name: keys, use: secrets, mode: {mode}, where: {where}}}]"
CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
MESSAGES, RESPONSES = "/v1/messages", "/v1/responses"
PATHS = (CHAT, COMPLETIONS, MESSAGES, RESPONSES)


class Guarded(Struct, frozen=True, kw_only=True, eq=False):
    up: Serving
    client: httpx.AsyncClient
    received: list[Received]
    read: asyncio.Event

    async def ask(self, path: str, text: str, **more: object) -> httpx.Response:
        body = {**body_of(path, text), **more}
        return await self.client.post(f"{self.up.url}{path}", json=body, timeout=60)


def body_of(path: str, text: str) -> dict[str, object]:
    if path == COMPLETIONS:
        return {"model": "chat", "prompt": text}
    if path == RESPONSES:
        return {"model": "chat", "input": text}
    return {"model": "chat", "max_tokens": 50, "messages": [{"role": "user", "content": text}]}


@asynccontextmanager
async def guarded(
    tmp_path: Path, config: str, *texts: str, wait: bool = False
) -> AsyncGenerator[Guarded, None]:
    """A gateway with guardrails; its backend answers with the texts, split as given.

    wait: it sends the first, and the others once `read` is set.
    """
    received: list[Received] = []
    read = asyncio.Event()
    if not wait:
        read.set()

    async def behaviour(request: Received, answer: Answer) -> None:
        received.append(request)
        completion = request.path.endswith("/completions") and "prompt" in request.json
        if request.json.get("stream"):
            await answer.begin_stream()
            for number, text in enumerate(texts):
                if number:
                    await read.wait()
                if completion:
                    choice = {"index": 0, "text": text, "finish_reason": None}
                    await answer.event({"id": "c", "object": "text_completion",
                                        "choices": [choice]})  # fmt: skip
                else:
                    await answer.text(text)
            if completion:
                last = {"index": 0, "text": "", "finish_reason": "stop"}
                await answer.event({"id": "c", "object": "text_completion", "choices": [last]})
                await answer.end_stream(None)
            else:
                await answer.end_stream()
        elif completion:
            choice = {"index": 0, "text": "".join(texts), "finish_reason": "stop"}
            usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
            await answer.json({"id": "c", "object": "text_completion", "choices": [choice],
                               "usage": usage})  # fmt: skip
        else:
            await answer.chat("".join(texts))

    async with (
        provider(behaviour) as upstream,
        serving(_patient(upstream.base_url, config), tmp_path) as up,
        httpx.AsyncClient(timeout=60) as client,
    ):
        yield Guarded(up=up, client=client, received=received, read=read)


def _patient(base_url: str, config: str) -> str:
    """A stream may wait for its reader longer than a second on a busy machine."""
    limits = "first_token_s: 1, between_tokens_s: 1, total_s: 5"
    found = one_model(base_url, config)
    assert limits in found
    return found.replace(limits, "first_token_s: 60, between_tokens_s: 60, total_s: 60")


def shown(path: str, body: str) -> str:
    """The text of a streamed answer, as the clients of the path put it together."""
    pieces: list[str] = []
    for line in body.splitlines():
        if not line.startswith("data: {"):
            continue
        event: Mapping[str, object] = json.loads(line[6:])
        match path, event:
            case "/v1/chat/completions", {"choices": [{"delta": {"content": str(text)}}]}:
                pieces.append(text)
            case "/v1/completions", {"choices": [{"text": str(text)}]}:
                pieces.append(text)
            case "/v1/messages", {"type": "content_block_delta", "delta": {"text": str(text)}}:
                pieces.append(text)
            case "/v1/responses", {"type": "response.output_text.delta", "delta": str(text)}:
                pieces.append(text)
            case _:
                pass
    return "".join(pieces)


@pytest.mark.parametrize("path", PATHS)
async def test_a_secret_in_a_request_is_masked_before_it_reaches_a_backend(
    path: str, tmp_path: Path
) -> None:
    config = SECRETS.format(mode="mask", where="input")
    async with guarded(tmp_path, config, "hello") as at:
        answer = await at.ask(path, f"my key is {KEY}.")
        assert answer.status_code == 200, answer.text
        sent = at.received[0].body.decode()
        assert KEY not in sent
        assert "my key is [secret]." in sent
        [line] = at.up.access_lines()
        assert line.guardrails == ("keys/aws_access_key_id:mask",)


@pytest.mark.parametrize("path", PATHS)
async def test_a_blocked_request_reaches_no_backend(path: str, tmp_path: Path) -> None:
    config = SECRETS.format(mode="block", where="both")
    async with guarded(tmp_path, config, "hello") as at:
        answer = await at.ask(path, f"my key is {KEY}.")
        assert answer.status_code == 400
        assert "the guardrail 'keys' blocked the request" in answer.text
        assert KEY not in answer.text
        assert at.received == []
        [line] = at.up.access_lines()
        assert line.error == "content_blocked"
        assert KEY not in at.up.log.getvalue().decode()
        counted = (await at.up.state.processes.metrics_text())[0].decode()
        labels = 'action="block",guardrail="keys",place="request"'
        assert f"strowger_guardrail_findings_total{{{labels}}} 1.0" in counted


@pytest.mark.parametrize("path", PATHS)
async def test_a_secret_in_a_whole_answer_is_masked(path: str, tmp_path: Path) -> None:
    config = SECRETS.format(mode="mask", where="output")
    async with guarded(tmp_path, config, f"use {KEY} now") as at:
        answer = await at.ask(path, "hello")
        assert answer.status_code == 200, answer.text
        assert KEY not in answer.text
        assert "use [secret] now" in answer.text


@pytest.mark.parametrize("path", PATHS)
async def test_a_secret_that_a_stream_splits_is_masked(path: str, tmp_path: Path) -> None:
    config = SECRETS.format(mode="mask", where="output")
    text = f"use {KEY} now"
    async with guarded(tmp_path, config, *text) as at:
        answer = await at.ask(path, "hello", stream=True)
        assert answer.status_code == 200, answer.text
        assert shown(path, answer.text) == "use [secret] now"
        assert KEY not in answer.text


@pytest.mark.parametrize("path", PATHS)
async def test_a_stream_with_a_secret_ends_with_an_error_before_it(
    path: str, tmp_path: Path
) -> None:
    config = SECRETS.format(mode="block", where="output")
    long = "word " * 60
    parts = (long, f"use {KEY[:9]}", f"{KEY[9:]} now")
    async with guarded(tmp_path, config, *parts, wait=True) as at:
        body = {**body_of(path, "hello"), "stream": True}
        async with at.client.stream("POST", f"{at.up.url}{path}", json=body) as answer:
            assert answer.status_code == 200
            got = ""
            async for piece in answer.aiter_text():
                got += piece
                if "word" in got:
                    at.read.set()
        assert "the guardrail 'keys' blocked the answer" in got
        text = shown(path, got)
        assert long.startswith(text)
        assert text
        assert "AKIA" not in got
        [line] = at.up.access_lines()
        assert (line.error, line.attempts[0].outcome) == ("content_blocked", "cancelled")


@pytest.mark.parametrize("stream", [False, True])
async def test_monitoring_changes_no_byte_and_records_the_finding(
    stream: bool, tmp_path: Path
) -> None:
    texts = ("use ", KEY[:7], KEY[7:] + " now")
    config = SECRETS.format(mode="monitor", where="both")
    async with guarded(tmp_path, config, *texts) as at:
        answer = await at.ask(CHAT, f"key {KEY}", stream=stream)
        said = shown(CHAT, answer.text) if stream else answer.text
        assert f"use {KEY} now" in said
        assert KEY in at.received[0].body.decode()
        [line] = at.up.access_lines()
        assert line.guardrails == ("keys/aws_access_key_id:monitor",)
        counted = (await at.up.state.processes.metrics_text())[0].decode()
        for place in ("request", "answer"):
            labels = f'action="monitor",guardrail="keys",place="{place}"'
            assert f"strowger_guardrail_findings_total{{{labels}}} 1.0" in counted


async def test_a_guardrail_of_other_models_has_no_effect(tmp_path: Path) -> None:
    config = "guardrails: [{name: keys, use: secrets, who: {user: someone}}]"
    async with guarded(tmp_path, config, f"use {KEY}") as at:
        answer = await at.ask(CHAT, f"key {KEY}")
        assert answer.status_code == 200
        assert KEY in answer.text


async def test_token_ids_and_log_probabilities_are_refused_because_they_hide_text(
    tmp_path: Path,
) -> None:
    config = SECRETS.format(mode="mask", where="both")
    async with guarded(tmp_path, config, "hello") as at:
        tokens = await at.client.post(
            f"{at.up.url}{COMPLETIONS}", json={"model": "chat", "prompt": [1, 2]}
        )
        logprobs = await at.ask(CHAT, "hello", logprobs=True)
        for refused in (tokens, logprobs):
            assert refused.status_code == 400
            assert refused.json()["error"]["code"] == "content_not_readable"
        assert at.received == []


async def test_tool_calls_and_tool_results_of_a_conversation_are_masked(tmp_path: Path) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f",
            "arguments": f'{{"k": "{KEY}"}}'}}  # fmt: skip
    messages = [
        {"role": "system", "content": f"the system's {KEY}"},
        {"role": "user", "content": [{"type": "text", "text": f"mine {KEY}", "new": KEY}]},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": f"found {KEY}"},
    ]
    config = SECRETS.format(mode="mask", where="input")
    async with guarded(tmp_path, config, "hello") as at:
        answer = await at.ask(CHAT, "", messages=messages)
        assert answer.status_code == 200, answer.text
        sent = at.received[0].body.decode()
        assert KEY not in sent
        assert sent.count("[secret]") == 5


async def test_an_answer_that_is_too_long_is_blocked(tmp_path: Path) -> None:
    config = "guardrails: [{name: short, use: sizes, settings: {output_characters: 20}}]"
    async with guarded(tmp_path, config, *(["word "] * 200)) as at:
        for stream in (False, True):
            answer = await at.ask(CHAT, "hello", stream=stream)
            assert "the guardrail 'short' blocked the answer" in answer.text


async def test_text_that_waits_is_sent_while_the_backend_is_silent(tmp_path: Path) -> None:
    config = (
        "guardrails: [{name: keys, use: secrets, mode: mask, hold_back: {characters: 64, ms: 50}}]"
    )
    async with guarded(tmp_path, config, f"use {KEY[:9]}", f"{KEY[9:]} now", wait=True) as at:
        body = {**body_of(CHAT, "hello"), "stream": True}
        async with at.client.stream("POST", f"{at.up.url}{CHAT}", json=body) as answer:
            got = ""
            async for piece in answer.aiter_text():
                got += piece
                if "use AKIA" in shown(CHAT, got):
                    at.read.set()
        assert shown(CHAT, got) == f"use {KEY[:9]} now"


async def test_a_short_stream_that_is_blocked_has_the_status_of_its_error(tmp_path: Path) -> None:
    config = SECRETS.format(mode="block", where="output")
    for path in PATHS:
        async with guarded(tmp_path, config, "use ", KEY, " now") as at:
            answer = await at.ask(path, "hello", stream=True)
            assert answer.status_code == 400
            assert "the guardrail 'keys' blocked the answer" in answer.text


async def test_two_guardrails_mask_one_stream(tmp_path: Path) -> None:
    config = """
guardrails:
  - {name: keys, use: secrets, mode: mask}
  - {name: words, use: patterns, mode: mask, settings: {words: [falcon]}}
  - {name: seen, use: patterns, mode: monitor, settings: {words: [hidden]}}
"""
    text = f"The falcon has {KEY} " + "and more " * 60 + "hidden falcon"
    async with guarded(tmp_path, config, *text) as at:
        answer = await at.ask(CHAT, "hello", stream=True)
        expected = text.replace(KEY, "[secret]").replace("falcon", "[masked]")
        assert shown(CHAT, answer.text) == expected
        [line] = at.up.access_lines()
        assert line.guardrails == (
            "keys/aws_access_key_id:mask",
            "words/words:mask",
            "seen/words:monitor",
        )


async def test_the_text_before_a_failure_of_the_backend_is_sent(tmp_path: Path) -> None:
    config = SECRETS.format(mode="mask", where="output")
    read = asyncio.Event()

    async def behaviour(request: Received, answer: Answer) -> None:
        await answer.begin_stream()
        await answer.text("word " * 60)
        await read.wait()
        await answer.text(f"use {KEY} now")
        await answer.event({"error": {"message": "overheated", "type": "server_error"}})

    async with (
        provider(behaviour) as upstream,
        serving(_patient(upstream.base_url, config), tmp_path) as up,
        httpx.AsyncClient(timeout=60) as client,
    ):
        body = {**body_of(CHAT, "hello"), "stream": True}
        async with client.stream("POST", f"{up.url}{CHAT}", json=body) as answer:
            got = ""
            async for piece in answer.aiter_text():
                got += piece
                if "word" in got:
                    read.set()
        assert shown(CHAT, got) == "word " * 60 + "use [secret] now"
        assert "overheated" in got


@pytest.mark.parametrize("shown_before", [False, True])
async def test_a_client_that_leaves_a_guarded_stream_ends_the_backends_work(
    shown_before: bool, tmp_path: Path
) -> None:
    gone, begun = asyncio.Event(), asyncio.Event()

    async def behaviour(request: Received, answer: Answer) -> None:
        await answer.begin_stream()
        await answer.text("word " * (60 if shown_before else 1))
        begun.set()
        try:
            await answer.gone.wait()
        finally:
            gone.set()

    config = SECRETS.format(mode="mask", where="both").replace(
        "use:", "hold_back: {ms: 60000}, use:"
    )
    async with (
        provider(behaviour) as upstream,
        serving(_patient(upstream.base_url, config), tmp_path) as up,
        httpx.AsyncClient(timeout=60) as client,
    ):
        body = {**body_of(CHAT, "hello"), "stream": True}
        asking = asyncio.create_task(client.post(f"{up.url}{CHAT}", json=body))
        await asyncio.wait_for(begun.wait(), 60)
        asking.cancel()
        await asyncio.wait_for(gone.wait(), 60)
        while up.state.admission.in_flight:  # noqa: ASYNC110  the request's last step
            await asyncio.sleep(0.01)
        assert up.access_lines()[0].status == 499


@pytest.mark.parametrize(
    "message",
    [
        '{"role": "user", "content": "%s", "content": "hello"}',
        '{"role": "user", "content": [{"type": "text", "text": "%s", "te\\u0078t": "hello"}]}',
        '{"role": "user", "content": "hello", "x_more": {"a": "%s", "a": 1}}',
    ],
)
async def test_a_name_that_is_repeated_hides_no_text(tmp_path: Path, message: str) -> None:
    body = '{"model": "chat", "messages": [%s]}' % (message % KEY)
    for mode, status in (("mask", 400), ("monitor", 200)):
        (folder := tmp_path / mode).mkdir()
        async with guarded(folder, SECRETS.format(mode=mode, where="both"), "hello") as at:
            answer = await at.client.post(f"{at.up.url}{CHAT}", content=body)
            assert answer.status_code == status
            assert len(at.received) == (status == 200)
            if status == 400:
                error = answer.json()["error"]
                assert error["code"] == "content_not_readable"
                assert "twice" in error["message"]


async def test_arguments_of_a_call_that_repeat_a_name_are_masked_as_a_whole(tmp_path: Path) -> None:
    arguments = f'{{"to": "{KEY}", "to": "x"}}'
    call = {"id": "c", "type": "function", "function": {"name": "send", "arguments": arguments}}
    messages = [
        {"role": "user", "content": "send it"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "done"},
    ]
    async with guarded(tmp_path, SECRETS.format(mode="mask", where="both"), "hello") as at:
        answer = await at.ask(CHAT, "", messages=messages)
        assert answer.status_code == 200
        assert KEY not in json.dumps(at.received[0].json)
