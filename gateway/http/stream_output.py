"""The frames of one stream, written as its events arrive."""

from collections.abc import Sequence
from typing import cast

from gateway.asgi.response import ResponseWriter
from gateway.surfaces.base import Renderer, TextRenderer
from schemas.events import Event, TextDelta

_texts: dict[type[Renderer], bool] = {}
"""Which renderers are TextRenderers: isinstance with a protocol is slow."""


class StreamOutput:
    """An EventSink that renders events and writes the frames. `write` does it in a coroutine.

    It is full while the client does not read.
    """

    __slots__ = ("_frame_now", "_held", "_render", "_render_text", "_response")

    def __init__(self, renderer: Renderer, response: ResponseWriter) -> None:
        self._render = renderer.events
        kind = type(renderer)
        known = _texts.get(kind)
        if known is None:
            known = _texts[kind] = isinstance(renderer, TextRenderer)
        self._render_text = cast(TextRenderer, renderer).text_frame if known else self._as_event
        self._response = response
        self._frame_now = response.frame_now
        self._held = b""

    def events(self, batch: Sequence[Event]) -> bool:
        """See EventSink."""
        data = self._render(batch)
        if not data or self._frame_now(data):
            return True
        self._held = data
        return False

    def text(self, text: str, index: int) -> bool:
        """See EventSink."""
        data = self._render_text(text, index)
        if not data or self._frame_now(data):
            return True
        self._held = data
        return False

    def _as_event(self, text: str, index: int) -> bytes:
        return self._render((TextDelta(text=text, index=index),))

    async def write(self, batch: Sequence[Event]) -> None:
        """Write what the sink could not, and these events. Waits while the client does not read."""
        data, self._held = self._held + self._render(batch), b""
        if data and not self._response.frame_now(data):
            await self._response.frame(data)
