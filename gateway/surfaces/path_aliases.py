"""Paths that clients build for themselves, and the gateway's path of the same API.

Only a path that no route has is looked up here.
"""

import re
from typing import Final

_SAME: Final[tuple[tuple[re.Pattern[str], str], ...]] = tuple(
    (re.compile(pattern, re.DOTALL), path)
    for pattern, path in (
        # Groq's SDKs append it to any base URL: https://github.com/groq/groq-python; Azure's v1
        # clients have it in theirs: https://learn.microsoft.com/en-us/azure/ai-foundry/openai/api-version-lifecycle
        (r"/openai/v1(/.+)", "/v1"),
        # Together's SDKs append /v1/… to a base URL that ends in /v1 as OpenAI's does.
        (r"/v1/v1(/.+)", "/v1"),
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
        if match is not None:
            return start + match[1]
    return ""
