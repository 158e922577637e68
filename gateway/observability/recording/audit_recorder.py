"""Record the audit events of one process in its own spool file, from which they are imported."""

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from threading import Lock
from typing import Final

from strowger_gateway.gateway.audit.event import AuditEvent
from strowger_gateway.gateway.audit.repeats import Repeats
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.config.schema_store import SPOOL
from strowger_gateway.gateway.observability.recording.recorder import FileRecorder
from strowger_gateway.gateway.observability.recording.spool import Spool
from strowger_gateway.gateway.observability.recording.spool_owner import own_folder

WHAT: Final = "audit events"
_FOLDER: Final = "audit"
_LIMIT: Final = 10_000
"""Events in memory while the disk fails."""

_RETRY_S: Final = 2.0


def audit_spool(config: Config) -> Spool:
    """Return the folder in which audit events wait, apart from the usage of requests.

    Requests are many, and while the store is unreachable they must not take the events' room.
    """
    store = config.store
    return Spool(
        own_folder(store.url, Path(store.spool or SPOOL), moved_from=store.moved_from) / _FOLDER,
        max_bytes=config.audit.max_waiting_bytes,
        setting="audit.max_waiting_bytes",
    )


class AuditRecorder:
    """An AuditLog on a spool. An event is on the disk some milliseconds after `record`."""

    def __init__(self, spool: Spool, repeats: Repeats | None = None) -> None:
        self._recorder = FileRecorder(spool, limit=_LIMIT, every_s=_RETRY_S, what=WHAT)
        self._repeats = repeats or Repeats()
        self._counts: Counter[tuple[str, str]] = Counter()
        self._lock = Lock()

    @property
    def lost(self) -> int:
        """The number of events lost since the start."""
        return self._recorder.lost

    @property
    def counts(self) -> Mapping[tuple[str, str], int]:
        """The number of events by action and outcome, repeats included."""
        with self._lock:
            return dict(self._counts)

    def record(self, event: AuditEvent) -> None:
        """See AuditLog."""
        with self._lock:
            self._counts[event.action, event.outcome] += event.count
            self._write(self._repeats.admit(event))

    def tick(self) -> None:
        """Record the repeats of the minutes that have passed; call it every few seconds."""
        with self._lock:
            self._write(self._repeats.due())

    def close(self) -> None:
        """Write everything and stop. Blocks. Events that cannot be written are lost, and logged."""
        with self._lock:
            self._write(self._repeats.due(all_of_them=True))
        self._recorder.close()

    def _write(self, events: Iterable[AuditEvent]) -> None:
        for event in events:
            self._recorder.add(event)
            self._recorder.hurry()
