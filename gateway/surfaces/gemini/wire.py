"""The Gemini API's request format, with the range of every field.

A null counts as absent, so `None` means either.
https://ai.google.dev/api/generate-content
https://ai.google.dev/api/caching#Content
"""

from typing import Annotated, Final

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from strowger_gateway.gateway.surfaces.openai.wire import Unit

Number = Annotated[float, Meta(ge=-2, le=2)]
Several = Annotated[int, Meta(ge=1)]


class GenerateContentWire(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel", gc=False
):
    """`generateContent` and `streamGenerateContent`. model: the path has it, and goes before."""

    contents: Raw | UnsetType = UNSET
    system_instruction: Raw | UnsetType = UNSET
    tools: Raw | UnsetType = UNSET
    tool_config: Raw | UnsetType = UNSET
    generation_config: Raw | UnsetType = UNSET
    safety_settings: Raw | UnsetType = UNSET
    cached_content: Raw | UnsetType = UNSET
    labels: Raw | UnsetType = UNSET
    service_tier: Raw | UnsetType = UNSET
    model: Raw | UnsetType = UNSET


class CountTokensWire(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel", gc=False
):
    """`countTokens`: a whole request in `generateContentRequest`, or its fields."""

    generate_content_request: Raw | UnsetType = UNSET
    contents: Raw | UnsetType = UNSET
    system_instruction: Raw | UnsetType = UNSET
    tools: Raw | UnsetType = UNSET
    generation_config: Raw | UnsetType = UNSET
    model: Raw | UnsetType = UNSET


class EmbedContentWire(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel", gc=False
):
    """`embedContent`, and one entry of `batchEmbedContents`."""

    content: Raw
    task_type: Raw | UnsetType = UNSET
    title: Raw | UnsetType = UNSET
    output_dimensionality: Annotated[int, Meta(ge=1)] | None = None
    embed_content_config: Raw | UnsetType = UNSET
    model: Raw | UnsetType = UNSET


class BatchEmbedContentsWire(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel", gc=False
):
    """`batchEmbedContents`. requests: each as `embedContent` has it."""

    requests: Raw
    model: Raw | UnsetType = UNSET


class ContentWire(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """One turn. role: `user` if absent."""

    parts: Raw | UnsetType = UNSET
    role: str | None = None


class PartWire(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """One part of a turn: one of the fields after `thought_signature`."""

    thought: bool | None = None
    thought_signature: str | None = None
    text: str | None = None
    inline_data: Raw | UnsetType = UNSET
    file_data: Raw | UnsetType = UNSET
    function_call: Raw | UnsetType = UNSET
    function_response: Raw | UnsetType = UNSET


class BlobWire(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """data: base64."""

    mime_type: str | None = None
    data: str | None = None
    display_name: str | None = None


class FileWire(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    file_uri: str | None = None
    mime_type: str | None = None
    display_name: str | None = None


class FunctionCallWire(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"
):
    """args: an object."""

    name: str
    id: str | None = None
    args: Raw | UnsetType = UNSET


class FunctionResponseWire(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"
):
    """response: an object. parts: media of the result."""

    name: str | None = None
    id: str | None = None
    response: Raw | UnsetType = UNSET
    parts: Raw | UnsetType = UNSET


class DeclarationWire(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"
):
    """A function. parameters: Google's own form of a schema. Fields from `response` on describe
    what it returns, and how it runs.
    """

    name: Annotated[str, Meta(min_length=1, max_length=512)]
    description: str | None = None
    parameters: Raw | UnsetType = UNSET
    parameters_json_schema: Raw | UnsetType = UNSET
    response: Raw | UnsetType = UNSET
    response_json_schema: Raw | UnsetType = UNSET
    behavior: Raw | UnsetType = UNSET


class CallingWire(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """`functionCallingConfig`."""

    mode: str | None = None
    allowed_function_names: tuple[str, ...] | None = None


class ThinkingWire(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """`thinkingConfig`. thinking_budget: tokens; 0 does not think, -1 lets the model decide."""

    include_thoughts: bool | None = None
    thinking_budget: Annotated[int, Meta(ge=-1)] | None = None
    thinking_level: str | None = None


class GenerationConfigWire(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"
):
    """`generationConfig`: those of its fields that our schema has."""

    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Unit | None = None
    top_k: Annotated[float, Meta(ge=0)] | None = None
    candidate_count: Several | None = None
    max_output_tokens: Several | None = None
    stop_sequences: tuple[str, ...] | None = None
    presence_penalty: Number | None = None
    frequency_penalty: Number | None = None
    seed: Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] | None = None
    response_logprobs: bool | None = None
    logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None
    response_mime_type: str | None = None
    response_schema: Raw | UnsetType = UNSET
    response_json_schema: Raw | UnsetType = UNSET
    thinking_config: Raw | UnsetType = UNSET


_CONFIG: Final = "generationConfig"
ALLOWED: Final[dict[str, str]] = {
    "contents": "a list of at least one content",
    "contents[].role": "user or model",
    "contents[].parts": "a list of parts",
    "contents[].parts[].text": "a string",
    "contents[].parts[].thought": "true or false",
    "contents[].parts[].thoughtSignature": "a string of base64",
    "systemInstruction": "a content with text parts",
    "tools": "a list of tools",
    "tools[].functionDeclarations[].name": "a string of 1 to 512 characters",
    "toolConfig.functionCallingConfig.allowedFunctionNames": "a list of strings",
    f"{_CONFIG}.temperature": "a number from 0 to 2",
    f"{_CONFIG}.topP": "a number from 0 to 1",
    f"{_CONFIG}.topK": "a number of 0 or more",
    f"{_CONFIG}.candidateCount": "an integer of 1 or more",
    f"{_CONFIG}.maxOutputTokens": "an integer of 1 or more",
    f"{_CONFIG}.stopSequences": "a list of strings",
    f"{_CONFIG}.stopSequences[]": "a string",
    f"{_CONFIG}.presencePenalty": "a number from -2 to 2",
    f"{_CONFIG}.frequencyPenalty": "a number from -2 to 2",
    f"{_CONFIG}.seed": "an integer",
    f"{_CONFIG}.responseLogprobs": "true or false",
    f"{_CONFIG}.logprobs": "an integer from 0 to 20",
    f"{_CONFIG}.responseMimeType": "a media type",
    f"{_CONFIG}.thinkingConfig.thinkingBudget": "an integer of -1 or more",
    f"{_CONFIG}.thinkingConfig.includeThoughts": "true or false",
    "outputDimensionality": "an integer of 1 or more",
    "requests[].outputDimensionality": "an integer of 1 or more",
}
"""What each field must be; used in messages of 400s. Paths have no indices."""
