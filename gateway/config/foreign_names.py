"""Names that other gateways, or earlier versions, have for our keys, adapters and features.

They are for hints only.
"""

import re
from collections.abc import Iterable, Mapping

_TIMES = ("timeout_s", "deadline_s", "timeouts")
_TRIES = ("attempts", "retry")

FOREIGN_NAMES: Mapping[str, tuple[str, ...]] = {
    # Keys.
    "max_completion_tokens": ("max_tokens",),
    "max_new_tokens": ("max_tokens",),
    "timeout": _TIMES,
    "request_timeout": _TIMES,
    "stream_timeout": ("timeouts",),
    "num_retries": _TRIES,
    "max_retries": _TRIES,
    "retries": _TRIES,
    "on_status_codes": ("on",),
    "allowed_fails": ("min_requests", "breaker"),
    "threshold": ("failure_rate",),
    "cooldown_time": ("cooldown_s", "breaker"),
    "routing_strategy": ("policy",),
    "strategy": ("policy",),
    "context_window_fallbacks": ("fallback_by_error",),
    "content_policy_fallbacks": ("fallback_by_error",),
    "model_list": ("models",),
    "functions": ("models",),
    "targets": ("backends", "models"),
    "deployments": ("backends",),
    "endpoints": ("backends",),
    "model_name": ("name",),
    "api_base": ("base_url",),
    "endpoint": ("base_url",),
    "master_key": ("admin_key",),
    "virtual_keys": ("keys",),
    "database_url": ("url",),
    "redis": ("redis_url",),
    "redis_host": ("redis_url",),
    "share": ("weight",),
    "percent": ("share", "weight"),
    "rpm": ("requests",),
    "tpm": ("tokens",),
    "input_cost_per_token": ("input",),
    "output_cost_per_token": ("output",),
    "prompt": ("system",),
    "guardrails": ("harm_limits",),  # an experiment's, before 0.1.0
    # Policies.
    "simple-shuffle": ("weighted",),
    "loadbalance": ("weighted",),
    "random": ("weighted",),
    "round_robin": ("weighted",),
    "fallback": ("in_order",),
    "failover": ("in_order",),
    "priority": ("in_order",),
    "cost-based-routing": ("lowest_cost",),
    "latency-based-routing": ("lowest_latency",),
    # Adapters.
    "claude": ("anthropic",),
    "azure_openai": ("azure",),
    "azure-openai": ("azure",),
    "ark": ("volcengine",),
    "baidu": ("qianfan",),
    "byteplus": ("volcengine",),
    "doubao": ("volcengine",),
    "github": ("github-models",),
    "jina_ai": ("jina",),
    "oci_genai": ("oci",),
    "snowflake-cortex": ("snowflake",),
    "voyageai": ("voyage",),
    "workers-ai": ("cloudflare",),
    "anthropic_vertex": ("vertex-anthropic",),
    "anthropic-vertex": ("vertex-anthropic",),
    "aws_bedrock": ("bedrock",),
    "amazon": ("bedrock",),
    "google": ("gemini",),
    "vertex": ("gemini",),
    "vertex_ai": ("gemini",),
    "hosted_vllm": ("vllm",),
    "openai_compatible": ("openai",),
    # Features of a request.
    "vision": ("messages.image",),
    "image": ("messages.image",),
    "images": ("messages.image",),
    "image_url": ("messages.image",),
    "function_calling": ("tools",),
    "tool_calls": ("tools",),
    "tool_use": ("tools",),
    "json": ("response_format",),
    "json_mode": ("response_format",),
    "structured_output": ("response_format",),
    "reasoning": ("reasoning_effort",),
    "thinking": ("reasoning_effort",),
    # Error codes.
    "429": ("rate_limit_exceeded",),
    "content_policy": ("content_filter",),
    "content_policy_violation": ("content_filter",),
    "ContentPolicyViolationError": ("content_filter",),
    "context_length": ("context_length_exceeded",),
    "context_window_exceeded": ("context_length_exceeded",),
    "ContextWindowExceededError": ("context_length_exceeded",),
}

_VARIABLE = re.compile(
    r"(os\.environ/|env::?|env\.|process\.env\.)[A-Za-z_]\w*|\$[A-Z_][A-Z0-9_]*|\{\{.*\}\}"
)


def suggest(name: str, known: Iterable[str]) -> str:
    """Return the one of `known` that other gateways or earlier versions call `name`, or ""."""
    names = set(known)
    return next((ours for ours in FOREIGN_NAMES.get(name, ()) if ours in names), "")


def names_a_variable(secret: str) -> bool:
    """True if a credential is a variable in the syntax of LiteLLM, TensorZero, Bifrost or a shell.

    https://docs.litellm.ai/docs/proxy/configs, https://www.tensorzero.com/docs/gateway/configuration-reference
    """
    return _VARIABLE.fullmatch(secret) is not None
