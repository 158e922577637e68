"""Marks of prompt caches of the Messages API's clients, for vendors that read them in this dialect.

A mark on a result, or on a call, is that of the message's last part.
https://openrouter.ai/docs/guides/best-practices/prompt-caching
https://docs.databricks.com/aws/en/machine-learning/model-serving/query-anthropic
"""

from typing import Final

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType
from msgspec.structs import replace

from strowger_gateway.adapters.json_objects import read_object
from strowger_gateway.adapters.openai.encode import Body, encode_body, part, tool
from strowger_gateway.schemas.messages import FunctionTool, ImagePart, Message, Part, TextPart, Tool
from strowger_gateway.schemas.requests import ChatRequest

MARK: Final = "cache_control"


class _Marks(Struct):
    cache_control: Raw | UnsetType = UNSET


_marks = msgspec.json.Decoder(_Marks).decode


def with_cache_marks(request: ChatRequest) -> ChatRequest:
    """Return the request with its marks in the parts and tools that are sent."""
    if request.original is None or not request.nested:
        return request
    tools = request.tools
    return replace(
        request,
        messages=tuple([_message(one) for one in request.messages]),
        tools=tuple([_tool(one) for one in tools]) if tools else tools,
    )


def _message(one: Message) -> Message:
    if one.raw is not UNSET:
        return one
    content = one.content
    mark = _mark(one.marks)
    if isinstance(content, tuple):
        content = tuple([_part(piece) for piece in content])
    if mark is not UNSET and content:
        parts = content if isinstance(content, tuple) else (TextPart(text=content),)
        content = (*parts[:-1], _marked(parts[-1], mark))
    return one if content is one.content else replace(one, content=content)


def _part(piece: Part) -> Part:
    if not isinstance(piece, TextPart | ImagePart):
        return piece
    mark = _mark(piece.marks)
    return piece if mark is UNSET else _marked(piece, mark)


def _marked(piece: Part, mark: Raw) -> Part:
    return replace(piece, raw=_with_mark(part(piece), mark))


def _tool(one: Tool) -> Tool:
    if not isinstance(one, FunctionTool) or one.raw is not UNSET:
        return one
    mark = _mark(one.marks)
    return one if mark is UNSET else replace(one, raw=_with_mark(tool(one), mark))


def _with_mark(sent: Raw | Body, mark: Raw) -> Raw:
    fields: Body = {**read_object(sent)} if isinstance(sent, Raw) else sent
    return Raw(encode_body({**fields, MARK: mark}))


def _mark(raw: Raw | UnsetType) -> Raw | UnsetType:
    return _marks(raw).cache_control if isinstance(raw, Raw) else UNSET
