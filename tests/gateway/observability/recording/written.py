"""Rows as they are in a spool file."""

from collections.abc import Sequence

from strowger_gateway.gateway.observability.recording.frames import frame
from strowger_gateway.gateway.storage.sql.rows import SpoolEntry


def packed(rows: Sequence[SpoolEntry]) -> bytes:
    """One frame with all rows."""
    return b"".join(frame(rows))
