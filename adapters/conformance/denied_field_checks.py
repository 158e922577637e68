"""Checks that fields withheld by a backend's rules never reach the wire.

`Supports.client_fields` are the rules. Unknown fields are planted at every depth of a request, and
the fields of the adapter's own table at their places.
"""

import re
from collections.abc import Iterator, Mapping
from typing import cast

import msgspec
from msgspec import UNSET, Raw, Struct
from msgspec.structs import replace

from strowger_gateway.adapters.base import Adapter, Supports
from strowger_gateway.adapters.capabilities import offered, unsupported
from strowger_gateway.adapters.client_fields.patterns import PATTERN, opened
from strowger_gateway.adapters.conformance.sample_requests import bare_request
from strowger_gateway.adapters.conformance.translation_checks import completed
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.fields import Task, without
from strowger_gateway.schemas.messages import (
    FunctionTool,
    ImagePart,
    Message,
    OpaquePart,
    OpaqueTool,
    ResponseFormat,
    TextPart,
    ToolCall,
    ToolChoice,
)
from strowger_gateway.schemas.requests import ChatRequest, Request
from strowger_gateway.schemas.unknown_fields import KNOWN

PLANTED = "x_planted"
MARK = "planted-0451"
"""The value of planted fields, searched for on the wire; an address if that matters."""

_encode = msgspec.json.Encoder().encode


class Planted(Struct, frozen=True, kw_only=True):
    """path: of the planted field, as schemas/unknown_fields.py has it."""

    path: str
    request: Request


def check_client_fields(adapter: Adapter, task: Task, model: str) -> None:
    """Check at every depth that withheld fields are reported, and removed if dropped."""
    supports = adapter.supports
    if offered(supports, task) is None:
        return
    for row in supports.client_fields.table:
        assert PATTERN.fullmatch(row.path), f"{row.path!r} is not a path"
        assert row.reason, f"{row.path}: no reason"
        assert row.source.startswith("https://"), f"{row.path}: no source"
        planted = _at(row.path, task, address=row.address)
        if planted is not None:
            _check_gone(adapter, planted, supports, model)
    for planted in everywhere(task, supports):
        closed = opened(supports.client_fields, (), ("*",))
        _check_gone(adapter, planted, replace(supports, client_fields=closed), model)


def _check_gone(adapter: Adapter, planted: Planted, supports: Supports, model: str) -> None:
    request = completed(supports, planted.request)
    named = {one.field for one in unsupported(request, supports)}
    covered = any(
        planted.path == one or planted.path.startswith((f"{one}.", f"{one}[")) for one in named
    )
    lacking = named & {"tools", "tools.opaque", "messages.opaque", "messages.image"}
    lacking |= named & {"tool_choice", "response_format"}
    assert covered or lacking, f"{planted.path}: is withheld, but only {sorted(named)} is reported"
    try:
        body = adapter.encode(without(request, named), model).body
    except InvalidRequest:
        return
    assert MARK.encode() not in body, f"{planted.path}: is withheld, but reaches the wire"


def everywhere(task: Task, supports: Supports) -> Iterator[Planted]:
    """Yield requests with an unknown field in each object, one at a time."""
    names = (PLANTED, *sorted(supports.extra_fields.get(task, ())))
    for name in names:
        path = name if name == PLANTED else f"{name}.{PLANTED}"
        yield _required(_at(path, task))
    if task == "chat":
        for place in (*KNOWN, "messages[].content[].x_part", "tools[].x_tool"):
            yield _required(_at(f"{place}.{PLANTED}", task))


def _required(planted: Planted | None) -> Planted:
    assert planted is not None
    return planted


def _at(pattern: str, task: Task, *, address: bool = False) -> Planted | None:
    """Return a request with a field there; `None` if its task has no such place."""
    path = pattern.replace("*", "x")
    value = f"https://{MARK}.test" if address else MARK
    names = re.split(r"\.|(?=\[\])", path)
    if task == "chat" and names[0] in _CHAT:
        return Planted(path=path, request=_chat(names, value))
    if names[0] in type(bare_request(task)).__struct_fields__:
        return None
    extra = {names[0]: Raw(_encode(_nested(names[1:], value)))}
    return Planted(path=path, request=replace(bare_request(task), extra=extra))


