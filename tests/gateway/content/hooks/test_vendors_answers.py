"""Guardrails over what vendors send in answers besides plain text."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import httpx
import pytest

from tests.gateway.content.hooks.test_guarded_requests import (
    CHAT,
    KEY,
    MESSAGES,
    RESPONSES,
    SECRETS,
    body_of,
    shown,
)
from tests.gateway.serving import one_model, serving
from tests.stand_ins.provider import Answer, Received, provider

pytestmark = pytest.mark.anyio

Json = Mapping[str, object]
HEAD: Json = {"id": "c", "created": 1, "model": "m"}
END: Json = {"index": 0, "delta": {}, "finish_reason": "stop"}


async def answered(
    tmp_path: Path, mode: str, path: str, frames: Sequence[Json], *, stream: bool
) -> tuple[httpx.Response, tuple[str, ...]]:
    """The client's answer and the findings. frames: what the provider sends, one if not stream."""

    async def behaviour(request: Received, answer: Answer) -> None:
        if not stream:
            await answer.json({**HEAD, "object": "chat.completion", **frames[0]})
            return
        await answer.begin_stream()
        for frame in frames:
            await answer.event({**HEAD, "object": "chat.completion.chunk", **frame})
        await answer.end_stream(None)

    config = SECRETS.format(mode=mode, where="output")
    async with (
        provider(behaviour) as upstream,
        serving(one_model(upstream.base_url, config), tmp_path) as up,
        httpx.AsyncClient(timeout=60) as client,
    ):
        body = {**body_of(path, "hello"), "stream": stream}
        answer = await client.post(f"{up.url}{path}", json=body, timeout=60)
        [line] = up.access_lines()
        return answer, line.guardrails


def piece(text: str, **more: object) -> Json:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": None, **more}
    return {"choices": [choice]}


@pytest.mark.parametrize("last", ["a text", "its end", "nothing"])
@pytest.mark.parametrize("mode", ["mask", "block", "monitor"])
@pytest.mark.parametrize("path", [CHAT, MESSAGES])
async def test_a_large_piece_of_a_stream_is_examined(
    path: str, mode: str, last: str, tmp_path: Path
) -> None:
    """last: what follows the piece."""
    long, rest = "word " * 20_000, " now" if last == "a text" else ""
    frames = [piece("so: "), piece(f"{long}{KEY}")]
    frames += [piece(rest)] if rest else []
    frames += [{"choices": [END]}] if last != "nothing" else []
    answer, findings = await answered(tmp_path, mode, path, frames, stream=True)
    assert answer.status_code == (400 if mode == "block" else 200), answer.text[-300:]
    assert findings == (f"keys/aws_access_key_id:{mode}",)
    match mode:
        case "mask":
            assert shown(path, answer.text) == f"so: {long}[secret]{rest}"
        case "block":
            assert KEY not in answer.text
            assert "the guardrail 'keys' blocked the answer" in answer.text
        case _:
            assert shown(path, answer.text) == f"so: {long}{KEY}{rest}"


async def test_the_arguments_of_a_call_have_no_field_that_is_skipped(tmp_path: Path) -> None:
    arguments = {"id": KEY, "name": KEY, "signature": KEY, KEY: {"data": KEY, "format": "x"}}
    function = {"name": "f", "arguments": json.dumps(arguments)}
    message = {"role": "assistant", "tool_calls": [{"id": "c", "function": function}]}
    frame = {"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}
    for path in (CHAT, MESSAGES, RESPONSES):
        answer, findings = await answered(tmp_path, "mask", path, [frame], stream=False)
        assert answer.status_code == 200, answer.text
        assert KEY not in answer.text
        assert findings == ("keys/aws_access_key_id:mask",)


@pytest.mark.parametrize("path", [CHAT, MESSAGES, RESPONSES])
@pytest.mark.parametrize("mode", ["mask", "block"])
async def test_fields_of_a_vendor_in_each_piece_do_not_release_its_text(
    mode: str, path: str, tmp_path: Path
) -> None:
    text = f"use {KEY} now"
    frames = [*(piece(one, token_ids=[at]) for at, one in enumerate(text)), {"choices": [END]}]
    answer, findings = await answered(tmp_path, mode, path, frames, stream=True)
    assert findings == (f"keys/aws_access_key_id:{mode}",)
    if mode == "mask":
        assert shown(path, answer.text) == "use [secret] now"
    else:
        assert "AKIA" not in shown(path, answer.text)


@pytest.mark.parametrize("path", [CHAT, MESSAGES, RESPONSES])
@pytest.mark.parametrize("stream", [False, True])
async def test_fields_besides_the_choices_are_masked(
    stream: bool, path: str, tmp_path: Path
) -> None:
    sources: Json = {"citations": [f"https://x/{KEY}"], "search_results": [{"title": KEY}]}
    message = {"role": "assistant", "content": "as in [1]"}
    whole: Json = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    frames = [piece("as in [1]"), {"choices": [END]}] if stream else [whole]
    frames = [{**frame, **sources, "system_fingerprint": "fp"} for frame in frames]
    answer, findings = await answered(tmp_path, "mask", path, frames, stream=stream)
    assert findings == ("keys/aws_access_key_id:mask",)
    assert KEY not in answer.text
    assert "https://x/[secret]" in answer.text
    assert '"system_fingerprint":"fp"' in answer.text
