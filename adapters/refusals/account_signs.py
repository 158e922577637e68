"""Signs that a vendor refuses the operator's account: its key, credit or quota."""

from typing import Final

from strowger_gateway.adapters.refusals.sign import RefusalSign

_GOOGLE: Final = "https://cloud.google.com/apis/design/errors"
_OPENAI: Final = "https://developers.openai.com/api/docs/guides/error-codes"
_DASHSCOPE: Final = "https://help.aliyun.com/en/model-studio/error-code"
_BEDROCK: Final = (
    "https://docs.aws.amazon.com/bedrock/latest/userguide/troubleshooting-api-error-codes.html"
)

ABOUT_THE_ACCOUNT: Final = (
    RefusalSign(
        vendor="OpenAI, and those who took over its codes",
        about="account",
        words=frozenset(
            {
                "account_deactivated",
                "billing_hard_limit_reached",
                "billing_not_active",
                "credit_balance_exhausted",
                "insufficient_quota",
                "invalid_api_key",
                "organization_spend_limit_exceeded",
                "organization_usage_limit_exceeded",
                "project_spend_limit_exceeded",
                "unauthenticated",
                "unsupported_country_region_territory",
            }
        ),
        sources=(_OPENAI, "https://developers.openai.com/api/docs/guides/spend-limits"),
    ),
    RefusalSign(
        vendor="Anthropic: credit is used up, or a limit of the operator's own",
        about="account",
        statuses=frozenset({400, 403, 429}),
        # Without a colon: Anthropic's errors about a field have its name and a colon in front.
        text=r"your credit balance is too low to access the [^:]*$"
        r"|you have reached your specified (workspace )?api usage limits[^:]*(\d\d:\d\d|$)"
        r"|this organization has been disabled[^:]*$",
        sources=(
            "https://github.com/anthropics/claude-code/issues/66314",
            "https://github.com/anthropics/claude-code/issues/38035",
            "https://docs.anthropic.com/en/api/errors",
        ),
    ),
    RefusalSign(
        vendor="Anthropic: types and codes of the account",
        about="account",
        words=frozenset({"authentication_error", "billing_error", "enforced_spend_limit_reached"}),
        sources=("https://docs.anthropic.com/en/api/errors",),
    ),
    RefusalSign(
        vendor="another Strowger, whose own account its vendor refuses",
        about="account",
        words=frozenset({"upstream_refused"}),
        text=r"\S+: its vendor refuses the gateway's own credentials or account",
        sources=("https://www.rfc-editor.org/rfc/rfc4918#section-11.4",),
    ),
    RefusalSign(
        vendor="another Strowger: any other refusal by its vendor",
        about="unclear",
        words=frozenset({"upstream_model_unknown", "upstream_refused"}),
        sources=("https://www.rfc-editor.org/rfc/rfc4918#section-11.4",),
    ),
    RefusalSign(
        vendor="Google: the reasons of its ErrorInfo",
        about="account",
        words=frozenset(
            {
                "api_key_expired",
                "api_key_invalid",
                "api_key_service_blocked",
                "billing_disabled",
                "consumer_invalid",
                "consumer_suspended",
                "service_disabled",
            }
        ),
        sources=(_GOOGLE,),
    ),
    RefusalSign(
        vendor="Gemini: location, unknown key, prepaid credit",
        about="account",
        statuses=frozenset({400, 403, 429}),
        text=r"user location is not supported for the api use"
        r"|method doesn't allow unregistered callers"
        r"|your prepayment credits are depleted",
        sources=(
            "https://ai.google.dev/gemini-api/docs/troubleshooting",
            "https://ai.google.dev/gemini-api/docs/billing",
        ),
    ),
    RefusalSign(
        vendor="Bedrock: the tokens of a day",
        about="account",
        statuses=frozenset({429}),
        text=r"too many tokens per day",
        sources=(_BEDROCK,),
    ),
    RefusalSign(
        vendor="Bedrock and STS: credentials",
        about="account",
        words=frozenset(
            {
                "expiredtokenexception",
                "missingauthenticationtokenexception",
                "unrecognizedclientexception",
            }
        ),
        sources=(_BEDROCK,),
    ),
    RefusalSign(
        vendor="xAI: an invalid key is a 400, exhausted credit a 403 or 429",
        about="account",
        statuses=frozenset({400, 403, 429}),
        text=r"incorrect api key provided(\.|: \S+) *(you can|$)"
        r"|your (newly created )?team( \S+)? (doesn'?t have any credits"
        r"|has either used all available credits)",
        sources=(
            "https://github.com/continuedev/continue/issues/10373",
            "https://github.com/warpdotdev/warp/issues/14863",
            "https://github.com/crmne/ruby_llm",
        ),
    ),
    RefusalSign(
        vendor="OpenRouter: the limit of the key",
        about="account",
        statuses=frozenset({403}),
        text=r"key limit exceeded",
        sources=("https://github.com/MCPJam/inspector/issues/1287",),
    ),
    RefusalSign(
        vendor="Azure: a private network",
        about="account",
        statuses=frozenset({403}),
        text=r"access denied due to virtual network",
        sources=(
            "https://learn.microsoft.com/en-us/azure/ai-services/cognitive-services-virtual-networks",
        ),
    ),
    RefusalSign(
        vendor="Groq: a restricted organisation, and its spend limit, both of them a 400",
        about="account",
        words=frozenset({"blocked_api_access", "organization_restricted"}),
        sources=(
            "https://console.groq.com/docs/spend-limits",
            "https://github.com/crewAIInc/crewAI/issues/783",
        ),
    ),
    RefusalSign(
        vendor="Fireworks: a suspended account is a 412",
        about="account",
        statuses=frozenset({412}),
        text=r"account \S+ is suspended",
        sources=("https://github.com/pollinations/pollinations/issues/12136",),
    ),
    RefusalSign(
        vendor="Together",
        about="account",
        words=frozenset({"credit_limit"}),
        sources=("https://github.com/expectedparrot/edsl/issues/2098",),
    ),
    RefusalSign(
        vendor="Cohere: the calls of a trial key in a month",
        about="account",
        statuses=frozenset({429}),
        text=r"you are using a trial key, which is limited to \d+ api calls / month",
        sources=("https://docs.cohere.com/docs/rate-limits",),
    ),
    RefusalSign(
        vendor="Moonshot",
        about="account",
        words=frozenset({"exceeded_current_quota_error", "invalid_authentication_error"}),
        sources=("https://platform.moonshot.ai/docs/api/errors",),
    ),
    RefusalSign(
        vendor="DashScope: arrears are a 400",
        about="account",
        words=frozenset({"accessdenied.unpurchased", "allocationquota.freetieronly", "arrearage"}),
        sources=(_DASHSCOPE,),
    ),
    RefusalSign(
        vendor="Z.ai and Zhipu: account inactive, locked, in arrears",
        about="account",
        statuses=frozenset({401, 403, 429}),
        words=frozenset({"1110", "1112", "1113"}),
        sources=("https://docs.z.ai/api-reference/api-code",),
    ),
    RefusalSign(
        vendor="MiniMax: the balance, at any status",
        about="account",
        text=r"insufficient balance( \(1008\))?$",
        sources=(
            "https://github.com/modelscope/modelscope/issues/1691",
            "https://github.com/MiniMax-AI/MiniMax-M2/issues/62",
            "https://platform.minimax.io/docs/api-reference/errorcode",
        ),
    ),
    RefusalSign(
        vendor="Snowflake: accounts on trial",
        about="account",
        statuses=frozenset({403}),
        text=r"this account is not allowed to access this endpoint",
        sources=("https://github.com/vllm-project/semantic-router/issues/3608",),
    ),
    RefusalSign(
        vendor="Volcengine Ark",
        about="account",
        words=frozenset({"accountoverdueerror"}),
        sources=("https://www.volcengine.com/docs/82379/1299023",),
    ),
    RefusalSign(
        vendor="SiliconFlow and Novita: the balance",
        about="account",
        statuses=frozenset({403}),
        words=frozenset({"30001", "not_enough_balance"}),
        sources=(
            "https://docs.siliconflow.com/en/faqs/error-code",
            "https://novita.ai/docs/api-reference/basic-error-code",
        ),
    ),
    RefusalSign(
        vendor="OpenRouter: the credit suffices for smaller requests",
        about="unclear",
        statuses=frozenset({402}),
        text=r"this request requires more credits|prompt tokens limit exceeded",
        sources=(
            "https://github.com/can1357/oh-my-pi/issues/9569",
            "https://github.com/anomalyco/opencode/issues/12219",
        ),
    ),
)
