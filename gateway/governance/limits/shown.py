"""What OpenAI's headers show of a limit that admits a request, apart from what remains.

https://platform.openai.com/docs/guides/rate-limits#rate-limits-in-headers
"""

from collections.abc import Sequence
from typing import Final

from strowger_gateway.gateway.governance.limits.window import Window

Header = tuple[bytes, bytes]
Headers = list[Header]

Shown = tuple[Header, Header]
"""The limit, and when everything is free again: as the request counts from now on, a period."""

REQUESTS: Final = b"requests"
TOKENS: Final = b"tokens"
REQUESTS_LEFT: Final = b"x-ratelimit-remaining-requests"
TOKENS_LEFT: Final = b"x-ratelimit-remaining-tokens"


def shown_of(window: Window, kind: bytes) -> Shown:
    """The two headers that are the same for all admitted requests. kind: REQUESTS or TOKENS."""
    return (
        (b"x-ratelimit-limit-" + kind, b"%d" % window.limit),
        (b"x-ratelimit-reset-" + kind, duration(window.period)),
    )


def show(windows: Sequence[tuple[Window, Shown]], left: bytes, headers: Headers) -> None:
    """Add the headers of the window with the least room, here or elsewhere."""
    if not windows:
        return
    window, shown = windows[0]
    room = window.room + window.elsewhere
    for other, own in windows[1:]:
        if other.room + other.elsewhere < room:
            room, shown = other.room + other.elsewhere, own
    headers += (shown[0], (left, b"%d" % room if room > 0 else b"0"), shown[1])


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
