"""Parse tool calls from the text of an answer that arrives in pieces."""

import re

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from local_engine.guided.tool_call_formats import ToolFormat
from local_engine.text.stop_strings import overlap
from schemas.events import Event, TextDelta, ToolDelta

_HEAD = re.compile(r'\{"name": ("(?:[^"\\]|\\.)*"), "(?:arguments|parameters)": ')
_BLANK = " \t\r\n"
_OUTSIDE_STRINGS = frozenset(_BLANK + ",:.+-")


class _Call(Struct, frozen=True, kw_only=True):
    name: str
    arguments: Raw | UnsetType = UNSET
    parameters: Raw | UnsetType = UNSET


_call = msgspec.json.Decoder(_Call)
_calls = msgspec.json.Decoder(list[_Call])
_text = msgspec.json.Decoder(str)
_object = msgspec.json.Decoder(dict[str, object])


class Value:
    """Finds the end of a JSON object or array that arrives in pieces.

    done: the value has ended. wrong: the text cannot be JSON.
    """

    def __init__(self) -> None:
        self._depth = 0
        self._escaped = False
        self._quoted = False
        self.done = False
        self.wrong = False

    def feed(self, text: str) -> int:
        """Return how many characters of `text` belong to the value; it may begin with blanks."""
        for place, character in enumerate(text):
            if self._quoted:
                if self._escaped:
                    self._escaped = False
                elif character == "\\":
                    self._escaped = True
                elif character == '"':
                    self._quoted = False
            elif character == '"':
                self._quoted = True
            elif character in "{[":
                self._depth += 1
            elif character in "}]":
                self._depth -= 1
                if self._depth <= 0:
                    self.done = True
                    return place + 1
            elif not character.isalnum() and character not in _OUTSIDE_STRINGS:
                self.wrong = True
                return place
        return len(text)


