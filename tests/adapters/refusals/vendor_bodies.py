"""Refusals as vendors send them, and whom each one concerns."""

import json
from collections.abc import Mapping

from msgspec import Struct

from strowger_gateway.schemas.errors import RefusalCause


class Sent(Struct, frozen=True, kw_only=True):
    """One error of a vendor. about: what it refuses; `None` if it is not a refusal.

    body: as JSON, or as text. source: where it was seen, or the vendor's documentation.
    """

    vendor: str
    adapter: str
    status: int
    body: object
    about: RefusalCause | None
    headers: Mapping[str, str] = {}
    source: str = ""

    @property
    def raw(self) -> bytes:
        text = self.body if isinstance(self.body, str) else json.dumps(self.body)
        return text.encode()


def _openai(message: str, **fields: object) -> object:
    known = {"type": "invalid_request_error", "param": None, "code": None}
    return {"error": {"message": message, **known, **fields}}


def _anthropic(message: str, kind: str = "invalid_request_error", **fields: object) -> object:
    error = {"type": kind, "message": message, **fields}
    return {"type": "error", "error": error, "request_id": "req_1"}


def _google(code: int, status: str, message: str, reason: str = "") -> object:
    info = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason}
    error = {"code": code, "message": message, "status": status}
    return {"error": {**error, "details": [info]} if reason else error}


def _amazon(name: str) -> dict[str, str]:
    return {"x-amzn-errortype": f"{name}:http://internal.amazon.com/coral/com.amazon.bedrock/"}


_QUOTA = "You exceeded your current quota, please check your plan and billing details."
_CREDIT = (
    "Your credit balance is too low to access the Anthropic API. "
    "Please go to Plans & Billing to upgrade or purchase credits."
)
_DENIED = "The caller does not have permission to execute the specified operation"

OPENAI = (
    Sent(
        vendor="OpenAI: unknown key",
        adapter="openai",
        status=401,
        body=_openai(
            "Incorrect API key provided: sk-abc***. You can find your API key at "
            "https://platform.openai.com/account/api-keys.",
            code="invalid_api_key",
        ),
        about="account",
    ),
    Sent(
        vendor="OpenAI: no credit",
        adapter="openai",
        status=429,
        body=_openai(_QUOTA, type="insufficient_quota", code="insufficient_quota"),
        about="account",
    ),
    Sent(
        vendor="OpenAI: no credit, as the Responses API says it",
        adapter="openai-responses",
        status=429,
        body=_openai(_QUOTA, type="insufficient_quota", code="credit_balance_exhausted"),
        about="account",
        source="https://help.openai.com/en/articles/6614457",
    ),
    Sent(
        vendor="OpenAI: spend limit",
        adapter="openai",
        status=429,
        body=_openai("The limit is reached.", code="project_spend_limit_exceeded"),
        about="account",
        source="https://developers.openai.com/api/docs/guides/spend-limits",
    ),
    Sent(
        vendor="OpenAI: country",
        adapter="openai",
        status=403,
        body=_openai(
            "Country, region, or territory not supported",
            type="request_forbidden",
            code="unsupported_country_region_territory",
        ),
        about="account",
    ),
    Sent(
        vendor="OpenAI: the project lacks the model",
        adapter="openai",
        status=403,
        body=_openai(
            "Project `proj_1` does not have access to model `gpt-4o`", code="model_not_found"
        ),
        about="model",
    ),
    Sent(
        vendor="OpenAI: unknown model",
        adapter="openai",
        status=404,
        body=_openai(
            "The model `gpt-9` does not exist or you do not have access to it.",
            code="model_not_found",
        ),
        about="model",
    ),
    Sent(
        vendor="OpenAI: a chat model asked for a completion",
        adapter="openai",
        status=404,
        body=_openai(
            "This is a chat model and not supported in the v1/completions endpoint. "
            "Did you mean to use v1/chat/completions?",
            param="model",
        ),
        about="request",
    ),
    Sent(
        vendor="OpenAI: a model of embeddings asked for a chat",
        adapter="openai",
        status=403,
        about="request",
        body={"error": {"message": "You are not allowed to sample from this model", "code": None}},
    ),
    Sent(
        vendor="OpenAI: a rate limit",
        adapter="openai",
        status=429,
        body=_openai("Rate limit reached for gpt-4o", code="rate_limit_exceeded"),
        about=None,
    ),
    Sent(
        vendor="OpenAI: a response that the client names",
        adapter="openai-responses",
        status=400,
        body=_openai(
            "Previous response with id 'resp_1' not found.",
            param="previous_response_id",
            code="previous_response_not_found",
        ),
        about=None,
    ),
    Sent(
        vendor="OpenAI: a model that a tool names",
        adapter="openai-responses",
        status=400,
        body=_openai("The model 'x' does not exist.", param="tools[0].model"),
        about=None,
    ),
    Sent(
        vendor="OpenAI: a file that the client names",
        adapter="openai",
        status=404,
        body=_openai("No such File object: file-abc"),
        about="unclear",
    ),
    Sent(
        vendor="OpenAI: a file with the words of a missing model as its name",
        adapter="openai",
        status=404,
        body=_openai("No such File object: The model `gpt-4o` does not exist"),
        about="unclear",
    ),
    Sent(
        vendor="Azure: wrong key",
        adapter="azure",
        status=401,
        body={"error": {"code": "401", "message": "Access denied due to invalid subscription key"}},
        about="account",
    ),
    Sent(
        vendor="Azure: a private network",
        adapter="azure",
        status=403,
        body={
            "error": {
                "code": "403",
                "message": "Access denied due to Virtual Network/Firewall rules.",
            }
        },
        about="account",
    ),
    Sent(
        vendor="Azure: no such deployment",
        adapter="azure",
        status=404,
        body={
            "error": {
                "code": "DeploymentNotFound",
                "message": "The API deployment for this resource does not exist.",
            }
        },
        about="model",
    ),
    Sent(
        vendor="Azure: the filter",
        adapter="azure",
        status=400,
        body=_openai("The response was filtered", param="prompt", code="content_filter"),
        about=None,
    ),
)

