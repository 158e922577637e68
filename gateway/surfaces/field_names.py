"""Names of fields in headers and errors, as the client of a surface knows them.

The request path names fields by our schema's paths, those of chat completions. Each surface has one
table from these paths to its own, and says where in the client's body a message or tool was.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from msgspec import Raw, Struct

from strowger_gateway.gateway.surfaces.sent_places import CONTENT, IN_MESSAGE, IN_TOOL, clients_path
from strowger_gateway.schemas.errors import GatewayError, InvalidRequest
from strowger_gateway.schemas.messages import Message, OpaquePart, Part
from strowger_gateway.schemas.requests import ChatRequest, Request

_OF_MESSAGE: Final = ("role", "name")
_SEARCHED: Final = 64 * 1024
"""Bytes of a part's JSON that are searched for the name of a field."""

Table = Mapping[str, str | tuple[str, ...]]


class ClientPlace(Struct, frozen=True, kw_only=True):
    """The client's path of one of our messages, or of all of a kind, with `[]` for indices.

    message: of its role. own: of its other fields: of the block or item that became the message.
    content: of its content. parts, calls: of each; () if parts have the index they have with us.
    call: of a call that is not among `calls`; "": as `own`.
    """

    message: str
    own: str
    content: str
    parts: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()
    call: str = ""


class ClientPlaces(Struct, frozen=True, kw_only=True):
    """The client's paths of our messages and tools, each in our order; () if unknown."""

    messages: tuple[ClientPlace, ...] = ()
    tools: tuple[str, ...] = ()


class ConversationNames(Struct, frozen=True, kw_only=True):
    """The names in messages and tools, of a surface that has others than chat completions.

    kind:    returns a message's place with `[]` in place of indices; `None` is any message.
    places:  finds the places of a request's messages and tools in the client's body.
    message, part, call, tool: of the members of these objects, by their paths inside them; ""
             leaves a level out.
    """

    kind: Callable[[ChatRequest, Message | None], ClientPlace]
    places: Callable[[ChatRequest], ClientPlaces]
    message: Table = {}
    part: Table = {}
    call: Table = {}
    tool: Table = {}


class FieldNames:
    """The names of one surface.

    fields: outside messages and tools. A path that is not in the table has the name of the longest
            part of it that is. Of several names, the first that the client sent.
    """

    def __init__(self, fields: Table, conversation: ConversationNames | None = None) -> None:
        self._fields = fields
        self._inner = conversation

    def of(self, paths: Iterable[str], request: Request | None) -> list[str]:
        """Return the client's names, each once. request: `None` if it could not be read.

        paths: without indices. A field in parts of several kinds of messages has several names.
        """
        return list(dict.fromkeys(name for path in paths for name in self._names(path, request)))

    def rename(self, error: GatewayError, request: Request, sent: Request | None = None) -> None:
        """Give an error's `param`, and its message if it is ours, the client's name of the field.

        sent: the request as the backend got it, to which the indices belong; `None` if unchanged.
        """
        path = error.param
        if not path:
            return
        name = self._name(clients_path(path, request, sent), request)
        if name == path:
            return
        error.param = name
        before, found, after = error.message.partition(path)
        if isinstance(error, InvalidRequest) and found and (not before or before.endswith(": ")):
            told = f"{before}{name}{after}"
            error.logged = told if error.logged == error.message else error.logged
            error.message = told

    def _names(self, path: str, request: Request | None) -> Iterator[str]:
        inner = self._inner
        if inner is None or "[" not in path or not isinstance(request, ChatRequest):
            yield self._field(path, request)
        elif found := IN_MESSAGE.fullmatch(path):
            member = found[4] or ""
            holding = _holding(request, member) if found[2] == CONTENT else ()
            kinds = {inner.kind(request, one): None for one in holding}
            for kind in kinds or (inner.kind(request, None),):
                yield _in_message(inner, kind, found[2], None, member)
        elif found := IN_TOOL.fullmatch(path):
            yield _joined("tools[]", _renamed(found[2] or "", inner.tool))
        else:
            yield self._field(path, request)

    def _name(self, path: str, request: Request) -> str:
        inner = self._inner
        if inner is None or not isinstance(request, ChatRequest):
            return self._field(path, request)
        found = IN_MESSAGE.fullmatch(path)
        if found and found[1]:
            place = _place(inner, int(found[1]), request)
            at = int(found[3]) if found[3] else None
            return _in_message(inner, place, found[2], at, found[4] or "")
        found = IN_TOOL.fullmatch(path)
        if found and found[1]:
            at, places = int(found[1]), inner.places(request).tools
            known = at < len(places) == len(request.tools or ())
            tool = places[at] if known else "tools[]"
            return _joined(tool, _renamed(found[2] or "", inner.tool))
        return next(self._names(path, request))

    def _field(self, path: str, request: Request | None) -> str:
        original = request.original if isinstance(request, ChatRequest) else None
        fields = {} if original is None else original.fields
        name = _renamed(path, self._fields, fields)
        root = path.partition(".")[0]
        if name != path and request is not None and root in request.extra:
            # The client may have sent a field that our schema has, and its own API has not.
            return name if _root(name) in fields else path
        return name


