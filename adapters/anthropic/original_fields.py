"""Finds the JSON of a client of this API that can be sent unchanged.

Anthropic caches prompts by their bytes, so system, messages and tools are encoded again only if
something in them had to change.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from msgspec import Raw, UnsetType

from strowger_gateway.adapters.json_objects import UNREADABLE, read_object
from strowger_gateway.schemas.messages import Message, ResponseFormat
from strowger_gateway.schemas.requests import ChatRequest, GenerateRequest

DIALECT: Final = "anthropic"

_NOTHING: Final[dict[str, Raw]] = {}

_raws = msgspec.json.Decoder(list[Raw]).decode
_encode = msgspec.json.Encoder().encode


def is_native(request: GenerateRequest) -> bool:
    """Return whether the client speaks this API, so that it reads all kinds of blocks."""
    if not isinstance(request, ChatRequest) or request.original is None:
        return False
    return request.original.dialect == DIALECT


def unchanged_fields(request: ChatRequest) -> dict[str, Raw]:
    """Return the client's JSON by field, without the fields whose values have changed since."""
    original = request.original
    if original is None or original.dialect != DIALECT:
        return _NOTHING
    read = original.read
    fields = original.fields.copy()
    if request.messages is not read.messages:
        now, before = _split(request.messages), _split(read.messages)
        _drop(fields, not _same(now[0], before[0]), "system")
        moved = any(one.role == "system" for one in now[1])
        _drop(fields, moved or not _same(now[1], before[1]), "messages")
    tools = request.tools is read.tools
    chosen = (
        request.tool_choice is read.tool_choice
        and request.parallel_tool_calls is read.parallel_tool_calls
    )
    _drop(fields, not tools, "tools")
    _drop(fields, not (tools and chosen and request.tools), "tool_choice")
    _drop(fields, request.user is not read.user, "metadata")
    if request.reasoning_effort is not read.reasoning_effort:
        _drop(fields, True, "thinking", "output_config")
    elif request.response_format is not read.response_format:
        _add_format(fields, request.response_format)
    return fields


def _add_format(fields: dict[str, Raw], form: ResponseFormat | UnsetType) -> None:
    """Put another format into the client's `output_config`."""
    config = dict(read_object(fields["output_config"])) if "output_config" in fields else {}
    config.pop("format", None)
    if isinstance(form, ResponseFormat) and isinstance(form.schema, Raw):
        config["format"] = Raw(_encode({"type": "json_schema", "schema": form.schema}))
    if config:
        fields["output_config"] = Raw(_encode(config))
    else:
        fields.pop("output_config", None)


def says_effort(request: ChatRequest) -> bool:
    """Return whether the client wrote itself how the model thinks, and nothing else says it."""
    original = request.original
    return (
        is_native(request)
        and original is not None
        and request.reasoning_effort is original.read.reasoning_effort
    )


def kept_tools(request: ChatRequest) -> Mapping[int, Raw]:
    """Return the client's JSON of each tool that is still the one read from it, by its index."""
    original = request.original
    if original is None or original.dialect != DIALECT or not request.tools:
        return {}
    try:
        raws = _raws(original.fields["tools"])
    except (KeyError, *UNREADABLE):
        return {}
    read = {id(one): raw for one, raw in zip(original.read.tools or (), raws, strict=True)}
    return {at: read[id(one)] for at, one in enumerate(request.tools) if id(one) in read}


def same_conversation(request: ChatRequest, fields: dict[str, Raw]) -> bool:
    """Return whether system and messages are as the client sent them.

    fields: the result of `unchanged_fields`.
    """
    return "messages" in fields and (
        request.original is not None and request.messages is request.original.read.messages
    )


def _drop(fields: dict[str, Raw], changed: bool, *names: str) -> None:
    if changed:
        for name in names:
            fields.pop(name, None)


def _split(messages: Sequence[Message]) -> tuple[Sequence[Message], Sequence[Message]]:
    """Return the system messages before the conversation, and the conversation."""
    turns = 0
    while turns < len(messages) and messages[turns].role == "system":
        turns += 1
    return messages[:turns], messages[turns:]


def _same(one: Sequence[Message], other: Sequence[Message]) -> bool:
    return len(one) == len(other) and all(a is b for a, b in zip(one, other, strict=True))
