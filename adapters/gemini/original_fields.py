"""Finds the JSON of a client of this API that can be sent unchanged.

Google caches prompts by their beginning and checks its signatures where it put them, so contents,
tools and settings are encoded again only if something in them had to change.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

import msgspec
from msgspec import Raw, UnsetType

from strowger_gateway.adapters.json_objects import UNREADABLE, read_list, read_object
from strowger_gateway.schemas.requests import ChatRequest, GenerateRequest

DIALECT: Final = "gemini"
CONFIG: Final = "generationConfig"

_NOTHING: Final[dict[str, Raw]] = {}
_CALLS: Final = frozenset({"functionCall", "function_call"})
_SIGNATURES: Final = frozenset({"thoughtSignature", "thought_signature"})
_SCHEMAS: Final = ("responseMimeType", "responseSchema", "responseJsonSchema")
_encode = msgspec.json.Encoder().encode


def is_native(request: GenerateRequest) -> bool:
    """Return whether the client speaks this API, so that it reads all kinds of parts."""
    if not isinstance(request, ChatRequest) or request.original is None:
        return False
    return request.original.dialect == DIALECT


def unchanged_fields(request: ChatRequest) -> dict[str, Raw]:
    """Return the client's JSON by field, without the fields whose values have changed since.

    Of `generationConfig` nothing is left here: see `unchanged_config`.
    """
    original = request.original
    if original is None or original.dialect != DIALECT:
        return _NOTHING
    read = original.read
    fields = {name: raw for name, raw in original.fields.items() if name != CONFIG}
    if request.messages is not read.messages:
        fields.pop("contents", None)
        fields.pop("systemInstruction", None)
    if request.tools is not read.tools:
        fields.pop("tools", None)
    if request.tools is not read.tools or request.tool_choice is not read.tool_choice:
        fields.pop("toolConfig", None)
    same = ("contents", "systemInstruction", "tools", "toolConfig")
    return {name: raw for name, raw in fields.items() if name in same or name in request.extra}


def with_signatures(contents: Raw, placeholder: str) -> Raw:
    """Return a client's contents in which each turn with calls has a signature.

    Calls that another vendor's model made have none. placeholder: for the first call of such turns.
    """
    if b"unction" not in bytes(contents):
        return contents
    turns = [read_object(one) for one in _listed(contents)]
    changed = False
    for turn in turns:
        parts = [read_object(one) for one in _listed(turn.get("parts", Raw(b"[]")))]
        calls = [one for one in parts if not _CALLS.isdisjoint(one)]
        if calls and all(_SIGNATURES.isdisjoint(one) for one in calls):
            calls[0]["thoughtSignature"] = Raw(_encode(placeholder))
            turn["parts"] = Raw(_encode(parts))
            changed = True
    return Raw(_encode(turns)) if changed else contents


def _listed(raw: Raw) -> Sequence[Raw]:
    return read_list(raw) if bytes(raw).lstrip()[:1] == b"[" else [raw]


def unchanged_config(request: ChatRequest, sampling: Mapping[str, str]) -> dict[str, Raw]:
    """Return the members of the client's `generationConfig` whose values have not changed.

    sampling: our names -> names in `generationConfig`.
    """
    original = request.original
    if original is None or original.dialect != DIALECT or CONFIG not in original.fields:
        return _NOTHING
    read = original.read
    try:
        fields = _camel(read_object(original.fields[CONFIG]))
    except UNREADABLE:
        return _NOTHING
    known = {*sampling.values(), "responseLogprobs", "thinkingConfig", *_SCHEMAS}
    dropped = {
        name
        for field, name in (*sampling.items(), ("logprobs", "responseLogprobs"))
        if getattr(request.sampling, field) != getattr(read.sampling, field)
    }
    if request.response_format is not read.response_format:
        dropped.update(_SCHEMAS)
    if request.reasoning_effort is not read.reasoning_effort:
        dropped.add("thinkingConfig")
    extra = {*request.extra, "responseModalities"} if _keeps_text(request) else {*request.extra}
    return {
        name: raw
        for name, raw in fields.items()
        if name not in dropped and (name in known or name in extra)
    }


def _keeps_text(request: ChatRequest) -> bool:
    """Return whether a client may ask for text alone, which is not a field of our schema."""
    original = request.original
    return original is not None and "responseModalities" not in original.read.extra


def _camel(fields: Mapping[str, Raw]) -> dict[str, Raw]:
    return {_name(name): raw for name, raw in fields.items()}


def _name(name: str) -> str:
    head, *rest = name.strip("_").split("_")
    return head + "".join([one[:1].upper() + one[1:] for one in rest])


def effort_changed(request: ChatRequest) -> bool:
    """Return whether the effort is another one than a client wrote in `thinkingConfig`."""
    original = request.original
    if original is None or original.dialect != DIALECT:
        return True
    return request.reasoning_effort is not original.read.reasoning_effort


def format_changed(request: ChatRequest) -> bool:
    """Return whether the form is another one than a client wrote in `generationConfig`."""
    original = request.original
    if original is None or original.dialect != DIALECT:
        return True
    return request.response_format is not original.read.response_format


def keeps_marks(
    encoded: dict[str, object], marks: Raw | UnsetType, names: Collection[str]
) -> dict[str, object]:
    """Return the object with those of its marks that are Google's own."""
    if not isinstance(marks, Raw):
        return encoded
    found = {name: raw for name, raw in read_object(marks).items() if name in names}
    return {**encoded, **found}
