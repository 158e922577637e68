"""Vendors that speak the OpenAI dialect, as rows: a base URL and how each one differs.

Only differences that a vendor documents, or that a recording shows, are written down.
"""

from typing import Literal

from msgspec import Struct

MaxTokensField = Literal["max_tokens", "max_completion_tokens"]

REFERENCE_ONLY = frozenset(
    {
        "top_k",
        "min_p",
        "repetition_penalty",
        "min_tokens",
        "no_repeat_ngram_size",
        "stop_token_ids",
        "bad_words",
        "ignore_eos",
        "beam_width",
        "length_penalty",
        "early_stopping",
        "priority",
    }
)
"""What our OpenAI surface takes beyond OpenAI's reference."""


class Vendor(Struct, frozen=True, kw_only=True):
    """One row.

    name:        what `adapter:` in the configuration says.
    base_url:    used where the configuration gives none.
    unsupported: fields that the vendor documents as refused or ignored, by schemas.fields.
    max_tokens:  the name of the bound where the client used neither; one it used is kept.
    base64:      base64 embeddings are float32, as OpenAI's are; elsewhere numbers are asked for.
    stream_usage: `stream_options.include_usage` is understood.
    completion, embeddings: the task is offered beside chat.
    stop, choices: the most stop strings and choices; `None`: no bound is known.
    """

    name: str
    base_url: str = ""
    unsupported: frozenset[str] = frozenset()
    max_tokens: MaxTokensField = "max_tokens"
    base64: bool = False
    stream_usage: bool = True
    completion: bool = True
    embeddings: bool = True
    stop: int | None = None
    choices: int | None = None


OPENAI = Vendor(
    name="openai",
    base_url="https://api.openai.com/v1",
    unsupported=REFERENCE_ONLY,
    max_tokens="max_completion_tokens",
    base64=True,
    stop=4,
    choices=128,
)
"""https://github.com/openai/openai-openapi"""

COMPATIBLE = Vendor(name="openai")
"""Any other server: what it does not know is its own to refuse, so all we can say is sent."""

VENDORS: tuple[Vendor, ...] = (
    # https://inference-docs.cerebras.ai/resources/openai
    Vendor(name="cerebras", base_url="https://api.cerebras.ai/v1", embeddings=False),
    # https://api-docs.deepseek.com/api/create-chat-completion
    Vendor(
        name="deepseek",
        base_url="https://api.deepseek.com",
        completion=False,
        embeddings=False,
        stop=16,
    ),
    # https://console.groq.com/docs/openai: these fields are a 400, `n` unless it is 1
    Vendor(
        name="groq",
        base_url="https://api.groq.com/openai/v1",
        unsupported=frozenset({"logprobs", "top_logprobs", "logit_bias", "n"}),
        completion=False,
        embeddings=False,
    ),
    # https://openrouter.ai/docs/api-reference/parameters
    Vendor(name="openrouter", base_url="https://openrouter.ai/api/v1"),
    # https://docs.together.ai/docs/openai-api-compatibility
    Vendor(name="together", base_url="https://api.together.xyz/v1"),
    # https://github.com/triton-inference-server/server/tree/main/python/openai, in front of
    # TensorRT-LLM: some of these are refused, and what is not made an input tensor is ignored
    Vendor(
        name="triton-openai",
        unsupported=REFERENCE_ONLY
        | {
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
        },
        embeddings=False,
    ),
    # https://docs.z.ai/api-reference/introduction
    Vendor(name="zai", base_url="https://api.z.ai/api/paas/v4"),
)
