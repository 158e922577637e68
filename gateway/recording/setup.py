"""A configuration's spool, and its importer for as long as there are workers."""

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
    """Of one configuration: every worker's, and the importer's."""
    return Spool(Path(config.store.spool or SPOOL), max_bytes=config.store.max_spool_bytes)


class Records(Struct, frozen=True, kw_only=True, eq=False):
    """What the process that leads has of the records. metrics: what is to be told of the import."""

    store: SqlStore
    metrics: Collector


@contextmanager
def import_running(config: Config) -> Generator[Records]:
    """The store, into which a thread imports what the workers record, until the block ends.

    To be entered before the first worker records and left after the last one has ended. A store
    that is away is told in the log and stops nobody. Raises InvalidConfig where it can never be
    used: a newer program's tables, a missing extra.
    """
    store, spool = open_store(config.store.url), open_spool(config)
    away = False
    try:
        store.prepare()
    except StoreUnavailable as exc:
        _log.error("the store is away; requests are served, and their records wait: %s", exc)
        away = True
    importer = Importer(spool, store, keep_days=config.store.keep_days, unavailable=away)
    importer.start()
    try:
        yield Records(store=store, metrics=ImporterCollector(importer, spool))
    finally:
        importer.stop()
        store.close()
