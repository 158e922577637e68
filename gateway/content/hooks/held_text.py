"""Text of a stream that is held back until no finding in it can grow."""

from typing import Final

from strowger_gateway.gateway.content.hooks.contract import Channel, Mask, Span, TextWindow, Verdict
from strowger_gateway.gateway.content.hooks.text_hook import merged

LONGEST: Final = 16_384
"""Characters of a finding that is masked to its end although it has begun to leave."""


class HeldText:
    """One text of one choice: `add`, look at `window`, `release` what the verdict allows.

    room: characters that still fit into the current step; 0 or less if it is complete, so that the
    text has to be examined. pieces: what was added since then.

    A finding of at most `characters` is masked whole, however the text is split. Text that leaves
    early (`everything`) stays as context, so that the rest of a finding is still masked. The text
    is examined in steps of half as many characters, because each step costs more than its text.
    """

    __slots__ = (
        "_begin",
        "_channel",
        "_characters",
        "_counted",
        "_full",
        "_offset",
        "_sent",
        "_text",
        "choice",
        "pieces",
        "room",
    )

    def __init__(self, characters: int, channel: Channel, choice: int) -> None:
        self._characters = characters
        self._full = self.room = characters + max(1, characters // 2)
        self.pieces: list[str] = []
        self.choice = choice
        self._channel: Channel = channel
        self._text = ""
        self._sent = 0
        self._begin = 0
        self._counted = -1
        self._offset = 0

    @property
    def held(self) -> int:
        """The characters that wait."""
        return self._full - self.room

    def add(self, text: str) -> None:
        self.pieces.append(text)
        self.room -= len(text)

    def window(self, *, final: bool) -> TextWindow:
        self._text += "".join(self.pieces)
        self.pieces.clear()
        return TextWindow(
            text=self._text,
            begin=self._begin,
            offset=self._offset,
            final=final,
            channel=self._channel,
            choice=self.choice,
        )

    def release(
        self, verdict: Verdict, *, final: bool, everything: bool = False
    ) -> tuple[str, tuple[str, ...]]:
        """Return the text that may leave, masked, and the rules of findings not yet reported.

        verdict: on the current window; a Block is not for here.
        """
        if type(verdict) is not Mask and not (final or everything) and self._begin >= self._sent:
            return self._passed(), ()
        text, end = self._text, len(self._text)
        spans = merged(verdict.spans) if isinstance(verdict, Mask) else []
        stop = end if final or everything else max(self._sent, end - self._characters)
        new: list[str] = []
        pieces: list[str] = []
        at, begin = self._sent, self._begin
        for span in spans:
            if span.end <= self._sent:
                continue
            grows = span.end == end and not final
            if span.start >= stop:
                break
            if grows and not everything and end - span.start <= self._characters:
                stop = max(self._sent, span.start)
                break
            if span.end > stop:
                stop = span.end
            pieces.append(text[at : max(at, span.start)])
            if span.start >= self._sent:
                pieces.append(span.replacement)
            if span.start > self._counted:
                new.append(span.rule)
                self._counted = span.start
            at = span.end
            begin = span.start if grows else span.end
        if stop > at:
            pieces.append(text[at:stop])
        self._keep(stop, begin, at, everything=everything)
        return "".join(pieces), tuple(new)

    def _passed(self) -> str:
        """`release` of a text in which nothing was found: the common case, in few steps."""
        text, stop, begin = self._text, len(self._text) - self._characters, self._begin
        sent = self._sent
        if stop < sent:
            stop = sent
        cut = stop
        if begin <= stop:
            begin = stop
            if stop:
                cut = stop - 1  # context: whether a word ends there
        self._text = text[cut:]
        self._offset += cut
        self._sent, self._begin = stop - cut, begin - cut
        self._counted -= cut
        self.room = self._full - len(text) + stop
        return text[sent:stop]

    def _keep(self, stop: int, begin: int, decided: int, *, everything: bool) -> None:
        """Forget what is neither held nor context. decided: the end of the last finding."""
        if everything:
            begin = max(begin, stop - self._characters) if begin >= decided else begin
        else:
            begin = max(begin, stop) if begin >= decided else begin
        cut = max(0, min(begin - 1, stop))
        if stop - cut > LONGEST:
            cut = stop - self._characters
            begin = max(begin, cut)
        self._text = self._text[cut:]
        self._offset += cut
        self._sent, self._begin = stop - cut, begin - cut
        self._counted -= cut
        self.room = self._full - len(self._text) + self._sent


def decided(window: TextWindow, verdict: Verdict) -> tuple[Span, ...]:
    """The findings that more text cannot change."""
    if not isinstance(verdict, Mask):
        return ()
    end = len(window.text)
    return tuple(span for span in verdict.spans if window.final or span.end < end)
