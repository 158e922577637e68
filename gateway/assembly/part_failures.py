"""What a bug in a part costs: one call of that part, and the log names it.

Where nothing can go on without the part, `named` (gateway/config/parts/named.py) adds its name to
the exception; everywhere else `Apart` keeps the exception from the other parts.
"""

import logging
from collections.abc import Generator
from contextlib import contextmanager

from strowger_gateway.gateway.platform.background import OnCrash

_log = logging.getLogger("strowger")


def told(exc: Exception) -> str:
    """Return an exception in one line, with the part that is named in it."""
    notes: list[str] = getattr(exc, "__notes__", [])
    return "; ".join((f"{type(exc).__name__}: {exc}", *notes))


class Apart:
    """Calls of parts, of which none may cost the others anything. crashed: counts the failures."""

    def __init__(self, crashed: OnCrash) -> None:
        self._crashed = crashed

    @contextmanager
    def __call__(self, part: str, what: str) -> Generator[None]:
        """Log and count what is raised here, and go on."""
        try:
            yield
        except Exception as exc:  # noqa: BLE001  a bug in one part must not cost others theirs
            self.failed(part, what, exc)

    def failed(self, part: str, what: str, exc: BaseException) -> None:
        """Log and count a failure."""
        _log.error("internal error: part %s: %s failed", part, what, exc_info=exc)
        self._crashed("parts")
