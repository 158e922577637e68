"""The headers of an answer: made readable, and held against limits."""

from collections.abc import Mapping

from msgspec import Struct

_NAMES_KEPT = 1024

_names: dict[bytes, str] = {}


class Limits(Struct, frozen=True, kw_only=True):
    """What an answer may take. head_bytes also bounds trailers and chunk extensions."""

    head_bytes: int = 64 * 1024
    headers: int = 256


Fields = list[tuple[bytes, bytes]]


def headers_of(fields: Fields) -> dict[str, str]:
    """Lower-case names; a repeated header's values are joined by ", "."""
    headers: dict[str, str] = {}
    for name, value in fields:
        key = _names.get(name) or _lowered(name)
        text = value.rstrip().decode("latin-1")
        headers[key] = f"{headers[key]}, {text}" if key in headers else text
    return headers


def size_of(fields: Fields) -> int:
    """Bytes on the wire, without the status line."""
    return sum(len(name) + len(value) + 4 for name, value in fields)


def fault_of(headers: Mapping[str, str], count: int, limits: Limits) -> str | None:
    """Why an answer with these headers cannot be read. count: of header lines."""
    if count > limits.headers:
        return f"the answer has more than {limits.headers} headers"
    coding = headers.get("transfer-encoding")
    if coding is not None and coding.lower() != "chunked":
        return f"unknown transfer-encoding {coding!r}"
    coding = headers.get("content-encoding")
    if coding is not None and coding.lower() != "identity":
        return f"the answer is compressed ({coding}), though we asked for identity"
    return None


def _lowered(name: bytes) -> str:
    text = name.decode("latin-1").lower()
    if len(_names) < _NAMES_KEPT:
        _names[name] = text
    return text
