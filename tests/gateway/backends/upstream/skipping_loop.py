"""An event loop in which waiting takes no time: for timers alone, without sockets or threads.

Its clock stands still while anything runs, however slow the machine is, and moves on to the next
timer when nothing else is left to do.
"""

import asyncio
import selectors


class _Skipping(selectors.DefaultSelector):
    """now: seconds, the loop's clock."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(None if timeout is None else 0)
        if not ready and timeout:
            self.now += timeout
        return ready


class SkippingLoop(asyncio.SelectorEventLoop):
    """For the `loop_factory` of a module's `anyio_backend`."""

    def __init__(self) -> None:
        self._skipping = _Skipping()
        super().__init__(self._skipping)

    def time(self) -> float:
        """Seconds since the loop began."""
        return self._skipping.now
