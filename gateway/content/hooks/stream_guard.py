"""One guardrail over the events of one streamed answer, without I/O.

`StreamGuard` takes events and returns those that may leave. Each piece of text belongs to one text
of the answer, a `HeldText`, which is held back until no finding in it can grow. What is released
leaves in an event of the same place.
"""

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from strowger_gateway.gateway.content.hooks.answer_texts import (
    Key,
    Piece,
    carries_more,
    guarded_started,
    guarded_usage,
    mask_fields,
    mask_json,
    only_text,
    place_of,
    text_key,
    verdict_of,
    with_stop_masked,
    with_text,
)
from strowger_gateway.gateway.content.hooks.contract import (
    PASS,
    Block,
    Channel,
    Mask,
    Span,
    TextWindow,
    Verdict,
)
from strowger_gateway.gateway.content.hooks.guards import ANSWER, DIRECT, Rail, RequestGuards
from strowger_gateway.gateway.content.hooks.plain_escapes import PlainEscapes
from strowger_gateway.gateway.content.hooks.text_hook import merged
from strowger_gateway.schemas.events import (
    Event,
    Finished,
    Logits,
    NativeDelta,
    OpaqueDelta,
    ReasoningDelta,
    RefusalDelta,
    Started,
    TextDelta,
    Tokens,
    ToolDelta,
    Usage,
)

LONGEST: Final = 16_384
"""Characters of a finding that is masked to its end although it has begun to leave."""


