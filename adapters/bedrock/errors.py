"""Translates errors of Bedrock by type, or by status if there is no type.

https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html#API_runtime_Converse_Errors
"""

from collections.abc import Mapping

import msgspec
from msgspec import Struct

from strowger_gateway.adapters.base import Endpoint
from strowger_gateway.adapters.error_message import problem, redacted
from strowger_gateway.adapters.errors import refused
from strowger_gateway.adapters.json_objects import UNREADABLE
from strowger_gateway.adapters.prompt_too_long import is_prompt_too_long, rejected_as_too_long
from strowger_gateway.adapters.refusals.cause import refusal_cause
from strowger_gateway.adapters.retry_after import retry_after
from strowger_gateway.schemas.errors import (
    GatewayError,
    RefusalCause,
    UpstreamBusy,
    UpstreamError,
    UpstreamFailed,
    UpstreamOverloaded,
    UpstreamRejected,
    UpstreamTimeout,
)

KINDS: Mapping[str, type[UpstreamError]] = {
    "ThrottlingException": UpstreamBusy,
    "TooManyRequestsException": UpstreamBusy,
    "ModelNotReadyException": UpstreamBusy,
    "ModelTimeoutException": UpstreamTimeout,
    "ModelErrorException": UpstreamFailed,
    "ModelStreamErrorException": UpstreamFailed,
    "InternalServerException": UpstreamFailed,
    "InternalFailure": UpstreamFailed,
    "ServiceUnavailableException": UpstreamOverloaded,
}
"""Types that decide whatever the status: throttling is about load, failures are the model's."""

REFUSED: Mapping[str, RefusalCause] = {
    "ServiceQuotaExceededException": "unclear",
    "AccessDeniedException": "unclear",
    "ResourceNotFoundException": "unclear",
    "UnrecognizedClientException": "account",
    "ExpiredTokenException": "account",
    "MissingAuthenticationTokenException": "account",
    "InvalidSignatureException": "model",
    "IncompleteSignatureException": "model",
}
"""What these types refuse if the message has no sign of it (`adapters/refusals`). A role may lack
the right to use the model, a guardrail or an image that the request names. A signature covers the
model's name, which a client chooses if the backend is a wildcard.
"""

STATUSES: Mapping[int, type[UpstreamError]] = {
    408: UpstreamTimeout,
    424: UpstreamFailed,
    425: UpstreamFailed,
    429: UpstreamBusy,
    499: UpstreamFailed,
    503: UpstreamOverloaded,
    504: UpstreamTimeout,
    529: UpstreamOverloaded,
}
"""Others of 400 to 499 blame the request, and all from 500 on the service."""


PROMPT_TOO_LONG = frozenset(
    {"", "ValidationException", "ModelErrorException", "ModelStreamErrorException"}
)
"""Types of the error for a prompt that is too long; "": a proxy in between drops the type."""


class _ErrorBody(Struct, frozen=True, kw_only=True):
    """Some of AWS's services, and gateways in front of them, send `Message`."""

    type: str = msgspec.field(name="__type", default="")
    capital: str = msgspec.field(name="Message", default="")
    originalMessage: str = ""  # noqa: N815  the wire's name


_read = msgspec.json.Decoder(_ErrorBody).decode


def error_from(
    endpoint: Endpoint, status: int, headers: Mapping[str, str], body: bytes
) -> GatewayError:
    """Return the error for an answer with a status of 400 or more."""
    kind = headers.get("x-amzn-errortype", "").partition(":")[0]
    return _error(endpoint, status, kind, retry_after(headers), body)


def error_in_stream(endpoint: Endpoint, kind: str, body: bytes) -> GatewayError:
    """Return the error for an exception in a stream. kind: such as `throttlingException`."""
    name = kind[:1].upper() + kind[1:]
    status = 400 if name == "ValidationException" else 500
    return _error(endpoint, status, name, None, body, inside=True)


def _error(
    endpoint: Endpoint,
    status: int,
    kind: str,
    wait: float | None,
    body: bytes,
    *,
    inside: bool = False,
) -> GatewayError:
    try:
        parsed = _read(body)
    except UNREADABLE:
        parsed = _ErrorBody()
    found = problem(body)
    name = kind or parsed.type.rpartition("#")[2]
    message = parsed.originalMessage or found.message or parsed.capital
    text = redacted(message, _secrets(endpoint)) or name or f"answered with status {status}"
    about = refusal_cause(status, {name.lower()}, text, found.param, inside=inside)
    if about in (None, "unclear") and name in REFUSED:
        about = REFUSED[name]
    if about is not None and about != "load":
        return refused(text, endpoint.name, status, about, wait)
    if name in PROMPT_TOO_LONG and is_prompt_too_long(text):
        return rejected_as_too_long(text, upstream=endpoint.name)
    blamed = KINDS.get(name) or STATUSES.get(status)
    if blamed is None and 400 <= status < 500:
        return UpstreamRejected(
            text,
            status=status,
            upstream=endpoint.name,
            type=name or found.type,
            param=found.param,
            code=found.code,
        )
    return (blamed or UpstreamFailed)(text, upstream=endpoint.name, retry_after=wait)


def _secrets(endpoint: Endpoint) -> tuple[str, ...]:
    """The key, and the values of the operator's own headers, which may be credentials too."""
    return (endpoint.key.reveal(), *(value for _, value in endpoint.headers if len(value) >= 16))
