"""Marks of prompt caches (`cache_control`), for vendors that have none in their chats.

Anthropic's clients mark what is to be cached, in their own API and in OpenAI's dialect, where a few
vendors read the marks too. The others cache by themselves, or refuse the unknown field.
https://platform.claude.com/docs/en/build-with-claude/prompt-caching
"""

from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import UNSET, Raw
from msgspec.structs import replace

from strowger_gateway.adapters.repairs.rewriting import with_members
from strowger_gateway.adapters.repairs.rule import Aim, Repair, Repaired, every_model
from strowger_gateway.schemas.content_facts import NESTED, OPAQUE
from strowger_gateway.schemas.messages import FunctionTool, Message, OpaquePart, Part, Tool
from strowger_gateway.schemas.requests import ChatRequest, Request

MARK: Final = "cache_control"

_KEY: Final = b'"cache_control"'
_fields: Final = msgspec.json.Decoder(dict[str, Raw])
_items: Final = msgspec.json.Decoder(list[Raw])
_encode: Final = msgspec.json.Encoder().encode


def no_cache_marks(source: str, models: Callable[[str], bool] = every_model) -> Repair:
    """Return the rule for a vendor. source: where it documents its messages or caches."""
    return Repair(
        name="cache_mark",
        about="leaves out marks of prompt caches",
        source=source,
        facts=NESTED | OPAQUE,
        apply=_unmarked,
        example=ChatRequest(
            "m",
            (
                Message(
                    role="user",
                    content=(
                        OpaquePart(
                            type="file",
                            raw=Raw(
                                b'{"type":"file","file":{"file_data":"data:application/pdf;base64,'
                                b'JVBERi0="},"cache_control":{"type":"ephemeral"}}'
                            ),
                        ),
                    ),
                ),
            ),
        ),
        loss="hint",
        models=models,
    )


def _unmarked(request: Request, _: Aim) -> Repaired | None:
    if not isinstance(request, ChatRequest):
        return None
    paths: dict[str, None] = {}
    changes: dict[str, object] = {}
    messages = tuple([_message(one, paths) for one in request.messages])
    if paths:
        changes["messages"] = messages
    tools = tuple([_tool(one) for one in request.tools or ()])
    if any(new is not old for new, old in zip(tools, request.tools or (), strict=True)):
        changes["tools"] = tools
        paths[f"tools[].{MARK}"] = None
    if not paths:
        return None
    return Repaired(request=replace(request, **changes), left_out=tuple(paths))


def _message(one: Message, paths: dict[str, None]) -> Message:
    changes: dict[str, object] = {}
    if isinstance(one.content, tuple):
        parts = tuple([_part(part) for part in one.content])
        if any(new is not old for new, old in zip(parts, one.content, strict=True)):
            changes["content"] = parts
            paths[f"messages[].content[].{MARK}"] = None
    if isinstance(one.raw, Raw) and _KEY in bytes(one.raw):
        fields = _fields.decode(one.raw)
        if MARK in fields:
            del fields[MARK]
            paths[f"messages[].{MARK}"] = None
        content = fields.get("content")
        if "content" in changes and content is not None:
            fields["content"] = Raw(_encode([_unmarked_raw(raw) for raw in _items.decode(content)]))
        changes["raw"] = Raw(_encode(fields))
    return replace(one, **changes) if changes else one


def _part(part: Part) -> Part:
    if not isinstance(part.raw, Raw) or _KEY not in bytes(part.raw):
        return part
    if isinstance(part, OpaquePart) and part.dialect:
        return part
    raw = _unmarked_raw(part.raw)
    return part if raw is part.raw else replace(part, raw=raw)


def _tool(one: Tool) -> Tool:
    if not isinstance(one, FunctionTool) or not isinstance(one.raw, Raw):
        return one
    raw = _unmarked_raw(one.raw)
    function = _fields.decode(raw).get("function")
    if function is not None:
        inner = _unmarked_raw(function)
        if inner is not function:
            raw = with_members(raw, {"function": inner})
    return one if raw is one.raw else replace(one, raw=raw)


def _unmarked_raw(raw: Raw) -> Raw:
    if _KEY not in bytes(raw) or MARK not in _fields.decode(raw):
        return raw
    return with_members(raw, {MARK: UNSET})
