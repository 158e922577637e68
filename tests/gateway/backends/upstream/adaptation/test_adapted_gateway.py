"""Token requests reach text servers and the reverse, through a whole gateway."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import msgspec
import numpy as np
import pytest
from msgspec import Struct

pytest.importorskip("tokenizers")
pytest.importorskip("jinja2")

from tritonclient import http as _http

from strowger_gateway.gateway.backends.upstream.adaptation.tokenizer import load_tokenizer
from tests.gateway.backends.end_to_end.mindie_backend import pair as mindie_pair
from tests.gateway.backends.upstream.adaptation.vocabularies import TINY
from tests.gateway.serving import Serving, serving
from tests.gateway.surfaces.kserve import triton
from tests.stand_ins.mindie_model import END_ID as MINDIE_END
from tests.stand_ins.mindie_model import saying, says, text_of
from tests.stand_ins.provider import Answer, Provider, Received, provider
from tests.stand_ins.triton_models import Wanted, continuation
from tests.stand_ins.triton_server import TritonServer, triton_server

# tritonclient sets up gevent when it is imported, before any event loop runs here.
assert _http.InferenceServerClient

pytestmark = pytest.mark.anyio

TOKENIZER = load_tokenizer(TINY)
ROOT = Path(__file__).parents[5]
WORDS = (
    " The", " quick", " brown", " fox", " doesn't", " mind.",
    "\n\nNaïve", " 你好，世界", " 🎉!",
)  # fmt: skip
TEXT = "".join(WORDS)
HELLO = [{"role": "user", "content": "Hello"}]
RENDERED = "<|user|>Hello<|end|><|assistant|>"
"""What tiny-chat's template makes of HELLO; the begin token is left to the server."""


class Both(Struct, frozen=True, kw_only=True, eq=False):
    """A gateway, and the server behind it."""

    gateway: Serving
    remote: Provider
    triton: TritonServer | None = None

    async def post(self, path: str, **body: object) -> httpx.Response:
        async with httpx.AsyncClient(timeout=60) as client:
            return await client.post(f"{self.gateway.url}{path}", json=body, timeout=60)

    async def tokens(
        self, text: str = "Hello world", *, stream: bool = False, **parameters: object
    ) -> httpx.Response:
        """As MindIE's clients ask."""
        ids = list(TOKENIZER.encode(text))
        return await self.post("/infer_token", input_id=ids, stream=stream, parameters=parameters)


def configured(adapter: str, url: str, model: str, *, tokenizer: bool = True) -> str:
    spelt = f"tokenizer: {TINY / 'tokenizer.json'}" if tokenizer else ""
    return f"""
providers:
  - name: far
    adapter: {adapter}
    base_url: {url}
    timeouts: {{connect_s: 20, first_token_s: 5, between_tokens_s: 5, total_s: 20}}
    {spelt}
models:
  - {{name: chat, retry: {{attempts: 1}}, backends: [{{provider: far, model: {model}}}]}}
"""


async def completes(request: Received, answer: Answer) -> None:
    """A server of OpenAI's completions, whole or streamed, that always says TEXT."""
    usage = {"prompt_tokens": 4, "completion_tokens": 9, "total_tokens": 13}
    head = {"id": "c", "object": "text_completion", "created": 1, "model": "m"}
    if not request.json.get("stream"):
        choice = {"index": 0, "text": TEXT, "finish_reason": "stop", "logprobs": None}
        await answer.json({**head, "choices": [choice], "usage": usage})
        return
    await answer.begin_stream()
    for word in WORDS:
        choice = {"index": 0, "text": word, "finish_reason": None}
        await answer.event({**head, "choices": [choice]})
        await asyncio.sleep(0.002)
    choice = {"index": 0, "text": "", "finish_reason": "stop"}
    await answer.event({**head, "choices": [choice]})
    await answer.event({**head, "choices": [], "usage": usage})
    await answer.end_stream(None)


async def stalls(request: Received, answer: Answer) -> None:
    """The beginning of an answer, and then nothing until the client leaves."""
    await answer.begin_stream()
    for word in WORDS[:3]:
        choice = {"index": 0, "text": word, "finish_reason": None}
        await answer.event({"id": "c", "created": 1, "model": "m", "choices": [choice]})
    await answer.gone.wait()


@asynccontextmanager
async def completions(
    run_dir: Path, *, stalling: bool = False, tokenizer: bool = True
) -> AsyncGenerator[Both, None]:
    async with provider(stalls if stalling else completes) as remote:
        config = configured("openai", remote.base_url, "m", tokenizer=tokenizer)
        async with serving(config, run_dir) as gateway:
            yield Both(gateway=gateway, remote=remote)


