"""Cohere's API, version 2: chat, embeddings and reranking.

The base URL is the server's own; a trailing `/v1` or `/v2` is ignored. `model` in the
configuration may be `NAME/INPUT_TYPE` for embeddings.
https://docs.cohere.com/reference/about
"""

from collections.abc import Mapping
from typing import ClassVar

import msgspec
from msgspec import Raw, Struct, field

from strowger_gateway.adapters.base import READABLE, Endpoint, Outbound, Range, Supports
from strowger_gateway.adapters.client_fields.denied import withheld
from strowger_gateway.adapters.cohere.decode import CohereDecoder
from strowger_gateway.adapters.cohere.encode import (
    LARGEST_BATCH,
    SAMPLING,
    chat_body,
    embeddings_body,
)
from strowger_gateway.adapters.cohere.repairs import COHERE_REPAIRS
from strowger_gateway.adapters.errors import error_from, unreadable
from strowger_gateway.adapters.http_json import HttpJsonAdapter, base_path
from strowger_gateway.adapters.json_objects import NULL, UNREADABLE
from strowger_gateway.adapters.tasks import rerank
from strowger_gateway.adapters.tasks.form import AnyTaskForm
from strowger_gateway.adapters.tasks.score import score_by
from strowger_gateway.schemas.answers import Embeddings
from strowger_gateway.schemas.errors import GatewayError
from strowger_gateway.schemas.events import Usage
from strowger_gateway.schemas.requests import (
    ChatRequest,
    EmbeddingsRequest,
    GenerateRequest,
    Request,
)
from strowger_gateway.schemas.tasks.task import TaskRequest

INVALID_TOKEN = 498
"""Cohere's own status for an invalid or expired key."""

SUPPORTS = Supports(
    client_fields=withheld("cohere"),
    chat=frozenset(
        {
            *SAMPLING,
            "tools",
            "tool_choice",
            "response_format",
            "reasoning_effort",
            "messages.image",
            "messages.remote_image",
        }
    ),
    embeddings=frozenset({"dimensions"}),
    inputs=LARGEST_BATCH,
    repairs=COHERE_REPAIRS,
    extra_fields={
        "chat": frozenset(
            {"documents", "citation_options", "safety_mode", "strict_tools", "thinking"}
        ),
        "embeddings": frozenset({"input_type", "truncate", "max_tokens", "priority"}),
    },
    thoughts=READABLE,
    ranges={
        "max_tokens": Range(minimum=1),
        "temperature": Range(minimum=0),
        "top_p": Range(minimum=0.01, maximum=1),
        "top_k": Range(minimum=1, maximum=500),
        "seed": Range(minimum=0, maximum=2**64 - 1),
        "stop": Range(items=5),
        "presence_penalty": Range(minimum=0, maximum=1),
        "frequency_penalty": Range(minimum=0, maximum=1),
    },
    translated={
        "chat": {
            **{field: wire for field, wire in SAMPLING.items() if field != wire},
            "tool_choice": "tool_choice (in capitals)",
            "response_format": "response_format.json_schema",
            "reasoning_effort": "thinking",
        },
        "embeddings": {"dimensions": "output_dimension"},
    },
)


class _Vectors(Struct, frozen=True, kw_only=True):
    floats: tuple[list[float], ...] | None = field(name="float", default=None)


class _Embedded(Struct, frozen=True, kw_only=True):
    embeddings: _Vectors
    id: str = ""
    meta: Raw = NULL


class _Units(Struct, frozen=True, kw_only=True):
    input_tokens: float | None = None


class _Meta(Struct, frozen=True, kw_only=True):
    billed_units: _Units | None = None


_embedded = msgspec.json.Decoder(_Embedded).decode
_meta = msgspec.json.Decoder(_Meta).decode


class CohereAdapter(HttpJsonAdapter):
    """Chat, embeddings and reranking; version 2 has no completions."""

    name: ClassVar[str] = "cohere"
    tasks: ClassVar[tuple[AnyTaskForm, ...]] = (rerank.COHERE, score_by(rerank.COHERE))
    base_url: ClassVar[str] = "https://api.cohere.com"

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint, SUPPORTS, f"{base_path(endpoint, '/v1', '/v2')}/v2")

    def encode(self, request: Request, model: str) -> Outbound:
        match request:
            case ChatRequest():
                return self._outbound("/chat", chat_body(request, model), stream=request.stream)
            case EmbeddingsRequest():
                return self._outbound("/embed", embeddings_body(request, model))
            case TaskRequest():
                return self._task_outbound(request, model)
            case _:
                raise self._not_offered(request)

    def decoder(self, request: GenerateRequest) -> CohereDecoder:
        if not isinstance(request, ChatRequest):
            raise self._not_offered(request)
        return CohereDecoder(self._endpoint, stream=request.stream)

    def embeddings(self, request: EmbeddingsRequest, body: bytes) -> Embeddings:
        try:
            answer = _embedded(body)
        except UNREADABLE as exc:
            raise unreadable(self._endpoint, body) from exc
        vectors = answer.embeddings.floats or ()
        self._check_count(vectors, request)
        return Embeddings(vectors=vectors, id=answer.id, usage=_billed(answer.meta))

    def error(self, status: int, headers: Mapping[str, str], body: bytes) -> GatewayError:
        return error_from(self._endpoint, 401 if status == INVALID_TOKEN else status, headers, body)


def _billed(raw: Raw) -> Usage:
    """Read usage; embeddings report only billed tokens."""
    try:
        units = _meta(raw).billed_units
    except UNREADABLE:
        return Usage()
    count = None if units is None or units.input_tokens is None else int(units.input_tokens)
    return Usage(prompt_tokens=count, total_tokens=count, raw=raw.copy())
