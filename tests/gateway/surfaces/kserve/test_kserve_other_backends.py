"""KServe clients in front of a remote Triton server: requests and answers arrive unchanged."""

import asyncio
import json
from pathlib import Path

import httpx
import pytest

from tests.gateway.backends.end_to_end.triton_backend import (
    PROMPT,
    Pair,
    expected_text,
    expected_tokens,
    pair,
)
from tests.gateway.surfaces.kserve.triton import Answered, Array, Refused, infer
from tests.gateway.surfaces.kserve.triton_requests import flag, integer, number, tokens, unsigned

pytestmark = pytest.mark.anyio

REQUIRED: dict[str, Array] = {"input_ids": tokens([5, 6, 7]), "request_output_len": integer(6)}


async def ask(both: Pair, model: str, **tensors: Array) -> Answered:
    return await asyncio.to_thread(infer, both.gateway.url, model, {**REQUIRED, **tensors})


async def generate(both: Pair, path: str, **body: object) -> httpx.Response:
    async with httpx.AsyncClient(base_url=f"{both.gateway.url}/v2/models", timeout=60) as client:
        return await client.post(path, json=body)


async def test_all_beams_come_back_unless_the_client_wants_fewer(tmp_path: Path) -> None:
    async with pair(tmp_path) as both:
        every = await ask(both, "tokens", beam_width=integer(3), return_log_probs=flag(True))
        best = await ask(both, "tokens", beam_width=integer(3), num_return_sequences=integer(2))
        sent = both.server.inferences[0].tensors

    assert every.tensors["output_ids"].shape == (3, 6)
    assert every.tensors["output_log_probs"].shape == (1, 3, 6)
    assert best.tensors["output_ids"].tolist() == every.tensors["output_ids"].tolist()[:2]
    assert (sent["beam_width"].items, sent["len_penalty"].items) == ([3], [0.0])


async def test_a_request_that_samples_not_is_greedy_there_and_has_no_end(tmp_path: Path) -> None:
    async with pair(tmp_path) as both:
        answer = await ask(both, "tokens", temperature=number(0.5))
        sampled = await ask(
            both, "tokens", runtime_top_k=integer(4), temperature=number(0.5), seed=unsigned(3)
        )
        greedy, drawn = [one.tensors for one in both.server.inferences]

    assert answer.tensors["output_ids"].tolist() == [expected_tokens(6)]
    assert sampled.tensors["output_ids"].tolist() == [expected_tokens(6, seed=3)]
    assert (greedy["runtime_top_k"].items, greedy["end_id"].items) == ([1], [-1])
    assert "temperature" not in greedy
    assert (drawn["runtime_top_k"].items, drawn["temperature"].items) == ([4], [0.5])


async def test_a_stream_of_tokens_stays_one(tmp_path: Path) -> None:
    async with pair(tmp_path) as both:
        answer = await generate(
            both,
            "/live/generate_stream",
            input_ids=[5, 6, 7],
            max_tokens=4,
            end_id=-1,
            stream=True,
            return_log_probs=True,
        )

    frames = [
        json.loads(frame.removeprefix("data: ")) for frame in answer.text.split("\n\n") if frame
    ]
    assert [frame["output_ids"] for frame in frames] == expected_tokens(4)
    assert all("text_output" not in frame for frame in frames)
    assert all(frame["output_log_probs"] < 0 for frame in frames)


async def test_text_and_its_counts_cross_the_gateway(tmp_path: Path) -> None:
    counts = {"return_num_input_tokens": True, "return_num_output_tokens": True}

    async with pair(tmp_path) as both:
        answer = await generate(both, "/text/generate", text_input=PROMPT, max_tokens=8, **counts)

    assert answer.json() == {
        "model_name": "text",
        "model_version": "1",
        "text_output": expected_text(8),
        "num_input_tokens": 6,
        "num_output_tokens": 8,
    }


async def test_what_the_backend_cannot_do_is_refused_by_name(tmp_path: Path) -> None:
    async with pair(tmp_path) as both:
        with pytest.raises(Refused) as caught:
            await ask(both, "tokens", no_repeat_ngram_size=integer(2))

    assert caught.value.status == 400
    assert caught.value.message.startswith("ids/tensorrt_llm: no_repeat_ngram_size")
    assert not both.server.inferences
