"""Batches of events, from who has them to who wants them."""

from collections.abc import AsyncGenerator, Sequence
from typing import Protocol

from schemas.events import Event


class EventSink(Protocol):
    """Takes events without waiting. False: it has them, but cannot take more for now."""

    def events(self, batch: Sequence[Event]) -> bool: ...

    def text(self, text: str, index: int) -> bool:
        """Take `TextDelta(text=text, index=index)`, as most batches are: that saves the event.

        text: not empty.
        """
        ...


EventSource = AsyncGenerator[list[Event], EventSink | None]
"""Batches of events. If a sink is sent to it in reply to content (`asend`), it gives events to that
sink, and yields only when the sink takes no more. Other generators ignore what is sent to them."""
