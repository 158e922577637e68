"""Translates errors of Anthropic's API by error type and status.

A prompt that is too long and an account without credit both come as `invalid_request_error`, and
an exhausted spend limit as `rate_limit_error` with a code in its details.
https://docs.anthropic.com/en/api/errors
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import msgspec
from msgspec import Raw, Struct

from strowger_gateway.adapters.base import Endpoint
from strowger_gateway.adapters.errors import error_from as openai_error
from strowger_gateway.adapters.errors import refused
from strowger_gateway.adapters.json_objects import NULL, UNREADABLE
from strowger_gateway.adapters.retry_after import LONGEST_S
from strowger_gateway.schemas.errors import GatewayError, UpstreamBusy

STATUS_OF_TYPE: Mapping[str, int] = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""For an error inside a 200, which has no status of its own."""

SPENT = "enforced_spend_limit_reached"

LIMIT = "anthropic-ratelimit-"


class _Error(Struct, frozen=True, kw_only=True):
    error: Raw = NULL


class _Details(Struct, frozen=True, kw_only=True):
    error_code: str = ""


class _Type(Struct, frozen=True, kw_only=True):
    type: str = ""


class _Detailed(Struct, frozen=True, kw_only=True):
    details: _Details = _Details()


_error = msgspec.json.Decoder(_Error).decode
_type = msgspec.json.Decoder(_Type).decode
_detailed = msgspec.json.Decoder(_Detailed).decode


def error_from(
    endpoint: Endpoint, status: int, headers: Mapping[str, str], body: bytes
) -> GatewayError:
    """Return the error for an answer with a status of 400 or more."""
    inner = _inner(body)
    found = openai_error(endpoint, status, headers, inner)
    if not isinstance(found, UpstreamBusy):
        return found
    text = found.message.removeprefix(f"{endpoint.name}: ")
    if _is_spent(inner):
        return refused(text, endpoint.name, status, "account", found.retry_after)
    if found.retry_after is None:
        wait = _until_reset(headers)
        return UpstreamBusy(text, upstream=endpoint.name, retry_after=wait)
    return found


def error_inside(endpoint: Endpoint, body: bytes) -> GatewayError:
    """Return the error for a 200 whose body, or an event of it, reports a failure."""
    try:
        kind = _type(_inner(body)).type
    except UNREADABLE:
        kind = ""
    return error_from(endpoint, STATUS_OF_TYPE.get(kind, 500), {}, body)


def _is_spent(inner: bytes) -> bool:
    """Whether a 429 is about the month's spend: another code than that of a rate limit."""
    try:
        return _detailed(inner).details.error_code == SPENT
    except UNREADABLE:
        return False


def _inner(body: bytes) -> bytes:
    """Return the body without the envelope, whose own `type` is always `error`."""
    try:
        inner = _error(body).error
    except UNREADABLE:
        return body
    return body if inner == NULL else bytes(inner)


def _until_reset(headers: Mapping[str, str]) -> float | None:
    """Return the seconds until all exhausted limits are reset; `None` if unknown.

    Relative to the answer's own date, because adapters have no clock.
    """
    now = headers.get("date", "")
    waits = [
        _seconds(now, headers.get(f"{name.removesuffix('-remaining')}-reset", ""))
        for name, left in headers.items()
        if name.startswith(LIMIT) and name.endswith("-remaining") and left == "0"
    ]
    known = [wait for wait in waits if wait is not None]
    return max(known) if known else None


def _seconds(date: str, moment: str) -> float | None:
    """Return the seconds from an HTTP date to an RFC 3339 time."""
    try:
        until, since = datetime.fromisoformat(moment), parsedate_to_datetime(date)
    except (ValueError, OverflowError):
        return None
    return min(max(0.0, (_in_utc(until) - _in_utc(since)).total_seconds()), LONGEST_S)


def _in_utc(moment: datetime) -> datetime:
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
