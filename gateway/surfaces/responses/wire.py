"""The Responses API's request format, with the range of every field.

A null counts as absent, so `None` means either.
https://platform.openai.com/docs/api-reference/responses/create and
https://github.com/openresponses/openresponses
"""

from typing import Annotated, Final, Literal

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from strowger_gateway.gateway.surfaces.openai.wire import (
    ALLOWED as CHAT,
)
from strowger_gateway.gateway.surfaces.openai.wire import (
    Count,
    FunctionName,
    Model,
    NonEmpty,
    Penalty,
    Temperature,
    Unit,
)

ToolName = Annotated[str, Meta(min_length=1, max_length=128)]


class ResponsesWire(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """`POST /v1/responses`. Fields from `background` on need storage."""

    model: Model | None = None
    input: Raw | UnsetType = UNSET
    instructions: Raw | UnsetType = UNSET
    tools: list[Raw] | None = None
    tool_choice: Raw | UnsetType = UNSET
    parallel_tool_calls: bool | None = None
    text: Raw | UnsetType = UNSET
    reasoning: Raw | UnsetType = UNSET
    max_output_tokens: Count | None = None
    max_tool_calls: Count | None = None
    temperature: Temperature | None = None
    top_p: Unit | None = None
    top_logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    stream: bool | None = None
    stream_options: Raw | UnsetType = UNSET
    include: list[str] | None = None
    truncation: Literal["auto", "disabled"] | None = None
    metadata: Raw | UnsetType = UNSET
    user: str | None = None
    service_tier: Raw | UnsetType = UNSET
    prompt_cache_key: Raw | UnsetType = UNSET
    prompt_cache_retention: Raw | UnsetType = UNSET
    safety_identifier: Raw | UnsetType = UNSET
    store: bool | None = None
    background: bool | None = None
    conversation: Raw | UnsetType = UNSET
    previous_response_id: str | None = None
    prompt: Raw | UnsetType = UNSET


class InputText(
    Struct,
    frozen=True,
    kw_only=True,
    tag="input_text",
    forbid_unknown_fields=True,
):
    text: str


class OutputText(
    Struct,
    frozen=True,
    kw_only=True,
    tag="output_text",
    forbid_unknown_fields=True,
):
    """annotations, logprobs: about a text that the model wrote; it does not read them."""

    text: str
    annotations: Raw | UnsetType = UNSET
    logprobs: Raw | UnsetType = UNSET


class RefusalText(Struct, frozen=True, kw_only=True, tag="refusal", forbid_unknown_fields=True):
    refusal: str


class InputImage(
    Struct,
    frozen=True,
    kw_only=True,
    tag="input_image",
    forbid_unknown_fields=True,
):
    image_url: str | None = None
    file_id: str | None = None
    detail: str | None = None


class InputFile(
    Struct,
    frozen=True,
    kw_only=True,
    tag="input_file",
    forbid_unknown_fields=True,
):
    """file_data: base64, or a `data:` URI."""

    file_data: str | None = None
    file_url: str | None = None
    file_id: str | None = None
    filename: str | None = None


class Sound(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    data: str
    format: str


class InputAudio(
    Struct,
    frozen=True,
    kw_only=True,
    tag="input_audio",
    forbid_unknown_fields=True,
):
    input_audio: Sound


Content = InputText | OutputText | RefusalText | InputImage | InputFile | InputAudio
CONTENTS: Final[dict[str, type[Struct]]] = {
    "input_text": InputText,
    "output_text": OutputText,
    "refusal": RefusalText,
    "input_image": InputImage,
    "input_file": InputFile,
    "input_audio": InputAudio,
}


class MessageItem(Struct, frozen=True, kw_only=True, tag="message", forbid_unknown_fields=True):
    """id, status: of an item that the client returns; the model does not read them."""

    role: Literal["user", "assistant", "system", "developer"]
    content: str | list[Raw]
    id: str | None = None
    status: str | None = None
    phase: Raw | UnsetType = UNSET


class ReasoningText(Struct, frozen=True, kw_only=True):
    """type: `summary_text`, `reasoning_text` or `text`."""

    type: str
    text: str


class ReasoningItem(Struct, frozen=True, kw_only=True, tag="reasoning", forbid_unknown_fields=True):
    summary: list[ReasoningText] = []
    content: list[ReasoningText] | None = None
    encrypted_content: str | None = None
    id: str | None = None
    status: str | None = None


class CallItem(
    Struct,
    frozen=True,
    kw_only=True,
    tag="function_call",
    forbid_unknown_fields=True,
):
    call_id: str
    name: ToolName
    arguments: str
    namespace: str | None = None
    id: str | None = None
    status: str | None = None


class CallOutputItem(
    Struct,
    frozen=True,
    kw_only=True,
    tag="function_call_output",
    forbid_unknown_fields=True,
):
    call_id: str
    output: str | list[Raw]
    id: str | None = None
    status: str | None = None


class CustomCallItem(
    Struct,
    frozen=True,
    kw_only=True,
    tag="custom_tool_call",
    forbid_unknown_fields=True,
):
    call_id: str
    name: ToolName
    input: str
    namespace: str | None = None
    id: str | None = None
    status: str | None = None


class CustomOutputItem(
    Struct,
    frozen=True,
    kw_only=True,
    tag="custom_tool_call_output",
    forbid_unknown_fields=True,
):
    call_id: str
    output: str | list[Raw]
    id: str | None = None
    status: str | None = None


Item = MessageItem | ReasoningItem | CallItem | CallOutputItem | CustomCallItem | CustomOutputItem
ITEMS: Final[dict[str, type[Struct]]] = {
    "message": MessageItem,
    "reasoning": ReasoningItem,
    "function_call": CallItem,
    "function_call_output": CallOutputItem,
    "custom_tool_call": CustomCallItem,
    "custom_tool_call_output": CustomOutputItem,
}


class Function(Struct, frozen=True, kw_only=True, tag="function", forbid_unknown_fields=True):
    name: FunctionName
    description: str | None = None
    parameters: Raw | UnsetType = UNSET
    strict: bool | None = None


class Custom(Struct, frozen=True, kw_only=True, tag="custom", forbid_unknown_fields=True):
    """A tool that takes text. format: a grammar of that text, or any text."""

    name: FunctionName
    description: str | None = None
    format: Raw | UnsetType = UNSET


class Namespace(Struct, frozen=True, kw_only=True, tag="namespace", forbid_unknown_fields=True):
    """tools: functions and custom tools."""

    name: FunctionName
    description: str | None = None
    tools: list[Raw]


CALLED: Final[dict[str, type[Struct]]] = {"function": Function, "custom": Custom}
TOOLS: Final[dict[str, type[Struct]]] = {**CALLED, "namespace": Namespace}


class Grammar(Struct, frozen=True, kw_only=True):
    type: str
    syntax: str = ""
    definition: str = ""


class Chosen(Struct, frozen=True, kw_only=True):
    """A tool choice that is an object. mode, tools: of type allowed_tools."""

    type: NonEmpty
    name: str | None = None
    mode: Literal["none", "auto", "required"] = "auto"
    tools: list["Chosen"] | None = None


class TextFormat(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """name, schema, description, strict: of type json_schema."""

    type: Literal["text", "json_object", "json_schema"]
    name: NonEmpty | None = None
    description: str | None = None
    schema: Raw | UnsetType = UNSET
    strict: bool | None = None


class Text(Struct, frozen=True, kw_only=True):
    format: TextFormat | None = None
    verbosity: Raw | UnsetType = UNSET


class Reasoning(Struct, frozen=True, kw_only=True):
    """generate_summary: the former name of `summary`."""

    effort: NonEmpty | None = None
    summary: NonEmpty | None = None
    generate_summary: NonEmpty | None = None


ALLOWED: Final[dict[str, str]] = {
    name: CHAT[name]
    for name in (
        "model",
        "temperature",
        "top_p",
        "top_logprobs",
        "presence_penalty",
        "frequency_penalty",
        "stream",
        "stream_options.include_obfuscation",
        "parallel_tool_calls",
        "user",
    )
} | {
    "input": "a string or a list of items",
    "instructions": "a string, or null",
    "tools": "a list of tools",
    "tools[].name": "a string of 1 to 512 characters",
    "tool_choice": '"none", "auto", "required" or an object that names tools',
    "max_output_tokens": "an integer of 1 or more, or null",
    "max_tool_calls": "an integer of 1 or more, or null",
    "include": "a list of strings",
    "include[]": "a string",
    "truncation": '"auto" or "disabled"',
    "store": "true or false",
    "background": "true or false",
    "previous_response_id": "a string, or null",
    "input[].role": "one of user, assistant, system, developer",
    "input[].content": "a string or a list of parts",
    "input[].output": "a string or a list of parts",
    "input[].arguments": "a string that holds JSON",
    "text.format.type": "one of text, json_object, json_schema",
}
"""What each field must be; used in messages of 400s. Paths have no indices."""
