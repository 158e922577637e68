"""The time that each token took, where the backend does not tell."""

from collections.abc import Iterable

import msgspec

from schemas.events import Event, Tokens


class Intervals:
    """Of one answer. Tokens that arrive together share one time, which the first of them gets.

    A backend that tells the first token's time tells every one's: nothing of it is replaced.
    """

    def __init__(self, began: float) -> None:
        """began: when the request came, on the clock of `timed`; seconds."""
        self._last = began
        self._begun = False
        self._told = False

    def timed(self, batch: Iterable[Event], now: float) -> list[Event]:
        """The batch with `elapsed_ms` in its tokens. now: when it arrived."""
        events = list(batch)
        if self._told:
            return events
        for place, event in enumerate(events):
            if not isinstance(event, Tokens):
                continue
            if not self._begun:
                self._begun = True
                self._told = event.elapsed_ms > 0
                if self._told:
                    break
            elapsed = (now - self._last) * 1e3
            events[place] = msgspec.structs.replace(event, elapsed_ms=elapsed)
            self._last = now
        return events
