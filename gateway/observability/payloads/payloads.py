"""Payload logging of one process: bodies are captured, redacted and written.

`PayloadLog` captures on the event loop, and hands the requests that are to be logged to the
`PayloadWriter` of the configuration. It redacts and writes in a thread, apart from the event loop.
"""

import asyncio
import logging
import queue
import random
import threading
import time
from binascii import unhexlify
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, TypeVarTuple, Unpack

import msgspec
from msgspec import Struct
from prometheus_client import CollectorRegistry

from strowger_gateway.gateway.config.redaction import Redactor
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.config.schema.payloads import Payloads
from strowger_gateway.gateway.config.schema.telemetry import Otlp
from strowger_gateway.gateway.observability.payloads.counts import PayloadCounts
from strowger_gateway.gateway.observability.payloads.files import RotatedFile
from strowger_gateway.gateway.observability.payloads.log_record import log_record
from strowger_gateway.gateway.observability.payloads.otlp_output import OtlpOutput
from strowger_gateway.gateway.observability.payloads.record import PayloadRecord, payload_record
from strowger_gateway.gateway.observability.payloads.store_output import BATCH, StoreOutput
from strowger_gateway.gateway.observability.recording.ended_requests import EndedRequests
from strowger_gateway.gateway.observability.telemetry.access_log import AccessLine
from strowger_gateway.gateway.platform.background import OnCrash
from strowger_gateway.gateway.platform.trace_context import RequestTrace
from strowger_gateway.gateway.routing.request_record import (
    MAX_CAPTURED,
    CaptureBudget,
    CapturedPayload,
    RequestRecord,
)
from strowger_gateway.gateway.stages.request_context import RequestContext
from strowger_gateway.gateway.stages.stage import BaseStage, Place
from strowger_gateway.gateway.storage.sql.errors import StoreRejected, StoreUnavailable
from strowger_gateway.gateway.storage.sql.payload_rows import PayloadRows

CLOSE_S: Final = 10.0
"""Seconds in which a writer that a reload replaces writes what is queued."""

MAX_HELD: Final = 64 * 1024 * 1024
"""Bytes of captured bodies in one process; beyond, requests are not captured, and counted."""

MAX_QUEUED: Final = 2000
COUNT_S: Final = 5.0
"""Interval of counting what the collector accepted."""

_encode = msgspec.json.Encoder().encode
_log = logging.getLogger("strowger.payloads")
Output = RotatedFile | StoreOutput | OtlpOutput
_Args = TypeVarTuple("_Args")


class _Item(Struct, frozen=True, gc=False):
    line: AccessLine
    captured: CapturedPayload
    trace_id: bytes
    span_id: bytes


class _Result(Struct, frozen=True, kw_only=True, gc=False):
    """What became of an item. record: encoded for the collector, which counts it later."""

    written: int = 0
    dropped: int = 0
    failed: int = 0
    record: bytes | None = None


_WRITTEN, _DROPPED, _FAILED = _Result(written=1), _Result(dropped=1), _Result(failed=1)


