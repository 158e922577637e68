"""Moves images and files out of tool results, which hold only text in OpenAI's dialect.

They follow the results, as the beginning of the user's next message.
https://platform.openai.com/docs/api-reference/chat/create#chat-create-messages
"""

from collections.abc import Sequence

from msgspec import UNSET
from msgspec.structs import replace

from schemas.messages import Message, Part, TextPart, text_of
from schemas.requests import ChatRequest


def with_text_results(request: ChatRequest) -> ChatRequest:
    """Only changes requests of clients of other dialects: others' messages are sent as they are."""
    if request.original is None:
        return request
    for one in request.messages:
        if one.role == "tool" and _has_more(one):
            return replace(request, messages=tuple(_moved(request.messages)))
    return request


def _moved(messages: Sequence[Message]) -> list[Message]:
    found: list[Message] = []
    waiting: tuple[Part, ...] = ()
    for one in messages:
        if waiting and one.role != "tool":
            if one.role == "user" and one.raw is UNSET:
                found.append(replace(one, content=waiting + _parts(one)))
                waiting = ()
                continue
            found.append(Message(role="user", content=waiting))
            waiting = ()
        if _has_more(one):
            texts = tuple([part for part in _parts(one) if isinstance(part, TextPart)])
            waiting += tuple([part for part in _parts(one) if not isinstance(part, TextPart)])
            one = replace(one, content=texts if len(texts) > 1 else text_of(one))
        found.append(one)
    return [*found, Message(role="user", content=waiting)] if waiting else found


def _has_more(one: Message) -> bool:
    return (
        one.role == "tool"
        and one.raw is UNSET
        and isinstance(one.content, tuple)
        and not all(isinstance(part, TextPart) for part in one.content)
    )


def _parts(one: Message) -> tuple[Part, ...]:
    if isinstance(one.content, tuple):
        return one.content
    return (TextPart(text=one.content),) if one.content else ()
