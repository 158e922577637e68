"""The Gemini API's bodies, as structs for the API description only."""

from typing import Final

from msgspec import UNSET, Raw, Struct, UnsetType

from strowger_gateway.gateway.surfaces.gemini.wire import (
    BatchEmbedContentsWire,
    CountTokensWire,
    EmbedContentWire,
    FileWire,
    GenerateContentWire,
)


class PartOfGemini(Struct, frozen=True, kw_only=True, rename="camel"):
    """One of text, inlineData, fileData, functionCall, functionResponse, and Google's own parts."""

    text: str | UnsetType = UNSET
    thought: bool | UnsetType = UNSET
    thought_signature: str | UnsetType = UNSET
    inline_data: dict[str, Raw] | UnsetType = UNSET
    file_data: FileWire | UnsetType = UNSET
    function_call: dict[str, Raw] | UnsetType = UNSET
    function_response: dict[str, Raw] | UnsetType = UNSET


class ContentOfGemini(Struct, frozen=True, kw_only=True):
    """One turn. role: `user` or `model`."""

    parts: list[PartOfGemini] = []
    role: str | UnsetType = UNSET


class CandidateOfGemini(Struct, frozen=True, kw_only=True, rename="camel"):
    """Log probabilities, grounding and a vendor's own fields are next to these."""

    content: ContentOfGemini
    index: int
    finish_reason: str | UnsetType = UNSET
    finish_message: str | UnsetType = UNSET


class CountsOfGemini(Struct, frozen=True, kw_only=True, rename="camel"):
    """candidates_token_count: without those of thoughts."""

    prompt_token_count: int | UnsetType = UNSET
    candidates_token_count: int | UnsetType = UNSET
    total_token_count: int | UnsetType = UNSET
    cached_content_token_count: int | UnsetType = UNSET
    thoughts_token_count: int | UnsetType = UNSET


class GeminiAnswer(Struct, frozen=True, kw_only=True, rename="camel"):
    """A whole answer, or a frame of a stream. A rejected prompt has no candidates."""

    response_id: str
    model_version: str
    candidates: list[CandidateOfGemini] | UnsetType = UNSET
    prompt_feedback: dict[str, Raw] | UnsetType = UNSET
    usage_metadata: CountsOfGemini | UnsetType = UNSET
    create_time: str | UnsetType = UNSET


class GeminiTokens(Struct, frozen=True, kw_only=True, rename="camel"):
    total_tokens: int


class VectorOfGemini(Struct, frozen=True, kw_only=True):
    values: list[float]


class GeminiEmbedding(Struct, frozen=True, kw_only=True, rename="camel"):
    embedding: VectorOfGemini
    usage_metadata: CountsOfGemini | UnsetType = UNSET


class GeminiEmbeddings(Struct, frozen=True, kw_only=True, rename="camel"):
    """embeddings: one per request, in order."""

    embeddings: list[VectorOfGemini]
    usage_metadata: CountsOfGemini | UnsetType = UNSET


_CONVERSATION: Final = {
    "contents": list[ContentOfGemini],
    "systemInstruction": ContentOfGemini | None,
    "tools": list[dict[str, Raw]] | None,
    "generationConfig": dict[str, Raw] | None,
}
GEMINI_PARTS: Final[dict[type[Struct], dict[str, object]]] = {
    GenerateContentWire: {
        **_CONVERSATION,
        "toolConfig": dict[str, Raw] | None,
        "safetySettings": list[dict[str, Raw]] | None,
        "cachedContent": str | None,
        "labels": dict[str, str] | None,
        "serviceTier": str | None,
        "model": str | None,
    },
    CountTokensWire: {
        **_CONVERSATION,
        "generateContentRequest": dict[str, Raw] | None,
        "model": str | None,
    },
    EmbedContentWire: {
        "content": ContentOfGemini,
        "taskType": str | None,
        "title": str | None,
        "embedContentConfig": dict[str, Raw] | None,
        "model": str | None,
    },
    BatchEmbedContentsWire: {"requests": list[dict[str, Raw]], "model": str | None},
}
"""See `strowger_gateway.gateway.surfaces.openapi.request_parts.PARTS`."""
