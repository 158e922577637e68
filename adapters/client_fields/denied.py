"""Fields that clients may not send to a backend unless its operator allows it, by adapter.

A field is withheld if it would let a client choose something that its key does not allow (a model,
a host, billing), access what belongs to another client (stored objects, caches, requests), or run
code or change settings for all clients. docs/adr/0021 explains the choices.
"""

from collections.abc import Mapping
from functools import cache

from strowger_gateway.adapters.client_fields.denied_model_servers import ENGINES
from strowger_gateway.adapters.client_fields.patterns import ClientFields, Withheld
from strowger_gateway.adapters.client_fields.reasons import (
    BILLING,
    CACHE,
    CODE,
    HOST,
    KEY,
    MODEL,
    STORED,
    rows,
)

OPENAI_DOCS = "https://github.com/openai/openai-openapi"
LITELLM = "https://docs.litellm.ai/docs/completion/input"
OPENROUTER_DOCS = "https://openrouter.ai/docs/api-reference/overview"
CLAUDE_DOCS = "https://docs.anthropic.com/en/api/messages"
BEDROCK_DOCS = "https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html"
GEMINI_DOCS = "https://ai.google.dev/api/generate-content"
AZURE_DOCS = "https://learn.microsoft.com/en-us/azure/ai-foundry/openai/references/on-your-data"
MISTRAL_DOCS = "https://docs.mistral.ai/api/"
GROQ_DOCS = "https://console.groq.com/docs/api-reference"
XAI_DOCS = "https://docs.x.ai/developers/rest-api-reference/inference/chat-completions"

NAMES = (
    *rows(
        HOST,
        LITELLM,
        "*_url",
        "*_urls",
        "*_uri",
        "*_host",
        "*_hosts",
        "*endpoint*",
        "*webhook*",
        "*callback*",
        "*.*_url",
        "*.*_urls",
        "*.*_uri",
        "*.*_host",
        "*.*endpoint*",
        "*.*webhook*",
        "*.*callback*",
        "api_base",
        "url",
        "host",
        "proxy",
        "mcp_servers",
        "tools[].server_url",
        "tools[].connector_id",
        "tools[].*.server_url",
        "tools[].*.url",
    ),
    *rows(
        KEY,
        LITELLM,
        "*api_key*",
        "*.*api_key*",
        "authorization",
        "*_headers",
        "headers",
        "extra_query",
        "tools[].authorization",
        "tools[].headers",
    ),
    *rows(MODEL, LITELLM, "model", "models", "*_model", "*_models", "fallbacks", "model_list"),
    *rows(
        STORED,
        OPENAI_DOCS,
        "previous_response_id",
        "previous_interaction_id",
        "conversation*",
        "thread*",
        "assistant_id",
        "container",
        "*file_ids",
        "*vector_store*",
        "prompt",
        "messages[].audio.id",
        "messages[].content[].file.file_id",
        "messages[].content[].file_id",
        "tools[].container",
        "tools[].*file_ids",
        "tools[].*vector_store*",
        "tools[].*.*file_ids",
        "tools[].*.*vector_store*",
    ),
    *rows(STORED, OPENAI_DOCS, "store", "background", "deferred", harmless=(False,)),
    *rows(
        BILLING,
        OPENAI_DOCS,
        "service_tier",
        "serviceTier",
        harmless=("auto", "default", "standard", "standard_only"),
    ),
    *rows(CACHE, OPENAI_DOCS, "prompt_cache_key", "safety_identifier", optional=True),
)
"""Names with the same meaning everywhere, and OpenAI's fields that other vendors have adopted."""

RESPONSES_DOCS = "https://platform.openai.com/docs/api-reference/responses/create"
RESPONSES = (
    *rows(
        STORED,
        RESPONSES_DOCS,
        "tools[].container",
        harmless=("auto", "disabled", "1g"),
    ),
    *rows(
        STORED,
        RESPONSES_DOCS,
        "tools[].environment.container_id",
        "tools[].environment.file_ids",
        "tools[].environment.skills",
        "tools[].tunnel_id",
        "tools[].file_id",
        "tools[].*.file_id",
        "messages[].content[].container_id",
        "messages[].content[].environment.container_id",
        "messages[].content[].output.file_id",
    ),
    *rows(
        HOST,
        RESPONSES_DOCS,
        "tools[].environment.network_policy",
        "tools[].container.network_policy",
        "tools[].tools[].server_url",
        "tools[].tools[].connector_id",
        harmless=("disabled",),
    ),
    *rows(KEY, RESPONSES_DOCS, "tools[].tools[].authorization", "tools[].tools[].headers"),
    *rows(MODEL, RESPONSES_DOCS, "tools[].model", "tools[].svg.model"),
)
"""Of the Responses API's own tools, and the items that they leave in a conversation."""

