"""Requests for Anthropic, and helpers that return what is sent or rejected."""

import json
from typing import cast

import msgspec
from msgspec import Raw

from strowger_gateway.adapters.anthropic.adapter import AnthropicAdapter
from strowger_gateway.adapters.base import Endpoint
from strowger_gateway.schemas.messages import (
    FunctionTool,
    Message,
    OpaquePart,
    Part,
    ToolCall,
)
from strowger_gateway.schemas.requests import ChatRequest
from strowger_gateway.schemas.sampling import Sampling
from strowger_gateway.schemas.secret import Secret
from tests.adapters.chats import refused_field

ENDPOINT = Endpoint(
    name="claude", base_url="https://api.anthropic.com/v1", key=Secret("sk-ant-0123456789")
)
ANTHROPIC = AnthropicAdapter(ENDPOINT)
HELLO = Message(role="user", content="hello")
LOOK = FunctionTool(name="look")
CALL = ToolCall(id="toolu_1", name="look", arguments='{"at":"Bern"}')
CACHE = {"type": "ephemeral"}

Json = dict[str, object]


def chat(*messages: Message, **fields: object) -> ChatRequest:
    request = ChatRequest(
        model="m", messages=messages or (HELLO,), sampling=Sampling(max_tokens=2000)
    )
    return msgspec.structs.replace(request, **fields)


def sent(request: ChatRequest, model: str = "claude-opus-4-6") -> Json:
    return msgspec.json.decode(ANTHROPIC.encode(request, model).body, type=Json)


def turns(*messages: Message) -> list[Json]:
    return cast("list[Json]", sent(chat(*messages))["messages"])


def raw(value: object) -> Raw:
    return Raw(json.dumps(value).encode())


def user(*parts: Part) -> Message:
    return Message(role="user", content=parts)


def content_of(*parts: Part) -> list[Json]:
    (turn,) = turns(user(*parts))
    return cast("list[Json]", turn["content"])


def file(**fields: str) -> OpaquePart:
    return OpaquePart(type="file", raw=raw({"type": "file", "file": fields}))


def refused(request: ChatRequest, model: str = "claude-opus-4-6") -> str:
    """Return the path that the error names and its message starts with."""
    return refused_field(ANTHROPIC, request, model)
