"""The bodies of one request and its answer, kept until the request has ended: payload logging."""

from typing import Final

from msgspec import Struct

MAX_CAPTURED: Final = 1024 * 1024
"""Bytes of one body; a larger one is not kept, because redaction has to read it as a whole."""


class CaptureBudget:
    """Memory for captured bodies, of requests in flight and of those that wait to be written."""

    __slots__ = ("held", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.held = 0

    def take(self, size: int) -> bool:
        """Take bytes if there is room."""
        if self.held + size > self.limit:
            return False
        self.held += size
        return True


class CapturedPayload(Struct, kw_only=True, gc=False):
    """request: `None` if it is too large. parts: of the answer; streamed: they are frames.

    too_large: the answer is. withheld: guardrails may mask parts of the request, so that it is not
    written. Only the event loop's thread may call the methods.
    """

    budget: CaptureBudget
    request: bytes | None
    request_bytes: int
    answer_bytes: int = 0
    held: int
    parts: list[bytes]
    streamed: bool = False
    too_large: bool = False
    withheld: bool = False

    def add(self, data: bytes, *, streamed: bool) -> None:
        """Keep a piece of the answer."""
        size = len(data)
        self.streamed = streamed
        self.answer_bytes += size
        if self.too_large:
            return
        if self.answer_bytes > MAX_CAPTURED or not self.budget.take(size):
            self.too_large = True
            self.parts.clear()
            return
        self.held += size
        self.parts.append(data)

    def release(self) -> None:
        """Give the memory back; the bodies may not be used any more."""
        self.budget.held -= self.held
        self.held = 0