@asynccontextmanager
async def tensorrt(run_dir: Path, adapter: str, model: str) -> AsyncGenerator[Both, None]:
    async with triton_server() as server:
        async with serving(configured(adapter, server.base_url, model), run_dir) as gateway:
            yield Both(gateway=gateway, remote=server.provider, triton=server)


class Token(Struct, frozen=True, kw_only=True):
    id: int | list[int]


class Details(Struct, frozen=True, kw_only=True):
    finish_reason: str
    generated_token_ids: list[int] = []


class Frame(Struct, frozen=True, kw_only=True):
    """MindIE's: a whole answer has no token."""

    token: Token = Token(id=[])
    prefill_time: float | None = None
    decode_time: float | None = None
    generated_text: str | None = None
    details: Details | None = None

    @property
    def ids(self) -> list[int]:
        return [self.token.id] if isinstance(self.token.id, int) else self.token.id


def data_of(response: httpx.Response) -> list[str]:
    """The data of a stream's frames, or the whole answer."""
    lines = [line.removeprefix("data:").strip() for line in response.text.splitlines()]
    return [line for line in lines if line and line != "[DONE]"]


def frames(response: httpx.Response) -> list[Frame]:
    return [msgspec.json.decode(line, type=Frame) for line in data_of(response)]


@pytest.mark.parametrize("stream", [False, True])
async def test_mindies_client_reaches_a_server_of_completions(tmp_path: Path, stream: bool) -> None:
    async with completions(tmp_path) as both:
        answer = await both.tokens(stream=stream, details=True, max_new_tokens=30, seed=5)

    last = frames(answer)[-1]
    sent = both.remote.requests[0].json
    assert last.generated_text == TEXT
    assert last.details is not None
    assert last.details.finish_reason == "eos_token"
    assert sent["prompt"] == list(TOKENIZER.encode("Hello world"))
    assert (sent["max_tokens"], sent["seed"]) == (30, 5)
    if not stream:
        assert TOKENIZER.decode(last.details.generated_token_ids) == TEXT


async def test_a_streamed_answer_has_a_frame_for_each_token_with_its_measured_time(
    tmp_path: Path,
) -> None:
    async with completions(tmp_path) as both:
        answer = await both.tokens(stream=True, max_new_tokens=60)

    streamed = frames(answer)
    times = [frame.prefill_time or frame.decode_time or 0.0 for frame in streamed]
    assert TOKENIZER.decode([id for frame in streamed for id in frame.ids]) == TEXT
    assert all(len(frame.ids) <= 1 for frame in streamed)
    assert sum(times) >= 14


async def test_tritons_client_reaches_a_server_of_completions(tmp_path: Path) -> None:
    tensors = {
        "input_ids": np.array([TOKENIZER.encode("Hello world")], dtype=np.int32),
        "request_output_len": np.array([[40]], dtype=np.int32),
        "end_id": np.array([[TOKENIZER.end]], dtype=np.int32),
        "pad_id": np.array([[0]], dtype=np.int32),
        "runtime_top_k": np.array([[5]], dtype=np.int32),
    }
    async with completions(tmp_path) as both:
        answer = await asyncio.to_thread(triton.infer, both.gateway.url, "chat", tensors)

    ids = answer.tensors["output_ids"].flatten().tolist()
    assert TOKENIZER.decode(ids) == TEXT
    assert both.remote.requests[0].json["top_k"] == 5
    assert {"end_id", "pad_id", "stop_token_ids"}.isdisjoint(both.remote.requests[0].json)


async def test_a_stop_sequence_of_tokens_ends_an_answer_of_text_and_its_connection(
    tmp_path: Path,
) -> None:
    word = TOKENIZER.encode(" quick", special=False)
    offsets = [len(word), *(-1 for _ in word[1:])]
    tensors = {
        "input_ids": np.array([TOKENIZER.encode("Hello world")], dtype=np.int32),
        "request_output_len": np.array([[40]], dtype=np.int32),
        "stop_words_list": np.array([[word, offsets]], dtype=np.int32),
    }
    async with completions(tmp_path, stalling=True) as both:
        answer = await asyncio.to_thread(triton.infer, both.gateway.url, "chat", tensors)
        await both.remote.until(lambda: both.remote.hung_up == 1)

    ids = answer.tensors["output_ids"].flatten().tolist()
    assert TOKENIZER.decode(ids) == " The quick"


