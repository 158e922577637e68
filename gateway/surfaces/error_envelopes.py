"""Choose the error format for clients that reached no route of the request path."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from msgspec import Struct

from strowger_gateway.gateway.surfaces.anthropic.errors import MessagesError
from strowger_gateway.gateway.surfaces.anthropic.errors import error_body as messages_error
from strowger_gateway.gateway.surfaces.anthropic.models import VERSION
from strowger_gateway.gateway.surfaces.databricks.errors import DatabricksError
from strowger_gateway.gateway.surfaces.databricks.errors import error_body as databricks_error
from strowger_gateway.gateway.surfaces.gemini.errors import GoogleError
from strowger_gateway.gateway.surfaces.gemini.errors import error_body as google_error
from strowger_gateway.gateway.surfaces.gemini.models import CLIENTS as GOOGLES
from strowger_gateway.gateway.surfaces.kserve import bodies as kserve_bodies
from strowger_gateway.gateway.surfaces.mindie import surface as mindie
from strowger_gateway.gateway.surfaces.mindie.errors import MindIEError
from strowger_gateway.gateway.surfaces.ollama.errors import OllamaError
from strowger_gateway.gateway.surfaces.ollama.errors import error_body as ollama_error
from strowger_gateway.gateway.surfaces.openai.bodies import OpenAIError, openai_error
from strowger_gateway.gateway.surfaces.openai.envelope import encode
from strowger_gateway.gateway.surfaces.openai.surface import error_body
from strowger_gateway.gateway.surfaces.rerank.errors import RerankError
from strowger_gateway.gateway.surfaces.rerank.errors import error_body as rerank_error
from strowger_gateway.schemas.errors import GatewayError

_SHARED: Final = ("/v1/models", "/v1/files")
"""Paths of clients of OpenAI and Anthropic, which differ in a header."""

_INFER_TOKEN: Final = "/infer_token"
"""Also the end of OpenAI's path of a model."""

Envelope = Callable[[GatewayError], bytes]


class BedrockError(OpenAIError, frozen=True, kw_only=True):
    """As AWS's clients read it, next to OpenAI's envelope.

    https://docs.aws.amazon.com/bedrock/latest/APIReference/CommonErrors.html
    """

    message: str


def bedrock_error(exc: GatewayError) -> bytes:
    error = openai_error(exc)
    return encode(BedrockError(error=error, message=error.message))


ENVELOPES: Final[tuple[tuple[str, Envelope], ...]] = (
    ("/v1/messages", messages_error),
    (_INFER_TOKEN, mindie.error_body),
    ("/serving-endpoints/responses", error_body),
    ("/serving-endpoints", databricks_error),
    ("/endpoints/", databricks_error),
    ("/api/2.0/", databricks_error),
    ("/.well-known/databricks-config", databricks_error),
    ("/v2/rerank", rerank_error),
    ("/v1/rerank", rerank_error),
    ("/rerank", rerank_error),
    ("/v2", kserve_bodies.error_body),
    ("/model/", bedrock_error),
    ("/api/", ollama_error),
    ("/v1beta", google_error),
    ("/v1alpha", google_error),
    ("/v1/v1beta", google_error),
    ("/upload/v1beta", google_error),
    ("/download/v1beta", google_error),
    ("/gemini/", google_error),
    ("/models/", google_error),
    ("/publishers/", google_error),
    ("/v1/projects/", google_error),
    ("/v1/publishers/", google_error),
    ("/v1/tunedModels/", google_error),
    ("/", error_body),
)
"""Start of a path -> the function that writes errors there; the first match wins."""


STRUCTS: Final[Mapping[Envelope, type[Struct]]] = {
    messages_error: MessagesError,
    mindie.error_body: MindIEError,
    databricks_error: DatabricksError,
    kserve_bodies.error_body: kserve_bodies.KServeError,
    error_body: OpenAIError,
    rerank_error: RerankError,
    bedrock_error: BedrockError,
    ollama_error: OllamaError,
    google_error: GoogleError,
}
"""The struct that each function writes."""


def error_struct(path: str) -> type[Struct]:
    """Return the struct of errors at a path. The API description uses it."""
    return STRUCTS[envelope(path)]


def envelope(path: str, headers: Iterable[tuple[bytes, bytes]] = ()) -> Envelope:
    path = "/" + path.lstrip("/")
    names = {name for name, _ in headers}
    if path.startswith(_SHARED) and VERSION in names:
        return messages_error
    if path.startswith(_SHARED) and not names.isdisjoint(GOOGLES):
        return google_error
    if path.endswith(_INFER_TOKEN):
        return mindie.error_body
    return next((write for prefix, write in ENVELOPES if path.startswith(prefix)), error_body)
