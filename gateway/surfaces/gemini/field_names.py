"""The Gemini API's names of the fields that our schema has."""

from typing import Final

import msgspec
from msgspec import Raw

from strowger_gateway.gateway.surfaces.decoding import UNREADABLE
from strowger_gateway.gateway.surfaces.field_names import (
    MAX_SEARCHED,
    ClientPlace,
    ClientPlaces,
    ConversationNames,
    FieldNames,
)
from strowger_gateway.schemas.messages import Message
from strowger_gateway.schemas.requests import ChatRequest

_CONFIG: Final = "generationConfig"
_PARTS: Final = "contents[].parts[]"
_FUNCTION: Final = "functionDeclarations[]"

_ANY: Final = ClientPlace(
    message="contents[]", own="contents[].parts[]", content="contents[].parts"
)
_RESULT: Final = ClientPlace(
    message="contents[]",
    own="contents[].parts[].functionResponse",
    content="contents[].parts[].functionResponse.parts",
)
_SYSTEM: Final = ClientPlace(
    message="systemInstruction", own="systemInstruction.parts[]", content="systemInstruction.parts"
)

_contents: Final = msgspec.json.Decoder(list[dict[str, Raw]])
_of_content: Final = msgspec.json.Decoder(list[dict[str, Raw]])


def _kind(request: ChatRequest, message: Message | None) -> ClientPlace:
    if message is None:
        return _ANY
    if message.role == "system":
        return _SYSTEM
    return _RESULT if message.role == "tool" else _ANY


def _places(request: ChatRequest) -> ClientPlaces:
    """Find the places of the messages; of the tools, their names say enough."""
    raw = None if request.original is None else request.original.fields.get("contents")
    if raw is None or len(memoryview(raw)) > MAX_SEARCHED:
        return ClientPlaces()
    leading = next(
        (at for at, one in enumerate(request.messages) if one.role != "system"),
        len(request.messages),
    )
    found = [_SYSTEM] * leading
    try:
        for at, content in enumerate(_contents.decode(raw)):
            found += _of_turn(content, f"contents[{at}]")
    except UNREADABLE:
        return ClientPlaces()
    return ClientPlaces(messages=tuple(found))


def _of_turn(content: dict[str, Raw], where: str) -> list[ClientPlace]:
    """Return the places of the messages that a turn became: each result is one of its own."""
    parts = [set(one) for one in _of_content.decode(content.get("parts", Raw(b"[]")))]
    paths = [f"{where}.parts[{at}]" for at in range(len(parts))]
    if content.get("role") == Raw(b'"model"'):
        named = list(zip(paths, parts, strict=True))
        calls = [path for path, names in named if names & {"functionCall", "function_call"}]
        texts = [
            path
            for path, names in named
            if not names & {"functionCall", "function_call", "thought"}
        ]
        return [_place(where, texts, calls)]
    found: list[ClientPlace] = []
    waiting: list[str] = []
    for path, names in zip(paths, parts, strict=True):
        result = next((n for n in names if n in ("functionResponse", "function_response")), "")
        if not result:
            waiting.append(path)
            continue
        if waiting:
            found.append(_place(where, waiting))
            waiting = []
        own = f"{path}.{result}"
        found.append(ClientPlace(message=where, own=own, content=f"{own}.parts"))
    if waiting or not found:
        found.append(_place(where, waiting))
    return found


def _place(where: str, parts: list[str], calls: list[str] | None = None) -> ClientPlace:
    return ClientPlace(
        message=where,
        own=f"{where}.parts[]",
        content=f"{where}.parts",
        parts=tuple(parts),
        calls=tuple(calls or ()),
    )


_OF_CONFIG: Final = {
    "frequency_penalty": "frequencyPenalty",
    "logprobs": "responseLogprobs",
    "max_tokens": "maxOutputTokens",
    "n": "candidateCount",
    "presence_penalty": "presencePenalty",
    "reasoning_effort": "thinkingConfig",
    "response_format": "responseMimeType",
    "response_format.json_schema": "responseSchema",
    "seed": "seed",
    "stop": "stopSequences",
    "temperature": "temperature",
    "top_k": "topK",
    "top_logprobs": "logprobs",
    "top_p": "topP",
}
OF_GOOGLE: Final = (
    *("audioTimestamp", "enableEnhancedCivicAnswers", "imageConfig", "mediaResolution"),
    *("modelSelectionConfig", "responseMimeType", "responseModalities", "routingConfig"),
    *("speechConfig", "translationConfig"),
)
"""Members of `generationConfig` that only Google has."""

NAMES: Final = FieldNames(
    {
        **{name: f"{_CONFIG}.{theirs}" for name, theirs in _OF_CONFIG.items()},
        **{name: f"{_CONFIG}.{name}" for name in OF_GOOGLE},
        "dimensions": "outputDimensionality",
        "input": "content",
        "messages": "contents",
        "messages.audio": f"{_PARTS}.inlineData",
        "messages.image": f"{_PARTS}.inlineData",
        "messages.opaque": _PARTS,
        "messages.reasoning": f"{_PARTS}.thought",
        "messages.remote_image": f"{_PARTS}.fileData",
        "parallel_tool_calls": "toolConfig",
        "tool_choice": "toolConfig.functionCallingConfig",
        "tool_choice.function": "toolConfig.functionCallingConfig.allowedFunctionNames",
    },
    ConversationNames(
        kind=_kind,
        places=_places,
        message={"reasoning": "thought", "tool_call_id": "id", "tool_calls": ""},
        part={
            "file": "inlineData",
            "file.file_data": "inlineData.data",
            "file.file_url": "fileData.fileUri",
            "file.filename": "inlineData.displayName",
            "image_url": "inlineData",
            "image_url.url": "inlineData.data",
            "input_audio": "inlineData",
            "input_audio.format": "inlineData.mimeType",
        },
        call={
            "extra_content": "thoughtSignature",
            "function": "functionCall",
            "function.arguments": "functionCall.args",
        },
        tool={
            "function": _FUNCTION,
            **{name: f"{_FUNCTION}.{name}" for name in ("behavior", "response")},
            "responseJsonSchema": f"{_FUNCTION}.responseJsonSchema",
        },
    ),
)
