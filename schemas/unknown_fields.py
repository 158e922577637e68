"""Request fields outside our schema: finding them by path, and removing them.

Paths look like `provider.order`, `messages[].content[].cache_control`; `[]` is every entry of a
list. The contents of a tool's parameters, a JSON schema, metadata and the arguments of a call are
the client's own data and have no paths.
"""

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final, TypeVar, cast

import msgspec
from msgspec import Raw, Struct, UnsetType
from msgspec.structs import replace

from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.messages import (
    FunctionTool,
    ImagePart,
    Message,
    OpaquePart,
    OpaqueTool,
    Part,
    ResponseFormat,
    TextPart,
    Tool,
    ToolChoice,
)
from strowger_gateway.schemas.requests import ChatRequest, Request

KNOWN: Final[Mapping[str, frozenset[str]]] = {
    place: frozenset(names.split())
    for place, names in {
        "messages[]": "role content name tool_calls tool_call_id reasoning reasoning_content "
        "reasoning_signature reasoning_details refusal",
        "messages[].content[]": "type text refusal image_url input_audio",
        "messages[].content[].image_url": "url detail",
        "messages[].content[].input_audio": "data format",
        "messages[].tool_calls[]": "id type function extra_content",
        "messages[].tool_calls[].function": "name arguments",
        "messages[].tool_calls[].extra_content": "google",
        "messages[].tool_calls[].extra_content.google": "thought_signature",
        "tools[]": "type function",
        "tools[].function": "name description parameters strict",
        "tool_choice": "type function",
        "tool_choice.function": "name",
        "response_format": "type json_schema",
        "response_format.json_schema": "name description schema strict",
    }.items()
}
"""The fields that our schema has, by the path of the object that holds them."""

_ROOTS: Final = frozenset({"messages", "tools", "tool_choice", "response_format"})
_INSIDE: Final = frozenset(place.removesuffix("[]") for place in KNOWN)
_EMPTY: Final = Raw(b"{}")
_fields: Final = msgspec.json.Decoder(dict[str, Raw])
_items: Final = msgspec.json.Decoder(list[Raw])
_encode: Final = msgspec.json.Encoder().encode

_MARKED: Final = (TextPart, ImagePart, FunctionTool)
"""Values that a client of another dialect than OpenAI's may have marked."""

_Found = tuple[str, str, object, str]
"""See `_unknown`."""

_Piece = TypeVar("_Piece", Part, Tool, ToolChoice, ResponseFormat)
_AnyRequest = TypeVar("_AnyRequest", bound=Request)


class Members(list[tuple[str, object]]):
    """A JSON object as a list of all its members, duplicate names included."""


class Unknown(Struct, frozen=True, kw_only=True, gc=False):
    """A field outside our schema; of nested ones, the outermost.

    parent: the path of the object that contains it, "" at the top level.
    value:  JSON text at the top level (`parsed` reads it).
    place:  the index of the message or tool that contains it.
    of:     the message's role, and the type of the part or tool.
    """

    parent: str
    name: str
    value: Raw | object
    place: int = 0
    of: str = ""

    @property
    def path(self) -> str:
        return f"{self.parent}.{self.name}" if self.parent else self.name


def at_top(request: Request) -> Iterator[Unknown]:
    """Yield the unknown fields at the top level of the request."""
    for name, raw in request.extra.items():
        yield Unknown(parent="", name=name, value=raw)


def below_top(request: Request) -> Iterator[Unknown]:
    """Yield the unknown fields inside messages, tools, tool choice and response format.

    Raises InvalidRequest for a value that is nested too deeply.
    """
    if not isinstance(request, ChatRequest):
        return
    for index, message in enumerate(request.messages):
        if isinstance(message.raw, Raw):
            found = _unknown(parsed(message.raw, "messages"), "messages[]", "")
        elif isinstance(message.content, tuple) or isinstance(message.marks, Raw):
            found = _of_parts(message)
        else:
            continue
        for parent, name, value, kind in found:
            of = f"{message.role} {kind}" if kind else message.role
            yield Unknown(parent=parent, name=name, value=value, place=index, of=of)
    for index, tool in enumerate(request.tools or ()):
        for raw in _json_of(tool):
            for parent, name, value, kind in _unknown(parsed(raw, "tools"), "tools[]", ""):
                yield Unknown(parent=parent, name=name, value=value, place=index, of=kind)
    for field, one in (
        ("tool_choice", request.tool_choice),
        ("response_format", request.response_format),
    ):
        if not isinstance(one, UnsetType) and isinstance(one.raw, Raw):
            for parent, name, value, kind in _unknown(parsed(one.raw, field), field, ""):
                yield Unknown(parent=parent, name=name, value=value, of=kind)


