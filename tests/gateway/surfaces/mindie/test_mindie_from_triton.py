"""A TensorRT-LLM client (Triton's own) reaches a MindIE server with tokens in and out."""

import asyncio
from pathlib import Path

import numpy as np
import pytest
from tritonclient import http as _http

from tests.gateway.backends.end_to_end.mindie_backend import pair
from tests.gateway.surfaces.kserve import triton
from tests.stand_ins.mindie_model import says
from tests.stand_ins.mindie_server import Abort

# tritonclient sets up gevent when it is imported, before any event loop runs here.
assert _http.InferenceServerClient

pytestmark = pytest.mark.anyio

IDS = [one for one, _ in says([5, 6, 7])]
PROMPT = {
    "input_ids": np.array([[5, 6, 7]], dtype=np.int32),
    "request_output_len": np.array([[3]], dtype=np.int32),
}
SAMPLED = {
    "temperature": np.array([[0.5]], dtype=np.float32),
    "runtime_top_k": np.array([[5]], dtype=np.int32),
    "runtime_top_p": np.array([[0.75]], dtype=np.float32),
    "repetition_penalty": np.array([[1.25]], dtype=np.float32),
    "random_seed": np.array([[7]], dtype=np.uint64),
}


@pytest.mark.parametrize("binary", [False, True])
async def test_tokens_and_sampling_go_in_and_tokens_come_out(binary: bool, tmp_path: Path) -> None:
    async with pair(tmp_path) as here:
        answer = await asyncio.to_thread(
            triton.infer, here.gateway.url, "chat", {**PROMPT, **SAMPLED}, binary=binary
        )

        assert answer.tensors["output_ids"].tolist() == [IDS[:3]]
        assert answer.tensors["sequence_length"].tolist() == [3]
        assert here.server.bodies("/infer_token") == [
            {
                "input_id": [5, 6, 7],
                "stream": True,
                "parameters": {
                    "details": True,
                    "max_new_tokens": 3,
                    "temperature": 0.5,
                    "top_k": 5,
                    "top_p": 0.75,
                    "repetition_penalty": 1.25,
                    "seed": 7,
                },
            }
        ]


async def test_an_answer_that_mindie_gave_up_is_an_error_to_the_client(tmp_path: Path) -> None:
    async with pair(tmp_path, faults=[Abort(after=1)] * 9) as here:
        with pytest.raises(triton.Refused, match="stop_sequence") as caught:
            await asyncio.to_thread(triton.infer, here.gateway.url, "chat", PROMPT)

        assert caught.value.status == 502


async def test_a_tensor_that_mindie_cannot_express_is_refused_by_name(tmp_path: Path) -> None:
    wanted = {**PROMPT, "return_log_probs": np.array([[True]])}
    async with pair(tmp_path) as here:
        with pytest.raises(triton.Refused, match=r"log_?probs") as caught:
            await asyncio.to_thread(triton.infer, here.gateway.url, "chat", wanted)

        assert caught.value.status == 400
        assert not here.server.requests
