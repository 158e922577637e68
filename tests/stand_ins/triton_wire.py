"""Reads and writes tensors over HTTP as a Triton server does, with its error messages.

https://github.com/triton-inference-server/server/blob/main/src/http_server.cc
https://github.com/kserve/open-inference-protocol/blob/main/specification/protocol/inference_rest.md
"""

import json
import math
import struct
from collections.abc import Mapping
from typing import cast

from msgspec import Struct

from tests.stand_ins.triton_models import Model, Slot, Value, Values

HEADER_LENGTH = "inference-header-content-length"

FORMATS = {
    "BOOL": "?",
    "INT32": "i",
    "INT64": "q",
    "UINT64": "Q",
    "FP16": "e",
    "FP32": "f",
}
JSON_TYPES: Mapping[str, tuple[type, ...]] = {
    "BOOL": (bool,),
    "INT32": (int,),
    "INT64": (int,),
    "UINT64": (int,),
    "FP32": (int, float),
    "BYTES": (str,),
}

Json = dict[str, object]


class Refused(Exception):
    """An answer of status 400 (or another) with {"error": text}."""

    def __init__(self, text: str, status: int = 400) -> None:
        super().__init__(text)
        self.status = status


class Inference(Struct, frozen=True, kw_only=True):
    """What was asked. outputs: those named, each with "in binary"; {} asks for all of them.

    parameters: JSON keys of `generate` that are not inputs of the model, which is not an error.
    """

    model: str
    door: str
    tensors: dict[str, Values]
    parameters: dict[str, Value]
    outputs: dict[str, bool]
    all_binary: bool = False
    id: str = ""


def read_generate(model: Model, door: str, body: bytes) -> Inference:
    """JSON keys that are inputs of the model become tensors; all others become parameters."""
    tensors: dict[str, Values] = {}
    parameters: dict[str, Value] = {}
    fields = _object(body)
    nested = fields.pop("parameters", {})
    if not isinstance(nested, dict):
        raise Refused("Expected JSON object for keyword: 'parameters'")
    for name, value in {**fields, **cast("Json", nested)}.items():
        slot = model.inputs.get(name)
        if slot is not None:
            tensors[name] = _mapped(name, slot, value)
        elif isinstance(value, str | int | float):
            parameters[name] = value
        else:
            raise Refused(f"parameter '{name}' has invalid type. It should be either 'int', ...")
    _check_required(model, tensors)
    return Inference(
        model=model.name, door=door, tensors=tensors, parameters=parameters, outputs={}
    )


def read_infer(model: Model, body: bytes, header_length: str | None) -> Inference:
    """Decode the JSON, followed by the data of its binary tensors in order."""
    if model.decoupled:
        raise Refused("HTTP end point doesn't support models with decoupled transaction policy")
    size = len(body) if header_length is None else int(header_length)
    fields = _object(body[:size])
    rest = body[size:]
    inputs = fields.get("inputs")
    if not isinstance(inputs, list):
        raise Refused("Unable to parse 'inputs': attempt to access non-existing object member")
    tensors: dict[str, Values] = {}
    for one in cast("list[Json]", inputs):
        name = str(one["name"])
        slot = model.inputs.get(name)
        if slot is None:
            raise Refused(f"unexpected inference input '{name}' for model '{model.name}'")
        parameters = cast("Json", one.get("parameters", {}))
        length = parameters.get("binary_data_size")
        if isinstance(length, int):
            tensors[name] = _binary(name, one, rest[:length])
            rest = rest[length:]
        else:
            tensors[name] = _listed(name, one)
        _check_slot(model, name, slot, tensors[name])
    if rest:
        raise Refused("unexpected additional input data for model")
    _check_required(model, tensors)
    asked = cast("list[Json]", fields.get("outputs", []))
    for one in asked:
        if one["name"] not in model.outputs:
            raise Refused(f"unexpected inference output '{one['name']}' for model '{model.name}'")
    return Inference(
        model=model.name,
        door="infer",
        tensors=tensors,
        parameters={},
        outputs={str(one["name"]): _is_binary(one) for one in asked},
        all_binary=cast("Json", fields.get("parameters", {})).get("binary_data_output") is True,
        id=str(fields.get("id", "")),
    )


def write_generate(model: Model, tensors: Mapping[str, Values]) -> bytes:
    """Encode without shapes: a tensor of one item is a scalar, any other a flat list."""
    fields: Json = {"model_name": model.name, "model_version": "1"}
    for name, values in tensors.items():
        if values.datatype == "FP16":
            raise Refused("sending FP16 data via JSON is not supported. Please use the binary ...")
        fields[name] = values.items[0] if len(values.items) == 1 else values.items
    if model.kind == "text":
        fields |= {"sequence_id": 0, "sequence_start": False, "sequence_end": False}
    return json.dumps(dict(sorted(fields.items())), separators=(",", ":")).encode()


