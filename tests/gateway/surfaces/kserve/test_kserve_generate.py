"""generate and generate_stream over the wire, in front of a real engine and of a remote backend.

https://github.com/triton-inference-server/server/blob/main/docs/protocol/extension_generate.md
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import cast

import httpx
import numpy as np
import pytest

from tests.gateway.serving import serving
from tests.gateway.shared_engine import SharedEngine
from tests.gateway.surfaces.kserve.triton import Array, infer
from tests.gateway.surfaces.kserve.triton_requests import INPUT_IDS
from tests.stand_ins.provider import Answer, Provider, Received, provider

pytest.importorskip("torch")

pytestmark = pytest.mark.anyio

CONFIG = """
providers:
  - {{name: remote, adapter: openai, base_url: {url}, api_key: k}}
  - {here}
models:
  - {{name: org/tiny, backends: [{{provider: here, model: tiny}}]}}
  - {{name: far, retry: {{attempts: 1}}, backends: [{{provider: remote, model: m}}]}}
"""
QUESTION = "What is 17 + 25?"
ASKED: dict[str, object] = {"text_input": QUESTION, "max_tokens": 6}


@pytest.fixture(scope="module")
async def both(
    tmp_path_factory: pytest.TempPathFactory, engine: SharedEngine
) -> AsyncGenerator[tuple[Provider, httpx.AsyncClient], None]:
    run_dir: Path = tmp_path_factory.mktemp("run")
    async with AsyncExitStack() as stack:
        remote = await stack.enter_async_context(provider())
        config = CONFIG.format(url=remote.base_url, here=engine.provider)
        gateway = await stack.enter_async_context(serving(config, run_dir, engine=engine))
        client = httpx.AsyncClient(base_url=f"{gateway.url}/v2/models", timeout=60)
        yield remote, await stack.enter_async_context(client)


@pytest.fixture(scope="module")
def ask(both: tuple[Provider, httpx.AsyncClient]) -> httpx.AsyncClient:
    return both[1]


async def whole(ask: httpx.AsyncClient, body: Mapping[str, object]) -> dict[str, object]:
    answer = await ask.post("/org/tiny/generate", json=body)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/json"
    return answer.json()


async def frames(ask: httpx.AsyncClient, body: Mapping[str, object]) -> list[dict[str, object]]:
    answer = await ask.post("/org/tiny/generate_stream", json=body)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    found = answer.text.split("\n\n")
    assert found.pop() == ""
    return [json.loads(frame.removeprefix("data: ")) for frame in found]


async def test_text_in_gives_text_out(ask: httpx.AsyncClient) -> None:
    found = await whole(ask, ASKED)
    versioned = await ask.post("/org/tiny/versions/1/generate", json=ASKED)

    assert found["model_name"] == "org/tiny"
    assert found["model_version"] == "1"
    assert found == versioned.json()
    assert isinstance(found["text_output"], str)
    assert found["text_output"]


async def test_tokens_in_give_tokens_out_and_the_text_that_the_same_prompt_gives(
    ask: httpx.AsyncClient,
) -> None:
    text = await whole(ask, ASKED)

    found = await whole(ask, {"input_ids": INPUT_IDS, "max_tokens": 6})

    assert found["text_output"] == text["text_output"]
    assert found["sequence_length"] == 6
    assert len(cast("list[int]", found["output_ids"])) == 6


async def test_a_stream_brings_the_same_text_in_pieces(ask: httpx.AsyncClient) -> None:
    text = (await whole(ask, ASKED))["text_output"]

    pieces = await frames(ask, {**ASKED, "stream": True})
    one = await frames(ask, {**ASKED, "stream": False})

    assert "".join(str(piece["text_output"]) for piece in pieces) == text
    assert len(pieces) > 1
    assert [frame["text_output"] for frame in one] == [text]


async def test_tokens_stream_one_by_one(ask: httpx.AsyncClient) -> None:
    asked = {"input_ids": INPUT_IDS, "max_tokens": 6}
    found = await whole(ask, asked)

    pieces = await frames(ask, {**asked, "stream": True, "return_log_probs": True})

    assert [piece["output_ids"] for piece in pieces] == found["output_ids"]
    assert {piece["sequence_length"] for piece in pieces} == {1}
    assert all(isinstance(piece["output_log_probs"], float) for piece in pieces)


async def test_stop_words_and_bad_words_are_strings(ask: httpx.AsyncClient) -> None:
    text = str((await whole(ask, ASKED))["text_output"])
    words = text.split()

    stopped = await whole(ask, {**ASKED, "stop_words": [words[1]]})
    without = await whole(ask, {**ASKED, "bad_words": [words[1]]})

    assert str(stopped["text_output"]) == text[: text.index(words[1])]
    assert words[1] not in str(without["text_output"]).split()[1:2]


async def test_beams_and_sequences(ask: httpx.AsyncClient) -> None:
    beams = await whole(ask, {**ASKED, "beam_width": 3, "return_log_probs": True})
    hot = {**ASKED, "temperature": 30.0, "top_k": 500, "num_return_sequences": 2}
    several = await frames(ask, {**hot, "stream": True})

    assert len(cast("list[str]", beams["text_output"])) == 3
    assert {frame["sequence_index"] for frame in several} == {0, 1}


async def test_counts_and_the_prompt_come_back_on_request(ask: httpx.AsyncClient) -> None:
    text = (await whole(ask, ASKED))["text_output"]
    counts = {"return_num_input_tokens": True, "return_num_output_tokens": True}

    found = await whole(ask, {**ASKED, **counts, "exclude_input_in_output": False, "id": "9"})
    streamed = await frames(ask, {**ASKED, **counts, "stream": True})

    assert found["text_output"] == f"{QUESTION}{text}"
    for one in (found, streamed[-1]):
        assert (one["num_input_tokens"], one["num_output_tokens"]) == (len(INPUT_IDS), 6)
    assert found["id"] == "9"


@pytest.mark.parametrize("binary", [True, False], ids=["binary", "json"])
async def test_infer_takes_text_as_the_ensemble_does(ask: httpx.AsyncClient, binary: bool) -> None:
    """tensorrtllm_backend's own client for the ensemble sends these, with a batch of one."""
    text = (await whole(ask, ASKED))["text_output"]
    tensors: dict[str, Array] = {
        "text_input": np.array([[QUESTION]], dtype=np.object_),
        "max_tokens": np.array([[6]], dtype=np.int32),
        "bad_words": np.array([[""]], dtype=np.object_),
        "stop_words": np.array([[""]], dtype=np.object_),
        "stream": np.array([[False]]),
        "beam_width": np.array([[2]], dtype=np.int32),
        "min_length": np.array([[6]], dtype=np.int32),
        "return_log_probs": np.array([[True]]),
        "return_num_output_tokens": np.array([[True]]),
    }
    url = str(ask.base_url).removesuffix("/v2/models/")

    answer = await asyncio.to_thread(infer, url, "org/tiny", tensors, binary=binary)

    texts = [
        one.decode() if isinstance(one, bytes) else one for one in answer.tensors["text_output"]
    ]
    assert texts[0] == text
    assert len(texts) == 2
    assert answer.tensors["cum_log_probs"].shape == (1, 2)
    assert answer.tensors["output_log_probs"].shape == (1, 2, 6)
    assert answer.tensors["num_output_tokens"].tolist() == [12]


