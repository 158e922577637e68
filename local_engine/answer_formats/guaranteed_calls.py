"""Read calls that a grammar writes, whose arguments are JSON, as they are generated."""

import re

import msgspec

from strowger_gateway.local_engine.answer_formats.calls import Functions
from strowger_gateway.local_engine.answer_formats.formats import JsonBody, NamedBody, ToolFormat
from strowger_gateway.local_engine.answer_formats.value_end import JSON, ValueEnd

_string = msgspec.json.Decoder(str)


class GuaranteedCalls:
    """Finds the head of each call, and its arguments piece by piece.

    found: a call has begun. ended: no further call follows.
    """

    def __init__(self, head: re.Pattern[str], end: str, *, kimi: bool, quoted: bool) -> None:
        self._head = head
        self._end = end
        self._kimi = kimi
        self._quoted = quoted
        self._value: ValueEnd | None = None
        self.found = False
        self.ended = False

    @classmethod
    def of(cls, format: ToolFormat) -> "GuaranteedCalls | None":
        """Return the reader for a format; `None` if its calls are read as a whole."""
        match format.bodies:
            case (JsonBody() as body, *_) if not body.keyed:
                name, arguments = re.escape(body.name), re.escape(body.arguments)
                head = rf'\{{"{name}": ("(?:[^"\\]|\\.)*"), "{arguments}": '
                end = "]" if body.listed else format.close
                return cls(re.compile(head), end, kimi=False, quoted=True)
            case (NamedBody() as body, *_) if body.begin and body.end:
                mark = r"functions\.(\S+?):\d+" if body.kimi else r"(\S+?)"
                head = re.escape(body.begin) + mark + re.escape(body.separator)
                return cls(re.compile(head), format.close, kimi=body.kimi, quoted=False)
            case _:
                return None

    def restart(self) -> None:
        self.found = self.ended = False

    def read(self, text: str, functions: Functions, required: bool) -> tuple[int, str, str, str]:
        """Return how many characters are read, the name and id of a call that begins, and a piece
        of arguments. required: nothing but calls follows."""
        if self._value is not None:
            self._value.at = 0
            self._value.advance(text)
            count = self._value.at
            if self._value.done:
                self._value = None
            return count, "", "", text[:count]
        head = self._head.search(text)
        at = text.find(self._end) if self._end and self.found and not required else -1
        if at >= 0 and (head is None or at < head.start()):
            self.ended = True
            return at + len(self._end), "", "", ""
        if head is None:
            return 0, "", "", ""
        name = _string.decode(head.group(1)) if self._quoted else head.group(1)
        if name not in functions:
            return 0, "", "", ""
        self._value = ValueEnd(JSON)
        self.found = True
        id = re.search(r"functions\.\S+?:\d+", head.group()) if self._kimi else None
        return head.end(), name, id.group() if id else "", ""
