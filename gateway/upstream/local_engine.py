"""Call a local engine over its Unix socket: one connection per worker for all its requests."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from itertools import count
from pathlib import Path
from types import MappingProxyType
from typing import cast

import msgspec

from adapters.base import Supports
from gateway.clock import now
from gateway.config.schema.connection import Timeouts
from gateway.eventloop.inline_task import in_task
from gateway.eventloop.turn import current_turn
from gateway.trace_context import EngineSpan
from gateway.upstream.base import Call
from gateway.upstream.local_capabilities import LOCAL_SUPPORTS
from gateway.upstream.local_count import CountsByReading
from gateway.upstream.local_embeddings import to_embeddings
from gateway.upstream.pending_answer import Part, PendingAnswer
from local_engine.protocol.frames import (
    Batch,
    BrokenFrame,
    Cancel,
    Deltas,
    Embed,
    Failed,
    FrameReader,
    Ready,
    StatsReply,
    StatsRequest,
    Submit,
    ToEngine,
    ToWorker,
    Vectors,
    encode_request,
    frame,
    raised,
)
from local_engine.protocol.stats import Stats
from local_engine.requests.request_limits import refuse_excess, refuse_unfit
from local_engine.text.text_length import Reach
from schemas.answers import Embeddings
from schemas.errors import (
    UpstreamBroken,
    UpstreamLost,
    UpstreamStarting,
    UpstreamTimeout,
)
from schemas.events import CONTENT, Event, Usage
from schemas.requests import EmbeddingsRequest, GenerateRequest

BACKOFF_S, MAX_BACKOFF_S = 0.02, 0.5
"""Seconds between connection attempts; a request in between fails immediately."""

ENGINE_LOST = "the connection to the engine is lost"

_TIMEOUTS = Timeouts()
_decoder: msgspec.msgpack.Decoder[ToWorker] = msgspec.msgpack.Decoder(ToWorker)


class LocalUpstream(CountsByReading):
    """Connects on the first request, and again after the connection is lost."""

    def __init__(
        self,
        name: str,
        socket_path: Path,
        timeouts: Timeouts = _TIMEOUTS,
        status: Callable[[], str] = lambda: "not running",
        ready_in: Callable[[], float | None] = lambda: None,
        state: Callable[[], str] = lambda: "",
        weights: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """timeouts: as for a remote provider; the engine streams every answer to the gateway.

        status: what the engine does while it does not respond; for the log, because it may
        contain files and addresses. ready_in: seconds until it should respond again.
        state: `status` in one word, for clients. weights: by model, see ResumesAnswers.
        """
        self.name, self.timeouts = name, timeouts
        self._path = socket_path
        self._status, self._state, self._ready_in = status, state, ready_in
        self._weights = weights
        self._link: _Link | None = None
        self._connecting: asyncio.Lock = asyncio.Lock()
        self._failures, self._retry_at, self.reaches = 0, 0.0, dict[str, Reach]()

    @property
    def supports(self) -> Supports:
        return LOCAL_SUPPORTS

    async def generate(
        self, request: GenerateRequest, call: Call
    ) -> AsyncGenerator[list[Event], None]:
        """See Upstream.generate. Closing it early frees the engine's sequences within a step.

        Raises UpstreamStarting if no engine listens, UpstreamLost if its connection is lost,
        UpstreamTimeout past a timeout or the call's deadline, and the engine's own errors.
        """
        started, limits = now(), self.timeouts
        over = min(started + limits.total_s, call.deadline)
        link = await self._connected(min(started + limits.connect_s, over))
        if (reach := link.reaches.get(call.model)) is not None:
            refuse_excess(request)
            refuse_unfit(request, reach)
        drawn = call.drawn
        if drawn is not None:
            request = drawn.begin(request, self.weights_of(call.model))
        pending = link.submit(request, call)
        by, begun = min(started + limits.first_token_s, over), False
        try:
            while True:
                batches = await pending.take(by)
                if not batches:
                    raise self._late(by < over, begun)
                for batch in batches:
                    if drawn is not None:
                        drawn.ids += batch.drawn
                    if batch.events:
                        yield list(batch.events)
                        begun = begun or _shows_progress(batch)
                    if batch.last:
                        if call.trace is not None and (phases := batch.phases) is not None:
                            call.trace.engine = EngineSpan(
                                phases.queue_s, phases.prefill_s, phases.decode_s, now()
                            )
                        return
                if begun:
                    by = min(now() + limits.between_tokens_s, over)
        finally:
            link.forget(pending)

    def weights_of(self, model: str) -> str:
        """See ResumesAnswers."""
        return self._weights.get(model, "")

    async def embed(self, request: EmbeddingsRequest, call: Call) -> Embeddings:
        """Raises as `generate` does. Cancelling it drops the remaining inputs."""
        started, limits = now(), self.timeouts
        over = min(started + limits.total_s, call.deadline)
        link = await self._connected(min(started + limits.connect_s, over))
        if (reach := link.reaches.get(call.model)) is not None:
            refuse_unfit(request, reach)
        pending = link.embed(request, call)
        pieces: list[Vectors] = []
        try:
            while not pieces or not pieces[-1].last:
                more = await pending.take(over)
                if not more:
                    raise self._late(False, False)
                pieces += more
        finally:
            link.forget(pending)
        return to_embeddings(pieces, call, base64=request.base64)

    async def stats(self) -> dict[str, Stats]:
        """Return the engine's statistics by model. Raises as `generate` does."""
        return (await self.measured()).stats

    async def measured(self) -> StatsReply:
        """Return the engine's report on itself. Raises as `generate` does."""
        link = await self._connected(now() + self.timeouts.connect_s)
        return await link.measured()

    async def aclose(self) -> None:
        if self._link is not None:
            self._link.close()

    def on_engine_ready(self) -> None:
        """The engine reports that it is ready: the next request connects without a backoff."""
        self._failures, self._retry_at = 0, 0.0

    async def _connected(self, by: float) -> "_Link":
        """Return the live link. One task connects; the others wait and share its result."""
        if self._link is not None and self._link.alive:
            return self._link
        await in_task()
        try:
            async with asyncio.timeout_at(by):
                await self._connecting.acquire()
            try:
                if self._link is None or not self._link.alive:
                    self._link = await self._connect(by)
                return self._link
            finally:
                self._connecting.release()
        except TimeoutError as exc:
            late = "no connection in time (timeouts.connect_s)"
            detail = f"{late}: {self._status()}"
            raise UpstreamTimeout(late, upstream=self.name, detail=detail) from exc

    async def _connect(self, by: float) -> "_Link":
        """Raises UpstreamStarting, and TimeoutError at `by`. Leaves nothing open on failure."""
        loop = asyncio.get_running_loop()
        if loop.time() < self._retry_at:
            raise self._starting()
        link = _Link(self.name)
        scope = asyncio.timeout_at(by)
        try:
            async with scope:
                await loop.create_unix_connection(lambda: link, str(self._path))
                await link.ready
        except (OSError, UpstreamBroken) as exc:
            link.give_up()
            self._failures += 1
            pause = min(BACKOFF_S * 2.0 ** (self._failures - 1), MAX_BACKOFF_S)
            self._retry_at = loop.time() + pause
            if isinstance(exc, TimeoutError) and scope.expired():
                raise
            raise self._starting() from exc
        except asyncio.CancelledError:
            link.give_up()
            raise
        self._failures, self.reaches = 0, link.reaches
        return link

    def _late(self, early: bool, begun: bool) -> UpstreamTimeout:
        """early: before the total timeout of the answer."""
        if not early:
            problem = "the engine's answer was not complete in time (timeouts.total_s)"
        elif begun:
            problem = "the engine's answer stalled (timeouts.between_tokens_s)"
        else:
            problem = "the engine's first token is late (timeouts.first_token_s)"
        return UpstreamTimeout(problem, upstream=self.name)

    def _starting(self) -> UpstreamStarting:
        message, state = "the engine does not respond", self._state()
        return UpstreamStarting(
            f"{message}: {state}" if state else message,
            upstream=self.name,
            retry_after=self._ready_in(),
            detail=f"{message}: {self._status()}",
        )


