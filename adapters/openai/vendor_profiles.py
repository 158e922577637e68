"""Vendors of the OpenAI dialect, one row each: base URL and differences.

Only differences that a vendor documents, or that its source or a recording shows, are listed
here; docs/providers/compatible.md contains this table and further findings.
"""

from operator import attrgetter
from typing import Final

from msgspec.structs import replace

from strowger_gateway.adapters.base import Range
from strowger_gateway.adapters.form_repairs.cache_limits import CACHE_LIMITS, CACHE_MEMBERS
from strowger_gateway.adapters.form_repairs.message_names import NAMES_OF_USERS
from strowger_gateway.adapters.form_repairs.presence import blank_text
from strowger_gateway.adapters.form_repairs.service_tiers import service_tiers
from strowger_gateway.adapters.form_repairs.silent_turns import EMPTY_TURNS
from strowger_gateway.adapters.form_repairs.strict_schemas import strict_schemas
from strowger_gateway.adapters.form_repairs.turn_order import alternating
from strowger_gateway.adapters.form_repairs.user_data import metadata_limits, user_limit
from strowger_gateway.adapters.model_limits.settings import least_tokens
from strowger_gateway.adapters.model_limits.vendors import (
    DASHSCOPE,
    DEEPSEEK,
    GROQ,
    MOONSHOT,
    OPENROUTER,
    XAI,
    ZAI,
)
from strowger_gateway.adapters.openai.model_families import is_claude, is_openais
from strowger_gateway.adapters.openai.more_vendor_profiles import MORE
from strowger_gateway.adapters.openai.repairs import (
    OPENAI_REPAIRS,
    OPENAIS_FORMS,
    OPENROUTERS_FIELDS,
    server_repairs,
)
from strowger_gateway.adapters.openai.vendor_profile import REFERENCE_ONLY, Source, VendorProfile
from strowger_gateway.adapters.repairs.hints import MESSAGE_NAMES
from strowger_gateway.adapters.repairs.private_fields import private_fields
from strowger_gateway.adapters.repairs.roles import ONE_SYSTEM
from strowger_gateway.adapters.repairs.rule import every_model
from strowger_gateway.adapters.tasks import moderate, pool, rerank, score
from strowger_gateway.adapters.tasks.score import score_by
from strowger_gateway.adapters.tool_repairs.named_tools import MOONSHOTS, OPENROUTERS, named_tools
from strowger_gateway.adapters.web_search.perplexity import PERPLEXITY_SEARCH
from strowger_gateway.adapters.web_search.rules import web_search
from strowger_gateway.adapters.web_search.targets import OPENROUTER as SEARCH_OF_OPENROUTER

OPENAI = VendorProfile(
    name="openai",
    tasks=(moderate.OPENAI,),
    marked=True,
    base_url="https://api.openai.com/v1",
    unsupported=REFERENCE_ONLY,
    max_tokens="max_completion_tokens",
    base64=True,
    stop=4,
    choices=128,
    thoughts=(),
    repairs=OPENAI_REPAIRS,
    sources=(Source(url="https://github.com/openai/openai-openapi", edition="2.3.0"),),
)

_CLAUDE_MARKS: Final = tuple(
    [
        replace(rule, models=is_claude, example_model="anthropic/claude-sonnet-4.5")
        for rule in (*CACHE_LIMITS, CACHE_MEMBERS)
    ]
)
"""Of a service that sends Claude's marks to several clouds."""

