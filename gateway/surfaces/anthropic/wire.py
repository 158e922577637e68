"""The Messages API's request format, with the range of every field.

A null counts as absent, so `None` means either.
https://docs.anthropic.com/en/api/messages
"""

from typing import Annotated, Final, Literal

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from strowger_gateway.gateway.surfaces.decoding import MODEL_NAME
from strowger_gateway.gateway.surfaces.openai.wire import Count, FunctionName, Model, NonEmpty, Unit


class MessagesWire(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """`POST /v1/messages`."""

    messages: Raw
    model: Model | None = None
    max_tokens: Count | None = None
    system: Raw | UnsetType = UNSET
    tools: Raw | UnsetType = UNSET
    tool_choice: Raw | UnsetType = UNSET
    thinking: Raw | UnsetType = UNSET
    output_config: Raw | UnsetType = UNSET
    metadata: Raw | UnsetType = UNSET
    stop_sequences: tuple[str, ...] | None = None
    stream: bool | None = None
    temperature: Unit | None = None
    top_p: Unit | None = None
    top_k: Annotated[int, Meta(ge=0)] | None = None


class TextBlock(Struct, frozen=True, kw_only=True, tag="text", forbid_unknown_fields=True):
    text: str
    cache_control: Raw | UnsetType = UNSET
    citations: Raw | UnsetType = UNSET


class Source(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of an image or a document. data: base64, or the text of a plain document."""

    type: NonEmpty
    media_type: str = ""
    data: str = ""
    url: str = ""


class ImageBlock(Struct, frozen=True, kw_only=True, tag="image", forbid_unknown_fields=True):
    source: Source
    cache_control: Raw | UnsetType = UNSET


class DocumentBlock(Struct, frozen=True, kw_only=True, tag="document", forbid_unknown_fields=True):
    source: Source
    cache_control: Raw | UnsetType = UNSET
    citations: Raw | UnsetType = UNSET
    context: str | None = None
    title: str | None = None


class ToolUseBlock(Struct, frozen=True, kw_only=True, tag="tool_use", forbid_unknown_fields=True):
    id: str
    name: FunctionName
    input: Raw
    cache_control: Raw | UnsetType = UNSET
    caller: Raw | UnsetType = UNSET


class ToolResultBlock(
    Struct, frozen=True, kw_only=True, tag="tool_result", forbid_unknown_fields=True
):
    tool_use_id: str
    content: str | list[Raw] | None = None
    is_error: bool | None = None
    cache_control: Raw | UnsetType = UNSET


class ThinkingBlock(Struct, frozen=True, kw_only=True, tag="thinking", forbid_unknown_fields=True):
    thinking: str
    signature: str = ""


class RedactedBlock(
    Struct, frozen=True, kw_only=True, tag="redacted_thinking", forbid_unknown_fields=True
):
    data: str


Block = (
    TextBlock
    | ImageBlock
    | DocumentBlock
    | ToolUseBlock
    | ToolResultBlock
    | ThinkingBlock
    | RedactedBlock
)
KINDS: Final[dict[str, type[Struct]]] = {
    "text": TextBlock,
    "image": ImageBlock,
    "document": DocumentBlock,
    "tool_use": ToolUseBlock,
    "tool_result": ToolResultBlock,
    "thinking": ThinkingBlock,
    "redacted_thinking": RedactedBlock,
}
"""Types of blocks that are read; all others are Anthropic's alone."""

Speaker = Literal["user", "assistant", "system"]


class TurnWire(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    role: Speaker
    content: str | list[Block]


class LooseTurnWire(Struct, frozen=True, kw_only=True):
    """A message with blocks of other types, or with unknown fields."""

    role: Speaker
    content: str | list[Raw]


class CustomTool(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tool that the client runs. Fields from `cache_control` on are Anthropic's alone."""

    name: FunctionName
    input_schema: Raw
    description: str | None = None
    strict: bool | None = None
    type: Literal["custom"] | None = None
    cache_control: Raw | UnsetType = UNSET
    allowed_callers: Raw | UnsetType = UNSET
    defer_loading: Raw | UnsetType = UNSET
    eager_input_streaming: Raw | UnsetType = UNSET
    input_examples: Raw | UnsetType = UNSET


class ToolChoiceWire(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    type: Literal["auto", "any", "tool", "none"]
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


class Thinking(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """budget_tokens: required for type enabled. display: how Anthropic shows thinking."""

    type: NonEmpty
    budget_tokens: Count | None = None
    display: str | None = None


class Format(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    type: Literal["json_schema"]
    schema: Raw


class Output(Struct, frozen=True, kw_only=True):
    effort: NonEmpty | None = None
    format: Format | None = None


class Metadata(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    user_id: str | None = None


ALLOWED: Final[dict[str, str]] = {
    "model": MODEL_NAME,
    "max_tokens": "an integer of 1 or more",
    "stop_sequences": "a list of strings",
    "stop_sequences[]": "a string",
    "stream": "true or false",
    "temperature": "a number from 0 to 1",
    "top_p": "a number from 0 to 1",
    "top_k": "an integer of 0 or more",
    "messages": "a list of at least one message",
    "messages[].role": "one of user, assistant, system",
    "messages[].content": "a string or a list of blocks",
    "messages[].content[].content": "a string or a list of blocks",
    "messages[].content[].is_error": "true or false",
    "system": "a string or a list of text blocks",
    "tools": "a list of tools",
    "tools[].name": "a string of 1 to 512 characters",
    "tool_choice.type": "one of auto, any, tool, none",
    "metadata.user_id": "a string, or null",
}
"""What each field must be; used in messages of 400s. Paths have no indices."""
