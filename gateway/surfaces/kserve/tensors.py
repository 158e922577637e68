"""Convert KServe v2's tensor data, in JSON and in bytes, to and from
`strowger_gateway.schemas.tensors.Tensor`.

https://kserve.github.io/website/docs/concepts/architecture/data-plane/v2-protocol
"""

import sys
from array import array
from collections.abc import Iterator, Sequence
from math import inf, isnan, prod
from typing import Annotated, Final, Literal, TypeVar, cast

import msgspec
from msgspec import DecodeError, Meta, Raw, Struct

from strowger_gateway.gateway.surfaces.number_lists import flat_pieces, is_long
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.tensors import ITEM_BYTES, DType, Tensor

Datatype = Literal["BOOL", "INT32", "INT64", "UINT64", "FP16", "BF16", "FP32", "BYTES"]
"""KServe's names, limited to what TensorRT-LLM's tensors need."""

DTYPES: Final[dict[Datatype, DType]] = {
    "BOOL": "bool",
    "INT32": "int32",
    "INT64": "int64",
    "UINT64": "uint64",
    "FP16": "float16",
    "BF16": "bfloat16",
    "FP32": "float32",
}
"""BYTES are strings, not numbers: `strings_of_json` and `strings_of_bytes` read them."""

DATATYPES: Final[dict[DType, Datatype]] = {dtype: name for name, dtype in DTYPES.items()}

_CODES: Final[dict[DType, Literal["i", "q", "Q", "f"]]] = {
    "int32": "i",
    "int64": "q",
    "uint64": "Q",
    "float32": "f",
}
_T = TypeVar("_T")
_AT_ONCE: Final = 128 * 1024
"""Items converted in one call, which blocks the interpreter: a million take 25 ms."""

_LARGEST: Final = 3.4028234663852886e38
_SWAP: Final = sys.byteorder == "big"

_ints = msgspec.json.Decoder(list[int])
_int32s = msgspec.json.Decoder(list[Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]])
_floats = msgspec.json.Decoder(list[float])
_bools = msgspec.json.Decoder(list[bool])
_texts = msgspec.json.Decoder(list[str])
_anything = msgspec.json.Decoder(object)
_encode: Final = msgspec.json.Encoder().encode


class Integers(Struct, frozen=True, kw_only=True, gc=False):
    """A tensor of int32 that is not packed. values: prod(shape) integers, row-major."""

    shape: tuple[int, ...]
    values: list[int]

    def packed(self) -> Tensor:
        return int32(self.shape, self.values)


def read_json(
    name: str, datatype: Datatype, shape: tuple[int, ...], data: Raw
) -> Tensor | Integers:
    """Like `tensor_of_json`, but short flat lists of INT32, the usual prompt, are not packed."""
    if datatype == "INT32" and not is_long(data):
        try:
            values = _int32s.decode(data)
        except (DecodeError, RecursionError):  # nested, or wrong
            return tensor_of_json(name, datatype, shape, data)
        _check_count(name, shape, len(values))
        return Integers(shape=shape, values=values)
    return tensor_of_json(name, datatype, shape, data)


def tensor_of_json(name: str, datatype: Datatype, shape: tuple[int, ...], data: Raw) -> Tensor:
    """Return a tensor whose `data` is JSON, flat or nested. Raises InvalidRequest naming it.

    FP16 and BF16 have no JSON form: Triton accepts them as binary data only.
    """
    dtype = DTYPES.get(datatype)
    if dtype in (None, "float16", "bfloat16"):
        raise InvalidRequest(
            f"{name}: {datatype} has no JSON form; send it as binary data", param=name
        )
    match dtype:
        case "bool":
            packed = b"".join(map(bytes, _lists(name, data, _bools, "true or false")))
        case "int32" | "int64" | "uint64":
            numbers = _lists(name, data, _ints, f"integers ({datatype})")
            packed = b"".join([_packed(name, datatype, dtype, some) for some in numbers])
        case _:
            floats = _lists(name, data, _floats, "numbers")
            packed = b"".join([_packed(name, datatype, "float32", some) for some in floats])
    items = len(packed) // ITEM_BYTES[dtype]
    _check_count(name, shape, items)
    return Tensor(dtype=dtype, shape=shape, data=packed)


def tensor_of_bytes(name: str, datatype: Datatype, shape: tuple[int, ...], data: bytes) -> Tensor:
    """Return a tensor from row-major little-endian bytes. Raises InvalidRequest."""
    dtype = DTYPES.get(datatype)
    if dtype is None:
        raise InvalidRequest(f"{name}: {datatype} is not a numeric datatype", param=name)
    _check_count(name, shape, len(data) / ITEM_BYTES[dtype])
    return Tensor(dtype=dtype, shape=shape, data=data)


def strings_of_json(name: str, shape: tuple[int, ...], data: Raw) -> tuple[str, ...]:
    """Read BYTES from JSON. Raises InvalidRequest."""
    values = _flat(name, data, _texts, "strings")
    _check_count(name, shape, len(values))
    return tuple(values)


