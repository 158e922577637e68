"""Requests of the OpenAI dialect for tests, and their parsed form."""

from collections.abc import Callable
from typing import TypeVar

import msgspec
import pytest

from strowger_gateway.gateway.surfaces.openai.parse import (
    parse_chat,
    parse_completion,
    parse_embeddings,
)
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.messages import Message
from strowger_gateway.schemas.requests import ChatRequest, CompletionRequest, EmbeddingsRequest

R = TypeVar("R")

HELLO: dict[str, object] = {"role": "user", "content": "hello"}


def chat_body(**fields: object) -> bytes:
    """A chat body with one message, and `fields` over it."""
    return msgspec.json.encode({"model": "m", "messages": [HELLO], **fields})


def chat(**fields: object) -> ChatRequest:
    return parse_chat(chat_body(**fields))


def message(**fields: object) -> Message:
    """What a conversation of this one message is read as."""
    return chat(messages=[fields]).messages[0]


def completion(**fields: object) -> CompletionRequest:
    return parse_completion(msgspec.json.encode({"model": "m", "prompt": "once", **fields}))


def embeddings(**fields: object) -> EmbeddingsRequest:
    return parse_embeddings(msgspec.json.encode({"model": "m", "input": "once", **fields}))


def refused(parse: Callable[..., R], **fields: object) -> InvalidRequest:
    """Why these fields are refused."""
    with pytest.raises(InvalidRequest) as caught:
        parse(**fields)
    return caught.value
