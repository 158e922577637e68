"""Report this gateway to the store, once per gateway."""

import asyncio
import logging
import os
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import Final, TypeVar

from msgspec import Struct

from strowger_gateway.gateway.config.settings.listing import settings_of
from strowger_gateway.gateway.config.source_file.written import Written
from strowger_gateway.gateway.console.gateways.down import together
from strowger_gateway.gateway.console.gateways.memory import resident_bytes
from strowger_gateway.gateway.console.gateways.report import GatewayReport, ProcessReport
from strowger_gateway.gateway.console.gateways.report_rows import drop_report, put_report
from strowger_gateway.gateway.parts.leader_side import LeaderContext, LeaderSide, Work
from strowger_gateway.gateway.parts.reload_result import ReloadResult
from strowger_gateway.gateway.storage.sql.errors import StoreUnavailable

_T = TypeVar("_T")
_log = logging.getLogger("strowger")

REPORT_S: Final = 15.0
FIRST_S: Final = 1.0
"""After the start, when the workers have reported."""

CLOSE_S: Final = 1.0
"""How long a gateway that stops waits for the store."""

MOST_SETTINGS: Final = 4_000
"""Settings that are reported; a configuration that sets more is compared by its digest alone."""

_DISTRIBUTION: Final = "strowger-gateway"


class OwnReportAsked(Struct, frozen=True, kw_only=True, tag=True):
    """The report as it would be now; answered by GatewayReport."""


class GatewaysLeader(LeaderSide[ProcessReport, None]):
    """An outage of the store delays reports, and nothing else."""

    receives, questions = ProcessReport, OwnReportAsked

    def __init__(self, at: LeaderContext) -> None:
        self._at = at
        self._started = time.time()
        self._rejected = False
        self._processes: dict[int, ProcessReport] = {}
        self._workers: set[int] = set()
        self._settings: tuple[Written, Mapping[str, str | None]] | None = None
        self._thread = ThreadPoolExecutor(1, "gateway-report")
        self._stored = False
        self.name = f"{socket.gethostname()} ({os.getpid()})"

    def joined(self, worker: int, send: Callable[[None], None]) -> None:
        self._workers.add(worker)

    def left(self, worker: int) -> None:
        self._workers.discard(worker)
        self._processes.pop(worker, None)

    def on_message(self, worker: int, message: ProcessReport) -> None:
        self._processes[worker] = message

    def reloaded(self, result: ReloadResult) -> None:
        self._rejected = result.rejected

    async def answer(self, question: OwnReportAsked) -> GatewayReport:
        return await self._in_thread(self.report)

    def works(self) -> Sequence[Work]:
        return (("gateway report", self._follow),)

    async def close(self) -> None:
        with suppress(TimeoutError, StoreUnavailable):
            async with asyncio.timeout(CLOSE_S):
                if self._stored:
                    await self._in_thread(partial(drop_report, self._at.store.database, self.name))
        self._thread.shutdown(wait=False, cancel_futures=True)

    def report(self) -> GatewayReport:
        """Blocks: it lists the settings of a configuration that it has not listed yet."""
        config, processes = self._at.config(), tuple(self._processes.values())
        own = 0 if self._at.alone else resident_bytes()
        return GatewayReport(
            name=self.name,
            host=socket.gethostname(),
            pid=os.getpid(),
            version=_version(),
            started=self._started,
            seen=time.time(),
            digest=config.digest,
            rejected=self._rejected,
            workers=len(self._workers),
            wanted=config.server.workers,
            memory_bytes=own + sum(one.memory_bytes for one in processes),
            in_flight=sum(one.in_flight for one in processes),
            import_lag_s=max(0.0, time.monotonic() - self._at.imported_at()),
            settings=self._listed(config.written),
            down=together(one.down for one in processes),
        )

    async def _follow(self) -> None:
        await asyncio.sleep(FIRST_S)
        while True:
            try:
                await self._in_thread(self._put)
                self._stored = True
            except StoreUnavailable as exc:
                _log.debug("this gateway is not reported yet: %s", exc)
            await asyncio.sleep(REPORT_S)

    def _put(self) -> None:
        put_report(self._at.store.database, self.report())

    def _listed(self, written: Written) -> Mapping[str, str | None]:
        if self._settings is None or self._settings[0] is not written:
            found = {one.path: one.value for one in settings_of(written) if one.origin != "default"}
            self._settings = written, found if len(found) <= MOST_SETTINGS else {}
        return self._settings[1]

    async def _in_thread(self, call: Callable[[], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call)


def _version() -> str:
    try:
        return version(_DISTRIBUTION)
    except PackageNotFoundError:
        return ""
