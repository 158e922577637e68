"""The fake MindIE server answers in the formats of MindIE's documentation."""

import asyncio
import json
from collections.abc import Mapping
from typing import cast

import httpx
import pytest

from strowger_gateway.adapters.testing import Recording
from tests.adapters.traffic import RECORDINGS, traffic
from tests.stand_ins.mindie_server import mindie_server

pytestmark = pytest.mark.anyio

# https://www.hiascend.com/document: the token interface's own example
REQUEST = {
    "input_id": [5618, 19678, 701, 9072, 13],
    "stream": False,
    "parameters": {
        "temperature": 0.5,
        "top_k": 10,
        "top_p": 0.95,
        "max_new_tokens": 20,
        "do_sample": True,
        "seed": None,
        "repetition_penalty": 1.03,
        "details": True,
        "typical_p": 0.5,
        "watermark": False,
        "priority": 5,
        "timeout": 10,
    },
}
WHOLE = {
    "generated_text": "am a french native speaker.",
    "details": {"finish_reason": "length", "generated_tokens": 20, "seed": 846930886},
}
FIRST = {"prefill_time": 45.54, "decode_time": None, "token": {"id": 626, "text": "am"}}
LATER = {"prefill_time": None, "decode_time": 128.32, "token": {"id": 263, "text": " a"}}
LAST = {
    "prefill_time": None,
    "decode_time": 16.80,
    **WHOLE,
    "token": {"id": 29945, "text": None},
}


def shape(value: object) -> object:
    """Return keys and types without values; a list as its first entry, numbers as one type."""
    if isinstance(value, dict):
        return {key: shape(one) for key, one in cast("Mapping[str, object]", value).items()}
    if isinstance(value, list):
        return [shape(one) for one in cast("list[object]", value)[:1]]
    return "number" if isinstance(value, int | float) else type(value).__name__


def frames(text: str) -> list[object]:
    lines = (line.removeprefix("data:").strip() for line in text.splitlines())
    return [json.loads(line) for line in lines if line and line != "[DONE]"]


async def ask(path: str, body: object, *, old: bool = False, model: str = "m") -> str:
    async with (
        mindie_server(old=old, model=model) as server,
        httpx.AsyncClient(timeout=60) as client,
    ):
        answer = await client.post(f"{server.base_url}{path}", json=body)

    assert answer.status_code == 200
    return answer.text


async def test_the_token_interfaces_example_gets_an_answer_of_the_printed_shape() -> None:
    answer = json.loads(await ask("/infer_token", REQUEST, old=True))

    assert shape(answer) == shape(WHOLE)


async def test_the_token_interfaces_stream_has_frames_of_the_printed_shapes() -> None:
    found = frames(await ask("/infer_token", {**REQUEST, "stream": True}, old=True))

    assert shape(found[0]) == shape(FIRST)
    assert {str(shape(one)) for one in found[1:-1]} == {str(shape(LATER))}
    assert shape(found[-1]) == shape(LAST)


def recorded(name: str) -> Recording:
    return next(one for one in traffic(f"mindie/{name}") if one.name == f"mindie/{name}")


@pytest.mark.skipif(not RECORDINGS.is_dir(), reason="the recordings are not here")
@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("infer-native-stream", "/infer_token"),
        ("tgi-generate-stream-full-text", "/generate_stream"),
        ("chat-length", "/v1/chat/completions"),
        ("chat-json-schema", "/v1/chat/completions"),
    ],
)
async def test_documented_requests_get_answers_of_the_printed_shapes(name: str, path: str) -> None:
    case = recorded(name)
    details = {"inputs": "x", "parameters": {"details": True}}
    asked = {key: json.loads(bytes(raw)) for key, raw in case.sent.items()} or details

    text = await ask(path, asked, model=str(asked.get("model")))

    if case.streamed:
        printed, found = frames(case.body.decode()), frames(text)
        assert [shape(found[0]), shape(found[-1])] == [shape(printed[0]), shape(printed[-1])]
    else:
        assert shape(json.loads(text)) == shape(json.loads(case.body))


async def test_pieces_that_are_cut_at_random_join_to_the_same_bytes() -> None:
    texts: list[str] = []
    for cut in (None, 1, 2, 3):
        async with mindie_server(cut=cut) as server, httpx.AsyncClient(timeout=60) as client:
            body = {**REQUEST, "stream": True}
            answer = await client.post(f"{server.base_url}/infer_token", json=body)
            texts.append(answer.text)

    assert len(set(texts)) == 1


async def test_both_inputs_or_neither_are_rejected_as_documented() -> None:
    both = {"input_id": [1], "inputs": "x"}
    async with mindie_server() as server, httpx.AsyncClient(timeout=60) as client:
        answers = await asyncio.gather(
            *(client.post(f"{server.base_url}/infer_token", json=body) for body in (both, {}))
        )

    assert [answer.status_code for answer in answers] == [422, 422]
    assert [answer.json()["error"] for answer in answers] == [
        "Input conflict.",
        "Not found inputs.",
    ]
