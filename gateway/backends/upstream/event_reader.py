"""A streamed body as events, and the time in which its next content has to arrive."""

from collections.abc import Callable, Sequence
from typing import Final, cast

from strowger_gateway.adapters.base import Decoder, EndMarked
from strowger_gateway.adapters.framing import (
    UNREADABLE,
    Frame,
    FrameParser,
    TextPlace,
    read_text,
)
from strowger_gateway.gateway.backends.upstream.large_answers import LARGE, check_frame
from strowger_gateway.gateway.backends.upstream.patience import Patience
from strowger_gateway.gateway.backends.upstream.transport import AnswerTooLarge
from strowger_gateway.gateway.platform.clock import now
from strowger_gateway.schemas.errors import UpstreamError, UpstreamSilent
from strowger_gateway.schemas.events import (
    CONTENT,
    Event,
    EventSink,
    TextDelta,
    TextSink,
    text_sink,
)

_SEARCHES: Final = 8
"""Frames in a row whose text is looked for without effect: their other bytes differ each time."""


class EventReader:
    """Reads one body: `read` returns a piece's events, `push` gives them to a sink.

    by: loop time by which the next piece has to arrive: any moves it, but only content moves the
    time by which the next content has to arrive.
    content: some has arrived. partial: the events before the frame at which `read` failed.
    sink_is_full: the sink cannot take more now.
    """

    __slots__ = (
        "_after",
        "_before",
        "_content_at",
        "_decode",
        "_decoder",
        "_end",
        "_find_text",
        "_from",
        "_index",
        "_left",
        "_over",
        "_parse",
        "_parser",
        "_patience",
        "_searches",
        "_sink",
        "_step_s",
        "_take_text",
        "_to",
        "_upstream",
        "by",
        "content",
        "partial",
        "sink_is_full",
    )

    def __init__(
        self,
        parser: FrameParser,
        decoder: Decoder,
        end: EndMarked | None,
        upstream: str,
        *,
        started: float,
        patience: Patience,
        over: float,
        most_bytes: int = 2**62,
    ) -> None:
        """end: the decoder, if its dialect has an end mark.

        started: loop time of the request. over: loop time of the last event. most_bytes: of the
        body.
        """
        self._left = most_bytes
        self._parser = parser
        self._decoder = decoder
        self._parse, self._decode = parser.feed, decoder.feed
        self._end = end
        self._upstream = upstream
        self._patience = patience
        # Content moves both limits at once, so that the shorter one is enough for it.
        self._step_s = min(patience.between_s, patience.later_silence_s)
        self._content_at = started
        self._over = over
        self._sink: EventSink = _nowhere
        self._take_text: TextSink = text_sink(_nowhere)
        # What surrounds the text of the last frame, if it was nothing but text: a frame with the
        # same bytes around its text needs no decoder. b"": the next frame has to be decoded.
        self._before = self._after = b""
        self._from = self._to = self._index = self._searches = 0
        self._find_text = cast(
            "Callable[[bytes, int], TextPlace | None] | None", getattr(decoder, "text_place", None)
        )
        self.by = min(now() + patience.silence_s, started + patience.first_s, over)
        self.content = self.sink_is_full = False
        self.partial: Sequence[Event] = ()

    @property
    def ended(self) -> bool:
        """Return whether the end mark has arrived."""
        return self._end is not None and self._end.ended

    def read(self, piece: bytes) -> Sequence[Event]:
        """Decode a piece of the body. Raises UpstreamError."""
        self._left -= len(piece)
        if self._left < 0:
            raise self._too_long()
        events = self._decode_all(self._parse(piece))
        if events and (self.content or any(isinstance(event, CONTENT) for event in events)):
            self.content = True
            self._content_at = at = now()
            self.by = min(at + self._step_s, self._over)
        else:
            self._on_life()
        return events

    def _decode_all(self, frames: list[Frame]) -> Sequence[Event]:
        events: list[Event] = []
        self.partial = events
        for name, data in frames:
            if len(data) > LARGE:
                check_frame(data, self._upstream)
            events += self._decode(name, data)
        self.partial = ()
        return events

    def _on_life(self) -> None:
        """Bytes have arrived, but no content: SSE comments, pings, the start of an answer.

        Raises UpstreamSilent if they have kept the answer waiting for too long.
        """
        at, patience = now(), self._patience
        if self.content:
            silence_s, content_s = patience.later_silence_s, patience.between_s
        else:
            silence_s, content_s = patience.silence_s, patience.first_s
        last = min(self._content_at + content_s, self._over)
        if at >= last:
            self.by = last
            raise UpstreamSilent("sent no content in time", upstream=self._upstream)
        self.by = min(at + silence_s, last)

    def _too_long(self) -> AnswerTooLarge:
        return AnswerTooLarge("the streamed answer is too long", upstream=self._upstream)

    def explain(self, error: UpstreamSilent) -> None:
        """Add to the error of a body that ended at `by` which setting that is."""
        patience, content = self._patience, self.content
        content_s = patience.between_s if content else patience.first_s
        if self.by >= self._over:
            limit = "total_s"
        elif self.by < self._content_at + content_s:
            limit = "silence_s"
        else:
            limit = "between_tokens_s" if content else "first_token_s"
        error.message = error.logged = f"{error.message} (timeouts.{limit})"
        error.args = (error.logged,)

    def use(self, sink: EventSink) -> None:
        """Set the sink that `push` gives events to."""
        self._sink, self._take_text = sink, text_sink(sink)
        self.sink_is_full = False

    def push(self, piece: bytes) -> float | None:
        """Give the piece's events to the sink.

        Returns `by`, or `None` if the coroutine that reads the body has to continue: at the end
        mark, or because the sink is full. Raises UpstreamError; the sink has the events before it.
        """
        self._left -= len(piece)
        if self._left < 0:
            raise self._too_long()
        before = self._before
        if before:
            if piece.startswith(before) and piece.endswith(self._after):
                try:
                    text = read_text(piece[self._from : self._to])
                except UNREADABLE:
                    pass  # several frames, for example
                else:
                    self._searches = 0
                    self._content_at = by = now()
                    by += self._step_s
                    if by > self._over:
                        by = self._over
                    self.by = by
                    if self._take_text(text, self._index):
                        return by
                    self.sink_is_full = True
                    return None
            self._before = b""
        try:
            frames = self._parse(piece)
            if len(frames) == 1 and len(frames[0][1]) <= LARGE:
                events = self._decode(*frames[0])
            else:
                events = self._decode_all(frames)
        except UpstreamError:
            if self.partial:
                self._sink(self.partial)
            raise
        if events:
            self._content_at = by = now()
            by += self._step_s
            if by > self._over:
                by = self._over
            self.by = by
            if len(events) == 1 and type(events[0]) is TextDelta and self._find_text is not None:
                self._learn(piece, frames, events[0].index)
            if not self._sink(events):
                self.sink_is_full = True
                return None
        else:
            self._on_life()
        end = self._end
        return None if end is not None and end.ended else self.by

    def _learn(self, piece: bytes, frames: list[Frame], index: int) -> None:
        """Note what surrounds the text of a piece that is one frame of text."""
        self._searches += 1
        if self._searches > _SEARCHES:
            self._find_text = None
        find, (name, data) = self._find_text, frames[0]
        if find is None or name or len(frames) > 1 or piece != b"data: %b\n\n" % data:
            return
        place = find(data, index)
        if place is not None:
            self._before, self._after = b"data: " + place.before, place.after + b"\n\n"
            self._from, self._to = len(self._before) - 1, 1 - len(self._after)
            self._index = place.index

    def close(self) -> list[Event]:
        """Return the events that the body's end completes. Raises UpstreamError if it was cut."""
        decoder = self._decoder
        tail = [event for name, data in self._parser.close() for event in decoder.feed(name, data)]
        return [*tail, *decoder.close()]


def _nowhere(_: Sequence[Event]) -> bool:
    """The sink before `use`. Raises RuntimeError."""
    raise RuntimeError("push needs a sink: call use first")
