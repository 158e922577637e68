"""Tells a stream of pieces from one whose every event repeats the whole text so far.

Triton's tensorrt_llm_bls sends the second kind where it was deployed with `accumulate_tokens`,
and nothing in the answer says so. Each event of such a stream begins with the event before it;
a stream of pieces stops doing that, nearly always with its second event.
"""

PROOF = 3
"""Events in a row that begin with the one before and are longer: this is growing text."""

STANDSTILL = 8
"""Events in a row that repeat the one before: these are pieces, for growing text grows."""

BROKEN = "\ufffd"
"""Stands for an unfinished character; in growing text a later event has the character itself."""


class CumulativeText:
    """One choice's events turned into pieces.

    While both kinds are possible, pieces after the first wait (for at most `PROOF` events that
    grow). A stream that ends before that is taken for growing text if it grew. `pieces`: it is
    known that events are pieces.
    """

    def __init__(self, *, pieces: bool = False) -> None:
        self._kind = "pieces" if pieces else "unknown"
        self._shown = ""
        self._waiting: list[str] = []
        self._last = ""
        self._grew = 0
        self._stood = 0

    def add(self, text: str) -> str:
        """The piece that one event brings, "" where it brings none or must wait."""
        if self._kind == "pieces" or not text:
            return text
        if self._kind == "growing":
            return self._grown(text)
        if not self._last:
            self._last = text
            self._shown = text.rstrip(BROKEN)
            self._waiting = [text[len(self._shown) :]]
            return self._shown
        before = self._last.rstrip(BROKEN)
        if not text.startswith(before):
            return self._as_pieces() + text
        self._waiting.append(text)
        grows = bool(before) and len(text) > len(self._last)
        self._grew += grows
        self._stood = 0 if grows else self._stood + 1
        self._last = text
        if self._stood >= STANDSTILL:
            return self._as_pieces()
        if self._grew >= PROOF:
            self._kind = "growing"
            return self._grown(text)
        return ""

    def close(self) -> str:
        """What still waited when the stream ended."""
        if self._kind == "pieces":
            return ""
        if self._kind == "growing" or self._grew:
            return self._last[len(self._shown) :]
        return self._as_pieces()

    def _grown(self, text: str) -> str:
        whole = text.rstrip(BROKEN)
        piece = whole[len(self._shown) :]
        self._shown += piece
        self._last = text
        return piece

    def _as_pieces(self) -> str:
        self._kind = "pieces"
        return "".join(self._waiting)
