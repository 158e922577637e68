"""Token requests, and the two adapters that send them to a Triton server."""

import struct
from collections.abc import Sequence

import msgspec

from strowger_gateway.adapters.base import Endpoint, Outbound
from strowger_gateway.adapters.triton.tokens import TritonTokensAdapter
from strowger_gateway.adapters.triton.tokens_decoupled import DecoupledTritonTokensAdapter
from strowger_gateway.schemas.requests import TokenRequest
from strowger_gateway.schemas.sampling import Sampling
from strowger_gateway.schemas.tensors import Tensor
from tests.stand_ins.triton_models import MODELS
from tests.stand_ins.triton_wire import HEADER_LENGTH, Inference, read_generate, read_infer

INFER = TritonTokensAdapter(Endpoint(name="triton", base_url="http://gpu.test:8000"))
GENERATE = DecoupledTritonTokensAdapter(Endpoint(name="triton", base_url="http://gpu.test:8000"))

WHOLE_MODEL = "tensorrt_llm"
DECOUPLED_MODEL = "tensorrt_llm_streaming"


def asking(**sampling: object) -> TokenRequest:
    return TokenRequest(
        model="m",
        tokens=(5, 6, 7),
        sampling=msgspec.structs.replace(Sampling(max_tokens=9), **sampling),
    )


def with_fields(request: TokenRequest, **fields: object) -> TokenRequest:
    return msgspec.structs.replace(request, **fields)


def float16(shape: Sequence[int], values: Sequence[float]) -> Tensor:
    data = struct.pack(f"<{len(values)}e", *values)
    return Tensor(dtype="float16", shape=tuple(shape), data=data)


def float32(shape: Sequence[int], values: Sequence[float]) -> Tensor:
    data = struct.pack(f"<{len(values)}f", *values)
    return Tensor(dtype="float32", shape=tuple(shape), data=data)


def inferred(request: TokenRequest) -> Inference:
    """Return the server's view of `infer`; raises what the server rejects."""
    outbound = INFER.encode(request, WHOLE_MODEL)
    return read_infer(MODELS[WHOLE_MODEL], outbound.body, header_length(outbound))


def generated(request: TokenRequest) -> Inference:
    outbound = GENERATE.encode(request, DECOUPLED_MODEL)
    return read_generate(MODELS[DECOUPLED_MODEL], outbound.target, outbound.body)


def header_length(outbound: Outbound) -> str | None:
    return dict(outbound.headers).get(HEADER_LENGTH)
