"""Signs that a vendor refuses the model or the request, or that a refusal is a rate limit."""

from typing import Final

from strowger_gateway.adapters.refusals.sign import RefusalSign

_OPENAI: Final = "https://developers.openai.com/api/docs/guides/error-codes"
_OPENROUTER: Final = "https://openrouter.ai/docs/api/reference/errors-and-debugging"
_DASHSCOPE: Final = "https://help.aliyun.com/en/model-studio/error-code"
_HUAWEI: Final = (
    "https://support.huaweicloud.com/intl/en-us/usermanual-maas-modelarts/maas-modelarts-0080.html"
)
_BEDROCK: Final = (
    "https://docs.aws.amazon.com/bedrock/latest/userguide/troubleshooting-api-error-codes.html"
)

ABOUT_THE_REQUEST: Final = (
    RefusalSign(
        vendor="xAI: its filter has the same status and code as a missing permission",
        about="request",
        statuses=frozenset({403}),
        text=r"content violates usage guidelines",
        sources=("https://github.com/UKGovernmentBEIS/inspect_ai/pull/2267",),
    ),
    RefusalSign(
        vendor="OpenRouter: moderation, and guardrails of the account",
        about="request",
        statuses=frozenset({403}),
        text=r".*(your input was flagged|requires moderation)|request blocked",
        sources=(_OPENROUTER,),
    ),
    RefusalSign(
        vendor="OpenRouter: no provider of the model has what the request needs",
        about="request",
        statuses=frozenset({404}),
        text=r"no endpoints found that (support|can handle)",
        sources=(_OPENROUTER,),
    ),
    RefusalSign(
        vendor="OpenAI: a model that another endpoint serves",
        about="request",
        statuses=frozenset({403, 404}),
        text=r"this (is (not )?a chat model|model is (not|only) supported in)"
        r"|you are not allowed to (generate embeddings|sample) from",
        sources=(
            "https://github.com/simonw/llm/issues/1236",
            "https://github.com/open-webui/open-webui/issues/2250",
            _OPENAI,
        ),
    ),
    RefusalSign(
        vendor="llama.cpp, also inside Ollama: a task that its model is not for is a 501",
        about="request",
        statuses=frozenset({501}),
        text=r"this server does not support (completions|chat|embeddings|reranking|infill)",
        sources=("https://github.com/ggml-org/llama.cpp/blob/master/tools/server/server.cpp",),
    ),
    RefusalSign(
        vendor="DeepInfra: a model without tools is a 405, which otherwise blames the address",
        about="request",
        statuses=frozenset({405}),
        text=r"tool calling is not supported for model",
        sources=("https://github.com/truefoundry/models/pull/944",),
    ),
    RefusalSign(
        vendor="vendors with a code for their filters",
        about="request",
        statuses=frozenset({403}),
        words=frozenset(
            {
                "content_policy_violation",
                "content_filter",
                "data_inspection_failed",
                "datainspectionfailed",
                "moderation",
                "modelarts.81011",
                "responsibleaipolicyviolation",
            }
        ),
        sources=(_OPENROUTER, _DASHSCOPE, _HUAWEI),
    ),
)

RATE_LIMITS: Final = (
    RefusalSign(
        vendor="DashScope: the tokens of a minute, with OpenAI's code for an exhausted quota",
        about="load",
        statuses=frozenset({429}),
        text=r"allocated quota exceeded"
        r"|you exceeded your current quota.*(aliyun|alibabacloud)\.com",
        sources=("https://www.alibabacloud.com/help/en/model-studio/rate-limit", _DASHSCOPE),
    ),
    RefusalSign(
        vendor="Together: the requests of a minute, with its type for exhausted credit",
        about="load",
        statuses=frozenset({429}),
        text=r"you have been rate limited",
        sources=("https://github.com/togethercomputer/MoA/issues/27",),
    ),
    RefusalSign(
        vendor="servers in front of Bedrock: its throttling as an invalid request",
        about="load",
        statuses=frozenset({400, 429}),
        text=r"too many requests, please wait before trying again",
        sources=("https://github.com/QwenLM/qwen-code/issues/11215",),
    ),
)

