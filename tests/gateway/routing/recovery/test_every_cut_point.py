"""Every recorded stream, cut before each of its frames: the next backend completes the answer.

Each run of the tests cuts each stream at up to FEW places, `make nightly-tests` at all.
"""

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from strowger_gateway.adapters.conformance.recordings import Recording, request_for
from strowger_gateway.schemas.requests import ChatRequest, CompletionRequest
from tests.adapters.conformance.test_contract import recorded
from tests.gateway.routing.recovery.continuing import ask, beginning, say
from tests.gateway.serving import serving
from tests.stand_ins.provider import Answer, Received, provider

pytestmark = pytest.mark.anyio

ADAPTERS = (
    "openai",
    "vllm",
    "sglang",
    "mistral",
    "deepseek",
    "anthropic",
    "cohere",
    "databricks",
    "gemini",
    "groq",
    "together",
    "openrouter",
    "ollama",
    "tgi",
    "mindie",
    "triton",
    "triton-llmapi",
)
END = re.compile(rb"\r?\n\r?\n")
FEW = 4


def streams(adapter: str) -> Iterator[Recording]:
    """The recorded answers of one choice that are complete."""
    for one in recorded(adapter):
        request = request_for(one)
        if one.status != 200 or not one.streamed or "error" in one.name or one.task == "tokens":
            continue
        if isinstance(request, ChatRequest | CompletionRequest) and (request.sampling.n or 1) == 1:
            yield one


CASES = [
    pytest.param(adapter, one, id=f"{adapter}-{one.name}")
    for adapter in ADAPTERS
    for one in streams(adapter)
]


def cuts(body: bytes, most: int) -> list[int]:
    """Where frames end, and in the middle of each; with more than `most`, evenly chosen ones.

    They are an odd number of places apart, so that there are some of both.
    """
    ends = [found.end() for found in END.finditer(body)]
    ends = ends or [at + 1 for at, byte in enumerate(body) if byte == 0x0A]
    middles = [(one + other) // 2 for one, other in pairwise([0, *ends])]
    places = sorted([*ends[:-1], *middles])
    return places[:: -(-len(places) // most) | 1]


class Staged:
    """What the first backend sends of its answer, and the whole text, which the second continues.

    complete: the first's body ends as HTTP wants it; otherwise its connection closes.
    """

    def __init__(self) -> None:
        self.body = b""
        self.complete = True
        self.whole = ""

    async def behave(self, request: Received, answer: Answer) -> None:
        if not request.path.startswith("/first"):
            begun = beginning(request)
            assert self.whole.startswith(begun)
            await say(request, answer, list(self.whole[len(begun) :]))
            return
        await answer.begin_stream()
        if self.body:
            await answer.chunk(self.body)
        if self.complete:
            await answer.raw(b"0\r\n\r\n")
        else:
            answer.close()


def config(adapter: str, url: str) -> str:
    return f"""
providers:
  - {{name: first, adapter: {adapter}, base_url: {url}/first, api_key: k}}
  - {{name: second, adapter: vllm, base_url: {url}/second/v1, api_key: k}}
models:
  - name: chat
    policy: in_order
    stream_recovery: continue
    on_unsupported: drop
    breaker: {{min_requests: 100000}}
    retry: {{attempts: 2, backoff_s: 0, max_backoff_s: 0}}
    backends: [{{provider: first, model: m}}, {{provider: second, model: m}}]
"""


@pytest.mark.parametrize(("adapter", "recording"), CASES)
@pytest.mark.parametrize(
    "most",
    [pytest.param(FEW, id="few"), pytest.param(100_000, id="all", marks=pytest.mark.nightly)],
)
async def test_the_text_is_that_of_the_uncut_stream(
    tmp_path: Path, adapter: str, recording: Recording, most: int
) -> None:
    staged, path = Staged(), "/v1/chat/completions"
    if isinstance(request_for(recording), CompletionRequest):
        path = "/v1/completions"
    async with (
        provider(staged.behave) as remote,
        serving(config(adapter, remote.origin), tmp_path) as gateway,
    ):
        staged.body = recording.body
        uncut = await ask(gateway.url, path, max_tokens=5000)
        staged.whole, staged.complete = uncut.text, False
        for cut in cuts(recording.body, most):
            staged.body = recording.body[:cut]
            got = await ask(gateway.url, path, max_tokens=5000)
            if got.others or (got.error and "thinking" in recording.name):
                # Reasoning and calls of tools are not continued, whether the client sees them.
                assert uncut.text.startswith(got.text)
            else:
                assert (got.text, got.error, got.roles) == (uncut.text, "", uncut.roles)
                assert got.finish
