"""Bodies of infer requests as JSON, and their parsed form."""

import json
from collections.abc import Mapping

import pytest

from strowger_gateway.gateway.surfaces.base import Inbound
from strowger_gateway.gateway.surfaces.kserve.infer_parse import parse_infer
from strowger_gateway.gateway.surfaces.kserve.requests import InferRequest, InferTextRequest
from strowger_gateway.schemas.errors import InvalidRequest

Tensor = tuple[str, list[int], object]
"""Datatype, shape, and data."""

REQUIRED: Mapping[str, Tensor] = {
    "request_output_len": ("INT32", [1, 1], [8]),
    "input_ids": ("INT32", [1, 3], [5, 6, 7]),
}

TEXT: Mapping[str, Tensor] = {
    "text_input": ("BYTES", [1, 1], ["Hello"]),
    "max_tokens": ("INT32", [1, 1], [8]),
}


def body(tensors: Mapping[str, Tensor | None] | None = None, **fields: object) -> bytes:
    """A request with the two mandatory tensors, and these; `None` leaves one out."""
    wanted: dict[str, Tensor | None] = {**REQUIRED, **(tensors or {})}
    found = [
        {"name": name, "datatype": given[0], "shape": given[1], "data": given[2]}
        for name, given in wanted.items()
        if given is not None
    ]
    return json.dumps({"inputs": found, **fields}).encode()


def parsed(tensors: Mapping[str, Tensor | None] | None = None, **fields: object) -> InferRequest:
    """As a request of tokens."""
    found = _parsed(tensors, **fields)
    assert isinstance(found, InferRequest)
    return found


def parsed_text(tensors: Mapping[str, Tensor | None], **fields: object) -> InferTextRequest:
    """As a request of text, without the tensors that one of tokens must have."""
    found = _parsed({**dict.fromkeys(REQUIRED), **TEXT, **tensors}, **fields)
    assert isinstance(found, InferTextRequest)
    return found


def refused(tensors: Mapping[str, Tensor | None] | None = None, **fields: object) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        _parsed(tensors, **fields)
    return caught.value


def _parsed(
    tensors: Mapping[str, Tensor | None] | None, **fields: object
) -> InferRequest | InferTextRequest:
    return parse_infer(Inbound(body=body(tensors, **fields), model="m", max_choices=16))
