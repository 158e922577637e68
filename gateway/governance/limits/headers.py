"""Headers that show a client its limits, as OpenAI's and Anthropic's clients read them.

https://platform.openai.com/docs/guides/rate-limits#rate-limits-in-headers
https://docs.anthropic.com/en/api/rate-limits#response-headers
"""

import math
import time
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

from strowger_gateway.gateway.governance.limits.ledger import (
    REQUESTS_LEFT,
    TOKENS_LEFT,
    Accounts,
    Headers,
    duration,
    show,
)
from strowger_gateway.gateway.governance.limits.limits import SECOND
from strowger_gateway.gateway.governance.limits.window import Window

_KINDS: Final = (b"requests", b"tokens")
_OPENAI: Final = tuple(
    tuple(b"x-ratelimit-%b-%b" % (part, kind) for part in (b"limit", b"remaining", b"reset"))
    for kind in _KINDS
)
_ANTHROPIC: Final = tuple(
    tuple(
        b"anthropic-ratelimit-%b-%b" % (kind, part) for part in (b"limit", b"remaining", b"reset")
    )
    for kind in _KINDS
)


def admitted_headers(accounts: Accounts, headers: Headers, anthropic: bool) -> None:
    """Add the limit, what remains, and when everything is free again, after `reserve`.

    Of requests and of tokens; if several limits apply, of the one with the least room. As the
    request counts from now on, everything is free again after a whole period.
    """
    if anthropic:
        _add_anthropic(accounts, headers, None)
        return
    show(accounts.shown_requests, REQUESTS_LEFT, headers)
    show(accounts.shown_tokens, TOKENS_LEFT, headers)


def refused_headers(accounts: Accounts, at: int, *, anthropic: bool) -> Headers:
    """The same headers after a refusal. at: the clock, nanoseconds."""
    headers: Headers = []
    if anthropic:
        _add_anthropic(accounts, headers, at)
        return headers
    for windows, (limit, remaining, reset) in zip(
        (accounts.requests, accounts.tokens), _OPENAI, strict=True
    ):
        if windows:
            window = min(windows, key=_room)
            headers += (
                (limit, b"%d" % window.limit),
                (remaining, b"%d" % max(0, _room(window))),
                (reset, duration(window.reset(at))),
            )
    return headers


def _add_anthropic(accounts: Accounts, headers: Headers, at: int | None) -> None:
    """at: the clock's time of a refusal; `None` after an admission."""
    for windows, (limit, remaining, reset) in zip(
        (accounts.requests, accounts.tokens), _ANTHROPIC, strict=True
    ):
        if windows:
            window = min(windows, key=_room)
            free = window.period if at is None else window.reset(at)
            headers += (
                (limit, b"%d" % window.limit),
                (remaining, b"%d" % max(0, _room(window))),
                (reset, _timestamp(math.ceil(time.time() + free / SECOND))),
            )


@lru_cache(maxsize=8)
def _timestamp(seconds: int) -> bytes:
    """RFC 3339. seconds: Unix time."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ").encode()


def _room(window: Window) -> int:
    return window.room + window.elsewhere