SEARCH = (
    *rows(BILLING, OPENAI_DOCS, "web_search_options"),
    *rows(
        BILLING,
        OPENAI_DOCS,
        "prompt_cache_retention",
        harmless=("in_memory", "in-memory"),
        optional=True,
    ),
)

OPENROUTER = (
    *rows(MODEL, OPENROUTER_DOCS, "provider", "route", "plugins", "preset"),
    *rows(STORED, OPENROUTER_DOCS, "session_id", "trace"),
)

ANTHROPIC = (
    *rows(MODEL, CLAUDE_DOCS, "fallbacks"),
    *rows(HOST, CLAUDE_DOCS, "mcp_servers"),
    *rows(
        STORED,
        CLAUDE_DOCS,
        "container",
        "thread",
        "workspace_id",
        "user_profile_id",
        "diagnostics",
        "messages[].content[].source.file_id",
        "messages[].content[].file.file_id",
        "messages[].content[].file_id",
    ),
    *rows(BILLING, CLAUDE_DOCS, "inference_geo", "speed"),
    *rows(BILLING, CLAUDE_DOCS, "service_tier", harmless=("auto", "standard_only")),
)

BEDROCK = (
    *rows(
        "it replaces or removes the operator's guardrail",
        BEDROCK_DOCS,
        "guardrailConfig",
    ),
    *rows(STORED, BEDROCK_DOCS, "promptVariables"),
    *rows(BILLING, BEDROCK_DOCS, "serviceTier", "performanceConfig", "anthropic_beta"),
    *rows(
        BILLING,
        BEDROCK_DOCS,
        "additionalModelRequestFields.anthropic_beta",
        "additionalModelRequestFields.speed",
    ),
    *rows(HOST, BEDROCK_DOCS, "additionalModelRequestFields.mcp_servers"),
    *rows(STORED, BEDROCK_DOCS, "additionalModelRequestFields.container"),
)

GEMINI = (
    *rows(
        STORED,
        GEMINI_DOCS,
        "cachedContent",
        "messages[].content[].file.file_id",
        "messages[].content[].file.file_url",
        "tools[].fileSearch",
        "tools[].file_search",
        "tools[].retrieval",
    ),
    *rows(STORED, GEMINI_DOCS, "messages[].content[].file.file_data", address=True),
    *rows(BILLING, GEMINI_DOCS, "serviceTier", harmless=("unspecified", "standard")),
    *rows(HOST, GEMINI_DOCS, "tools[].mcpServers", "tools[].mcp_servers", "tools[].externalApi"),
)

AZURE = rows(HOST, AZURE_DOCS, "data_sources", "dataSources")

MISTRAL = (
    *rows(
        "it replaces the operator's guardrails",
        MISTRAL_DOCS,
        "guardrails",
    ),
    *rows(BILLING, MISTRAL_DOCS, "service_tier", harmless=("auto", "default")),
    *rows(CACHE, MISTRAL_DOCS, "prompt_cache_key", optional=True),
    *rows(
        STORED,
        MISTRAL_DOCS,
        "messages[].content[].file_id",
        "messages[].content[].file.file_id",
        "tools[].library_ids",
        "tools[].connector_id",
    ),
    *rows(HOST, MISTRAL_DOCS, "tools[].server_url", "tools[].authorization"),
)

COHERE = rows(
    "it lets one client overtake all others",
    "https://docs.cohere.com/reference/embed",
    "priority",
)

OLLAMA_DOCS = "https://github.com/ollama/ollama/blob/main/docs/api.md"
OLLAMA = (
    *rows(
        "it keeps the model in memory, or unloads it, for all clients", OLLAMA_DOCS, "keep_alive"
    ),
    *rows(
        "it reloads the model for all clients",
        OLLAMA_DOCS,
        *(
            f"options.{name}"
            for name in (
                "num_ctx",
                "num_batch",
                "num_gpu",
                "main_gpu",
                "num_thread",
                "numa",
                "low_vram",
                "f16_kv",
                "logits_all",
                "vocab_only",
                "use_mmap",
                "use_mlock",
                "draft_*",
            )
        ),
    ),
)