ABOUT_THE_MODEL: Final = (
    RefusalSign(
        vendor="vendors with a code for it",
        about="model",
        words=frozenset(
            {
                "deploymentnotfound",
                "endpoint_not_found",
                "invalid_model",
                "invalidendpoint.notfound",
                "invalidendpointormodel.notfound",
                "model_decommissioned",
                "model_not_available",
                "model_not_found",
                "model_not_supported",
                "model_permission_blocked_org",
                "model_permission_blocked_project",
                "model_terms_required",
                "modelarts.81009",
                "modelnotopen",
                "setlimitexceeded",
                "unknown_model",
            }
        ),
        sources=(
            _OPENAI,
            "https://learn.microsoft.com/en-us/azure/ai-services/openai/troubleshooting",
            "https://console.groq.com/docs/errors",
            "https://docs.mistral.ai/api/",
            "https://www.volcengine.com/docs/82379/1299023",
            "https://github.com/w4n9H/autocoder-nano/issues/3",
            _HUAWEI,
        ),
    ),
    RefusalSign(
        vendor="Z.ai and Zhipu: an unknown model is a 400",
        about="model",
        statuses=frozenset({400, 404}),
        words=frozenset({"1211"}),
        sources=(
            "https://docs.z.ai/api-reference/api-code",
            "https://github.com/JailbrokenAI/wallbreaker/issues/20",
        ),
    ),
    RefusalSign(
        vendor="NVIDIA's hosted NIM: the function behind a model is gone, or degraded",
        about="model",
        statuses=frozenset({400, 404}),
        text=r"function '\S+': not found for account|function id '\S+': degraded function",
        sources=(
            "https://github.com/Alishahryar1/free-claude-code/issues/956",
            "https://github.com/decolua/9router/issues/2527",
        ),
    ),
    RefusalSign(
        vendor="LM Studio: no model is loaded, or it cannot be loaded",
        about="model",
        statuses=frozenset({400, 404}),
        text=r"no models loaded\b|failed to load model\b",
        sources=(
            "https://github.com/tinyhumansai/openhuman/issues/4181",
            "https://github.com/continuedev/continue/issues/10150",
        ),
    ),
    RefusalSign(
        vendor="servers that only say so",
        about="model",
        statuses=frozenset({404}),
        text=r"(the )?(requested )?model\b.{0,300}"
        r"(not found|not exist|not available|not supported|inaccessible)"
        r"|model: \S+$|models/\S+ is not found|publisher model\b|request for unknown model"
        r"|unable to access model|not found the model|no endpoints found for \S+\.?$"
        r"|endpoint with name \S+ does not exist",
        sources=(
            "https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html",
            "https://docs.anthropic.com/en/api/errors",
            "https://ai.google.dev/gemini-api/docs/troubleshooting",
            "https://github.com/triton-inference-server/server",
            "https://docs.together.ai/docs/error-codes",
            _OPENROUTER,
        ),
    ),
    RefusalSign(
        vendor="DeepSeek, OpenRouter, SiliconFlow, Triton: an unknown model is a 400",
        about="model",
        statuses=frozenset({400}),
        text=r"model (does )?not exist\b[^:]*$|\S+ is not a valid model id$|unknown model: \S+$",
        sources=(
            "https://github.com/triton-inference-server/server/tree/main/python/openai",
            "https://github.com/continuedev/continue/issues/4061",
            _OPENROUTER,
            "https://docs.siliconflow.com/en/faqs/error-code",
        ),
    ),
    RefusalSign(
        vendor="Bedrock: an unknown model, or one that the account has not enabled",
        about="model",
        statuses=frozenset({400, 403, 404}),
        text=r"the provided model identifier is invalid"
        r"|invocation of model id \S+ with on-demand throughput isn.t supported"
        r"|you don't have access to the model|model access is denied"
        r"|model use case details have not been submitted"
        r"|this model version has reached the end of its life"
        r"|user: \S+ is not authorized to perform: bedrock:invokemodel\S* on resource:"
        r" \S+(foundation-model|inference-profile)/",
        sources=(
            _BEDROCK,
            "https://github.com/aws-samples/amazon-bedrock-samples",
        ),
    ),
    RefusalSign(
        vendor="Bedrock: the signature covers the model's name, which is part of the path",
        about="model",
        words=frozenset({"incompletesignatureexception", "invalidsignatureexception"}),
        sources=(_BEDROCK,),
    ),
    RefusalSign(
        vendor="OpenAI and Vertex: no access to the model",
        about="model",
        statuses=frozenset({403}),
        text=r"project `?\S+ does not have access to model"
        r"|permission 'aiplatform\.endpoints\.predict' denied on resource",
        sources=(_OPENAI, "https://cloud.google.com/vertex-ai/docs/general/troubleshooting"),
    ),
)
