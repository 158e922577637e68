"""Server-sent events as they leave the gateway: one `data:` line a frame.

https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

from typing import Final

import msgspec

DONE: Final = b"data: [DONE]\n\n"
"""The end mark of the OpenAI dialect; a stream that failed goes without it."""

KEEP_ALIVE: Final = b": keep-alive\n\n"
"""A comment, which clients skip."""


def frame(data: bytes) -> bytes:
    """data: JSON without line breaks, as every encoder of ours writes it."""
    return b"data: " + data + b"\n\n"


def one_line(json: bytes) -> bytes:
    """JSON from elsewhere without line breaks, which would end an event's data line."""
    return msgspec.json.format(json, indent=-1) if b"\n" in json or b"\r" in json else json
