"""One guardrail over the events of one streamed answer, without I/O.

`StreamGuard` takes events and returns those that may leave. Each piece of text belongs to one text
of the answer (`place_of`), which is held back as `HeldText` says; what is released leaves in an
event of the same place (`only_text`).
"""

from collections.abc import Mapping, Sequence
from typing import Final, cast

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from strowger_gateway.gateway.content.hooks.answer_texts import (
    guarded_started,
    guarded_usage,
    mask_fields,
    mask_json,
    verdict_of,
    with_stop_masked,
)
from strowger_gateway.gateway.content.hooks.contract import PASS, Block, Channel, Mask
from strowger_gateway.gateway.content.hooks.guards import ANSWER, DIRECT, Rail, RequestGuards
from strowger_gateway.gateway.content.hooks.held_text import HeldText, decided
from strowger_gateway.gateway.content.hooks.plain_escapes import PlainEscapes
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

_NO_TEXT: Final = HeldText(0, "text", -1)
"""Of no choice."""

Piece = TextDelta | ReasoningDelta | RefusalDelta | ToolDelta | NativeDelta
Key = tuple[object, ...]
"""Its first item is the choice."""

_TEXTS: Final = ("delta", "partial_json", "text", "thinking")
_PLACE: Final = ("type", "output_index", "content_index", "summary_index")
_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


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


class TextPlace(Struct, frozen=True, kw_only=True, gc=False):
    """Where a piece of text belongs."""

    key: Key
    channel: Channel
    text: str


def place_of(event: Piece) -> TextPlace | None:
    """Return where an event's text belongs; `None` for a native event without a piece of text."""
    at = event.index
    match event:
        case TextDelta():
            return TextPlace(key=text_key(at), channel="text", text=event.text)
        case RefusalDelta():
            return TextPlace(key=(at, "refusal"), channel="refusal", text=event.text)
        case ReasoningDelta():
            key = (at, "reasoning", event.block)
            return TextPlace(key=key, channel="reasoning", text=event.text)
        case ToolDelta():
            key = (at, "tool", event.tool)
            return TextPlace(key=key, channel="tool_arguments", text=event.arguments)
        case NativeDelta():
            return _native_place(event)


def text_key(choice: int) -> Key:
    """Return the key of a choice's text."""
    return choice, "text"


def with_text(event: Piece, text: str) -> Piece:
    """The event with another text, and without log probabilities, which repeat it."""
    match event:
        case ToolDelta():
            return replace(event, arguments=text)
        case ReasoningDelta():
            return replace(event, text=text)
        case NativeDelta():
            return _native_with(event, text)
        case _:
            return replace(event, text=text, logprobs=())


def only_text(event: Piece, text: str) -> Piece:
    """The text at the event's place, without what came with the event."""
    match event:
        case TextDelta():
            return TextDelta(text=text, index=event.index)
        case RefusalDelta():
            return RefusalDelta(text=text, index=event.index)
        case ReasoningDelta():
            return ReasoningDelta(text=text, index=event.index, block=event.block)
        case ToolDelta():
            return ToolDelta(tool=event.tool, index=event.index, arguments=text)
        case NativeDelta():
            return _native_with(event, text)


def carries_more(event: Piece) -> bool:
    """Whether it has more than text."""
    if isinstance(event, ToolDelta):
        return bool(event.id or event.name or event.signature)
    return isinstance(event, ReasoningDelta) and bool(event.signature or event.data)


def _native_place(event: NativeDelta) -> TextPlace | None:
    """Find the text of `response.….delta` and of Anthropic's `…_delta`; each has one of _TEXTS."""
    if event.delta is None or b"delta" not in bytes(event.delta):
        return None
    fields: object = _decode(event.delta)
    if not isinstance(fields, dict):
        return None
    found = cast("Mapping[str, object]", fields)
    if not str(found.get("type", "")).endswith("delta"):
        return None
    for name in _TEXTS:
        text = found.get(name)
        if isinstance(text, str):
            where = tuple(found.get(one) for one in _PLACE)
            key = (event.index, "native", name, *where)
            channel = "tool_arguments" if _is_json(name, str(found["type"])) else "other"
            return TextPlace(key=key, channel=channel, text=text)
    return None


def _is_json(name: str, kind: str) -> bool:
    return name == "partial_json" or kind == "response.function_call_arguments.delta"


def _native_with(event: NativeDelta, text: str) -> NativeDelta:
    assert event.delta is not None
    fields = cast("dict[str, object]", _decode(event.delta))
    for name in _TEXTS:
        if isinstance(fields.get(name), str):
            fields[name] = text
            fields.pop("logprobs", None)
            break
    return replace(event, delta=Raw(_encode(fields)))
