"""Streams of the Gemini API: silent ones, ones that break off, and frames that arrive in pieces."""

import asyncio
import json
from pathlib import Path

import httpx
import pytest
from google.genai import errors

from tests.gateway.backends.vendors.dialect import Json
from tests.gateway.serving import one_model, serving
from tests.gateway.surfaces.gemini.google_client import ask, google_client
from tests.stand_ins.gemini_server import frame
from tests.stand_ins.provider import Answer, Received, provider

pytestmark = pytest.mark.anyio

HI: Json = {"contents": [{"parts": [{"text": "hi"}]}]}
STREAM = "/v1beta/models/chat:streamGenerateContent"
GOOGLE = """
providers:
  - {name: google, adapter: gemini, base_url: URL/v1beta, api_key: k-0123456789}
models:
  - {name: chat, backends: [{provider: google, model: gemini-2.5-flash}]}
"""


@pytest.mark.parametrize("form", ["?alt=sse", ""], ids=["events", "list"])
async def test_a_silent_stream_has_signs_of_life_that_googles_clients_read(
    tmp_path: Path, form: str
) -> None:
    """Their parsers take a comment for data, or drop the event behind it."""
    go_on = asyncio.Event()

    async def pauses(request: Received, answer: Answer) -> None:
        await answer.begin_stream()
        await answer.text("first")
        await go_on.wait()
        await answer.end_stream()

    config = one_model("{url}", "server: {sse_keepalive_s: 0.05, commit_after_s: 0.05}")
    async with (
        provider(pauses) as remote,
        serving(config.replace("{url}", remote.base_url), tmp_path) as gateway,
        httpx.AsyncClient(base_url=gateway.url, timeout=60) as client,
        client.stream("POST", STREAM + form, json=HI) as stream,
    ):
        pieces = stream.aiter_bytes()
        body = b""
        sign = b'"text":""' if form else b"\n"
        while body.count(sign) < 2:
            body += await anext(pieces)
        go_on.set()
        body += b"".join([piece async for piece in pieces])

    if form:
        frames = body.decode().split("\n\n")
        assert all(one.startswith("data: {") for one in frames if one)
        told = [json.loads(one[6:]) for one in frames if one]
    else:
        told = json.loads(body)
    texts = [
        part["text"]
        for one in told
        for candidate in one["candidates"]
        for part in candidate["content"]["parts"]
    ]
    assert "".join(texts) == "first"
    assert told[-1]["candidates"][0]["finishReason"] == "STOP"


@pytest.mark.parametrize("form", ["?alt=sse", ""], ids=["events", "list"])
async def test_a_stream_that_breaks_off_ends_with_an_error_of_googles(
    tmp_path: Path, form: str
) -> None:
    async def breaks(request: Received, answer: Answer) -> None:
        await answer.begin_stream()
        await answer.text("first")
        await answer.raw(b"0\r\n\r\n")

    async with (
        provider(breaks) as remote,
        serving(one_model(remote.base_url), tmp_path) as gateway,
        httpx.AsyncClient(base_url=gateway.url, timeout=60) as web,
        google_client(gateway.url) as client,
    ):
        answer = await web.post(STREAM + form, json=HI)
        if form:
            with pytest.raises(errors.APIError, match="remote"):
                await ask(client, "chat", ["hi"], stream=True)

    frames = [json.loads(one[6:]) for one in answer.text.split("\n\n") if one] if form else None
    told = answer.json() if frames is None else frames
    assert told[0]["candidates"][0]["content"]["parts"] == [{"text": "first"}]
    assert told[-1]["error"]["status"] == "UNAVAILABLE"
    assert not any("finishReason" in str(one) for one in told)


async def test_a_frame_that_arrives_in_pieces_leaves_in_one(tmp_path: Path) -> None:
    signed: dict[str, object] = {"text": "", "thoughtSignature": "YWJjMTIzZGVmNDU2"}
    said: dict[str, object] = {"text": "Hällo"}
    sent = [frame(said), frame(signed, finishReason="STOP")]

    async def crumbles(request: Received, answer: Answer) -> None:
        await answer.begin_stream()
        data = b"".join(b"data: %b\r\n\r\n" % json.dumps(one).encode() for one in sent)
        for at in range(0, len(data), 7):
            await answer.chunk(data[at : at + 7])
        await answer.raw(b"0\r\n\r\n")

    async with (
        provider(crumbles) as remote,
        serving(GOOGLE.replace("URL", remote.origin), tmp_path) as gateway,
        google_client(gateway.url) as client,
    ):
        answer = await ask(client, "chat", ["hi"], stream=True)

    assert answer.text == "Hällo"
    assert [one.thought_signature for one in answer.parts if one.thought_signature] == [
        b"abc123def456"
    ]


async def test_google_gets_the_pieces_of_a_turn_as_one_content(tmp_path: Path) -> None:
    """Its own SDK keeps frames as contents, with an empty text at the end."""
    call: Json = {"functionCall": {"name": "f", "args": {}}, "thoughtSignature": "YWJj"}
    code: Json = {"executableCode": {"language": "PYTHON", "code": "1"}}
    result: Json = {"functionResponse": {"name": "f", "response": {"output": "a"}}}
    user: Json = {"role": "user", "parts": [{"text": "hi"}]}
    pieces: list[Json] = [{"text": "I "}, {"text": "look."}, code, call]

    async def answers(request: Received, answer: Answer) -> None:
        await answer.json(frame({"text": "ok"}, finishReason="STOP"))

    async with (
        provider(answers) as remote,
        serving(GOOGLE.replace("URL", remote.origin), tmp_path) as gateway,
        httpx.AsyncClient(base_url=gateway.url, timeout=60) as web,
    ):
        contents = [
            user,
            *({"role": "model", "parts": [one]} for one in pieces),
            {"role": "user", "parts": [result]},
            {"role": "model", "parts": [{"text": ""}]},
        ]
        answer = await web.post("/v1beta/models/chat:generateContent", json={"contents": contents})

    assert answer.status_code == 200, answer.text
    assert remote.requests[-1].json == {
        "contents": [
            user,
            {"role": "model", "parts": pieces},
            {"role": "user", "parts": [result]},
        ]
    }
