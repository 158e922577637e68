"""Distinguishes a stream of deltas from one in which every event repeats all text so far.

Triton's tensorrt_llm_bls sends cumulative text if it was deployed with `accumulate_tokens`, and
nothing in the answer shows it. Each event of such a stream starts with the event before it; in a
stream of deltas that stops, nearly always with the second event.
"""

PROOF = 3
"""Consecutive longer events that start with the one before, after which text is cumulative."""

STANDSTILL = 8
"""Consecutive events equal to the one before, after which events are deltas: no text grew."""

BROKEN = "\ufffd"
"""Placeholder of an unfinished character; in cumulative text a later event has the character."""


class CumulativeText:
    """Converts one choice's events to deltas.

    While both kinds are possible, deltas after the first are held (for at most `PROOF` events that
    grow). A stream that ends before that counts as cumulative if it grew. `deltas`: events are
    known to be deltas.
    """

    def __init__(self, *, deltas: bool = False) -> None:
        self._kind = "deltas" if deltas else "unknown"
        self._shown = ""
        self._waiting: list[str] = []
        self._last = ""
        self._grew = 0
        self._stood = 0

    def add(self, text: str) -> str:
        """Return the delta of an event, "" if it has none or must be held."""
        if self._kind == "deltas" or not text:
            return text
        if self._kind == "cumulative":
            return self._grown(text)
        if not self._last:
            self._last = text
            self._shown = text.rstrip(BROKEN)
            self._waiting = [text[len(self._shown) :]]
            return self._shown
        before = self._last.rstrip(BROKEN)
        if not text.startswith(before):
            return self._as_deltas() + text
        self._waiting.append(text)
        grows = bool(before) and len(text) > len(self._last)
        self._grew += grows
        self._stood = 0 if grows else self._stood + 1
        self._last = text
        if self._stood >= STANDSTILL:
            return self._as_deltas()
        if self._grew >= PROOF:
            self._kind = "cumulative"
            return self._grown(text)
        return ""

    def close(self) -> str:
        """Return the text that was still held when the stream ended."""
        if self._kind == "deltas":
            return ""
        if self._kind == "cumulative" or self._grew:
            return self._last[len(self._shown) :]
        return self._as_deltas()

    def _grown(self, text: str) -> str:
        whole = text.rstrip(BROKEN)
        piece = whole[len(self._shown) :]
        self._shown += piece
        self._last = text
        return piece

    def _as_deltas(self) -> str:
        self._kind = "deltas"
        return "".join(self._waiting)
