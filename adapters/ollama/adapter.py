"""Ollama's native API: chat, completions (`/api/generate`) and embeddings (`/api/embed`).

The base URL is the server's own; a trailing `/v1` or `/api` is ignored. A key is for a proxy in
front, or for ollama.com.
https://github.com/ollama/ollama/blob/main/docs/api.md
"""

from collections.abc import Mapping
from typing import ClassVar, assert_never
from urllib.parse import urlsplit

import msgspec
from msgspec import Raw, Struct

from adapters.base import READABLE, Endpoint, Framing, Outbound, Range, Supports
from adapters.client_fields.denied import withheld
from adapters.errors import error_from, error_inside
from adapters.ollama.decode import OllamaDecoder, usage_from
from adapters.ollama.encode import OPTIONS, chat_body, completion_body, embeddings_body
from adapters.ollama.repairs import OLLAMA_REPAIRS
from adapters.openai.adapter import merged_headers
from adapters.openai.wire import NULL, UNREADABLE
from schemas.answers import Embeddings
from schemas.errors import GatewayError, InvalidRequest, UpstreamBroken
from schemas.requests import (
    ChatRequest,
    CompletionRequest,
    EmbeddingsRequest,
    GenerateRequest,
    Request,
    TokenRequest,
)

SAMPLING = frozenset({*OPTIONS, "logprobs", "top_logprobs"})
CHAT = SAMPLING | {"tools", "response_format", "reasoning_effort", "messages.image"}
COMPLETION = SAMPLING | {"suffix", "template"}
EMBEDDINGS = frozenset({"dimensions"})

OWN = frozenset({"options", "keep_alive", "truncate"})
"""Ollama's own fields, sent unchanged."""

UNDER_OPTIONS = {field: f"options.{wire}" for field, wire in OPTIONS.items()}

SUPPORTS = Supports(
    client_fields=withheld("ollama"),
    chat=CHAT,
    completion=COMPLETION,
    embeddings=EMBEDDINGS,
    extra_fields={
        "chat": OWN | {"think", "shift"},
        "completion": OWN | {"think", "shift", "format", "images"},
        "embeddings": OWN,
    },
    thoughts=READABLE,
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


class OllamaAdapter:
    """Chat, completions and embeddings; no tokens, because the server's APIs are text only."""

    name: ClassVar[str] = "ollama"
    framing: ClassVar[Framing] = "ndjson"

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        path = urlsplit(endpoint.base_url).path.rstrip("/")
        self._base = path.removesuffix("/v1").removesuffix("/api")
        key = endpoint.key.reveal()
        credentials = (("authorization", f"Bearer {key}"),) if key else ()
        self._headers = {
            stream: merged_headers(
                credentials,
                (("content-type", "application/json"), ("accept", kind)),
                endpoint.headers,
            )
            for stream, kind in ((False, "application/json"), (True, "application/x-ndjson"))
        }

    @property
    def supports(self) -> Supports:
        return SUPPORTS

    def encode(self, request: Request, model: str) -> Outbound:
        contexts = self._endpoint.contexts
        context = contexts.get(model, contexts.get("*"))
        match request:
            case ChatRequest():
                body = chat_body(request, model, context)
                return self._outbound("chat", body, stream=request.stream)
            case CompletionRequest():
                body = completion_body(request, model, context)
                return self._outbound("generate", body, stream=request.stream)
            case EmbeddingsRequest():
                body = embeddings_body(request, model, context)
                return self._outbound("embed", body, stream=False)
            case TokenRequest():
                raise InvalidRequest(f"{self._endpoint.name} does not offer tokens", param="model")
        assert_never(request)

    def decoder(self, request: GenerateRequest) -> OllamaDecoder:
        return OllamaDecoder(self._endpoint)

    def embeddings(self, request: EmbeddingsRequest, body: bytes) -> Embeddings:
        try:
            answer = _vectors(body)
        except UNREADABLE as exc:
            head = body[:80].decode(errors="replace")
            raise self._broken(f"cannot read the answer: {head}") from exc
        if answer.error != NULL:
            raise error_inside(self._endpoint, body)
        vectors = answer.embeddings or ()
        if len(vectors) != len(request.inputs):
            raise self._broken(f"{len(vectors)} vectors for {len(request.inputs)} inputs")
        return Embeddings(vectors=vectors, model=answer.model, usage=usage_from(body))

    def error(self, status: int, headers: Mapping[str, str], body: bytes) -> GatewayError:
        return error_from(self._endpoint, status, headers, body)

    def _outbound(self, route: str, body: bytes, *, stream: bool) -> Outbound:
        return Outbound(
            target=f"{self._base}/api/{route}",
            headers=self._headers[stream],
            body=body,
            stream=stream,
        )

    def _broken(self, problem: str) -> UpstreamBroken:
        return UpstreamBroken(problem, upstream=self._endpoint.name)
