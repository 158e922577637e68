"""MindIE's chat interface on the bundled model, with the requests of its documentation."""

import json
from collections.abc import Mapping
from typing import Final, cast

import httpx
import pytest
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from tests.gateway.serving import Serving
from tests.gateway.surfaces.answers import payloads
from tests.gateway.surfaces.mindie.mindie_bodies import SEED

pytest.importorskip("torch")

pytestmark = pytest.mark.anyio

CONFIG = """
providers:
  - {here}
models:
  - {{name: tiny-chat, aliases: [gpt-3.5-turbo], backends: [{{provider: here, model: tiny}}]}}
"""
ONE_TURN: Final = """
    {
        "model": "gpt-3.5-turbo",
        "messages": [{
            "role": "user",
            "content": "You are a helpful assistant."
        }],
        "max_tokens": 20,
        "presence_penalty": 1.03,
        "frequency_penalty": 1.0,
        "seed": null,
        "temperature": 0.5,
        "top_p": 0.95,
        "stream": false
    }
"""
SEVERAL_TURNS: Final = """
    {
        "model": "gpt-3.5-turbo",
        "messages": [{
            "role": "system",
            "content": "You are a student who is good at math."
            },
            {
            "role": "user",
            "content": "what is your hobby?"
            }
        ],
        "max_tokens": 20,
        "presence_penalty": 1.03,
        "frequency_penalty": 1.0,
        "seed": null,
        "temperature": 0.5,
        "top_p": 0.95,
        "stream": false
    }
"""
"""The document's two requests, as they stand there."""

QUESTION = [{"role": "user", "content": "What is 17 + 25?"}]
SOON_S = 60.0


async def post(gateway: Serving, body: Mapping[str, object]) -> httpx.Response:
    async with httpx.AsyncClient(base_url=gateway.url, timeout=SOON_S) as ask:
        return await ask.post("/v1/chat/completions", json=body)


def request(example: str, **fields: object) -> dict[str, object]:
    return {**cast("dict[str, object]", json.loads(example)), **fields}


def question(**fields: object) -> dict[str, object]:
    return request(ONE_TURN, **{"messages": QUESTION, **fields})


async def answered(gateway: Serving, body: Mapping[str, object]) -> ChatCompletion:
    answer = await post(gateway, body)
    assert answer.status_code == 200, answer.text
    return ChatCompletion.model_validate_json(answer.content, strict=True)


@pytest.mark.parametrize("example", [ONE_TURN, SEVERAL_TURNS])
def test_the_examples_are_the_documents(example: str) -> None:
    document = SEED.with_name("mindie-chat-completions.txt")
    if not document.exists():
        pytest.skip("the seeds are not here")

    assert "".join(example.split()) in "".join(document.read_text().split())


@pytest.mark.parametrize("example", [ONE_TURN, SEVERAL_TURNS])
async def test_the_documents_requests_are_answered_unchanged(
    gateway: Serving, example: str
) -> None:
    answer = await answered(gateway, request(example))

    (choice,) = answer.choices
    assert answer.usage is not None
    assert (answer.object, choice.index, choice.message.role) == ("chat.completion", 0, "assistant")
    assert choice.message.content
    assert choice.finish_reason in ("stop", "length")
    assert 0 < answer.usage.completion_tokens <= 20
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


@pytest.mark.parametrize("example", [ONE_TURN, SEVERAL_TURNS])
async def test_streamed_they_end_with_their_reason_and_the_end_mark(
    gateway: Serving, example: str
) -> None:
    answer = await post(gateway, request(example, stream=True))

    *frames, done = payloads(answer.content)
    chunks = [ChatCompletionChunk.model_validate_json(frame, strict=True) for frame in frames]
    assert done == b"[DONE]"
    assert {chunk.object for chunk in chunks} == {"chat.completion.chunk"}
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    assert [chunk.choices[0].finish_reason for chunk in chunks[:-1]] == [None] * (len(chunks) - 1)
    assert chunks[-1].choices[0].finish_reason in ("stop", "length")


async def test_the_vendors_finish_reason_comes_with_openais(gateway: Serving) -> None:
    body = question(temperature=0)

    whole = (await post(gateway, body)).json()["choices"][0]
    cut = (await post(gateway, {**body, "max_tokens": 2})).json()["choices"][0]

    assert (whole["finish_reason"], whole["native_finish_reason"]) == ("stop", "eos_token")
    assert (cut["finish_reason"], cut["native_finish_reason"]) == ("length", "length")


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("max_tokens", (1, 900)),
        ("presence_penalty", (-2.0, 2.0)),
        ("frequency_penalty", (-2.0, 2.0)),
        ("seed", (1, 2**64 - 1)),
        ("temperature", (0.001, 2.0)),
        ("top_p", (0.001, 1.0)),
        ("stream", (False,)),
        ("repetition_penalty", (0.5, 2.0)),
        ("stop_token_ids", ([3], [4, 5])),
        ("ignore_eos", (True, False)),
        ("best_of", (2,)),
        ("use_beam_search", (False,)),
        ("include_stop_str_in_output", (False,)),
        ("skip_special_tokens", (True,)),
    ],
)
async def test_both_ends_of_every_range_are_honoured(
    gateway: Serving, name: str, values: tuple[object, ...]
) -> None:
    answers = [await answered(gateway, question(**{name: value})) for value in values]

    assert all(answer.choices[0].message.content for answer in answers)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_tokens", 0),
        ("presence_penalty", 2.1),
        ("frequency_penalty", -2.1),
        ("seed", 2**64),
        ("temperature", 2.1),
        ("top_p", 1.1),
        ("stream", "yes"),
        ("model", "-m"),
        ("model", "m" * 257),
        ("messages", []),
        ("include_stop_str_in_output", True),
        ("chat_template_kwargs", {"enable_thinking": False}),
        ("use_beam_search", True),
    ],
)
async def test_what_is_out_of_range_or_cannot_be_done_is_refused_by_name(
    gateway: Serving, name: str, value: object
) -> None:
    answer = await post(gateway, question(**{name: value}))

    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == name
    assert name in answer.json()["error"]["message"]


async def test_beams_may_be_requested_by_their_switch(gateway: Serving) -> None:
    plain = {"model": "gpt-3.5-turbo", "messages": QUESTION, "max_tokens": 20}

    switched = await answered(gateway, {**plain, "use_beam_search": True, "n": 2, "best_of": 3})
    reported = await answered(gateway, {**plain, "beam_width": 3, "n": 2})

    assert [choice.message.content for choice in switched.choices] == [
        choice.message.content for choice in reported.choices
    ]
    assert len(switched.choices) == 2
    assert switched.choices[0].message.content == "17 + 25 = 42."
