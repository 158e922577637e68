"""Batches of events, from who has them to who wants them."""

from collections.abc import AsyncGenerator, Callable, Sequence

from schemas.events import Event

EventSink = Callable[[Sequence[Event]], bool]
"""Takes events without waiting. False: it has them, but cannot take more for now."""

EventSource = AsyncGenerator[list[Event], EventSink | None]
"""Batches of events. If a sink is sent to it in reply to content (`asend`), it gives events to that
sink, and yields only when the sink takes no more. Other generators ignore what is sent to them."""
