"""Cloudflare Workers AI by its native route, `/ai/run/MODEL`: chat, completions and embeddings.

The model is part of the path, every answer is in an envelope with `success` and `errors`, and
failures have Cloudflare's own codes. The base URL contains the account,
`https://api.cloudflare.com/client/v4/accounts/ACCOUNT/ai`, so there is no default.
https://developers.cloudflare.com/workers-ai/get-started/rest-api/
"""

from collections.abc import Mapping
from typing import ClassVar
from urllib.parse import quote, urlsplit

import msgspec
from msgspec import Struct

from strowger_gateway.adapters.base import Endpoint, Framing, Outbound, Range, Supports
from strowger_gateway.adapters.errors import error_from
from strowger_gateway.schemas.answers import Embeddings
from strowger_gateway.schemas.errors import GatewayError, InvalidRequest, UpstreamBroken
from strowger_gateway.schemas.fields import task_of
from strowger_gateway.schemas.requests import (
    ChatRequest,
    CompletionRequest,
    EmbeddingsRequest,
    GenerateRequest,
    Request,
)
from strowger_workers_ai.decode import UNREADABLE, WorkersAiDecoder
from strowger_workers_ai.encode import LARGEST_BATCH, SAMPLING, body_of
from strowger_workers_ai.failures import meant_status

SUPPORTS = Supports(
    chat=frozenset({*SAMPLING, "tools", "response_format"}),
    completion=frozenset({*SAMPLING, "template"}),
    embeddings=frozenset[str](),
    inputs=LARGEST_BATCH,
    translated={
        "chat": {
            "tools": "tools (each with a description)",
            "response_format": "response_format.json_schema",
        },
        "completion": {"template": "raw"},
    },
    extra_fields={
        "chat": frozenset({"lora"}),
        "completion": frozenset({"lora"}),
        "embeddings": frozenset({"pooling"}),
    },
    ranges={
        "max_tokens": Range(minimum=1),
        "temperature": Range(minimum=0, maximum=5),
        "top_p": Range(minimum=0.001, maximum=1),
        "top_k": Range(minimum=1, maximum=50),
        "seed": Range(minimum=1, maximum=9_999_999_999),
        "repetition_penalty": Range(minimum=0, maximum=2),
        "frequency_penalty": Range(minimum=-2, maximum=2),
        "presence_penalty": Range(minimum=-2, maximum=2),
    },
)
"""Bounds: https://developers.cloudflare.com/workers-ai/models/llama-3.3-70b-instruct-fp8-fast/"""


class _Vectors(Struct, frozen=True, kw_only=True):
    data: tuple[list[float], ...]


class _Embedded(Struct, frozen=True, kw_only=True):
    result: _Vectors


_embedded = msgspec.json.Decoder(_Embedded).decode


class WorkersAiAdapter:
    """One account; its key is an API token with the permission Workers AI."""

    name: ClassVar[str] = "workers-ai"
    framing: ClassVar[Framing] = "sse"

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._run = f"{urlsplit(endpoint.base_url).path.rstrip('/')}/run"
        self._headers = {stream: _headers(endpoint, stream=stream) for stream in (False, True)}

    @property
    def supports(self) -> Supports:
        return SUPPORTS

    def encode(self, request: Request, model: str) -> Outbound:
        stream = not isinstance(request, EmbeddingsRequest) and request.stream
        return Outbound(
            target=f"{self._run}/{quote(model, safe='/@')}",
            headers=self._headers[stream],
            body=body_of(request),
            stream=stream,
        )

    def decoder(self, request: GenerateRequest) -> WorkersAiDecoder:
        if not isinstance(request, ChatRequest | CompletionRequest):
            task = task_of(request)
            raise InvalidRequest(f"{self._endpoint.name} does not offer {task}", param="model")
        return WorkersAiDecoder(self._endpoint, request)

    def embeddings(self, request: EmbeddingsRequest, body: bytes) -> Embeddings:
        try:
            vectors = _embedded(body).result.data
        except UNREADABLE as exc:
            raise self._broken(f"cannot read the answer: {body[:80]!r}") from exc
        if len(vectors) != len(request.inputs):
            raise self._broken(f"{len(vectors)} vectors for {len(request.inputs)} inputs")
        return Embeddings(vectors=vectors)

    def error(self, status: int, headers: Mapping[str, str], body: bytes) -> GatewayError:
        return error_from(self._endpoint, meant_status(body) or status, headers, body)

    def _broken(self, problem: str) -> UpstreamBroken:
        return UpstreamBroken(problem, upstream=self._endpoint.name)


def _headers(endpoint: Endpoint, *, stream: bool) -> tuple[tuple[str, str], ...]:
    """The operator's own headers come last and take precedence."""
    headers = {
        "content-type": "application/json",
        "accept": "text/event-stream" if stream else "application/json",
    }
    if endpoint.key:
        headers["authorization"] = f"Bearer {endpoint.key.reveal()}"
    headers.update((name.lower(), value) for name, value in endpoint.headers)
    return tuple(headers.items())
