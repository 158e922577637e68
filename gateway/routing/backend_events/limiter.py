"""How many events of one backend are kept: a flapping one must not push out all the others."""

from collections import deque

MOST, WINDOW_S = 6, 60.0
"""Events of one backend that are kept within this time, in seconds."""


PLACES = 4096
"""Keys that are remembered. Replicas come and go, and their addresses with them."""


class Limiter:
    """Admits MOST events per backend within WINDOW_S."""

    def __init__(self) -> None:
        self._times: dict[tuple[str, str], deque[float]] = {}

    def admits(self, key: tuple[str, str], now: float) -> bool:
        """Whether one more is kept; it then counts. now: in seconds, of any clock."""
        times = self._times[key] = self._times.pop(key, None) or deque(maxlen=MOST)
        if len(self._times) > PLACES:
            del self._times[next(iter(self._times))]
        if len(times) == MOST and abs(now - times[0]) < WINDOW_S:
            return False
        times.append(now)
        return True
