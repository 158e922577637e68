"""Inputs over one request's limit are split, and joined into one answer by one deadline."""

import asyncio
from pathlib import Path
from typing import cast

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strowger_gateway.gateway.backends.upstream.adaptation.fan_out import MAX_PARALLEL_CALLS
from strowger_gateway.gateway.backends.upstream.embedding_batches import (
    AT_ONCE,
    join_answers,
    split_batches,
)
from strowger_gateway.schemas.answers import Embeddings
from strowger_gateway.schemas.events import Usage
from strowger_gateway.schemas.requests import EmbeddingsRequest
from tests.gateway.routing.failures.fault_dialects import MINDIE_TEXT
from tests.gateway.serving import serving
from tests.stand_ins.provider import Answer, Received, provider


def embedded(request: EmbeddingsRequest) -> Embeddings:
    """Each text is a number, and its vector has that number."""
    return Embeddings(
        vectors=tuple([float(str(one))] for one in request.inputs),
        model="m",
        usage=Usage(prompt_tokens=len(request.inputs), total_tokens=len(request.inputs)),
    )


@given(st.integers(1, 50), st.integers(1, 12))
def test_every_input_has_its_vector_in_its_place(count: int, most: int) -> None:
    request = EmbeddingsRequest(
        model="m", inputs=tuple(str(one) for one in range(count)), dimensions=3, batch=True
    )

    parts = split_batches(request, most)
    answer = join_answers([embedded(one) for one in parts])

    assert all(1 <= len(one.inputs) <= most for one in parts)
    assert all(one.dimensions == 3 for one in parts)
    assert answer.vectors == tuple([float(one)] for one in range(count))
    assert answer.usage == Usage(prompt_tokens=count, total_tokens=count)


def test_a_request_that_fits_goes_as_it_is_and_so_does_its_answer() -> None:
    request = EmbeddingsRequest(model="m", inputs=("1", "2"))
    answer = embedded(request)

    assert split_batches(request, 2) == [request]
    assert join_answers([answer]) is answer


def test_a_count_that_one_part_does_not_report_is_unknown() -> None:
    silent = Embeddings(vectors=([1.0],))

    assert (
        join_answers([embedded(EmbeddingsRequest(model="m", inputs=("1",))), silent]).usage
        == Usage()
    )


CONFIG = """
providers: [{{name: co, adapter: cohere, base_url: {url}, api_key: k, timeouts: {{total_s: 0.6}}}}]
models: [{{name: e, retry: {{attempts: 1}}, backends: [{{provider: co, model: m/search_query}}]}}]
"""
CHOICES = """
providers: [{{name: g, adapter: mindie, base_url: {url}, api_key: k, timeouts: {{total_s: 0.6}}}}]
models: [{{name: c, retry: {{attempts: 1}}, backends: [{{provider: g, model: m}}]}}]
"""


@pytest.mark.anyio
async def test_the_time_of_one_attempt_is_that_of_all_its_batches(tmp_path: Path) -> None:
    async def slow(request: Received, answer: Answer) -> None:
        await asyncio.sleep(0.15)
        texts = cast("list[str]", request.json["texts"])
        await answer.json({"id": "e", "embeddings": {"float": [[1.0]] * len(texts)}})

    async with provider(slow) as remote:
        async with serving(CONFIG.format(url=remote.origin), tmp_path) as gateway:
            async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
                few = await client.post("/v1/embeddings", json={"model": "e", "input": ["x"] * 150})
                asked = len(remote.requests)
                many = await client.post(
                    "/v1/embeddings", json={"model": "e", "input": ["x"] * 2000}
                )

    assert (few.status_code, asked) == (200, 2)
    assert many.status_code == 504
    assert many.json()["error"]["code"] == "upstream_timeout"
    assert len(remote.requests) - asked <= 6 * AT_ONCE


@pytest.mark.anyio
async def test_batches_go_side_by_side_in_order_and_fail_together(tmp_path: Path) -> None:
    open_now = most = ended = 0
    fails = False
    begun = asyncio.Event()

    async def behave(request: Received, answer: Answer) -> None:
        nonlocal open_now, most, ended
        texts = cast("list[str]", request.json["texts"])
        open_now, most = open_now + 1, max(most, open_now + 1)
        if open_now == AT_ONCE:
            begun.set()
        await begun.wait()
        if fails and "0" in texts:
            await answer.json({"message": "no"}, 400)
        elif fails:
            await answer.gone.wait()
            ended += 1
        else:
            await answer.json({"id": "e", "embeddings": {"float": [[float(one)] for one in texts]}})
        open_now -= 1

    inputs = [str(one) for one in range(96 * 6 + 5)]
    async with provider(behave) as remote:
        config = CONFIG.format(url=remote.origin).replace("total_s: 0.6", "total_s: 20")
        async with (
            serving(config, tmp_path) as gateway,
            httpx.AsyncClient(base_url=gateway.url, timeout=60) as client,
        ):
            found = await client.post("/v1/embeddings", json={"model": "e", "input": inputs})
            asked, fails, open_now = len(remote.requests), True, 0
            begun.clear()
            failed = await client.post("/v1/embeddings", json={"model": "e", "input": inputs})
            again = len(remote.requests) - asked

    assert (found.status_code, asked, most) == (200, 7, AT_ONCE)
    assert [one["embedding"] for one in found.json()["data"]] == [[float(one)] for one in inputs]
    # Cohere counted nothing, and OpenAI's clients need a number.
    assert found.json()["usage"]["total_tokens"] >= len(inputs)
    assert found.headers["x-gateway-estimated"] == "usage"
    assert (failed.status_code, again) == (400, AT_ONCE)


@pytest.mark.anyio
async def test_the_time_of_one_attempt_is_that_of_all_its_choices(tmp_path: Path) -> None:
    async def slow(request: Received, answer: Answer) -> None:
        await asyncio.sleep(0.2)
        await MINDIE_TEXT.answers(request, answer)

    body = {"model": "c", "prompt": "hi"}
    async with provider(slow) as remote:
        async with serving(CHOICES.format(url=remote.origin), tmp_path) as gateway:
            async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
                few = await client.post("/v1/completions", json={**body, "n": 2})
                many = await client.post(
                    "/v1/completions", json={**body, "n": MAX_PARALLEL_CALLS * 4}
                )

    assert (few.status_code, len(few.json()["choices"])) == (200, 2)
    assert many.status_code == 504
    assert many.json()["error"]["code"] == "upstream_timeout"
