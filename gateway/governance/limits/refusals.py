"""The errors that clients get for requests that a limit refuses."""

from typing import Final

from strowger_gateway.gateway.governance.limits.ledger import LimitRefusal
from strowger_gateway.gateway.governance.limits.limits import SECOND
from strowger_gateway.schemas.errors import LimitExceeded

NAMES: Final = {
    "requests": "requests",
    "tokens": "tokens",
    "concurrent": "concurrent requests",
}

CONCURRENT_RETRY_S: Final = 1.0
"""When to retry if a request in flight has to end first, which nothing can predict."""


def exceeded(refusal: LimitRefusal, tokens: int) -> LimitExceeded:
    """Return the error. tokens: that the request may use."""
    per = "" if refusal.quantity == "concurrent" else f" per {refusal.per}"
    allowed = f"{refusal.allowed} {NAMES[refusal.quantity]}{per}"
    what = f"the limit {refusal.limit!r} allows {allowed}"
    if refusal.wait is None:
        return LimitExceeded(
            f"{what}, and this request may use {tokens}; lower max_tokens or shorten the prompt"
        )
    if not refusal.wait:
        return LimitExceeded(what, retry_after=CONCURRENT_RETRY_S)
    wait_s = refusal.wait / SECOND
    if refusal.reserved:
        what = f"{what}; what is missing is reserved by running requests"
    return LimitExceeded(f"{what}; retry in {wait_s:.3g} s", retry_after=wait_s)
