"""Open the spool of a configuration, and run its importing process while there are workers."""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct
from prometheus_client.registry import Collector

from strowger_gateway.gateway.audit.log import AuditLog, NoAudit
from strowger_gateway.gateway.config.schema.config import Config, Logging
from strowger_gateway.gateway.config.schema_store import SPOOL
from strowger_gateway.gateway.observability.recording.audit_recorder import (
    AuditRecorder,
    audit_spool,
)
from strowger_gateway.gateway.observability.recording.import_messages import (
    AuditImport,
    ExportSettings,
    ImportSettings,
)
from strowger_gateway.gateway.observability.recording.importer_process import ImporterProcess
from strowger_gateway.gateway.observability.recording.metrics import (
    AuditCollector,
    AuditImportCollector,
    ExportCollector,
    ImporterCollector,
)
from strowger_gateway.gateway.observability.recording.spool import Spool
from strowger_gateway.gateway.observability.recording.spool_owner import own_folder, store_id
from strowger_gateway.gateway.observability.telemetry.own_process import OwnProcess
from strowger_gateway.gateway.storage.sql.errors import StoreUnavailable
from strowger_gateway.gateway.storage.sql.open import open_store
from strowger_gateway.gateway.storage.sql.sql import SqlStore

_log = logging.getLogger("strowger.records")

SERVING_S = 10.0
"""Time for the gateway to start; then the import starts, even if a worker does not serve."""

CHECK_S = 0.5
"""Interval between checks whether the importing process is alive."""


def open_spool(config: Config, *, announces: bool = False) -> Spool:
    """Return the spool of a configuration, used by every worker and the importer.

    announces: log that the folder is another store's; for one process of a gateway.
    """
    store = config.store
    folder = own_folder(
        store.url,
        Path(store.spool or SPOOL),
        moved_from=store.moved_from,
        announces=announces,
    )
    owner = store_id(store.url, folder)
    return Spool(folder, max_bytes=store.max_spool_bytes, owner=owner)


def audit_recorder(config: Config) -> AuditRecorder | None:
    """Return what one process records audit events with; `None` if they are not recorded."""
    return AuditRecorder(audit_spool(config)) if config.audit.log == "on" else None


class Records(Struct, frozen=True, kw_only=True, eq=False):
    """The leader's part of the recording: the store, the import, and its metrics.

    audit: the leader's own events.
    """

    store: SqlStore
    metrics: tuple[Collector, ...]
    audit: AuditLog
    importer: ImporterProcess

    def importing(
        self,
        serving: Callable[[], Awaitable[None]],
        on_problem: Callable[[str], None],
        freed: Callable[[], Awaitable[None]] | None = None,
    ) -> "asyncio.Task[None]":
        """Start the import when `serving` returns, but after SERVING_S at the latest.

        Then report each change of `ImporterProcess.trouble`, until the task is cancelled.
        freed: waited for before that; it returns when no other gateway imports this spool.
        """
        return asyncio.create_task(self._import_after(serving, on_problem, freed))

    async def release(self) -> None:
        """Stop the import for good: another gateway imports the rest, and all later records."""
        await asyncio.to_thread(self.importer.release)

    async def _import_after(
        self,
        serving: Callable[[], Awaitable[None]],
        on_problem: Callable[[str], None],
        freed: Callable[[], Awaitable[None]] | None,
    ) -> None:
        if freed is not None:
            await freed()
        with suppress(TimeoutError):
            async with asyncio.timeout(SERVING_S):
                await serving()
        self.importer.start()
        known = ""
        while True:
            problem = self.importer.trouble
            if problem != known:
                on_problem(known := problem)
            await asyncio.sleep(CHECK_S)


def _audit_import(config: Config, waiting: Spool) -> AuditImport | None:
    audit = config.audit
    if audit.log == "off":
        return None
    return AuditImport(
        spool=os.fsencode(waiting.folder),
        max_waiting_bytes=audit.max_waiting_bytes,
        file=None if audit.file is None else os.fsencode(audit.file),
        keep_days=audit.keep_days,
    )


def _export(config: Config) -> ExportSettings | None:
    export = config.store.export
    if export is None:
        return None
    return ExportSettings(to=os.fsencode(export.to.reveal()), every_s=export.every_s)


@contextmanager
def import_running(config: Config) -> Generator[Records]:
    """Open the store, and import what the workers record into it, in a process of its own.

    Enter the block before the first worker starts and leave it after the last one has exited: on
    leaving, the rest is imported. The process starts with `Records.importing`, because before
    the gateway serves it would compete with the start for the processor.

    An unreachable store is logged and blocks nothing. Raises InvalidConfig if the store can never
    be used: a newer version's tables, a missing extra.
    """
    store, spool = open_store(config.store.url), open_spool(config, announces=True)
    waiting, audit = audit_spool(config), audit_recorder(config)
    unavailable = False
    try:
        store.prepare()
        store.close_idle()  # the importer writes from here on
    except StoreUnavailable as exc:
        _log.error("store unreachable; serving requests and buffering their records: %s", exc)
        unavailable = True
    importer = ImporterProcess(
        ImportSettings(
            url=os.fsencode(config.store.url.reveal()),
            spool=os.fsencode(spool.folder),
            owner=store_id(config.store.url, spool.folder),
            max_spool_bytes=config.store.max_spool_bytes,
            keep_days=config.store.keep_days,
            keep_usage_days=config.store.keep_usage_days,
            keep_payload_days=config.store.keep_payload_days,
            logging=Logging(level=config.logging.level, format=config.logging.format),
            unavailable=unavailable,
            audit=_audit_import(config, waiting),
            export=_export(config),
        )
    )
    metrics: tuple[Collector, ...] = (
        ImporterCollector(importer, spool),
        OwnProcess("importer", lambda: importer.pid),
    )
    if config.store.export is not None:
        metrics += (ExportCollector(importer),)
    if audit is not None:
        metrics += (AuditCollector(audit), AuditImportCollector(importer, waiting, config.audit))
    try:
        yield Records(
            store=store,
            metrics=metrics,
            audit=NoAudit() if audit is None else audit,
            importer=importer,
        )
    finally:
        if audit is not None:
            audit.close()
        if spool.files() or waiting.files():
            importer.start()
        importer.stop()
        store.close()
