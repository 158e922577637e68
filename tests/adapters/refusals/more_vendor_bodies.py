"""Refusals of vendors that speak OpenAI's dialect, Cohere's or Ollama's, as they send them."""

from strowger_gateway.schemas.errors import RefusalCause
from tests.adapters.refusals.vendor_bodies import AMAZON, ANTHROPIC, GOOGLE, OPENAI, Sent

_QUOTA = "You exceeded your current quota, please check your plan and billing details."
_DENIED = "The caller does not have permission to execute the specified operation"
_TEAM = "16f2151a-40f4-4a80-8ad0-cae00c27e8dd"


def _sent(
    vendor: str,
    adapter: str,
    status: int,
    about: RefusalCause | None,
    body: object,
    source: str = "",
) -> Sent:
    return Sent(
        vendor=vendor, adapter=adapter, status=status, about=about, body=body, source=source
    )


def _error(message: str, **fields: object) -> object:
    return {"error": {"message": message, **fields}}


OTHERS = (
    _sent(
        "DeepSeek: the balance",
        "deepseek",
        402,
        "account",
        _error("Insufficient Balance", type="unknown_error", code="invalid_request_error"),
        "https://github.com/Aider-AI/aider/issues/4851",
    ),
    _sent(
        "DeepSeek: unknown model",
        "deepseek",
        400,
        "model",
        _error("Model Not Exist", type="invalid_request_error", code="invalid_request_error"),
    ),
    _sent("Mistral: wrong key", "mistral", 401, "account", {"detail": "Unauthorized"}),
    _sent(
        "Mistral: unknown model",
        "mistral",
        400,
        "model",
        {"object": "error", "message": "Invalid model: x", "type": "invalid_model", "code": "1500"},
    ),
    _sent("Cohere: wrong key", "cohere", 401, "account", {"message": "invalid api token"}),
    _sent("Cohere: wrong key, as a 498", "cohere", 498, "account", {"message": "invalid token"}),
    _sent(
        "Cohere: the calls of a month",
        "cohere",
        429,
        "account",
        {
            "message": "You are using a Trial key, which is limited to 1000 API calls / month. "
            "You can continue to use the Trial key for free or upgrade to a Production key"
        },
    ),
    _sent(
        "Cohere: the calls of a minute",
        "cohere",
        429,
        None,
        {"message": "You are using a Trial key, which is limited to 20 API calls / minute."},
    ),
    _sent(
        "Cohere: unknown model",
        "cohere",
        404,
        "model",
        {"message": "model 'x' not found, make sure the correct model ID was used"},
    ),
    _sent(
        "OpenRouter: wrong key", "openrouter", 401, "account", _error("User not found.", code=401)
    ),
    _sent(
        "OpenRouter: no credit",
        "openrouter",
        402,
        "account",
        _error("Insufficient credits. Add more using https://openrouter.ai/credits", code=402),
    ),
    _sent(
        "OpenRouter: credit for smaller requests only",
        "openrouter",
        402,
        "unclear",
        _error(
            "This request requires more credits, or fewer max_tokens. You requested up to 16384 "
            "tokens, but can only afford 3919.",
            code=402,
        ),
        "https://github.com/can1357/oh-my-pi/issues/9569",
    ),
    _sent(
        "OpenRouter: the key's limit",
        "openrouter",
        403,
        "account",
        _error("Key limit exceeded (total limit). Manage it using the keys page", code=403),
        "https://github.com/MCPJam/inspector/issues/1287",
    ),
    _sent(
        "OpenRouter: moderation",
        "openrouter",
        403,
        "request",
        _error(
            'openai/m requires moderation on OpenAI. Your input was flagged for "x".',
            code=403,
            metadata={"reasons": ["x"], "flagged_input": "y"},
        ),
    ),
    _sent(
        "OpenRouter: a guardrail",
        "openrouter",
        403,
        "request",
        _error("Request blocked: prompt injection patterns detected", code=403),
    ),
    _sent(
        "OpenRouter: unknown model",
        "openrouter",
        404,
        "model",
        _error("No endpoints found for acme/m.", code=404),
    ),
    _sent(
        "OpenRouter: no provider with tools",
        "openrouter",
        404,
        "request",
        _error("No endpoints found that support tool use.", code=404),
    ),
    _sent(
        "xAI: wrong key",
        "xai",
        400,
        "account",
        {
            "code": "Client specified an invalid argument",
            "error": "Incorrect API key provided: xa***yz. You can obtain an API key from "
            "https://console.x.ai.",
        },
    ),
    _sent(
        "xAI: no credit yet",
        "xai",
        403,
        "account",
        {
            "code": _DENIED,
            "error": "Your newly created team doesn't have any credits yet. You can purchase "
            "credits on the console.",
        },
    ),
    _sent(
        "xAI: credit used up",
        "xai",
        429,
        "account",
        {
            "code": "Some resource has been exhausted",
            "error": f"Your team {_TEAM} has either used all available credits or reached its "
            "monthly spending limit.",
        },
        "https://github.com/continuedev/continue/issues/10373",
    ),
    _sent(
        "xAI: its filter",
        "xai",
        403,
        "request",
        {
            "code": _DENIED,
            "error": "Content violates usage guidelines. Team: t, API key ID: k, Model: grok-4, "
            "Failed check: SAFETY_CHECK_TYPE_BIO",
        },
        "https://github.com/UKGovernmentBEIS/inspect_ai/pull/2267",
    ),
    _sent(
        "xAI: unknown model",
        "xai",
        404,
        "model",
        {
            "code": "Some requested entity was not found",
            "error": "The model m does not exist or your team has no access to it.",
        },
    ),
    _sent(
        "Groq: a restricted organisation",
        "groq",
        400,
        "account",
        _error(
            "Organization has been restricted.",
            type="invalid_request_error",
            code="organization_restricted",
        ),
        "https://github.com/crewAIInc/crewAI/issues/783",
    ),
    _sent(
        "Groq: spend limit",
        "groq",
        400,
        "account",
        _error("API access is blocked.", code="blocked_api_access"),
        "https://console.groq.com/docs/spend-limits",
    ),
    _sent(
        "Groq: a retired model",
        "groq",
        400,
        "model",
        _error("The model `x` has been decommissioned", code="model_decommissioned"),
    ),
    _sent(
        "Together: no credit",
        "together",
        402,
        "account",
        _error("Credit limit exceeded.", type="credit_limit", param=None, code=None),
        "https://github.com/expectedparrot/edsl/issues/2098",
    ),
    _sent(
        "Together: a rate limit with the type of a credit limit",
        "together",
        429,
        None,
        _error("You have been rate limited. Your rate limit is 60 queries", type="credit_limit"),
        "https://github.com/togethercomputer/MoA/issues/27",
    ),
    _sent(
        "Fireworks: suspended",
        "fireworks",
        412,
        "account",
        _error(
            "Account acme is suspended, possibly due to reaching the monthly spending limit.",
            param=None,
            code="PRECONDITION_FAILED",
            type="error",
        ),
        "https://github.com/pollinations/pollinations/issues/12136",
    ),
    _sent(
        "Fireworks: unknown model",
        "fireworks",
        404,
        "model",
        _error("Model not found, inaccessible, and/or not deployed", code="NOT_FOUND"),
    ),
    _sent(
        "Moonshot: the balance",
        "moonshot",
        429,
        "account",
        _error(
            "Your account is suspended due to insufficient balance",
            type="exceeded_current_quota_error",
        ),
    ),
    _sent(
        "DashScope: arrears",
        "dashscope",
        400,
        "account",
        _error(
            "Access denied, please make sure your account is in good standing.", code="Arrearage"
        ),
        "https://help.aliyun.com/en/model-studio/error-code",
    ),
    _sent(
        "DashScope: the tokens of a minute",
        "dashscope",
        429,
        None,
        _error(
            f"{_QUOTA} For details, see: https://help.aliyun.com/zh/model-studio/error-code",
            type="insufficient_quota",
            code="insufficient_quota",
        ),
        "https://www.alibabacloud.com/help/en/model-studio/rate-limit",
    ),
    _sent(
        "Z.ai: the balance",
        "zai",
        429,
        "account",
        _error("Insufficient balance or no resource package. Please recharge.", code="1113"),
    ),
    _sent(
        "Volcengine: overdue",
        "volcengine",
        403,
        "account",
        _error("The account has an overdue balance.", code="AccountOverdueError"),
    ),
    _sent(
        "SiliconFlow: the balance",
        "siliconflow",
        403,
        "account",
        {"code": 30001, "message": "Sorry, your account balance is insufficient", "data": None},
    ),
    _sent(
        "Novita: the balance",
        "novita",
        403,
        "account",
        {"code": 403, "reason": "NOT_ENOUGH_BALANCE", "message": "not enough balance"},
    ),
    _sent(
        "Hugging Face: the month's credits",
        "huggingface",
        402,
        "account",
        {"error": "You have exceeded your monthly included credits for Inference Providers."},
    ),
    _sent(
        "Databricks: a vendor behind it refuses the request",
        "databricks",
        403,
        "unclear",
        {"error_code": "PERMISSION_DENIED", "message": "Invalid request."},
    ),
    _sent(
        "Databricks: no such endpoint",
        "databricks",
        404,
        "model",
        {"error_code": "ENDPOINT_NOT_FOUND", "message": "The endpoint does not exist."},
    ),
    _sent(
        "xAI: wrong key, without the key",
        "xai",
        400,
        "account",
        {"code": "invalid-argument", "error": "Incorrect API key provided. You can obtain one."},
    ),
    _sent(
        "MiniMax: the balance is a 500",
        "minimax",
        500,
        "account",
        {"type": "error", "error": {"type": "api_error", "message": "insufficient balance (1008)"}},
    ),
    _sent(
        "Snowflake: an account on trial",
        "snowflake",
        403,
        "account",
        {"code": "003001", "message": "This account is not allowed to access this endpoint."},
    ),
    _sent(
        "Ark: a model that the account has paused",
        "volcengine",
        429,
        "model",
        _error("The model service has been paused.", code="SetLimitExceeded"),
    ),
    _sent("Perplexity: wrong key", "perplexity", 401, "account", "<html><title>401</title></html>"),
    _sent("Ollama: unknown model", "ollama", 404, "model", {"error": "model 'x' not found"}),
    _sent(
        "vLLM: unknown model",
        "vllm",
        404,
        "model",
        _error("The model `x` does not exist.", type="NotFoundError", param="model", code=404),
    ),
    _sent(
        "Ollama: embeddings by a model that has none",
        "ollama",
        501,
        "request",
        {"error": "This server does not support embeddings. Start it with `--embeddings`"},
    ),
    _sent("vLLM: a wrong path", "vllm", 404, "unclear", {"detail": "Not Found"}),
    _sent("MindIE: unknown model", "mindie", 404, "model", {"error": "Model not found."}),
    _sent("TGI: a wrong path", "tgi", 404, "unclear", ""),
    _sent("a web application firewall", "openai", 403, "unclear", "<title>403 Forbidden</title>"),
    _sent("a wrong address", "openai", 405, "address", "<title>405 Not Allowed</title>"),
    _sent("a retired model", "openai", 410, "model", _error("gone")),
)

SENT = (*OPENAI, *ANTHROPIC, *GOOGLE, *AMAZON, *OTHERS)