class ToolCallParser:
    """Splits an answer's text into text and tool calls. calls: number of calls so far.

    Half a marker is never shown, and text that looks like a call but is not one stays text. Without
    a grammar, calls are returned when they are complete; if a grammar guarantees valid calls, their
    arguments are streamed.
    """

    def __init__(
        self,
        format: ToolFormat,
        names: frozenset[str],
        *,
        guaranteed: bool,
        required: bool,
        index: int,
    ) -> None:
        """names: the available functions. guaranteed: a grammar writes the calls. required: the
        answer consists of calls only (implies `guaranteed`). index: of the choice."""
        self._format = format
        self._names = names
        self._guaranteed = guaranteed
        self._required = required
        self._index = index
        self._buffer = ""
        self._step = self._seek if required else self._prose
        self._marker = ""
        self._fresh = True
        self._found = False
        self._value = Value()
        self._scanned = 0
        self.calls = 0

    def feed(self, piece: str) -> list[Event]:
        self._buffer += piece
        events: list[Event] = []
        while self._step(events):
            pass
        return events

    def close(self) -> list[Event]:
        """Return the remaining text: the answer is complete."""
        rest, self._buffer = self._buffer, ""
        if self._step == self._tail:
            rest = ""
        elif self._found:
            begun = rest.find('{"')
            rest = rest[begun:] if begun >= 0 else ""
        elif self._step in (self._whole, self._seek) and not self._found:
            rest = self._marker + rest
        return [TextDelta(text=rest, index=self._index)] if rest else []

    def _prose(self, events: list[Event]) -> bool:
        """Return text up to the next marker. Each step returns True if there may be more to do."""
        text, marker = self._buffer, self._format.open
        if self._fresh and self._format.bare:
            begun = text.lstrip(_BLANK + ";")
            if begun.startswith("{"):
                self._buffer = begun
                return self._enter(marked=False)
            if not begun or marker.startswith(begun):
                return False
        at = text.find(marker) if marker else -1
        end = at
        if at < 0:
            end = len(text) - (overlap(text, marker) if marker else 0)
        shown = text[:end].rstrip(_BLANK) if marker else text[:end]
        if shown:
            self._fresh = False
            events.append(TextDelta(text=shown, index=self._index))
        if at < 0:
            self._buffer = text[len(shown) :]
            return False
        self._buffer = text[at + len(marker) :]
        return self._enter(marked=True)

    def _enter(self, *, marked: bool) -> bool:
        self._marker = self._format.open if marked else ""
        self._value, self._scanned = Value(), 0
        self._step = self._seek if self._guaranteed else self._whole
        return True

    def _seek(self, events: list[Event]) -> bool:
        """Read guaranteed calls up to the arguments of the next one."""
        end = "]" if self._format.listed else self._format.close
        head = _HEAD.search(self._buffer)
        at = self._buffer.find(end) if end and self._found and not self._required else -1
        if at >= 0 and (head is None or at < head.start()):
            self._buffer = self._buffer[at + len(end) :]
            return self._leave()
        name = "" if head is None else _text.decode(head.group(1))
        if head is None or name not in self._names:
            return False
        self._buffer = self._buffer[head.end() :]
        self._found = True
        self._value = Value()
        self._step = self._arguments
        events.append(self._begin(name, ""))
        return True

    def _arguments(self, events: list[Event]) -> bool:
        count = self._value.feed(self._buffer)
        piece, self._buffer = self._buffer[:count], self._buffer[count:]
        if piece:
            tool = self.calls - 1
            events.append(ToolDelta(tool=tool, index=self._index, arguments=piece))
        if self._value.done:
            self._step = self._seek
        return self._value.done

    def _whole(self, events: list[Event]) -> bool:
        """Read other calls as a whole."""
        text = self._buffer
        begun = text.lstrip(_BLANK)
        if not begun:
            return False
        if not begun.startswith(("{", "[") if self._format.listed else "{"):
            return self._refuse(events, 0)
        self._scanned += self._value.feed(text[self._scanned :])
        if self._value.wrong:
            return self._refuse(events, self._scanned)
        if not self._value.done:
            return False
        calls = self._decoded(text[: self._scanned])
        if calls is None:
            return self._refuse(events, self._scanned)
        events += [self._begin(name, arguments) for name, arguments in calls]
        self._buffer = text[self._scanned :]
        self._step = self._tail
        return True

    def _tail(self, events: list[Event]) -> bool:
        """Skip blanks and the closing marker, if there is one."""
        close = self._format.close
        begun = self._buffer.lstrip(_BLANK)
        if close and begun.startswith(close):
            self._buffer = begun[len(close) :]
        elif close and close.startswith(begun):
            return False
        return self._leave()

    def _leave(self) -> bool:
        self._found = False
        self._step = self._prose
        self._fresh = True
        return True

    def _refuse(self, events: list[Event], count: int) -> bool:
        """Return the marker and the text after it as text: this is not a call."""
        text = self._marker + self._buffer[:count]
        if text:
            events.append(TextDelta(text=text, index=self._index))
        self._buffer = self._buffer[count:]
        self._step = self._prose
        self._fresh = False
        return True

    def _begin(self, name: str, arguments: str) -> ToolDelta:
        self.calls += 1
        return ToolDelta(
            tool=self.calls - 1,
            index=self._index,
            id=self._format.new_id(),
            name=name,
            arguments=arguments,
        )

    def _decoded(self, text: str) -> list[tuple[str, str]] | None:
        """Return names and arguments; `None` unless all are calls of available functions."""
        try:
            listed = text.lstrip(_BLANK).startswith("[")
            calls = _calls.decode(text) if listed else [_call.decode(text)]
            found = [(call.name, _arguments_of(call)) for call in calls]
        except (msgspec.DecodeError, RecursionError):
            return None
        return found if found and all(name in self._names for name, _ in found) else None


def _arguments_of(call: _Call) -> str:
    """Return the arguments as written; some models quote the object. Raises DecodeError."""
    raw = call.parameters if call.arguments is UNSET else call.arguments
    if raw is UNSET:
        return "{}"
    text = bytes(raw).decode()
    if text.startswith('"'):
        text = _text.decode(text)
    _object.decode(text)
    return text