VLLMS_OWN = rows(
    "only vLLM and SGLang know it, and other servers reject it",
    "https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html",
    "stream_options.continuous_usage_stats",
    harmless=(False,),
    optional=True,
)

VENDORS: Mapping[str, tuple[Withheld, ...]] = {
    "anthropic": ANTHROPIC,
    "azure": (*AZURE, *SEARCH),
    "azure-responses": (*RESPONSES, *SEARCH),
    "bedrock": BEDROCK,
    "cerebras": rows(
        BILLING, "https://inference-docs.cerebras.ai/resources/openai", "queue_threshold"
    ),
    "cohere": COHERE,
    "dashscope": rows(
        BILLING,
        "https://docs.litellm.ai/docs/providers/dashscope",
        "enable_search",
        "search_options",
    ),
    "fireworks": (
        *rows(
            CACHE,
            "https://docs.fireworks.ai/tools-sdks/openai-compatibility",
            "prompt_cache_isolation_key",
            "session_id",
        ),
    ),
    "gemini": GEMINI,
    "groq": rows(MODEL, GROQ_DOCS, "compound_custom"),
    "lm-studio-responses": RESPONSES,
    "lm-studio": (
        *rows(
            "it keeps the model in memory, or unloads it, for all clients",
            "https://lmstudio.ai/docs/developer/openai-compat/chat-completions",
            "ttl",
        ),
        *rows(HOST, "https://lmstudio.ai/docs/developer/api-changelog", "integrations"),
    ),
    "minimax": rows(
        HOST, "https://platform.minimax.io/docs/api-reference/text-openai-api", "plugins"
    ),
    "mistral": MISTRAL,
    "moonshot": rows(
        CACHE, "https://platform.kimi.ai/docs/api/models-overview", "context_cache", "cache_id"
    ),
    "nvidia-nim": rows(
        CODE,
        "https://docs.nvidia.com/nim/large-language-models/latest/api-reference.html",
        "nvext",
        "guardrails",
        "chat_template",
    ),
    "ollama": OLLAMA,
    "ollama-responses": RESPONSES,
    "openai": SEARCH,
    "openai-responses": (*RESPONSES, *SEARCH),
    "openrouter": (*OPENROUTER, *SEARCH),
    "openrouter-responses": (*RESPONSES, *OPENROUTER, *SEARCH),
    "together": rows(
        MODEL, "https://github.com/togethercomputer/together-py", "safety_model", "compliance"
    ),
    "xai": rows(BILLING, XAI_DOCS, "search_parameters", "web_search_options"),
    "zai": rows(STORED, "https://docs.z.ai/guides/overview/concept-param", "request_id", "user_id"),
    # What else Claude offers here is in its adapter's list of absent fields.
    "vertex-anthropic": (),
    **ENGINES,
    "vllm-responses": (*RESPONSES, *ENGINES["vllm"]),
}
"""By adapter, in addition to `NAMES`, which applies to all that forward unknown fields."""

CLOSED = frozenset(
    [
        "anthropic",
        "bedrock",
        "cohere",
        "gemini",
        "mindie",
        "mistral",
        "ollama",
        "sglang",
        "tgi",
        "vertex-anthropic",
        "vllm",
    ]
)
"""They forward only listed fields, so a name means what their table says."""


def _union() -> tuple[Withheld, ...]:
    """Return one row per path, the first."""
    found: dict[str, Withheld] = {}
    for row in (
        *NAMES,
        *SEARCH,
        *OPENROUTER,
        *AZURE,
        *(one for t in ENGINES.values() for one in t),
    ):
        found.setdefault(row.path, row)
    return tuple(found.values())


ANY = ClientFields(_union())
"""Rules for an unknown server: it may be any self-hosted server, or another gateway."""


def withheld(adapter: str) -> ClientFields:
    """Return the rules of a built-in adapter, made when they are needed first."""
    return _rules(adapter if adapter in VENDORS else "")


@cache
def _rules(adapter: str) -> ClientFields:
    table = VENDORS.get(adapter, ())
    return ClientFields(table if adapter in CLOSED else (*table, *NAMES, *VLLMS_OWN))
