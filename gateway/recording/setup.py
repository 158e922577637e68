"""Open the spool of a configuration, and run its importer while there are workers."""

import logging
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct
from prometheus_client.registry import Collector

from gateway.config.schema import Config
from gateway.config.schema_store import SPOOL
from gateway.recording.importer import Importer
from gateway.recording.metrics import ImporterCollector
from gateway.recording.spool import Spool
from gateway.store.errors import StoreUnavailable
from gateway.store.open import open_store
from gateway.store.sql import SqlStore

_log = logging.getLogger("strowger.records")


def open_spool(config: Config) -> Spool:
    """Return the spool of a configuration, used by every worker and the importer."""
    return Spool(Path(config.store.spool or SPOOL), max_bytes=config.store.max_spool_bytes)


class Records(Struct, frozen=True, kw_only=True, eq=False):
    """The leader's part of the recording: the store, and the metrics of the import."""

    store: SqlStore
    metrics: Collector


@contextmanager
def import_running(config: Config) -> Generator[Records]:
    """Import what the workers record into the store, in a thread, until the block ends.

    Enter it before the first worker starts and leave it after the last one has exited. An
    unreachable store is logged and blocks nothing. Raises InvalidConfig if the store can never be
    used: a newer version's tables, a missing extra.
    """
    store, spool = open_store(config.store.url), open_spool(config)
    unavailable = False
    try:
        store.prepare()
    except StoreUnavailable as exc:
        _log.error("store unreachable; serving requests and buffering their records: %s", exc)
        unavailable = True
    importer = Importer(spool, store, keep_days=config.store.keep_days, unavailable=unavailable)
    importer.start()
    try:
        yield Records(store=store, metrics=ImporterCollector(importer, spool))
    finally:
        importer.stop()
        store.close()
