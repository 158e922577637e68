"""Render the answer to an infer request: output tensors in JSON, or as bytes after it.

https://kserve.github.io/website/docs/concepts/architecture/data-plane/v2-protocol
"""

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from strowger_gateway.gateway.surfaces.base import JSON, Headers
from strowger_gateway.gateway.surfaces.kserve.binary import HEADER, OCTETS, joined
from strowger_gateway.gateway.surfaces.kserve.bodies import VERSION, error_body
from strowger_gateway.gateway.surfaces.kserve.outputs import Outputs, TextOutputs
from strowger_gateway.gateway.surfaces.kserve.requests import (
    InferRequest,
    InferTextRequest,
    RequestedOutput,
)
from strowger_gateway.gateway.surfaces.kserve.tensors import (
    DATATYPES,
    Datatype,
    bytes_of_strings,
    json_of_tensor,
)
from strowger_gateway.gateway.surfaces.sse import frame
from strowger_gateway.schemas.answers import Answer
from strowger_gateway.schemas.errors import GatewayError
from strowger_gateway.schemas.events import Event
from strowger_gateway.schemas.tensors import Tensor


class _Parameters(Struct, frozen=True, kw_only=True):
    binary_data_size: int


class _Output(Struct, frozen=True, kw_only=True):
    name: str
    datatype: Datatype
    shape: tuple[int, ...]
    parameters: _Parameters | UnsetType = UNSET
    data: Raw | UnsetType = UNSET


class _Answer(Struct, frozen=True, kw_only=True):
    model_name: str
    model_version: str
    id: str | UnsetType = UNSET
    outputs: list[_Output]


_encode: Final = msgspec.json.Encoder().encode


class InferRenderer:
    """Render one answer. Mutable state: the length of its JSON."""

    def __init__(self, request: InferRequest | InferTextRequest) -> None:
        self._request = request
        self._json_length: int | None = None

    def headers(self, backend: str) -> Headers:
        """Return the content type, and the length of the JSON if bytes follow it."""
        if self._json_length is None:
            return [(b"content-type", JSON.encode())]
        return [(b"content-type", OCTETS), (HEADER, b"%d" % self._json_length)]

    def answer(self, answer: Answer) -> bytes:
        """Raise UpstreamBroken if the backend did not return a requested tensor."""
        request, reply = self._request, self._request.reply
        if isinstance(request, InferTextRequest):
            outputs: Outputs | TextOutputs = TextOutputs(answer)
        else:
            outputs = Outputs(
                answer, prompt=request.tokens, pad=reply.pad, with_input=reply.with_input
            )
        tensors = [(wanted, outputs.tensor(wanted.name)) for wanted in reply.outputs]
        tails = [_binary(tensor) for wanted, tensor in tensors if wanted.binary]
        body = _Answer(
            model_name=request.model,
            model_version=VERSION,
            id=reply.id or UNSET,
            outputs=[_output(wanted, tensor) for wanted, tensor in tensors],
        )
        json = _encode(body)
        if tails:
            self._json_length = len(json)
        return joined(json, tails)

    def events(self, batch: Sequence[Event]) -> bytes:
        """Render nothing: infer has no streams."""
        return b""

    def finish(self) -> bytes:
        return b""

    def error(self, exc: GatewayError) -> bytes:
        return frame(error_body(exc))


def _output(wanted: RequestedOutput, tensor: Tensor | tuple[str, ...]) -> _Output:
    binary = wanted.binary
    if isinstance(tensor, Tensor):
        datatype, shape = DATATYPES[tensor.dtype], tensor.shape
        data = UNSET if binary else Raw(json_of_tensor(tensor))
    else:
        datatype, shape = "BYTES", (len(tensor),)
        data = UNSET if binary else Raw(_encode(tensor))
    size = len(_binary(tensor)) if binary else 0
    return _Output(
        name=wanted.name,
        datatype=datatype,
        shape=shape,
        parameters=_Parameters(binary_data_size=size) if binary else UNSET,
        data=data,
    )


def _binary(tensor: Tensor | tuple[str, ...]) -> bytes:
    return tensor.data if isinstance(tensor, Tensor) else bytes_of_strings(tensor)
