"""Finds the JSON of a client of this API that can be sent unchanged.

Its items have more than our messages: their order, ids, phases, and items of tools that run at the
server. They are encoded again only if something in the conversation had to change.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from msgspec import Raw, Struct

from strowger_gateway.adapters.json_objects import UNREADABLE
from strowger_gateway.schemas.messages import Message
from strowger_gateway.schemas.requests import ChatRequest, GenerateRequest

DIALECT: Final = "openai-responses"
INPUT: Final = "input"

_EMPTY: Final = b'""'
_NOTHING: Final[dict[str, Raw]] = {}


class _Named(Struct, frozen=True, kw_only=True):
    type: str = ""
    name: str = ""


_named = msgspec.json.Decoder(list[_Named]).decode
_reasoning = msgspec.json.Decoder(dict[str, Raw]).decode


def is_native(request: GenerateRequest) -> bool:
    """Return whether the client speaks this API, so that it reads all items and events."""
    if not isinstance(request, ChatRequest) or request.original is None:
        return False
    return request.original.dialect == DIALECT


class UnchangedFields(Struct, frozen=True, kw_only=True):
    """fields: the client's JSON by field. before: messages to encode before its `input`."""

    fields: dict[str, Raw]
    before: Sequence[Message]


def unchanged_fields(request: ChatRequest) -> UnchangedFields:
    """Return the client's JSON of the conversation and the tools that nothing has changed."""
    original, messages = request.original, request.messages
    if original is None or original.dialect != DIALECT:
        return UnchangedFields(fields=_NOTHING, before=messages)
    read, fields = original.read, original.fields
    sent: dict[str, Raw] = {}
    if request.tools is read.tools:
        sent |= _of(fields, "tools")
        if request.tool_choice is read.tool_choice:
            sent |= _of(fields, "tool_choice")
    if INPUT not in fields:
        return UnchangedFields(fields=sent, before=messages)
    if messages is read.messages:
        sent |= _of(fields, INPUT, "instructions")
        return UnchangedFields(fields=sent, before=())
    items = read.messages[_instructed(fields) :]
    place = len(messages) - len(items)
    if place < 0 or not all(a is b for a, b in zip(messages[place:], items, strict=True)):
        return UnchangedFields(fields=sent, before=messages)
    sent |= _of(fields, INPUT)
    return UnchangedFields(fields=sent, before=messages[:place])


def _instructed(fields: Mapping[str, Raw]) -> int:
    """Return how many messages `instructions` became."""
    return int(bytes(fields.get("instructions", Raw(_EMPTY))) != _EMPTY)


def reads_events(request: GenerateRequest) -> bool:
    """Return whether the client reads the server's own items and events.

    If its tools had to change, custom ones have become functions, and only the surface knows them.
    """
    if not isinstance(request, ChatRequest) or request.original is None:
        return False
    return is_native(request) and request.tools is request.original.read.tools


def custom_tools(request: ChatRequest) -> frozenset[str]:
    """Return the names of the client's tools that take text, if they are sent as they are."""
    if not reads_events(request) or request.original is None:
        return frozenset()
    tools = request.original.fields.get("tools")
    if tools is None or b'"custom"' not in bytes(tools):
        return frozenset()
    try:
        return frozenset([one.name for one in _named(tools) if one.type == "custom"])
    except UNREADABLE:
        return frozenset()


def summary_fields(request: ChatRequest) -> dict[str, Raw]:
    """Return how the client wants reasoning to be summarised."""
    if not is_native(request) or request.original is None:
        return _NOTHING
    raw = request.original.fields.get("reasoning")
    if raw is None:
        return _NOTHING
    return {
        name: one
        for name, one in _reasoning(raw).items()
        if name in ("summary", "generate_summary") and bytes(one) != b"null"
    }


def _of(fields: Mapping[str, Raw], *names: str) -> dict[str, Raw]:
    return {name: fields[name] for name in names if name in fields}
