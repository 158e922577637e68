"""A MindIE client of backends without text: a raw-tensor Triton model."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import msgspec
import pytest
from msgspec import Struct

from strowger_gateway.local_engine.bundled import bundled_path
from tests.gateway.backends.end_to_end.triton_backend import expected_tokens
from tests.gateway.serving import serving
from tests.gateway.surfaces.answers import payloads
from tests.stand_ins.triton_server import Trouble, triton_server

tokenizers = pytest.importorskip("tokenizers")

pytestmark = pytest.mark.anyio

GAP_S = 0.05


class Token(Struct, frozen=True, kw_only=True):
    id: int
    text: str | None


class Step(Struct, frozen=True, kw_only=True):
    prefill_time: float | None
    decode_time: float | None
    token: Token
    generated_text: str = ""


@asynccontextmanager
async def client(run_dir: Path, trouble: Trouble) -> AsyncGenerator[httpx.AsyncClient, None]:
    """Of a gateway whose models stream from Triton: `silent` without a tokenizer, `spelt` with."""
    async with triton_server(trouble) as server:
        tokenizer = bundled_path("tiny-chat")
        config = f"""
providers:
  - {{name: ids, adapter: triton-tokens-decoupled, base_url: "{server.base_url}"}}
  - name: spelling
    adapter: triton-tokens-decoupled
    base_url: "{server.base_url}"
    tokenizer: "{tokenizer}"
models:
  - {{name: silent, backends: [{{provider: ids, model: tensorrt_llm_streaming}}]}}
  - {{name: spelt, backends: [{{provider: spelling, model: tensorrt_llm_streaming}}]}}
  - name: both
    policy: in_order
    backends:
      - {{provider: ids, model: tensorrt_llm_streaming}}
      - {{provider: spelling, model: tensorrt_llm_streaming}}
"""
        async with serving(config, run_dir) as gateway:
            async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as asking:
                yield asking


async def ask(asking: httpx.AsyncClient, model: str, *, stream: bool = False) -> httpx.Response:
    parameters = {"max_new_tokens": 5, "details": True}
    body = {"input_id": [5, 6, 7], "stream": stream, "parameters": parameters}
    answer = await asking.post(f"/v1/models/{model}/infer_token", json=body)
    assert answer.status_code == 200, answer.text
    return answer


def spelt(ids: list[int]) -> str:
    vocabulary = tokenizers.Tokenizer.from_file(str(bundled_path("tiny-chat") / "tokenizer.json"))
    return vocabulary.decode(ids)


async def test_ids_without_text_say_so_in_a_header(tmp_path: Path) -> None:
    async with client(tmp_path, Trouble()) as asking:
        answer = await ask(asking, "silent")

    assert answer.json()["generated_text"] == ""
    assert answer.json()["details"]["generated_token_ids"] == expected_tokens(5)
    assert answer.headers["x-gateway-dropped-params"] == "answer.text"


async def test_the_providers_tokenizer_gives_them_their_text(tmp_path: Path) -> None:
    async with client(tmp_path, Trouble()) as asking:
        whole = await ask(asking, "spelt")
        either = await ask(asking, "both")

    assert whole.json()["generated_text"] == spelt(expected_tokens(5))
    assert "x-gateway-dropped-params" not in whole.headers
    assert either.headers["x-gateway-backend"] == "spelling/tensorrt_llm_streaming"


@pytest.mark.parametrize("model", ["silent", "spelt"])
async def test_times_are_measured_if_the_backend_reports_none(tmp_path: Path, model: str) -> None:
    async with client(tmp_path, Trouble(gap_s=GAP_S)) as asking:
        answer = await ask(asking, model, stream=True)

    first, *others = [msgspec.json.decode(one, type=Step) for one in payloads(answer.content)]
    assert [step.token.id for step in (first, *others)] == expected_tokens(5)
    assert first.prefill_time is not None
    assert first.decode_time is None
    gaps = [step.decode_time or 0.0 for step in others]
    assert sum(gaps) >= GAP_S * 1e3 * (len(others) - 1)
    assert first.prefill_time + sum(gaps) <= answer.elapsed.total_seconds() * 1e3


async def test_a_stream_that_takes_longer_than_its_timeout_ends_with_an_error(
    tmp_path: Path,
) -> None:
    body = {"input_id": [5, 6, 7], "stream": True, "parameters": {"timeout": 1}}
    async with client(tmp_path, Trouble(gap_s=0.4)) as asking:
        answer = await asking.post("/v1/models/silent/infer_token", json=body)

    *steps, error = payloads(answer.content)
    ids = [msgspec.json.decode(step, type=Step).token.id for step in steps]
    assert 1 <= len(ids) < 5
    assert ids == expected_tokens(5)[: len(ids)]
    assert msgspec.json.decode(error)["error_type"] == "Incomplete Generation"
    assert answer.elapsed.total_seconds() > 0.9
