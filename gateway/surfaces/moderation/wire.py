"""The bodies of moderation. A null counts as absent.

https://platform.openai.com/docs/api-reference/moderations/create,
https://docs.mistral.ai/api/endpoint/classifiers
"""

from typing import Final, Literal

from msgspec import Struct

from strowger_gateway.gateway.surfaces.decoding import MODEL_NAME
from strowger_gateway.gateway.surfaces.openai.wire import Model, Seconds


class ModeratedText(Struct, frozen=True, kw_only=True, tag_field="type", tag="text", gc=False):
    text: str


class ImageAddress(Struct, frozen=True, kw_only=True, gc=False):
    """url: https, or a `data:` URI."""

    url: str


class ModeratedImage(
    Struct, frozen=True, kw_only=True, tag_field="type", tag="image_url", gc=False
):
    image_url: ImageAddress


ModeratedPart = ModeratedText | ModeratedImage


class ModerationWire(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """input: a text; texts, each judged by itself; or texts and images, judged together.

    stream: not true, as the answer is always whole.
    """

    input: str | tuple[str | ModeratedPart, ...]
    model: Model | None = None
    stream: bool | None = None
    user: str | None = None
    timeout: Seconds | None = None


class Said(Struct, frozen=True, kw_only=True, gc=False):
    """A message of a conversation."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str | tuple[ModeratedText, ...] | None = None


class ChatModerationWire(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """input: a conversation, or several. The last message of each is judged. Mistral's."""

    input: tuple[Said | tuple[Said, ...], ...]
    model: Model | None = None
    stream: bool | None = None
    user: str | None = None
    timeout: Seconds | None = None


_PARTS: Final = "a string, a list of strings, or a list of parts of type text and image_url"

ALLOWED: Final[dict[str, str]] = {
    "model": MODEL_NAME,
    "input": _PARTS,
    "input[]": "a string, or a part of type text or image_url",
    "stream": "true or false",
    "timeout": "seconds, a number above 0 and up to 3600",
}
CHAT_ALLOWED: Final[dict[str, str]] = {
    **ALLOWED,
    "input": "a list of messages, or a list of lists of messages",
    "input[]": "a message, or a list of messages",
    "input[].role": "system, user, assistant or tool",
}


class JudgedInput(Struct, frozen=True, kw_only=True):
    """The maps have OpenAI's categories, and the backend's own.

    categories: whether the input is of each. category_scores: how certain that is, 0 … 1.
    category_applied_input_types: what was read for each, text or image; [] for one that the
    backend does not have.
    """

    flagged: bool
    categories: dict[str, bool]
    category_scores: dict[str, float]
    category_applied_input_types: dict[str, tuple[str, ...]]


class ModerationBody(Struct, frozen=True, kw_only=True):
    """One result per input, in order."""

    id: str
    model: str
    results: list[JudgedInput]
