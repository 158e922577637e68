"""Parse tool calls from the text of an answer that arrives in pieces."""

import re

from strowger_gateway.local_engine.answer_formats.body_readers import reader_of
from strowger_gateway.local_engine.answer_formats.calls import BLANK, Call, CallReader, Functions
from strowger_gateway.local_engine.answer_formats.formats import ToolFormat
from strowger_gateway.local_engine.answer_formats.guaranteed_calls import GuaranteedCalls
from strowger_gateway.local_engine.answer_formats.half_marks import without_half_a_mark
from strowger_gateway.local_engine.text.stop_strings import overlap
from strowger_gateway.schemas.events import Event, TextDelta, ToolDelta

_SEPARATORS = BLANK + ",;"
_STRAY = re.compile(r"[}\])\s]{1,64}")


class ToolCallParser:
    """Splits an answer's text into text and tool calls. calls: number of calls so far.

    Half a mark is never shown, and text that looks like a call but is not one stays text. Without
    a grammar, calls are returned when they are complete; if a grammar guarantees valid calls whose
    arguments are JSON, their arguments are streamed.
    """

    def __init__(
        self,
        format: ToolFormat,
        functions: Functions,
        *,
        guaranteed: bool,
        required: bool,
        index: int,
    ) -> None:
        """guaranteed: a grammar writes the calls. required: the answer consists of calls only
        (implies `guaranteed`). index: of the choice."""
        self._format = format
        self._functions = functions
        self._index = index
        self._buffer: str = ""
        self._blank = 0  # characters at the beginning of the buffer that are known to be blank
        self._fresh = True
        self._last = self._cut = False
        marks = sorted({*format.opens, *format.starts} - {""}, key=len, reverse=True)
        self._marks = marks
        self._open = re.compile("|".join(map(re.escape, marks))) if marks else None
        self._closes = sorted({*format.closes, *format.skipped}, key=len, reverse=True)
        self._block = False
        self._held: str = ""
        self._known = False
        self._found = False
        self._reader: CallReader | None = None
        streamed = GuaranteedCalls.of(format) if guaranteed else None
        self._streamed = streamed
        self._streaming = streamed is not None and required
        self._required = required
        self.calls = 0

    def feed(self, piece: str) -> list[Event]:
        self._buffer += piece
        events: list[Event] = []
        while self._step(events):
            pass
        return events

    def close(self, *, cut: bool = False) -> list[Event]:
        """Return the remaining text: the answer is complete.

        cut: it was ended from outside. A call that was cut is left out: its arguments cannot be
        completed, and its marks are of no use as text.
        """
        self._last, self._cut = True, cut
        events = self.feed("")
        rest, self._buffer = self._buffer, ""
        if self._streaming or self._block:
            found = self._found if self._streamed is None else self._streamed.found
            half = rest.strip(_SEPARATORS)
            nothing = found and (self._streaming or any(m.startswith(half) for m in self._closes))
            rest = "" if cut or nothing else self._held + rest
        elif cut:
            rest = without_half_a_mark(rest, self._marks)
        return [*events, TextDelta(text=rest, index=self._index)] if rest else events

    @property
    def _final(self) -> bool:
        """True if the answer ended by itself, so that nothing is missing."""
        return self._last and not self._cut

    def _step(self, events: list[Event]) -> bool:
        """Take one step; return True if there may be more to do."""
        if self._streaming:
            return self._stream(events)
        return self._inside(events) if self._block else self._prose(events)

    def _prose(self, events: list[Event]) -> bool:
        """Return text up to the next mark."""
        text, format = self._buffer, self._format
        blank, self._blank = self._blank, 0
        if self._fresh and format.bare:
            begun = text[blank:].lstrip(_SEPARATORS)
            if begun and begun[0] in format.bare:
                self._buffer = begun
                return self._enter(text[: len(text) - len(begun)], known=True)
            waits = not begun or any(mark.startswith(begun) for mark in self._marks)
            if waits and not self._last:
                self._blank = len(text) - len(begun)
                return False
            blank = 0  # it counted commas as well
        found = self._open.search(text, blank) if self._open else None
        end = len(text) if found is None else found.start()
        if found is None and not self._final:
            end -= max((overlap(text, mark) for mark in self._marks), default=0)
        whole = self._final and found is None
        hides_blanks = self._open is not None and not whole
        if hides_blanks:
            seen = text[blank:end].rstrip(BLANK)
            shown = text[: blank + len(seen)] if seen else ""
        else:
            shown = text[:end]
        if shown:
            self._fresh = False
            events.append(TextDelta(text=shown, index=self._index))
        if found is None:
            self._buffer = text[len(shown) :]
            self._blank = end - len(shown)
            return False
        mark = found.group()
        starts = mark in format.starts
        self._buffer = text[found.start() if starts else found.end() :]
        blanks = text[len(shown) : end]
        return self._enter(blanks + mark * (not starts), known=mark in format.fences)

    def _enter(self, mark: str, *, known: bool) -> bool:
        self._held, self._known = mark, known
        self._found = False
        self._reader = None
        if self._streamed is not None:
            self._streaming = True
            self._streamed.restart()
        else:
            self._block = True
        return True

    def _inside(self, events: list[Event]) -> bool:
        """Read what follows a mark: calls, what separates them, and the mark at their end."""
        if self._reader is not None:
            return self._call(events)
        text = self._buffer
        blank, self._blank = self._blank, 0
        rest = text[blank:].lstrip(_SEPARATORS if self._found else BLANK)
        skipped = len(text) - len(rest)
        if not rest:
            self._blank = skipped
            return False
        marks = self._closes if self._found else [*self._closes, *self._format.opens]
        for mark in marks:
            if rest.startswith(mark):
                return self._marked(mark, skipped + len(mark), events)
        if not self._final and any(mark.startswith(rest) for mark in marks):
            return False
        reader, undecided = reader_of(
            self._format, rest, self._functions, known=self._known, first=not self._found
        )
        if reader is not None:
            self._held += text[:skipped]
            self._buffer = rest
            self._reader = reader
            return True
        if undecided and not self._final:
            return False
        stray = _STRAY.match(rest) if self._found else None
        if stray is not None:
            after = rest[stray.end() :]
            if any(after.startswith(mark) for mark in self._format.closes):
                self._buffer = after
                return True
            if not self._final and any(mark.startswith(after) for mark in self._format.closes):
                return False
        return self._leave() if self._found else self._refuse(events, skipped)

    def _marked(self, mark: str, count: int, events: list[Event]) -> bool:
        """Skip a mark between or after the calls."""
        if mark in self._format.closes and not self._found:
            return self._refuse(events, count)
        self._held += self._buffer[:count]
        self._buffer = self._buffer[count:]
        return self._leave() if mark in self._format.closes else True

    def _call(self, events: list[Event]) -> bool:
        assert self._reader is not None
        item = self._reader.read(self._buffer, last=self._final)
        if item is None:
            return False
        self._reader = None
        if item.calls is None:
            if self._last and item.count >= len(self._buffer):
                return False  # `close` decides about a call that does not end
            return self._refuse(events, item.count)
        events += [self._begin(call) for call in item.calls]
        self._buffer = self._buffer[item.count :]
        self._found = True
        self._held = ""
        return True

    def _stream(self, events: list[Event]) -> bool:
        """Read guaranteed calls, and their arguments as they are generated."""
        streamed = self._streamed
        assert streamed is not None
        count, name, id, piece = streamed.read(self._buffer, self._functions, self._required)
        self._buffer = self._buffer[count:]
        if name:
            self._held = ""
            events.append(self._begin(Call(name=name, arguments="", id=id)))
        if piece:
            tool = self.calls - 1
            events.append(ToolDelta(tool=tool, index=self._index, arguments=piece))
        if streamed.ended:
            self._streaming = False
            return self._leave()
        return count > 0

    def _leave(self) -> bool:
        self._held = ""
        self._block = False
        self._fresh = True
        return True

    def _refuse(self, events: list[Event], count: int) -> bool:
        """Return the mark and the text after it as text: this is not a call."""
        held = "" if self._found else self._held
        starts = (mark for mark in self._format.starts if self._buffer.startswith(mark))
        count = max(count, *(len(mark) for mark in starts), 0)
        text = held + self._buffer[:count]
        if text:
            events.append(TextDelta(text=text, index=self._index))
        self._buffer = self._buffer[count:]
        self._leave()
        self._fresh = False
        return True

    def _begin(self, call: Call) -> ToolDelta:
        self.calls += 1
        place = self.calls - 1
        return ToolDelta(
            tool=place,
            index=self._index,
            id=call.id or self._format.new_id(call.name, place),
            name=call.name,
            arguments=call.arguments,
        )
