"""Every built-in adapter passes the contract that plug-in authors use."""

from functools import partial

import pytest
from msgspec import Raw

from strowger_gateway.adapters.capabilities import offered
from strowger_gateway.adapters.conformance.recordings import Recording, request_for
from strowger_gateway.adapters.conformance.translation_checks import Models
from strowger_gateway.adapters.openai.vendor_profiles import VENDORS
from strowger_gateway.adapters.registry import Registry
from strowger_gateway.adapters.testing import Check, contract, contract_endpoint
from strowger_gateway.schemas.fields import Task, task_of
from tests.adapters.traffic import traffic
from tests.examples import FirstOnly

REGISTRY = Registry(())
ROWS = {vendor.name for vendor in VENDORS}

# Without anthropic/count-tokens, another route, and anthropic/stream-spliced-message-start, in
# which a second answer starts after content of the first: an error (test_anthropic_decode.py).
CLAUDE = (
    "anthropic/cached-",
    "anthropic/chat-",
    "anthropic/error-",
    "anthropic/refusal",
    "anthropic/stop-",
    "anthropic/stream-max-",
    "anthropic/stream-refusal",
    "anthropic/stream-th",
    "anthropic/stream-to",
    "anthropic/structured-",
    "anthropic/stub-",
    "anthropic/thinking",
    "anthropic/tools-",
)
"""What an adapter of the Messages API reads."""

TRAFFIC: dict[str, tuple[str, ...]] = {
    "openai": (
        "openai/",
        "openai-compatible/",
        "huggingface/router",
        "ollama/v1",
        "tgi/v1-completions",
        "triton/openai",
    ),
    "anthropic": CLAUDE,
    "vertex-anthropic": (*CLAUDE, "anthropic/vertex-"),
    "cohere": ("cohere/",),
    "openai-responses": ("openai-responses/",),
    **{
        name: ("openai-responses/", f"{name}/")
        for name in (
            "azure-responses",
            "lm-studio-responses",
            "ollama-responses",
            "openrouter-responses",
            "vllm-responses",
        )
    },
    "azure": ("azure/",),
    # Without bedrock/count-tokens and bedrock/invoke-stream-claude, of unused routes, and
    # bedrock/stream-broken, which is not an event stream (test_bedrock_decode.py).
    "bedrock": (
        "bedrock/cache",
        "bedrock/converse",
        "bedrock/embeddings",
        "bedrock/error-",
        "bedrock/finish",
        "bedrock/guardrail",
        "bedrock/rerank",
        "bedrock/stream-tools",
        "bedrock/structured",
        "bedrock/thinking",
        "bedrock/tools",
    ),
    "databricks": ("databricks/",),
    "mistral": ("mistral/",),
    "mindie": (
        "mindie/chat-json-schema",
        "mindie/chat-length",
        "mindie/chat-stream-n2",
        "mindie/chat-tool",
        "mindie/infer-native",
        "mindie/stream-",
        "mindie/whole-",
        "mindie/error-",
    ),
    "triton": ("triton/generate", "triton/error-"),
    "triton-llmapi": ("triton/llm", "triton/error-"),
    # Without ollama/doc-generate-unload, a command instead of a request, and ollama/embeddings-old,
    # a route that `/api/embed` has replaced.
    "ollama": (
        "ollama/chat-",
        "ollama/generate-",
        "ollama/embed-",
        "ollama/error-",
        "ollama/doc-chat-",
        "ollama/doc-error-",
        "ollama/doc-stream-",
    ),
    # Without gemini/count-tokens, not an answer, gemini/finish-unexpected-tool-call, a failed
    # answer, and gemini/error-400-key, a 400 that the caller did not cause (test_gemini_ends).
    "gemini": (
        "gemini/cached-",
        "gemini/chat-",
        "gemini/embeddings-",
        "gemini/error-404",
        "gemini/error-429",
        "gemini/error-inside",
        "gemini/finish-max-",
        "gemini/finish-safety",
        "gemini/logprobs",
        "gemini/prompt-",
        "gemini/stream-",
        "gemini/structured-",
        "gemini/thinking-",
        "gemini/tools-",
    ),
    "azure-content-safety": ("azure-content-safety/",),
    "sglang": ("sglang/",),
    "vllm": ("vllm/",),
    # Without tgi/sagemaker, in which the prompt is part of the answer.
    "tgi": ("tgi/generate-", "tgi/error-", "tgi/v1-chat", "tgi/v1-tool"),
    "triton-tokens": ("triton/infer", "triton/error-"),
    "triton-tokens-decoupled": ("triton/tokens", "triton/error-"),
    **{name: (f"{name}/", f"openai-compatible/{name}-") for name in ROWS},
    "cerebras": (
        "cerebras/",
        "openai-compatible/cerebras",
        "openai-compatible/stream-no-done",
    ),
    "huggingface": ("huggingface/router",),
}
"""Whose answers an adapter must read, by the beginnings of their names."""

