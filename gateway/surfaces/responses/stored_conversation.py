"""Stored responses as items: joined to a conversation, found by id, listed, and as resources.

The ids of items contain the id of their response, so that a reference needs no index. Items that a
client sends without an id get one when they are listed.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec
from msgspec import Raw, Struct

from strowger_gateway.gateway.surfaces.openai.envelope import encode

_RESPONSE: Final = re.compile(r"resp_[0-9a-f-]{36}")
_ITEM: Final = re.compile(r"[a-z]{2,4}_([0-9a-f-]{36})_(?:in_)?[0-9]{1,6}")
_PREFIXES: Final[Mapping[str, str]] = {
    "message": "msg",
    "reasoning": "rs",
    "function_call": "fc",
    "function_call_output": "fco",
    "custom_tool_call": "ctc",
    "custom_tool_call_output": "ctco",
}
_fields: Final = msgspec.json.Decoder(dict[str, Raw])
_items: Final = msgspec.json.Decoder(list[Raw])
_text: Final = msgspec.json.Decoder(str)


class _Names(Struct, frozen=True, kw_only=True):
    id: str | None = None
    type: str | None = None
    role: str | None = None


_names: Final = msgspec.json.Decoder(_Names)


def is_response_id(id: str) -> bool:
    """Return whether the gateway could have issued this id."""
    return _RESPONSE.fullmatch(id) is not None


def response_of(id: str) -> str:
    """Return the id of the response that an item belongs to; "" for ids that are not ours."""
    match = _ITEM.fullmatch(id)
    return "" if match is None else f"resp_{match[1]}"


def joined_items(turns: Iterable[tuple[str, str]]) -> bytes:
    """Return the items of a conversation as one JSON list. turns: input and output, as stored."""
    pieces: list[str] = []
    for given, made in turns:
        for items in (_as_list(given), made):
            inner = items.strip()[1:-1].strip()
            if inner:
                pieces.append(inner)
    return f"[{','.join(pieces)}]".encode()


def known_items(turns: Iterable[tuple[str, str, str]]) -> Mapping[str, Raw]:
    """Return items by id. turns: response id, input and output, as stored."""
    found: dict[str, Raw] = {}
    for id, given, made in turns:
        for item in (*input_items(id, given), *_items.decode(made)):
            name = _names.decode(item).id
            if name and response_of(name) == id:
                found[name] = item
    return found


def input_items(id: str, given: str) -> list[Raw]:
    """Return the items of a request with the fields that clients require of listed items.

    id: of its response. given: as stored.
    """
    return [listed_item(raw, id, place) for place, raw in enumerate(given_items(given))]


def given_items(given: str) -> list[Raw]:
    """Return the items of a request as the client sent them. given: as stored."""
    return _items.decode(_as_list(given))


def output_items(made: str) -> list[Raw]:
    """Return the items of an answer. made: as stored."""
    return _items.decode(made)


def id_of(item: Raw) -> str | None:
    """Return the id of a complete item."""
    return _names.decode(item).id


def listed_id(raw: Raw, id: str, place: int) -> str:
    """Return the id with which an item of a request is listed; see `listed_item`."""
    names = _names.decode(raw)
    kind = names.type or "message"
    return names.id or f"{_PREFIXES.get(kind, 'item')}_{id.removeprefix('resp_')}_in_{place}"


def whole_resource(resource: str, output: str) -> bytes:
    """Return the resource with its output. Both as stored."""
    return encode({**_fields.decode(resource), "output": Raw(output.encode())})


def deleted_body(id: str) -> bytes:
    return encode({"id": id, "object": "response", "deleted": True})


def _as_list(given: str) -> str:
    """Return the input as a JSON list of items; a text is a message of the user."""
    if given.lstrip()[:1] == "[":
        return given
    return f'[{{"type":"message","role":"user","content":{given}}}]'


def listed_item(raw: Raw, id: str, place: int) -> Raw:
    """Return an item of a request as it is listed. id: of its response. place: in the request."""
    fields = _fields.decode(raw)
    names = _names.decode(raw)
    kind = names.type or "message"
    own = listed_id(raw, id, place)
    content = bytes(fields.get("content", b""))
    if content[:1] == b'"':
        own_text = names.role == "assistant"
        part: dict[str, object] = {"type": "output_text" if own_text else "input_text"}
        part["text"] = _text.decode(content)
        if own_text:
            part["annotations"] = []
        fields["content"] = Raw(encode([part]))
    listed = {"id": own, "type": kind, **fields, "status": fields.get("status", "completed")}
    return Raw(encode(listed | {"id": own, "type": kind}))
