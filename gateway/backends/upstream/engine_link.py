"""One connection to an engine, for all requests of a worker. When it is lost, they all fail."""

import asyncio
from itertools import count
from typing import cast

import msgspec

from strowger_gateway.gateway.backends.upstream.base import Call
from strowger_gateway.gateway.backends.upstream.pending_answer import Part, PendingAnswer
from strowger_gateway.gateway.platform.eventloop.turn import current_turn
from strowger_gateway.local_engine.protocol.frames import (
    PROTOCOL,
    SLOW_WORKER,
    Batch,
    BrokenFrame,
    Cancel,
    ConnectionRefusal,
    Deltas,
    Embed,
    Failed,
    FrameReader,
    Leaving,
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
from strowger_gateway.schemas.errors import (
    BodyTooLarge,
    GatewayError,
    UpstreamBroken,
    UpstreamBusy,
    UpstreamLost,
)
from strowger_gateway.schemas.requests import EmbeddingsRequest, GenerateRequest

ENGINE_LOST = "the connection to the engine is lost"

_decoder: msgspec.msgpack.Decoder[ToWorker] = msgspec.msgpack.Decoder(ToWorker)


class EngineLink(asyncio.Protocol):
    """alive: it takes requests. hello: the engine's first frame, once `ready` is set.

    fault: why it was lost, in words for the log; "" if the connection just ended.
    error: with which it was lost, if there is one.
    """

    def __init__(self, upstream: str) -> None:
        self._turn = current_turn()
        loop = self._turn.loop
        self.alive = False
        self.hello = Ready(models=())
        self.fault = ""
        self.error: Exception | None = None
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
                team=call.holder.team,
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
        embed = Embed(
            id=pending.id,
            request=body,
            model=call.model,
            tenant=call.tenant,
            team=call.holder.team,
        )
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

    @property
    def idle(self) -> bool:
        """Whether nothing waits for the engine."""
        return not (self._pending or self._embedding or self._stats_waiters)

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
            self._refuse(f"the engine's frames cannot be read: {exc}")

    def connection_lost(self, exc: Exception | None) -> None:
        self.error = exc
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
                    failing.fail(self._failure(message))
            case StatsReply():
                if self._stats_waiters and not (reply := self._stats_waiters.pop(0)).done():
                    reply.set_result(message)
            case Ready() if message.protocol != PROTOCOL:
                release = message.release or "another release"
                self._refuse(
                    f"the engine ({release}) speaks version {message.protocol} of the protocol and "
                    f"this gateway version {PROTOCOL}; run the same release on both"
                )
            case Ready():
                self.alive, self.hello = True, message
                if not self.ready.done():
                    self.ready.set_result(None)
            case ConnectionRefusal(why=why):
                self._refuse(f"the engine refused the connection: {why}")
            case Leaving():
                self.alive = False

    def _failure(self, message: Failed) -> GatewayError:
        """Return the error. A full queue is the work of the engine's keys, and not its fault."""
        error = raised(message, self._upstream)
        if isinstance(error, UpstreamBusy):
            error.counts = False
        elif isinstance(error, UpstreamBroken) and message.code == SLOW_WORKER:
            error.counts, error.code = False, UpstreamBroken.code
        return error

    def _refuse(self, why: str) -> None:
        self.fault = why
        self.close()
        self._lose(why)

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
            data = frame(message)
            if len(data) > self.hello.max_request:
                pending.fail(
                    BodyTooLarge(
                        f"the request has {len(data)} bytes for the engine, more than its limit of "
                        f"{self.hello.max_request} (strowger engine --max-request-bytes)"
                    )
                )
            elif self._transport is not None:
                self._turn.write(self._transport, data)
        else:
            lost = UpstreamLost(ENGINE_LOST, upstream=self._upstream)
            lost.unread = True
            pending.fail(lost)

    def _write(self, message: ToEngine) -> None:
        if self._transport is not None:
            self._turn.write(self._transport, frame(message))
