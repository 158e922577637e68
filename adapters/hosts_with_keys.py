"""Hosts of vendors that always require a credential.

A self-hosted server may work without one, whatever its dialect.
"""

from collections.abc import Iterable
from typing import Final
from urllib.parse import urlsplit

from strowger_gateway.adapters.openai.vendor_profiles import OPENAI, VENDORS

_OWN: Final = frozenset({"localhost", "127.0.0.1", "::1"})

HOSTS: Final = frozenset(
    {
        "api.anthropic.com",  # https://docs.anthropic.com/en/api/overview
        "api.cohere.com",  # https://docs.cohere.com/reference/about
        "api.cohere.ai",
        # https://developers.cloudflare.com/workers-ai/configuration/open-ai-compatibility
        "api.cloudflare.com",
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
    ".rep.googleapis.com",
    # https://docs.oracle.com/en-us/iaas/Content/generative-ai/openai-compatible-api.htm
    ".oci.oraclecloud.com",
    # https://docs.snowflake.com/user-guide/snowflake-cortex/open_ai_sdk
    ".snowflakecomputing.com",
)
"""Suffixes of host names that exist once per account, region or workspace."""

_CREDENTIAL_WORDS: Final = ("auth", "key", "token", "secret", "cookie")


def requires_credential(base_url: str) -> bool:
    """Return whether the host always requires a credential."""
    try:
        host = (urlsplit(base_url).hostname or "").lower()
    except ValueError:
        return False
    return host in HOSTS or host.endswith(DOMAINS)


def any_credential(headers: Iterable[str]) -> bool:
    """Return whether one of these headers may carry a credential."""
    return any(word in name.lower() for name in headers for word in _CREDENTIAL_WORDS)