ANTHROPIC = (
    Sent(
        vendor="Anthropic: no credit",
        adapter="anthropic",
        status=400,
        body=_anthropic(_CREDIT),
        about="account",
        source="https://github.com/anthropics/claude-code/issues/66314",
    ),
    Sent(
        vendor="Anthropic: a field with these words as its name",
        adapter="anthropic",
        status=400,
        body=_anthropic(f"{_CREDIT}: Extra inputs are not permitted"),
        about=None,
    ),
    Sent(
        vendor="Anthropic: a role with these words as its name",
        adapter="anthropic",
        status=400,
        body=_anthropic(f'messages.1.role: Unexpected role "{_CREDIT}"'),
        about=None,
    ),
    Sent(
        vendor="Anthropic: the operator's own limit",
        adapter="anthropic",
        status=400,
        body=_anthropic(
            "You have reached your specified API usage limits. "
            "You will regain access on 2026-04-01 at 00:00 UTC."
        ),
        about="account",
        source="https://github.com/anthropics/claude-code/issues/38035",
    ),
    Sent(
        vendor="Anthropic: the limit of the month, as a 429",
        adapter="anthropic",
        status=429,
        body=_anthropic(
            "Usage is paused.",
            "rate_limit_error",
            details={"error_code": "enforced_spend_limit_reached"},
        ),
        about="account",
        source="https://docs.anthropic.com/en/api/errors",
    ),
    Sent(
        vendor="Anthropic: a rate limit",
        adapter="anthropic",
        status=429,
        body=_anthropic("Too many requests", "rate_limit_error", details={"error_code": "other"}),
        about=None,
    ),
    Sent(
        vendor="Anthropic: long context is not in the plan",
        adapter="anthropic",
        status=429,
        body=_anthropic("Extra usage is required for long context requests.", "rate_limit_error"),
        about=None,
        source="https://github.com/anthropics/claude-code/issues/29584",
    ),
    Sent(
        vendor="Anthropic: wrong key",
        adapter="anthropic",
        status=401,
        body=_anthropic("invalid x-api-key", "authentication_error"),
        about="account",
    ),
    Sent(
        vendor="Anthropic: no means of payment",
        adapter="anthropic",
        status=402,
        body=_anthropic("Your account has no means of payment.", "billing_error"),
        about="account",
    ),
    Sent(
        vendor="Anthropic: a right that the key lacks, perhaps to what the request names",
        adapter="anthropic",
        status=403,
        body=_anthropic(
            "Your API key does not have permission to use the specified resource.",
            "permission_error",
        ),
        about="unclear",
    ),
    Sent(
        vendor="Anthropic: unknown model",
        adapter="anthropic",
        status=404,
        body=_anthropic("model: claude-9", "not_found_error"),
        about="model",
    ),
    Sent(
        vendor="Anthropic: a file that the client names",
        adapter="anthropic",
        status=404,
        body=_anthropic("File not found: file_1", "not_found_error"),
        about="unclear",
    ),
    Sent(
        vendor="Vertex: no right to the model",
        adapter="vertex-anthropic",
        status=403,
        body=_google(
            403,
            "PERMISSION_DENIED",
            "Permission 'aiplatform.endpoints.predict' denied on resource "
            "'//aiplatform.googleapis.com/projects/p/models/m' (or it may not exist).",
            "IAM_PERMISSION_DENIED",
        ),
        about="model",
    ),
    Sent(
        vendor="Vertex: unknown model",
        adapter="vertex-anthropic",
        status=404,
        body=_google(404, "NOT_FOUND", "Publisher Model `projects/p/models/m` was not found"),
        about="model",
    ),
)

