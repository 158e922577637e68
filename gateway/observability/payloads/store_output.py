"""Store payload records in the database, within bounds per day."""

import logging
import time
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from strowger_gateway.gateway.config.schema.payloads import Payloads
from strowger_gateway.gateway.observability.payloads.record import PayloadRecord
from strowger_gateway.gateway.storage.sql.errors import StoreRejected, StoreUnavailable
from strowger_gateway.gateway.storage.sql.payload_rows import (
    DAY_S,
    OVERHEAD,
    PayloadRows,
    Reason,
    StoredPayload,
)

BATCH: Final = 64
"""Records of one transaction."""

_encode = msgspec.json.Encoder().encode
_log = logging.getLogger("strowger.payloads")


class StoreOutput:
    """Used by one thread. rows: `None` while this process has no store."""

    def __init__(
        self, rows: Callable[[], PayloadRows | None], settings: Payloads, spare: int = 0
    ) -> None:
        """spare: bytes of the disk that payloads leave to keys and records."""
        self._rows = rows
        self._spare = spare
        self._most = settings.max_day_bytes
        self._most_of_key = settings.max_key_day_bytes
        self._full: set[Reason] = set()
        self._full_day = 0

    def write(self, records: Sequence[PayloadRecord]) -> list[bool]:
        """Store records; return for each whether there was room for it today.

        Blocks. Raises StoreUnavailable, and then none is stored; StoreRejected for a single one.
        """
        rows = self._rows()
        if rows is None:
            raise StoreUnavailable("this gateway has no store")
        now = time.time()
        stored = [_row(record) for record in records]
        if rows.is_disk_low(sum([row.size + OVERHEAD for row in stored]), self._spare):
            self._report("disk", "", int(now // DAY_S))
            return [False] * len(records)
        try:
            reasons = rows.add(stored, now, most=self._most, most_of_key=self._most_of_key)
        except StoreRejected:
            if len(records) == 1:
                raise
            return [found for one in records for found in self._alone(one)]
        for row, reason in zip(stored, reasons, strict=True):
            if reason:
                self._report(reason, row.key, int(now // DAY_S))
        return [not reason for reason in reasons]

    def _alone(self, record: PayloadRecord) -> list[bool]:
        try:
            return self.write([record])
        except StoreRejected as exc:
            _log.error("the database rejects the payload of %s: %s", record.request_id, exc)
            return [False]

    def _report(self, reason: Reason, key: str, day: int) -> None:
        """Log once per day that a bound is reached."""
        if day != self._full_day:
            self._full_day = day
            self._full.clear()
        if reason in self._full:
            return
        self._full.add(reason)
        if reason == "key":
            _log.warning(
                "payloads of key %r are not stored until 00:00 UTC: "
                "logging.payloads.max_key_day_bytes (%d) is reached",
                key,
                self._most_of_key,
            )
        elif reason == "disk":
            _log.warning(
                "payloads are not stored while the disk of the database has no more than "
                "store.min_free_bytes (%d) left",
                self._spare,
            )
        else:
            _log.warning(
                "payloads are not stored until 00:00 UTC: "
                "logging.payloads.max_day_bytes (%d) is reached",
                self._most,
            )


def _row(record: PayloadRecord) -> StoredPayload:
    data = _encode(record)
    return StoredPayload(
        request_id=record.request_id,
        time=record.time,
        key=record.key,
        team=record.team,
        model=record.model,
        status=record.status,
        error=record.error,
        size=len(data),
        record=data.decode(),
    )
