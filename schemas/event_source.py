"""Batches of events, from who has them to who wants them."""

from collections.abc import AsyncGenerator, Callable, Sequence
from functools import partial
from typing import cast

from strowger_gateway.schemas.events import Event, TextDelta

EventSink = Callable[[Sequence[Event]], bool]
"""Takes events without waiting. False: it has them, but cannot take more for now.

A sink may have a method `text`, a TextSink that takes the same as a batch of one TextDelta."""

TextSink = Callable[[str, int], bool]
"""Takes a piece of text, not "", and the index of its choice; returns as an EventSink does."""

EventSource = AsyncGenerator[list[Event], EventSink | None]
"""Batches of events. If a sink is sent to it in reply to content (`asend`), it gives events to that
sink, and yields only when the sink takes no more. Other generators ignore what is sent to them."""


def text_sink(sink: EventSink) -> TextSink:
    """Return what takes pieces of text for the sink: its own method, or events made of them."""
    own = cast("TextSink | None", getattr(sink, "text", None))
    return partial(_as_event, sink) if own is None else own


def _as_event(sink: EventSink, text: str, index: int) -> bool:
    return sink((TextDelta(text=text, index=index),))
