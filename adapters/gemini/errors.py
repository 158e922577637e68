"""Translates errors of Google's APIs by status and the details in the body.

An invalid key is a 400, and the retry delay is in the body instead of a header.
https://cloud.google.com/apis/design/errors
"""

from collections.abc import Mapping

import msgspec

from strowger_gateway.adapters import errors
from strowger_gateway.adapters.base import Endpoint
from strowger_gateway.adapters.gemini.wire import Error, read_error, read_errors
from strowger_gateway.adapters.json_objects import UNREADABLE
from strowger_gateway.schemas.errors import GatewayError

REFUSED_STATUSES = frozenset({"FAILED_PRECONDITION", "PERMISSION_DENIED", "UNAUTHENTICATED"})
"""The first is a 400: no billing, no service in the account's region, a file that is not ready."""

_encode = msgspec.json.Encoder().encode


def error_from(
    endpoint: Endpoint, status: int, headers: Mapping[str, str], body: bytes
) -> GatewayError:
    """Return the error for an answer with a status of 400 or more."""
    found = _read(body)
    if found is None:
        return errors.error_from(endpoint, status, headers, body)
    reasons = [one.reason for one in found.details if one.reason]
    if found.status in REFUSED_STATUSES and status != 401:
        status = 403
    plain = {
        "message": found.message,
        "code": reasons[0] if reasons else found.status or str(status),
        "type": found.status or None,
    }
    wait = next((one.retry_delay for one in found.details if one.retry_delay), "")
    waiting = {**headers, "retry-after": wait} if wait else headers
    return errors.error_from(endpoint, status, waiting, _encode({"error": plain}))


def error_inside(endpoint: Endpoint, body: bytes) -> GatewayError:
    """Return the error for a 200 whose body, or a frame of it, reports a failure."""
    found = _read(body)
    if found is None or not 400 <= found.code < 600:
        return errors.error_inside(endpoint, body)
    return error_from(endpoint, found.code, {}, body)


def is_google(body: bytes) -> bool:
    """Return whether the error has Google's form, at an endpoint that also has another vendor's."""
    found = _read(body)
    return found is not None and bool(found.status or found.code)


def _read(body: bytes) -> Error | None:
    """Return Google's error, which may be wrapped in a list; `None` if there is none."""
    try:
        if body.lstrip()[:1] == b"[":
            listed = read_errors(body)
            return listed[0].error if listed else None
        return read_error(body).error
    except UNREADABLE:
        return None
