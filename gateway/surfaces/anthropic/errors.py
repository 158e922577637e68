"""Errors in Anthropic's envelope, with its closed list of types and statuses.

https://docs.anthropic.com/en/api/errors
"""

from types import MappingProxyType
from typing import Final, Literal

from msgspec import UNSET, Struct, UnsetType

from strowger_gateway.gateway.surfaces.openai.envelope import encode
from strowger_gateway.schemas.errors import GatewayError

ERROR: Final = b"event: error\n"
"""The line of a stream before the data of a failure."""

ErrorType = Literal[
    "invalid_request_error",
    "authentication_error",
    "billing_error",
    "permission_error",
    "not_found_error",
    "request_too_large",
    "rate_limit_error",
    "timeout_error",
    "api_error",
    "overloaded_error",
]
TYPES: Final = MappingProxyType[int, ErrorType](
    {
        400: "invalid_request_error",
        401: "authentication_error",
        402: "billing_error",
        403: "permission_error",
        404: "not_found_error",
        413: "request_too_large",
        424: "api_error",
        429: "rate_limit_error",
        504: "timeout_error",
        529: "overloaded_error",
    }
)
"""By status; other 4xx are the client's fault, all other 5xx and 424 the gateway's."""

STATUSES: Final = MappingProxyType({502: 500, 503: 529})
"""Statuses that the API does not have, and those that its clients know instead."""


THREAD: Final = "thread"
"""The field with which a conversation is stored at Anthropic. Its tool runners send it first, and
repeat the request without it when the error has `UNTHREADED`."""


class ErrorDetails(Struct, frozen=True, kw_only=True):
    """What official clients act on. unsupported: names of features."""

    error_code: str
    unsupported: tuple[str, ...]


UNTHREADED: Final = ErrorDetails(error_code="thread_unsupported_request", unsupported=(THREAD,))


def status_of(exc: GatewayError) -> int:
    """Return the status by which Anthropic's clients know the error."""
    if exc.param == THREAD:
        return 400  # its tool runners act on no other
    return STATUSES.get(exc.status, exc.status)


class MessagesErrorDetail(Struct, frozen=True, kw_only=True):
    """param, code: not Anthropic's: the invalid field, and the gateway's stable identifier."""

    type: ErrorType
    message: str
    details: ErrorDetails | UnsetType = UNSET
    param: str | UnsetType = UNSET
    code: str | UnsetType = UNSET


class MessagesError(Struct, frozen=True, kw_only=True):
    """An error, in Anthropic's envelope."""

    type: Literal["error"] = "error"
    error: MessagesErrorDetail
    request_id: str | None = None


def error_body(exc: GatewayError) -> bytes:
    """Return `{"type": "error", "error": {"type", "message"}, "request_id"}`."""
    return encode(
        MessagesError(
            error=MessagesErrorDetail(
                type=error_type(exc.status),
                message=exc.message,
                details=UNTHREADED if exc.param == THREAD else UNSET,
                param=exc.param or UNSET,
                code=exc.code or UNSET,
            ),
            request_id=exc.request_id or None,
        )
    )


def error_type(status: int) -> ErrorType:
    status = STATUSES.get(status, status)
    return TYPES.get(status) or ("invalid_request_error" if status < 500 else "api_error")
