"""Google's Gemini: generateContent, complete and streamed, and embeddings.

The base URL selects the API. AI Studio: `https://generativelanguage.googleapis.com`, optionally
followed by a version; the key is an API key. Vertex AI: `https://HOST/v1/projects/P/locations/L/
publishers/google`; the key is an OAuth token, or an API key if the path has no project (express
mode).
https://ai.google.dev/api
https://cloud.google.com/vertex-ai/generative-ai/docs/model-reference/inference
"""

from collections.abc import Mapping
from typing import ClassVar, assert_never
from urllib.parse import quote

from msgspec.structs import replace

from strowger_gateway.adapters.base import READABLE, Endpoint, Outbound, Range, Supports
from strowger_gateway.adapters.client_fields.denied import withheld
from strowger_gateway.adapters.errors import unreadable
from strowger_gateway.adapters.gemini import embeddings
from strowger_gateway.adapters.gemini.decode import GeminiDecoder
from strowger_gateway.adapters.gemini.encode import CONFIG, OWN, SAMPLING, chat_body, count_body
from strowger_gateway.adapters.gemini.errors import error_from, error_inside
from strowger_gateway.adapters.gemini.original_fields import DIALECT
from strowger_gateway.adapters.gemini.parts import FETCHED
from strowger_gateway.adapters.gemini.repairs import GEMINI_REPAIRS, VERTEX_REPAIRS
from strowger_gateway.adapters.http_json import HttpJsonAdapter, base_path
from strowger_gateway.adapters.json_objects import UNREADABLE, read_object
from strowger_gateway.adapters.token_count import counted
from strowger_gateway.schemas.answers import Embeddings
from strowger_gateway.schemas.errors import GatewayError, InvalidRequest
from strowger_gateway.schemas.messages import GEMINI
from strowger_gateway.schemas.requests import (
    ChatRequest,
    CompletionRequest,
    EmbeddingsRequest,
    GenerateRequest,
    Request,
    TokenRequest,
)
from strowger_gateway.schemas.tasks.task import TaskRequest

CHAT = frozenset(
    {
        *SAMPLING,
        "logprobs",
        "tools",
        "tools.opaque",
        "tool_choice",
        "response_format",
        "reasoning_effort",
        "messages.image",
        "messages.audio",
        "messages.opaque",
    }
)

INLINE = "contents[].parts[].inlineData"
TRANSLATED = {
    **{field: f"generationConfig.{wire}" for field, wire in SAMPLING.items()},
    "logprobs": "generationConfig.responseLogprobs",
    "tools": "tools[].functionDeclarations",
    "tools.opaque": "tools[].googleSearch (and Google's other tools)",
    "tool_choice": "toolConfig.functionCallingConfig",
    "response_format": "generationConfig.responseMimeType + generationConfig.responseJsonSchema",
    "reasoning_effort": "generationConfig.thinkingConfig",
    "messages.image": INLINE,
    "messages.audio": INLINE,
    "messages.opaque": f"{INLINE} (files)",
}

SUPPORTS = Supports(
    client_fields=withheld("gemini"),
    chat=CHAT,
    embeddings=frozenset({"dimensions"}),
    extra_fields={"chat": CONFIG | OWN, "embeddings": embeddings.OWN},
    fetched_images=FETCHED,
    inputs=100,
    thoughts=READABLE,
    proofs=frozenset({GEMINI}),
    dialect=DIALECT,
    repairs=GEMINI_REPAIRS,
    ranges={
        "max_tokens": Range(minimum=1, maximum=2**31 - 1),
        "temperature": Range(minimum=0, maximum=2),
        "top_p": Range(minimum=0, maximum=1),
        "top_k": Range(minimum=1, maximum=2**31 - 1),
        "seed": Range(minimum=-(2**31), maximum=2**31 - 1),
        "stop": Range(items=5),
        "n": Range(minimum=1, maximum=8),
        "presence_penalty": Range(minimum=-2, below=2),
        "frequency_penalty": Range(minimum=-2, below=2),
        "top_logprobs": Range(minimum=0, maximum=20),
        "dimensions": Range(minimum=1, maximum=2**31 - 1),
    },
    translated={
        "chat": TRANSLATED,
        "embeddings": {"dimensions": "requests[].outputDimensionality"},
    },
)
"""https://ai.google.dev/api/generate-content#generationconfig"""

