"""A configuration's spool, and its importer for as long as there are workers."""

import logging
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from gateway.config.model import Config
from gateway.config.store import SPOOL
from gateway.records.importer import Importer
from gateway.records.spool import Spool
from gateway.store.errors import StoreAway
from gateway.store.opening import open_store
from gateway.store.sql import SqlStore

_log = logging.getLogger("strowger.records")


def spool_of(config: Config) -> Spool:
    """Of one configuration: every worker's, and the importer's."""
    return Spool(Path(config.store.spool or SPOOL), max_bytes=config.store.max_spool_bytes)


@contextmanager
def importing(config: Config) -> Generator[SqlStore]:
    """The store, into which a thread imports what the workers record, until the block ends.

    To be entered before the first worker records and left after the last one has ended. A store
    that is away is told in the log and stops nobody. Raises InvalidConfig where it can never be
    used: a newer program's tables, a missing extra.
    """
    store = open_store(config.store.url)
    try:
        store.prepare()
    except StoreAway as exc:
        _log.error("the store is away; requests are served, and their records wait: %s", exc)
    importer = Importer(spool_of(config), store, keep_days=config.store.keep_days)
    importer.start()
    try:
        yield store
    finally:
        importer.stop()
        store.close()
