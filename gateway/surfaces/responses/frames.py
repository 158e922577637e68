"""Frames of a Responses stream: one semantic event per frame, with its type as the event's name.

https://platform.openai.com/docs/api-reference/responses-streaming
"""

from typing import Final

ERROR: Final = b"event: error\n"
"""The line before the data of a failure."""

TEXT_END: Final = b',"logprobs":[],"sequence_number":%d}\n\n'
"""Ends a delta of text that `delta_start` begins."""

DELTA_END: Final = b',"sequence_number":%d}\n\n'
"""Ends any other delta that `delta_start` begins."""


def event(kind: bytes, members: bytes, number: int) -> bytes:
    """members: JSON members of the event, without type and number."""
    return b'event: %b\ndata: {"type":"%b",%b,"sequence_number":%d}\n\n' % (
        kind,
        kind,
        members,
        number,
    )


def delta_start(kind: bytes, place: bytes) -> bytes:
    """Return the bytes of a delta before its text. place: members that locate it."""
    return b'event: %b\ndata: {"type":"%b",%b,"delta":' % (kind, kind, place)
