"""Headers that show a client its limits, as OpenAI's and Anthropic's clients read them.

https://platform.openai.com/docs/guides/rate-limits#rate-limits-in-headers
https://docs.anthropic.com/en/api/rate-limits#response-headers
"""

import math
import time
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

from msgspec import Struct

from gateway.limits.ledger import Accounts
from gateway.limits.limits import SECOND
from gateway.limits.window import Window

Headers = list[tuple[bytes, bytes]]

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

_Part = tuple[Window, tuple[bytes, bytes], tuple[bytes, bytes]]
"""A window, and the two of its headers that are the same for all admitted requests."""

_Kind = tuple[bytes, _Part, tuple[_Part, ...]]
"""The name of the third header, the first window and the others."""


class HeaderParts(Struct, frozen=True):
    """What of OpenAI's headers is the same for all admitted requests of some accounts."""

    kinds: tuple[_Kind, ...]


def admitted_headers(accounts: Accounts, headers: Headers, anthropic: bool) -> None:
    """Add the limit, what remains, and when everything is free again, after `reserve`.

    Of requests and of tokens; if several limits apply, of the one with the least room. As the
    request counts from now on, everything is free again after a whole period.
    """
    if anthropic:
        _add_anthropic(accounts, headers, None)
        return
    known = accounts.header_parts
    if type(known) is not HeaderParts:
        known = accounts.header_parts = _parts(accounts)
    for remaining, (window, limit, reset), others in known.kinds:
        room = window.room + window.elsewhere
        for other, other_limit, other_reset in others:
            least = other.room + other.elsewhere
            if least < room:
                room, limit, reset = least, other_limit, other_reset
        headers += (limit, (remaining, b"%d" % room if room > 0 else b"0"), reset)


def _parts(accounts: Accounts) -> HeaderParts:
    kinds: list[_Kind] = []
    for windows, (limit, remaining, reset) in zip(
        (accounts.requests, accounts.tokens), _OPENAI, strict=True
    ):
        parts = [
            (one, (limit, b"%d" % one.limit), (reset, duration(one.period))) for one in windows
        ]
        if parts:
            kinds.append((remaining, parts[0], tuple(parts[1:])))
    return HeaderParts(tuple(kinds))


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


@lru_cache(maxsize=8)
def _timestamp(seconds: int) -> bytes:
    """RFC 3339. seconds: Unix time."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ").encode()


def _room(window: Window) -> int:
    return window.room + window.elsewhere
