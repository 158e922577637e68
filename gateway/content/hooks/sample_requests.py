"""Requests that have one text in one place each, for the contract of hooks."""

import msgspec
from msgspec import Raw

from strowger_gateway.schemas.messages import FunctionTool, Message, TextPart, ToolCall
from strowger_gateway.schemas.requests import (
    ChatRequest,
    CompletionRequest,
    EmbeddingsRequest,
    Original,
    Request,
)

_encode = msgspec.json.Encoder().encode


def requests_with(text: str) -> dict[str, Request]:
    """By the place of the text: chats, also with their client's own JSON, prompts, and inputs."""
    json = Raw(_encode({"role": "user", "content": text}))
    schema = Raw(_encode({"type": "object", "properties": {"name": {"description": text}}}))
    call = ToolCall(id="c", name="f", arguments=_encode({"q": text}).decode())
    read = _chat(Message(role="user", content=text))
    fields = {"messages": Raw(b"[" + bytes(json) + b"]")}
    original = Original(dialect="anthropic", fields=fields, read=read)
    return {
        "system prompt": _chat(Message(role="system", content=text)),
        "message": _chat(Message(role="user", content=text, raw=json)),
        "part of a message": _chat(Message(role="user", content=(TextPart(text=text),))),
        "tool call": _chat(Message(role="assistant", tool_calls=(call,))),
        "tool result": _chat(Message(role="tool", content=text, tool_call_id="c")),
        "tool description": _chat(tool=FunctionTool(name="f", description=text)),
        "tool schema": _chat(tool=FunctionTool(name="f", parameters=schema)),
        "field outside the schema": _chat(extra={"new": Raw(_encode({"deep": [text]}))}),
        "the client's own JSON": msgspec.structs.replace(read, original=original),
        "prompt": CompletionRequest(model="m", prompts=(text,)),
        "input of embeddings": EmbeddingsRequest(model="m", inputs=(text,)),
    }


def _chat(
    *messages: Message, tool: FunctionTool | None = None, extra: dict[str, Raw] | None = None
) -> ChatRequest:
    tools = msgspec.UNSET if tool is None else (tool,)
    return ChatRequest(model="m", messages=messages, tools=tools, extra=extra or {})
