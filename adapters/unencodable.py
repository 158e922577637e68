"""Turns encoding failures into InvalidRequest errors that name the field at fault."""

from collections.abc import Iterator

import msgspec
from msgspec import UNSET, Raw, Struct

from strowger_gateway.adapters.base import Adapter, Outbound
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.requests import ChatRequest, Request
from strowger_gateway.schemas.tasks.task import Unsampled

ENCODE_ERRORS = (RecursionError, OverflowError, ValueError)
"""Raised by encoding: nested too deeply, a number or a character out of range."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


def encoded(adapter: Adapter, request: Request, model: str) -> Outbound:
    """Encode the request as Adapter.encode does; for any input, only InvalidRequest is raised."""
    try:
        return adapter.encode(request, model)
    except ENCODE_ERRORS as exc:
        raise unencodable(request, exc) from exc


def unencodable(request: Request, failure: Exception) -> InvalidRequest:
    """Return the error for a request that cannot be encoded; its param is the field at fault."""
    field = next((path for path, value in _values(request) if not _encodable(value)), None)
    where = field or "the request"
    if isinstance(failure, RecursionError):
        return InvalidRequest(
            f"{where} is nested too deeply for the provider's format", param=field
        )
    if isinstance(failure, UnicodeError):
        return InvalidRequest(
            f"{where} contains characters that are not valid Unicode text", param=field
        )
    return InvalidRequest(
        f"{where} does not fit into the provider's format: {failure}", param=field
    )


def _values(request: Request) -> Iterator[tuple[str, object]]:
    yield from request.extra.items()
    if isinstance(request, ChatRequest):
        for place, message in enumerate(request.messages):
            yield f"messages[{place}]", message
        for place, tool in enumerate(request.tools or ()):
            yield f"tools[{place}]", tool
    if not isinstance(request, Unsampled):
        yield from _fields(request.sampling)
    yield from _fields(request)


def _fields(fields: Struct) -> Iterator[tuple[str, object]]:
    for name in fields.__struct_fields__:
        value: object = getattr(fields, name)
        if value is not UNSET and name not in ("extra", "messages", "tools", "sampling"):
            yield name, value


def _encodable(value: object) -> bool:
    """Return whether the value can be encoded and decoded again; raw JSON is only decoded."""
    try:
        _decode(value if isinstance(value, Raw) else _encode(value))
    except ENCODE_ERRORS:
        return False
    return True
