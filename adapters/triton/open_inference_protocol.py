"""Tensors of the Open Inference Protocol over HTTP: in JSON, or as bytes after the JSON.

A header of the answer has the JSON's length; decoders do not receive it, so they search the end.
https://github.com/kserve/open-inference-protocol/blob/main/specification/protocol/inference_rest.md
https://github.com/triton-inference-server/server/blob/main/docs/protocol/extension_binary_data.md
"""

import re
import struct
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

import msgspec
from msgspec import Raw, Struct

from strowger_gateway.schemas.tensors import DType

Number = bool | int | float

HEADER_LENGTH = "inference-header-content-length"

DATATYPES: Mapping[DType, str] = MappingProxyType(
    {
        "bool": "BOOL",
        "int32": "INT32",
        "int64": "INT64",
        "uint64": "UINT64",
        "float16": "FP16",
        "bfloat16": "BF16",
        "float32": "FP32",
    }
)

_FORMATS: Mapping[str, str] = {
    "BOOL": "?",
    "INT32": "i",
    "INT64": "q",
    "UINT64": "Q",
    "FP16": "e",
    "FP32": "f",
    "FP64": "d",
}
_STRING_OR_BRACE = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}]', re.DOTALL)

_encode = msgspec.json.Encoder().encode


class Input(Struct, frozen=True, kw_only=True):
    """A tensor to send: numbers as JSON, bytes (row-major, little-endian) as they are."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    data: Sequence[Number] | bytes


class Output(Struct, frozen=True, kw_only=True):
    """A tensor of an answer. data: flat numbers, or bytes as in Input."""

    datatype: str
    shape: tuple[int, ...]
    data: list[Number] | bytes

    def numbers(self) -> list[Number]:
        """Return them flat, row-major. Raises ValueError if the bytes do not fit the datatype."""
        if not isinstance(self.data, bytes):
            return self.data
        if self.datatype == "BF16":
            return list(struct.unpack(f"<{len(self.data) // 2}f", _widened(self.data)))
        letter = _FORMATS.get(self.datatype)
        if letter is None:
            raise ValueError(f"unknown datatype {self.datatype}")
        size = struct.calcsize(f"<{letter}")
        if len(self.data) % size:
            raise ValueError(f"{len(self.data)} bytes of {self.datatype}")
        return list(struct.unpack(f"<{len(self.data) // size}{letter}", self.data))

    def float32(self) -> bytes:
        """Return little-endian float32, from any float type. Raises ValueError as `numbers`."""
        if isinstance(self.data, bytes):
            if self.datatype == "FP32":
                return self.data
            if self.datatype == "BF16":
                return _widened(self.data)
        numbers = self.numbers()
        return struct.pack(f"<{len(numbers)}f", *numbers)


class Answer(Struct, frozen=True, kw_only=True):
    """model: the server's name for it. outputs: by name."""

    model: str = ""
    outputs: Mapping[str, Output]


class _Parameters(Struct, frozen=True, kw_only=True):
    binary_data_size: int | None = None


class _Output(Struct, frozen=True, kw_only=True):
    name: str
    datatype: str
    shape: tuple[int, ...]
    data: list[Number] | None = None
    parameters: _Parameters = _Parameters()


class _Answer(Struct, frozen=True, kw_only=True):
    outputs: list[_Output]
    model_name: str = ""


_read = msgspec.json.Decoder(_Answer, strict=False).decode


def encode_inputs(inputs: Iterable[Input], outputs: Mapping[str, bool]) -> tuple[bytes, int | None]:
    """Return the body, and the length of its JSON if bytes follow it.

    outputs: the requested ones, each with whether it may come as bytes.
    """
    tails: list[bytes] = []
    listed: list[dict[str, object]] = []
    for one in inputs:
        wire: dict[str, object] = {
            "name": one.name,
            "shape": one.shape,
            "datatype": one.datatype,
        }
        if isinstance(one.data, bytes):
            wire["parameters"] = {"binary_data_size": len(one.data)}
            tails.append(one.data)
        else:
            wire["data"] = one.data
        listed.append(wire)
    requested = [
        {"name": name, "parameters": {"binary_data": True}} if binary else {"name": name}
        for name, binary in outputs.items()
    ]
    head = _encode({"inputs": listed, "outputs": requested})
    return b"".join((head, *tails)), len(head) if tails else None


def decode_answer(body: bytes) -> Answer:
    """Raises msgspec.DecodeError or ValueError for an unreadable answer."""
    end = json_end(body)
    wire = _read(body[:end])
    outputs: dict[str, Output] = {}
    for one in wire.outputs:
        size = one.parameters.binary_data_size
        if size is not None:
            if end + size > len(body):
                raise ValueError(f"{one.name}: fewer than its {size} bytes arrived")
            data: list[Number] | bytes = body[end : end + size]
            end += size
        elif one.data is None:
            raise ValueError(f"{one.name}: the tensor has no data")
        else:
            data = one.data
        outputs[one.name] = Output(datatype=one.datatype, shape=one.shape, data=data)
    return Answer(model=wire.model_name, outputs=outputs)


def json_end(body: bytes) -> int:
    """Return the end of the JSON object at the body's start; the body's end if it never closes."""
    depth = 0
    for found in _STRING_OR_BRACE.finditer(body):
        mark = found.group()
        if mark == b"{":
            depth += 1
        elif mark == b"}":
            depth -= 1
            if depth == 0:
                return found.end()
    return len(body)


def error_of(body: bytes) -> Raw | None:
    """Return the `error` of a JSON object that contains only an error, else `None`."""
    try:
        fields = msgspec.json.decode(body[: json_end(body)], type=dict[str, Raw])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return fields.get("error")


def _widened(data: bytes) -> bytes:
    """Return bfloat16 as float32: two zero bytes before the two of each."""
    wide = bytearray(len(data) // 2 * 4)
    wide[2::4] = data[0 : len(data) // 2 * 2 : 2]
    wide[3::4] = data[1 : len(data) // 2 * 2 : 2]
    return bytes(wide)
