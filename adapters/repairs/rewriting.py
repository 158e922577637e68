"""Rewrite parts of a request so that the typed view and the client's JSON stay the same.

Vendors of the client's own dialect get its JSON (`raw`) as it is, so a repair that changed only the
typed view would not reach them. JSON that cannot be edited is discarded: the value is then encoded
from its typed view.
"""

from collections.abc import Callable, Mapping
from typing import Final, cast

import msgspec
from msgspec import UNSET, Raw
from msgspec.structs import replace

from strowger_gateway.schemas.messages import (
    AudioPart,
    FunctionTool,
    ImagePart,
    Message,
    OpaquePart,
    Part,
    ResponseFormat,
    TextPart,
    ToolCall,
    ToolChoice,
)
from strowger_gateway.schemas.requests import ChatRequest

_fields: Final = msgspec.json.Decoder(dict[str, Raw])
_items: Final = msgspec.json.Decoder(list[Raw])
_encode: Final = msgspec.json.Encoder().encode

Members = Mapping[str, object]
"""Members of a JSON object to set; `UNSET` removes one."""


def with_members(raw: Raw, members: Members) -> Raw:
    """Return the JSON object with these members set or removed; all others stay as they are."""
    fields: dict[str, object] = {**_fields.decode(raw)}
    for name, value in members.items():
        if value is UNSET:
            fields.pop(name, None)
        else:
            fields[name] = value
    return Raw(_encode(fields))


def rewritten(message: Message, members: Members, **typed: object) -> Message:
    """Return the message with typed fields replaced, and its JSON, if it has any, changed alike."""
    raw = message.raw
    if isinstance(raw, Raw):
        typed["raw"] = with_members(raw, members)
    return replace(message, **typed)


def rebuilt(message: Message, **typed: object) -> Message:
    """Return the message with typed fields replaced and without the client's JSON."""
    return replace(message, raw=UNSET, **typed)


def with_calls(message: Message, calls: tuple[ToolCall, ...]) -> Message:
    """Return the message with as many calls, with other ids, names or arguments.

    What else the client's JSON has of a call stays, and so do calls that are not of functions.
    """
    raw = message.raw
    if not isinstance(raw, Raw):
        return replace(message, tool_calls=calls)
    waiting = iter(calls)
    sent: list[Raw] = []
    for item in _items.decode(_fields.decode(raw).get("tool_calls", Raw(b"[]"))):
        fields = _fields.decode(item)
        if bytes(fields.get("type", _FUNCTION)) != _FUNCTION or "function" not in fields:
            sent.append(item)
            continue
        call = next(waiting)
        function = with_members(
            fields["function"], {"name": call.name, "arguments": call.arguments}
        )
        sent.append(with_members(item, {"id": call.id, "function": function}))
    return replace(message, tool_calls=calls, raw=with_members(raw, {"tool_calls": sent}))


_FUNCTION: Final = b'"function"'


def with_content(message: Message, content: str | tuple[Part, ...] | None) -> Message:
    """Return the message with other content. Its JSON has that of the parts, or what they say."""
    raw = message.raw
    if not isinstance(raw, Raw):
        return replace(message, content=content)
    sent: object = content
    if isinstance(content, tuple):
        sent = [_part(one) for one in content]
    return replace(message, content=content, raw=with_members(raw, {"content": sent}))


def _part(one: Part) -> Raw | Mapping[str, object]:
    """Return a part as OpenAI's dialect writes it."""
    if isinstance(one.raw, Raw):
        return one.raw
    match one:
        case TextPart():
            return {"type": "text", "text": one.text}
        case ImagePart():
            image = (
                {"url": one.url} if one.detail is UNSET else {"url": one.url, "detail": one.detail}
            )
            return {"type": "image_url", "image_url": image}
        case AudioPart():
            audio = {"data": one.data, "format": one.format}
            return {"type": "input_audio", "input_audio": audio}
        case OpaquePart():
            return one.raw


def each_message(request: ChatRequest, change: Callable[[Message], Message]) -> ChatRequest | None:
    """Return the request with changed messages; `None` if `change` returns all as they are."""
    messages = tuple([change(one) for one in request.messages])
    if all(new is old for new, old in zip(messages, request.messages, strict=True)):
        return None
    return replace(request, messages=messages)


def renamed_tool(tool: FunctionTool, name: str) -> FunctionTool:
    """Return the tool under another name."""
    raw = tool.raw
    if isinstance(raw, Raw):
        fields = _fields.decode(raw)
        if "function" in fields:
            function = with_members(fields["function"], {"name": name})
            raw = with_members(raw, {"function": function})
        else:
            raw = with_members(raw, {"name": name})
    return replace(tool, name=name, raw=raw)


def renamed_choice(choice: ToolChoice, name: str) -> ToolChoice:
    """Return the choice of a function under another name."""
    return replace(choice, name=name, raw=UNSET)


def with_schema(form: ResponseFormat, schema: Raw) -> ResponseFormat:
    """Return the format with another schema."""
    raw = form.raw
    if isinstance(raw, Raw):
        fields = _fields.decode(raw)
        inner = fields.get("json_schema")
        if inner is None:
            return replace(form, schema=schema, raw=UNSET)
        raw = with_members(raw, {"json_schema": with_members(inner, {"schema": schema})})
    return replace(form, schema=schema, raw=raw)


def with_parameters(tool: FunctionTool, schema: Raw) -> FunctionTool:
    """Return the tool with another schema of its parameters."""
    raw = tool.raw
    if isinstance(raw, Raw):
        fields = _fields.decode(raw)
        inner = fields.get("function")
        if inner is None:
            return replace(tool, parameters=schema, raw=UNSET)
        raw = with_members(raw, {"function": with_members(inner, {"parameters": schema})})
    return replace(tool, parameters=schema, raw=raw)


def without_extra(request: ChatRequest, *names: str) -> ChatRequest:
    """Return the request without these top-level fields."""
    extra = {name: raw for name, raw in request.extra.items() if name not in names}
    return replace(request, extra=extra)


def json_of(value: object) -> Raw:
    """Encode a value as JSON."""
    return Raw(_encode(value))


def read_json(raw: Raw) -> object:
    """Decode JSON to plain values. Raises msgspec.DecodeError, RecursionError."""
    return cast("object", msgspec.json.decode(raw))
