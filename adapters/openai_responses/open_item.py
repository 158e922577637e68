"""One item of an answer while it grows: which pieces were sent on, and what its end adds."""

from collections.abc import Sequence

import msgspec

from strowger_gateway.adapters.json_objects import NULL
from strowger_gateway.adapters.openai_responses.wire import (
    ItemPart,
    OutputItem,
    StreamEvent,
    logprobs_of,
    sealed,
)
from strowger_gateway.schemas.events import (
    Event,
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
    ToolDelta,
)
from strowger_gateway.schemas.messages import OPENAI

READ = frozenset({"message", "reasoning", "function_call", "custom_tool_call"})
"""Types of items that our events have."""

_CALLS = frozenset({"function_call", "custom_tool_call"})
_BETWEEN = "\n\n"
"""Separates the parts of a summary, which are paragraphs."""

_encode = msgspec.json.Encoder().encode
_NOTHING = ItemPart()


class OpenItem:
    """An item that began. Servers may send it whole at its end only, or leave out its end.

    tool, thought: its index among the calls or thoughts. proves: its vendor reads its own
    encrypted reasoning.
    """

    def __init__(self, item: OutputItem, *, tool: int, thought: int, proves: bool) -> None:
        self.kind = item.type
        self.closed = False
        self._item = item
        self._tool = tool
        self._thought = thought
        self._proves = proves
        self._place: tuple[str, int] | None = None
        self._shown = False

    @property
    def calls(self) -> bool:
        return self.kind in _CALLS

    @property
    def thinks(self) -> bool:
        return self.kind == "reasoning"

    def begin(self) -> list[Event]:
        item = self._item
        if not self.calls:
            return []
        id = item.call_id or item.id or ""
        return [ToolDelta(tool=self._tool, id=id, name=item.name or "")]

    def text(self, event: StreamEvent) -> list[Event]:
        self._shown = True
        return [TextDelta(text=event.delta, logprobs=logprobs_of(event.logprobs))]

    def refusal(self, piece: str) -> list[Event]:
        self._shown = True
        return [RefusalDelta(text=piece)]

    def arguments(self, piece: str) -> list[Event]:
        """Return a piece of a call; a custom tool's text is sent as an object, at its end."""
        if self.kind != "function_call" or not piece:
            return []
        self._shown = True
        return [ToolDelta(tool=self._tool, arguments=piece)]

    def thinking(self, kind: str, place: int, piece: str) -> list[Event]:
        """kind: `summary` or `content`; of an item that has both, the first to come is shown."""
        if not piece:
            return []
        before = self._place
        if before is not None and before[0] != kind:
            return []
        self._place = (kind, place)
        if kind == "summary" and before not in (None, self._place):
            piece = _BETWEEN + piece
        self._shown = True
        return [ReasoningDelta(text=piece, block=self._thought)]

    def close(self, item: OutputItem) -> list[Event]:
        """Return what is known only at the end, and what was not sent in pieces."""
        if self.closed:
            return []
        self.closed = True
        match self.kind:
            case "message":
                return [] if self._shown else _said(item.content or ())
            case "reasoning":
                return self._reasoned(item)
            case "function_call":
                if self._shown:
                    return []
                return [ToolDelta(tool=self._tool, arguments=item.arguments or "{}")]
            case "custom_tool_call":
                given = _encode({"input": item.input or ""}).decode()
                return [ToolDelta(tool=self._tool, arguments=given)]
            case _:
                return []

    def _reasoned(self, item: OutputItem) -> list[Event]:
        found: list[Event] = []
        if not self._shown:
            for kind, parts in (("summary", item.summary), ("content", item.content)):
                for place, part in enumerate(parts or ()):
                    found += self.thinking(kind, place, part.text or "")
        if item.encrypted_content and self._proves:
            proof = sealed(item.id or "", item.encrypted_content)
            signature, data = (proof, "") if self._shown else ("", proof)
            found.append(
                ReasoningDelta(
                    text="", block=self._thought, signature=signature, data=data, format=OPENAI
                )
            )
        return found


def _said(parts: Sequence[ItemPart]) -> list[Event]:
    found: list[Event] = []
    for part in parts:
        if part.refusal is not None:
            found.append(RefusalDelta(text=part.refusal))
        elif part.text is not None:
            found.append(TextDelta(text=part.text, logprobs=logprobs_of(part.logprobs)))
    return found


def annotations_of(item: OutputItem, begin: int) -> tuple[list[tuple[int, msgspec.Raw]], int]:
    """Return a message's citations, each with the place of its text in the answer, and the end.

    begin: characters of the answer's texts before this message.
    """
    found: list[tuple[int, msgspec.Raw]] = []
    for part in item.content or ():
        found += [(begin, raw.copy()) for raw in part.annotations or () if raw != NULL]
        begin += len(part.text or "")
    return found, begin
