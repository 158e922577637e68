"""Headers that show a client its limits, as OpenAI's and Anthropic's clients read them.

https://platform.openai.com/docs/guides/rate-limits#rate-limits-in-headers
https://docs.anthropic.com/en/api/rate-limits#response-headers
"""

import math
import time
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

from gateway.limits.ledger import Accounts
from gateway.limits.limits import PERIODS, SECOND
from gateway.limits.window import Window

Headers = list[tuple[bytes, bytes]]

_KINDS: Final = (b"requests", b"tokens")
_OPENAI: Final = tuple(
    (b"x-ratelimit-limit-" + kind, b"x-ratelimit-remaining-" + kind, b"x-ratelimit-reset-" + kind)
    for kind in _KINDS
)
_ANTHROPIC: Final = tuple(
    tuple(
        b"anthropic-ratelimit-%b-%b" % (kind, part) for part in (b"limit", b"remaining", b"reset")
    )
    for kind in _KINDS
)


def limit_headers(accounts: Accounts, at: int, *, anthropic: bool, admitted: bool) -> Headers:
    """The limit, what remains, and when everything is free again, of requests and of tokens.

    If several limits apply, of the one with the least room. admitted: the request was reserved
    just now, so everything is free again after a whole period. at: the clock, nanoseconds.
    """
    headers: Headers = []
    names = _ANTHROPIC if anthropic else _OPENAI
    for windows, (limit, remaining, reset) in zip(
        (accounts.requests, accounts.tokens), names, strict=True
    ):
        if not windows:
            continue
        window = windows[0] if len(windows) == 1 else min(windows, key=_room)
        room = window.remaining()
        free = window.period if admitted else window.reset(at)
        if anthropic:
            when = _timestamp(math.ceil(time.time() + free / SECOND))
        else:
            when = _WHOLE.get(free) or duration(free)
        headers += (
            (limit, b"%d" % window.limit),
            (remaining, b"%d" % room if room > 0 else b"0"),
            (reset, when),
        )
    return headers


def duration(nanoseconds: int) -> bytes:
    """A duration as Go writes it, to the millisecond: 12ms, 1.5s, 6m0s, 1h0m0s."""
    ms = -(-nanoseconds // 1_000_000)
    if ms < 1000:
        return b"%dms" % ms
    minutes, ms = divmod(ms, 60_000)
    hours, minutes = divmod(minutes, 60)
    seconds = f"{ms / 1000:.3f}".rstrip("0").rstrip(".")
    text = f"{hours}h{minutes}m{seconds}s" if hours else f"{minutes}m{seconds}s"
    return (text if hours or minutes else f"{seconds}s").encode()


_WHOLE: Final = {period: duration(period) for period in PERIODS.values()}


@lru_cache(maxsize=8)
def _timestamp(seconds: int) -> bytes:
    """RFC 3339. seconds: Unix time."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ").encode()


def _room(window: Window) -> int:
    return window.remaining()
