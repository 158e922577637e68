"""One worker's connection to the engine process: requests in, events out."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import aclosing
from typing import cast

import msgspec
from msgspec.structs import replace

from strowger_gateway.local_engine.protocol.frame_intake import ConnectionIntake, FrameIntake
from strowger_gateway.local_engine.protocol.frames import (
    SLOW_WORKER,
    Batch,
    BrokenFrame,
    Cancel,
    Deltas,
    Embed,
    Failed,
    FrameReader,
    Leaving,
    Phases,
    StatsReply,
    StatsRequest,
    Submit,
    ToEngine,
    Vectors,
    decode_inputs,
    decode_request,
    failed,
    frame,
)
from strowger_gateway.local_engine.server.embedding_service import little_endian
from strowger_gateway.local_engine.server.service import NAME, Service
from strowger_gateway.schemas.errors import GatewayError, UpstreamBroken
from strowger_gateway.schemas.events import Event

MAX_UNSENT_BYTES = 8 * 1024 * 1024
"""A worker with more unread bytes than this loses its requests; steps never wait for a worker."""

PIECE_BYTES = 64 * 1024
"""Bytes of vectors written before the worker must have read the previous piece."""

_decoder: msgspec.msgpack.Decoder[ToEngine] = msgspec.msgpack.Decoder(ToEngine)


class Connection(asyncio.Protocol):
    """Closing the connection cancels all requests of the worker."""

    def __init__(
        self,
        service: Service,
        *,
        max_unsent: int = MAX_UNSENT_BYTES,
        intake: FrameIntake | None = None,
        report: Callable[[str], None] = lambda _: None,
    ) -> None:
        """intake: bounds what peers on TCP may leave unfinished. report: gets lines for the log."""
        self._service = service
        self._report = report
        self._all_frames = intake
        self._intake: ConnectionIntake | None = None
        self._max_unsent = max_unsent
        self._loop = asyncio.get_running_loop()
        self._reader = FrameReader() if intake is None else FrameReader(intake.longest)
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._batches: list[Batch] = []
        self._peer = ""
        self._read = asyncio.Event()
        self._read.set()
        self._vectors: asyncio.Lock = asyncio.Lock()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is not a subclass of it
        hello = self._service.hello()
        if self._all_frames is not None:
            hello = replace(hello, max_request=self._all_frames.longest)
            self._peer = str((transport.get_extra_info("peername") or ("",))[0])
            self._intake = ConnectionIntake(
                self._all_frames, self._transport, self._peer, self._too_slow
            )
        self._transport.write(frame(hello))

    @property
    def busy(self) -> bool:
        """Whether requests have not ended, or their last events are not sent."""
        transport = self._transport
        return transport is not None and bool(self._tasks or transport.get_write_buffer_size())

    def leave(self) -> None:
        """Announce that the engine ends when its requests are finished."""
        self._write(Leaving())

    def data_received(self, data: bytes) -> None:
        try:
            for body in self._reader.feed(data):
                self._handle(_decoder.decode(body))
        except (BrokenFrame, msgspec.DecodeError) as exc:
            self._report(f"closed a connection{self._from}: its frames cannot be read: {exc}")
            self._abort()
            return
        if self._intake is not None:
            self._intake.note(self._reader.finished, self._reader.announced)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._intake is not None:
            self._intake.close()
        for task in self._tasks.values():
            task.cancel()

    def pause_writing(self) -> None:
        self._read.clear()

    def resume_writing(self) -> None:
        self._read.set()

    def _handle(self, message: ToEngine) -> None:
        match message:
            case Submit():
                self._start(message.id, self._answer(message))
            case Embed():
                self._start(message.id, self._embed(message))
            case Cancel(id=id):
                if id in self._tasks:
                    self._tasks[id].cancel()
            case StatsRequest():
                service = self._service
                self._write(StatsReply(machine=service.machine(), stats=service.stats()))

    def _start(self, id: int, work: Coroutine[object, object, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks[id] = task
        task.add_done_callback(lambda task: self._done(id, task))

    async def _answer(self, submit: Submit) -> None:
        drawn = list(submit.drawn) if submit.resumable else None
        sent = len(submit.drawn)
        phases: list[Phases | None] = []
        try:
            answer = self._service.generate(
                decode_request(submit.request),
                model=submit.model,
                request_id=submit.request_id,
                tenant=submit.tenant,
                team=submit.team,
                drawn=drawn,
                on_phases=phases.append if submit.traceparent else None,
            )
            async with aclosing(answer) as batches:
                async for batch in batches:
                    if drawn is None:
                        self._put(submit.id, batch)
                    else:
                        self._put(submit.id, batch, drawn=tuple(drawn[sent:]))
                        sent = len(drawn)
            self._put(submit.id, [], last=True, phases=phases[0] if phases else None)
        except GatewayError as exc:
            self._write(failed(submit.id, exc))

    async def _embed(self, embed: Embed) -> None:
        """Answers can be large: write one at a time, as fast as the worker reads."""
        try:
            inputs = decode_inputs(embed.request)
            found = await self._service.embed(
                inputs, model=embed.model, tenant=embed.tenant, team=embed.team
            )
        except GatewayError as exc:
            self._write(failed(embed.id, exc))
            return
        values = little_endian(found.values)
        async with self._vectors:
            for start in range(0, len(values), PIECE_BYTES):
                await self._read.wait()
                self._write(
                    Vectors(
                        id=embed.id,
                        values=values[start : start + PIECE_BYTES],
                        width=found.values.shape[1],
                        tokens=found.tokens,
                        last=start + PIECE_BYTES >= len(values),
                    )
                )

    def _done(self, id: int, task: asyncio.Task[None]) -> None:
        """Finish a request. A bug fails only this request and is reported to worker and stderr."""
        del self._tasks[id]
        if task.cancelled() or (exc := task.exception()) is None:
            return
        self._write(
            Failed(
                id=id,
                kind="UpstreamFailed",
                message="the request failed because of a bug in the engine",
            )
        )
        self._loop.call_exception_handler({"message": "a request failed", "exception": exc})

    def _put(
        self,
        id: int,
        events: list[Event],
        *,
        last: bool = False,
        drawn: tuple[int, ...] = (),
        phases: Phases | None = None,
    ) -> None:
        """Collect what a step brings for all requests; their tasks run one after the other."""
        if not self._batches:
            self._loop.call_soon(self._flush)
        batch = Batch(id=id, events=tuple(events), last=last, drawn=drawn, phases=phases)
        self._batches.append(batch)

    def _flush(self) -> None:
        batches, self._batches = self._batches, []
        if self._transport is None or not batches:
            return
        self._transport.write(frame(Deltas(batches=tuple(batches))))
        if self._transport.get_write_buffer_size() > self._max_unsent:
            problem = "the worker did not read the answers in time"
            slow = UpstreamBroken(problem, upstream=NAME)
            slow.code = SLOW_WORKER  # for the gateway alone, which gives it the usual one
            for id, task in self._tasks.items():
                if task.cancel():
                    self._transport.write(frame(failed(id, slow)))

    def _write(self, message: Failed | StatsReply | Vectors | Leaving) -> None:
        self._flush()
        if self._transport is not None:
            self._transport.write(frame(message))

    @property
    def _from(self) -> str:
        return f" from {self._peer}" if self._peer else ""

    def _too_slow(self) -> None:
        assert self._all_frames is not None
        limit_s = self._all_frames.frame_s
        self._report(f"closed a connection{self._from}: a frame took more than {limit_s:g} s")
        self._abort()

    def _abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()