def _of_parts(message: Message) -> Iterator[_Found]:
    """Yield the unknown fields of a message that the gateway made."""
    if isinstance(message.marks, Raw):
        yield from _unknown(parsed(message.marks, "messages"), "messages[]", "")
    if isinstance(message.content, tuple):
        for part in message.content:
            for raw in _json_of(part):
                kind = "" if raw is part.raw else type(part).__name__
                yield from _unknown(parsed(raw, "messages"), "messages[].content[]", kind)


def _json_of(piece: Part | Tool) -> Iterator[Raw]:
    if isinstance(piece.raw, Raw):
        yield piece.raw
    elif isinstance(piece, _MARKED) and isinstance(piece.marks, Raw):
        yield piece.marks


def parsed(raw: Raw, field: str) -> object:
    """Decode the JSON with `Members` for objects; all numbers become 0. Raises InvalidRequest.

    Duplicate names are all kept, because readers differ in which one they use.
    """
    try:
        return json.loads(
            bytes(raw),
            object_pairs_hook=Members,
            parse_int=_zero,
            parse_float=_zero,
            parse_constant=_zero,
        )
    except RecursionError as exc:
        raise InvalidRequest(f"{field} is nested too deeply", param=field) from exc
    except ValueError as exc:
        raise InvalidRequest(f"{field} is not valid JSON: {exc}", param=field) from exc


def inside(value: object, path: str) -> Iterator[tuple[str, object]]:
    """Yield an object's members or a list's entries with their paths; nothing for a leaf."""
    if isinstance(value, Members):
        for name, inner in value:
            yield f"{path}.{name}", inner
    elif isinstance(value, list):
        for inner in cast("list[object]", value):
            yield f"{path}[]", inner


def is_nested(path: str) -> bool:
    """Return whether the path is below the top level."""
    return "." in path or "[" in path


def without_nested(request: _AnyRequest, paths: Collection[str]) -> _AnyRequest:
    """Return the request without these paths, and without fields that become empty.

    Raises InvalidRequest if a path is inside a part, tool, choice or format of an unknown type:
    removing it would change its meaning.
    """
    targets = frozenset(paths)
    cut = {name: _cut(raw, name, targets) for name, raw in request.extra.items()}
    extra = {name: raw for name, raw in cut.items() if raw is request.extra[name] or raw != _EMPTY}
    if not isinstance(request, ChatRequest):
        return replace(request, extra=extra)
    changes: dict[str, object] = {"extra": extra}
    changes["messages"] = tuple([_message_without(one, targets) for one in request.messages])
    if request.tools:
        changes["tools"] = tuple([_without(one, "tools[]", targets) for one in request.tools])
    if isinstance(request.tool_choice, ToolChoice):
        changes["tool_choice"] = _without(request.tool_choice, "tool_choice", targets)
    if isinstance(request.response_format, ResponseFormat):
        changes["response_format"] = _without(request.response_format, "response_format", targets)
    return replace(request, **changes)


Change = Callable[[dict[str, Raw]], dict[str, Raw]]


def edited(request: _AnyRequest, at: Unknown, parent: str, change: Change) -> _AnyRequest:
    """Return the request with the objects at the path `parent` changed, only in what contains `at`.

    change: receives an object's members, and returns the changed object's.
    """
    root = parent.partition(".")[0].partition("[")[0]
    if not isinstance(request, ChatRequest) or root not in _ROOTS:
        if not parent:
            return replace(request, extra=change(request.extra))
        extra = {
            name: _edited(raw, name, parent, change) if name == root else raw
            for name, raw in request.extra.items()
        }
        return replace(request, extra=extra)
    if root == "messages":
        messages = list(request.messages)
        messages[at.place] = _message_edited(messages[at.place], parent, change)
        return replace(request, messages=tuple(messages))
    if root == "tools" and request.tools:
        tools = list(request.tools)
        tools[at.place] = _piece_edited(tools[at.place], "tools[]", parent, change)
        return replace(request, tools=tuple(tools))
    if root == "tool_choice" and isinstance(request.tool_choice, ToolChoice):
        choice = _piece_edited(request.tool_choice, root, parent, change)
        return replace(request, tool_choice=choice)
    if root == "response_format" and isinstance(request.response_format, ResponseFormat):
        form = _piece_edited(request.response_format, root, parent, change)
        return replace(request, response_format=form)
    return request


