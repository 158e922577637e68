"""Payload logging of one process: captures bodies, and hands ended requests to a writer."""

import asyncio
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from prometheus_client import CollectorRegistry

from strowger_gateway.gateway.config.redaction import Redactor
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.config.schema.payloads import Payloads
from strowger_gateway.gateway.config.schema.telemetry import Otlp
from strowger_gateway.gateway.observability.payloads.counts import PayloadCounts
from strowger_gateway.gateway.observability.payloads.files import RotatedFile
from strowger_gateway.gateway.observability.payloads.otlp_output import OtlpOutput
from strowger_gateway.gateway.observability.payloads.store_output import StoreOutput
from strowger_gateway.gateway.observability.payloads.writer import Output, PayloadWriter
from strowger_gateway.gateway.observability.telemetry.access_log import AccessLine
from strowger_gateway.gateway.platform.background import OnCrash
from strowger_gateway.gateway.routing.payload_capture import (
    MAX_CAPTURED,
    CaptureBudget,
    CapturedPayload,
)
from strowger_gateway.gateway.routing.request_record import RequestRecord
from strowger_gateway.gateway.storage.sql.payload_rows import PayloadRows

CLOSE_S: Final = 10.0
"""Seconds in which a writer that a reload replaces writes what is queued."""

MAX_HELD: Final = 64 * 1024 * 1024
"""Bytes of captured bodies in one process; beyond, requests are not captured, and counted."""


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

    def finish(
        self,
        finished: Sequence[tuple[RequestRecord, int, float, object]],
        lines: Sequence[AccessLine],
    ) -> None:
        """Hand the captured ones of ended requests to the writer."""
        mode = self._settings.mode
        for (record, *_), line in zip(finished, lines, strict=True):
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

    def _writing(self) -> PayloadWriter:
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
