"""Response bodies and specific errors of each route."""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from strowger_gateway.gateway.surfaces.anthropic.models import AnthropicModel, AnthropicModelList
from strowger_gateway.gateway.surfaces.databricks.serving_endpoints import (
    ServingEndpoint,
    ServingEndpointList,
)
from strowger_gateway.gateway.surfaces.gemini.models import GeminiModel, GeminiModelList
from strowger_gateway.gateway.surfaces.kserve.bodies import (
    IndexEntry,
    ModelConfiguration,
    ModelMetadata,
    ServerMetadata,
)
from strowger_gateway.gateway.surfaces.kserve.generate_render import GenerateResponse
from strowger_gateway.gateway.surfaces.mindie.render import InferTokenAnswer
from strowger_gateway.gateway.surfaces.moderation.wire import ModerationBody
from strowger_gateway.gateway.surfaces.ollama.answer_structs import (
    OllamaChatAnswer,
    OllamaGenerateAnswer,
)
from strowger_gateway.gateway.surfaces.ollama.embeddings import EmbedAnswer, EmbeddingAnswer
from strowger_gateway.gateway.surfaces.ollama.lines import NDJSON
from strowger_gateway.gateway.surfaces.ollama.models import (
    OllamaModelInfo,
    OllamaModelList,
    OllamaVersion,
    PullProgress,
    RunningModelList,
)
from strowger_gateway.gateway.surfaces.openai.bodies import EmbeddingList
from strowger_gateway.gateway.surfaces.openai.models import OpenAIModel, OpenAIModelList
from strowger_gateway.gateway.surfaces.openapi.answer_structs import (
    ChatCompletion,
    DeletedResponse,
    FeedbackTaken,
    InferAnswer,
    Liveness,
    MessagesAnswer,
    MessagesTokens,
    Readiness,
    ResponseAnswer,
    ResponseItems,
    ResponseTokens,
    ResponseWindow,
    TextCompletion,
)
from strowger_gateway.gateway.surfaces.openapi.gemini_structs import (
    GeminiAnswer,
    GeminiEmbedding,
    GeminiEmbeddings,
    GeminiTokens,
)
from strowger_gateway.gateway.surfaces.pooling.wire import (
    ClassList,
    PooledList,
    Prediction,
    ScoreList,
)
from strowger_gateway.gateway.surfaces.rerank.wire import (
    CohereRanking,
    RankingBody,
    TeiResult,
    VoyageRanking,
)

TEXT: Final = "text/plain"
EVENTS: Final = "text/event-stream"
OCTETS: Final = "application/octet-stream"

EVERY: Final = (403, 405, 500)
"""403: a gateway without keys rejects unknown hosts and pages of other sites."""
KEYED: Final = (401, 429)
ANSWERING: Final = (400, 401, 404, 408, 413, 415, 429, 502, 503, 504)
BY_ANTHROPIC: Final = (400, 401, 404, 408, 413, 415, 429, 504, 529)


class RouteDescription(Struct, frozen=True, kw_only=True):
    """answers:  bodies of a 200; several if the request decides. () is an empty body.
    listed:   the body is a list of them. lists: what a body has that is a list, next to answers;
              nested: or a list of such lists.
    media:    media types of a 200 besides JSON.
    statuses: of errors, besides EVERY. also: of further responses with the same body as a 200.
    empty:    the 200 has no body.
    key:      `client` keys, keys for `metrics`, the `admin` key, or "" for none.
    """

    answers: tuple[type[Struct], ...] = ()
    listed: bool = False
    lists: tuple[type[Struct], ...] = ()
    nested: bool = False
    media: tuple[str, ...] = ()
    statuses: tuple[int, ...] = ()
    also: tuple[int, ...] = ()
    empty: bool = False
    key: str = "client"


def _answering(*answers: type[Struct], media: tuple[str, ...] = ()) -> RouteDescription:
    return RouteDescription(answers=answers, media=media, statuses=ANSWERING)


