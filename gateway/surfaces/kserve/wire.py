"""The JSON of KServe v2's inference request.

https://kserve.github.io/website/docs/concepts/architecture/data-plane/v2-protocol
"""

from typing import Final

from msgspec import UNSET, Raw, Struct, UnsetType

from strowger_gateway.gateway.surfaces.decoding import BodyReader


class InputParameters(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """binary_data_size: number of bytes after the JSON that are this tensor's data."""

    binary_data_size: int | None = None


class InputWire(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One tensor. data: flat or nested lists; absent if the data follows the JSON."""

    name: str
    shape: tuple[int, ...]
    datatype: str
    data: Raw | UnsetType = UNSET
    parameters: InputParameters | None = None


class OutputParameters(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """binary_data: overrides binary_data_output."""

    binary_data: bool | None = None


class OutputWire(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    parameters: OutputParameters | None = None


class InferParameters(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """priority: 1 is first, 0 is the default. timeout: microseconds.

    binary_data_output: the data of all outputs goes after the JSON.
    """

    binary_data_output: bool | None = None
    priority: int | None = None
    timeout: int | None = None


class InferWire(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """id: TensorRT-LLM's requestId, echoed. model_name, model_version: as in the path."""

    inputs: tuple[InputWire, ...]
    id: str | None = None
    outputs: tuple[OutputWire, ...] | None = None
    parameters: InferParameters | None = None
    model_name: str | None = None
    model_version: str | None = None


ALLOWED: Final = {
    "id": "a string",
    "inputs": "a list of tensors",
    "inputs[].name": "a string",
    "inputs[].shape": "a list of integers",
    "inputs[].datatype": "a string, as INT32",
    "inputs[].parameters.binary_data_size": "an integer, bytes",
    "outputs": "a list of outputs",
    "outputs[].name": "a string",
    "outputs[].parameters.binary_data": "true or false",
    "parameters.binary_data_output": "true or false",
    "parameters.priority": "an integer from 0 to 5",
    "parameters.timeout": "an integer, microseconds",
}

INFER: Final = BodyReader(InferWire, ALLOWED)
