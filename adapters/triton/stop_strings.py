"""Cuts an answer's text at its stop strings, for backends that return the match or overlook it.

A stop string is overlooked where its tokens depend on the text before it, and returned where a
server ends an answer with the token that completes it. Ours is never returned.
"""

from collections.abc import Sequence


class StopStrings:
    """One choice's text, in pieces. `found` is the stop string that ended it, "" before that.

    That is the one that is complete first, so the pieces never show in what is cut.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stop for stop in stops if stop)
        self._held: str = ""
        self.found: str = ""

    def feed(self, text: str) -> str:
        """What can be shown now: text that may begin a stop string waits, and none follows one."""
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
        """What waited for a stop string that never came."""
        held, self._held = self._held, ""
        return held


def _overlap(text: str, stop: str) -> int:
    """Characters at the end of `text` with which `stop` begins."""
    longest = min(len(text), len(stop) - 1)
    return next((size for size in range(longest, 0, -1) if text.endswith(stop[:size])), 0)