_CHAT: Final = _answering(ChatCompletion, media=(EVENTS,))
_COMPLETION: Final = _answering(TextCompletion, media=(EVENTS,))
_EMBEDDINGS: Final = _answering(EmbeddingList)
_RERANK: Final = RouteDescription(
    answers=(RankingBody, VoyageRanking), lists=(TeiResult,), statuses=ANSWERING
)
_CLASSIFY: Final = RouteDescription(
    answers=(ClassList,), lists=(Prediction,), nested=True, statuses=ANSWERING
)
_INFER: Final = _answering(InferAnswer, media=(OCTETS,))
_GENERATE: Final = _answering(GenerateResponse)
_GENERATE_STREAM: Final = _answering(media=(EVENTS,))
_MODEL: Final = "/v2/models/{model}"
_VERSION: Final = f"{_MODEL}/versions/1"
_LOOKED_UP: Final = (400, 401, 404, 429)
_NAMED: Final = (*_LOOKED_UP, 408, 413)
_STORED: Final = (*_LOOKED_UP, 503)
_RESPONSE: Final = "/v1/responses/{response_id}"
_GEMINI: Final = "/v1beta/models/{model}"

ROUTES: Final[Mapping[str, RouteDescription]] = {
    "POST /v1/chat/completions": _CHAT,
    "POST /v1/completions": _COMPLETION,
    "POST /v1/embeddings": _EMBEDDINGS,
    "POST /v1/messages": RouteDescription(
        answers=(MessagesAnswer,), media=(EVENTS,), statuses=BY_ANTHROPIC
    ),
    "POST /v1/messages/count_tokens": RouteDescription(
        answers=(MessagesTokens,), statuses=BY_ANTHROPIC
    ),
    "POST /v1/responses": _answering(ResponseAnswer, media=(EVENTS,)),
    "POST /v1/responses/compact": _answering(ResponseWindow),
    "POST /v1/responses/input_tokens": _answering(ResponseTokens),
    f"POST {_GEMINI}:generateContent": _answering(GeminiAnswer),
    f"POST {_GEMINI}:streamGenerateContent": RouteDescription(
        answers=(GeminiAnswer,), listed=True, media=(EVENTS,), statuses=ANSWERING
    ),
    f"POST {_GEMINI}:countTokens": _answering(GeminiTokens),
    f"POST {_GEMINI}:embedContent": _answering(GeminiEmbedding),
    f"POST {_GEMINI}:batchEmbedContents": _answering(GeminiEmbeddings),
    "GET /v1beta/models": RouteDescription(answers=(GeminiModelList,), statuses=(400, *KEYED)),
    f"GET {_GEMINI}": RouteDescription(answers=(GeminiModel,), statuses=_LOOKED_UP),
    f"GET {_RESPONSE}": RouteDescription(answers=(ResponseAnswer,), statuses=_STORED),
    f"DELETE {_RESPONSE}": RouteDescription(answers=(DeletedResponse,), statuses=_STORED),
    f"GET {_RESPONSE}/input_items": RouteDescription(answers=(ResponseItems,), statuses=_STORED),
    f"POST {_RESPONSE}/cancel": RouteDescription(answers=(ResponseAnswer,), statuses=_STORED),
    "POST /v1/rerank": _RERANK,
    "POST /rerank": _RERANK,
    "POST /v2/rerank": _answering(CohereRanking),
    "POST /v1/moderations": _answering(ModerationBody),
    "POST /v1/chat/moderations": _answering(ModerationBody),
    "POST /v1/score": _answering(ScoreList),
    "POST /score": _answering(ScoreList),
    "POST /v1/classify": _CLASSIFY,
    "POST /classify": _CLASSIFY,
    "POST /predict": _CLASSIFY,
    "POST /v1/pooling": _answering(PooledList),
    "POST /pooling": _answering(PooledList),
    "POST /infer_token": _answering(InferTokenAnswer, media=(EVENTS,)),
    "POST /v1/models/{model}/infer_token": _answering(InferTokenAnswer, media=(EVENTS,)),
    "POST /serving-endpoints/chat/completions": _CHAT,
    "POST /serving-endpoints/completions": _COMPLETION,
    "POST /serving-endpoints/embeddings": _EMBEDDINGS,
    "POST /serving-endpoints/{model}/invocations": _answering(
        ChatCompletion, TextCompletion, EmbeddingList, media=(EVENTS,)
    ),
    **{
        f"POST {place}/{what}": described
        for place in (_MODEL, _VERSION)
        for what, described in (
            ("infer", _INFER),
            ("generate", _GENERATE),
            ("generate_stream", _GENERATE_STREAM),
        )
    },
    "POST /api/chat": _answering(OllamaChatAnswer, media=(NDJSON,)),
    "POST /api/generate": _answering(OllamaGenerateAnswer, media=(NDJSON,)),
    "POST /api/embed": _answering(EmbedAnswer),
    "POST /api/embeddings": _answering(EmbeddingAnswer),
    "GET /api/version": RouteDescription(answers=(OllamaVersion,), key=""),
    "GET /api/tags": RouteDescription(answers=(OllamaModelList,), statuses=KEYED),
    "GET /api/ps": RouteDescription(answers=(RunningModelList,), statuses=KEYED),
    "POST /api/show": RouteDescription(answers=(OllamaModelInfo,), statuses=_NAMED),
    "POST /api/pull": RouteDescription(answers=(PullProgress,), media=(NDJSON,), statuses=_NAMED),
    "GET /healthz": RouteDescription(answers=(Liveness,), key=""),
    "GET /readyz": RouteDescription(answers=(Readiness,), also=(503,), key=""),
    "GET /health": RouteDescription(answers=(Readiness,), also=(503,), key=""),
    "GET /metrics": RouteDescription(media=(TEXT,), statuses=(401, 429, 503), key="metrics"),
    "GET /v1/models": RouteDescription(
        answers=(OpenAIModelList, AnthropicModelList), statuses=(400, *KEYED)
    ),
    "GET /v1/models/{model}": RouteDescription(
        answers=(OpenAIModel, AnthropicModel), statuses=_LOOKED_UP
    ),
    "GET /api/2.0/serving-endpoints": RouteDescription(
        answers=(ServingEndpointList,), statuses=KEYED
    ),
    "GET /api/2.0/serving-endpoints/{name}": RouteDescription(
        answers=(ServingEndpoint,), statuses=_LOOKED_UP
    ),
    "GET /v2": RouteDescription(answers=(ServerMetadata,), key=""),
    "GET /v2/health/live": RouteDescription(empty=True, key=""),
    "GET /v2/health/ready": RouteDescription(empty=True, statuses=(400,), key=""),
    **{
        f"GET {place}{end}": described
        for place in (_MODEL, _VERSION)
        for end, described in (
            ("", RouteDescription(answers=(ModelMetadata,), statuses=_LOOKED_UP)),
            ("/config", RouteDescription(answers=(ModelConfiguration,), statuses=_LOOKED_UP)),
            ("/ready", RouteDescription(empty=True, statuses=_LOOKED_UP)),
        )
    },
    "POST /v2/repository/index": RouteDescription(
        answers=(IndexEntry,), listed=True, statuses=(400, 401, 408, 413, 429)
    ),
    "POST /v1/feedback": RouteDescription(
        answers=(FeedbackTaken,), also=(202,), statuses=(400, 401, 404, 408, 413, 429, 503)
    ),
}
"""By method and path, as in the description. All other routes are the operator's."""

ADMIN: Final = RouteDescription(statuses=(400, 401, 403, 404, 408, 413, 429, 503), key="admin")
"""404: /admin has no way in, or the name is unknown."""

_KEY_CHANGES: Final = RouteDescription(statuses=(*ADMIN.statuses, 409), key="admin")


def operators(method: str, path: str) -> RouteDescription:
    """Return the description of a route under /admin; its bodies are those of its handler."""
    changes = path.startswith("/admin/keys") and method != "get"
    return _KEY_CHANGES if changes else ADMIN
