"""Watch the engine's thread: a step that never returns ends the process.

A thread cannot be interrupted inside a kernel, but a process can be replaced: the gateway starts a
new one, and the requests of this one fail at once instead of waiting for ever.
"""

import time
from collections.abc import Callable
from threading import Event, Thread

LONGEST_TICK_S = 5.0


class Pulse:
    """The step in progress of the engine's thread; not used while loading and warming up.

    begun: the model whose step is running, and its start (the clock's seconds); `None` between
           two steps.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.begun: tuple[str, float] | None = None

    def begin(self, name: str) -> None:
        self.begun = (name, self.clock())

    def end(self) -> None:
        self.begun = None


class Watchdog:
    """Checks a pulse in its own thread, from `start` to `stop`.

    limit_s: for one step. hung: called once with the reason. tick: called at each check, at least
    every LONGEST_TICK_S.
    """

    def __init__(
        self,
        pulse: Pulse,
        *,
        limit_s: float,
        hung: Callable[[str], None],
        tick: Callable[[], None] = lambda: None,
    ) -> None:
        self._pulse = pulse
        self._limit_s = limit_s
        self._hung = hung
        self._tick = tick
        self._over = Event()
        self._thread = Thread(target=self._run, name="watchdog", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join()

    def check(self) -> bool:
        """Return True if the thread hangs; `hung` was then called."""
        self._tick()
        begun = self._pulse.begun
        if begun is None or self._pulse.clock() - begun[1] <= self._limit_s:
            return False
        self._hung(
            f"a step of model {begun[0]} has not returned within {self._limit_s:g} s "
            "(step_timeout_s)"
        )
        return True

    def _run(self) -> None:
        self._tick()
        while not self._over.wait(min(self._limit_s / 4, LONGEST_TICK_S)):
            if self.check():
                return