def _place(inner: ConversationNames, at: int, request: ChatRequest) -> ClientPlace:
    """Return the place of a message of the client's, or that of any if there is none."""
    if at >= len(request.messages):
        return inner.kind(request, None)
    places = inner.places(request).messages
    known = len(places) == len(request.messages)
    return places[at] if known else inner.kind(request, request.messages[at])


def _in_message(
    inner: ConversationNames, place: ClientPlace, kind: str | None, at: int | None, member: str
) -> str:
    if kind == CONTENT:
        if at is not None and at < len(place.parts):
            part = place.parts[at]
        elif len(place.parts) == 1:
            part = place.parts[0]
        else:
            at = None if place.parts else at
            part = f"{place.content}[{'' if at is None else at}]"
        return _joined(part, _renamed(member, inner.part))
    if kind is not None:
        known = at is not None and at < len(place.calls)
        call = place.calls[at] if at is not None and known else place.call or place.own
        return _joined(call, _renamed(member, inner.call))
    head = _root(member)
    if not head or head in _OF_MESSAGE:
        return _joined(place.message, member)
    if head == CONTENT:
        return place.content + member[len(CONTENT) :]
    return _joined(place.own, _renamed(member, inner.message))


def _renamed(path: str, table: Table, fields: Mapping[str, Raw] | None = None) -> str:
    """fields: what the client sent, to choose between several names."""
    head = path
    while head:
        found = table.get(head)
        if found is not None:
            name = found if isinstance(found, str) else _sent(found, fields or {})
            return _joined(name, path[len(head) :].removeprefix("."))
        head = head[: max(head.rfind("."), head.rfind("["), 0)]
    return path


def _sent(names: tuple[str, ...], fields: Mapping[str, Raw]) -> str:
    for name in names:
        root, _, member = name.partition(".")
        if root in fields and (not member or f'"{member}"'.encode() in bytes(fields[root])):
            return name
    return names[-1]


def _joined(path: str, member: str) -> str:
    if not (path and member) or member[0] == "[":
        return path + member
    return f"{path}.{member}"


def _root(name: str) -> str:
    return name.partition(".")[0].partition("[")[0]


def _holding(request: ChatRequest, member: str) -> Iterator[Message]:
    """Yield the messages that have parts with the field."""
    name = f'"{_root(member)}"'.encode()
    for message in request.messages:
        if isinstance(message.content, tuple) and any(_has(one, name) for one in message.content):
            yield message


def _has(part: Part, name: bytes) -> bool:
    raw = part.raw if isinstance(part, OpaquePart) else getattr(part, "marks", None)
    return isinstance(raw, Raw) and name in bytes(memoryview(raw)[:_SEARCHED])


MAX_SEARCHED: Final = 4 * 1024 * 1024
"""Bytes of a conversation in which a message is looked for: it takes 5 ms of the event loop."""

AS_IN_CHAT: Final = FieldNames({})
"""Of surfaces whose names are those of our schema."""
