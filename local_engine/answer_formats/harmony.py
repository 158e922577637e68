"""Read harmony, in which an answer is a sequence of messages in channels.

https://cookbook.openai.com/articles/openai-harmony: `analysis` is reasoning, `final` is text,
`commentary` is text before calls, and a message with a recipient is a call.
"""

import re

from strowger_gateway.local_engine.answer_formats.calls import BLANK, Functions
from strowger_gateway.local_engine.answer_formats.catalogue import HARMONY
from strowger_gateway.local_engine.answer_formats.half_marks import without_half_a_mark
from strowger_gateway.local_engine.answer_formats.json_calls import arguments_of
from strowger_gateway.local_engine.text.stop_strings import overlap
from strowger_gateway.schemas.events import Event, ReasoningDelta, TextDelta, ToolDelta

CHANNEL, MESSAGE = "<|channel|>", "<|message|>"
_ENDS = ("<|end|>", "<|call|>", "<|return|>", "<|start|>", CHANNEL)
_LONGEST_END = max(map(len, _ENDS))
_END = re.compile("|".join(map(re.escape, _ENDS)))
_TO = re.compile(r"to=([^\s<]+)")
_NAME = re.compile(re.escape(CHANNEL) + r"\s*(\w+)")
_LONGEST_HEADER = 512
"""Characters."""


class HarmonyParser:
    """Splits an answer into reasoning, text and calls. calls: number so far.

    reasoning: the model is reasoning. An answer that does not begin with a channel is text.
    """

    def __init__(self, functions: Functions, *, tools: bool, index: int, begun: bool) -> None:
        """tools: calls are expected; without, they are text. index: of the choice.

        begun: the prompt ends inside the text of the answer.
        """
        self._functions = functions
        self._tools = tools
        self._index = index
        self._buffer = ""
        self._searched = 0  # characters of the buffer in which no mark ends
        self._header = not begun
        self._first = True
        self._called = ""
        self._shown: set[type[Event]] = set()
        self._breaks = False
        self._blank: str = ""
        self._last = False
        self.reasoning = False
        self.calls = 0

    def feed(self, piece: str) -> list[Event]:
        self._buffer += piece
        events: list[Event] = []
        while self._begin(events) if self._header else self._content(events):
            pass
        return events

    def close(self, *, cut: bool = False) -> list[Event]:
        """Return the last events: the answer is complete. cut: it was ended from outside."""
        self._last = True
        if cut and not self._header and not self._called:
            self._buffer = without_half_a_mark(self._buffer, _ENDS)
        events = self.feed("")
        rest, self._buffer = self._buffer, ""
        if self._called:
            self._call(rest, events, cut=cut)
        return events

    def _begin(self, events: list[Event]) -> bool:
        """Read a message's header. Each step returns True if there may be more to do."""
        text = self._buffer
        at = text.find(MESSAGE)
        possible = _may_be_header(text if at < 0 else text[: at + len(MESSAGE)])
        if at < 0 or not possible:
            if possible and not self._last:
                return False
            if possible and (not self._first or "<|" in text):
                self._buffer = ""
                return False
            self._header = self._first = False  # no channel: plain text
            self._searched = 1 if text.startswith(("<|start|>", CHANNEL)) else 0
            return True
        header, self._buffer = text[:at], text[at + len(MESSAGE) :]
        if not header.strip() and self._first:
            header = CHANNEL + "final"
        self._open(header)
        return True

    def _open(self, header: str) -> None:
        self._header = self._first = False
        to = _TO.search(header)
        channel = _NAME.search(header)
        name = channel.group(1) if channel else "final"
        recipient = "" if to is None else to.group(1)
        function = recipient.removeprefix("functions.")
        ours = recipient.startswith("functions.") or function in self._functions
        self._called = function if ours and self._tools else ""
        self.reasoning = not self._called and (name == "analysis" or bool(recipient))
        self._breaks = True
        self._blank = ""

    def _content(self, events: list[Event]) -> bool:
        text = self._buffer
        found = _END.search(text, self._searched)
        self._searched = 0
        if self._called:
            if found is None:
                self._searched = max(0, len(text) - _LONGEST_END)
                return False
            self._call(text[: found.start()], events, cut=False)
        else:
            end = len(text) if found is None else found.start()
            if found is None and not self._last:
                end -= max(overlap(text, mark) for mark in _ENDS)
            self._show(text[:end], events)
            if found is None:
                self._buffer = text[end:]
                return False
        again = found.group() in ("<|start|>", CHANNEL)
        self._buffer = text[found.start() if again else found.end() :]
        self._header = True
        self._first = False
        self._called = ""
        self.reasoning = False
        return True

    def _show(self, text: str, events: list[Event]) -> None:
        """Messages of one kind are separated by an empty line; blanks at an end are left out."""
        kind = ReasoningDelta if self.reasoning else TextDelta
        if self.reasoning and not self._breaks and not text.strip(BLANK):
            self._blank += text
            return
        text, self._blank = self._blank + text, ""
        if self._breaks:
            text = text.lstrip(BLANK)
        if self.reasoning:
            kept = text.rstrip(BLANK)
            text, self._blank = kept, text[len(kept) :]
        if not text:
            return
        if self._breaks and kind in self._shown:
            text = "\n\n" + text
        self._breaks = False
        self._shown.add(kind)
        events.append(kind(text=text, index=self._index))

    def _call(self, text: str, events: list[Event], *, cut: bool) -> None:
        name, self._called = self._called, ""
        arguments = arguments_of(text) if text.strip() or not cut else None
        if arguments is None:
            if not cut:
                self._show(text, events)
            return
        self.calls += 1
        events.append(
            ToolDelta(
                tool=self.calls - 1,
                index=self._index,
                id=HARMONY.new_id(),
                name=name,
                arguments=arguments,
            )
        )


def _may_be_header(text: str) -> bool:
    """True if the text can be the beginning of a message's header."""
    plain = text.lstrip(BLANK)
    starts = ("<|start|>", "assistant", CHANNEL, "to=", MESSAGE)
    begins = any(one.startswith(plain[: len(one)]) for one in starts)
    return begins and len(text) <= _LONGEST_HEADER