def strings_of_bytes(name: str, shape: tuple[int, ...], data: bytes) -> tuple[str, ...]:
    """Read BYTES from binary: each element is a four-byte length and as many bytes of UTF-8.

    Raises InvalidRequest.
    """
    values: list[str] = []
    wanted = prod(shape)
    at = 0
    while at < len(data):
        if len(values) == wanted:
            raise InvalidRequest(
                f"{name}: its data has more than the {wanted} items of its shape", param=name
            )
        end = at + 4 + int.from_bytes(data[at : at + 4], "little")
        if at + 4 > len(data) or end > len(data):
            raise InvalidRequest(f"{name}: its binary data ends inside a string", param=name)
        try:
            values.append(data[at + 4 : end].decode())
        except UnicodeDecodeError as exc:
            raise InvalidRequest(f"{name}: a string is not UTF-8", param=name) from exc
        at = end
    _check_count(name, shape, len(values))
    return tuple(values)


def bytes_of_strings(values: Sequence[str]) -> bytes:
    """Encode strings; the inverse of `strings_of_bytes`."""
    parts: list[bytes] = []
    for value in values:
        text = value.encode()
        parts += (len(text).to_bytes(4, "little"), text)
    return b"".join(parts)


def numbers(tensor: Tensor | Integers) -> Sequence[int]:
    """Return the items of an integer tensor, row-major."""
    if isinstance(tensor, Integers):
        return tensor.values
    items = _items(tensor)
    found: list[int] = []
    for at in range(0, len(items), _AT_ONCE):
        found += cast(list[int], items[at : at + _AT_ONCE].tolist())
    return found


def scalar(tensor: Tensor | Integers) -> bool | int | float:
    """Return the only item; a float32 as the shortest equal number: 0.7, not 0.69999998…"""
    if isinstance(tensor, Integers):
        return tensor.values[0]
    if tensor.dtype == "bool":
        return tensor.data != b"\0"
    (value,) = _items(tensor)
    return _shortest(value) if tensor.dtype == "float32" else value


def _shortest(value: float) -> float:
    single = array("f", (value,))
    for digits in range(6, 10):
        found = float(f"{value:.{digits}g}")
        if array("f", (found,)) == single:
            return found
    return value


def json_of_tensor(tensor: Tensor) -> bytes:
    """Return the data as a flat JSON array; NaN becomes 0, infinities the largest float32."""
    if tensor.dtype == "bool":
        return _encode([item != 0 for item in tensor.data])
    values = cast(list[float], _items(tensor).tolist())
    data = _encode(values)
    if tensor.dtype == "float32" and b"null" in data:
        return _encode([_finite(value) for value in values])
    return data


def int32(shape: tuple[int, ...], values: Sequence[int]) -> Tensor:
    return Tensor(dtype="int32", shape=shape, data=_little(array("i", values)))


def float32(shape: tuple[int, ...], values: Sequence[float]) -> Tensor:
    return Tensor(dtype="float32", shape=shape, data=_little(array("f", values)))


def _items(tensor: Tensor) -> "array[int] | array[float]":
    code = _CODES.get(tensor.dtype)
    if code is None:
        raise ValueError(f"{tensor.dtype} can only be read as bytes")
    items = array(code, tensor.data)
    if _SWAP:
        items.byteswap()
    return items


def _little(items: "array[int] | array[float]") -> bytes:
    if _SWAP:
        items.byteswap()
    return items.tobytes()


def _packed(name: str, datatype: Datatype, dtype: DType, values: Sequence[float]) -> bytes:
    try:
        return _little(array(_CODES[dtype], values))
    except OverflowError as exc:
        raise InvalidRequest(f"{name}: a value is out of range for {datatype}", param=name) from exc


def _lists(
    name: str, data: Raw, flat: msgspec.json.Decoder[list[_T]], what: str
) -> Iterator[Sequence[_T]]:
    """Yield the items in order: all at once, or in pieces if there are many."""
    if not is_long(data):
        yield _flat(name, data, flat, what)
        return
    try:
        yield from flat_pieces(bytes(data), flat)
    except DecodeError as exc:
        raise _wrong(name, what) from exc


def _wrong(name: str, what: str) -> InvalidRequest:
    return InvalidRequest(f"{name}: data must be {what}, in one list or in nested ones", param=name)


def _flat(name: str, data: Raw, flat: msgspec.json.Decoder[list[_T]], what: str) -> list[_T]:
    try:
        return flat.decode(data)
    except (DecodeError, RecursionError):
        pass
    try:
        return msgspec.convert(list(_leaves(_anything.decode(data))), flat.type)
    except (DecodeError, RecursionError) as exc:
        raise _wrong(name, what) from exc


def _leaves(value: object) -> Iterator[object]:
    if isinstance(value, list):
        for item in cast(list[object], value):
            yield from _leaves(item)
    else:
        yield value


def _check_count(name: str, shape: tuple[int, ...], items: float) -> None:
    if prod(shape) != items:
        raise InvalidRequest(
            f"{name}: its data has {items:g} items, but shape {list(shape)} has {prod(shape)}",
            param=name,
        )


def _finite(value: float) -> float:
    if isnan(value):
        return 0.0
    return max(-_LARGEST, min(_LARGEST, value)) if abs(value) == inf else value
