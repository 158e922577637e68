"""Moves reasoning that a client sends back into the field that the vendor reads.

The dialect does not define such a field: what is `reasoning_content` to one vendor is `reasoning`
to the next, and several answer the other's with a 400.
"""

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from strowger_gateway.adapters.json_objects import read_object
from strowger_gateway.adapters.openai.encode import Body, encode_body, message
from strowger_gateway.adapters.openai.reasoning_details import details_of
from strowger_gateway.adapters.openai.thought_blocks import DETAILS
from strowger_gateway.schemas.messages import Message, thinking_of
from strowger_gateway.schemas.requests import ChatRequest


class _Calls(Struct, frozen=True, kw_only=True):
    tool_calls: list[dict[str, Raw]]


_calls = msgspec.json.Decoder(_Calls)

FIELDS = ("reasoning", "reasoning_content", "reasoning_details", "reasoning_signature")
"""Names under which a client of the gateway may have sent it."""


def with_thoughts(request: ChatRequest, fields: tuple[str, ...]) -> ChatRequest:
    """Return the conversation with reasoning in the first of `fields`, or omitted if there is none.

    Reasoning that the client sent under one of `fields` is unchanged.
    """
    if not any(_thinks(one) for one in request.messages):
        return request
    turns = tuple(_moved(one, fields) if _thinks(one) else one for one in request.messages)
    return replace(request, messages=turns)


def _unsigned(calls: object) -> list[dict[str, Raw]]:
    """Return calls without the proofs that are in `reasoning_details`."""
    return [
        {name: raw for name, raw in call.items() if name != "extra_content"}
        for call in _calls.decode(encode_body({"tool_calls": calls})).tool_calls
    ]


def _thinks(one: Message) -> bool:
    if one.reasoning or one.thoughts or one.signature:
        return True
    return bool(one.tool_calls) and any(call.signature for call in one.tool_calls)


def _moved(one: Message, fields: tuple[str, ...]) -> Message:
    sent: Body = {**read_object(one.raw)} if isinstance(one.raw, Raw) else message(one)
    kept = {name: value for name, value in sent.items() if name not in FIELDS or name in fields}
    if DETAILS in fields:
        details = details_of(one, sent)
        kept = {name: value for name, value in kept.items() if name != DETAILS}
        if details is not None:
            kept[DETAILS] = details
        if any(call.signature for call in one.tool_calls):
            kept["tool_calls"] = _unsigned(kept["tool_calls"])
    text = thinking_of(one)
    if fields and text and not any(name in kept for name in fields):
        kept[fields[0]] = text
    return replace(one, raw=Raw(encode_body(kept)))
