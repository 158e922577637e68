"""Parse a chat model's output: reasoning first, if any, then text and tool calls."""

from collections.abc import Mapping

from msgspec import Struct

from local_engine.guided.tool_call_formats import ToolFormat
from local_engine.guided.tool_call_parser import ToolCallParser
from local_engine.text.stop_strings import overlap
from schemas.events import Event, ReasoningDelta, TextDelta

_BLANK = " \t\r\n"


class Thinking(Struct, frozen=True, kw_only=True):
    """The markers around a model's reasoning."""

    open: str
    close: str


_KNOWN = (Thinking(open="<think>", close="</think>"), Thinking(open="[THINK]", close="[/THINK]"))


def thinking_of(template: str) -> Thinking | None:
    """Return the model's reasoning markers if its chat template mentions them."""
    return next((one for one in _KNOWN if one.close in template), None)


class OutputFormat(Struct, frozen=True, kw_only=True):
    """How to parse an answer's text.

    opened:   the prompt already ends inside the reasoning.
    tools:    the format of tool calls, `None` if none are expected; names: the functions.
    guaranteed, required: see ToolCallParser.
    literals: special tokens among the markers; a decoder would leave out their text.
    """

    thinking: Thinking | None = None
    opened: bool = False
    tools: ToolFormat | None = None
    names: frozenset[str] = frozenset()
    guaranteed: bool = False
    required: bool = False
    literals: Mapping[int, str] = {}


class OutputParser:
    """Parses one choice's text, which arrives in pieces of any size."""

    def __init__(self, output_format: OutputFormat, index: int) -> None:
        self._index = index
        self._split = (
            None
            if output_format.thinking is None
            else _Reasoning(output_format.thinking, opened=output_format.opened)
        )
        self._tools = (
            None
            if output_format.tools is None
            else ToolCallParser(
                output_format.tools,
                output_format.names,
                guaranteed=output_format.guaranteed,
                required=output_format.required,
                index=index,
            )
        )

    @property
    def reasoning(self) -> bool:
        """True while the model is reasoning."""
        return self._split is not None and self._split.inside

    @property
    def calls(self) -> int:
        """Tool calls so far."""
        return 0 if self._tools is None else self._tools.calls

    def feed(self, piece: str) -> list[Event]:
        if self._split is None:
            return self._said(piece)
        thought, said = self._split.feed(piece)
        return [*self._thought(thought), *self._said(said)]

    def close(self) -> list[Event]:
        """Return the last events: the answer is complete."""
        events: list[Event] = []
        if self._split is not None:
            thought, said = self._split.close()
            events = [*self._thought(thought), *self._said(said)]
        return events if self._tools is None else [*events, *self._tools.close()]

    def _thought(self, text: str) -> list[Event]:
        return [ReasoningDelta(text=text, index=self._index)] if text else []

    def _said(self, text: str) -> list[Event]:
        if not text:
            return []
        if self._tools is not None:
            return self._tools.feed(text)
        return [TextDelta(text=text, index=self._index)]


class _Reasoning:
    """Splits a text into the reasoning between the markers at its beginning, and the rest.

    Blanks around the reasoning belong to neither.
    """

    def __init__(self, markers: Thinking, *, opened: bool) -> None:
        self._markers = markers
        self._buffer = ""
        self._begins = True
        self.inside = opened
        self._before = not opened

    def feed(self, piece: str) -> tuple[str, str]:
        """Return the reasoning and the text that are certain now."""
        self._buffer += piece
        if self._before and not self._begun():
            return "", ""
        if self.inside:
            return self._thought()
        return "", self._said()

    def close(self) -> tuple[str, str]:
        rest, self._buffer = self._buffer, ""
        return (rest.rstrip(_BLANK), "") if self.inside else ("", rest)

    def _begun(self) -> bool:
        """True once it is known whether the answer begins with reasoning."""
        text = self._buffer.lstrip(_BLANK)
        if text.startswith(self._markers.open):
            self._buffer = text[len(self._markers.open) :]
            self.inside = True
        elif self._markers.open.startswith(text):
            return False
        else:
            self._begins = False
        self._before = False
        return True

    def _thought(self) -> tuple[str, str]:
        close = self._markers.close
        text = self._buffer.lstrip(_BLANK) if self._begins else self._buffer
        at = text.find(close)
        if at < 0:
            shown = text[: len(text) - overlap(text, close)].rstrip(_BLANK)
            self._buffer = text[len(shown) :]
            self._begins = self._begins and not shown
            return shown, ""
        self._buffer = text[at + len(close) :]
        self.inside = False
        self._begins = True
        return text[:at].rstrip(_BLANK), self._said()

    def _said(self) -> str:
        text = self._buffer.lstrip(_BLANK) if self._begins else self._buffer
        self._begins = self._begins and not text
        self._buffer = ""
        return text
