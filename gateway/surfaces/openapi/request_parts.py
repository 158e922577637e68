"""Types of request fields that surfaces read in parts, for the API description only.

A struct here lists what the gateway reads. Further fields of a vendor may be sent, so none forbids
others. tests/gateway/surfaces/openapi/test_openapi.py checks requests against them.
"""

from collections.abc import Mapping
from typing import Annotated, Final, Literal

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from strowger_gateway.gateway.surfaces.anthropic.wire import MessagesWire
from strowger_gateway.gateway.surfaces.ollama.wire import (
    MessageWire,
    OllamaChatWire,
    OllamaGenerateWire,
    OptionsWire,
    ToolWire,
)
from strowger_gateway.gateway.surfaces.openai.wire import ChatWire, CompletionWire
from strowger_gateway.gateway.surfaces.openapi.answer_structs import CallOfTool
from strowger_gateway.gateway.surfaces.openapi.gemini_structs import GEMINI_PARTS
from strowger_gateway.gateway.surfaces.responses.wire import ResponsesWire


class ImageOfPart(Struct, frozen=True, kw_only=True):
    """url: `https:` or `data:`. detail: `auto`, `low` or `high`."""

    url: str
    detail: str | UnsetType = UNSET


class AudioOfPart(Struct, frozen=True, kw_only=True):
    """data: base64. format: `wav` or `mp3`."""

    data: str
    format: str


class ContentPart(Struct, frozen=True, kw_only=True):
    """type: `text`, `image_url`, `input_audio`, `refusal`, or a vendor's own.

    The field of the same name has the content.
    """

    type: str
    text: str | UnsetType = UNSET
    image_url: ImageOfPart | str | UnsetType = UNSET
    input_audio: AudioOfPart | UnsetType = UNSET
    refusal: str | UnsetType = UNSET


class ChatMessage(Struct, frozen=True, kw_only=True):
    """tool_calls: of the role assistant. tool_call_id: of the role tool: which call this answers.

    reasoning, reasoning_content: what an earlier answer had there.
    """

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[ContentPart] | None | UnsetType = UNSET
    name: str | None | UnsetType = UNSET
    tool_calls: list[CallOfTool] | None | UnsetType = UNSET
    tool_call_id: str | None | UnsetType = UNSET
    refusal: str | None | UnsetType = UNSET
    reasoning: str | None | UnsetType = UNSET
    reasoning_content: str | None | UnsetType = UNSET


class FunctionOfTool(Struct, frozen=True, kw_only=True):
    """parameters: a JSON Schema of the arguments. strict: they must match it."""

    name: str
    description: str | None | UnsetType = UNSET
    parameters: dict[str, Raw] | None | UnsetType = UNSET
    strict: bool | None | UnsetType = UNSET


class ChatTool(Struct, frozen=True, kw_only=True):
    """type: `function`, `custom`, or a vendor's own."""

    type: str
    function: FunctionOfTool | UnsetType = UNSET


class NamedFunction(Struct, frozen=True, kw_only=True):
    name: str


class ChosenTool(Struct, frozen=True, kw_only=True):
    """The function that the model has to call."""

    type: str
    function: NamedFunction | UnsetType = UNSET


class SchemaOfAnswer(Struct, frozen=True, kw_only=True):
    """schema: a JSON Schema that the answer matches; with `strict` the vendor guarantees it."""

    name: str
    schema: dict[str, Raw] | UnsetType = UNSET
    strict: bool | None | UnsetType = UNSET
    description: str | None | UnsetType = UNSET


class ResponseFormat(Struct, frozen=True, kw_only=True):
    """type: `text`, `json_object`, `json_schema`, or a vendor's own."""

    type: str
    json_schema: SchemaOfAnswer | UnsetType = UNSET


class StreamOptions(Struct, frozen=True, kw_only=True):
    """include_usage: a chunk with the token counts before the end."""

    include_usage: bool | None | UnsetType = UNSET


class MessageBlock(Struct, frozen=True, kw_only=True):
    """type: `text`, `image`, `document`, `tool_use`, `tool_result`, `thinking`, or another one.

    id, name, input: of a tool_use. tool_use_id, content, is_error: of a tool_result.
    """

    type: str
    text: str | UnsetType = UNSET
    source: dict[str, Raw] | UnsetType = UNSET
    id: str | UnsetType = UNSET
    name: str | UnsetType = UNSET
    input: Raw | UnsetType = UNSET
    tool_use_id: str | UnsetType = UNSET
    content: Raw | UnsetType = UNSET
    is_error: bool | None | UnsetType = UNSET
    thinking: str | UnsetType = UNSET
    signature: str | UnsetType = UNSET
    cache_control: dict[str, Raw] | None | UnsetType = UNSET


