"""Cuts an answer's text at its stop strings, for backends that return or miss a match.

A server misses a stop string if its tokens depend on the text before it, and returns it if the
answer ends with the token that completes it. The gateway never returns it.
"""

from collections.abc import Sequence


class StopStrings:
    """One choice's text, in pieces. `found` is the stop string that ended it, "" before that.

    `found` is the one that is complete first, so the cut does not depend on the pieces.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stop for stop in stops if stop)
        self._held: str = ""
        self.found: str = ""

    def feed(self, text: str) -> str:
        """Return the text to emit; text that may start a stop string is held, after one it ends."""
        if self.found or not self._stops:
            return "" if self.found else text
        text = self._held + text
        ends = [
            (place + len(stop), place, stop)
            for stop in self._stops
            if (place := text.find(stop)) >= 0
        ]
        if ends:
            _, place, self.found = min(ends)
            self._held = ""
            return text[:place]
        waits = max(_overlap(text, stop) for stop in self._stops)
        self._held = text[len(text) - waits :]
        return text[: len(text) - waits]

    def close(self) -> str:
        """Return the held text, after a stop string that was never completed."""
        held, self._held = self._held, ""
        return held


def _overlap(text: str, stop: str) -> int:
    """Return the number of characters at the end of `text` with which `stop` starts."""
    longest = min(len(text), len(stop) - 1)
    return next((size for size in range(longest, 0, -1) if text.endswith(stop[:size])), 0)
