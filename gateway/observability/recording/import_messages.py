"""Messages between the leader and the importing process: JSON, one message per line."""

from collections.abc import Mapping

import msgspec
from msgspec import Struct

from strowger_gateway.gateway.config.schema.config import Logging
from strowger_gateway.gateway.storage.parquet.progress import ExportProgress

STOP_S = 10.0
"""Time for the last import after the order to stop. What does not fit stays in the spool."""


class AuditImport(Struct, frozen=True, kw_only=True):
    """Where audit events wait, and what becomes of them; see `config.schema.audit`."""

    spool: bytes
    max_waiting_bytes: int
    file: bytes | None
    keep_days: int | None


class ExportSettings(Struct, frozen=True, kw_only=True):
    """Where records are exported to; see `config.schema.store`."""

    to: bytes
    every_s: float


class ImportSettings(Struct, frozen=True, kw_only=True):
    """The first message to the importing process.

    url: the address of the store; bytes, as the spool's path, because the names of files need not
    be valid Unicode. unavailable: the store is known to be unreachable, and that was logged.
    owner: the identity of the store in the spool, see `spool_owner`; "" does not check it.
    audit: `None` if audit events are not recorded. export: `None`: records are not exported.
    logging: `format: auto` depends on stderr, which the process inherits.
    """

    url: bytes
    spool: bytes
    max_spool_bytes: int
    keep_days: int
    keep_usage_days: int
    keep_payload_days: int
    logging: Logging
    unavailable: bool
    owner: str = ""
    audit: AuditImport | None = None
    export: ExportSettings | None = None


class LogLevel(Struct, frozen=True, kw_only=True, tag=True):
    """The level of the gateway's own loggers, which a reload may change."""

    level: int


class StopImport(Struct, frozen=True, kw_only=True, tag=True):
    """Import the rest and exit: every writer has closed its file."""


class AuditProgress(Struct, frozen=True, kw_only=True):
    """The figures of the audit log, of one importing process since its start.

    appended: rows. rejected: events that the database rejects. copied: rows, to `audit.file`;
    file_failing: the last one could not be copied. whole_s_ago, positions: as in `ImportProgress`.
    """

    appended: int
    rejected: int
    copied: int
    file_failing: bool
    whole_s_ago: float | None
    positions: Mapping[str, int]


class ImportProgress(Struct, frozen=True, kw_only=True):
    """The figures of one importing process since its start.

    fault: why the store is unavailable: see StoreUnavailable; "" if it is not known, or available.
    imported, rejected: rows. whole_s_ago: seconds since the store last had everything; `None`: not
    yet in this process. positions: the bytes of each spool file that the store has.
    """

    unavailable: bool
    imported: int
    rejected: int
    whole_s_ago: float | None
    positions: Mapping[str, int]
    fault: str = ""
    audit: AuditProgress | None = None
    export: ExportProgress | None = None


settings_decoder = msgspec.json.Decoder(ImportSettings)
order_decoder: msgspec.json.Decoder[LogLevel | StopImport] = msgspec.json.Decoder(
    LogLevel | StopImport
)
progress_decoder = msgspec.json.Decoder(ImportProgress)


def as_line(message: ImportSettings | LogLevel | StopImport | ImportProgress) -> bytes:
    """Encode a message as one line."""
    return msgspec.json.encode(message) + b"\n"