@pytest.mark.parametrize(
    ("path", "body", "status", "said"),
    [
        ("/org/tiny/generate", {"text_input": "a"}, 400, "max_tokens is required"),
        ("/org/tiny/generate", {**ASKED, "stream": True}, 400, "generate_stream"),
        ("/org/tiny/generate_stream", {**ASKED, "top_k": "x"}, 400, "top_k must be an integer"),
        ("/org/tiny/generate", {"input_ids": [9999], "max_tokens": 1}, 400, "token 9999 must be"),
        ("/other/generate", ASKED, 404, "model 'other' not found"),
        ("/org/tiny/versions/2/generate", ASKED, 404, "model 'org/tiny/versions/2' not found"),
    ],
)
async def test_errors_before_output_have_a_status_and_tritons_envelope(
    ask: httpx.AsyncClient, path: str, body: Mapping[str, object], status: int, said: str
) -> None:
    answer = await ask.post(path, json=body)

    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/json"
    assert list(answer.json()) == ["error"]
    assert said in answer.json()["error"]


async def test_a_failure_after_output_is_an_error_frame(
    both: tuple[Provider, httpx.AsyncClient],
) -> None:
    remote, ask = both

    async def broken(request: Received, answer: Answer) -> None:
        await answer.begin_stream()
        await answer.event({"id": "c", "choices": [{"index": 0, "text": "so far"}]})
        answer.close()

    remote.behaviour = broken
    answer = await ask.post("/far/generate_stream", json={**ASKED, "stream": True})

    first, last = [
        json.loads(frame.removeprefix("data: ")) for frame in answer.text.split("\n\n") if frame
    ]
    assert answer.status_code == 200
    assert first["text_output"] == "so far"
    assert list(last) == ["error"]
    assert last["error"].startswith("remote: ")


async def test_tensors_that_a_remote_text_backend_cannot_serve_are_refused_by_name(
    both: tuple[Provider, httpx.AsyncClient],
) -> None:
    _, ask = both
    tensors = [
        {"name": "request_output_len", "shape": [1, 1], "datatype": "INT32", "data": [4]},
        {"name": "input_ids", "shape": [1, 1], "datatype": "INT32", "data": [5]},
    ]

    answer = await ask.post("/far/infer", json={"inputs": tensors})

    assert answer.status_code == 400
    assert answer.json()["error"].startswith("remote/m: ")