ON_VERTEX = replace(
    SUPPORTS,
    repairs=VERTEX_REPAIRS,
    translated={
        "chat": TRANSLATED,
        "embeddings": {
            "dimensions": "parameters.outputDimensionality "
            "or embedContentConfig.outputDimensionality"
        },
    },
)

_FULL = ("models/", "tunedModels/")
"""Prefixes of complete resource names."""


class GeminiAdapter(HttpJsonAdapter):
    """Chat and embeddings; Gemini accepts neither bare prompts nor tokens."""

    name: ClassVar[str] = "gemini"
    base_url: ClassVar[str] = "https://generativelanguage.googleapis.com/v1beta"

    def __init__(self, endpoint: Endpoint) -> None:
        path, key = base_path(endpoint), endpoint.key.reveal()
        self._vertex = path.endswith("/publishers/google")
        api_key = (("x-goog-api-key", key),) if key else ()
        super().__init__(
            endpoint,
            ON_VERTEX if self._vertex else SUPPORTS,
            path or "/v1beta",
            None if "/projects/" in path else api_key,
        )

    def encode(self, request: Request, model: str) -> Outbound:
        match request:
            case ChatRequest(stream=True):
                body = chat_body(request, model, vertex=self._vertex)
                return self._call(model, "streamGenerateContent?alt=sse", body, stream=True)
            case ChatRequest():
                body = chat_body(request, model, vertex=self._vertex)
                return self._call(model, "generateContent", body)
            case EmbeddingsRequest():
                form = embeddings.embedding_method(model, len(request.inputs), vertex=self._vertex)
                body = embeddings.embeddings_body(request, model_path(model), form)
                return self._call(model, form.route, body)
            case CompletionRequest() | TokenRequest() | TaskRequest():
                raise InvalidRequest(
                    f"{self._endpoint.name} accepts only conversations; send messages",
                    param="model",
                )
        assert_never(request)

    def encode_count(self, request: ChatRequest, model: str) -> Outbound:
        """See TokenCounter."""
        body = count_body(request, model, "" if self._vertex else model_path(model))
        return self._call(model, "countTokens", body)

    def counted(self, body: bytes) -> int:
        """See TokenCounter."""
        return counted(self._endpoint, body, "totalTokens")

    def decoder(self, request: GenerateRequest) -> GeminiDecoder:
        return GeminiDecoder(self._endpoint, request)

    def embeddings(self, request: EmbeddingsRequest, body: bytes) -> Embeddings:
        try:
            failed = "error" in read_object(body)
            found = embeddings.read_embeddings(body)
        except UNREADABLE as exc:
            raise unreadable(self._endpoint, body) from exc
        if failed:
            raise error_inside(self._endpoint, body)
        self._check_count(found.vectors, request)
        return found

    def error(self, status: int, headers: Mapping[str, str], body: bytes) -> GatewayError:
        return error_from(self._endpoint, status, headers, body)

    def _call(self, model: str, verb: str, body: bytes, *, stream: bool = False) -> Outbound:
        return self._outbound(f"/{model_path(model)}:{verb}", body, stream=stream)


def model_path(model: str) -> str:
    """Return `models/NAME`, escaped so that the name cannot lead to another path."""
    for kind in _FULL:
        if model.startswith(kind):
            return f"{kind}{quote(model.removeprefix(kind), safe='@')}"
    return f"models/{quote(model, safe='@')}"
