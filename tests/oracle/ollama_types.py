"""The bodies of Ollama's requests, of which its client also takes untyped parts.

https://github.com/ollama/ollama/blob/main/docs/api.md
"""

from collections.abc import Sequence
from typing import Literal

import ollama
from pydantic import BaseModel


class Message(ollama.Message):
    """The client has an object for an image, which becomes base64 when it is sent."""

    images: Sequence[str] | None = None  # pyright: ignore[reportIncompatibleVariableOverride]


class _Request(BaseModel):
    model: str
    stream: bool | None = None
    options: ollama.Options | None = None
    keep_alive: float | str | None = None
    format: Literal["", "json"] | dict[str, object] | None = None
    think: bool | Literal["low", "medium", "high", "max"] | None = None


class ChatRequest(_Request):
    messages: Sequence[Message]
    tools: Sequence[ollama.Tool] | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None


class GenerateRequest(_Request):
    prompt: str | None = None
    suffix: str | None = None
    system: str | None = None
    template: str | None = None
    raw: bool | None = None
    images: Sequence[str] | None = None


class EmbedRequest(BaseModel):
    model: str
    input: str | Sequence[str]
    truncate: bool | None = None
    dimensions: int | None = None
    options: ollama.Options | None = None
