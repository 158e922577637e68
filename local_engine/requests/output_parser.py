"""Parse a chat model's output: reasoning first, if any, then text and tool calls."""

from collections.abc import Mapping

from msgspec import Raw, Struct, UnsetType

from strowger_gateway.local_engine.answer_formats.call_parser import ToolCallParser
from strowger_gateway.local_engine.answer_formats.calls import Functions
from strowger_gateway.local_engine.answer_formats.formats import ToolFormat
from strowger_gateway.local_engine.answer_formats.harmony import HarmonyParser
from strowger_gateway.local_engine.answer_formats.reasoning import ReasoningSplit, Thinking
from strowger_gateway.schemas.events import Event, ReasoningDelta, TextDelta


class OutputFormat(Struct, frozen=True, kw_only=True):
    """How to parse an answer's text.

    opened:    the prompt already ends inside the reasoning; inside the text of harmony's answer.
    channels:  the answer is written in harmony.
    tools:     the format of tool calls, `None` if none are expected.
    functions: those that can be called, and the JSON schemas of their arguments.
    guaranteed, required: see ToolCallParser.
    literals:  special tokens among the marks; a decoder would leave out their text.
    """

    thinking: Thinking | None = None
    opened: bool = False
    channels: bool = False
    tools: ToolFormat | None = None
    functions: Mapping[str, Raw | UnsetType] = {}
    guaranteed: bool = False
    required: bool = False
    literals: Mapping[int, str] = {}

    @property
    def reasons(self) -> bool:
        """True if the answer may contain reasoning."""
        return self.thinking is not None or self.channels

    @property
    def plain(self) -> bool:
        """True if the text is not parsed."""
        return not self.reasons and self.tools is None


class OutputParser:
    """Parses one choice's text, which arrives in pieces of any size."""

    def __init__(self, output_format: OutputFormat, index: int) -> None:
        self._index = index
        functions = Functions(output_format.functions)
        tools, thinking = output_format.tools, output_format.thinking
        self._harmony = (
            HarmonyParser(
                functions, tools=tools is not None, index=index, begun=output_format.opened
            )
            if output_format.channels
            else None
        )
        ends = (*tools.opens, *tools.starts) if tools is not None and tools.ends_reasoning else ()
        self._split = (
            None
            if thinking is None
            else ReasoningSplit(thinking, opened=output_format.opened, ends=ends)
        )
        self._tools = (
            None
            if tools is None or output_format.channels
            else ToolCallParser(
                tools,
                functions,
                guaranteed=output_format.guaranteed,
                required=output_format.required,
                index=index,
            )
        )

    @property
    def reasoning(self) -> bool:
        """True while the model is reasoning."""
        if self._harmony is not None:
            return self._harmony.reasoning
        return self._split is not None and self._split.inside

    @property
    def calls(self) -> int:
        """Tool calls so far."""
        if self._harmony is not None:
            return self._harmony.calls
        return 0 if self._tools is None else self._tools.calls

    def feed(self, piece: str) -> list[Event]:
        if self._harmony is not None:
            return self._harmony.feed(piece)
        if self._split is None:
            return self._said(piece)
        thought, said = self._split.feed(piece)
        return [*self._thought(thought), *self._said(said)]

    def close(self, *, cut: bool = False) -> list[Event]:
        """Return the last events: the answer is complete.

        cut: it was ended from outside, by a limit or a stop string.
        """
        if self._harmony is not None:
            return self._harmony.close(cut=cut)
        events: list[Event] = []
        if self._split is not None:
            thought, said = self._split.close(cut=cut)
            events = [*self._thought(thought), *self._said(said)]
        return events if self._tools is None else [*events, *self._tools.close(cut=cut)]

    def _thought(self, text: str) -> list[Event]:
        return [ReasoningDelta(text=text, index=self._index)] if text else []

    def _said(self, text: str) -> list[Event]:
        if not text:
            return []
        if self._tools is not None:
            return self._tools.feed(text)
        return [TextDelta(text=text, index=self._index)]