class PayloadLog:
    """Captures over all configuration generations that have `logging.payloads`."""

    def __init__(
        self,
        registry: CollectorRegistry,
        crashed: OnCrash,
        worker: Callable[[], int],
        rows: Callable[[], PayloadRows | None],
    ) -> None:
        """rows: those of the store; `None` while this process has none."""
        self._budget = CaptureBudget(MAX_HELD)
        self._counts = PayloadCounts()
        registry.register(self._counts)
        self._crashed = crashed
        self._worker = worker
        self._rows = rows
        self._spare = 0
        self._settings = Payloads()
        self._otlp: Otlp | None = None
        self._redactor = Redactor(())
        self._writer: PayloadWriter | None = None
        self._ending: set[asyncio.Task[None]] = set()
        self._random = random.Random()
        self._masked = False

    def configure(self, config: Config) -> None:
        """Log requests that end from now on as a generation says.

        What was captured under an earlier one is written by the new rules, or not at all if the
        new mode is `off`. Raises InvalidConfig for a pattern that cannot be used.
        """
        settings = config.logging.payloads
        self._masked = self._masks_requests(config)
        self._spare = config.store.min_free_bytes
        otlp = config.telemetry.otlp if settings.to == "otlp" else None
        if (settings, otlp) == (self._settings, self._otlp):
            return
        self._redactor = Redactor(settings.redact)
        self._settings, self._otlp = settings, otlp
        self._end_writer(CLOSE_S)

    @staticmethod
    def _masks_requests(config: Config) -> bool:
        """Whether a guardrail may mask or block what is in a request."""
        return any(one.where != "output" and one.mode != "monitor" for one in config.guardrails)

    def begin(self, record: RequestRecord, body: bytes) -> None:
        """Capture a request, if it may be logged. body: decompressed.

        With guardrails that mask or block, it is withheld until they have found nothing in it: a
        request that is refused before they examine it is not written.
        """
        settings = self._settings
        if settings.mode == "sample" and self._random.random() >= settings.sample:
            return
        size = len(body)
        held = size if size <= MAX_CAPTURED else 0
        if not self._budget.take(held):
            self._counts.dropped += 1
            return
        record.payload = CapturedPayload(
            budget=self._budget,
            request=body if held == size else None,
            request_bytes=size,
            held=held,
            parts=[],
            withheld=self._masked,
        )

    def finish(self, requests: EndedRequests) -> None:
        """Hand the captured ones of ended requests to the writer."""
        mode = self._settings.mode
        for (record, *_), line in zip(requests.finished, requests.lines, strict=True):
            captured = record.payload
            if captured is None:
                continue
            record.payload = None
            failed = line.status >= 400 or bool(line.error)
            if mode == "off" or (mode == "errors" and not failed):
                captured.release()
            else:
                self._writing().add(line, captured, record.trace)

    async def close(self, within_s: float) -> None:
        """Write what is queued, for at most this many seconds."""
        self._end_writer(within_s)
        if self._ending:
            await asyncio.wait(self._ending, timeout=within_s)

    def _end_writer(self, within_s: float) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            ending = asyncio.create_task(writer.close(within_s), name="payload writer")
            self._ending.add(ending)
            ending.add_done_callback(self._ending.discard)

    def _writing(self) -> "PayloadWriter":
        if self._writer is None:
            settings = self._settings
            self._writer = PayloadWriter(
                self._redactor, settings.max_bytes, self._output(settings), self._counts
            )
        return self._writer

    def _output(self, settings: Payloads) -> Output:
        if self._otlp is not None:
            return OtlpOutput(self._otlp, self._counts, self._crashed)
        if settings.to == "store":
            return StoreOutput(self._rows, settings, self._spare)
        return RotatedFile(
            Path(settings.dir),
            self._worker(),
            max_bytes=settings.max_file_bytes,
            files=settings.files,
        )


