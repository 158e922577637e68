"""Databricks Foundation Model APIs: the OpenAI dialect with a path and a few words of its own.

The serving endpoint is named in the path (`/serving-endpoints/{name}/invocations`) and not in the
body; completions are wrapped in a prompt template unless `use_raw_prompt` says otherwise; `suffix`
is appended to each answer; embedders take an `instruction`. Reasoning comes, and goes back, as a
part in a list of contents. `RANGES` holds the documented bounds, those on tools among them.
https://docs.databricks.com/en/machine-learning/foundation-model-apis/api-reference.html

A base URL that ends in `/serving-endpoints` selects the OpenAI client's paths instead
(`/serving-endpoints/chat/completions`, the endpoint's name in `model`).
"""

from typing import ClassVar
from urllib.parse import quote, urlsplit

import msgspec
from msgspec import UNSET, Raw

from adapters.base import Endpoint, Outbound, Range, Supports, TokenEndpoint
from adapters.catalog import Vendor
from adapters.openai import OpenAIAdapter
from adapters.openai_encode import Body, encode_body, message, part
from adapters.openai_wire import read_object
from adapters.support import TOOL_PROPERTIES
from schemas.messages import Message
from schemas.requests import ChatRequest, CompletionRequest, EmbeddingsRequest, Request

DATABRICKS = Vendor(name="databricks", stream_usage=False)
"""Usage is on every chunk, unasked."""

TOKENS = TokenEndpoint(path="/oidc/v1/token", scope="all-apis")
"""https://docs.databricks.com/en/dev-tools/auth/oauth-m2m.html"""

SAMPLING = frozenset({"max_tokens", "temperature", "top_p", "top_k", "stop", "n"})
CHAT = SAMPLING | {
    "tools",
    "tool_choice",
    "response_format",
    "logprobs",
    "top_logprobs",
    "reasoning_effort",
    "messages.image",
    "messages.opaque",
}
COMPLETION = SAMPLING | {
    "echo",
    "append_suffix",
    "template",
    "error_behavior",
    "prompt.batch",
}
EMBEDDINGS = frozenset({"instruction"})

RANGES = {
    "tools": Range(items=32),
    TOOL_PROPERTIES: Range(maximum=15),
    "temperature": Range(minimum=0, maximum=2),
    "top_p": Range(above=0, maximum=1),
    "top_k": Range(minimum=1),
    "max_tokens": Range(minimum=1),
    "top_logprobs": Range(minimum=0, maximum=20),
}

OPENAI_PATHS = "/serving-endpoints"

_THOUGHTS = ("reasoning", "reasoning_content", "reasoning_signature")


class DatabricksAdapter(OpenAIAdapter):
    name: ClassVar[str] = "databricks"

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint, DATABRICKS)
        self._base = urlsplit(endpoint.base_url).path.rstrip("/")
        self._by_path = not self._base.endswith(OPENAI_PATHS)

    def encode(self, request: Request, model: str) -> Outbound:
        if isinstance(request, ChatRequest):
            request = msgspec.structs.replace(
                request,
                messages=tuple(_rewritten(one) for one in request.messages),
                max_tokens_field="max_tokens",
            )
        outbound = super().encode(request, model)
        if not self._by_path:
            return outbound
        return msgspec.structs.replace(
            outbound,
            target=f"{self._base}{OPENAI_PATHS}/{quote(model, safe='')}/invocations",
        )

    def finish_body(self, body: Body, request: Request) -> bytes:
        if self._by_path:
            del body["model"]
        match request:
            case CompletionRequest():
                if not request.template:
                    body["use_raw_prompt"] = True
                if request.append_suffix is not UNSET:
                    body["suffix"] = request.append_suffix
                if request.error_behavior is not UNSET:
                    body["error_behavior"] = request.error_behavior
            case EmbeddingsRequest():
                if request.instruction is not UNSET:
                    body["instruction"] = request.instruction
            case _:
                pass
        return encode_body(body)

    def supported(self) -> Supports:
        return Supports(
            chat=CHAT, completion=COMPLETION, embeddings=EMBEDDINGS, extra=True, ranges=RANGES
        )


def _rewritten(one: Message) -> Message:
    """A developer speaks as the system; an assistant's reasoning becomes a part of its content."""
    thoughts = one.role == "assistant" and (one.reasoning or one.signature)
    if one.role != "developer" and not thoughts:
        return one
    fields: Body = {**read_object(one.raw)} if isinstance(one.raw, Raw) else message(one)
    for name in _THOUGHTS:
        fields.pop(name, None)
    if one.role == "developer":
        fields["role"] = "system"
    if thoughts:
        fields["content"] = [_reasoning(one), *_parts(one)]
    return msgspec.structs.replace(one, raw=Raw(encode_body(fields)))


def _reasoning(one: Message) -> Body:
    summary: Body = {"type": "summary_text", "text": one.reasoning or ""}
    if one.signature:
        summary["signature"] = one.signature
    return {"type": "reasoning", "summary": [summary]}


def _parts(one: Message) -> list[Raw | Body]:
    if isinstance(one.content, tuple):
        return [part(piece) for piece in one.content]
    return [{"type": "text", "text": one.content}] if one.content else []
