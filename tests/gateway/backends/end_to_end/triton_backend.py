"""A gateway in front of the fake Triton server, and requests of its clients."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
from msgspec import Struct

from tests.gateway.serving import Serving, serving
from tests.stand_ins.triton_models import END_ID, Wanted, continuation, ids_of, text_of
from tests.stand_ins.triton_server import NONE, TritonServer, Trouble, triton_server

TOKENIZER = Path(__file__).parents[4] / "local_engine" / "bundled" / "tiny-chat" / "tokenizer.json"
"""Its ids reach further than those of the server's models."""

PROMPT = "why is the sky blue"


class Pair(Struct, frozen=True, kw_only=True, eq=False):
    """A gateway and the server behind it."""

    gateway: Serving
    server: TritonServer

    async def post(self, path: str, body: object) -> httpx.Response:
        async with httpx.AsyncClient(timeout=60) as client:
            return await client.post(f"{self.gateway.url}{path}", json=body, timeout=60)

    async def text(self, model: str = "text", **more: object) -> httpx.Response:
        body = {"model": model, "prompt": PROMPT, "max_tokens": 8, **more}
        return await self.post("/v1/completions", body)

    async def tokens(
        self, model: str = "tokens", *, stream: bool = False, **parameters: object
    ) -> httpx.Response:
        """As MindIE's clients ask."""
        body = {"input_id": [5, 6, 7], "stream": stream, "parameters": parameters}
        return await self.post(f"/v1/models/{model}/infer_token", body)


def configured(base_url: str, defaults: str = "") -> str:
    timeouts = "{connect_s: 20, first_token_s: 2, between_tokens_s: 2, total_s: 10}"
    retry = "{backoff_s: 0.01, max_backoff_s: 0.05, attempts: 1}"
    return f"""
providers:
  - {{name: trt, adapter: triton, base_url: "{base_url}", timeouts: {timeouts}}}
  - {{name: ids, adapter: triton-tokens, base_url: "{base_url}", timeouts: {timeouts}}}
  - {{name: live, adapter: triton-tokens-decoupled, base_url: "{base_url}", timeouts: {timeouts}}}
  - name: spelt
    adapter: triton-tokens
    base_url: "{base_url}"
    tokenizer: {TOKENIZER}
    timeouts: {timeouts}
  - {{name: llm, adapter: triton-llmapi, base_url: "{base_url}", timeouts: {timeouts}}}
models:
  - {{name: spelt, retry: {retry}, backends: [{{provider: spelt, model: tensorrt_llm}}]}}
  - {{name: llm, retry: {retry}, backends: [{{provider: llm, model: llmapi}}]}}
  - {{name: text, retry: {retry}, backends: [{{provider: trt, model: ensemble}}]{defaults}}}
  - {{name: bls, retry: {retry}, backends: [{{provider: trt, model: tensorrt_llm_bls}}]}}
  - {{name: tokens, retry: {retry}, backends: [{{provider: ids, model: tensorrt_llm}}]}}
  - {{name: live, retry: {retry}, backends: [{{provider: live, model: tensorrt_llm_streaming}}]}}
  - name: either
    retry: {retry}
    backends:
      - {{provider: trt, model: ensemble}}
      - {{provider: ids, model: tensorrt_llm}}
"""


@asynccontextmanager
async def pair(
    run_dir: Path, trouble: Trouble = NONE, *, defaults: str = "", more: str = ""
) -> AsyncGenerator[Pair, None]:
    """more: further sections of the configuration."""
    async with triton_server(trouble) as server:
        async with serving(configured(server.base_url, defaults) + more, run_dir) as gateway:
            yield Pair(gateway=gateway, server=server)


def expected(bound: int = 8, seed: int = 0) -> list[int]:
    """What the text models generate after PROMPT."""
    return continuation(ids_of(PROMPT), Wanted(bound=bound, seed=seed, end_id=END_ID))


def expected_text(bound: int = 8, seed: int = 0) -> str:
    return text_of(expected(bound, seed))


def expected_tokens(bound: int, seed: int = 0, end_id: int = -1) -> list[int]:
    """What the raw-tensor models generate after [5, 6, 7]."""
    return continuation([5, 6, 7], Wanted(bound=bound, seed=seed, end_id=end_id))


def data_of(response: httpx.Response) -> list[str]:
    """The data of a stream's frames, in order."""
    lines = response.text.split("\n")
    return [line.removeprefix("data:").strip() for line in lines if line.startswith("data:")]


def streamed_text(response: httpx.Response) -> str:
    chunks = [json.loads(one) for one in data_of(response) if one != "[DONE]"]
    return "".join(choice["text"] for chunk in chunks for choice in chunk.get("choices", ()))
