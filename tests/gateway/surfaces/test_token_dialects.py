"""A client of one token dialect with a backend of the other: ids in and out, sampling kept."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack

import httpx
import msgspec
import numpy as np
import pytest

from tests.gateway.serving import Serving, serving
from tests.gateway.surfaces.kserve.triton import Array, Refused, infer
from tests.stand_ins import mindie_model, triton_models
from tests.stand_ins.mindie_server import MODEL, MindIEServer, mindie_server
from tests.stand_ins.triton_server import TritonServer, triton_server

pytestmark = pytest.mark.anyio

CONFIG = """
providers:
  - {{name: mindie, adapter: mindie, base_url: "{mindie}"}}
  - {{name: trt, adapter: triton-tokens, base_url: "{triton}"}}
  - {{name: decoupled, adapter: triton-tokens-decoupled, base_url: "{triton}"}}
models:
  - {{name: on-mindie, backends: [{{provider: mindie, model: {model}}}]}}
  - {{name: on-trt, backends: [{{provider: trt, model: tensorrt_llm}}]}}
  - {{name: on-trt-streaming, backends: [{{provider: decoupled, model: tensorrt_llm_streaming}}]}}
"""
PROMPT = [5, 6, 7, 8]
SAMPLED: Mapping[str, Array] = {
    "input_ids": np.array([PROMPT], dtype=np.int32),
    "request_output_len": np.array([[4]], dtype=np.int32),
    "temperature": np.array([0.5], dtype=np.float32),
    "runtime_top_k": np.array([10], dtype=np.int32),
    "runtime_top_p": np.array([0.95], dtype=np.float32),
    "repetition_penalty": np.array([1.03], dtype=np.float32),
    "random_seed": np.array([42], dtype=np.uint64),
    "end_id": np.array([2], dtype=np.int32),
    "pad_id": np.array([2], dtype=np.int32),
}


CONTINUED = triton_models.continuation(PROMPT, triton_models.Wanted(bound=4, seed=42))


class Between(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    gateway: Serving
    mindie: MindIEServer
    triton: TritonServer


@pytest.fixture
async def between(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Between, None]:
    async with AsyncExitStack() as stack:
        mindie = await stack.enter_async_context(mindie_server())
        triton = await stack.enter_async_context(triton_server())
        config = CONFIG.format(mindie=mindie.base_url, triton=triton.base_url, model=MODEL)
        run_dir = tmp_path_factory.mktemp("run")
        gateway = await stack.enter_async_context(serving(config, run_dir))
        yield Between(gateway=gateway, mindie=mindie, triton=triton)


async def test_a_tensorrt_client_reaches_mindie_with_its_sampling(between: Between) -> None:
    said = await asyncio.to_thread(infer, between.gateway.url, "on-mindie", SAMPLED)

    expected = [id for id, _ in mindie_model.says(PROMPT)][:4]
    assert said.tensors["output_ids"].tolist() == [expected]
    assert said.tensors["sequence_length"].tolist() == [4]
    (asked,) = between.mindie.bodies("/infer_token")
    assert asked["input_id"] == PROMPT
    parameters = asked["parameters"]
    assert isinstance(parameters, dict)
    assert parameters["max_new_tokens"] == 4
    assert parameters["temperature"] == 0.5
    assert parameters["top_k"] == 10
    assert parameters["top_p"] == pytest.approx(0.95)
    assert parameters["repetition_penalty"] == pytest.approx(1.03)
    assert parameters["seed"] == 42


async def test_a_tensor_that_mindie_cannot_serve_is_refused_by_its_name(between: Between) -> None:
    tensors = {**SAMPLED, "presence_penalty": np.array([0.5], dtype=np.float32)}

    with pytest.raises(Refused, match="presence_penalty") as caught:
        await asyncio.to_thread(infer, between.gateway.url, "on-mindie", tensors)

    assert caught.value.status == 400
    assert between.mindie.requests == []


ASKED = {
    "input_id": PROMPT,
    "parameters": {
        "temperature": 0.5,
        "top_k": 10,
        "top_p": 0.95,
        "max_new_tokens": 4,
        "do_sample": True,
        "seed": 42,
        "repetition_penalty": 1.03,
        "details": True,
        "typical_p": 0.5,
        "watermark": False,
        "priority": 5,
        "timeout": 10,
    },
}


async def test_a_mindie_client_reaches_tensorrt_with_its_sampling(between: Between) -> None:
    async with httpx.AsyncClient(base_url=between.gateway.url, timeout=60) as client:
        answer = await client.post("/v1/models/on-trt/infer_token", json=ASKED)

    assert answer.status_code == 200, answer.text
    details = answer.json()["details"]
    assert details["generated_token_ids"] == CONTINUED
    assert details["generated_tokens"] == 4
    assert details["finish_reason"] == "length"
    assert answer.headers["x-gateway-dropped-params"] == ("parameters.typical_p, answer.text")
    (asked,) = between.triton.inferences
    sent = {name: values.items for name, values in asked.tensors.items()}
    assert sent["input_ids"] == PROMPT
    assert sent["request_output_len"] == [4]
    assert sent["runtime_top_k"] == [10]
    assert sent["temperature"] == [0.5]
    assert sent["runtime_top_p"] == [pytest.approx(0.95)]
    assert sent["repetition_penalty"] == [pytest.approx(1.03)]
    assert sent["seed"] == [42]


async def test_a_mindie_client_streams_from_tensorrt(between: Between) -> None:
    body = {**ASKED, "stream": True}
    async with httpx.AsyncClient(base_url=between.gateway.url, timeout=60) as client:
        answer = await client.post("/v1/models/on-trt-streaming/infer_token", json=body)

    frames = [
        msgspec.json.decode(line.removeprefix("data: "), type=dict[str, msgspec.Raw])
        for line in answer.text.splitlines()
        if line
    ]
    token = msgspec.json.Decoder(dict[str, msgspec.Raw])
    ids = [msgspec.json.decode(token.decode(one["token"])["id"], type=int) for one in frames]
    assert ids == CONTINUED
    assert "generated_text" in frames[-1]
