"""Checks that no field of a client is lost silently, at any depth.

An unknown field is planted in each object of a request, in turn, and in messages of every role: it
must reach the wire, be rejected by name, or be reported as lost.
"""

from collections.abc import Collection, Iterator, Mapping

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from strowger_gateway.adapters.base import Adapter
from strowger_gateway.adapters.capabilities import offered, unsupported
from strowger_gateway.adapters.conformance.denied_field_checks import (
    MARK,
    PLANTED,
    Planted,
    everywhere,
)
from strowger_gateway.adapters.conformance.sample_requests import bare_request
from strowger_gateway.adapters.conformance.translation_checks import completed
from strowger_gateway.adapters.lost_fields import LostFields
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.fields import Task, without
from strowger_gateway.schemas.messages import (
    ImagePart,
    Message,
    OpaquePart,
    Part,
    Role,
    TextPart,
    ToolCall,
)
from strowger_gateway.schemas.requests import ChatRequest
from strowger_gateway.schemas.unknown_fields import at_top, below_top

_encode = msgspec.json.Encoder().encode

_ROLES: tuple[Role, ...] = ("system", "developer", "user", "assistant", "tool")
_FILE = {"file_data": "data:application/pdf;base64,JVBERi0=", "filename": "a.pdf"}
_IMAGE = {"url": "data:image/png;base64,iVBORw0KGgo="}
_CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}


def check_carried(adapter: Adapter, task: Task, model: str) -> None:
    """Check that each planted field is exactly one of: sent, rejected, lost."""
    if offered(adapter.supports, task) is None:
        return
    _check_repeatable(adapter, task, model)
    carrying = LostFields(adapter)
    for planted in (*everywhere(task, adapter.supports), *(_of_roles() if task == "chat" else ())):
        request = completed(adapter.supports, planted.request)
        named = {one.field for one in unsupported(request, adapter.supports)}
        if _covered(planted.path, named):
            continue
        try:
            request = without(request, named)
            body = adapter.encode(request, model).body
        except InvalidRequest:
            continue
        found = (*at_top(request), *below_top(request))
        if not _covered(planted.path, {one.path for one in found}):
            # It was removed with the tools or the format that this backend does not support.
            continue
        reported = _covered(planted.path, carrying.lost(request, model, found))
        sent = MARK.encode() in body
        where = f"{task}: {planted.path} ({_role(planted)})"
        assert sent or reported, f"{where} is lost silently"
        assert not (sent and reported), f"{where} is sent, but reported as lost"


def _covered(path: str, paths: Collection[str]) -> bool:
    """Return whether the path is one of them, or inside one."""
    return any(path == one or path.startswith((f"{one}.", f"{one}[")) for one in paths)


def _check_repeatable(adapter: Adapter, task: Task, model: str) -> None:
    """Check that encoding is deterministic, because lost fields are found by encoding twice."""
    request = completed(adapter.supports, bare_request(task))
    same = adapter.encode(request, model) == adapter.encode(request, model)
    assert same, f"{task}: the same request is encoded differently each time"


def _role(planted: Planted) -> str:
    request = planted.request
    return request.messages[-1].role if isinstance(request, ChatRequest) else "no message"


def _of_roles() -> Iterator[Planted]:
    """Yield planted fields in messages of each role, in their parts, and below."""
    for role in _ROLES:
        plain: Mapping[str, object] = {"role": role, "content": "hello", PLANTED: MARK}
        yield _with_message("messages[]", role, plain, "hello")
        for place, fields in _PARTS.items():
            part = _part(fields)
            message = {"role": role, "content": [fields]}
            yield _with_message(f"messages[].content[]{place}", role, message, (part,))


_PARTS: Mapping[str, Mapping[str, object]] = {
    "": {"type": "text", "text": "hello", PLANTED: MARK},
    ".cache_control": {
        "type": "text",
        "text": "hello",
        "cache_control": {"type": "ephemeral", PLANTED: MARK},
    },
    ".image_url": {"type": "image_url", "image_url": {**_IMAGE, PLANTED: MARK}},
    ".file": {"type": "file", "file": {**_FILE, PLANTED: MARK}},
    ".file.deeper": {"type": "file", "file": {**_FILE, "deeper": {PLANTED: MARK}}},
}


def _part(fields: Mapping[str, object]) -> Part:
    raw = Raw(_encode(fields))
    match fields["type"]:
        case "text":
            return TextPart(text="hello", raw=raw)
        case "image_url":
            return ImagePart(url=_IMAGE["url"], raw=raw)
        case _:
            return OpaquePart(type="file", raw=raw)


def _with_message(
    place: str, role: Role, fields: Mapping[str, object], content: str | tuple[Part, ...]
) -> Planted:
    """Return a conversation that ends with the message, or with the user's turn after it."""
    members = dict(fields)
    before: tuple[Message, ...] = (Message(role="user", content="hello"),)
    message = Message(role=role, content=content)
    if role == "tool":
        calls = (ToolCall(id="c1", name="look", arguments="{}"),)
        raw = Raw(_encode({"role": "assistant", "content": "", "tool_calls": [_CALL]}))
        before += (Message(role="assistant", content="", tool_calls=calls, raw=raw),)
        members["tool_call_id"] = "c1"
        message = replace(message, tool_call_id="c1")
    message = replace(message, raw=Raw(_encode(members)))
    after = () if role in ("user", "tool") else (Message(role="user", content="go on"),)
    first = role in ("system", "developer")
    messages = (message, *before) if first else (*before, message, *after)
    bare = msgspec.convert(bare_request("chat"), ChatRequest)
    request = replace(bare, nested=True, messages=messages)
    return Planted(path=f"{place}.{PLANTED}", request=request)