_CHAT = ("messages", "tools", "tool_choice", "response_format")


def _nested(names: list[str], value: object) -> object:
    for name in reversed(names):
        value = [value] if name == "[]" else {name: value}
    return value


_PIXEL = "data:image/png;base64,iVBORw0KGgo="
_IMAGE = {"type": "image_url", "image_url": {"url": _PIXEL}}
_CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
_TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
_FORM = {"type": "json_schema", "json_schema": {"name": "answer", "schema": {"type": "object"}}}


def _chat(names: list[str], value: object) -> ChatRequest:
    """Return a chat whose parts are what a surface makes of the same JSON."""
    root, *rest = names
    request = msgspec.convert(bare_request("chat"), ChatRequest)
    if root == "messages":
        return replace(request, nested=True, messages=_messages(rest[1:], value))
    tool = _with(_TOOL, rest[1:] if root == "tools" else [], value)
    tools: tuple[FunctionTool | OpaqueTool, ...] = (
        FunctionTool(name="look", parameters=Raw(b'{"type":"object"}'), raw=Raw(_encode(tool))),
    )
    if root == "tools" and len(rest) > 1 and rest[1] != "function":
        tools = (OpaqueTool(type="x_kind", raw=Raw(_encode({**tool, "type": "x_kind"}))),)
    request = replace(request, nested=True, tools=tools)
    if root == "tool_choice":
        choice = _with({"type": "function", "function": {"name": "look"}}, rest, value)
        named = ToolChoice(mode="named", name="look", raw=Raw(_encode(choice)))
        return replace(request, tool_choice=named)
    if root == "response_format":
        form = ResponseFormat(
            type="json_schema",
            name="answer",
            schema=Raw(b'{"type":"object"}'),
            raw=Raw(_encode(_with(_FORM, rest, value))),
        )
        return replace(request, tools=UNSET, response_format=form)
    return request


def _messages(names: list[str], value: object) -> tuple[Message, ...]:
    user: Mapping[str, object] = {"role": "user", "content": "hello"}
    if names[:1] == ["content"]:
        return (_with_part(names[2:], value),)
    if names[:1] in (["tool_calls"], ["audio"]):
        fields = _with({"role": "assistant", "content": "", "tool_calls": [_CALL]}, names, value)
        calls = (ToolCall(id="c1", name="look", arguments="{}"),)
        calling = Message(role="assistant", content="", tool_calls=calls, raw=Raw(_encode(fields)))
        answer = Message(role="tool", content="x", tool_call_id="c1")
        return (Message(role="user", content="hello"), calling, answer)
    raw = Raw(_encode(_with(user, names, value)))
    return (Message(role="user", content="hello", raw=raw),)


def _with_part(names: list[str], value: object) -> Message:
    if names[0] == "image_url":
        fields = _with(_IMAGE, names, value)
        part = ImagePart(url=_PIXEL, raw=Raw(_encode(fields)))
    elif names[0] == PLANTED:
        fields = _with({"type": "text", "text": "hello"}, names, value)
        part = TextPart(text="hello", raw=Raw(_encode(fields)))
    else:
        fields = _with({"type": names[0]}, names, value)
        part = OpaquePart(type=names[0], raw=Raw(_encode(fields)))
    raw = Raw(_encode({"role": "user", "content": [fields]}))
    return Message(role="user", content=(part,), raw=raw)


def _with(fields: Mapping[str, object], names: list[str], value: object) -> dict[str, object]:
    """Return the object with the value at a place in it."""
    if not names:
        return {**fields}
    name, *rest = names
    inner: object = fields.get(name)
    if rest[:1] == ["[]"]:
        entry = cast("list[object]", inner)[0] if isinstance(inner, list) else None
        return {**fields, name: [_into(entry, rest[1:], value)]}
    return {**fields, name: _into(inner, rest, value)}


def _into(inner: object, names: list[str], value: object) -> object:
    if not names:
        return value
    known = cast("dict[str, object]", inner) if isinstance(inner, dict) else {}
    return _with(known, names, value)
