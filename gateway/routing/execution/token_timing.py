"""Measure the time of each token, if the backend does not report it."""

from collections.abc import Iterable

import msgspec

from strowger_gateway.schemas.events import Event, Tokens


class Intervals:
    """The times between the tokens of one answer.

    If tokens arrive together, the first gets the time since the previous arrival, the others 0. A
    backend that reports a time for the first token reports all of them, so none is replaced.
    """

    def __init__(self, began: float) -> None:
        """began: when the request arrived, in seconds of the clock of `timed`."""
        self._last = began
        self._seen_first = False
        self._reported = False

    def timed(self, batch: Iterable[Event], now: float) -> list[Event]:
        """The batch with `elapsed_ms` in its tokens. now: when it arrived, in seconds."""
        events = list(batch)
        if self._reported:
            return events
        for index, event in enumerate(events):
            if not isinstance(event, Tokens):
                continue
            if not self._seen_first:
                self._seen_first = True
                self._reported = event.elapsed_ms > 0
                if self._reported:
                    break
            elapsed = (now - self._last) * 1e3
            events[index] = msgspec.structs.replace(event, elapsed_ms=elapsed)
            self._last = now
        return events
