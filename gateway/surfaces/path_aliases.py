"""Paths that clients build for themselves, and the gateway's path of the same API.

Only a path that no route has is looked up here.
"""

import re
from typing import Final

_METHODS: Final = (
    "(?:generateContent|streamGenerateContent|countTokens|embedContent|batchEmbedContents)"
)
_PROJECT: Final = "(?:/projects/[^/]+/locations/[^/]+)?"
_BASE: Final = "(?:(?:/ai-gateway)?/gemini|/v1(?:beta1?|alpha)?)*"
"""What base URLs of Google's clients end in, although these append the version themselves."""
_VERSIONS: Final = "/v1(?:beta1?|alpha)"
_NAME: Final = "(?:(?!.*:(?:[a-z]+[A-Z][A-Za-z]*|predict)$).+)"
"""A model's name, which may have a colon, and no method of Google's behind it."""

_MANY: Final = re.compile("/{2,}")

_SAME: Final[tuple[tuple[re.Pattern[str], str], ...]] = tuple(
    (re.compile(pattern, re.DOTALL), path)
    for pattern, path in (
        # Groq's SDKs append /openai/v1/… to any base URL, Together's /v1/…; Azure's v1 clients have
        # the former in theirs. https://github.com/mem0ai/mem0/issues/4693
        # https://learn.microsoft.com/en-us/azure/ai-foundry/openai/api-version-lifecycle
        (r"(?:(?:/openai)?/v1(?=(?:/openai)?/v1/))*(?:/openai)?/v1(/.+)", r"/v1\1"),
        # MLflow's deployments client of an AI gateway.
        # https://mlflow.org/docs/latest/genai/governance/ai-gateway
        (r"/endpoints(/.+/invocations)", r"/serving-endpoints\1"),
        # ChatDatabricks with use_responses_api.
        (r"/serving-endpoints(/responses(?:/.*)?)", r"/v1\1"),
        # Databricks' AI gateway, on a workspace's host and on its own: OpenAI's API for all models,
        # and those of the vendors and of agents. databricks-openai builds `mlflow` and `openai`,
        # Databricks' own command for agents `anthropic`, `codex` and `cursor`.
        # https://docs.databricks.com/aws/en/ai-gateway/query-endpoints-beta
        (r"(?:/ai-gateway)?/(?:mlflow|anthropic|codex|cursor)/v1(/.+)", r"/v1\1"),
        (r"/ai-gateway/openai/v1(/.+)", r"/v1\1"),
        # Google's SDKs with another version of the API, and for Vertex AI, where the name before a
        # slash in a model's name becomes that of its publisher.
        # https://cloud.google.com/vertex-ai/generative-ai/docs/model-reference/inference
        (rf"{_BASE}{_PROJECT}/publishers/google/models(/.+:{_METHODS})", r"/v1beta/models\1"),
        (rf"{_BASE}{_PROJECT}/publishers/google/models((?:/{_NAME})?)", r"/v1beta/models\1"),
        (
            rf"{_BASE}{_PROJECT}/publishers/([^/]+)/models/(.+:{_METHODS})",
            r"/v1beta/models/\1/\2",
        ),
        (
            rf"{_BASE}{_PROJECT}/publishers/([^/]+)/models/({_NAME})",
            r"/v1beta/models/\1/\2",
        ),
        # Another version, or a base URL with a version too few or too many.
        # https://github.com/anomalyco/opencode/issues/21738
        (rf"{_BASE}/(tunedModels/.+:{_METHODS})", r"/v1beta/models/\1"),
        (rf"{_BASE}/models/(.+:{_METHODS})", r"/v1beta/models/\1"),
        (rf"{_BASE}{_VERSIONS}/models((?:/{_NAME})?)", r"/v1beta/models\1"),
        # Google's path for OpenAI's API. https://ai.google.dev/gemini-api/docs/openai
        (
            rf"{_BASE}{_VERSIONS}/openai(/(?:chat/completions|embeddings|models(?:/.+)?))",
            r"/v1\1",
        ),
        # Ollama's clients with the base URL of OpenAI's.
        (
            r"(?:/v1|/api)*(/api/(?:chat|generate|embed|embeddings|tags|show|ps|version|pull))",
            r"\1",
        ),
    )
)


def own_path(path: str) -> str:
    """Return the gateway's path for a client's; "" if it is none of these.

    A base URL with a slash at its end makes two of them.
    """
    plain = _MANY.sub("/", path).rstrip("/")
    for pattern, same in _SAME:
        match = pattern.fullmatch(plain)
        if match is not None and (own := match.expand(same)) != path:
            return own
    return ""
