"""Decodes one block of an Anthropic answer: its events, and at the end the complete block."""

import msgspec
from msgspec import Raw

from strowger_gateway.adapters.anthropic.wire import BlockDelta, ContentBlock, read_delta
from strowger_gateway.adapters.json_objects import NULL, UNREADABLE, read_object
from strowger_gateway.schemas.events import Event, NativeDelta, ReasoningDelta, TextDelta, ToolDelta
from strowger_gateway.schemas.messages import CLAUDE

THOUGHTS = frozenset({"thinking", "redacted_thinking"})
_CALL = frozenset({"id", "input", "name", "type"})
RANKS = {"thinking": 0, "redacted_thinking": 0, "text": 1, "tool_use": 2}

_encode = msgspec.json.Encoder().encode
_text: msgspec.json.Decoder[str | None] = msgspec.json.Decoder(str | None)
_EMPTY = Raw(b"{}")


class OpenBlock:
    """tool, thought: the index of this block among those of its kind, if it is one.

    answers: a call whose arguments are the answer's text, not a call for the client.
    native: the client speaks this API; what our events do not have becomes a NativeDelta.
    """

    def __init__(
        self,
        block: ContentBlock,
        raw: Raw,
        *,
        tool: int,
        thought: int,
        answers: bool = False,
        native: bool = False,
    ) -> None:
        self.kind = block.type
        self._answers = answers
        self._native = native
        self._verbatim = native and (
            block.type not in RANKS or bool(block.citations) or _has_more(raw)
        )
        self._block = block
        self._raw = raw
        self._tool = tool
        self._thought = thought
        self._texts: list[str] = []
        self._thinking: list[str] = []
        self._signatures: list[str] = []
        self._json: list[str] = []
        self._citations: list[Raw] = []
        self._more: dict[str, list[Raw]] = {}
        self._closed = False

    @property
    def thinks(self) -> bool:
        return self.kind in THOUGHTS

    @property
    def calls(self) -> bool:
        return self.kind == "tool_use" and not self._answers

    @property
    def rank(self) -> int:
        """Return its position in OpenAI's dialect: before, in or after the text."""
        return 1 if self._answers else RANKS.get(self.kind, 1)

    @property
    def opaque(self) -> bool:
        """Return whether it contains something outside OpenAI's dialect."""
        return self.kind not in RANKS or bool(self._citations) or bool(self._more)

    def begin(self) -> list[Event]:
        block = self._block
        self._citations.extend(block.citations or ())
        if self._verbatim:
            self._texts += [block.text] if block.text else []
            return [NativeDelta(block=self._raw)]
        match self.kind:
            case "tool_use" if self._answers:
                return []
            case "tool_use":
                return [ToolDelta(tool=self._tool, id=block.id, name=block.name)]
            case "redacted_thinking":
                return [
                    ReasoningDelta(
                        text="", block=self._thought, data=block.data or "", format=CLAUDE
                    )
                ]
            case "text" | "thinking":
                return self.add(
                    BlockDelta(
                        type=self.kind,
                        text=block.text or "",
                        thinking=block.thinking or "",
                        signature=block.signature or "",
                    )
                )
            case _:
                return []

    def passed_on(self, data: bytes) -> list[Event]:
        """Return the delta's event as it is, if the client reads it."""
        return [NativeDelta(delta=read_delta(data))] if self._native else []

    def add(self, delta: BlockDelta, data: bytes = b"") -> list[Event]:
        """Add a delta. A proof is held until the block ends, because it must come last.

        data: the event that contains it.
        """
        found = self._add(delta)
        if self._verbatim and data:
            return self.passed_on(data)
        if self._native and delta.citation != NULL:
            return [TextDelta(text=""), *self.passed_on(data)]  # the first opens the block
        return found

    def _add(self, delta: BlockDelta) -> list[Event]:
        if delta.text and self.kind == "text":
            self._texts.append(delta.text)
            return [TextDelta(text=delta.text)]
        if delta.thinking and self.kind == "thinking":
            self._thinking.append(delta.thinking)
            found: list[Event] = [ReasoningDelta(text=delta.thinking, block=self._thought)]
        else:
            found = []
        if delta.signature:
            self._signatures.append(delta.signature)
        if delta.citation != NULL:
            self._citations.append(delta.citation)
        if delta.partial_json:
            self._json.append(delta.partial_json)
            if self._answers:
                return [TextDelta(text=delta.partial_json)]
            if self.kind == "tool_use":
                return [ToolDelta(tool=self._tool, arguments=delta.partial_json)]
        return found

    def note(self, more: dict[str, Raw]) -> None:
        """Store members of a delta of an unknown type, such as `compaction_delta`."""
        for name, raw in more.items():
            self._more.setdefault(name, []).append(raw)

    def close(self) -> list[Event]:
        """Return the events known only at the end; none on a second call."""
        if self._closed:
            return []
        self._closed = True
        if self._verbatim:
            return []
        if self._answers and not self._json:
            return [TextDelta(text=self._input())]
        if self.kind == "tool_use" and not self._json:
            return [ToolDelta(tool=self._tool, arguments=self._input())]
        if self.kind == "thinking" and self._signatures:
            proof = "".join(self._signatures)
            return [ReasoningDelta(text="", block=self._thought, signature=proof, format=CLAUDE)]
        return []

    def whole(self) -> Raw:
        """Return the block as a complete answer would contain it."""
        if self._answers:
            return _raw({"type": "text", "text": "".join(self._json) or self._input()})
        fields = read_object(self._raw)
        if self.kind == "text":
            fields["text"] = _raw("".join(self._texts))
        if self.kind == "thinking":
            fields["thinking"] = _raw("".join(self._thinking))
            fields["signature"] = _raw("".join(self._signatures))
        if self._citations:
            fields["citations"] = _raw(self._citations)
        if self._json:
            fields["input"] = _object("".join(self._json))
        for name, pieces in self._more.items():
            fields[name] = _joined(fields.get(name, NULL), pieces)
        return _raw(fields)

    def _input(self) -> str:
        """Return the arguments; some servers send them complete at the start."""
        raw = self._block.input
        return "{}" if raw == NULL else msgspec.json.format(raw, indent=-1).decode()


def _has_more(raw: Raw) -> bool:
    """Return whether a call has members that our events do not have, such as `caller`."""
    if b'"tool_use"' not in bytes(raw):
        return False
    return not read_object(raw).keys() <= _CALL


def _joined(first: Raw, pieces: list[Raw]) -> Raw:
    """Append text to the block's text, or to nothing; replace any other value.

    https://platform.claude.com/docs/en/build-with-claude/compaction#streaming
    """
    try:
        return _raw("".join([_text.decode(piece) or "" for piece in (first, *pieces)]))
    except UNREADABLE:
        return pieces[-1]


def _object(text: str) -> Raw:
    """Return the object; {} for arguments that were cut off by a token limit."""
    try:
        return Raw(_encode(read_object(text)))
    except UNREADABLE:
        return _EMPTY


def _raw(value: object) -> Raw:
    return Raw(_encode(value))
