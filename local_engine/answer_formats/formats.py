"""What describes one format of tool calls: its marks, and how a call between them is written."""

import secrets
import string
from typing import Literal

from msgspec import Struct

_ALPHABET = string.ascii_letters + string.digits


class JsonBody(Struct, frozen=True, kw_only=True):
    """A call is a JSON object with a name and arguments; several follow each other or are listed.

    listed: the model writes a JSON array. name, arguments: the keys that the model was trained on.
    keyed: the name is the only key instead, and the arguments its value.
    """

    listed: bool = False
    keyed: bool = False
    name: str = "name"
    arguments: str = "arguments"


class NamedBody(Struct, frozen=True, kw_only=True):
    """A call is a name and its arguments as one JSON object: `begin` NAME `separator` {…} `end`.

    id: what stands between the name and an id that the model writes; "" if it writes none.
    kimi: the name is written `functions.NAME:INDEX`, which is also the call's id.
    """

    separator: str
    begin: str = ""
    end: str = ""
    id: str = ""
    kimi: bool = False

    @property
    def end_marks(self) -> tuple[str, ...]:
        """The parts of `end`, between which a model may add blanks."""
        parts = self.end.strip().replace("```<", "``` <").split()
        return tuple(parts)


class TaggedBody(Struct, frozen=True, kw_only=True):
    """A call is a name and one element per argument, whose types only the tool's schema shows.

    call: what stands before and after the name. key, value: the same for an argument's name and
    value; an empty first string of `value`: nothing separates it from the key.
    end: closes the call. pad: blanks that the model adds around a value.
    after: blanks after the name, and after each argument.
    text: after the key of an argument that is a string; json: of another. "" where the format does
    not distinguish them.
    """

    call: tuple[str, str]
    key: tuple[str, str]
    value: tuple[str, str]
    end: str = ""
    pad: str = ""
    after: str = "\n"
    text: str = ""
    json: str = ""


class PythonBody(Struct, frozen=True, kw_only=True):
    """A call is `name(key=value, …)`. listed: the calls are a Python list, else lines."""

    listed: bool = True


class KeyedBody(Struct, frozen=True, kw_only=True):
    """A call is `call:name{key:value, …}` with bare keys. quote: on both sides of a string."""

    quote: str


Body = JsonBody | NamedBody | TaggedBody | PythonBody | KeyedBody


class ToolFormat(Struct, frozen=True, kw_only=True):
    """One format of tool calls.

    signs:   a chat template with this format contains all strings of one of these groups.
    without: and none of these.
    opens:   marks before calls; models that forget one of two marks are read as well.
    starts:  marks that are the beginning of a call themselves.
    closes:  marks after calls.
    inner:   marks between the first mark and a call.
    bodies:  how a call is written; grammars write the first kind, answers may have any.
    bare:    first characters of a call without a mark, at the beginning of an answer; such a call
             must name a known function.
    fences:  marks that occur in other texts as well; a call after one must name a known function.
    section: the marks are around all calls, not around each.
    between: the separator of calls. lead, tail: text between marks and calls. wrap: text around
             each call. These are what the model is trained to write; answers may lack them.
    ids:     call_ and 24 letters and digits, or 9 of them; kimi: `functions.NAME:INDEX`.
    tokens:  other spellings that can be single tokens, inside the marks.
    ends_reasoning: a call may begin inside the reasoning, and ends it.
    """

    name: str
    source: str
    bodies: tuple[Body, ...]
    signs: tuple[tuple[str, ...], ...] = ()
    without: tuple[str, ...] = ()
    opens: tuple[str, ...] = ()
    starts: tuple[str, ...] = ()
    closes: tuple[str, ...] = ()
    inner: tuple[str, ...] = ()
    bare: str = ""
    fences: tuple[str, ...] = ()
    section: bool = False
    wrap: tuple[str, str] = ("", "")
    between: str = ""
    lead: str = ""
    tail: str = ""
    ids: Literal["call", "nine", "kimi"] = "call"
    tokens: tuple[str, ...] = ()
    ends_reasoning: bool = False

    @property
    def open(self) -> str:
        """The mark that the model is trained to write first; "" if calls have none."""
        return self.opens[0] if self.opens else ""

    @property
    def close(self) -> str:
        return self.closes[0] if self.closes else ""

    @property
    def skipped(self) -> tuple[str, ...]:
        """Marks between calls."""
        named = [body for body in self.bodies if isinstance(body, NamedBody)]
        return (*self.inner, *(mark for body in named for mark in body.end_marks))

    @property
    def spellings(self) -> tuple[str, ...]:
        """All that may be a single token."""
        marks = [*self.opens, *self.starts, *self.closes, *self.inner, *self.tokens]
        for body in self.bodies:
            match body:
                case NamedBody():
                    marks += [body.begin, body.separator, body.end, body.id]
                case TaggedBody():
                    marks += [*body.call, *body.key, *body.value, body.end, body.text, body.json]
                case KeyedBody():
                    marks.append(body.quote)
                case JsonBody() | PythonBody():
                    pass
        return tuple(dict.fromkeys(mark.strip() for mark in marks if mark.strip()))

    def new_id(self, name: str = "", place: int = 0) -> str:
        """name: of the function. place: of the call in its answer."""
        if self.ids == "kimi":
            return f"functions.{name}:{place}"
        size, prefix = (9, "") if self.ids == "nine" else (24, "call_")
        return prefix + "".join(_ALPHABET[byte % 62] for byte in secrets.token_bytes(size))