def write_infer(
    model: Model, asked: Inference, tensors: Mapping[str, Values]
) -> tuple[bytes, int | None]:
    """Return the body, and the length of its JSON if binary data follows it."""
    outputs: list[Json] = []
    binary: list[bytes] = []
    for name, values in tensors.items():
        if asked.outputs and name not in asked.outputs:
            continue
        output: Json = {"name": name, "datatype": values.datatype, "shape": list(values.shape)}
        if asked.outputs.get(name, asked.all_binary):
            data = _packed(values)
            output["parameters"] = {"binary_data_size": len(data)}
            binary.append(data)
        elif values.datatype == "FP16":
            raise Refused("sending FP16 data via JSON is not supported. Please use the binary ...")
        else:
            output["data"] = values.items
        outputs.append(output)
    fields: Json = {"model_name": model.name, "model_version": "1", "outputs": outputs}
    if asked.id:
        fields["id"] = asked.id
    head = json.dumps(fields, separators=(",", ":")).encode()
    return b"".join((head, *binary)), len(head) if binary else None


def _object(body: bytes) -> Json:
    try:
        fields: object = json.loads(body)
    except (json.JSONDecodeError, UnicodeDecodeError) as exc:
        raise Refused("failed to parse the request JSON buffer") from exc
    if not isinstance(fields, dict):
        raise Refused("failed to parse the request JSON buffer")
    return cast("Json", fields)


def _mapped(name: str, slot: Slot, value: object) -> Values:
    """Shape a scalar or a flat list as the input; the innermost open dimension takes the rest."""
    if slot.datatype == "FP16":
        raise Refused(f"receiving FP16 data via JSON is not supported. ... for input {name}")
    items = cast("list[object]", value) if isinstance(value, list) else [value]
    fixed = math.prod(side for side in slot.dims if side != -1)
    if len(items) % fixed:
        raise Refused(f"The schema can not convert input '{name}' to tensor with proper shape")
    left = len(items) // fixed
    shape: list[int] = []
    for side in reversed(slot.dims):
        shape.insert(0, left if side == -1 else side)
        left = 1 if side == -1 else left
    if math.prod(shape) != len(items):
        raise Refused(f"The schema can not convert input '{name}' to tensor with proper shape")
    return Values(datatype=slot.datatype, shape=tuple(shape), items=_typed(slot.datatype, items))


def _typed(datatype: str, items: list[object]) -> list[Value]:
    kinds = JSON_TYPES.get(datatype)
    if kinds is None:
        raise Refused(f"receiving {datatype} data via JSON is not supported.")
    for one in items:
        if not isinstance(one, kinds) or (isinstance(one, bool) and datatype != "BOOL"):
            raise Refused("Unable to parse 'data': attempt to access JSON of another type")
    return cast("list[Value]", items)


def _listed(name: str, one: Json) -> Values:
    datatype, shape = str(one["datatype"]), tuple(cast("list[int]", one["shape"]))
    data = _flat(one.get("data"))
    if len(data) != math.prod(shape):
        raise Refused(f"Unable to parse 'data': Shape does not match true shape of '{name}'")
    return Values(datatype=datatype, shape=shape, items=_typed(datatype, data))


def _flat(data: object) -> list[object]:
    if not isinstance(data, list):
        return [data]
    return [leaf for one in cast("list[object]", data) for leaf in _flat(one)]


def _binary(name: str, one: Json, data: bytes) -> Values:
    datatype, shape = str(one["datatype"]), tuple(cast("list[int]", one["shape"]))
    if datatype == "BYTES":
        items: list[Value] = []
        while data:
            (size,) = struct.unpack_from("<I", data)
            items.append(data[4 : 4 + size].decode())
            data = data[4 + size :]
        return Values(datatype=datatype, shape=shape, items=items)
    count = math.prod(shape)
    if datatype not in FORMATS or len(data) != count * struct.calcsize(f"<{FORMATS[datatype]}"):
        raise Refused(f"unexpected size of the binary data of input '{name}'")
    return Values(
        datatype=datatype,
        shape=shape,
        items=list(struct.unpack(f"<{count}{FORMATS[datatype]}", data)),
    )


def _packed(values: Values) -> bytes:
    if values.datatype == "BYTES":
        texts = (str(one).encode() for one in values.items)
        return b"".join(struct.pack("<I", len(text)) + text for text in texts)
    return struct.pack(f"<{len(values.items)}{FORMATS[values.datatype]}", *values.items)


def _check_slot(model: Model, name: str, slot: Slot, values: Values) -> None:
    if values.datatype != slot.datatype:
        raise Refused(
            f"inference input '{name}' data-type is '{values.datatype}', but model "
            f"'{model.name}' expects '{slot.datatype}'"
        )
    sides = zip(values.shape, slot.dims, strict=False)
    if len(values.shape) != len(slot.dims) or any(b not in (-1, a) for a, b in sides):
        raise Refused(
            f"unexpected shape for input '{name}' for model '{model.name}'. "
            f"Expected {list(slot.dims)}, got {list(values.shape)}"
        )


def _check_required(model: Model, tensors: Mapping[str, Values]) -> None:
    missing = [name for name, slot in model.inputs.items() if slot.required and name not in tensors]
    if missing:
        raise Refused(
            f"expected inputs {missing} beside {sorted(tensors)} for model '{model.name}'"
        )


def _is_binary(one: Json) -> bool:
    return cast("Json", one.get("parameters", {})).get("binary_data") is True