def _message_edited(message: Message, parent: str, change: Change) -> Message:
    changes: dict[str, object] = {}
    if isinstance(message.raw, Raw):
        changes["raw"] = _edited(message.raw, "messages[]", parent, change)
    if isinstance(message.marks, Raw):
        changes["marks"] = _edited(message.marks, "messages[]", parent, change)
    if isinstance(message.content, tuple):
        place = "messages[].content[]"
        parts = [_piece_edited(one, place, parent, change) for one in message.content]
        changes["content"] = tuple(parts)
    return replace(message, **changes)


def _piece_edited(piece: _Piece, place: str, parent: str, change: Change) -> _Piece:
    if isinstance(piece.raw, Raw):
        return replace(piece, raw=_edited(piece.raw, place, parent, change))
    if isinstance(piece, _MARKED) and isinstance(piece.marks, Raw):
        return replace(piece, marks=_edited(piece.marks, place, parent, change))
    return piece


def _edited(raw: Raw, place: str, parent: str, change: Change) -> Raw:
    if not parent.startswith(place):
        return raw
    head = bytes(memoryview(raw)[:1])
    if head == b"{":
        fields = _fields.decode(raw)
        if place == parent:
            return Raw(_encode(change(fields)))
        inner = {
            name: _edited(one, f"{place}.{name}", parent, change) for name, one in fields.items()
        }
        return Raw(_encode(inner))
    if head == b"[":
        return Raw(
            _encode([_edited(one, f"{place}[]", parent, change) for one in _items.decode(raw)])
        )
    return raw


def _zero(_: str) -> int:
    return 0


def _unknown(value: object, path: str, kind: str) -> Iterator[_Found]:
    """Yield parent, name, value, and the type of the part, call or tool that contains it."""
    known = KNOWN.get(path)
    if isinstance(value, Members):
        kind = next((one for name, one in value if name == "type" and isinstance(one, str)), kind)
    for place, inner in inside(value, path):
        if known is None or place[len(path) + 1 :] not in known:
            if place == f"{path}[]":
                yield from _unknown(inner, place, kind)
            else:
                yield path, place[len(path) + 1 :], inner, kind
        elif place in _INSIDE:
            yield from _unknown(inner, place, kind)


def _message_without(message: Message, targets: frozenset[str]) -> Message:
    changes: dict[str, object] = {}
    if isinstance(message.raw, Raw):
        changes["raw"] = _cut(message.raw, "messages[]", targets)
    if isinstance(message.marks, Raw):
        changes["marks"] = _cut(message.marks, "messages[]", targets)
    if isinstance(message.content, tuple):
        place = "messages[].content[]"
        changes["content"] = tuple([_without(one, place, targets) for one in message.content])
    return replace(message, **changes)


def _without(one: _Piece, place: str, targets: frozenset[str]) -> _Piece:
    if not isinstance(one.raw, Raw):
        if isinstance(one, _MARKED) and isinstance(one.marks, Raw):
            return replace(one, marks=_cut(one.marks, place, targets))
        return one
    raw = _cut(one.raw, place, targets)
    if raw is one.raw:
        return one
    opaque = isinstance(one, OpaquePart | OpaqueTool) or (
        isinstance(one, ToolChoice) and one.mode == "opaque"
    )
    if opaque or (isinstance(one, ResponseFormat) and one.type == "opaque"):
        field = min(path for path in targets if path.startswith(place))
        raise InvalidRequest(
            f"{field}: this field cannot be omitted alone; remove it from the request",
            param=field,
        )
    return replace(one, raw=raw)


def _cut(raw: Raw, place: str, targets: frozenset[str]) -> Raw:
    """Return the same object if it contains none of the targets."""
    if not any(one.startswith(place) and len(one) > len(place) for one in targets):
        return raw
    head = bytes(memoryview(raw)[:1])
    if head == b"{":
        fields = _fields.decode(raw)
        kept = {
            name: _cut(inner, f"{place}.{name}", targets)
            for name, inner in fields.items()
            if f"{place}.{name}" not in targets
        }
        same = len(kept) == len(fields) and all(kept[name] is fields[name] for name in kept)
        return raw if same else Raw(_encode(kept))
    if head == b"[":
        items = _items.decode(raw)
        cut = [_cut(inner, f"{place}[]", targets) for inner in items]
        return raw if all(a is b for a, b in zip(items, cut, strict=True)) else Raw(_encode(cut))
    return raw
