"""What Cloudflare's internal codes mean, as the status that says the same to a gateway.

https://developers.cloudflare.com/workers-ai/platform/errors/
"""

from collections.abc import Mapping

import msgspec
from msgspec import Struct

UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What msgspec raises for bytes that are not the expected JSON."""

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
"""Internal code -> status. Three differ from the status that Cloudflare sends: no such model (5007)
is a 400 there and the operator's affair, as 404 is; an allocation that is used up (3036) is a 429
that no waiting helps, so it is a 402; a LoRA that the model does not take (5005) is a 405."""


class _Failure(Struct, frozen=True, kw_only=True):
    code: int = 0


class _Envelope(Struct, frozen=True, kw_only=True):
    errors: tuple[_Failure, ...] = ()


_envelope = msgspec.json.Decoder(_Envelope).decode


def meant_status(body: bytes) -> int:
    """0 where the body tells no code that is known."""
    try:
        errors = _envelope(body).errors
    except UNREADABLE:
        return 0
    return next((MEANT[one.code] for one in errors if one.code in MEANT), 0)
