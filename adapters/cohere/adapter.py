"""Cohere's API, version 2: chat and embeddings.

The base URL is the server's own; a trailing `/v1` or `/v2` is ignored. `model` in the
configuration may be `NAME/INPUT_TYPE` for embeddings.
https://docs.cohere.com/reference/about
"""

from collections.abc import Mapping
from typing import ClassVar
from urllib.parse import urlsplit

import msgspec
from msgspec import Raw, Struct, field

from adapters.base import READABLE, Endpoint, Framing, Outbound, Range, Supports
from adapters.client_fields.denied import withheld
from adapters.cohere.decode import CohereDecoder
from adapters.cohere.encode import LARGEST_BATCH, SAMPLING, chat_body, embeddings_body
from adapters.cohere.repairs import COHERE_REPAIRS
from adapters.errors import error_from
from adapters.openai.adapter import accept, merged_headers
from adapters.openai.wire import NULL, UNREADABLE
from schemas.answers import Embeddings
from schemas.errors import GatewayError, InvalidRequest, UpstreamBroken
from schemas.events import Usage
from schemas.fields import task_of
from schemas.requests import ChatRequest, EmbeddingsRequest, GenerateRequest, Request

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


class CohereAdapter:
    """Chat and embeddings; version 2 has no completions."""

    name: ClassVar[str] = "cohere"
    base_url: ClassVar[str] = "https://api.cohere.com"
    framing: ClassVar[Framing] = "sse"

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        path = urlsplit(endpoint.base_url).path.rstrip("/")
        self._base = path.removesuffix("/v1").removesuffix("/v2")
        credentials = (("authorization", f"Bearer {endpoint.key.reveal()}"),)
        self._headers = {
            stream: merged_headers(
                credentials if endpoint.key.reveal() else (), accept(stream), endpoint.headers
            )
            for stream in (False, True)
        }

    @property
    def supports(self) -> Supports:
        return SUPPORTS

    def encode(self, request: Request, model: str) -> Outbound:
        match request:
            case ChatRequest():
                return self._outbound("chat", chat_body(request, model), stream=request.stream)
            case EmbeddingsRequest():
                return self._outbound("embed", embeddings_body(request, model), stream=False)
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
            head = body[:80].decode(errors="replace")
            raise self._broken(f"cannot read the answer: {head}") from exc
        vectors = answer.embeddings.floats or ()
        if len(vectors) != len(request.inputs):
            raise self._broken(f"{len(vectors)} vectors for {len(request.inputs)} inputs")
        return Embeddings(vectors=vectors, id=answer.id, usage=_billed(answer.meta))

    def error(self, status: int, headers: Mapping[str, str], body: bytes) -> GatewayError:
        return error_from(self._endpoint, 401 if status == INVALID_TOKEN else status, headers, body)

    def _outbound(self, route: str, body: bytes, *, stream: bool) -> Outbound:
        return Outbound(
            target=f"{self._base}/v2/{route}",
            headers=self._headers[stream],
            body=body,
            stream=stream,
        )

    def _not_offered(self, request: Request) -> InvalidRequest:
        name, task = self._endpoint.name, task_of(request)
        return InvalidRequest(f"{name} does not offer {task}", param="model")

    def _broken(self, problem: str) -> UpstreamBroken:
        return UpstreamBroken(problem, upstream=self._endpoint.name)


def _billed(raw: Raw) -> Usage:
    """Read usage; embeddings report only billed tokens."""
    try:
        units = _meta(raw).billed_units
    except UNREADABLE:
        return Usage()
    count = None if units is None or units.input_tokens is None else int(units.input_tokens)
    return Usage(prompt_tokens=count, total_tokens=count, raw=raw.copy())
