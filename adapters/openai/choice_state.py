"""The state of one choice of an OpenAI-dialect answer, and which part of a frame is new in it."""

from collections.abc import Mapping

from msgspec import Raw, Struct

from strowger_gateway.adapters.json_objects import NULL
from strowger_gateway.adapters.openai.tool_calls import ToolCalls
from strowger_gateway.adapters.openai.wire import Choice, WireMessage
from strowger_gateway.schemas.events import ToolDelta

NOTHING = WireMessage()
_EMPTY_OBJECT = Raw(b"{}")
_NO_VERDICTS: Mapping[str, Raw] = {}


class ChoiceState(Struct, eq=False):
    """State of one choice until it finishes.

    tools: `None` without any call. by_message: its pieces are messages instead of deltas.
    shown: something of it was emitted. replaced: it has something else in place of a text.
    old_call: the model called by `function_call`, which `tool_calls` replaced.
    block: the number of the reasoning's block; begun: it has a text, and no proof yet; place: the
           server's number of it.
    unproven: pieces of reasoning that came before its block. See adapters/openai/thought_blocks.py.
    signatures: of calls that have not begun, by their ids. held: calls that wait for theirs.
    """

    tools: ToolCalls | None = None
    by_message: bool = False
    shown: bool = False
    replaced: bool = False
    old_call: bool = False
    blank: bool = False
    block: int = 0
    begun: bool = False
    place: int | None = None
    unproven: list[str] = []
    signatures: dict[str, str] = {}
    held: list[ToolDelta] = []
    filters: Mapping[str, Raw] = _NO_VERDICTS
    finished: bool = False

    def end_block(self) -> None:
        """Begin the next block of reasoning."""
        self.block += 1
        self.begun, self.place = False, None
        self.unproven.clear()

    def verdicts(self, choice: Choice) -> dict[str, Raw]:
        """Return the content filters' results if they are not empty and have changed."""
        results = {
            "content_filter_results": choice.content_filter_results,
            "content_filter_offsets": choice.content_filter_offsets,
        }
        news = {
            name: raw.copy()
            for name, raw in results.items()
            if raw not in (NULL, _EMPTY_OBJECT, self.filters.get(name))
        }
        self.filters = {**self.filters, **news}
        return news

    def news(self, choice: Choice, *, shown: bool) -> WireMessage:
        """Return what is new in a frame of a stream that has a message, or nothing at all.

        The message repeats what the deltas said, next to each of them (Perplexity) or at the end
        (MiniMax). So it counts only if they said nothing: all pieces are messages, or it ends a
        choice that has shown nothing. shown: something of the choice was emitted before.
        """
        delta, message = choice.delta, choice.message
        if message is None:
            return NOTHING
        if delta is None:
            if shown and not self.by_message:
                return NOTHING
        elif shown or choice.finish_reason is None or _says(delta):
            return delta
        self.by_message = True
        return message


def whole_message(choice: Choice) -> WireMessage:
    """Return the message of a whole answer, or its delta if that alone says something."""
    delta, message = choice.delta, choice.message
    if message is None or (delta is not None and not _says(message)):
        return delta or NOTHING
    return message


def _says(message: WireMessage) -> bool:
    """Return whether a message has anything but its role."""
    return message.annotations is not None or any(
        (
            message.content,
            message.tool_calls,
            message.reasoning,
            message.reasoning_content,
            message.reasoning_signature,
            message.refusal,
            message.opaque,
            message.thoughts,
        )
    )