def _shows_progress(batch: Batch) -> bool:
    """Return whether the model generates, even if the text is withheld (best_of)."""
    return any(
        isinstance(event, CONTENT) or (isinstance(event, Usage) and bool(event.completion_tokens))
        for event in batch.events
    )


class _Link(asyncio.Protocol):
    """One connection. When it is lost, every request on it fails."""

    def __init__(self, upstream: str) -> None:
        self._turn = current_turn()
        loop = self._turn.loop
        self.alive = False
        self.reaches: dict[str, Reach] = {}
        self.ready: asyncio.Future[None] = loop.create_future()
        self._loop = loop
        self._upstream = upstream
        self._reader = FrameReader()
        self._ids = count(1)
        self._pending: dict[int, PendingAnswer[Batch]] = {}
        self._embedding: dict[int, PendingAnswer[Vectors]] = {}
        self._stats_waiters: list[asyncio.Future[StatsReply]] = []
        self._transport: asyncio.Transport | None = None

    def submit(self, request: GenerateRequest, call: Call) -> PendingAnswer[Batch]:
        pending = PendingAnswer[Batch](next(self._ids), self._turn)
        self._pending[pending.id] = pending
        self._send(
            pending,
            Submit(
                id=pending.id,
                request=encode_request(request),
                model=call.model,
                request_id=call.request_id,
                tenant=call.tenant,
                resumable=call.drawn is not None,
                drawn=() if call.drawn is None else call.drawn.replayed,
                traceparent="" if call.trace is None else call.trace.exported_parent,
            ),
        )
        return pending

    def embed(self, request: EmbeddingsRequest, call: Call) -> PendingAnswer[Vectors]:
        pending = PendingAnswer[Vectors](next(self._ids), self._turn)
        self._embedding[pending.id] = pending
        body = encode_request(request)
        embed = Embed(id=pending.id, request=body, model=call.model, tenant=call.tenant)
        self._send(pending, embed)
        return pending

    def forget(self, pending: PendingAnswer[Batch] | PendingAnswer[Vectors]) -> None:
        """Drop the request's frames from now on; cancel it in the engine unless it is done."""
        self._pending.pop(pending.id, None)
        self._embedding.pop(pending.id, None)
        if not pending.over:
            self._write(Cancel(id=pending.id))

    async def measured(self) -> StatsReply:
        reply: asyncio.Future[StatsReply] = self._loop.create_future()
        self._stats_waiters.append(reply)
        self._write(StatsRequest())
        return await reply

    def close(self) -> None:
        if self._transport is not None:
            self._turn.flush(self._transport)
            self._transport.close()

    def give_up(self) -> None:
        """Cancel the wait until the engine is ready, and close."""
        self.ready.cancel()
        self.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is not a subclass of it

    def data_received(self, data: bytes) -> None:
        try:
            for body in self._reader.feed(data):
                self._receive(_decoder.decode(body))
        except (BrokenFrame, msgspec.DecodeError) as exc:
            self.close()
            self._lose(f"the engine's frames cannot be read: {exc}")

    def connection_lost(self, exc: Exception | None) -> None:
        self._lose(ENGINE_LOST)

    def _receive(self, message: ToWorker) -> None:
        match message:
            case Deltas(batches=batches):
                for batch in batches:
                    if (pending := self._pending.get(batch.id)) is not None:
                        pending.put(batch)
            case Vectors(id=id):
                if (embedding := self._embedding.get(id)) is not None:
                    embedding.put(message)
            case Failed(id=id):
                if (failing := self._pending.get(id) or self._embedding.get(id)) is not None:
                    failing.fail(raised(message, self._upstream))
            case StatsReply():
                if self._stats_waiters and not (reply := self._stats_waiters.pop(0)).done():
                    reply.set_result(message)
            case Ready():
                self.alive, self.reaches = True, message.reaches
                if not self.ready.done():
                    self.ready.set_result(None)

    def _lose(self, why: str) -> None:
        self.alive = False
        self._transport = None
        lost = UpstreamLost(why, upstream=self._upstream)
        for pending in (*self._pending.values(), *self._embedding.values()):
            if not pending.over:
                pending.fail(lost)
        for waiter in (*self._stats_waiters, self.ready):
            if not waiter.done():
                waiter.set_exception(lost)
        self._stats_waiters.clear()

    def _send(self, pending: PendingAnswer[Part], message: Submit | Embed) -> None:
        """Send, or fail: the engine may close between its first frame and a waiting request."""
        if self.alive:
            self._write(message)
        else:
            pending.fail(UpstreamLost(ENGINE_LOST, upstream=self._upstream))

    def _write(self, message: ToEngine) -> None:
        if self._transport is not None:
            self._turn.write(self._transport, frame(message))
