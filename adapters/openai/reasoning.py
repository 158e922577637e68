"""Moves reasoning that a client sends back into the field that the vendor reads.

The dialect does not define such a field: what is `reasoning_content` to one vendor is `reasoning`
to the next, and several answer the other's with a 400.
"""

from msgspec import Raw
from msgspec.structs import replace

from adapters.openai.encode import Body, encode_body, message
from adapters.openai.wire import read_object
from schemas.messages import Message, thinking_of
from schemas.requests import ChatRequest

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


def _thinks(one: Message) -> bool:
    return bool(one.reasoning or one.thoughts or one.signature)


def _moved(one: Message, fields: tuple[str, ...]) -> Message:
    sent: Body = {**read_object(one.raw)} if isinstance(one.raw, Raw) else message(one)
    kept = {name: value for name, value in sent.items() if name not in FIELDS or name in fields}
    text = thinking_of(one)
    if fields and text and not any(name in kept for name in fields):
        kept[fields[0]] = text
    return replace(one, raw=Raw(encode_body(kept)))
