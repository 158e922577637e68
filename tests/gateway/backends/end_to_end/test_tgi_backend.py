"""OpenAI's own client in front of the gateway, TGI's native text route behind it."""

import asyncio
import json
from collections.abc import AsyncGenerator
from pathlib import Path

import openai
import pytest

from tests.gateway.backends.vendors.alone import Setting, in_front_of
from tests.stand_ins.provider import Answer, Received

pytestmark = pytest.mark.anyio

CONFIG = """
providers:
  - name: box
    adapter: tgi
    base_url: {url}
    timeouts: {{connect_s: 20, first_token_s: 2, between_tokens_s: 1, total_s: 5}}
models:
  - name: text
    retry: {{backoff_s: 0.01, max_backoff_s: 0.05}}
    backends: [{{provider: box, model: m1}}]
"""
PIECES = (" one", " two", " END", " three")
DETAILS = {"finish_reason": "length", "generated_tokens": 4, "seed": None, "input_length": 2}
BREAK = "break in the middle"


async def tgi(request: Received, answer: Answer) -> None:
    text = "".join(PIECES)
    if request.path == "/generate":
        head = {"x-prompt-tokens": "2"}
        await answer.json({"generated_text": text, "details": DETAILS}, headers=head)
        return
    await answer.begin_stream()
    for place, piece in enumerate(PIECES):
        last = place == len(PIECES) - 1
        frame = {
            "index": place + 1,
            "token": {"id": place, "text": piece, "logprob": -0.5, "special": False},
            "generated_text": text if last else None,
            "details": DETAILS if last else None,
        }
        await answer.chunk(b"data:" + json.dumps(frame).encode() + b"\n\n")
        if BREAK in request.body.decode():
            await asyncio.sleep(0.05)  # so that the text is on its way before the failure
            fault = {"error": "the card is on fire", "error_type": "generation"}
            await answer.chunk(b"event:error\ndata:" + json.dumps(fault).encode() + b"\n\n")
            break
    await answer.raw(b"0\r\n\r\n")


@pytest.fixture
async def setting(tmp_path: Path) -> AsyncGenerator[Setting, None]:
    async with in_front_of(tgi, CONFIG, tmp_path) as one:
        yield one


async def test_a_completion_is_answered_with_its_usage(setting: Setting) -> None:
    answer = await setting.client.completions.create(model="text", prompt="count:", max_tokens=4)

    assert answer.choices[0].text == " one two END three"
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.total_tokens) == (2, 6)


async def test_a_stream_is_the_same_answer_in_pieces(setting: Setting) -> None:
    stream = await setting.client.completions.create(model="text", prompt="count:", stream=True)

    texts = [one.text async for chunk in stream for one in chunk.choices]

    assert "".join(texts) == " one two END three"
    assert setting.server.requests[0].path == "/generate_stream"


@pytest.mark.parametrize("stream", [False, True])
async def test_the_gateway_stops_what_the_server_would_return(
    setting: Setting, stream: bool
) -> None:
    create = setting.client.completions.create
    if stream:
        chunks = await create(model="text", prompt="count:", stop=["END"], stream=True)
        text = "".join([one.text async for chunk in chunks for one in chunk.choices])
    else:
        text = (await create(model="text", prompt="count:", stop=["END"])).choices[0].text

    assert text == " one two "


async def test_a_failure_in_the_middle_is_an_error_and_no_end(setting: Setting) -> None:
    stream = await setting.client.completions.create(model="text", prompt=BREAK, stream=True)

    with pytest.raises(openai.APIError, match="box: the card is on fire"):
        [chunk async for chunk in stream]
