"""APIs of other vendors that clients call but the gateway does not serve, with alternatives.

One table with one row per API; remove the row when the gateway serves the API.
"""

import re
from typing import Final

from msgspec import Struct

CHAT: Final = "/v1/chat/completions"
MESSAGES: Final = "/v1/messages"
RESPONSES: Final = "/v1/responses"
EMBEDDINGS: Final = "/v1/embeddings"
GENERATE: Final = "/v1beta/models/MODEL:generateContent"
EMBED: Final = "/v1beta/models/MODEL:embedContent"
MODELS: Final = "GET /v1/models"
_BASE_URL: Final = "a base URL that ends in /v1"
_GOOGLES: Final = "(generate|streamGenerate|embed|count|predict|rawPredict|stream|batch)[A-Za-z]*"
"""Google's verbs after a colon: https://ai.google.dev/api/generate-content"""


_VERSION: Final = "/v1(?:beta1?|alpha)"
"""Google's versions that are no other vendor's."""


_SERVED: Final = (
    "(?:generateContent|streamGenerateContent|countTokens|embedContent|batchEmbedContents)"
)


class Missing(Struct, frozen=True, kw_only=True):
    """path: matches the whole path. api: its name. instead: the alternative in this gateway."""

    path: re.Pattern[str]
    api: str
    instead: str


def _row(path: str, api: str, instead: str) -> Missing:
    return Missing(path=re.compile(path), api=api, instead=instead)


MISSING: Final[tuple[Missing, ...]] = (
    _row(
        r"/v1/responses/(?!(input_tokens|compact)$).*",
        "OpenAI's storage of responses",
        f"POST {RESPONSES} with the whole conversation; this gateway does not store responses "
        "(responses.store is off)",
    ),
    _row(
        r"/v1/messages/batches(/.*)?",
        "Anthropic's Batches API",
        f"one POST {MESSAGES} per request",
    ),
    _row(
        r"/v1/complete",
        "Anthropic's completions",
        f"POST {MESSAGES}",
    ),
    _row(
        r"/(v1beta|v1alpha|v1beta1)/openai/.*",
        "Google's path for OpenAI's API",
        f"POST {CHAT}, with {_BASE_URL}",
    ),
    _row(
        rf"/v1(beta1)?/.*publishers/anthropic/models/.*:{_GOOGLES}",
        "Vertex AI's path for Anthropic's API",
        f"POST {MESSAGES}",
    ),
    _row(
        r"/v1(beta1?|alpha)?/.*:(predict|rawPredict|streamRawPredict)[A-Za-z]*",
        "Vertex AI's predict",
        f"POST {GENERATE} or {EMBED}",
    ),
    _row(
        rf"{_VERSION}/(.*/)?cachedContents(/.*)?",
        "Google's storage of cached contents",
        f"POST {GENERATE} with the whole conversation; vendors cache its beginning by themselves",
    ),
    _row(
        rf"(/upload|/download)?{_VERSION}/(.*/)?(files|fileSearchStores|corpora)(/.*|:.*)?",
        "Google's file storage",
        f"POST {GENERATE} with the content as `inlineData`",
    ),
    _row(
        rf"(?!.*:{_SERVED}$){_VERSION}/.*:(asyncB|b)atch[A-Z][A-Za-z]*|{_VERSION}/(.*/)?batches(/.*|:.*)?",
        "Google's batches",
        f"one POST {GENERATE} per request",
    ),
    _row(
        rf"(?!.*:{_SERVED}$)(?:{_VERSION}/.*|/v1/(models|publishers|projects)/.*:{_GOOGLES})",
        "this part of Google's Gemini API",
        f"POST {GENERATE} or {EMBED}",
    ),
    _row(
        r"/openai/deployments/.*",
        "Azure's path for OpenAI's API",
        f"POST {CHAT} with the plain OpenAI client and {_BASE_URL}",
    ),
    _row(r"/model/[^/]+/(converse|invoke).*", "Amazon Bedrock's API", f"POST {CHAT}"),
    _row(
        r"/api/v0/(models|chat|completions|embeddings).*",
        "LM Studio's own API",
        f"{MODELS}, POST {CHAT}",
    ),
    _row(
        r"/api/(push|create|copy|delete|blobs/.*)",
        "Ollama's management of models",
        "the configuration, in which models are defined",
    ),
    _row(r"/v[12]/chat", "Cohere's chat API", f"POST {CHAT}"),
    _row(r"/v[12]/embed", "Cohere's embed API", f"POST {EMBEDDINGS}"),
    _row(
        r"/v1/ocr",
        "Mistral's OCR",
        f"POST {CHAT} with the document as `file` content, and a model that reads it",
    ),
    _row(
        r"/v1/images/.*",
        "OpenAI's Images API",
        f"POST {CHAT} with a model that answers with images",
    ),
    _row(
        r"/v1/audio/.*",
        "OpenAI's Audio API",
        f"POST {CHAT} with `input_audio` content, or with `modalities` for speech, and a model "
        "that supports them",
    ),
    _row(r"/v1/realtime(/.*)?", "OpenAI's Realtime API", f"POST {CHAT} with `stream`"),
    _row(
        r"/v1/(files|uploads|vector_stores|containers)(/.*)?",
        "OpenAI's file storage",
        f"POST {CHAT} with the content in the messages",
    ),
    _row(
        r"/v1/batches(/.*)?",
        "OpenAI's Batch API",
        f"one POST {CHAT} per request",
    ),
    _row(
        r"/v1/(assistants|threads|conversations)(/.*)?",
        "OpenAI's Assistants API",
        f"POST {CHAT} with the whole conversation",
    ),
    _row(r"/v1/(fine_tuning|evals)(/.*)?", "OpenAI's fine-tuning", "the vendor's own address"),
    _row(
        r"(/v1)?/(tokenize|detokenize)",
        "tokenizing",
        "the model's own tokenizer in the client",
    ),
    _row(r"/(generate|generate_stream|infer)", "text generation of TGI and MindIE", f"POST {CHAT}"),
    _row(r"/(invocations|ping)", "SageMaker's container API", f"POST {CHAT}"),
)
"""The first match wins."""

LONGEST: Final = 200
"""Maximum characters of a path that an answer repeats."""


def instead_of(path: str) -> str:
    """Return the end of a sentence about a path that is not served; "" if the table has no match.

    Also matches paths whose base URL lacks /v1 or has it twice.
    """
    for one in (path, with_v1(path)):
        for row in MISSING:
            if row.path.fullmatch(one):
                return f": {row.api} is not served here; use {row.instead}"
    return ""


def with_v1(path: str) -> str:
    """Return the path as with a base URL that ends in one /v1."""
    return re.sub(r"^(/v1)*(?=/|$)", "/v1", path.rstrip("/"))


def shortened(path: str) -> str:
    """Return the path, cut to LONGEST characters."""
    return path if len(path) <= LONGEST else path[:LONGEST] + "…"
