"""A Triton server that rejects, fails or is cut off never gives a truncated answer."""

from pathlib import Path

import httpx
import pytest

from tests.gateway.backends.end_to_end.triton_backend import (
    Pair,
    data_of,
    expected_text,
    pair,
    streamed_text,
)
from tests.stand_ins.triton_server import Trouble

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("model", ["text", "tokens", "live"])
async def test_a_refusal_of_the_server_reaches_the_client(tmp_path: Path, model: str) -> None:
    trouble = Trouble(status=400, message="LoRA task 5 not found in cache")

    async with pair(tmp_path, trouble) as both:
        answer = await (both.text(model) if model == "text" else both.tokens(model))

    assert answer.status_code in (400, 422)
    assert "LoRA task 5 not found in cache" in answer.text


async def test_a_model_that_gives_fewer_answers_than_requested_has_failed(tmp_path: Path) -> None:
    async with pair(tmp_path) as both:
        answer = await both.text("bls", n=2)

    assert answer.status_code == 502
    assert "1 of 2 answers arrived" in answer.text


async def test_a_full_queue_is_the_backends_failure(tmp_path: Path) -> None:
    trouble = Trouble(status=503, message="Exceeds maximum queue size", retry_after=3)

    async with pair(tmp_path, trouble) as both:
        answer = await both.text()

    assert answer.status_code == 503
    assert "Exceeds maximum queue size" in answer.text


def failed(answer: httpx.Response) -> bool:
    return answer.status_code == 502 or '"error"' in data_of(answer)[-1]


@pytest.mark.parametrize("ask", ["text", "live"])
async def test_a_stream_cut_at_any_byte_is_never_a_short_answer(tmp_path: Path, ask: str) -> None:
    async def asking(both: Pair) -> httpx.Response:
        return await (both.text(stream=True) if ask == "text" else both.tokens("live", stream=True))

    async with pair(tmp_path) as both:
        assert not failed(await asking(both))
        for cut in (1, 5, 6, 100, 187, 188, 189, 190, 191, 400, 500, 555):
            both.server.trouble = Trouble(cut_after=cut)
            answer = await asking(both)
            assert failed(answer), f"cut after {cut} bytes: {answer.text}"


async def test_how_the_network_cuts_a_stream_does_not_show(tmp_path: Path) -> None:
    async with pair(tmp_path) as both:
        for seed in range(8):
            both.server.trouble = Trouble(pieces=seed)
            answer = await both.text("bls", stream=True)
            assert streamed_text(answer) == expected_text()