async def test_a_client_that_disconnects_closes_the_servers_connection(tmp_path: Path) -> None:
    async with completions(tmp_path, stalling=True) as both:
        asking = asyncio.create_task(both.tokens(stream=True))
        await both.remote.until(lambda: len(both.remote.requests) == 1)
        asking.cancel()

        await both.remote.until(lambda: both.remote.hung_up == 1 and both.remote.open == 0)


async def test_openais_client_converses_with_a_text_model_of_tensorrt_llm(tmp_path: Path) -> None:
    async with tensorrt(tmp_path, "triton", "ensemble") as both:
        answer = await both.post(
            "/v1/chat/completions", model="chat", messages=HELLO, max_tokens=8, seed=3
        )

    assert both.triton is not None
    (asked,) = both.triton.inferences
    assert asked.tensors["text_input"].items == [RENDERED]
    assert asked.tensors["seed"].items == [3]
    assert answer.json()["choices"][0]["message"]["content"]


async def test_mindies_client_reaches_a_text_model_of_tensorrt_llm(tmp_path: Path) -> None:
    async with tensorrt(tmp_path, "triton", "ensemble") as both:
        answer = await both.tokens(details=True, max_new_tokens=6)

    assert both.triton is not None
    assert both.triton.inferences[0].tensors["text_input"].items == ["Hello world"]
    body = answer.json()
    assert TOKENIZER.decode(body["details"]["generated_token_ids"]) == body["generated_text"]


async def test_tokens_that_are_not_text_of_the_model_are_refused(tmp_path: Path) -> None:
    async with tensorrt(tmp_path, "triton", "ensemble") as both:
        answer = await both.post("/infer_token", input_id=[5, 300, 301], parameters={})

    assert both.triton is not None
    assert answer.status_code == 400
    assert "would become" in answer.json()["error"]
    assert both.triton.inferences == []


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("adapter", "model"),
    [
        ("triton-tokens", "tensorrt_llm"),
        ("triton-tokens-decoupled", "tensorrt_llm_streaming"),
    ],
)
async def test_openais_client_converses_with_tensorrt_llms_raw_tensors(
    tmp_path: Path, adapter: str, model: str, stream: bool
) -> None:
    ids = list(TOKENIZER.encode(f"<|bos|>{RENDERED}", special=False))
    said = continuation(ids, Wanted(bound=9, end_id=2))

    async with tensorrt(tmp_path, adapter, model) as both:
        answer = await both.post(
            "/v1/chat/completions", model="chat", messages=HELLO, max_tokens=9, stream=stream
        )

    if stream:
        text = "".join(spoken(json.loads(line)) for line in data_of(answer))
    else:
        text = answer.json()["choices"][0]["message"]["content"]
    assert both.triton is not None
    tensors = both.triton.inferences[0].tensors
    assert tensors["input_ids"].items == ids
    assert tensors["end_id"].items == [TOKENIZER.end]
    assert text == TOKENIZER.decode(said)


@pytest.mark.parametrize("room", [0, -1])
async def test_a_conversation_is_refused_exactly_when_its_tokens_exceed_the_context(
    tmp_path: Path, room: int
) -> None:
    count = len(TOKENIZER.encode(f"<|bos|>{RENDERED}", special=False))
    limit = f"capabilities: [{{match: far/*, context: {count + room}}}]\n"
    async with triton_server() as server:
        config = configured("triton-tokens", server.base_url, "tensorrt_llm") + limit
        async with serving(config, tmp_path) as gateway:
            both = Both(gateway=gateway, remote=server.provider, triton=server)
            answer = await both.post(
                "/v1/chat/completions", model="chat", messages=HELLO, max_tokens=1
            )

    if room == 0:
        assert answer.status_code == 200
        assert len(server.inferences) == 1
    else:
        error = answer.json()["error"]
        assert (answer.status_code, error["code"]) == (400, "context_length_exceeded")
        assert (error["param"], server.inferences) == ("messages", [])
        assert f"context length is {count - 1} tokens, and the prompt has {count}" in answer.text


def spoken(chunk: dict[str, list[dict[str, dict[str, str]]]]) -> str:
    return "".join(choice["delta"].get("content") or "" for choice in chunk["choices"])


async def test_a_completion_is_cut_at_its_stop_string_in_tensorrt_llms_raw_tensors(
    tmp_path: Path,
) -> None:
    ids = TOKENIZER.encode("Hello")
    whole = TOKENIZER.decode(continuation(ids, Wanted(bound=9, end_id=2)))
    stop = whole[1:3]
    assert len(stop) == 2

    async with tensorrt(tmp_path, "triton-tokens", "tensorrt_llm") as both:
        answer = await both.post(
            "/v1/completions", model="chat", prompt="Hello", max_tokens=9, stop=stop
        )

    choice = answer.json()["choices"][0]
    assert choice["text"] == whole[: whole.index(stop)]
    assert (choice["finish_reason"], choice["stop_reason"]) == ("stop", stop)


