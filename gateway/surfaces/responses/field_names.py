"""The Responses API's names of the fields that our schema has.

Gemini's proof of a call, `extra_content`, is the `encrypted_content` of an item before the call.
"""

from typing import Final

import msgspec
from msgspec import DecodeError, Raw, Struct

from strowger_gateway.gateway.surfaces.field_names import (
    MAX_SEARCHED,
    ClientPlace,
    ClientPlaces,
    ConversationNames,
    FieldNames,
)
from strowger_gateway.schemas.messages import Message
from strowger_gateway.schemas.requests import ChatRequest, Original

_ANY: Final = ClientPlace(message="input[]", own="input[]", content="input[].content")
_OUTPUT: Final = ClientPlace(message="input[]", own="input[]", content="input[].output")
_INSTRUCTIONS: Final = ClientPlace(
    message="instructions", own="instructions", content="instructions", parts=("instructions",)
)
_CALLS: Final = frozenset({"function_call", "custom_tool_call"})
_OUTPUTS: Final = frozenset({"function_call_output", "custom_tool_call_output"})
_EMPTY: Final = Raw(b'""')


class _Item(Struct, frozen=True, kw_only=True):
    type: str = "message"
    role: str = ""
    content: Raw = _EMPTY


class _Tool(Struct, frozen=True, kw_only=True):
    type: str = ""
    tools: "list[_Tool]" = []


_items: Final = msgspec.json.Decoder(list[_Item])
_list: Final = msgspec.json.Decoder(list[Raw])
_tools: Final = msgspec.json.Decoder(list[_Tool])


def _kind(request: ChatRequest, message: Message | None) -> ClientPlace:
    return _OUTPUT if message is not None and message.role == "tool" else _ANY


def _places(request: ChatRequest) -> ClientPlaces:
    original = request.original
    if original is None:
        return ClientPlaces()
    try:
        return ClientPlaces(messages=_of_input(original), tools=_of_tools(original))
    except (DecodeError, RecursionError):
        return ClientPlaces()


def _of_input(original: Original) -> tuple[ClientPlace, ...]:
    raw = original.fields.get("input", original.unsent)
    if not isinstance(raw, Raw) or len(memoryview(raw)) > MAX_SEARCHED:
        return ()
    told = original.fields.get("instructions", _EMPTY)
    found = [] if told == _EMPTY else [_INSTRUCTIONS]
    if bytes(memoryview(raw)[:1]) == b'"':
        return (*found, ClientPlace(message="input", own="input", content="input"))
    turns = _Turns(found)
    for at, item in enumerate(_items.decode(raw)):
        turns.add(item, f"input[{at}]")
    turns.end()
    return tuple(turns.places)


class _Turns:
    """Follows which items become one message, as `ResponsesConversation` reads them."""

    def __init__(self, places: list[ClientPlace]) -> None:
        self.places = places
        self._first = ""
        self._parts: list[str] = []
        self._calls: list[str] = []
        self._answered = False

    def add(self, item: _Item, where: str) -> None:
        if item.type in _OUTPUTS:
            self.end()
            self._answered = False
            self.places.append(ClientPlace(message=where, own=where, content=f"{where}.output"))
            return
        content = f"{where}.content"
        if item.type == "message" and item.role != "assistant":
            self.end()
            self._answered = False
            self.places.append(ClientPlace(message=where, own=where, content=content))
            return
        if item.type in ("message", "reasoning") and self._parts and not self._calls:
            self.end()
        self._first = self._first or where
        if item.type == "message":
            whole = bytes(memoryview(item.content)[:1]) == b'"'
            count = 0 if whole else len(_list.decode(item.content))
            self._parts += [content] if whole else [f"{content}[{at}]" for at in range(count)]
        elif item.type in _CALLS:
            self._calls.append(where)
        elif item.type != "reasoning":
            self._parts.append(where)

    def end(self) -> None:
        if not self._first:
            return
        if self._answered and not (self._parts or self._calls):
            self._first = ""  # reasoning after an answer belongs to it
            return
        place = ClientPlace(
            message=self._first,
            own=self._first,
            content=f"{self._first}.content",
            parts=tuple(self._parts),
            calls=tuple(self._calls),
        )
        self.places.append(place)
        self._first, self._parts, self._calls, self._answered = "", [], [], True


def _of_tools(original: Original) -> tuple[str, ...]:
    found: list[str] = []
    for at, tool in enumerate(_tools.decode(original.fields.get("tools", Raw(b"[]")))):
        where = f"tools[{at}]"
        if tool.type == "namespace":
            found += [f"{where}.tools[{inner}]" for inner in range(len(tool.tools))]
        else:
            found.append(where)
    return tuple(found)


NAMES: Final = FieldNames(
    {
        "logprobs": ("top_logprobs", "include"),
        "max_tokens": "max_output_tokens",
        "messages": "input",
        "reasoning_effort": "reasoning.effort",
        "response_format": "text.format",
        "response_format.json_schema": "text.format",
        "tool_choice.function": "tool_choice",
        "verbosity": "text.verbosity",
    },
    ConversationNames(
        kind=_kind,
        places=_places,
        message={"tool_call_id": "call_id", "tool_calls": ""},
        part={
            "file": "",
            "image_url.detail": "detail",
            "image_url.url": "image_url",
        },
        call={"extra_content": "encrypted_content", "function": "", "id": "call_id"},
        tool={"function": ""},
    ),
)
