"""Guardrails over the words of the protocol in an answer: a backend may put anything there."""

import json
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
)
from tests.gateway.serving import one_model, serving
from tests.stand_ins.provider import Answer, Received, chat_body, delta_body, provider

pytestmark = pytest.mark.anyio

PROSE = "attack at dawn"
PLACES = ("id", "model", "system_fingerprint", "service_tier")


def hostile(words: str) -> dict[str, object]:
    """Fields of an answer with these words in all places that are no text of the model."""
    usage = {
        "prompt_tokens": 7,
        "completion_tokens": 3,
        "total_tokens": 10,
        "note": words,
        "details": [{words: 1}],
    }
    return {**dict.fromkeys(PLACES, words), "usage": usage}


async def answered(
    tmp_path: Path, words: str, path: str, mode: str, *, stream: bool
) -> tuple[httpx.Response, tuple[str, ...]]:
    async def behaviour(request: Received, answer: Answer) -> None:
        fields = hostile(words)
        if not stream:
            await answer.json({**chat_body(), **fields})
            return
        await answer.begin_stream()
        without = {name: value for name, value in fields.items() if name != "usage"}
        await answer.event({**delta_body({"content": "hello"}), **without})
        end = {**delta_body({}, "stop"), **without}
        stop = "END" if words == PROSE else words  # it is text, which is examined as such
        end["choices"] = [{"index": 0, "delta": {}, "finish_reason": "stop", "stop_reason": stop}]
        await answer.event(end)
        await answer.event({**delta_body({}), **fields, "choices": []})
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


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("words", [KEY, PROSE, f"ok-{KEY}"], ids=["secret", "prose", "both"])
@pytest.mark.parametrize("path", [CHAT, MESSAGES, RESPONSES])
async def test_no_word_of_the_protocol_carries_what_a_guardrail_would_mask(
    path: str, words: str, stream: bool, tmp_path: Path
) -> None:
    answer, findings = await answered(tmp_path, words, path, "mask", stream=stream)

    assert answer.status_code == 200
    assert words not in answer.text
    assert "hello" in answer.text
    assert findings == (() if words == PROSE else ("keys/aws_access_key_id:mask",))


async def test_words_never_block_an_answer(tmp_path: Path) -> None:
    """A guardrail may find its words in the name of a model."""
    answer, findings = await answered(tmp_path, KEY, CHAT, "block", stream=False)

    assert answer.status_code == 200
    assert answer.json()["model"] == "chat"
    assert answer.json()["usage"] == {
        "prompt_tokens": 7,
        "completion_tokens": 3,
        "total_tokens": 10,
    }
    assert findings == ("keys/aws_access_key_id:mask",)


async def test_a_monitor_reports_them_and_changes_nothing(tmp_path: Path) -> None:
    answer, findings = await answered(tmp_path, KEY, CHAT, "monitor", stream=False)

    assert answer.json()["model"] == KEY
    assert answer.json()["usage"]["note"] == KEY
    assert findings == ("keys/aws_access_key_id:monitor",)


async def test_ordinary_words_pass(tmp_path: Path) -> None:
    answer, findings = await answered(tmp_path, "fp_44709d6fcb", CHAT, "mask", stream=False)

    assert answer.json()["model"] == "fp_44709d6fcb"
    assert answer.json()["system_fingerprint"] == "fp_44709d6fcb"
    assert answer.json()["usage"]["note"] == "fp_44709d6fcb"
    assert findings == ()


async def test_nor_does_an_answer_of_vectors(tmp_path: Path) -> None:
    async def embeds(request: Received, answer: Answer) -> None:
        data = [{"object": "embedding", "index": 0, "embedding": [0.5]}]
        usage = {"prompt_tokens": 2, "total_tokens": 2, "note": KEY}
        await answer.json({"object": "list", "data": data, "model": KEY, "usage": usage})

    config = SECRETS.format(mode="mask", where="output")
    async with (
        provider(embeds) as upstream,
        serving(one_model(upstream.base_url, config), tmp_path) as up,
        httpx.AsyncClient(timeout=60) as client,
    ):
        body = {"model": "chat", "input": "hello"}
        answer = await client.post(f"{up.url}/v1/embeddings", json=body, timeout=60)

    assert answer.status_code == 200
    assert KEY not in answer.text
    assert answer.json()["usage"]["prompt_tokens"] == 2


@pytest.mark.parametrize("words", [KEY, PROSE])
async def test_the_code_and_type_of_a_backends_error_carry_nothing_either(
    words: str, tmp_path: Path
) -> None:
    async def refuses(request: Received, answer: Answer) -> None:
        error = {"message": "no", "type": words, "code": words, "param": words}
        await answer.json({"error": error}, status=400)

    config = SECRETS.format(mode="mask", where="output")
    async with (
        provider(refuses) as upstream,
        serving(one_model(upstream.base_url, config), tmp_path) as up,
        httpx.AsyncClient(timeout=60) as client,
    ):
        answer = await client.post(f"{up.url}{CHAT}", json=body_of(CHAT, "hello"), timeout=60)

    assert answer.status_code == 400
    assert words not in answer.text
    assert json.loads(answer.text)["error"]["code"] == "upstream_rejected"
