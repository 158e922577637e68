"""Hosts of vendors that answer no request without a credential.

A server of one's own may ask for none, whatever it speaks; these never do.
"""

from collections.abc import Iterable
from typing import Final
from urllib.parse import urlsplit

from adapters.openai.vendor_profiles import OPENAI, VENDORS

_OWN: Final = frozenset({"localhost", "127.0.0.1", "::1"})

HOSTS: Final = frozenset(
    {
        "api.anthropic.com",  # https://docs.anthropic.com/en/api/overview
        "api.cohere.com",  # https://docs.cohere.com/reference/about
        "api.cohere.ai",
        "generativelanguage.googleapis.com",  # https://ai.google.dev/gemini-api/docs/api-key
        "aiplatform.googleapis.com",
        "api.mistral.ai",  # https://docs.mistral.ai/api/
        *(
            host
            for row in (OPENAI, *VENDORS)
            if (host := urlsplit(row.base_url).hostname) and host not in _OWN
        ),
    }
)

DOMAINS: Final = (
    # https://docs.aws.amazon.com/bedrock/latest/APIReference/welcome.html
    ".amazonaws.com",
    ".amazonaws.com.cn",
    # https://learn.microsoft.com/en-us/azure/ai-foundry/openai/reference
    ".openai.azure.com",
    ".cognitiveservices.azure.com",
    ".services.ai.azure.com",
    # https://docs.databricks.com/aws/en/dev-tools/auth/
    ".cloud.databricks.com",
    ".gcp.databricks.com",
    ".azuredatabricks.net",
    # https://cloud.google.com/vertex-ai/docs/reference/rest
    "-aiplatform.googleapis.com",
)
"""The ends of names of which each account, region or workspace has one."""

_TELLING: Final = ("auth", "key", "token", "secret", "cookie")


def wants_credential(base_url: str) -> bool:
    """Whether what is there always asks for one."""
    try:
        host = (urlsplit(base_url).hostname or "").lower()
    except ValueError:
        return False
    return host in HOSTS or host.endswith(DOMAINS)


def any_credential(headers: Iterable[str]) -> bool:
    """Whether a header of one of these names may carry one."""
    return any(word in name.lower() for name in headers for word in _TELLING)
