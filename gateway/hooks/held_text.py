"""Text of a stream that is held back until no finding in it can grow."""

from typing import Final

from gateway.hooks.contract import Channel, Mask, Span, TextWindow, Verdict
from gateway.hooks.text_hook import merged

LONGEST: Final = 16_384
"""Characters of a finding that is masked to its end although it has begun to leave."""


class HeldText:
    """One text of one choice: `add`, look at `window`, `release` what the verdict allows.

    A finding of at most `characters` is masked whole, however the text is split. Text that leaves
    early (`everything`) stays as context, so that the rest of a finding is still masked. The text
    is examined in steps of half as many characters, because each step costs more than its text.
    """

    __slots__ = (
        "_begin",
        "_channel",
        "_characters",
        "_choice",
        "_counted",
        "_full",
        "_offset",
        "_sent",
        "_text",
        "held",
    )

    def __init__(self, characters: int, channel: Channel, choice: int) -> None:
        """held: the characters that wait."""
        self.held = 0
        self._characters = characters
        self._full = characters + max(1, characters // 2)
        self._channel: Channel = channel
        self._choice = choice
        self._text = ""
        self._sent = 0
        self._begin = 0
        self._counted = -1
        self._offset = 0

    @property
    def full(self) -> bool:
        """Whether a step is complete, so that the text has to be examined."""
        return self.held >= self._full

    def add(self, text: str) -> None:
        self._text += text
        self.held += len(text)

    def absorb(self, text: str) -> bool:
        """Add the text if no step is complete with it; otherwise return false."""
        held = self.held + len(text)
        if held >= self._full:
            return False
        self._text += text
        self.held = held
        return True

    def window(self, *, final: bool) -> TextWindow:
        return TextWindow(
            text=self._text,
            begin=self._begin,
            offset=self._offset,
            final=final,
            channel=self._channel,
            choice=self._choice,
        )

    def release(
        self, verdict: Verdict, *, final: bool, everything: bool = False
    ) -> tuple[str, tuple[str, ...]]:
        """Return the text that may leave, masked, and the rules of findings not yet reported.

        verdict: on the current window; a Block is not for here.
        """
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
        self.held = len(self._text) - self._sent


def decided(window: TextWindow, verdict: Verdict) -> tuple[Span, ...]:
    """The findings that more text cannot change."""
    if not isinstance(verdict, Mask):
        return ()
    end = len(window.text)
    return tuple(span for span in verdict.spans if window.final or span.end < end)