async def test_stop_tokens_end_the_answers_of_mindie_which_knows_none(tmp_path: Path) -> None:
    said = says([5, 6, 7])
    stop = said[2][0]
    tensors = {
        "input_ids": np.array([[5, 6, 7]], dtype=np.int32),
        "request_output_len": np.array([[20]], dtype=np.int32),
        "stop_words_list": np.array([[[stop], [1]]], dtype=np.int32),
        "end_id": np.array([[MINDIE_END]], dtype=np.int32),
    }
    async with mindie_pair(tmp_path, gap_s=0.05) as here:
        answer = await asyncio.to_thread(triton.infer, here.gateway.url, "chat", tensors)

        assert answer.tensors["output_ids"].flatten().tolist() == [id for id, _ in said[:3]]
        (sent,) = here.server.bodies("/infer_token")
        assert sent["parameters"] == {"details": True, "max_new_tokens": 20, "do_sample": False}
        await here.server.raw.until(lambda: here.server.left == 1)


async def test_several_prompts_and_choices_reach_mindie_which_takes_one(tmp_path: Path) -> None:
    prompts = ["one", "two words", "three more words"]
    async with mindie_pair(tmp_path) as here:
        alone = [
            (await here.text(prompt=prompt)).json()["choices"][0]["text"] for prompt in prompts
        ]

        answer = (await here.text(prompt=prompts, n=2)).json()

    assert [one["index"] for one in answer["choices"]] == list(range(6))
    assert [one["text"] for one in answer["choices"]] == [text for text in alone for _ in range(2)]
    asked = here.server.bodies("/generate")[3:]
    assert len({json.dumps(one["parameters"]) for one in asked}) == 2


async def test_the_error_for_a_prompt_of_tokens_names_the_missing_tokenizer(tmp_path: Path) -> None:
    async with completions(tmp_path, tokenizer=False) as both:
        answer = await both.tokens()

    assert answer.status_code == 400
    assert "this backend reads text; configure a tokenizer" in answer.json()["error"]
    assert both.remote.requests == []


async def test_mindies_own_text_is_what_its_client_gets(tmp_path: Path) -> None:
    async with mindie_pair(tmp_path, provider_more=f"    tokenizer: {TINY}") as here:
        answer = await here.tokens(details=True)

    assert answer.json()["generated_text"] == text_of(says([5, 6, 7]))


LONG = [(100 + place, " on") for place in range(200)]


async def test_a_client_that_disconnects_closes_every_call_for_several_prompts(
    tmp_path: Path,
) -> None:
    body = {"model": "chat", "prompt": ["a", "b", "c"], "stream": True}
    async with mindie_pair(tmp_path, gap_s=0.2, speaker=saying(*LONG)) as here:
        await here.hang_up("/v1/completions", body, b"text", asked=3)

        await here.server.raw.until(lambda: here.server.left == 3)


@pytest.mark.parametrize("path", ["/v1/models/chat/infer_token", "/v1/completions"])
async def test_bare_prompts_to_a_server_that_only_converses_are_refused_with_the_reason(
    tmp_path: Path, path: str
) -> None:
    body: dict[str, object] = {"model": "chat", "prompt": "a"}
    if "infer" in path:
        body = {"input_id": [1, 2]}
    async with provider() as remote:
        config = configured("deepseek", remote.base_url, "m")
        async with serving(config, tmp_path) as gateway:
            both = Both(gateway=gateway, remote=remote)
            answer = await both.post(path, **body)

    assert answer.status_code == 400
    assert "this backend accepts conversations, not bare prompts" in answer.text
    assert remote.requests == []


def test_a_tokenizer_without_its_packages_is_a_fault_of_the_configuration() -> None:
    program = (
        "import sys; sys.modules['tokenizers'] = sys.modules['jinja2'] = None\n"
        "from strowger_gateway.gateway.config.load import read_config\n"
        f"read_config({configured('openai', 'http://localhost', 'm')!r}, source='c', env={{}})"
    )

    result = subprocess.run(
        [sys.executable, "-c", program], check=False, capture_output=True, text=True, cwd=ROOT
    )

    assert (
        "c:7:5: providers[0].tokenizer: needs the packages tokenizers and jinja2; "
        "pip install 'strowger-gateway[tokens]'"
    ) in result.stderr
