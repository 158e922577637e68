"""Ollama's native API: chat, completions (`/api/generate`) and embeddings (`/api/embed`).

The base URL is the server's own; a trailing `/v1` or `/api` is ignored. A key is for a proxy in
front, or for ollama.com.
https://github.com/ollama/ollama/blob/main/docs/api.md
"""

from typing import ClassVar, assert_never

import msgspec
from msgspec import Raw, Struct

from strowger_gateway.adapters.base import READABLE, Endpoint, Framing, Outbound, Range, Supports
from strowger_gateway.adapters.client_fields.denied import withheld
from strowger_gateway.adapters.errors import error_inside, unreadable
from strowger_gateway.adapters.http_json import HttpJsonAdapter, base_path
from strowger_gateway.adapters.json_objects import NULL, UNREADABLE
from strowger_gateway.adapters.ollama.decode import OllamaDecoder, usage_from
from strowger_gateway.adapters.ollama.encode import (
    DIALECT,
    OPTIONS,
    chat_body,
    completion_body,
    embeddings_body,
)
from strowger_gateway.adapters.ollama.repairs import OLLAMA_REPAIRS
from strowger_gateway.schemas.answers import Embeddings
from strowger_gateway.schemas.requests import (
    ChatRequest,
    CompletionRequest,
    EmbeddingsRequest,
    GenerateRequest,
    Request,
    TokenRequest,
)
from strowger_gateway.schemas.tasks.task import TaskRequest

SAMPLING = frozenset({*OPTIONS, "logprobs", "top_logprobs"})
CHAT = SAMPLING | {"tools", "response_format", "reasoning_effort", "messages.image"}
COMPLETION = SAMPLING | {"prompt_template", "suffix", "template"}
EMBEDDINGS = frozenset({"dimensions"})

OWN = frozenset({"options", "keep_alive", "truncate"})
"""Ollama's own fields, sent unchanged."""

PROMPTS = frozenset({"context", "system"})
"""What a client of Ollama's API has next to a prompt that is not a turn."""

UNDER_OPTIONS = {field: f"options.{wire}" for field, wire in OPTIONS.items()}

SUPPORTS = Supports(
    client_fields=withheld("ollama"),
    chat=CHAT,
    completion=COMPLETION,
    embeddings=EMBEDDINGS,
    extra_fields={
        "chat": OWN | {"think", "shift"},
        "completion": OWN | {"think", "shift", "format", "images"} | PROMPTS,
        "embeddings": OWN,
    },
    thoughts=READABLE,
    dialect=DIALECT,
    repairs=OLLAMA_REPAIRS,
    ranges={
        "max_tokens": Range(minimum=1, maximum=2**31 - 1),
        "temperature": Range(minimum=0),
        "top_p": Range(minimum=0, maximum=1),
        "top_k": Range(minimum=1, maximum=2**31 - 1),
        "min_p": Range(minimum=0, maximum=1),
        "typical_p": Range(above=0, maximum=1),
        "seed": Range(minimum=0, maximum=2**32 - 2),
        "repetition_penalty": Range(above=0),
        "top_logprobs": Range(minimum=0, maximum=20),
        "dimensions": Range(minimum=1),
    },
    translated={
        "chat": {
            **UNDER_OPTIONS,
            "response_format": "format",
            "reasoning_effort": "think",
            "messages.image": "messages[].images",
        },
        "completion": {
            **UNDER_OPTIONS,
            "logprobs": "logprobs (true)",
            "top_logprobs": "top_logprobs",
            "suffix": "suffix + raw + think (true and false without it)",
            "prompt_template": "template + raw + think (true and false without it)",
            "template": "raw + think (true and false without it)",
        },
    },
)
"""0 and below mean "no limit" for num_predict and dimensions, and -1 "any" for the seed, of which
the server's runners use 32 bits."""


class _Vectors(Struct, frozen=True, kw_only=True):
    embeddings: tuple[list[float], ...] | None = None
    model: str = ""
    error: Raw = NULL


_vectors = msgspec.json.Decoder(_Vectors).decode


class OllamaAdapter(HttpJsonAdapter):
    """Chat, completions and embeddings; no tokens, because the server's APIs are text only."""

    name: ClassVar[str] = "ollama"
    framing: ClassVar[Framing] = "ndjson"

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint, SUPPORTS, f"{base_path(endpoint, '/v1', '/api')}/api")

    def encode(self, request: Request, model: str) -> Outbound:
        contexts = self._endpoint.contexts
        context = contexts.get(model, contexts.get("*"))
        match request:
            case ChatRequest():
                body = chat_body(request, model, context)
                return self._outbound("/chat", body, stream=request.stream)
            case CompletionRequest():
                body = completion_body(request, model, context)
                return self._outbound("/generate", body, stream=request.stream)
            case EmbeddingsRequest():
                body = embeddings_body(request, model, context)
                return self._outbound("/embed", body)
            case TokenRequest() | TaskRequest():
                raise self._not_offered(request)
        assert_never(request)

    def decoder(self, request: GenerateRequest) -> OllamaDecoder:
        return OllamaDecoder(self._endpoint)

    def embeddings(self, request: EmbeddingsRequest, body: bytes) -> Embeddings:
        try:
            answer = _vectors(body)
        except UNREADABLE as exc:
            raise unreadable(self._endpoint, body) from exc
        if answer.error != NULL:
            raise error_inside(self._endpoint, body)
        vectors = answer.embeddings or ()
        self._check_count(vectors, request)
        return Embeddings(vectors=vectors, model=answer.model, usage=usage_from(body))
