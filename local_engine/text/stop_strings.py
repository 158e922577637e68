"""Find stop strings in a text that arrives in pieces."""

from collections.abc import Sequence

from msgspec import Struct


class Cut(Struct, frozen=True, kw_only=True):
    """text: to show now. match: the stop string that ended the answer, or `None`."""

    text: str
    match: str | None = None


class StopStrings:
    """Finds the leftmost of some strings; at the same position, the longest.

    Text that may start a match is held back until that is known. The match and the text after it
    are never shown.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        """Empty strings are ignored: they would match everywhere."""
        self._stops = sorted((stop for stop in set(stops) if stop), key=len, reverse=True)
        self._held = ""

    @property
    def held(self) -> int:
        """Characters held back."""
        return len(self._held)

    def feed(self, piece: str) -> Cut:
        if not self._stops:
            return Cut(text=piece)
        text = self._held + piece
        found = [(at, stop) for stop in self._stops if (at := text.find(stop)) >= 0]
        if found:
            at, stop = min(found, key=lambda pair: pair[0])
            self._held = ""
            return Cut(text=text[:at], match=stop)
        keep = max(overlap(text, stop) for stop in self._stops)
        self._held = text[len(text) - keep :]
        return Cut(text=text[: len(text) - keep])

    def close(self) -> str:
        """Return the text still held back: there is no match."""
        held, self._held = self._held, ""
        return held


def overlap(text: str, stop: str) -> int:
    """Return the length of the longest suffix of `text` that is a proper prefix of `stop`."""
    for length in range(min(len(stop) - 1, len(text)), 0, -1):
        if text.endswith(stop[:length]):
            return length
    return 0
