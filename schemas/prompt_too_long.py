"""The error message for a prompt that is too long, the same for every backend.

The message contains the words that clients match, because few of them read the code: litellm
"this model's maximum context length is", langchain-openai "prompt is too long".
https://github.com/BerriAI/litellm/blob/main/litellm/litellm_core_utils/exception_mapping_utils.py
https://github.com/langchain-ai/langchain/blob/master/libs/partners/openai/langchain_openai/chat_models/base.py
"""

from typing import Final

from strowger_gateway.schemas.fields import Task

CONTEXT_LENGTH: Final = "context_length_exceeded"
"""OpenAI's error code. https://platform.openai.com/docs/guides/error-codes"""

PLACES: Final[dict[Task, str]] = {
    "chat": "messages",
    "completion": "prompt",
    "embeddings": "input",
    "tokens": "tokens",
    "rerank": "documents",
    "score": "documents",
    "classify": "input",
    "pool": "input",
    "moderate": "input",
}
"""By task, the field that holds the prompt."""


def too_long_message(more: str, limit: int | None = None) -> str:
    """limit: tokens, if known. more: the end of the message, or the vendor's message."""
    if limit is None:
        return f"the prompt is too long: this model's maximum context length is exceeded: {more}"
    return f"the prompt is too long: this model's maximum context length is {limit} tokens{more}"
