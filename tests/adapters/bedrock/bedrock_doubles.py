"""A Bedrock adapter, and minimal requests for it."""

import json

import msgspec
from msgspec import Raw

from adapters.base import Endpoint
from adapters.bedrock.adapter import BedrockAdapter
from adapters.testing import translate
from schemas.answers import Choice, Fold
from schemas.events import Event
from schemas.messages import (
    Message,
)
from schemas.requests import ChatRequest
from schemas.secret import Secret
from tests.stand_ins.bedrock_server import Json

KEY = "bedrock-api-key-0123456789"
BEDROCK = BedrockAdapter(
    Endpoint(name="aws", base_url="https://bedrock-runtime.eu-west-1.test", key=Secret(KEY))
)
HELLO = Message(role="user", content="hello")


def raw(value: object) -> Raw:
    return Raw(json.dumps(value).encode())


def chat(*messages: Message, **fields: object) -> ChatRequest:
    request = ChatRequest(model="m", messages=messages or (HELLO,))
    return msgspec.structs.replace(request, **fields)


def answered(body: Json, **fields: object) -> list[Event]:
    return translate(BEDROCK, chat(**fields), [json.dumps(body).encode()])


def folded(found: list[Event]) -> Choice:
    fold = Fold()
    fold.add(found)
    (choice,) = fold.answer().choices
    return choice
