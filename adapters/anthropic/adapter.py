"""Anthropic's Messages API: chat only; it has neither embeddings nor completions.

The API requires `max_tokens`, so every request must have it. The base URL is the server's own; a
trailing `/v1` is ignored. The operator's headers (`anthropic-beta`, another `anthropic-version`,
`authorization`) replace ours. Requests use version 2023-06-01, the last one with sampling
parameters: later ones accept no temperature, top_p or top_k.
https://docs.anthropic.com/en/api/messages
https://platform.claude.com/docs/en/api/versioning
"""

from collections.abc import Mapping
from typing import ClassVar
from urllib.parse import urlsplit

import msgspec

from strowger_gateway.adapters.anthropic.claude_models import takes_prefill
from strowger_gateway.adapters.anthropic.decode import AnthropicDecoder
from strowger_gateway.adapters.anthropic.encode import (
    BETA,
    SAMPLING,
    betas,
    count_body,
    messages_body,
)
from strowger_gateway.adapters.anthropic.errors import error_from
from strowger_gateway.adapters.anthropic.json_object import json_tool
from strowger_gateway.adapters.anthropic.original_fields import DIALECT, is_native
from strowger_gateway.adapters.anthropic.repairs import ANTHROPIC_REPAIRS
from strowger_gateway.adapters.base import (
    EVERY_MODEL,
    PROVEN,
    Ceilings,
    Continues,
    Endpoint,
    Framing,
    Outbound,
    Range,
    Supports,
)
from strowger_gateway.adapters.client_fields.denied import withheld
from strowger_gateway.adapters.headers import Headers, accept, merged_headers
from strowger_gateway.adapters.token_count import counted
from strowger_gateway.schemas.answers import Embeddings
from strowger_gateway.schemas.errors import GatewayError, InvalidRequest
from strowger_gateway.schemas.fields import task_of
from strowger_gateway.schemas.messages import CLAUDE
from strowger_gateway.schemas.requests import (
    ChatRequest,
    EmbeddingsRequest,
    GenerateRequest,
    Request,
)

VERSION_HEADER = "anthropic-version"
VERSION = "2023-06-01"

CHAT = frozenset(
    {
        *SAMPLING,
        "tools",
        "tools.opaque",
        "tool_choice",
        "parallel_tool_calls",
        "response_format",
        "reasoning_effort",
        "user",
        "messages.image",
        "messages.remote_image",
        "messages.opaque",
    }
)

REMOVED = frozenset({"temperature", "top_p", "top_k"})
"""Fields that versions after `VERSION` reject, whatever the value."""

TRANSLATED = {
    "stop": SAMPLING["stop"],
    "tools": "tools[].input_schema",
    "tool_choice": "tool_choice (an object)",
    "parallel_tool_calls": "tool_choice.disable_parallel_tool_use",
    "response_format": "output_config.format",
    "reasoning_effort": "output_config.effort + thinking or thinking (a budget)",
    "user": "metadata.user_id",
    "messages.image": "messages[].content[].source",
    "messages.remote_image": "messages[].content[].source",
    "messages.opaque": "messages[].content[].source (files; Anthropic's own blocks unchanged)",
}

OWN = frozenset(
    {
        "cache_control",
        "compaction",
        "container",
        "context_management",
        "diagnostics",
        "fallbacks",
        "inference_geo",
        "mcp_servers",
        "output_config",
        "service_tier",
        "speed",
        "thinking",
        "thread",
        "user_profile_id",
        "workspace_id",
    }
)
"""Anthropic's own fields, sent unchanged; some need an entry in `anthropic-beta`."""

CEILINGS = Ceilings(
    by_model={
        "claude-3-": 4_096,
        "claude-3-5-": 8_192,
        "claude-3-7-": 64_000,
        "claude-opus-4": 32_000,
        "claude-opus-4-5": 64_000,
        "claude-opus-4-6": 128_000,
        "claude-opus-4-7": 128_000,
        "claude-sonnet-4": 64_000,
        "claude-haiku-4": 64_000,
    }
)
"""https://docs.anthropic.com/en/docs/about-claude/models/overview; the API takes no request without
`max_tokens`, and refuses one above the model's own ceiling."""