class MessageOfAnthropic(Struct, frozen=True, kw_only=True):
    """One turn of a conversation of the Messages API."""

    role: str
    content: str | list[MessageBlock]


class ToolOfAnthropic(Struct, frozen=True, kw_only=True):
    """input_schema: a JSON Schema; tools that run at Anthropic have a type and none."""

    name: str
    type: str | None | UnsetType = UNSET
    description: str | None | UnsetType = UNSET
    input_schema: dict[str, Raw] | UnsetType = UNSET
    cache_control: dict[str, Raw] | None | UnsetType = UNSET


class ChoiceOfAnthropic(Struct, frozen=True, kw_only=True):
    """type: `auto`, `any`, `tool` with a name, or `none`."""

    type: str
    name: str | UnsetType = UNSET
    disable_parallel_tool_use: bool | None | UnsetType = UNSET


class ThinkingOfAnthropic(Struct, frozen=True, kw_only=True):
    """type: `enabled`, `adaptive` or `disabled`. budget_tokens: at most so many for it."""

    type: str
    budget_tokens: int | None | UnsetType = UNSET


class InputItem(Struct, frozen=True, kw_only=True):
    """type: `message` (default), `function_call`, `function_call_output`, `reasoning`, and others.

    role, content: of a message. call_id, name, arguments, output: of calls and what they returned.
    """

    type: str | UnsetType = UNSET
    id: str | None | UnsetType = UNSET
    role: str | UnsetType = UNSET
    content: Raw | UnsetType = UNSET
    call_id: str | UnsetType = UNSET
    name: str | UnsetType = UNSET
    arguments: str | UnsetType = UNSET
    output: Raw | UnsetType = UNSET


class ToolOfResponses(Struct, frozen=True, kw_only=True):
    """type: `function`, `custom`, or one that runs at OpenAI. parameters: a JSON Schema."""

    type: str
    name: str | UnsetType = UNSET
    description: str | None | UnsetType = UNSET
    parameters: dict[str, Raw] | None | UnsetType = UNSET
    strict: bool | None | UnsetType = UNSET


class ReasoningOfResponses(Struct, frozen=True, kw_only=True):
    """effort: how much, as the vendor names its levels. summary: which kind of summary."""

    effort: str | None | UnsetType = UNSET
    summary: str | None | UnsetType = UNSET


_CHAT: Final[Mapping[str, object]] = {
    "messages": Annotated[list[ChatMessage], Meta(min_length=1)],
    "tools": list[ChatTool] | None,
    "tool_choice": Literal["none", "auto", "required"] | ChosenTool | None,
    "response_format": ResponseFormat | None,
    "stream_options": StreamOptions | None,
    "metadata": dict[str, Raw] | None,
}
_OLLAMAS: Final[Mapping[str, object]] = {
    "format": Literal["json"] | dict[str, Raw] | None,
    "options": OptionsWire | None,
}
PARTS: Final[Mapping[type[Struct], Mapping[str, object]]] = {
    **GEMINI_PARTS,
    ChatWire: _CHAT,
    CompletionWire: {"stream_options": StreamOptions | None},
    MessagesWire: {
        "messages": list[MessageOfAnthropic],
        "system": str | list[MessageBlock] | None,
        "tools": list[ToolOfAnthropic] | None,
        "tool_choice": ChoiceOfAnthropic | None,
        "thinking": ThinkingOfAnthropic | None,
        "metadata": dict[str, Raw] | None,
    },
    ResponsesWire: {
        "input": str | list[InputItem] | None,
        "instructions": str | None,
        "tools": list[ToolOfResponses] | None,
        "reasoning": ReasoningOfResponses | None,
        "text": dict[str, Raw] | None,
        "metadata": dict[str, Raw] | None,
    },
    OllamaChatWire: {
        **_OLLAMAS,
        "messages": list[MessageWire] | None,
        "tools": list[ToolWire] | None,
    },
    OllamaGenerateWire: {**_OLLAMAS, "context": list[int] | None},
}
"""Types of fields by the struct of a request body; also of those that inherit from it."""