class PayloadWriter:
    """One output and its thread. Make it on the event loop; only its thread redacts and writes."""

    def __init__(
        self, redactor: Redactor, max_bytes: int, output: Output, counts: PayloadCounts
    ) -> None:
        self._redactor = redactor
        self._max_bytes = max_bytes
        self._output = output
        self._counts = counts
        self._loop = asyncio.get_running_loop()
        self._queue: queue.SimpleQueue[_Item | None] = queue.SimpleQueue()
        self._queued = 0
        self._failing = False
        self._hurry = False
        self._ended = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="payloads", daemon=True)
        self._thread.start()
        self._counting: asyncio.TimerHandle | None = None
        if isinstance(output, OtlpOutput):
            self._count()

    def add(self, line: AccessLine, captured: CapturedPayload, trace: RequestTrace | None) -> None:
        """Queue a request that has ended, or count it as dropped."""
        if self._queued >= MAX_QUEUED:
            captured.release()
            self._counts.dropped += 1
            return
        self._queued += 1
        sampled = None if trace is None else trace.sampled
        if trace is None or sampled is None:
            self._queue.put(_Item(line, captured, b"", b""))
        else:
            ids = unhexlify(trace.trace_id), unhexlify(sampled.span_id)
            self._queue.put(_Item(line, captured, *ids))

    async def close(self, within_s: float) -> None:
        """Write what is queued, for at most this many seconds; count the rest as dropped."""
        by = time.monotonic() + within_s
        self._queue.put(None)
        try:
            async with asyncio.timeout(within_s):
                await self._ended.wait()
        except TimeoutError:
            self._hurry = True
        if self._counting is not None:
            self._counting.cancel()
        if isinstance(self._output, OtlpOutput):
            await self._output.close_exporter(max(by - time.monotonic(), 0.0))

    def _run(self) -> None:
        most = BATCH if isinstance(self._output, StoreOutput) else 1
        ended = False
        while not ended:
            items, ended = self._next(most)
            results = [_DROPPED] * len(items) if self._hurry else self._written(items)
            for item, result in zip(items, results, strict=True):
                if not self._call(self._done, item.captured, result):
                    return
        if isinstance(self._output, RotatedFile):
            self._output.close()
        self._call(self._ended.set)

    def _next(self, most: int) -> tuple[list[_Item], bool]:
        """Wait for an item; return it with others that are queued, and whether it is the end."""
        items: list[_Item] = []
        item = self._queue.get()
        while item is not None:
            items.append(item)
            if len(items) == most or self._queue.empty():
                return items, False
            item = self._queue.get()
        return items, True

    def _written(self, items: list[_Item]) -> list[_Result]:
        try:
            if isinstance(self._output, StoreOutput):
                return self._store(self._output, [self._record(item) for item in items])
            return [self._write(self._output, item) for item in items]
        except Exception:  # noqa: BLE001  a bug must not end the thread
            _log.exception("internal error: a payload cannot be logged")
            return [_FAILED] * len(items)

    def _call(self, call: Callable[[Unpack[_Args]], object], *args: *_Args) -> bool:
        """Call something on the event loop; false if that has ended."""
        try:
            self._loop.call_soon_threadsafe(call, *args)
        except RuntimeError:
            return False
        return True

    def _record(self, item: _Item) -> PayloadRecord:
        return payload_record(item.line, item.captured, self._redactor, self._max_bytes)

    def _store(self, output: StoreOutput, records: list[PayloadRecord]) -> list[_Result]:
        if not records:
            return []
        try:
            stored = output.write(records)
        except (StoreUnavailable, StoreRejected) as exc:
            self._fails(exc)
            return [_FAILED] * len(records)
        self._works()
        return [_WRITTEN if one else _DROPPED for one in stored]

    def _write(self, output: RotatedFile | OtlpOutput, item: _Item) -> _Result:
        """Write to the file, or encode for the collector."""
        record = self._record(item)
        if isinstance(output, OtlpOutput):
            return _Result(record=log_record(record, item.trace_id, item.span_id))
        try:
            output.write(_encode(record) + b"\n")
        except OSError as exc:
            self._fails(exc)
            output.close()
            return _FAILED
        self._works()
        return _WRITTEN

    def _fails(self, exc: Exception) -> None:
        if not self._failing:
            self._failing = True
            _log.warning("cannot write payloads: %s", exc)

    def _works(self) -> None:
        if self._failing:
            self._failing = False
            _log.info("payloads are written again")

    def _done(self, captured: CapturedPayload, result: _Result) -> None:
        self._queued -= 1
        captured.release()
        self._counts.written += result.written
        self._counts.dropped += result.dropped
        self._counts.failed += result.failed
        if result.record is not None and isinstance(self._output, OtlpOutput):
            self._output.send([result.record])

    def _count(self) -> None:
        assert isinstance(self._output, OtlpOutput)
        self._output.count()
        self._counting = self._loop.call_later(COUNT_S, self._count)


class CaptureStage(BaseStage):
    """Captures the body of each request of a route, if it may be logged."""

    place = Place.PARSE

    def __init__(self, log: PayloadLog) -> None:
        self._log = log

    def enter(self, request: RequestContext) -> Awaitable[None] | None:
        """Capture the body, without its compression. It is written when the request is recorded."""
        self._log.begin(request.record, request.body)
