"""Estimate the tokens of a conversation where nothing counts them.

Text is measured by its characters, images by the formulas that vendors publish, documents by their
pages. Within 20 % of a tokenizer's count for English, code and Chinese in chats of agents; further
off for other scripts, and for vocabularies of small models.
https://platform.claude.com/docs/en/build-with-claude/vision#calculate-image-costs
https://platform.openai.com/docs/guides/images-vision#calculating-costs
https://ai.google.dev/gemini-api/docs/tokens#multimodal-tokens
"""

import base64
import binascii
import re
from collections.abc import Callable
from math import ceil
from typing import Final

from msgspec import Raw

from strowger_gateway.gateway.surfaces.token_estimate.image_size import image_size
from strowger_gateway.schemas.messages import (
    AudioPart,
    FunctionTool,
    ImagePart,
    Message,
    OpaquePart,
    Part,
    TextPart,
    Tool,
    thinking_of,
)
from strowger_gateway.schemas.requests import ChatRequest

PER_MESSAGE: Final = 4
PER_TOOL: Final = 12
"""Tokens of the words that a template puts around a message, and around a tool."""

UNKNOWN_IMAGE: Final = 1_000
"""Of an image whose size is not in the request."""

PER_PAGE: Final = 2_000
"""Of a page of a PDF: its text, and its image."""

PAGE_BYTES: Final = 100_000
"""Of a page of a PDF that is not opened, in base64."""

BYTES_PER_AUDIO_TOKEN: Final = 500
"""Of compressed speech at 16 kB/s and 32 tokens per second."""

_RUN: Final = 1.5
"""Characters that a pair of spaces does not count, because a run of them is one token."""

_PAGE: Final = re.compile(rb"/Type\s*/Page\b")


def text_tokens(text: str) -> float:
    """Return the tokens of a text: 4 characters of English each, 2 of other alphabets, 1 of CJK."""
    length = len(text) - _RUN * text.count("  ")
    if text.isascii():
        return length / 4
    # The bytes that UTF-8 has per character distinguish the scripts, without a look at each.
    narrow = len(text.encode("ascii", "ignore"))
    others = len(text) - narrow
    wide = len(text.encode("utf-8", "surrogatepass")) - narrow - 2 * others
    return wide + (others - wide) / 2 + (length - others) / 4


def estimated_input(request: ChatRequest, model: str, *, quickly: bool = False) -> int:
    """Return about how many tokens the backend's model reads.

    model: the provider's name. quickly: documents are not opened: fast enough for the event loop.
    """
    image = _by_model(model)
    total = sum([_message(one, image, quickly) for one in request.messages])
    total += sum([_tool(one) for one in request.tools or ()])
    form = request.response_format
    schema = getattr(form, "schema", None)
    if isinstance(schema, Raw):
        total += _json(schema)
    return max(1, ceil(total))


def message_tokens(one: Message, model: str) -> float:
    """Return about how many tokens one message has. model: as above."""
    return _message(one, _by_model(model), quickly=True)


def _message(one: Message, image: Callable[[int, int], float], quickly: bool) -> float:
    total: float = PER_MESSAGE
    if one.thoughts or one.reasoning:
        total += text_tokens(thinking_of(one))
    if isinstance(one.content, str):
        total += text_tokens(one.content)
    else:
        total += sum([_part(part, image, quickly) for part in one.content or ()])
    for call in one.tool_calls:
        total += PER_MESSAGE + text_tokens(call.name) + text_tokens(call.arguments)
    return total


def _part(part: Part, image: Callable[[int, int], float], quickly: bool) -> float:
    match part:
        case TextPart():
            return text_tokens(part.text)
        case ImagePart():
            size = None if part.remote else image_size(part.url)
            return UNKNOWN_IMAGE if size is None else image(*size)
        case AudioPart():
            return len(part.data) * 3 / 4 / BYTES_PER_AUDIO_TOKEN
        case OpaquePart():
            return _document(part.raw, quickly)


def _document(raw: Raw, quickly: bool) -> float:
    """Return the tokens of a file by its pages or its text, and of anything else by its JSON."""
    if quickly and len(memoryview(raw)) > PAGE_BYTES:
        return len(memoryview(raw)) / PAGE_BYTES * PER_PAGE
    text = bytes(raw)
    begin = text.find(b";base64,")
    if begin < 0:
        return _json(raw)
    kind = text[:begin].rpartition(b"data:")[2]
    encoded = text[begin + len(b";base64,") :].partition(b'"')[0]
    try:
        data = base64.b64decode(encoded, validate=True)
    except binascii.Error:
        return PER_PAGE
    if kind == b"application/pdf":
        return max(1, len(_PAGE.findall(data))) * PER_PAGE
    return text_tokens(data.decode("utf-8", "replace"))


def _tool(tool: Tool) -> float:
    if not isinstance(tool, FunctionTool):
        return PER_TOOL + _json(tool.raw)
    about = tool.description or ""
    schema = _json(tool.parameters) if isinstance(tool.parameters, Raw) else 0
    return PER_TOOL + text_tokens(tool.name) + text_tokens(about) + schema


def _json(raw: Raw) -> float:
    return text_tokens(bytes(raw).decode("utf-8", "replace"))


def _by_model(model: str) -> Callable[[int, int], float]:
    """Return how the model's vendor counts an image of so many pixels."""
    name = model.lower()
    if "claude" in name:
        return _claudes
    return _geminis if "gemini" in name else _openais


def _claudes(width: int, height: int) -> float:
    """One token per 750 pixels, after the image is reduced to 1,568 pixels and 1,600 tokens."""
    scale = min(1.0, 1568 / max(width, height, 1))
    return min(width * scale * height * scale / 750, 1600)


def _openais(width: int, height: int) -> float:
    """85 tokens, and 170 per tile of 512 pixels after the reduction to 2,048 by 768 pixels."""
    scale = min(1.0, 2048 / max(width, height, 1))
    scale *= min(1.0, 768 / max(min(width, height) * scale, 1))
    return 85 + 170 * ceil(width * scale / 512) * ceil(height * scale / 512)


def _geminis(width: int, height: int) -> float:
    """258 tokens, or so many per tile of 768 pixels if a side has more than 384."""
    if max(width, height) <= 384:
        return 258
    return 258 * ceil(width / 768) * ceil(height / 768)
