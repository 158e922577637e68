"""Errors in MindIE's format: its envelope, its error types, its field names."""

import re
from typing import Final

import msgspec
from msgspec import Struct

from strowger_gateway.gateway.surfaces.field_names import FieldNames
from strowger_gateway.gateway.surfaces.mindie.wire import PARAMETERS
from strowger_gateway.schemas.errors import GatewayError, InvalidRequest, UpstreamRejected

INVALID: Final = "Input Validation Error"
TYPES: Final[dict[int, str]] = {
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFoundError",
    405: "Method Not Allowed",
    408: "Request Timeout",
    413: "Payload Too Large",
    415: "Unsupported Media Type",
    422: INVALID,
    424: "Generation Error",
    429: "Too Many Requests",
    500: "Incomplete Generation",
    502: "Generation Error",
    503: "Service Unavailable",
    504: "Incomplete Generation",
}
"""`error_type` by status. MindIE documents 400, 404, 422, 424, 500 and 503; the others are HTTP's
own names, and a gateway's 502 and 504 are MindIE's failed and unfinished answers."""

_OWN: Final = frozenset({"NotFoundError", INVALID, "Generation Error", "Incomplete Generation"})
_NAMES: Final = {
    **{name: f"parameters.{name}" for name in PARAMETERS},
    "tokens": "input_id",
    "max_tokens": "parameters.max_new_tokens",
    "timeout_s": "parameters.timeout",
}
"""Field names of the request path and the engines -> their path in this dialect's body."""

NAMES: Final = FieldNames(_NAMES)

_FIELD: Final = re.compile(
    rf"(^|: |; )({'|'.join(sorted(_NAMES))})(?=[:\[]| (?:is|has|must|and)\b)"
)
_encoder: Final = msgspec.json.Encoder()


class MindIEError(Struct, frozen=True, kw_only=True):
    """An error, as MindIE's clients read it."""

    error: str
    error_type: str


def error_body(exc: GatewayError) -> bytes:
    """`{"error", "error_type"}`."""
    message = exc.message
    if exc.param is not None:
        message = _FIELD.sub(lambda found: found[1] + _NAMES[found[2]], message)
    return _encoder.encode(MindIEError(error=message, error_type=_type(exc)))


def _type(exc: GatewayError) -> str:
    if isinstance(exc, UpstreamRejected) and exc.type in _OWN:
        return exc.type
    if isinstance(exc, InvalidRequest) and exc.param is not None:
        return INVALID
    return TYPES.get(exc.status) or ("Bad Request" if exc.status < 500 else "Generation Error")
