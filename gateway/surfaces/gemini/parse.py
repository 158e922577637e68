"""Parse bodies of the Gemini API, or raise an InvalidRequest that names the field.

https://ai.google.dev/api/generate-content. Nulls count as absent, and an absent field stays absent.
The client's own JSON is kept next to the values, for backends of this dialect.
"""

from typing import Final

from msgspec import UNSET, Raw, UnsetType
from msgspec.structs import replace

from strowger_gateway.gateway.surfaces.base import Inbound
from strowger_gateway.gateway.surfaces.decoding import is_null, model_name
from strowger_gateway.gateway.surfaces.gemini.conversation import ContentsReader, tidied
from strowger_gateway.gateway.surfaces.gemini.generation_config import read_settings
from strowger_gateway.gateway.surfaces.gemini.parts import DIALECT
from strowger_gateway.gateway.surfaces.gemini.proto import ProtoReader
from strowger_gateway.gateway.surfaces.gemini.tools import CONFIG, NO_TOOLS, read_tools
from strowger_gateway.gateway.surfaces.gemini.wire import (
    ALLOWED,
    CountTokensWire,
    GenerateContentWire,
)
from strowger_gateway.gateway.surfaces.marked_objects import Marks
from strowger_gateway.gateway.surfaces.openai.envelope import encode
from strowger_gateway.schemas.requests import ChatRequest, Original

READER: Final = ProtoReader(GenerateContentWire, ALLOWED, lists={"contents", "tools"})
COUNTS: Final = ProtoReader(CountTokensWire, ALLOWED, lists={"contents", "tools"})

_OWN: Final = (
    ("safetySettings", "safety_settings"),
    ("cachedContent", "cached_content"),
    ("labels", "labels"),
    ("serviceTier", "service_tier"),
)
_KEPT: Final = (
    ("contents", "contents"),
    ("systemInstruction", "system_instruction"),
    ("tools", "tools"),
    ("toolConfig", "tool_config"),
    ("generationConfig", "generation_config"),
    *_OWN,
)
"""Our name of each field that is kept, behind Google's."""

_CONVERSATION: Final = ("contents", "systemInstruction")


_OPTIONAL: Final = ("top_k",)
"""gemini-cli sends it with every request, and most other vendors do not have it."""


def parse_generate(inbound: Inbound, *, stream: bool) -> ChatRequest:
    """`generateContent`, and `streamGenerateContent` if it streams. Raises InvalidRequest."""
    wire, extra = READER.body(inbound.body)
    return _request(wire, extra, inbound, stream=stream)


def parse_count(inbound: Inbound) -> ChatRequest:
    """`countTokens`. Raises InvalidRequest."""
    wire, extra = COUNTS.body(inbound.body)
    whole = wire.generate_content_request
    if isinstance(whole, Raw) and not is_null(whole):
        request, extra = READER.read(whole, "generateContentRequest")
        return _request(request, extra, inbound, stream=False)
    request = GenerateContentWire(
        contents=wire.contents,
        system_instruction=wire.system_instruction,
        tools=wire.tools,
        generation_config=wire.generation_config,
    )
    return _request(request, extra, inbound, stream=False)


def _request(
    wire: GenerateContentWire, extra: Marks, inbound: Inbound, *, stream: bool
) -> ChatRequest:
    contents, system = _given(wire.contents), _given(wire.system_instruction)
    conversation = ContentsReader(system, contents, 0 if inbound.prompts else 1)
    tools = NO_TOOLS
    if wire.tools is not UNSET or wire.tool_config is not UNSET:
        tools = read_tools(wire.tools, wire.tool_config)
    settings = read_settings(wire.generation_config, inbound.max_choices)
    for name, field in _OWN:
        raw = getattr(wire, field)
        if isinstance(raw, Raw) and not is_null(raw):
            extra[name] = raw
    if tools.more:
        extra[CONFIG] = Raw(encode(tools.more))
    request = ChatRequest(
        model=model_name(None, inbound.model),
        messages=tuple(conversation.messages),
        sampling=settings.sampling,
        tools=tools.tools,
        tool_choice=tools.choice,
        response_format=settings.form,
        reasoning_effort=settings.effort,
        stream=stream,
        extra=extra | settings.more,
        optional=_OPTIONAL,
        nested=conversation.marked or tools.marked,
    )
    kept = {
        name: raw
        for name, field in _KEPT
        if isinstance(raw := getattr(wire, field), Raw) and not is_null(raw)
    }
    if conversation.rewritten:
        kept = {name: raw for name, raw in kept.items() if name not in _CONVERSATION}
    elif conversation.untidy:
        kept["contents"] = tidied(kept["contents"])
    original = Original(dialect=DIALECT, fields=kept, read=request)
    return replace(request, original=original)


def _given(raw: Raw | UnsetType) -> Raw | UnsetType:
    return UNSET if isinstance(raw, Raw) and is_null(raw) else raw
