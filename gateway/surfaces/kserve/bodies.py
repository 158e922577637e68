"""KServe bodies other than answers: errors, and metadata from the tables of tensors.

https://kserve.github.io/website/docs/concepts/architecture/data-plane/v2-protocol
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
from msgspec import Struct

from strowger_gateway.gateway.surfaces.field_names import FieldNames
from strowger_gateway.gateway.surfaces.kserve.parameter_tables import (
    INPUTS,
    OUTPUTS,
    Shape,
    TensorSpec,
)
from strowger_gateway.schemas.errors import GatewayError

VERSION: Final = "1"
"""The only version of every model."""

PLATFORM: Final = "tensorrt_llm"
"""The platform whose request format this is; the backend that answers may be any."""

TENSORS: Final = {
    "tokens": "input_ids",
    "logprobs": "return_log_probs",
    "n": "num_return_sequences",
    "bad_word_ids": "bad_words_list",
    "top_p_reset_id": "top_p_reset_ids",
    "lora": "lora_task_id",
    "prompt_table": "prompt_embedding_table",
    "draft": "draft_input_ids",
    "echo": "exclude_input_in_output",
}
"""Fields of requests that clients of this surface cannot name -> the tensors they come from."""

NAMES: Final = FieldNames({**TENSORS, "priority": "parameters.priority"})

_encode: Final = msgspec.json.Encoder().encode


class KServeError(Struct, frozen=True, kw_only=True):
    """An error, as KServe's clients read it."""

    error: str


class ServerMetadata(Struct, frozen=True, kw_only=True):
    """The server's name, and the protocol extensions it supports."""

    name: str
    version: str
    extensions: tuple[str, ...]


class _Tensor(Struct, frozen=True, kw_only=True):
    name: str
    datatype: str
    shape: Shape


class ModelMetadata(Struct, frozen=True, kw_only=True):
    """The input and output tensors of a model."""

    name: str
    versions: tuple[str, ...]
    platform: str
    inputs: list[_Tensor]
    outputs: list[_Tensor]


class _ConfigTensor(Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    data_type: str
    dims: Shape
    optional: bool = False


class _Transactions(Struct, frozen=True, kw_only=True):
    decoupled: bool


class ModelConfiguration(Struct, frozen=True, kw_only=True):
    """The same in the format of Triton's model configuration."""

    name: str
    platform: str
    backend: str
    max_batch_size: int
    input: list[_ConfigTensor]
    output: list[_ConfigTensor]
    model_transaction_policy: _Transactions


class IndexEntry(Struct, frozen=True, kw_only=True):
    """An entry of the repository index. state: READY or UNAVAILABLE. reason: "" when ready."""

    name: str
    version: str = VERSION
    state: str
    reason: str = ""


def error_body(exc: GatewayError) -> bytes:
    """Return the message, with a tensor's name in place of a field unknown to the client."""
    message, ours = exc.message, exc.param or ""
    if ours in TENSORS:
        message = re.sub(rf"\b{ours}\b", TENSORS[ours], message, count=1)
    return _encode(KServeError(error=message))


def server_body(version: str) -> bytes:
    """version: the gateway's version."""
    extensions = ("binary_tensor_data", "model_configuration", "model_repository", "parameters")
    return _encode(ServerMetadata(name="strowger", version=version, extensions=extensions))


def model_body(name: str) -> bytes:
    return _encode(
        ModelMetadata(
            name=name,
            versions=(VERSION,),
            platform=PLATFORM,
            inputs=_tensors(INPUTS),
            outputs=_tensors(OUTPUTS),
        )
    )


def config_body(name: str) -> bytes:
    """Return Triton's model configuration of the same model; clients do not batch requests."""
    return _encode(
        ModelConfiguration(
            name=name,
            platform=PLATFORM,
            backend="strowger",
            max_batch_size=0,
            input=_config(INPUTS, optional=True),
            output=_config(OUTPUTS, optional=False),
            model_transaction_policy=_Transactions(decoupled=False),
        )
    )


def index_body(models: Iterable[IndexEntry]) -> bytes:
    return _encode(list(models))


def _tensors(specs: Sequence[TensorSpec]) -> list[_Tensor]:
    return [
        _Tensor(name=spec.name, datatype=spec.datatypes[0], shape=spec.shapes[0]) for spec in specs
    ]


def _config(specs: Sequence[TensorSpec], *, optional: bool) -> list[_ConfigTensor]:
    return [
        _ConfigTensor(
            name=spec.name,
            data_type=f"TYPE_{spec.datatypes[0]}",
            dims=spec.shapes[0],
            optional=optional and not spec.required,
        )
        for spec in specs
    ]
