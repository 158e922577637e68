"""Requests that several adapters' tests send, and what their answers contain."""

from collections.abc import Iterable

import msgspec
import pytest

from strowger_gateway.adapters.base import Adapter
from strowger_gateway.schemas.answers import Answer, Choice, Fold
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.events import Event
from strowger_gateway.schemas.messages import Message
from strowger_gateway.schemas.requests import ChatRequest, Request


def chat(*messages: Message, **fields: object) -> ChatRequest:
    """Return a chat with these messages, by default a single one."""
    request = ChatRequest(model="m", messages=messages or (Message(role="user", content="hello"),))
    return msgspec.structs.replace(request, **fields)


def refused_field(adapter: Adapter, request: Request, model: str) -> str:
    """Return the path that the error names and its message starts with."""
    with pytest.raises(InvalidRequest) as caught:
        adapter.encode(request, model)
    assert caught.value.param is not None
    assert caught.value.message.startswith(caught.value.param)
    return caught.value.param


def folded(events: Iterable[Event]) -> Answer:
    fold = Fold()
    fold.add(list(events))
    return fold.answer()


def only_choice(events: Iterable[Event]) -> Choice:
    (found,) = folded(events).choices
    return found
