"""Answer with a stream: from the first event, or its failure, to the last frame.

1. `_source` puts the events together: attempts and failover, recovery, then the filters.
2. Until the first content nothing is sent, so a failure is still an answer with its own status.
3. After it, the `StreamOutput` goes down to the backend's answer as a sink: events become frames in
   the turn in which they arrive, and no coroutine wakes (ADR 24).
4. Whatever happens then is a frame: the end, an error, or the end of a stored answer.
"""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing, suppress
from functools import partial
from typing import cast

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.http.continuing.response_storage import storing
from strowger_gateway.gateway.http.error_fields import explain
from strowger_gateway.gateway.routing.execution import pipeline
from strowger_gateway.gateway.routing.execution.release_traceback import release_traceback
from strowger_gateway.gateway.routing.execution.restarted_stream import restarted_stream
from strowger_gateway.gateway.routing.execution.stream_recovery import recovered_stream
from strowger_gateway.gateway.server.asgi.response import DisconnectGuard, ResponseWriter
from strowger_gateway.gateway.stages.request_context import RequestContext
from strowger_gateway.gateway.surfaces.base import EVENT_STREAM, Renderer
from strowger_gateway.gateway.surfaces.hot_route import HotRoute
from strowger_gateway.schemas.errors import GatewayError
from strowger_gateway.schemas.events import Event, EventSource, TextDelta
from strowger_gateway.schemas.requests import GenerateRequest


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


class Streaming:
    """Streams the answers of one route."""

    def __init__(self, gateway: Gateway, at: HotRoute) -> None:
        self._gateway = gateway
        self._surface = at.surface
        self._stores = at.stores
        kind = at.surface.stream_media_type
        self._type = None if kind == EVENT_STREAM else [(b"content-type", kind.encode())]

    async def answer(
        self,
        request: RequestContext,
        sent: GenerateRequest,
        renderer: Renderer,
    ) -> None:
        """Send frames as events arrive. Raises before the first byte; later errors are frames."""
        with DisconnectGuard(request.exchange) as guard:
            await self._stream(request, sent, renderer, guard)

    async def _stream(
        self,
        request: RequestContext,
        sent: GenerateRequest,
        renderer: Renderer,
        guard: DisconnectGuard,
    ) -> None:
        record, response, keepalive = request.record, request.response, self._gateway.keepalive
        surface = self._surface
        output = StreamOutput(renderer, response, comments=surface.comments)
        keepalive.add(response, surface.keep_alive, surface.commit_after_s, self._type)
        source = _source(request, sent, output)
        try:
            async with aclosing(source):
                held = await _first_batch(source, response)
                if not response.started:
                    named = record.backend if record.participation.shown else record.model
                    await response.start(renderer.headers(named))
                with suppress(StopAsyncIteration):
                    while True:
                        await output.write(held)
                        held = await source.asend(output)
        except GatewayError as exc:
            if not response.started:
                raise
            await explain(exc, request, surface.field_names)
            exc.request_id = record.request_id
            record.record_error(exc)
            guard.disarm()
            await response.end(renderer.error(exc))
            release_traceback(exc)
        else:
            if self._stores and (kept := storing(request, renderer, self._gateway)):
                await kept.end(response)
            guard.disarm()
            await response.end(renderer.finish())
        finally:
            keepalive.remove(response)


def _source(request: RequestContext, sent: GenerateRequest, output: StreamOutput) -> EventSource:
    """The events, as the plan wants them, recovered or restarted, and as the filters let them."""
    plan, record = request.plan, request.record
    assert plan is not None
    if plan.continues:
        source = recovered_stream(
            plan, sent, record, tenant=record.caller, announce=output.announce
        )
    elif plan.restarts:
        # It knows no sinks: all is in one batch.
        source = cast("EventSource", restarted_stream(plan, sent, record, tenant=record.caller))
    else:
        source = pipeline.stream(plan, sent, record, tenant=record.caller)
    for one in request.filters:
        source = one.events(source, plan)
    return source


async def _first_batch(
    source: AsyncGenerator[list[Event], None], response: ResponseWriter
) -> list[Event]:
    """Return the first batch, or raise its failure, once a head that is being sent has gone."""
    try:
        return await anext(source)
    finally:
        if response.beginning is not None:
            await response.begun()
