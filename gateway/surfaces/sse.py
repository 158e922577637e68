"""Server-sent events as the gateway sends them: one `data:` line per frame.

https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

from typing import Final

import msgspec

DONE: Final = b"data: [DONE]\n\n"
"""The end mark of the OpenAI dialect; a failed stream ends without it."""

KEEP_ALIVE: Final = b": keep-alive\n\n"
"""A comment, which clients ignore."""

COMMIT_S: Final = 45.0
"""Seconds without content after which a stream's head is sent: most proxies wait 60 s."""

AGENTS_COMMIT_S: Final = 15.0
"""The same on APIs whose clients know events without content, and errors in streams."""


def frame(data: bytes) -> bytes:
    """data: JSON without line breaks, as all our encoders write it."""
    return b"data: " + data + b"\n\n"


def one_line(json: bytes) -> bytes:
    """Return foreign JSON without line breaks, which would end an event's data line."""
    return msgspec.json.format(json, indent=-1) if b"\n" in json or b"\r" in json else json
