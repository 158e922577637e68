"""Prepend an operator's text to the system message of a conversation."""

import msgspec
from msgspec import Raw, UnsetType

from strowger_gateway.schemas.messages import Message, Part, TextPart

_encode = msgspec.json.encode
_object: msgspec.json.Decoder[dict[str, Raw]] = msgspec.json.Decoder(dict[str, Raw])
_list: msgspec.json.Decoder[list[Raw]] = msgspec.json.Decoder(list[Raw])


def with_system(messages: tuple[Message, ...], text: str) -> tuple[Message, ...]:
    """The messages with one system message, because many models support only one.

    The client's text follows the operator's. Other fields of the client's message do not change.
    """
    if not messages or messages[0].role not in ("system", "developer"):
        return (Message(role="system", content=text), *messages)
    first, *rest = messages
    content = _content(first.content, text)
    if not isinstance(first.raw, UnsetType):
        first = msgspec.structs.replace(first, raw=_raw(first.raw, content, text))
    return (msgspec.structs.replace(first, content=content), *rest)


def _content(content: str | tuple[Part, ...] | None, text: str) -> str | tuple[Part, ...]:
    if isinstance(content, tuple):
        return (TextPart(text=text), *content)
    return f"{text}\n\n{content}" if content else text


def _raw(raw: Raw, content: str | tuple[Part, ...], text: str) -> Raw:
    sent = _object.decode(raw)
    if isinstance(content, str):
        sent["content"] = Raw(_encode(content))
    else:
        added = Raw(_encode({"type": "text", "text": text}))
        sent["content"] = Raw(_encode([added, *_list.decode(sent["content"])]))
    return Raw(_encode(sent))
