"""Errors as Google's APIs have them: `google.rpc.Status`, with what clients act on as details.

https://cloud.google.com/apis/design/errors
"""

from types import MappingProxyType
from typing import Final

from msgspec import Raw, Struct

from strowger_gateway.gateway.surfaces.openai.envelope import encode
from strowger_gateway.schemas.errors import GatewayError

STATUSES: Final = MappingProxyType(
    {
        400: "INVALID_ARGUMENT",
        401: "UNAUTHENTICATED",
        402: "RESOURCE_EXHAUSTED",
        403: "PERMISSION_DENIED",
        404: "NOT_FOUND",
        405: "UNIMPLEMENTED",
        408: "DEADLINE_EXCEEDED",
        409: "ABORTED",
        413: "INVALID_ARGUMENT",
        424: "FAILED_PRECONDITION",
        429: "RESOURCE_EXHAUSTED",
        499: "CANCELLED",
        500: "INTERNAL",
        501: "UNIMPLEMENTED",
        502: "UNAVAILABLE",
        503: "UNAVAILABLE",
        504: "DEADLINE_EXCEEDED",
        529: "UNAVAILABLE",
    }
)
"""By HTTP status; other 4xx are the client's fault, other 5xx the gateway's."""

_TYPE: Final = "type.googleapis.com/google.rpc."
DOMAIN: Final = "strowger"
"""Of the reasons in `ErrorInfo`, which are the gateway's stable codes."""


class GoogleStatus(Struct, frozen=True, kw_only=True):
    """code: the HTTP status. status: the name of the RPC's. details: each with an `@type`."""

    code: int
    message: str
    status: str
    details: list[dict[str, Raw]]


class GoogleError(Struct, frozen=True, kw_only=True):
    """An error, in the envelope of Google's APIs."""

    error: GoogleStatus


def error_body(exc: GatewayError) -> bytes:
    """Return `{"error": {"code", "message", "status", "details"}}`."""
    status = GoogleStatus(
        code=exc.status,
        message=exc.message,
        status=rpc_status(exc.status),
        details=_details(exc),
    )
    return encode(GoogleError(error=status))


def rpc_status(status: int) -> str:
    return STATUSES.get(status) or ("INVALID_ARGUMENT" if status < 500 else "INTERNAL")


def _details(exc: GatewayError) -> list[dict[str, Raw]]:
    details = [_detail("ErrorInfo", reason=exc.code.upper(), domain=DOMAIN)]
    if exc.param:
        violation = {"field": exc.param, "description": exc.message}
        details.append(_detail("BadRequest", fieldViolations=[violation]))
    if exc.retry_after is not None:
        details.append(_detail("RetryInfo", retryDelay=f"{exc.retry_after:g}s"))
    if exc.request_id:
        details.append(_detail("RequestInfo", requestId=exc.request_id))
    return details


def _detail(kind: str, **fields: object) -> dict[str, Raw]:
    named = {"@type": f"{_TYPE}{kind}", **fields}
    return {name: Raw(encode(value)) for name, value in named.items()}
