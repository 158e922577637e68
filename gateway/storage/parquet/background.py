"""The export as a thread of the importing process: regularly, and never two at a time."""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable

from strowger_gateway.gateway.storage.parquet.export import Export
from strowger_gateway.gateway.storage.parquet.progress import ExportProgress
from strowger_gateway.gateway.storage.parquet.target import ExportTarget, open_target
from strowger_gateway.gateway.storage.parquet.turns import turn
from strowger_gateway.gateway.storage.sql.database import Database
from strowger_gateway.gateway.storage.sql.errors import StoreUnavailable
from strowger_gateway.schemas.errors import InvalidConfig
from strowger_gateway.schemas.secret import Secret

_log = logging.getLogger("strowger.records")

RETRY_S = 30.0
"""Longest pause after a failed run, and until another process is asked for its turn again."""


class BackgroundExport:
    """`run` in a thread of its own."""

    def __init__(self, database: Database, url: Secret, where: str, every_s: float) -> None:
        """url: of the store. where: see `open_target`."""
        self._database = database
        self._url = url
        self._where = where
        self._every_s = every_s
        self._rows: Counter[str] = Counter()
        self._failing = ""
        self._ended = 0.0

    def progress(self) -> ExportProgress:
        """Return the current figures; from any thread."""
        return ExportProgress(rows=dict(self._rows), failing=bool(self._failing), ended=self._ended)

    def run(self, stopping: threading.Event) -> None:
        """Export until `stopping` is set, which also ends a run after its current write."""
        pause = 0.0
        while not stopping.wait(pause):
            pause = self._attempt(stopping)

    def _attempt(self, stopping: threading.Event) -> float:
        """Run once if it is due; return the seconds until the next attempt. Logs failures."""
        try:
            with turn(self._database, self._url, self._where) as held:
                if held is None:
                    return min(self._every_s, RETRY_S)
                self._export(held, stopping)
        except _Stopped:
            return 0.0
        except (StoreUnavailable, InvalidConfig, OSError) as exc:
            self._on_failure(_shown(exc))
        except Exception:  # noqa: BLE001  a bug must not end the export for good
            if not self._failing:
                _log.exception("internal error during the export of records; retrying")
            self._failing = "internal error"
        else:
            if self._failing:
                _log.warning("records are exported again")
            self._failing = ""
            return min(max(1.0, self._ended + self._every_s - time.time()), self._every_s)
        return min(self._every_s, RETRY_S)

    def _export(self, held: Callable[[], None], stopping: threading.Event) -> None:
        def check() -> None:
            if stopping.is_set():
                raise _Stopped
            held()

        target = open_target(self._where)
        try:
            found = Export(self._database, _Guarded(target, check)).run(fresh_s=self._every_s)
        finally:
            target.close()
        self._rows.update(found.rows)
        self._ended = found.ended

    def _on_failure(self, why: str) -> None:
        if why != self._failing:
            _log.error("records are not exported; retrying: %s", why)
        self._failing = why


class _Stopped(Exception):
    """The process ends; the next one continues the run."""


class _Guarded:
    """A target that is only written to while the turn is held."""

    def __init__(self, target: ExportTarget, check: Callable[[], None]) -> None:
        self._target = target
        self._check = check
        self.exists = target.exists
        self.read = target.read
        self.close = target.close

    def write(self, name: str, content: bytes) -> None:
        self._check()
        self._target.write(name, content)


def _shown(error: Exception) -> str:
    """The messages of the target name the option of the command."""
    return str(error).replace("--to:", "store.export.to:")
