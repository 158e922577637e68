"""The Messages API's names of the fields that our schema has.

Gemini's proof of a call, `extra_content`, is the `signature` of a block before the call.
"""

from typing import Final

import msgspec
from msgspec import DecodeError, Raw, Struct

from strowger_gateway.gateway.surfaces.decoding import is_null
from strowger_gateway.gateway.surfaces.field_names import (
    MAX_SEARCHED,
    ClientPlace,
    ClientPlaces,
    ConversationNames,
    FieldNames,
)
from strowger_gateway.schemas.messages import Message
from strowger_gateway.schemas.requests import ChatRequest

_NOT_PARTS: Final = frozenset({"thinking", "redacted_thinking", "tool_use"})

_ANY: Final = ClientPlace(
    message="messages[]", own="messages[].content[]", content="messages[].content"
)
_RESULT: Final = ClientPlace(
    message="messages[].content[]",
    own="messages[].content[]",
    content="messages[].content[].content",
)
_SYSTEM: Final = ClientPlace(message="system", own="system[]", content="system")


class _Typed(Struct, frozen=True, kw_only=True):
    type: str = ""


class _Turn(Struct, frozen=True, kw_only=True):
    role: str
    content: Raw


_turns: Final = msgspec.json.Decoder(list[_Turn])
_blocks: Final = msgspec.json.Decoder(list[_Typed])


def _kind(request: ChatRequest, message: Message | None) -> ClientPlace:
    if message is not None and message.role == "tool":
        return _RESULT
    return _SYSTEM if message is request.messages[0] and _has_system(request) else _ANY


def _has_system(request: ChatRequest) -> bool:
    if request.messages[0].role != "system" or request.original is None:
        return False
    return not is_null(request.original.fields.get("system", Raw(b"null")))


def _places(request: ChatRequest) -> ClientPlaces:
    tools = tuple([f"tools[{at}]" for at in range(len(request.tools or ()))])
    raw = None if request.original is None else request.original.fields.get("messages")
    if raw is None or len(memoryview(raw)) > MAX_SEARCHED:
        return ClientPlaces(tools=tools)
    found = [_SYSTEM] if _has_system(request) else []
    try:
        for at, turn in enumerate(_turns.decode(raw)):
            found += _of_turn(turn, f"messages[{at}]")
    except (DecodeError, RecursionError):
        return ClientPlaces(tools=tools)
    return ClientPlaces(messages=tuple(found), tools=tools)


def _of_turn(turn: _Turn, where: str) -> list[ClientPlace]:
    """Return the places of the messages that a turn became: each result is one of its own."""
    content = f"{where}.content"
    if bytes(memoryview(turn.content)[:1]) == b'"':
        return [ClientPlace(message=where, own=where, content=content)]
    blocks = [(f"{content}[{at}]", one.type) for at, one in enumerate(_blocks.decode(turn.content))]
    parts: list[str] = []
    if turn.role == "assistant":
        parts = [path for path, kind in blocks if kind not in _NOT_PARTS]
        calls = [path for path, kind in blocks if kind == "tool_use"]
        return [_place(where, parts, calls)]
    found: list[ClientPlace] = []
    for path, kind in blocks:
        if kind != "tool_result":
            parts.append(path)
            continue
        if parts:
            found.append(_place(where, parts))
            parts = []
        found.append(ClientPlace(message=path, own=path, content=f"{path}.content"))
    return [*found, _place(where, parts)] if parts else found


def _place(where: str, parts: list[str], calls: list[str] | None = None) -> ClientPlace:
    return ClientPlace(
        message=where,
        own=f"{where}.content[]",
        content=f"{where}.content",
        parts=tuple(parts),
        calls=tuple(calls or ()),
    )


NAMES: Final = FieldNames(
    {
        "parallel_tool_calls": "tool_choice.disable_parallel_tool_use",
        "reasoning_effort": ("output_config.effort", "thinking"),
        "response_format": "output_config.format",
        "response_format.json_schema": "output_config.format",
        "stop": "stop_sequences",
        "tool_choice.function": "tool_choice",
        "user": "metadata.user_id",
    },
    ConversationNames(
        kind=_kind,
        places=_places,
        message={"tool_call_id": "tool_use_id", "tool_calls": ""},
        part={
            "file": "source",
            "file.file_data": "source.data",
            "file.file_url": "source.url",
            "file.filename": "title",
            "image_url": "source",
            "image_url.url": "source",
        },
        call={"extra_content": "signature", "function": "", "function.arguments": "input"},
        tool={"function": "", "function.parameters": "input_schema"},
    ),
)
