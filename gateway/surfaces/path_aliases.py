"""Paths that clients build for themselves, and the gateway's path of the same API.

Only a path that no route has is looked up here.
"""

import re
from typing import Final

_GOOGLES: Final = "/v1(?:beta1?|alpha)?"
_METHODS: Final = (
    "(?:generateContent|streamGenerateContent|countTokens|embedContent|batchEmbedContents)"
)
_PROJECT: Final = "(?:/projects/[^/]+/locations/[^/]+)?"

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
        # and those of the vendors. databricks-openai builds the first and the second.
        # https://docs.databricks.com/aws/en/ai-gateway/query-endpoints-beta
        (r"(?:/ai-gateway)?/(?:mlflow|anthropic)/v1(/.+)", r"/v1\1"),
        (r"/ai-gateway/openai/v1(/.+)", r"/v1\1"),
        (r"(?:/ai-gateway)?/gemini(/v1beta/.+)", r"\1"),
        # Google's SDKs with another version of the API, and for Vertex AI, where the name before a
        # slash in a model's name becomes that of its publisher.
        # https://cloud.google.com/vertex-ai/generative-ai/docs/model-reference/inference
        (rf"{_GOOGLES}{_PROJECT}/publishers/google/models(/.+:{_METHODS})", r"/v1beta/models\1"),
        (rf"{_GOOGLES}{_PROJECT}/publishers/google/models((?:/[^:]+)?)", r"/v1beta/models\1"),
        (
            rf"{_GOOGLES}{_PROJECT}/publishers/([^/]+)/models/(.+:{_METHODS})",
            r"/v1beta/models/\1/\2",
        ),
        (rf"{_GOOGLES}/(tunedModels/.+:{_METHODS})", r"/v1beta/models/\1"),
        # Another version, or a base URL with a version too few or too many.
        # https://github.com/anomalyco/opencode/issues/21738
        (rf"(?:{_GOOGLES})*/models/(.+:{_METHODS})", r"/v1beta/models/\1"),
        (r"/v1(?:beta1|alpha)/models((?:/[^:]+)?)", r"/v1beta/models\1"),
    )
)


def own_path(path: str) -> str:
    """Return the gateway's path for a client's; "" if it is none of these."""
    for pattern, same in _SAME:
        match = pattern.fullmatch(path)
        if match is not None and (own := match.expand(same)) != path:
            return own
    return ""
