"""Reasoning items without `summary`, which the API requires even of its own encrypted reasoning.

Clients that keep only what they need leave it out.
"""

from typing import Final

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from strowger_gateway.adapters.json_objects import UNREADABLE
from strowger_gateway.adapters.openai_responses.wire import DIALECT, INPUT
from strowger_gateway.adapters.repairs.rewriting import with_members
from strowger_gateway.adapters.repairs.rule import Aim, Repair, Repaired
from strowger_gateway.schemas.content_facts import REASONED
from strowger_gateway.schemas.fields import REASONING
from strowger_gateway.schemas.messages import OPENAI, Message, Thought
from strowger_gateway.schemas.requests import ChatRequest, Original, Request

_NOTHING: Final[list[object]] = []


class _Item(Struct, frozen=True, kw_only=True):
    type: str = ""
    summary: Raw | None = None


_item = msgspec.json.Decoder(_Item).decode
_items = msgspec.json.Decoder(list[Raw]).decode
_encode = msgspec.json.Encoder().encode


def _with_summaries(request: Request, _: Aim) -> Repaired | None:
    if not isinstance(request, ChatRequest) or request.original is None:
        return None
    original = request.original
    given = original.fields.get(INPUT)
    if original.dialect != DIALECT or given is None or b'"reasoning"' not in bytes(given):
        return None
    try:
        items = _items(given)
        found = [with_members(one, {"summary": _NOTHING}) if _lacks(one) else one for one in items]
    except UNREADABLE:
        return None
    if all(new is old for new, old in zip(found, items, strict=True)):
        return None
    fields = {**original.fields, INPUT: Raw(_encode(found))}
    return Repaired(
        request=replace(request, original=replace(original, fields=fields)), changed=(REASONING,)
    )


def _lacks(item: Raw) -> bool:
    read = _item(item)
    return read.type == "reasoning" and read.summary is None


_ITEM: Final = b'{"type":"reasoning","id":"rs_1","encrypted_content":"c2ln"}'
_TURN: Final = Message(role="assistant", thoughts=(Thought(data="c2ln", format=OPENAI),))
_READ: Final = ChatRequest("m", (Message(role="user", content="Hello"), _TURN))

SUMMARIES: Final = Repair(
    name="summary",
    about="adds an empty summary to reasoning that has none",
    source="https://github.com/lidge-jun/opencodex/pull/4628",
    facts=REASONED,
    apply=_with_summaries,
    example=replace(
        _READ,
        original=Original(
            dialect=DIALECT,
            fields={INPUT: Raw(b'[{"role":"user","content":"Hello"},' + _ITEM + b"]")},
            read=_READ,
        ),
    ),
    light=True,
)