RERANKED: tuple[Task, ...] = ("rerank", "score")

MODELS: dict[str, dict[Task, Models]] = {
    "anthropic": {"chat": {"m": {}, "claude-3-7-sonnet-latest": {}}},
    "vertex-anthropic": {"chat": {"m": {}, "claude-sonnet-4-5@20250929": {}}},
    "dashscope": {task: {"m": {}, "qwen3-rerank": {}} for task in RERANKED},
    "bedrock": {
        "chat": {
            "m": {},
            "amazon.nova-2-lite-v1:0": {},
            "anthropic.claude-opus-4-6-v1": {},
            "anthropic.claude-sonnet-4-5-20250929-v1:0": {},
            "arn:aws:bedrock:eu-west-1::foundation-model/cohere.command-r-v1:0": {},
            "openai.gpt-oss-120b-1:0": {},
        },
        "embeddings": {
            "m": {},
            "amazon.nova-2-multimodal-embeddings-v1:0": {},
            "cohere.embed-v3": {"input_type": Raw(b'"search_query"')},
        },
    },
}
"""Where the model decides how a field is said: one for each way."""


VERTEX = "https://l-aiplatform.googleapis.com/v1/projects/p/locations/l/publishers/google"
"""Another base URL, by which adapter gemini addresses embeddings otherwise and sends a bearer."""

DIALECT = traffic("openai/chat-basic", "openai/completions-stream", "openai/embeddings")
"""What every row of the catalogue reads, of the tasks that it offers."""


UNMARKED = ("huggingface/router-cerebras-stream", "openai-compatible/stream-no-done")
"""Streams of other servers, which OpenAI itself would never end so."""


def recorded(name: str) -> list[Recording]:
    found = traffic(*TRAFFIC.get(name, ()))
    if name == "openai":
        found = [one for one in found if one.name not in UNMARKED]
    if name not in ROWS:
        return found
    supports = REGISTRY.build(name, contract_endpoint()).supports
    return found + [
        one for one in DIALECT if offered(supports, task_of(request_for(one))) is not None
    ]


FIRST = FirstOnly()
"""A recording that several vendors' adapters read is read by one of them by day."""


def checks() -> list[object]:
    vertex = contract(
        partial(REGISTRY.build, "gemini"),
        traffic("gemini/chat-", "gemini/embeddings-", "gemini/error-404", "gemini/stream-tool-p"),
        base_url=VERTEX,
        model="gemini-2.5-flash",
        models={"embeddings": {"text-embedding-005": {}, "gemini-embedding-001": {}}},
    )
    return [
        *(pytest.param(check, id=f"vertex-{check}") for check in vertex),
        *(
            pytest.param(check, id=f"{name}-{check}", marks=FIRST.marks(check.name, name))
            for name in REGISTRY.names
            for check in contract(
                partial(REGISTRY.build, name),
                recorded(name),
                models=MODELS.get(name),
                base_url=REGISTRY.base_url(name) or "https://backend.test/v1",
            )
        ),
    ]


@pytest.mark.parametrize("check", checks())
def test_contract(check: Check) -> None:
    check()
