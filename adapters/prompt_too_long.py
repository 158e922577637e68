"""Recognises vendors' errors about a prompt that is too long: one table for all adapters.

Few vendors have a code for it, so the message text is matched: clients that shorten a conversation
and retry, and `fallback_by_error`, need one code. Each pattern is from the vendor's own message and
long enough to match no other failure.
"""

import re
from typing import Final

from msgspec import Struct

from strowger_gateway.schemas.errors import UpstreamRejected
from strowger_gateway.schemas.prompt_too_long import CONTEXT_LENGTH, too_long_message


class MessagePattern(Struct, frozen=True, kw_only=True):
    """pattern: matched anywhere in the message, ignoring case. source: where it was seen."""

    vendor: str
    pattern: str
    source: str


_PI: Final = "https://github.com/badlogic/pi-mono/blob/main/packages/ai/src/utils/overflow.ts"
"""A project whose tests contain the messages."""

PATTERNS: Final[tuple[MessagePattern, ...]] = (
    MessagePattern(
        vendor="OpenAI, Azure, DeepSeek, OpenRouter, vLLM, SGLang, Mistral's models on Bedrock",
        pattern=r"(model|endpoint)'s maximum context length (is|of) \d+",
        source="https://github.com/baserow/baserow/issues/3011 "
        "https://github.com/refly-ai/refly/issues/1177",
    ),
    MessagePattern(
        vendor="OpenAI, newer models",
        pattern=r"input tokens exceed the configured limit|input exceeds the context window",
        source="https://github.com/langchain-ai/langchain/blob/master/libs/partners/openai/"
        "langchain_openai/chat_models/base.py",
    ),
    MessagePattern(
        vendor="Anthropic, also on Bedrock and Databricks",
        pattern=r"prompt is too long",
        source="https://github.com/anthropics/claude-code/issues/11281 "
        "https://github.com/boto/botocore/issues/3707",
    ),
    MessagePattern(
        vendor="Anthropic, with max_tokens",
        pattern=r"input length and `?max_tokens`? exceed context limit",
        source="https://github.com/egoist/chatwise-releases/issues/917",
    ),
    MessagePattern(
        vendor="Gemini",
        pattern=r"input token count.{0,40} exceeds the maximum number of tokens",
        source="https://github.com/google-gemini/gemini-cli/issues/4692",
    ),
    MessagePattern(
        vendor="Bedrock",
        pattern=r"input is too long for requested model|too many input tokens",
        source="https://repost.aws/knowledge-center/bedrock-validation-exception-errors",
    ),
    MessagePattern(
        vendor="Cohere",
        pattern=r"too many tokens: (total number of tokens|size limit exceeded)",
        source="https://github.com/cohere-ai/sandbox-topically/issues/4",
    ),
    MessagePattern(
        vendor="Mistral (code 3051)",
        pattern=r"too large for model with \d+ maximum context length",
        source="https://docs.mistral.ai/resources/known-limitations",
    ),
    MessagePattern(
        vendor="Ollama",
        pattern=r"input (length )?exceeds (the |maximum )?context length"
        r"|prompt too long; exceeded (max )?context length",
        source="https://github.com/n8n-io/n8n/issues/11144 "
        "https://github.com/nano-step/nano-brain/issues/208",
    ),
    MessagePattern(
        vendor="vLLM",
        pattern=r"model's context length is only \d+ tokens"
        r"|prompt \(length \d+\) is longer than the maximum model length",
        source="https://github.com/vllm-project/vllm/issues/13067",
    ),
    MessagePattern(
        vendor="SGLang, Together",
        pattern=r"is longer than the model's context length"
        r"|input length.{0,30} exceeds the maximum allowed (input )?length",
        source="https://github.com/sgl-project/sglang",
    ),
    MessagePattern(
        vendor="TGI",
        pattern=r"`inputs` tokens \+ `max_new_tokens` must be <="
        r"|`inputs` must have less than \d+ tokens",
        source="https://github.com/huggingface/text-generation-inference/blob/main/router/src/"
        "validation.rs",
    ),
    MessagePattern(
        vendor="MindIE",
        pattern=r"model's maximum input ids length cannot be greater than",
        source="https://gitcode.com/Ascend/MindIE-LLM (VerifyInputTokenSize)",
    ),
    MessagePattern(
        vendor="TensorRT-LLM on Triton",
        pattern=r"prompt length \(\d+\) exceeds maximum (input|sequence) length",
        source="https://github.com/triton-inference-server/tensorrtllm_backend/issues/565 "
        "https://github.com/triton-inference-server/tensorrtllm_backend/issues/141",
    ),
    MessagePattern(
        vendor="llama.cpp",
        pattern=r"exceeds the available context size",
        source=_PI,
    ),
    MessagePattern(
        vendor="LM Studio",
        pattern=r"model is loaded with context length of only \d+ tokens"
        r"|initial prompt is greater than the context length",
        source="https://github.com/cline/cline/issues/3664",
    ),
    MessagePattern(
        vendor="xAI",
        pattern=r"model's maximum prompt length is \d+",
        source=_PI,
    ),
    MessagePattern(
        vendor="Groq, Cerebras",
        pattern=r"reduce the length of the messages or completion",
        source="https://github.com/HKUSTDial/Alpha-SQL/issues/5",
    ),
    MessagePattern(
        vendor="Moonshot",
        pattern=r"request exceeded model token limit: \d+",
        source=_PI,
    ),
    MessagePattern(
        vendor="MiniMax",
        pattern=r"context window exceeds limit",
        source=_PI,
    ),
    MessagePattern(
        vendor="SiliconFlow",
        pattern=r"length of prompt_tokens \(\d+\) must be less than max_seq_len",
        source="https://wenku.csdn.net/answer/5r0ndbxt2j",
    ),
)
"""In no particular order: any match is enough."""

CODES: Final = frozenset(
    {CONTEXT_LENGTH, "model_context_window_exceeded", "exceed_context_size_error", "3051"}
)
"""Codes and types with this meaning: OpenAI's, Z.ai's, llama.cpp's, Mistral's."""

MAX_SCANNED: Final = 2_000
"""Characters of a message that are searched: an upstream may send any number."""

_SAYS: Final = re.compile("|".join(f"(?:{form.pattern})" for form in PATTERNS), re.IGNORECASE)

WORDS: Final = ("context", "token", "length", "too long")
"""Each pattern contains one of them. Most messages have none, and finding that out takes a
hundredth of the search for the patterns.
"""


def is_prompt_too_long(message: str, *codes: str | None) -> bool:
    """Return whether the failure is about the prompt's length. codes: its code and type."""
    start = message[:MAX_SCANNED].lower()
    if any(word in start for word in WORDS) and _SAYS.search(message, 0, MAX_SCANNED):
        return True
    return any(code is not None and code.lower() in CODES for code in codes)


def rejected_as_too_long(message: str, *, upstream: str) -> UpstreamRejected:
    """Return a 400 whatever the vendor's status, because OpenAI's clients check no other status.

    message: the vendor's own, which is included: it usually contains the numbers.
    """
    return UpstreamRejected(
        too_long_message(message),
        status=400,
        upstream=upstream,
        type="invalid_request_error",
        code=CONTEXT_LENGTH,
    )
