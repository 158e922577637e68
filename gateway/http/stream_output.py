"""The frames of one stream, written as its events arrive."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import cast

from strowger_gateway.gateway.server.asgi.response import ResponseWriter
from strowger_gateway.gateway.surfaces.base import Renderer
from strowger_gateway.schemas.events import Event, TextDelta


class StreamOutput:
    """Renders events and writes the frames: an EventSink outside a coroutine, `write` in one."""

    __slots__ = ("_comments", "_held", "_render", "_render_text", "_response")

    def __init__(self, renderer: Renderer, response: ResponseWriter, *, comments: bool) -> None:
        """comments: the client ignores comments."""
        self._comments = comments
        self._render = renderer.events
        own = cast("Callable[[str, int], bytes] | None", getattr(renderer, "text", None))
        self._render_text = partial(_as_event, renderer) if own is None else own
        self._response = response
        self._held = b""

    def announce(self, code: str) -> None:
        """Say in a comment, before the next frame, after which failure the stream is continued."""
        if self._comments:
            self._held += b": continued after %b\n\n" % code.encode()

    def __call__(self, batch: Sequence[Event]) -> bool:
        """See EventSink. It is full while the client does not read."""
        data = self._render(batch)
        if not data or self._response.frame_now(data):
            return True
        self._held = data
        return False

    def text(self, text: str, index: int) -> bool:
        """See EventSink."""
        data = self._render_text(text, index)
        if not data or self._response.frame_now(data):
            return True
        self._held = data
        return False

    async def write(self, batch: Sequence[Event]) -> None:
        """Write what the sink could not, and these events. Waits while the client does not read."""
        data, self._held = self._held + self._render(batch), b""
        if data and not self._response.frame_now(data):
            await self._response.frame(data)


def _as_event(renderer: Renderer, text: str, index: int) -> bytes:
    return renderer.events((TextDelta(text=text, index=index),))
