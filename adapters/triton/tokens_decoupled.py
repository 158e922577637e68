"""TensorRT-LLM's decoupled raw-tensor models, by `generate` and `generate_stream`.

Tensors are keys of a JSON object without shapes, so 16-bit floats and logits are not supported
(`triton-tokens` supports them with a model that is not decoupled), but streams are real ones.
Lists of numbers need a server with the change that is cited last.
https://github.com/triton-inference-server/server/blob/main/docs/protocol/extension_generate.md
https://github.com/triton-inference-server/server/pull/7624
"""

import struct
from collections.abc import Mapping
from typing import ClassVar

import msgspec

from strowger_gateway.adapters.base import Framing, Outbound, Supports
from strowger_gateway.adapters.triton.adapter import TritonAdapter
from strowger_gateway.adapters.triton.ensemble import OLDER
from strowger_gateway.adapters.triton.input_tensors import inputs
from strowger_gateway.adapters.triton.open_inference_protocol import Input
from strowger_gateway.adapters.triton.sampling import INT64, answers, beams
from strowger_gateway.adapters.triton.tokens import INPUTS, TOKENS
from strowger_gateway.adapters.triton.tokens import SUPPORTS as TOKENS_SUPPORTS
from strowger_gateway.adapters.triton.tokens_decode import GenerateDecoder
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.requests import GenerateRequest, Request, TokenRequest

FIELDS = (TOKENS | {"n"}) - {"prompt_table", "return_context_logits", "return_generation_logits"}
KEYS: Mapping[str, tuple[str, ...]] = {
    **INPUTS,
    **{field: (field, older) for field, older in OLDER.items()},
    "n": ("num_return_sequences",),
}

SUPPORTS = msgspec.structs.replace(
    TOKENS_SUPPORTS,
    tokens=FIELDS,
    translated={
        "tokens": {
            **{
                field: " + ".join(names)
                for field, names in KEYS.items()
                if field in FIELDS and names != (field,)
            },
            "embedding_bias": "embedding_bias (a list of numbers)",
        }
    },
)

_encode = msgspec.json.Encoder().encode


class DecoupledTritonTokensAdapter(TritonAdapter):
    """Decoupled models."""

    name: ClassVar[str] = "triton-tokens-decoupled"
    framing: ClassVar[Framing] = "sse-unmarked"
    offers: ClassVar[Supports] = SUPPORTS

    def encode(self, request: Request, model: str) -> Outbound:
        """Stream several answers: they are several responses, which `generate` does not support."""
        if not isinstance(request, TokenRequest):
            raise self._not_offered(request)
        body = {one.name: _flat(one) for one in inputs(request)}
        for newer, older in OLDER.items():
            value = body.get(newer)
            if isinstance(value, int) and value < INT64:
                body[older] = value
        alone = beams(request.sampling) == 1
        streamed = request.stream and alone
        if streamed:
            body["streaming"] = True
        several = answers(request.sampling) > 1 and alone
        name = "generate_stream" if streamed or several else "generate"
        return self._infer(model, name, _encode(body), stream=streamed)

    def decoder(self, request: GenerateRequest) -> GenerateDecoder:
        if not isinstance(request, TokenRequest):
            raise self._not_offered(request)
        return GenerateDecoder(self._endpoint, request)


def _flat(one: Input) -> object:
    """Return a tensor as a JSON value: a number or a flat list; the server adds the shape.

    It can do so if one dimension is open, and for datatypes that JSON has.
    """
    if not isinstance(one.data, bytes):
        return one.data[0] if one.shape == (1, 1) else one.data
    if one.datatype == "FP32" and len(one.shape) == 2:
        return struct.unpack(f"<{len(one.data) // 4}f", one.data)
    if one.datatype == "INT32":
        return struct.unpack(f"<{len(one.data) // 4}i", one.data)
    raise InvalidRequest(
        f"{one.name}: a decoupled model does not accept it over HTTP; deploy one that is not "
        "decoupled behind the adapter triton-tokens",
        param=one.name,
    )
