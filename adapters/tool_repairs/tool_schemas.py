"""A function whose schema says nothing of its arguments: an object without any.

MCP servers describe a function without arguments as `{}` or `{"type":"object"}`, which OpenAI
refuses, with every request that offers it.
"""

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import DecodeError, Raw
from msgspec.structs import replace

from strowger_gateway.adapters.repairs.rewriting import json_of, with_parameters
from strowger_gateway.adapters.repairs.rule import Aim, Repair, Repaired
from strowger_gateway.schemas.content_facts import TOOLS
from strowger_gateway.schemas.messages import FunctionTool, Message
from strowger_gateway.schemas.requests import ChatRequest, Request

LONG: Final = 100
"""Bytes above which a schema is read only if one of `_SIGNS` is missing: many tools are offered."""

_SIGNS: Final = (b'"properties"', b'"type"')

_OTHERS: Final = frozenset({"$ref", "allOf", "anyOf", "enum", "not", "oneOf"})
"""Keywords that say of what form the arguments are."""

_TYPED: Final = "anthropic"
"""The dialect of a vendor whose schemas need no properties."""

_object: Final = msgspec.json.Decoder(dict[str, object])
_NONE: Final[Mapping[str, object]] = {}


def _completed(request: Request, aim: Aim) -> Repaired | None:
    if not isinstance(request, ChatRequest) or not request.tools:
        return None
    typed = aim.dialect == _TYPED
    tools = tuple(
        [
            _complete(one, typed=typed) if isinstance(one, FunctionTool) else one
            for one in request.tools
        ]
    )
    if all(new is old for new, old in zip(tools, request.tools, strict=True)):
        return None
    changed = ("tools[].function.parameters",)
    return Repaired(request=replace(request, tools=tools), changed=changed)


def _complete(tool: FunctionTool, *, typed: bool) -> FunctionTool:
    """typed: the type alone is enough for the vendor."""
    raw = tool.parameters
    if not isinstance(raw, Raw):
        return tool
    text = bytes(raw)
    if len(text) > LONG and all(sign in text for sign in _SIGNS):
        return tool
    try:
        schema = _object.decode(raw)
    except (DecodeError, RecursionError):
        return tool
    if not _OTHERS.isdisjoint(schema) or schema.get("type") not in ("object", None):
        return tool
    if schema.get("type") and (typed or schema.get("properties") is not None):
        return tool
    whole = {**schema, "type": "object", "properties": schema.get("properties") or _NONE}
    return with_parameters(tool, json_of(whole))


OBJECTS: Final = Repair(
    name="object_schema",
    about="says of a function without properties that its arguments are an object without any",
    source="https://github.com/inboxapi/cli/issues/106",
    facts=TOOLS,
    apply=_completed,
    example=ChatRequest(
        "m",
        (Message(role="user", content="Hello"),),
        tools=(FunctionTool(name="look_up", parameters=Raw(b"{}")),),
    ),
    light=True,
)
