"""The parts of a conversation: messages, their content parts, tools and tool calls.

Each value keeps the client's JSON in `raw` next to the typed view, because a dialect that uses the
client's own format must forward fields outside our schema. `raw` is `UNSET` if the gateway made the
value, as it does for clients of other dialects than OpenAI's. Their fields outside our schema
(`cache_control`, `is_error`) are in `marks`, an object with nothing else.
"""

from collections.abc import Collection
from typing import Literal

from msgspec import UNSET, Raw, Struct, UnsetType

ThoughtKind = Literal["text", "signed", "encrypted"]
"""What of a reasoning block can be sent back: its text, with its vendor's proof, or only data."""

CLAUDE = "anthropic-claude-v1"
GEMINI = "google-gemini-v1"
OPENAI = "openai-responses-v1"
"""Proof formats by OpenRouter's names: the model's maker reads its own on any service."""

MISTRAL = "mistral-v1"
"""The same for proofs that OpenRouter has no name for."""

ITEM_FORMATS = frozenset({OPENAI, "azure-openai-responses-v1", "xai-responses-v1"})
"""Formats of the Responses API, whose proofs are valid with the id of their item alone."""


def item_proof(id: str, encrypted: str) -> str:
    """Return a proof in one of `ITEM_FORMATS`. id: "" if it is unknown; ids have no dot."""
    return f"{id}.{encrypted}" if id else encrypted


Role = Literal["system", "developer", "user", "assistant", "tool", "function"]


class TextPart(Struct, frozen=True, kw_only=True, tag_field="kind", tag="text", gc=False):
    text: str
    raw: Raw | UnsetType = UNSET
    marks: Raw | UnsetType = UNSET


class ImagePart(Struct, frozen=True, kw_only=True, tag_field="kind", tag="image", gc=False):
    """url: https or a `data:` URI. detail: `auto`, `low`, `high` or `UNSET`."""

    url: str
    detail: str | UnsetType = UNSET
    raw: Raw | UnsetType = UNSET
    marks: Raw | UnsetType = UNSET

    @property
    def remote(self) -> bool:
        """Return whether the image must be fetched from its address."""
        return self.url[:5].lower() != "data:"


class AudioPart(Struct, frozen=True, kw_only=True, tag_field="kind", tag="audio", gc=False):
    """data: base64. format: `wav` or `mp3`."""

    data: str
    format: str
    raw: Raw | UnsetType = UNSET


class OpaquePart(Struct, frozen=True, kw_only=True, tag_field="kind", tag="opaque", gc=False):
    """A part of an unknown type; forwarded to its own dialect, rejected by name by all others.

    dialect: `anthropic`, `gemini`, or "" for OpenAI's.
    """

    type: str
    raw: Raw
    dialect: str = ""


Part = TextPart | ImagePart | AudioPart | OpaquePart


class ToolCall(Struct, frozen=True, kw_only=True, gc=False):
    """arguments: JSON text as the model wrote it; never empty in an answer (at least `{}`).

    signature: the vendor's proof of the reasoning that led to the call (Gemini's).
    """

    id: str
    name: str
    arguments: str
    signature: str = ""


class Thought(Struct, frozen=True, kw_only=True, gc=False):
    """One block of an answer's reasoning, which the client must send back unchanged.

    signature: the vendor's proof. data: reasoning that only the vendor can read, as it sent it.
    format:    of the proof or data, by OpenRouter's names (`anthropic-claude-v1`); "" unknown.
    """

    text: str = ""
    signature: str = ""
    data: str = ""
    format: str = ""

    @property
    def proof_format(self) -> str:
        """The format of the proof or data; without one it is assumed to be Claude's.

        Of the vendors that check proofs, only Claude sends none: see `reasoning_signature`.
        """
        return self.format or CLAUDE

    @property
    def kind(self) -> ThoughtKind:
        if self.data:
            return "encrypted"
        return "signed" if self.signature else "text"


class Message(Struct, frozen=True, kw_only=True, gc=False):
    """One turn.

    content:      a string, parts, or `None` (an assistant turn that only calls tools).
    reasoning:    earlier reasoning sent back by the client (`reasoning` or `reasoning_content`).
    signature:    the vendor's proof that came with that reasoning (`reasoning_signature`).
    thoughts:     the same block by block (`reasoning_details`); read them with `thoughts_of`.
    tool_call_id: for role `tool`, the call that this answers.
    raw:          the whole message as sent. marks: see the module.
    """

    role: Role
    content: str | tuple[Part, ...] | None = None
    name: str | UnsetType = UNSET
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | UnsetType = UNSET
    reasoning: str | UnsetType = UNSET
    signature: str | UnsetType = UNSET
    thoughts: tuple[Thought, ...] = ()
    raw: Raw | UnsetType = UNSET
    marks: Raw | UnsetType = UNSET


class FunctionTool(Struct, frozen=True, kw_only=True, tag_field="kind", tag="function", gc=False):
    """parameters: a JSON schema, `UNSET` for a function without parameters."""

    name: str
    description: str | UnsetType = UNSET
    parameters: Raw | UnsetType = UNSET
    strict: bool | None | UnsetType = UNSET
    raw: Raw | UnsetType = UNSET
    marks: Raw | UnsetType = UNSET


class OpaqueTool(Struct, frozen=True, kw_only=True, tag_field="kind", tag="opaque", gc=False):
    """A tool of an unknown type; treated like `OpaquePart`."""

    type: str
    raw: Raw
    dialect: str = ""


Tool = FunctionTool | OpaqueTool


class ToolChoice(Struct, frozen=True, kw_only=True, gc=False):
    """mode `named` goes with `name`; `opaque` is an unknown form, only in `raw`."""

    mode: Literal["none", "auto", "required", "named", "opaque"]
    name: str | UnsetType = UNSET
    raw: Raw | UnsetType = UNSET


class ResponseFormat(Struct, frozen=True, kw_only=True, gc=False):
    """schema: the JSON schema of type `json_schema`; `name` and `strict` go with it."""

    type: Literal["text", "json_object", "json_schema", "opaque"]
    name: str | UnsetType = UNSET
    description: str | UnsetType = UNSET
    schema: Raw | UnsetType = UNSET
    strict: bool | None | UnsetType = UNSET
    raw: Raw | UnsetType = UNSET


def text_of(message: Message) -> str:
    """Return the message's text parts, joined; other parts are omitted."""
    content = message.content
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    return "".join(part.text for part in content if isinstance(part, TextPart))


def thoughts_of(message: Message) -> tuple[Thought, ...]:
    """Return the message's reasoning by block; one block if the client sent back only text."""
    if message.thoughts:
        return message.thoughts
    if message.reasoning or message.signature:
        return (Thought(text=message.reasoning or "", signature=message.signature or ""),)
    return ()


def provable_thoughts(message: Message, formats: Collection[str]) -> tuple[Thought, ...]:
    """Return the message's reasoning for a vendor that checks proofs and rejects other vendors'.

    formats: its own. Other vendors' reasoning is reduced to its text; encrypted data is omitted.
    """
    found: list[Thought] = []
    for thought in thoughts_of(message):
        if thought.kind == "text" or thought.proof_format in formats:
            found.append(thought)
        elif not thought.data:
            found.append(Thought(text=thought.text))
    return tuple(found)


def thinking_of(message: Message) -> str:
    """Return the text of the message's reasoning, joined; "" if none is readable."""
    return message.reasoning or "".join([thought.text for thought in message.thoughts])
