"""How a client is told that its prompt is too long, whichever backend says so.

The sentence has the words that clients look for, because few of them read the code: litellm
"this model's maximum context length is", langchain-openai "prompt is too long".
https://github.com/BerriAI/litellm/blob/main/litellm/litellm_core_utils/exception_mapping_utils.py
https://github.com/langchain-ai/langchain/blob/master/libs/partners/openai/langchain_openai/chat_models/base.py
"""

from typing import Final

from schemas.fields import Task

CONTEXT_LENGTH: Final = "context_length_exceeded"
"""OpenAI's code for it. https://platform.openai.com/docs/guides/error-codes"""

PLACES: Final[dict[Task, str]] = {
    "chat": "messages",
    "completion": "prompt",
    "embeddings": "input",
    "tokens": "tokens",
}
"""By task, the field that holds the prompt."""


def too_long_message(more: str, limit: int | None = None) -> str:
    """The sentence. limit: tokens, where it is known. more: its end, or what a vendor says."""
    if limit is None:
        return f"the prompt is too long: this model's maximum context length is exceeded: {more}"
    return f"the prompt is too long: this model's maximum context length is {limit} tokens{more}"