SUPPORTS = Supports(
    client_fields=withheld("anthropic"),
    chat=CHAT,
    extra_fields={"chat": OWN},
    ranges={
        "max_tokens": Range(minimum=1),
        "temperature": Range(minimum=0, maximum=1),
        "top_p": Range(minimum=0, maximum=1),
        "top_k": Range(minimum=1),
    },
    translated={"chat": TRANSLATED},
    requires=frozenset({"max_tokens"}),
    max_tokens=CEILINGS,
    thoughts=PROVEN,
    proofs=frozenset({CLAUDE}),
    dialect=DIALECT,
    continues=Continues(model=takes_prefill, trimmed=True),
    repairs=ANTHROPIC_REPAIRS,
    cache_marks=EVERY_MODEL,
)

LATER = msgspec.structs.replace(
    SUPPORTS,
    chat=CHAT - REMOVED,
    ranges={name: bounds for name, bounds in SUPPORTS.ranges.items() if name not in REMOVED},
)
"""What versions after `VERSION` support."""


class MessagesAdapter:
    """What all addresses of the Messages API share. headers: by whether a stream is requested."""

    framing: ClassVar[Framing] = "sse"

    def __init__(
        self, endpoint: Endpoint, headers: Mapping[bool, Headers], supports: Supports
    ) -> None:
        self._endpoint = endpoint
        self._headers = headers
        self._supports = supports

    @property
    def supports(self) -> Supports:
        return self._supports

    def counted(self, body: bytes) -> int:
        """See TokenCounter."""
        return counted(self._endpoint, body, "input_tokens")

    def embeddings(self, request: EmbeddingsRequest, body: bytes) -> Embeddings:
        raise self._not_offered(request)

    def _headers_for(self, request: ChatRequest) -> Headers:
        """Add the client's `anthropic-beta` to the operator's."""
        headers = self._headers[request.stream]
        if BETA not in request.extra:
            return headers
        merged = dict(headers)
        merged[BETA] = ",".join(filter(None, (merged.get(BETA), betas(request))))
        return tuple(merged.items())

    def _not_offered(self, request: Request) -> InvalidRequest:
        return InvalidRequest(
            f"{self._endpoint.name} does not offer {task_of(request)}", param="model"
        )


class AnthropicAdapter(MessagesAdapter):
    name: ClassVar[str] = "anthropic"
    base_url: ClassVar[str] = "https://api.anthropic.com"

    def __init__(self, endpoint: Endpoint) -> None:
        path = urlsplit(endpoint.base_url).path.rstrip("/").removesuffix("/v1")
        self._target = f"{path}/v1/messages"
        key = endpoint.key.reveal()
        credentials = (("x-api-key", key),) if key else ()
        headers = {
            stream: merged_headers(
                credentials,
                ((VERSION_HEADER, VERSION), *accept(stream)),
                endpoint.headers,
            )
            for stream in (False, True)
        }
        later = dict(headers[False])[VERSION_HEADER] > VERSION
        super().__init__(endpoint, headers, LATER if later else SUPPORTS)

    def encode(self, request: Request, model: str) -> Outbound:
        if not isinstance(request, ChatRequest):
            raise self._not_offered(request)
        return Outbound(
            target=self._target,
            headers=self._headers_for(request),
            body=messages_body(request, model, self._supports.chat or CHAT),
            stream=request.stream,
        )

    def encode_count(self, request: ChatRequest, model: str) -> Outbound:
        """See TokenCounter."""
        return Outbound(
            target=f"{self._target}/count_tokens",
            headers=self._headers_for(request),
            body=count_body(request, model, self._supports.chat or CHAT),
        )

    def decoder(self, request: GenerateRequest) -> AnthropicDecoder:
        return AnthropicDecoder(
            self._endpoint,
            stream=request.stream,
            json_tool=json_tool(request),
            native=is_native(request),
        )

    def error(self, status: int, headers: Mapping[str, str], body: bytes) -> GatewayError:
        return error_from(self._endpoint, status, headers, body)
