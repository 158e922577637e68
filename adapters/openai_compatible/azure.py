"""Azure OpenAI: OpenAI's dialect behind deployments, an `api-key` and content filters.

The base URL's path selects one of three formats: `…/openai/v1` and Foundry's `…/models` take the
deployment's name in `model`; every other one has it in the path, and needs `?api-version=`.
Versions before `SINCE` know neither `max_completion_tokens` nor usage in streams.
https://learn.microsoft.com/en-us/azure/ai-foundry/openai/reference
https://learn.microsoft.com/en-us/azure/ai-foundry/openai/api-version-lifecycle
"""

from typing import ClassVar
from urllib.parse import parse_qs, quote, urlsplit

from msgspec.structs import replace

from strowger_gateway.adapters.base import Endpoint, Outbound, TokenEndpoint
from strowger_gateway.adapters.headers import Headers
from strowger_gateway.adapters.openai.adapter import OpenAIAdapter
from strowger_gateway.adapters.openai.repairs import (
    COMPATIBLE_REPAIRS,
    DIALECT_REPAIRS,
    OPENAI_REPAIRS,
)
from strowger_gateway.adapters.openai.vendor_profiles import REFERENCE_ONLY, VendorProfile
from strowger_gateway.adapters.tasks import rerank
from strowger_gateway.adapters.tasks.score import score_by
from strowger_gateway.schemas.errors import InvalidConfig
from strowger_gateway.schemas.requests import ChatRequest, Request

SINCE = "2024-09-01"
"""The first version with `max_completion_tokens`, `stream_options` and `parallel_tool_calls`."""

TASKS = (rerank.AZURE, score_by(rerank.AZURE))

AZURE = VendorProfile(
    name="azure",
    tasks=TASKS,
    repairs=OPENAI_REPAIRS,
    unsupported=REFERENCE_ONLY,
    max_tokens="max_completion_tokens",
    base64=True,
    stop=4,
    choices=128,
    marked=True,
    thoughts=(),
)
DATED = VendorProfile(
    name="azure",
    tasks=TASKS,
    repairs=DIALECT_REPAIRS,
    unsupported=REFERENCE_ONLY | {"parallel_tool_calls"},
    base64=True,
    stream_usage=False,
    stop=4,
    choices=128,
    marked=True,
    thoughts=(),
)
"""A version before `SINCE`."""

FOUNDRY = VendorProfile(
    name="azure", tasks=TASKS, unsupported=REFERENCE_ONLY, marked=True, repairs=COMPATIBLE_REPAIRS
)
"""Models of all makers, behind one API with its own versions."""

MODEL_IN_BODY = ("/v1", "/models")

ENTRA = TokenEndpoint(path="", scope="https://cognitiveservices.azure.com/.default")
"""Tokens come from `login.microsoftonline.com/{tenant}`; only the operator knows the tenant."""


class AzureAdapter(OpenAIAdapter):
    """Sends the key as `api-key`; with `oauth` sends a token as `authorization` instead."""

    name: ClassVar[str] = "azure"
    token_endpoint: ClassVar[TokenEndpoint] = ENTRA

    def __init__(self, endpoint: Endpoint) -> None:
        """Raises InvalidConfig for an address that needs an api-version but has none."""
        base = urlsplit(endpoint.base_url)
        path = base.path.rstrip("/")
        version = parse_qs(base.query).get("api-version", [""])[0]
        if not version and not path.endswith("/v1"):
            raise InvalidConfig(
                (
                    f"{endpoint.name}: base_url has no api-version; end it with "
                    "/openai?api-version=2024-10-21 (or another version), or with /openai/v1",
                )
            )
        self._old = "" < version < SINCE and not path.endswith(MODEL_IN_BODY)
        newer = FOUNDRY if path.endswith("/models") else AZURE
        super().__init__(endpoint, DATED if self._old else newer)
        self._base = path.removesuffix("/openai")
        self._by_path = not path.endswith(MODEL_IN_BODY) and "/deployments/" not in path

    def credentials(self) -> Headers:
        key = self.endpoint.key.reveal()
        return (("api-key", key),) if key else ()

    def encode(self, request: Request, model: str) -> Outbound:
        if self._old and isinstance(request, ChatRequest):
            request = replace(request, max_tokens_field="max_tokens")
        outbound = super().encode(request, model)
        if not self._by_path:
            return outbound
        route = outbound.target.removeprefix(urlsplit(self.endpoint.base_url).path.rstrip("/"))
        deployment = quote(model, safe="")
        return replace(outbound, target=f"{self._base}/openai/deployments/{deployment}{route}")
