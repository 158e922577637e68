"""Maps Cloudflare's internal error codes to the HTTP status that a gateway expects.

https://developers.cloudflare.com/workers-ai/platform/errors/
"""

from collections.abc import Mapping

import msgspec
from msgspec import Struct

UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Exceptions of msgspec for bytes that are not the expected JSON."""

MEANT: Mapping[int, int] = {
    3003: 400,
    3006: 413,
    3007: 408,
    3008: 408,
    3023: 403,
    3036: 402,
    3039: 400,
    3040: 429,
    3041: 403,
    3042: 404,
    5004: 400,
    5005: 400,
    5007: 404,
    5016: 403,
    5018: 403,
    10000: 401,
}
"""Internal code -> status. Three differ from Cloudflare's: an unknown model (5007) is a 400 there,
but the operator must act, as for a 404; an exhausted allocation (3036) is a 429 there, but waiting
does not help, so it is a 402; a LoRA that the model does not accept (5005) is a 405 there."""


class _Failure(Struct, frozen=True, kw_only=True):
    code: int = 0


class _Envelope(Struct, frozen=True, kw_only=True):
    errors: tuple[_Failure, ...] = ()


_envelope = msgspec.json.Decoder(_Envelope).decode


def meant_status(body: bytes) -> int:
    """Return the status for the body's code; 0 if it has no known code."""
    try:
        errors = _envelope(body).errors
    except UNREADABLE:
        return 0
    return next((MEANT[one.code] for one in errors if one.code in MEANT), 0)
