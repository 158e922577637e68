"""Paths that clients build for themselves, and the gateway's path of the same API.

Only a path that no route has is looked up here.
"""

import re
from typing import Final

_SAME: Final[tuple[tuple[re.Pattern[str], str], ...]] = tuple(
    (re.compile(pattern, re.DOTALL), path)
    for pattern, path in (
        # Groq's SDKs append /openai/v1/… to any base URL, Together's /v1/…; Azure's v1 clients have
        # the former in theirs. https://github.com/mem0ai/mem0/issues/4693
        # https://learn.microsoft.com/en-us/azure/ai-foundry/openai/api-version-lifecycle
        (r"(?:(?:/openai)?/v1(?=(?:/openai)?/v1/))*(?:/openai)?/v1(/.+)", "/v1"),
        # MLflow's deployments client of an AI gateway.
        # https://mlflow.org/docs/latest/genai/governance/ai-gateway
        (r"/endpoints(/.+/invocations)", "/serving-endpoints"),
        # ChatDatabricks with use_responses_api.
        (r"/serving-endpoints(/responses(?:/.*)?)", "/v1"),
    )
)


def own_path(path: str) -> str:
    """Return the gateway's path for a client's; "" if it is none of these."""
    for pattern, start in _SAME:
        match = pattern.fullmatch(path)
        if match is not None and match[1] != path.removeprefix(start):
            return start + match[1]
    return ""
