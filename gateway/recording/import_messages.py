"""Messages between the leader and the importing process: JSON, one message per line."""

from collections.abc import Mapping

import msgspec
from msgspec import Struct

from gateway.config.schema.config import Logging

STOP_S = 10.0
"""Time for the last import after the order to stop. What does not fit stays in the spool."""


class ImportSettings(Struct, frozen=True, kw_only=True):
    """The first message to the importing process.

    url: the address of the store; bytes, as the spool's path, because the names of files need not
    be valid Unicode. unavailable: the store is known to be unreachable, and that was logged.
    logging: with a format other than `auto`, because the process's stdout is a pipe.
    """

    url: bytes
    spool: bytes
    max_spool_bytes: int
    keep_days: int
    keep_usage_days: int
    logging: Logging
    unavailable: bool


class LogLevel(Struct, frozen=True, kw_only=True, tag=True):
    """The level of the gateway's own loggers, which a reload may change."""

    level: int


class StopImport(Struct, frozen=True, kw_only=True, tag=True):
    """Import the rest and exit: every writer has closed its file."""


class ImportProgress(Struct, frozen=True, kw_only=True):
    """The figures of one importing process since its start.

    imported, rejected: rows. whole_s_ago: seconds since the store last had everything; `None`: not
    yet in this process. positions: the bytes of each spool file that the store has.
    """

    unavailable: bool
    imported: int
    rejected: int
    whole_s_ago: float | None
    positions: Mapping[str, int]


settings_decoder = msgspec.json.Decoder(ImportSettings)
order_decoder: msgspec.json.Decoder[LogLevel | StopImport] = msgspec.json.Decoder(
    LogLevel | StopImport
)
progress_decoder = msgspec.json.Decoder(ImportProgress)


def as_line(message: ImportSettings | LogLevel | StopImport | ImportProgress) -> bytes:
    """Encode a message as one line."""
    return msgspec.json.encode(message) + b"\n"