_ROWS: tuple[VendorProfile, ...] = (
    VendorProfile(
        name="cerebras",
        repairs=server_repairs(
            *strict_schemas("https://inference-docs.cerebras.ai/capabilities/structured-outputs")
        ),
        base_url="https://api.cerebras.ai/v1",
        unsupported=frozenset({"metadata"}),
        extra_fields=frozenset({"min_tokens"}),
        max_tokens="max_completion_tokens",
        embeddings=False,
        stop=4,
        ranges={"top_logprobs": Range(minimum=0, maximum=20)},
        thoughts=("reasoning",),
        sources=(
            Source(url="https://github.com/QwenLM/qwen-code/issues/11045", edition="2026-09"),
            Source(url="https://github.com/Cerebras/cerebras-cloud-sdk-python", edition="1.91.0"),
            Source(url="https://inference-docs.cerebras.ai/resources/openai", edition="2026-11"),
        ),
    ),
    VendorProfile(
        name="dashscope",
        tasks=(rerank.DASHSCOPE, score_by(rerank.DASHSCOPE)),
        repairs=server_repairs(*DASHSCOPE, marks=True),
        cache_marks=every_model,
        base_url="https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
        unsupported=frozenset({"input.tokens"}),
        completion=False,
        inputs=10,
        sources=(
            Source(
                url="https://www.alibabacloud.com/help/en/model-studio/deep-thinking",
                edition="2026-03",
            ),
            Source(
                url="https://alibabacloud.com/help/en/model-studio/embedding-interfaces-compatible-with-openai",
                edition="2025-12",
            ),
        ),
    ),
    VendorProfile(
        name="deepinfra",
        tasks=(rerank.DEEPINFRA, score.DEEPINFRA),
        base_url="https://api.deepinfra.com/v1/openai",
        completion=False,
        sources=(Source(url="https://deepinfra.com/docs/openai_api", edition="2026-11"),),
    ),
    VendorProfile(
        name="deepseek",
        repairs=server_repairs(*DEEPSEEK),
        base_url="https://api.deepseek.com",
        completion=False,
        embeddings=False,
        stop=16,
        prefix_path="/beta",
        thoughts=("reasoning_content",),
        sources=(
            Source(
                url="https://docs.camel-ai.org/reference/camel.configs.deepseek_config",
                edition="2026-11",
            ),
            Source(url="https://api-docs.deepseek.com/guides/thinking_mode", edition="2026-11"),
            Source(
                url="https://api-docs.deepseek.com/guides/chat_prefix_completion",
                edition="2026-11",
            ),
        ),
    ),
    VendorProfile(
        name="fireworks",
        repairs=server_repairs(
            private_fields(
                "https://docs.fireworks.ai/tools-sdks/openai-compatibility",
                "prompt_cache_isolation_key",
                "session_id",
            )
        ),
        base_url="https://api.fireworks.ai/inference/v1",
        unsupported=frozenset({"best_of", "suffix"}),
        extra_fields=frozenset({"top_k", "min_p", "repetition_penalty", "ignore_eos"}),
        names={"typical_p": "typical_p"},
        stream_usage=False,
        stop=4,
        choices=128,
        ranges={
            "top_k": Range(minimum=0, maximum=100),
            "min_p": Range(minimum=0, maximum=1),
        },
        sources=(
            Source(url="https://pypi.org/project/fireworks-ai/", edition="1.2.30"),
            Source(
                url="https://docs.fireworks.ai/tools-sdks/openai-compatibility", edition="2026-11"
            ),
            Source(
                url="https://docs.getbifrost.ai/providers/supported-providers/fireworks",
                edition="2026-11",
            ),
        ),
    ),
    VendorProfile(
        name="groq",
        repairs=server_repairs(
            *GROQ,
            replace(
                MESSAGE_NAMES,
                source="https://console.groq.com/docs/openai#currently-unsupported-openai-features",
            ),
            service_tiers(
                "https://console.groq.com/docs/service-tiers",
                dict.fromkeys(("default", "standard", "standard_only"), ""),
            ),
            *strict_schemas("https://console.groq.com/docs/structured-outputs#schema-requirements"),
        ),
        base_url="https://api.groq.com/openai/v1",
        unsupported=frozenset(
            {
                "logprobs",
                "top_logprobs",
                "logit_bias",
                "n",
                "best_of",
                "frequency_penalty",
                "presence_penalty",
                "metadata",
                "dimensions",
            }
        ),
        extra_fields=frozenset(),
        max_tokens="max_completion_tokens",
        completion=False,
        stop=4,
        trailer_field="x_groq",
        thoughts=("reasoning",),
        sources=(
            Source(url="https://github.com/janhq/jan/issues/8136", edition="2026-05"),
            Source(url="https://console.groq.com/docs/openai", edition="2026-11"),
            Source(url="https://github.com/groq/groq-python", edition="1.7.0"),
        ),
    ),
    VendorProfile(
        name="huggingface",
        base_url="https://router.huggingface.co/v1",
        completion=False,
        embeddings=False,
        stop=4,
        ranges={"top_logprobs": Range(minimum=0, maximum=5)},
        sources=(
            Source(url="https://huggingface.co/docs/inference-providers/index", edition="2026-11"),
            Source(
                url="https://huggingface.co/docs/inference-providers/tasks/chat-completion",
                edition="2026-11",
            ),
        ),
    ),
    VendorProfile(
        name="llama-cpp",
        tasks=(rerank.COMPATIBLE, score_by(rerank.COMPATIBLE)),
        repairs=server_repairs(*ONE_SYSTEM),
        base_url="http://localhost:8080/v1",
        count_path="/chat/completions/input_tokens",
        unsupported=frozenset({"best_of", "suffix", "echo", "user", "metadata"}),
        extra_fields=frozenset({"top_k", "min_p", "repetition_penalty", "ignore_eos"}),
        names={"repetition_penalty": "repeat_penalty", "typical_p": "typical_p"},
        ranges={
            "temperature": Range(minimum=0),
            "top_k": Range(minimum=0),
            "top_p": Range(minimum=0, maximum=1),
            "min_p": Range(minimum=0, maximum=1),
        },
        sources=(
            Source(
                url="https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md",
                edition="00dc805",
            ),
            Source(
                url="https://github.com/ggml-org/llama.cpp/blob/master/tools/server/server-schema.cpp",
                edition="0177c34",
            ),
        ),
    ),
    VendorProfile(
        name="lmdeploy",
        repairs=server_repairs(*ONE_SYSTEM),
        base_url="http://localhost:23333/v1",
        tasks=(pool.LMDEPLOY,),
        unsupported=frozenset(
            {"best_of", "parallel_tool_calls", "metadata", "dimensions", "input.tokens"}
        ),
        extra_fields=frozenset({"top_k", "min_p", "repetition_penalty", "ignore_eos"}),
        max_tokens="max_completion_tokens",
        sources=(
            Source(
                url="https://github.com/InternLM/lmdeploy/blob/main/lmdeploy/serve/openai/protocol.py",
                edition="0051af7",
            ),
        ),
    ),
    VendorProfile(
        name="lm-studio",
        repairs=server_repairs(*ONE_SYSTEM),
        base_url="http://localhost:1234/v1",
        unsupported=frozenset(
            {
                "n",
                "best_of",
                "logprobs",
                "top_logprobs",
                "parallel_tool_calls",
                "reasoning_effort",
                "user",
                "metadata",
            }
        ),
        extra_fields=frozenset({"top_k", "repetition_penalty"}),
        names={"repetition_penalty": "repeat_penalty"},
        single_max_tokens_field=True,
        sources=(
            Source(
                url="https://lmstudio.ai/docs/developer/openai-compat/chat-completions",
                edition="51c92c6",
            ),
            Source(url="https://lmstudio.ai/docs/developer/api-changelog", edition="0.3.29"),
        ),
    ),
    VendorProfile(
        name="minimax",
        base_url="https://api.minimax.io/v1",
        completion=False,
        embeddings=False,
        sources=(
            Source(
                url="https://platform.minimax.io/docs/api-reference/text-openai-api",
                edition="2026-11",
            ),
        ),
    ),
    VendorProfile(
        name="moonshot",
        repairs=server_repairs(
            private_fields(
                "https://platform.kimi.ai/docs/api/chat", "prompt_cache_key", "safety_identifier"
            ),
            *MOONSHOT,
            named_tools(MOONSHOTS),
        ),
        base_url="https://api.moonshot.ai/v1",
        completion=False,
        embeddings=False,
        thoughts=("reasoning_content",),
        sources=(
            Source(url="https://platform.kimi.ai/docs/api/models-overview", edition="2026-11"),
            Source(url="https://github.com/QuantumNous/new-api/issues/3121", edition="2026-03"),
        ),
    ),
    VendorProfile(
        name="nvidia-nim",
        repairs=server_repairs(
            *ONE_SYSTEM, blank_text("https://github.com/ogx-ai/ogx/issues/1751", with_calls=True)
        ),
        base_url="https://integrate.api.nvidia.com/v1",
        unsupported=frozenset({"input.tokens"}),
        sources=(
            Source(
                url="https://docs.nvidia.com/nim/nemo-retriever/text-embedding/2.0.0/use-the-api-openai.html",
                edition="2.0.0",
            ),
            Source(
                url="https://docs.nvidia.com/nim/large-language-models/latest/api-reference.html",
                edition="2026-11",
            ),
            Source(
                url="https://docs.pipecat.ai/api-reference/server/services/llm/nvidia",
                edition="2026-11",
            ),
        ),
    ),
    VendorProfile(
        name="openrouter",
        repairs=server_repairs(
            private_fields(
                "https://openrouter.ai/docs/guides/best-practices/prompt-caching",
                "prompt_cache_key",
                "safety_identifier",
            ),
            user_limit("https://openrouter.ai/docs/api/api-reference/chat", 128),
            metadata_limits("https://openrouter.ai/docs/api/api-reference/chat"),
            EMPTY_TURNS,
            named_tools(OPENROUTERS),
            *web_search(SEARCH_OF_OPENROUTER),
            *OPENAIS_FORMS,
            replace(
                least_tokens("https://github.com/vectorize-io/hindsight/issues/58", 16),
                models=is_openais,
                example_model="openai/gpt-4.1",
            ),
            *OPENROUTER,
            OPENROUTERS_FIELDS,
            *_CLAUDE_MARKS,
            marks=True,
        ),
        cache_marks=every_model,
        marked=True,
        base_url="https://openrouter.ai/api/v1",
        thoughts=("reasoning", "reasoning_content", "reasoning_details"),
        unsupported=frozenset({"n", "best_of"}),
        extra_fields=frozenset({"top_k", "min_p", "repetition_penalty"}),
        max_tokens="max_completion_tokens",
        sources=(
            Source(url="https://pypi.org/project/openrouter/", edition="1.3.84"),
            Source(url="https://openrouter.ai/docs/api/reference/streaming", edition="2026-11"),
            Source(
                url="https://openrouter.ai/docs/api/reference/errors-and-debugging",
                edition="2026-11",
            ),
        ),
    ),
    VendorProfile(
        name="perplexity",
        repairs=server_repairs(
            PERPLEXITY_SEARCH,
            alternating("https://github.com/perplexityai/api-discussion/issues/265"),
        ),
        base_url="https://api.perplexity.ai",
        cites_pages=True,
        unsupported=frozenset({"seed", "logit_bias", "user", "metadata"}),
        extra_fields=frozenset({"top_k"}),
        single_max_tokens_field=True,
        stream_usage=False,
        completion=False,
        embeddings=False,
        sources=(
            Source(url="https://pypi.org/project/perplexityai/", edition="0.46.1"),
            Source(
                url="https://docs.perplexity.ai/docs/sonar/openai-compatibility", edition="2026-11"
            ),
        ),
    ),
    VendorProfile(
        name="sambanova",
        base_url="https://api.sambanova.ai/v1",
        unsupported=frozenset(
            {
                "best_of",
                "frequency_penalty",
                "presence_penalty",
                "user",
                "metadata",
                "echo",
                "suffix",
                "prompt.tokens",
                "prompt.batch",
                "messages.remote_image",
                "dimensions",
                "input.tokens",
            }
        ),
        extra_fields=frozenset({"top_k", "repetition_penalty"}),
        sources=(Source(url="https://pypi.org/project/sambanova/", edition="1.13.0"),),
    ),
    VendorProfile(
        name="together",
        tasks=(rerank.TOGETHER, score_by(rerank.TOGETHER)),
        base_url="https://api.together.ai/v1",
        unsupported=frozenset(
            {
                "best_of",
                "parallel_tool_calls",
                "user",
                "metadata",
                "suffix",
                "prompt.tokens",
                "prompt.batch",
                "dimensions",
                "input.tokens",
            }
        ),
        extra_fields=frozenset({"top_k", "min_p", "repetition_penalty"}),
        single_max_tokens_field=True,
        counted_logprobs=True,
        ranges={"top_logprobs": Range(minimum=0, maximum=20)},
        sources=(Source(url="https://github.com/togethercomputer/together-py", edition="3.1.1"),),
    ),
    # In front of TensorRT-LLM: some of these are rejected; fields without an input tensor are
    # ignored.
    VendorProfile(
        name="triton-openai",
        repairs=server_repairs(*ONE_SYSTEM),
        unsupported=frozenset(
            {
                "n",
                "best_of",
                "logit_bias",
                "logprobs",
                "top_logprobs",
                "suffix",
                "echo",
                "response_format",
                "parallel_tool_calls",
                "reasoning_effort",
                "prompt.tokens",
                "prompt.batch",
                "messages.image",
                "messages.remote_image",
                "messages.audio",
            }
        ),
        extra_fields=frozenset(),
        embeddings=False,
        sources=(
            Source(
                url="https://github.com/triton-inference-server/server/tree/main/python/openai",
                edition="2026-07",
            ),
        ),
    ),
    VendorProfile(
        name="xai",
        repairs=server_repairs(
            *XAI, NAMES_OF_USERS, metadata_limits("https://github.com/tutti-os/tutti/pull/2066")
        ),
        marked=True,
        base_url="https://api.x.ai/v1",
        unsupported=frozenset({"logit_bias"}),
        completion=False,
        embeddings=False,
        sources=(
            Source(
                url="https://docs.x.ai/developers/rest-api-reference/inference/chat-completions",
                edition="2026-11",
            ),
            Source(
                url="https://github.com/vercel/ai/blob/main/packages/xai/src/convert-xai-chat-usage.ts",
                edition="0d67d0f",
            ),
        ),
    ),
    VendorProfile(
        name="zai",
        repairs=server_repairs(*ZAI),
        base_url="https://api.z.ai/api/paas/v4",
        completion=False,
        embeddings=False,
        sources=(Source(url="https://docs.z.ai/guides/overview/concept-param", edition="2026-11"),),
    ),
)

VENDORS: tuple[VendorProfile, ...] = tuple(sorted((*_ROWS, *MORE), key=attrgetter("name")))