class StreamGuard:
    """Holds back text of each choice, until the hook has examined it. Raises ContentBlocked.

    Its coroutines wait only for a hook that waits.
    """

    __slots__ = ("_escapes", "_held", "_open", "_text", "guards", "rail")

    def __init__(self, guards: RequestGuards, rail: Rail) -> None:
        self.rail = rail
        self.guards = guards
        self._held: dict[Key, tuple[HeldText, Piece]] = {}
        self._open: dict[tuple[int, bool], Key] = {}
        self._escapes: dict[Key, PlainEscapes] = {}
        self._text = _NO_TEXT

    @property
    def waiting(self) -> bool:
        """Whether it holds back any text."""
        return any(held.held for held, _ in self._held.values())

    def absorb(self, events: Sequence[Event]) -> bool:
        """Hold back a piece of text that needs no examination yet; false if it is anything else."""
        # Most events of a stream pass here: unpacking is cheaper than `len`, and `add` is inlined.
        try:
            (event,) = events
        except ValueError:
            return False
        held = self._text
        if type(event) is TextDelta and event.index == held.choice:
            text = event.text
            room = held.room - len(text)
            if room > 0:
                held.room = room
                held.pieces.append(text)
                return True
        return False

    async def take(self, events: Sequence[Event]) -> list[Event]:
        """Return the events that may leave."""
        out: list[Event] = []
        for event in events:
            held = self._text
            if type(event) is TextDelta and event.index == held.choice and event.text:
                held.add(event.text)
                if held.room <= 0:
                    await self._release(text_key(held.choice), out)
                continue
            match event:
                case TextDelta() | ReasoningDelta() | RefusalDelta() | ToolDelta():
                    await self._piece(event, out)
                case NativeDelta():
                    await self._native(event, out)
                case Finished():
                    await self._end(event.index, out)
                    if isinstance(event.stop_match, str):
                        event = await with_stop_masked(self.guards, self.rail, event)
                    out.append(event)
                case OpaqueDelta():  # it waits for no text: vendors add such fields to each piece
                    fields = await mask_fields(self.guards, self.rail, event.fields)
                    out.append(replace(event, fields=fields))
                case Started():
                    if event.extra:
                        extra = await mask_fields(self.guards, self.rail, event.extra)
                        event = replace(event, extra=extra)
                    out.append(guarded_started(self.guards, self.rail, event))
                case Tokens() | Logits():
                    if self.rail.enforces:
                        self.guards.report(self.rail, ANSWER, ("not_readable",), blocks=True)
                    out.append(event)
                case Usage():
                    out.append(guarded_usage(self.guards, self.rail, event))
        return out

    async def release_all(self) -> list[Event]:
        """Return what is held, because it has waited long enough."""
        out: list[Event] = []
        for key in list(self._held):
            await self._release(key, out, everything=True)
        return out

    async def end(self) -> list[Event]:
        """Return the rest of the answer."""
        out: list[Event] = []
        for key in list(self._held):
            await self._release(key, out, final=True)
        return out

    async def _piece(self, event: Piece, out: list[Event]) -> None:
        place = place_of(event)
        assert place is not None
        bare = with_text(event, "")
        more = carries_more(bare)
        await self._begin(event, place.key, out)
        if isinstance(event, ToolDelta) and more:
            out.append(bare)  # the id and the name come before their arguments
        elif not place.text and not more:
            out.append(bare)
        await self._add(event, place.key, place.channel, place.text, out)
        if isinstance(event, ReasoningDelta) and more:
            await self._release(place.key, out, final=True)
            out.append(bare)  # the proof comes after its text

    async def _begin(self, event: Piece, key: Key, out: list[Event]) -> None:
        """Release the text before another part of the answer begins."""
        line = (event.index, isinstance(event, NativeDelta))
        if self._open.get(line, key) != key:
            await self._pause(event.index, out, native=line[1])
        self._open[line] = key

    async def _add(
        self, event: Piece, key: Key, channel: Channel, text: str, out: list[Event]
    ) -> None:
        found = self._held.get(key)
        size = self.rail.settings.hold_back.characters
        held = HeldText(size, channel, event.index) if found is None else found[0]
        self._held[key] = (held, event)
        if type(event) is TextDelta:
            self._text = held
        elif channel == "tool_arguments":
            escapes = self._escapes.get(key)
            if escapes is None:
                escapes = self._escapes[key] = PlainEscapes()
            text = escapes.add(text)
        held.add(text)
        if held.room <= 0:
            await self._release(key, out)

    async def _pause(self, choice: int, out: list[Event], *, native: bool = False) -> None:
        key = self._open.pop((choice, native), None)
        if key is not None:
            self._end_escapes(key)
            await self._release(key, out, everything=True)
        if not native:
            self._text = _NO_TEXT

    async def _end(self, choice: int, out: list[Event]) -> None:
        self._text = _NO_TEXT
        for key in [key for key in self._held if key[0] == choice]:
            await self._release(key, out, final=True)
            del self._held[key]

    async def _native(self, event: NativeDelta, out: list[Event]) -> None:
        """A piece of text of a vendor's own event is held back as ours are; the rest is whole."""
        place = place_of(event)
        if place is not None:
            await self._begin(event, place.key, out)
            await self._add(event, place.key, place.channel, place.text, out)
            return
        await self._pause(event.index, out, native=True)
        if not self._repeats(event):
            await self._pause(event.index, out)
        block, delta = event.block, event.delta
        if block is not None:
            block = await mask_json(self.guards, self.rail, block)
        if delta is not None:
            delta = await mask_json(self.guards, self.rail, delta)
        out.append(replace(event, block=block, delta=delta))

    @staticmethod
    def _repeats(event: NativeDelta) -> bool:
        """Whether our own events follow with the same content, as for the Responses API."""
        return event.delta is not None and b'"response.' in bytes(event.delta)

    def _end_escapes(self, key: Key) -> None:
        """Add the beginning of an escape that waits for its end."""
        escapes = self._escapes.pop(key, None)
        if escapes is not None:
            self._held[key][0].add(escapes.end())

    async def _release(
        self, key: Key, out: list[Event], *, final: bool = False, everything: bool = False
    ) -> None:
        held, piece = self._held[key]
        if final:
            self._end_escapes(key)
        if not (held.held or final):
            return
        window = held.window(final=final)
        if self.rail.waits or len(window.text) > DIRECT:
            verdict = await verdict_of(self.guards, self.rail, window)
        else:
            found = self.guards.call_now(self.rail, ANSWER, self.rail.hook.chunk, window)
            verdict = PASS if found is None else found
        if isinstance(verdict, Block):
            self.guards.report(self.rail, ANSWER, (verdict.rule,), blocks=True)
            verdict = PASS
        if self.rail.settings.mode == "block":
            sure = decided(window, verdict)
            self.guards.report(self.rail, ANSWER, [span.rule for span in sure])
            verdict = PASS if final or not isinstance(verdict, Mask) else verdict
        text, rules = held.release(verdict, final=final, everything=everything)
        if rules:
            self.guards.report(self.rail, ANSWER, rules)
        if text:
            out.append(only_text(piece, text))


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


_NO_TEXT: Final = HeldText(0, "text", -1)
"""Of no choice."""


def decided(window: TextWindow, verdict: Verdict) -> tuple[Span, ...]:
    """The findings that more text cannot change."""
    if not isinstance(verdict, Mask):
        return ()
    end = len(window.text)
    return tuple(span for span in verdict.spans if window.final or span.end < end)
