"""What a conversation is made of: messages, their parts, tools and tool calls.

Each value keeps what the client sent in `raw` (JSON) beside the typed view, because a dialect
that speaks the client's own format must pass on fields that we do not know. `raw` is `UNSET`
where the value was made by us.
"""

from collections.abc import Collection
from typing import Literal

from msgspec import UNSET, Raw, Struct, UnsetType

ThoughtKind = Literal["text", "signed", "encrypted"]
"""What of a thought there is to hand back: its text, with its vendor's proof, or only data."""

CLAUDE = "anthropic-claude-v1"
GEMINI = "google-gemini-v1"
"""Formats of proofs, by OpenRouter's names: who made one reads it, whichever service serves it."""

Role = Literal["system", "developer", "user", "assistant", "tool", "function"]


class TextPart(Struct, frozen=True, kw_only=True, tag_field="kind", tag="text", gc=False):
    text: str
    raw: Raw | UnsetType = UNSET


class ImagePart(Struct, frozen=True, kw_only=True, tag_field="kind", tag="image", gc=False):
    """url: https or a `data:` URI. detail: `auto`, `low`, `high` or `UNSET`."""

    url: str
    detail: str | UnsetType = UNSET
    raw: Raw | UnsetType = UNSET

    @property
    def remote(self) -> bool:
        """Somebody has to fetch it."""
        return self.url[:5].lower() != "data:"


class AudioPart(Struct, frozen=True, kw_only=True, tag_field="kind", tag="audio", gc=False):
    """data: base64. format: `wav` or `mp3`."""

    data: str
    format: str
    raw: Raw | UnsetType = UNSET


class OpaquePart(Struct, frozen=True, kw_only=True, tag_field="kind", tag="opaque", gc=False):
    """A part whose type we do not know; sent on to OpenAI dialects, refused by name elsewhere."""

    type: str
    raw: Raw


Part = TextPart | ImagePart | AudioPart | OpaquePart


class ToolCall(Struct, frozen=True, kw_only=True, gc=False):
    """arguments: JSON text as the model wrote it; never empty in an answer (`{}` at the least).

    signature: the vendor's proof of the thinking that led to the call (Gemini's).
    """

    id: str
    name: str
    arguments: str
    signature: str = ""


class Thought(Struct, frozen=True, kw_only=True, gc=False):
    """One block of an answer's thinking, which must come back unchanged with the next turn.

    signature: the vendor's proof. data: a thought that only the vendor can read, as it gave it.
    format:    whose proof or data it is, by OpenRouter's names (`anthropic-claude-v1`); "" unknown.
    """

    text: str = ""
    signature: str = ""
    data: str = ""
    format: str = ""

    @property
    def proof_format(self) -> str:
        """Whose proof or data it is. One without a format is taken for Claude's.

        Of the vendors that check proofs, only Claude's come without: see `reasoning_signature`.
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
    reasoning:    earlier thinking handed back by the client (`reasoning` or `reasoning_content`).
    signature:    the vendor's proof that came with that thinking (`reasoning_signature`).
    thoughts:     the same block by block (`reasoning_details`); read them with `thoughts_of`.
    tool_call_id: for role `tool`, the call that this answers.
    raw:          the whole message as sent.
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


class FunctionTool(Struct, frozen=True, kw_only=True, tag_field="kind", tag="function", gc=False):
    """parameters: a JSON schema, `UNSET` for a function without parameters."""

    name: str
    description: str | UnsetType = UNSET
    parameters: Raw | UnsetType = UNSET
    strict: bool | None | UnsetType = UNSET
    raw: Raw | UnsetType = UNSET


class OpaqueTool(Struct, frozen=True, kw_only=True, tag_field="kind", tag="opaque", gc=False):
    """A tool whose type we do not know; treated like `OpaquePart`."""

    type: str
    raw: Raw


Tool = FunctionTool | OpaqueTool


class ToolChoice(Struct, frozen=True, kw_only=True, gc=False):
    """mode `named` goes with `name`; `opaque` is a form we do not know, in `raw` alone."""

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
    """The message's text parts, joined; other parts are left out."""
    content = message.content
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    return "".join(part.text for part in content if isinstance(part, TextPart))


def thoughts_of(message: Message) -> tuple[Thought, ...]:
    """The message's thinking, block by block; one block where the client handed back only text."""
    if message.thoughts:
        return message.thoughts
    if message.reasoning or message.signature:
        return (Thought(text=message.reasoning or "", signature=message.signature or ""),)
    return ()


def provable_thoughts(message: Message, formats: Collection[str]) -> tuple[Thought, ...]:
    """The message's thoughts for a vendor that checks proofs, and refuses those of other vendors.

    formats: its own. Of other vendors' thoughts the text is left; what they encrypted is not.
    """
    found: list[Thought] = []
    for thought in thoughts_of(message):
        if thought.kind == "text" or thought.proof_format in formats:
            found.append(thought)
        elif not thought.data:
            found.append(Thought(text=thought.text))
    return tuple(found)


def thinking_of(message: Message) -> str:
    """The text of the message's thoughts, joined; "" where none can be read."""
    return message.reasoning or "".join([thought.text for thought in message.thoughts])
