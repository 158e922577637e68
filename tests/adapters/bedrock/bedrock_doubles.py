"""A Bedrock adapter, and minimal requests for it."""

import json

from msgspec import Raw

from strowger_gateway.adapters.base import Endpoint
from strowger_gateway.adapters.bedrock.adapter import BedrockAdapter
from strowger_gateway.adapters.testing import translate
from strowger_gateway.schemas.events import Event
from strowger_gateway.schemas.messages import (
    Message,
)
from strowger_gateway.schemas.secret import Secret
from tests.adapters.chats import chat
from tests.stand_ins.bedrock_server import Json

KEY = "bedrock-api-key-0123456789"
BEDROCK = BedrockAdapter(
    Endpoint(name="aws", base_url="https://bedrock-runtime.eu-west-1.test", key=Secret(KEY))
)
HELLO = Message(role="user", content="hello")


def raw(value: object) -> Raw:
    return Raw(json.dumps(value).encode())


def answered(body: Json, **fields: object) -> list[Event]:
    return translate(BEDROCK, chat(**fields), [json.dumps(body).encode()])
