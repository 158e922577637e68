"""What the client has received of a streamed answer, as far as another backend needs it."""

from collections.abc import Sequence

from strowger_gateway.schemas.events import (
    Event,
    Finished,
    OpaqueDelta,
    Started,
    TextDelta,
    Tokens,
    Usage,
)
from strowger_gateway.schemas.searches import SEARCHES


class ShownAnswer:
    """Collects the events that were given to the client.

    ids:      of its tokens, if the client gets tokens.
    produced: content events so far, of tokens their ids: the estimate of the tokens generated.
    finished: its end was shown.
    lacking:  what it has that no other backend can continue; "" if all of it can be.
    """

    __slots__ = ("_texts", "finished", "ids", "lacking", "produced")

    def __init__(self) -> None:
        self._texts: list[str] = []
        self.ids: list[int] = []
        self.produced = 0
        self.finished = False
        self.lacking = ""

    @property
    def text(self) -> str:
        if len(self._texts) > 1:
            self._texts = ["".join(self._texts)]
        return self._texts[0] if self._texts else ""

    def add(self, batch: Sequence[Event]) -> None:
        for event in batch:
            if isinstance(event, TextDelta):
                self._texts.append(event.text)
                self.produced += 1
                if event.logprobs:
                    self.lacking = "logprobs"
            elif isinstance(event, Tokens):
                self._texts.append(event.text)
                self.ids += event.ids
                self.produced += len(event.ids)
                if event.logprobs:
                    self.lacking = "logprobs"
            elif isinstance(event, Finished):
                self.finished = True
            elif not (isinstance(event, Started | Usage) or _is_search(event)):
                self.lacking = type(event).__name__


def _is_search(event: Event) -> bool:
    """Return whether it is about web searches only; the text after them goes on without them."""
    return isinstance(event, OpaqueDelta) and event.fields.keys() == {SEARCHES}