GOOGLE = (
    Sent(
        vendor="Gemini: wrong key",
        adapter="gemini",
        status=400,
        body=_google(400, "INVALID_ARGUMENT", "API key not valid.", "API_KEY_INVALID"),
        about="account",
    ),
    Sent(
        vendor="Gemini: location",
        adapter="gemini",
        status=400,
        body=_google(400, "FAILED_PRECONDITION", "User location is not supported for the API use."),
        about="account",
    ),
    Sent(
        vendor="Gemini: a file that is not ready",
        adapter="gemini",
        status=400,
        body=_google(400, "FAILED_PRECONDITION", "The File x is not in an ACTIVE state."),
        about="unclear",
    ),
    Sent(
        vendor="Gemini: a file that the client names",
        adapter="gemini",
        status=403,
        body=_google(
            403,
            "PERMISSION_DENIED",
            "You do not have permission to access the File x or it may not exist.",
        ),
        about="unclear",
    ),
    Sent(
        vendor="Gemini: a disabled service",
        adapter="gemini",
        status=403,
        body=_google(403, "PERMISSION_DENIED", "It is disabled.", "SERVICE_DISABLED"),
        about="account",
    ),
    Sent(
        vendor="Gemini: no prepaid credit",
        adapter="gemini",
        status=429,
        body=_google(
            429,
            "RESOURCE_EXHAUSTED",
            "Your prepayment credits are depleted. Please go to AI Studio at "
            "https://ai.studio/projects to manage your project and billing.",
        ),
        about="account",
    ),
    Sent(
        vendor="Gemini: a rate limit",
        adapter="gemini",
        status=429,
        body=_google(429, "RESOURCE_EXHAUSTED", "Resource has been exhausted."),
        about=None,
    ),
    Sent(
        vendor="Gemini: unknown model",
        adapter="gemini",
        status=404,
        body=_google(404, "NOT_FOUND", "models/gemini-9 is not found for API version v1beta."),
        about="model",
    ),
)

AMAZON = (
    Sent(
        vendor="Bedrock: wrong key",
        adapter="bedrock",
        status=403,
        headers=_amazon("UnrecognizedClientException"),
        body={"message": "The security token included in the request is invalid."},
        about="account",
    ),
    Sent(
        vendor="Bedrock: a model without access",
        adapter="bedrock",
        status=403,
        headers=_amazon("AccessDeniedException"),
        body={"message": "You don't have access to the model with the specified model ID."},
        about="model",
    ),
    Sent(
        vendor="Bedrock: the role may not use the model",
        adapter="bedrock",
        status=403,
        headers=_amazon("AccessDeniedException"),
        body={
            "message": "User: arn:aws:sts::1:assumed-role/r/s is not authorized to perform: "
            "bedrock:InvokeModel on resource: arn:aws:bedrock:eu-west-1::foundation-model/m"
        },
        about="model",
    ),
    Sent(
        vendor="Bedrock: the role may not use a guardrail that the request names",
        adapter="bedrock",
        status=403,
        headers=_amazon("AccessDeniedException"),
        body={
            "message": "User: arn:aws:sts::1:assumed-role/r/s is not authorized to perform: "
            "bedrock:ApplyGuardrail on resource: arn:aws:bedrock:eu-west-1:1:guardrail/g"
        },
        about="unclear",
    ),
    Sent(
        vendor="Bedrock: Anthropic's form",
        adapter="bedrock",
        status=404,
        headers=_amazon("ResourceNotFoundException"),
        body={"message": "Model use case details have not been submitted for this account."},
        about="model",
    ),
    Sent(
        vendor="Bedrock: unknown model",
        adapter="bedrock",
        status=400,
        headers=_amazon("ValidationException"),
        body={"message": "The provided model identifier is invalid."},
        about="model",
    ),
    Sent(
        vendor="Bedrock: the tokens of the day",
        adapter="bedrock",
        status=429,
        headers=_amazon("ThrottlingException"),
        body={"message": "Too many tokens per day, please wait before trying again."},
        about="account",
    ),
    Sent(
        vendor="Bedrock: throttled",
        adapter="bedrock",
        status=429,
        headers=_amazon("ThrottlingException"),
        body={"message": "Too many requests, please wait before trying again."},
        about=None,
    ),
    Sent(
        vendor="Bedrock: the request is invalid",
        adapter="bedrock",
        status=400,
        headers=_amazon("ValidationException"),
        body={"message": "messages.0.content: the provided model identifier is invalid."},
        about=None,
    ),
)
